"""Windowed E-divisive: cuts where the energy distance of two halves is largest, kept where a t test holds. Pure.

The energy statistic of Matteson and James, JASA 109(505), 2014, without their permutations; windows and t tests in
their place as in Hunter (Fleming et al., ICPE 2023), with p < 1e-5 and 1%. A window
begins at the last cut of the one before, or half a window on; only those that are not full are looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.harness.statistics import FloatArray
from tools.changepoints_elimination import Stretch, eliminate
from tools.changepoints_noise import Side, least_sigma, plain, t_test
from tools.changepoints_values import (
    FEWEST_ALONE,
    LEAST,
    Detection,
    Observed,
    Step,
    Values,
    found_in,
    point,
    too_few,
)

NAME = "e-divisive"
WINDOW = 50
P_WEAK = 1e-3  # of a cut within its window
P = 1e-5  # against the whole stretches between cuts
# Note: with 3, bursts of two slow commits made the vote report 5 per 1000 commits; with 6, none. Tried to inflate the
# test for AR(1) noise: F1 on annotated series fell from .850 to .836, as old steps below notice look like correlation.
FEWEST_A_SIDE = 6
FEWEST = 2 * FEWEST_A_SIDE


def detect(values: Values) -> Detection:
    """Return the change points of a whole series of log values."""
    return found_in(EDivisive(), values)


class EDivisive:
    """Windowed E-divisive, fed and asked."""

    def __init__(self) -> None:
        self._observed = Observed()
        self._sums, self._squares = [0.0], [0.0]  # of the points before each place, from the first one
        self._start = 0  # of the first window that is not full
        self._cuts: list[int] = []  # of the full windows

    def extend(self, values: Values) -> None:
        """Take further log values."""
        self._observed.extend(values)
        logs = self._observed.logs
        for value in (logs[len(self._sums) - 1 :] - logs[:1]).tolist():
            self._sums.append(self._sums[-1] + value)
            self._squares.append(self._squares[-1] + value * value)
        while logs.size - self._start >= WINDOW:
            found = cut(logs[self._start : self._start + WINDOW])
            self._cuts += [self._start + place for place in found]
            self._start += max(found[-1] if found else 0, WINDOW // 2)

    def detection(self) -> Detection:
        """Return what is found in all points so far."""
        size = self._observed.size
        rest = cut(self._observed.logs[self._start :])
        places = spaced(sorted({*self._cuts, *(self._start + place for place in rest)}))
        return Detection(
            points=tuple(
                point(self._observed.index(place), step, NAME)
                for place, step in eliminate(places, size, self._test, _stands)
            ),
            warnings=too_few(FEWEST, "change points by E-divisive", size),
        )

    def _test(self, stretch: Stretch) -> Step:
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


def _stands(step: Step) -> bool:
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
    if logs.size < FEWEST:
        return []
    place = best_cut(logs)
    least = least_sigma(logs)
    if _t_test(plain(logs[:place], least), plain(logs[place:], least)).p >= P_WEAK:
        return []
    return [*cut(logs[:place]), place, *(place + each for each in cut(logs[place:]))]


def best_cut(logs: FloatArray) -> int:
    """Return where the energy statistic n m / (n + m) * E of the two sides is largest."""
    size = logs.size
    distances = np.abs(logs[:, None] - logs[None, :])
    sums = np.cumsum(np.cumsum(distances, axis=0), axis=1)
    ends = np.arange(FEWEST_A_SIDE, size - FEWEST_A_SIDE + 1)
    left = sums[ends - 1, ends - 1]
    upper = sums[ends - 1, size - 1]
    between = upper - left
    right = sums[-1, -1] - 2 * upper + left
    n, m = ends, size - ends
    energy = 2 * between / (n * m) - left / (n * (n - 1)) - right / (m * (m - 1))
    return int(ends[np.argmax(n * m / size * energy)])
