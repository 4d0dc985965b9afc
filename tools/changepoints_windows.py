"""Two windows side by side: Welch's t of the points behind a place against those before it. Pure.

The rule of Mozilla's Perfherder (at least 12 and up to 24 points back, 12 ahead) without its linear weights, with its
own threshold: t > 6 and a change of 1%. Every place is looked at once: a point more costs the same, however many
there are.
"""

from __future__ import annotations

from benchmarks.harness.statistics import FloatArray
from tools.changepoints_noise import least_sigma, plain, t_test
from tools.changepoints_values import LEAST, Detection, Observed, Step, Values, found_in, point, too_few

NAME = "two-window"
BACK = (12, 24)  # points, fewest and most
AHEAD = 12
T = 6.0
FEWEST = BACK[0] + AHEAD


def detect(values: Values) -> Detection:
    """Return the change points of a whole series of log values."""
    return found_in(TwoWindow(), values)


class TwoWindow:
    """The two-window t test, fed and asked."""

    def __init__(self) -> None:
        self._observed = Observed()
        self._next = BACK[0]  # the place to look at next
        self._steps: dict[int, Step] = {}  # where there is one

    def extend(self, values: Values) -> None:
        """Take further log values."""
        self._observed.extend(values)
        logs = self._observed.logs
        while self._next + AHEAD <= logs.size:
            place, self._next = self._next, self._next + 1
            found = _step(logs[max(place - BACK[1], 0) : place], logs[place : place + AHEAD])
            if found is not None:
                self._steps[place] = found

    def detection(self) -> Detection:
        """Return what is found in all points so far: of places less than AHEAD apart the one with the largest t."""
        kept: list[int] = []
        for place in sorted(self._steps, key=lambda each: (-_strength(self._steps[each]), each)):
            if all(abs(place - other) >= AHEAD for other in kept):
                kept.append(place)
        return Detection(
            points=tuple(point(self._observed.index(place), self._steps[place], NAME) for place in sorted(kept)),
            warnings=too_few(FEWEST, "two windows", self._observed.size),
        )


def _strength(step: Step) -> float:
    return abs(step.after - step.before) / step.error


def _step(back: FloatArray, ahead: FloatArray) -> Step | None:
    least = least_sigma(back, ahead)
    found = t_test(plain(back, least), plain(ahead, least))
    return found if _strength(found) > T and abs(found.after - found.before) >= LEAST else None
