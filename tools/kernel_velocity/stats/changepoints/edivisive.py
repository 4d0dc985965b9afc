"""Windowed E-divisive: cuts where the energy distance of two sides is largest, kept if a t test confirms them. Pure.

The energy statistic of Matteson and James, JASA 109(505), 2014, without their permutations. In their place windows and
t tests as in Hunter (Fleming et al., ICPE 2023), with p < 1e-5 and 1%. A window begins at the last cut of the one
before, or half a window on. Full windows are searched once. Only the rest of the series is searched again.

The proposed cuts must then stand against their neighbours (`noise.eliminate`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints.noise import Side, Stretch, eliminate, least_sigma, plain, t_test
from kernel_velocity.stats.changepoints.values import (
    FEWEST_ALONE,
    MIN_EFFECT,
    MIN_SIGMA,
    Observed,
    Points,
    Step,
    Values,
    observed,
    windows_of,
)

NAME = "e-divisive"
WINDOW = 50
HALF_ON = WINDOW // 2  # points from one window to the next where the one has no cut
AT_ONCE = 32  # windows searched together, at most: those behind a cut are searched in vain
P_WEAK = 1e-3  # of a cut within its window
P = 1e-5  # against the whole stretches between cuts
# Note: with 3, bursts of two slow commits made the vote report 5 per 1000 commits; with 6, none. Tried to inflate the
# test for AR(1) noise: F1 on annotated series fell from .850 to .836, as old steps below notice look like correlation.
FEWEST_A_SIDE = 6
FEWEST = 2 * FEWEST_A_SIDE


@dataclass(frozen=True, kw_only=True, eq=False)
class Reached:
    """The state of the search for cuts, and the tests of the last elimination."""

    start: int = 0  # of the first window that is not full
    cuts: tuple[int, ...] = ()  # of the full windows
    tests: Mapping[Stretch, Step] = field(default_factory=dict)
    is_quiet: bool = False  # whether the window that is not full is known to have no cut (many.py)


def detect(values: Values) -> Points:
    """Return the change points of a series of log values, oldest first."""
    return search(observed(values))[0]


def search(series: Observed, known: Reached | None = None) -> tuple[Points, Reached]:
    """Return the change points and the state of the search, continued from a known state."""
    logs, known = series.logs, known or Reached()
    start, cuts = known.start, list(known.cuts)
    while logs.size - start >= WINDOW:
        more, start = _first_cuts(logs, start)
        cuts += more
    rest = [] if known.is_quiet else cut(logs[start:])
    places = [*cuts, *(start + place for place in rest)]
    steps, tests = eliminate(places, logs.size, Levels(logs).compare, stands, known=known.tests)
    return series.points(steps, NAME), Reached(start=start, cuts=tuple(cuts), tests=tests)


def _first_cuts(logs: FloatArray, start: int) -> tuple[list[int], int]:
    """Return the cuts of the first full window from `start` on that has some, and where the next window begins."""
    windows = windows_of(logs[start:], WINDOW, HALF_ON)[:AT_ONCE]
    for number in np.flatnonzero(may_differ(windows)).tolist():
        if cuts := _split(windows[number]):
            start += number * HALF_ON
            return [start + place for place in cuts], start + max(cuts[-1], HALF_ON)
    return [], start + len(windows) * HALF_ON


class Levels:
    """Compares levels of a series, each in constant time by running sums."""

    def __init__(self, logs: FloatArray) -> None:
        """Take the series."""
        self._logs = logs
        fresh = logs - logs[:1]
        self._sums, self._squares = (np.concatenate(([0.0], more)).cumsum().tolist() for more in (fresh, fresh * fresh))

    def compare(self, stretch: Stretch) -> Step:
        """Compare the levels on both sides of a change."""
        start, place, end = stretch
        near = self._logs[max(start, place - WINDOW) : place], self._logs[place : min(end, place + WINDOW)]
        least = least_sigma(*near)
        return _t_test(self.side(start, place, least), self.side(place, end, least))

    def side(self, start: int, end: int, least: float) -> Side:
        """Return a stretch, as `plain`."""
        size, total = end - start, self._sums[end] - self._sums[start]
        mean = total / size  # from the series' first point, as all the sums are
        squared = max(self._squares[end] - self._squares[start] - total * mean, least**2 * (size - 1))
        return Side(mean=mean + float(self._logs[0]), squared=squared, kept=size, size=size)


def _t_test(first: Side, second: Side) -> Step:
    """Compare two levels. A young one has no variance of its own: Welch's t has hardly a degree of freedom then."""
    return t_test(first, second, pooled=min(first.size, second.size) < FEWEST_ALONE)


def stands(step: Step) -> bool:
    """Return whether a cut is kept."""
    return step.p < P and abs(step.after - step.before) >= MIN_EFFECT


def cut(logs: FloatArray) -> list[int]:
    """Return the cuts of one window, ascending: the best one, and those of both sides of it."""
    return _split(logs) if logs.size >= FEWEST and may_differ(logs[None])[0] else []


def _split(logs: FloatArray) -> list[int]:
    """Return the cuts of a window that `may_differ`."""
    place = best_cut(logs)
    least = least_sigma(logs)
    if _t_test(plain(logs[:place], least), plain(logs[place:], least)).p >= P_WEAK:
        return []
    return [*cut(logs[:place]), place, *(place + behind for behind in cut(logs[place:]))]


def best_cut(logs: FloatArray) -> int:
    """Return where the energy statistic n m / (n + m) * E of the two sides is largest."""
    size = logs.size
    distances = np.abs(logs[:, None] - logs)
    sums = distances.cumsum(axis=0).cumsum(axis=1)
    places = slice(FEWEST_A_SIDE - 1, size - FEWEST_A_SIDE)
    left, upper = sums.diagonal()[places], sums[places, -1]
    between = upper - left
    right = sums[-1, -1] - 2 * upper + left
    n = np.arange(FEWEST_A_SIDE, size - FEWEST_A_SIDE + 1)
    m = size - n
    energy = 2 * between / (n * m) - left / (n * (n - 1)) - right / (m * (m - 1))
    return FEWEST_A_SIDE + int(np.argmax(n * m / size * energy))


def may_differ(windows: FloatArray) -> npt.NDArray[np.bool_]:
    """Return in which windows of one size the t test of `_split` can pass at any place, and maybe in some more.

    It takes next to no time for all windows at once, the search for the best cut much. Its variances come from running
    sums, with a margin for their rounding, and with the least scatter that `least_sigma` allows.

    Args:
        windows: (w, n) log values, n >= FEWEST.

    Returns:
        (w,)
    """
    of = _places(windows.shape[1])
    values = windows - windows[:, :1]
    sums, squares = values.cumsum(axis=1), (values * values).cumsum(axis=1)
    places = slice(FEWEST_A_SIDE - 1, windows.shape[1] - FEWEST_A_SIDE)
    total, total_squares = sums[:, -1:], squares[:, -1:]
    left, right = sums[:, places], total - sums[:, places]
    before, after = left / of.left, right / of.right
    lost = of.rounding * total_squares
    left_rest = np.maximum(squares[:, places] - left * before - lost, of.left_least)
    right_rest = np.maximum(total_squares - squares[:, places] - right * after - lost, of.right_least)
    moved = np.abs(after - before) + of.rounding * (np.abs(windows[:, :1]) + np.sqrt(total_squares))
    may: npt.NDArray[np.bool_] = moved * moved > left_rest * of.left_share + right_rest * of.right_share
    return np.asarray(may.any(axis=1))


class _Places(NamedTuple):
    """The places of cuts in windows of one size, for `may_differ`. Arrays have shape (places,)."""

    left: FloatArray  # points
    right: FloatArray
    left_least: FloatArray  # least sums of squared deviations
    right_least: FloatArray
    left_share: FloatArray  # of those in the squared difference of the means that is just significant
    right_share: FloatArray
    rounding: float  # relative error of running sums, with a wide margin


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
        left_least=(left - 1) * MIN_SIGMA**2,
        right_least=(right - 1) * MIN_SIGMA**2,
        left_share=limit * np.where(pooled, common, 1 / (left * (left - 1))),
        right_share=limit * np.where(pooled, common, 1 / (right * (right - 1))),
        rounding=64 * size * float(np.finfo(np.float64).eps),
    )
