"""Two windows side by side: Welch's t of the points behind a place against those before it. Pure.

The rule of Mozilla's Perfherder (at least 12 and up to 24 points back, 12 ahead) without its linear weights, with its
own threshold: t > 6 and a change of 1%. Every place is looked at once, and tested where the change is large enough: a
point more costs the same, however many there are.
"""

from __future__ import annotations

import numpy as np

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
        end = max(logs.size - AHEAD + 1, self._next)
        for place in _worth_a_test(logs, self._next, end) if end > self._next else ():
            found = _step(logs[max(place - BACK[1], 0) : place], logs[place : place + AHEAD])
            if found is not None:
                self._steps[place] = found
        self._next = end

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


def _worth_a_test(logs: FloatArray, begin: int, end: int) -> list[int]:
    """Return the places from `begin` up to `end` where the means differ by LEAST, and maybe some more.

    Means from running sums, which are cheap and not exact: what rounding may have done to them is allowed for.
    """
    first = max(begin - BACK[1], 0)
    values = logs[first : end - 1 + AHEAD] - logs[first : first + 1]
    sums = np.concatenate(([0.0], np.cumsum(values)))
    places = np.arange(begin, end) - first
    since = np.maximum(places - BACK[1], 0)
    back = (sums[places] - sums[since]) / (places - since)
    ahead = (sums[places + AHEAD] - sums[places]) / AHEAD
    rounding = 4 * sums.size * np.finfo(np.float64).eps * (1 + np.abs(sums).max() + np.abs(logs[first]))
    return [begin + int(each) for each in np.flatnonzero(np.abs(ahead - back) >= LEAST - rounding)]


def _strength(step: Step) -> float:
    return abs(step.after - step.before) / step.error


def _step(back: FloatArray, ahead: FloatArray) -> Step | None:
    least = least_sigma(back, ahead)
    found = t_test(plain(back, least), plain(ahead, least))
    return found if _strength(found) > T and abs(found.after - found.before) >= LEAST else None
