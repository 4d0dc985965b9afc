"""Windowed E-divisive: cuts where the energy distance of two halves is largest, kept where a t test holds. Pure.

The energy statistic of Matteson and James, JASA 109(505), 2014, without their permutations; windows and t tests in
their place as in Hunter (Fleming et al., ICPE 2023), with p < 1e-5 and 1%. A window
begins at the last cut of the one before, or half a window on; only those that are not full are looked at again.

Backward elimination: drop the weakest of proposed change points until all stand against their neighbours. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints.noise import Side, least_sigma, plain, t_test, yuen
from kernel_velocity.stats.changepoints.values import (
    FEWEST_ALONE,
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

NAME = "e-divisive"
WINDOW = 50
HALF_ON = WINDOW // 2  # points from one window to the next where the one has no cut
AT_ONCE = 32  # windows that are looked at together, at most: those behind a cut are looked at in vain
P_WEAK = 1e-3  # of a cut within its window
P = 1e-5  # against the whole stretches between cuts
# Note: with 3, bursts of two slow commits made the vote report 5 per 1000 commits; with 6, none. Tried to inflate the
# test for AR(1) noise: F1 on annotated series fell from .850 to .836, as old steps below notice look like correlation.
FEWEST_A_SIDE = 6
FEWEST = 2 * FEWEST_A_SIDE

REACH = 100  # points a side that are compared: levels of long ago say little, and cost time

Stretch = tuple[int, int, int]  # where the level before a change begins, the change, and where its level ends
Test = Callable[[Stretch], Step]


def detect(values: Values) -> Detection:
    """Return the change points of a whole series of log values."""
    return found_in(EDivisive(), values)


@dataclass(frozen=True, kw_only=True, eq=False)
class Reached:
    """How far the search for cuts came, and the tests of the last elimination."""

    start: int = 0  # of the first window that is not full
    cuts: tuple[int, ...] = ()  # of the full windows
    tests: Mapping[Stretch, Step] = field(default_factory=dict)
    is_quiet: bool = False  # whether the window that is not full is known to have no cut


class EDivisive:
    """Windowed E-divisive, fed and asked."""

    def __init__(self, observed: Observed | None = None, reached: Reached | None = None) -> None:
        """Begin: with no point, or with points and how far the search came in them."""
        self._observed = Observed() if observed is None else observed
        reached = reached or Reached()
        self._sums, self._squares = [0.0], [0.0]  # of the points before each place, from the first one
        self._start, self._cuts = reached.start, list(reached.cuts)
        self._known, self._used = reached.tests, dict(reached.tests)
        self._is_quiet = reached.is_quiet
        self.all_stand = False  # whether the answer was all cuts of the full windows, and no more
        self._search()

    def extend(self, values: Values) -> None:
        """Take further log values."""
        self._observed.extend(values)
        self._is_quiet = False
        self._search()

    def reached(self) -> Reached:
        """Return how far the search came."""
        return Reached(start=self._start, cuts=tuple(self._cuts), tests=self._used)

    def _search(self) -> None:
        logs = self._observed.logs
        fresh = logs[len(self._sums) - 1 :] - logs[:1]
        for sums, more in ((self._sums, fresh), (self._squares, fresh * fresh)):  # one after the other, as sums go on
            sums.extend(np.concatenate(([sums.pop()], more)).cumsum().tolist())
        while logs.size - self._start >= WINDOW:
            self._look(windows_of(logs[self._start :], WINDOW, HALF_ON)[:AT_ONCE])

    def _look(self, windows: FloatArray) -> None:
        """Take the cuts of full windows, each half a window on, up to the first that has one: the next begins there."""
        for number in np.flatnonzero(may_differ(windows)).tolist():
            if found := _split(windows[number]):
                start = self._start + number * HALF_ON
                self._cuts += [start + place for place in found]
                self._start = start + max(found[-1], HALF_ON)
                return
        self._start += len(windows) * HALF_ON

    def detection(self) -> Detection:
        """Return what is found in all points so far."""
        size = self._observed.size
        rest = [] if self._is_quiet else cut(self._observed.logs[self._start :])
        places = spaced(sorted({*self._cuts, *(self._start + place for place in rest)}))
        self._known, self._used = self._used, {}
        standing = eliminate(places, size, self.test, stands)
        self.all_stand = not rest and len(standing) == len(places)
        return Detection(
            points=tuple(point(self._observed.index(place), step, NAME) for place, step in standing),
            warnings=too_few(FEWEST, "change points by E-divisive", size),
        )

    def test(self, stretch: Stretch) -> Step:
        """Compare the levels on both sides of a change; of one that was looked at before, what came out is known."""
        found = self._used.get(stretch) or self._known.get(stretch)
        if found is None:
            found = self._tested(stretch)
        self._used[stretch] = found
        return found

    def _tested(self, stretch: Stretch) -> Step:
        start, place, end = stretch
        logs = self._observed.logs
        least = least_sigma(logs[max(start, place - WINDOW) : place], logs[place : min(end, place + WINDOW)])
        return _t_test(self._side(start, place, least), self._side(place, end, least))

    def _side(self, start: int, end: int, least: float) -> Side:
        """Return a stretch, in constant time."""
        size, total = end - start, self._sums[end] - self._sums[start]
        mean = total / size  # from the series' first point, as all the sums are
        squared = max(self._squares[end] - self._squares[start] - total * mean, least**2 * (size - 1))
        return Side(mean=mean + float(self._observed.logs[0]), squared=squared, kept=size, size=size)


def _t_test(first: Side, second: Side) -> Step:
    """Compare two levels; a young one has no variance of its own: Welch's t then has hardly a degree of freedom."""
    return t_test(first, second, pooled=min(first.size, second.size) < FEWEST_ALONE)


def stands(step: Step) -> bool:
    """Return whether a cut is kept."""
    return step.p < P and abs(step.after - step.before) >= LEAST


def spaced(places: Sequence[int]) -> list[int]:
    """Return the places without those less than FEWEST_A_SIDE behind the one before: two windows saw one cut."""
    kept: list[int] = []
    for place in places:
        if not kept or place - kept[-1] >= FEWEST_A_SIDE:
            kept.append(place)
    return kept


def cut(logs: FloatArray) -> list[int]:
    """Return the cuts of one window, ascending: the best one first, then those of both sides of it."""
    return _split(logs) if logs.size >= FEWEST and may_differ(logs[None])[0] else []


def _split(logs: FloatArray) -> list[int]:
    """Return the cuts of a window that `may_differ`."""
    place = best_cut(logs)
    least = least_sigma(logs)
    if _t_test(plain(logs[:place], least), plain(logs[place:], least)).p >= P_WEAK:
        return []
    return [*cut(logs[:place]), place, *(place + each for each in cut(logs[place:]))]


def best_cut(logs: FloatArray) -> int:
    """Return where the energy statistic n m / (n + m) * E of the two sides is largest."""
    size = logs.size
    distances = np.abs(logs[:, None] - logs)
    sums = distances.cumsum(axis=0).cumsum(axis=1)
    each = slice(FEWEST_A_SIDE - 1, size - FEWEST_A_SIDE)
    left, upper = sums.diagonal()[each], sums[each, -1]
    between = upper - left
    right = sums[-1, -1] - 2 * upper + left
    n = np.arange(FEWEST_A_SIDE, size - FEWEST_A_SIDE + 1)
    m = size - n
    energy = 2 * between / (n * m) - left / (n * (n - 1)) - right / (m * (m - 1))
    return FEWEST_A_SIDE + int(np.argmax(n * m / size * energy))


def may_differ(windows: FloatArray) -> npt.NDArray[np.bool_]:
    """Return in which windows of one size the t test of `_split` can hold at any place; in maybe some more.

    The t test takes a fraction of the time of the search for the best cut, and of all windows at once next to none. Its
    variances come from running sums, which are cheap and not exact: what rounding may have done to them is allowed for,
    and no scatter is taken for larger than it surely is.

    Args:
        windows: (w, n) log values, n >= FEWEST.

    Returns:
        (w,)
    """
    known = _places(windows.shape[1])
    values = windows - windows[:, :1]
    sums, squares = values.cumsum(axis=1), (values * values).cumsum(axis=1)
    each = slice(FEWEST_A_SIDE - 1, windows.shape[1] - FEWEST_A_SIDE)
    total, total_squares = sums[:, -1:], squares[:, -1:]
    left, right = sums[:, each], total - sums[:, each]
    before, after = left / known.left, right / known.right
    lost = known.rounding * total_squares
    left_rest = np.maximum(squares[:, each] - left * before - lost, known.left_least)
    right_rest = np.maximum(total_squares - squares[:, each] - right * after - lost, known.right_least)
    moved = np.abs(after - before) + known.rounding * (np.abs(windows[:, :1]) + np.sqrt(total_squares))
    may: npt.NDArray[np.bool_] = moved * moved > left_rest * known.left_share + right_rest * known.right_share
    return np.asarray(may.any(axis=1))


class _Places(NamedTuple):
    """What `may_differ` knows of the places in windows of a size; arrays have shape (places,)."""

    left: FloatArray  # points
    right: FloatArray
    left_least: FloatArray  # sums of squared deviations
    right_least: FloatArray
    left_share: FloatArray  # of those in the squared difference of the means that is just significant
    right_share: FloatArray
    rounding: float  # relative error of running sums, with much to spare


@cache
def _places(size: int) -> _Places:
    left = np.arange(FEWEST_A_SIDE, size - FEWEST_A_SIDE + 1, dtype=np.float64)
    right = size - left
    pooled = np.minimum(left, right) < FEWEST_ALONE  # as in `_t_test`
    common = (1 / left + 1 / right) / (size - 2)
    # Welch's test has no more degrees of freedom than Student's, so no smaller limit of t; a millionth is for rounding
    limit = (1 - 1e-6) * float(special.stdtrit(size - 2, P_WEAK / 2)) ** 2
    return _Places(
        left=left,
        right=right,
        left_least=(left - 1) * LEAST_SIGMA**2,
        right_least=(right - 1) * LEAST_SIGMA**2,
        left_share=limit * np.where(pooled, common, 1 / (left * (left - 1))),
        right_share=limit * np.where(pooled, common, 1 / (right * (right - 1))),
        rounding=64 * size * float(np.finfo(np.float64).eps),
    )


def eliminate(places: Sequence[int], size: int, test: Test, stands: Callable[[Step], bool]) -> list[tuple[int, Step]]:
    """Return the places that stand against the levels between their neighbours, with their steps.

    Args:
        places: proposed change points, ascending.
        size: of the series.
        test: compares the levels on both sides of a change.
        stands: whether a step is to be kept; of those that are not, the one with the largest p goes first.
    """
    left = list(places)
    while True:
        steps = [test(stretch) for stretch in zip([0, *left], left, [*left[1:], size], strict=False)]
        falling = [(step.p, number) for number, step in enumerate(steps) if not stands(step)]
        if not falling:
            return list(zip(left, steps, strict=True))
        del left[max(falling)[1]]


class YuenTests:
    """Yuen's tests in a growing series; those of the last elimination are remembered, for the next one."""

    def __init__(self, known: Mapping[Stretch, Step] = MappingProxyType({})) -> None:
        """Begin with the tests that are known of the series."""
        self._known: Mapping[Stretch, Step] = known
        self.used = dict(known)  # of the last elimination, by what is compared: up to REACH points a side

    def eliminate(
        self, places: Sequence[int], logs: FloatArray, stands: Callable[[Step], bool]
    ) -> list[tuple[int, Step]]:
        """Return the places that stand, with their steps.

        Args:
            places: proposed change points, ascending, each level of two points or more.
            logs: the whole series: the points of last time, and further ones.
            stands: as for the function of this name.
        """
        self._known, self.used = self.used, {}
        return eliminate(places, logs.size, lambda stretch: self._test(logs, stretch), stands)

    def _test(self, logs: FloatArray, stretch: Stretch) -> Step:
        start, place, end = max(stretch[0], stretch[1] - REACH), stretch[1], min(stretch[2], stretch[1] + REACH)
        found = self.used.get((start, place, end)) or self._known.get((start, place, end))
        if found is None:
            found = yuen(logs[start:place], logs[place:end])
        self.used[start, place, end] = found
        return found
