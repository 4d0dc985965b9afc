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
        self._steps: list[Step | None] = [None] * BACK[0]  # of every place that has its points ahead; None: no step

    def extend(self, values: Values) -> None:
        """Take further log values."""
        self._observed.extend(values)
        logs = self._observed.logs
        for place in range(len(self._steps), logs.size - AHEAD + 1):
            self._steps.append(_step(logs[max(place - BACK[1], 0) : place], logs[place : place + AHEAD]))

    def detection(self) -> Detection:
        """Return what is found in all points so far: of places less than AHEAD apart the one with the largest t."""
        size = self._observed.size
        found = [place for place, step in enumerate(self._steps) if step is not None]
        kept: list[int] = []
        for place in sorted(found, key=lambda each: (-self._strength(each), each)):
            if all(abs(place - other) >= AHEAD for other in kept):
                kept.append(place)
        steps = [(place, self._steps[place]) for place in sorted(kept)]
        return Detection(
            points=tuple(point(self._observed.index(place), step, NAME) for place, step in steps if step is not None),
            warnings=too_few(FEWEST, "two windows", size),
        )

    def _strength(self, place: int) -> float:
        step = self._steps[place]
        return 0.0 if step is None else abs(step.after - step.before) / step.error


def _step(back: FloatArray, ahead: FloatArray) -> Step | None:
    least = least_sigma(back, ahead)
    found = t_test(plain(back, least), plain(ahead, least))
    moved = abs(found.after - found.before)
    return found if moved > T * found.error and moved >= LEAST else None
