"""Choose which commits of a long range to measure: every n-th one, then halve where a series changed. Pure.

A change between two measured commits is searched in the commit between them, then in the half in which the series
moves more, and in both halves where it changes in both. So a change that is larger than the noise is found at its
commit, after as many commits as `every` has binary digits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kernel_velocity.engine.statistics import t_975
from kernel_velocity.names import CONTROLS
from kernel_velocity.past.past import Past
from kernel_velocity.results import blocks
from kernel_velocity.results.measurement import SeriesKey, is_enough
from kernel_velocity.stats.link import ONE_ROUND, Z

SMALLEST_CHANGE = math.log1p(0.01)  # a change of less than 1% is not searched, as in stats/two_samples.py
TimedSeries = tuple[SeriesKey, str]  # with the timing method


class LogTime(NamedTuple):
    """A series at a commit, as a logarithm."""

    value: float
    error: float  # standard error


Levels = Mapping[str, Mapping[TimedSeries, LogTime]]  # by commit


def wanted(line: Sequence[str], every: int, tried: Collection[str], levels: Levels) -> tuple[str, ...]:
    """Return the commits to measure next, newest first. Empty: no change is left to search.

    Args:
        line: commits, newest first. every: step of the first commits, from 1 on. The oldest one is among them.
        tried: commits that are measured or cannot be. levels: of those that are measured.
    """
    grid = sorted({*range(0, len(line), every), len(line) - 1})
    if missing := tuple(line[index] for index in grid if line[index] not in tried):
        return missing
    search = _Halving(line, tried, levels)
    ends = pairwise(index for index in grid if line[index] in levels)
    middles = {index for newer, older in ends for index in search.between(newer, older, set())}
    return tuple(line[index] for index in sorted(middles))


def from_middle(low: int, high: int) -> list[int]:
    """Return the indices between two, that in the middle first."""
    return sorted(range(low + 1, high), key=lambda index: abs(index - (low + high) / 2))


@dataclass(frozen=True)
class _Halving:
    line: Sequence[str]
    tried: Collection[str]
    levels: Levels

    def between(self, newer: int, older: int, inherited: Set[TimedSeries]) -> Iterator[int]:
        """Yield the indices of the commits to measure between two that are measured.

        Args:
            inherited: series that changed in a longer stretch, and moved more in this half of it.
        """
        changed = inherited | {series for series, size in self._moves(newer, older).items() if size >= 1}
        shas = ((index, self.line[index]) for index in from_middle(newer, older))
        middle = next((index for index, sha in shas if sha in self.levels or sha not in self.tried), None)
        if not changed or middle is None:
            return
        if self.line[middle] not in self.levels:
            yield middle
            return
        after, before = self._moves(newer, middle), self._moves(middle, older)
        later = {series for series in changed if after.get(series, 0) >= before.get(series, 0)}
        yield from self.between(newer, middle, later)
        yield from self.between(middle, older, changed - later)

    def _moves(self, newer: int, older: int) -> dict[TimedSeries, float]:
        """Return how far series move between two measured commits. From 1 on it is a change."""
        after, before = self.levels[self.line[newer]], self.levels[self.line[older]]
        return {
            series: abs(after[series].value - before[series].value)
            / max(SMALLEST_CHANGE, Z * math.hypot(after[series].error, before[series].error))
            for series in after.keys() & before.keys()
        }


def by_lane(keys: Iterable[SeriesKey], lanes: Iterable[str]) -> dict[str, list[SeriesKey]]:
    """Return the series of each of some lanes."""
    of_lanes: dict[str, list[SeriesKey]] = {lane: [] for lane in lanes}
    for key in keys:
        of_lanes.get(blocks.lane_of((key.benchmark, (key.implementation, key.case))), []).append(key)
    return of_lanes


def levels(past: Past, keys: Iterable[SeriesKey], commits: Collection[str], rounds: int) -> Levels:
    """Return the levels of series at those of some commits that have values of so many rounds, or of enough.

    PyTorch's implementations are left out, which no commit can change.
    """
    positions = [past.order[sha] for sha in commits if sha in past.order]
    by_commit: dict[str, dict[TimedSeries, LogTime]] = {}
    for key in keys:
        if key.implementation in CONTROLS:
            continue
        columns = past.columns(key)
        is_wanted = np.isin(columns.position, positions) & columns.is_measured
        for entry in np.flatnonzero(is_wanted).tolist():
            value = columns.measurement(entry, past.line)
            if not is_enough(value.rounds or 0, value.interval, rounds):
                continue
            time = value if value.adjusted is None else value.adjusted
            if not time.seconds:
                continue
            spread = None if time.interval is None else math.log(time.interval.high / time.interval.low) / 2
            error = ONE_ROUND if spread is None else spread / t_975(int(columns.rounds[entry]) - 1)
            by_commit.setdefault(value.commit, {})[key, value.method or ""] = LogTime(math.log(time.seconds), error)
    return by_commit
