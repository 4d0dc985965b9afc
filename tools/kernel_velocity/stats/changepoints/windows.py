"""Two windows side by side: Welch's t of the points behind a place against those before it. Pure.

The rule of Mozilla's Perfherder (at least 12 and up to 24 points back, 12 ahead) without its linear weights, with its
own threshold: t > 6 and a change of 1%. Every place is looked at once: a point more costs the same, however many there
are. Of many places at once t takes little time, but comes out as exact as sums of floats are; tested are the places
that can have the largest t among their neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints.noise import SAME, least_sigma, plain, t_test
from kernel_velocity.stats.changepoints.values import (
    LEAST,
    LEAST_SIGMA,
    Detection,
    Observed,
    Step,
    Values,
    found_in,
    point,
    too_few,
    windows_of,
)

NAME = "two-window"
BACK = (12, 24)  # points, fewest and most
AHEAD = 12
T = 6.0
FEWEST = BACK[0] + AHEAD

IntArray = npt.NDArray[np.int64]


def detect(values: Values) -> Detection:
    """Return the change points of a whole series of log values."""
    return found_in(TwoWindow(), values)


class TwoWindow:
    """The two-window t test, fed and asked."""

    def __init__(self) -> None:
        self._observed = Observed()
        self._next = BACK[0]  # the place to look at next
        self._strengths: dict[int, float] = {}  # about |t| of the places that may pass
        self._tested: dict[int, Step] = {}

    def extend(self, values: Values) -> None:
        """Take further log values."""
        self._observed.extend(values)
        logs = self._observed.logs
        end = max(logs.size - AHEAD + 1, self._next)
        if end > self._next:
            places = _worth_a_test(logs, self._next, end)
            found = _strengths(logs, places)
            may_pass = found > T * (1 - _inexactness(logs))
            self._strengths.update(zip(places[may_pass].tolist(), found[may_pass].tolist(), strict=True))
        self._next = end

    def detection(self) -> Detection:
        """Return what is found in all points so far: of places less than AHEAD apart the one with the largest t."""
        kept = sorted(self._kept())
        return Detection(
            points=tuple(point(self._observed.index(place), self._test(place), NAME) for place in kept),
            warnings=too_few(FEWEST, "two windows", self._observed.size),
        )

    def _kept(self) -> Iterator[int]:
        """Yield the places with a step that have no larger one near, by falling t; test no more than those need."""
        left = sorted(self._strengths.items(), key=lambda each: -each[1])
        nearly = 1 - 2 * _inexactness(self._observed.logs)
        while left:
            first = [place for place, strength in left if strength >= nearly * left[0][1]]  # any of these may be
            passing = [place for place in first if _is_step(self._test(place))]
            if not passing:
                left = left[len(first) :]
                continue
            largest = min(passing, key=lambda place: (-_strength(self._test(place)), place))
            yield largest
            left = [each for each in left if abs(each[0] - largest) >= AHEAD]

    def _test(self, place: int) -> Step:
        if place not in self._tested:
            self._tested[place] = _test(self._observed.logs, place)
        return self._tested[place]


def _worth_a_test(logs: FloatArray, begin: int, end: int) -> IntArray:
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
    return begin + np.flatnonzero(np.abs(ahead - back) >= LEAST - rounding)


def _strengths(logs: FloatArray, places: IntArray) -> FloatArray:
    """Return |t| at places, but for a share of `_inexactness`."""
    padding = BACK[1] - BACK[0]  # for places near the start
    padded = np.concatenate([np.full(padding, math.nan), logs])
    return strengths(windows_of(padded, BACK[1] + AHEAD)[places + padding - BACK[1]])[1]


def strengths(both: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return by how much the means of two windows differ and |t|, both (w,), but for rounding (`inexactness`).

    Args:
        both: (w, BACK[1] + AHEAD) log values, NaN where there are none.
    """
    least = _least_sigmas(both)
    (before, one), (after, other) = _sides(both[:, : BACK[1]], least), _sides(both[:, BACK[1] :], least)
    moved = np.abs(after - before)
    return moved, moved / np.sqrt(one + other)


def _sides(values: FloatArray, least: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the means of (w, n) sides, and their squared standard errors; (w,) `least` as for `plain`."""
    there = ~np.isnan(values)
    sizes = there.sum(axis=1)
    means = np.where(there, values, 0.0).sum(axis=1) / sizes
    rest = np.where(there, values - means[:, None], 0.0)
    squared = np.maximum((rest * rest).sum(axis=1), least * least * (sizes - 1))
    return means, squared / (sizes * (sizes - 1))


def _least_sigmas(values: FloatArray) -> FloatArray:
    """Return the `least_sigma` of each row, NaN being no value."""
    ordered = np.sort(values, axis=1)  # NaN last
    gaps = ordered[:, 1:] - ordered[:, :-1]
    ticks = np.where(gaps > SAME, gaps, math.inf).min(axis=1) / math.sqrt(12)
    return np.where(ticks < math.inf, np.maximum(ticks, LEAST_SIGMA), LEAST_SIGMA)


def _inexactness(logs: FloatArray) -> float:
    """Return what share of |t| rounding may take or add in `_strengths`, with much to spare.

    It moves means by some 10 units in the last place of the largest value; the standard deviations that they are held
    against are LEAST_SIGMA or more.
    """
    return float(inexactness(np.abs(logs).max(initial=0.0)))


def inexactness(largest: FloatArray) -> FloatArray:
    """Return `_inexactness` of series by their largest absolute value."""
    return 1e-9 + 1000 * (np.finfo(np.float64).eps * largest) / LEAST_SIGMA


def _strength(step: Step) -> float:
    return abs(step.after - step.before) / step.error


def _is_step(found: Step) -> bool:
    return _strength(found) > T and abs(found.after - found.before) >= LEAST


def _test(logs: FloatArray, place: int) -> Step:
    back, ahead = logs[max(place - BACK[1], 0) : place], logs[place : place + AHEAD]
    least = least_sigma(back, ahead)
    return t_test(plain(back, least), plain(ahead, least))
