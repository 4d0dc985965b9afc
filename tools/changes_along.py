"""Changes along a series, of all its commits at once. Pure: columns in, arrays of the same length out.

The same rules as `trends.compare`, which takes two measurements: a change is a ratio of speeds, new over old, of the
adjusted times where both have one, between times taken by one method. An entry is an index into the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.statistics import FloatArray
from tools.columns import Columns
from tools.trends import Change

Entries = NDArray[np.int64]
Truth = NDArray[np.bool_]
NONE = -1  # no entry to compare with


@dataclass(frozen=True, kw_only=True, eq=False)
class Changes:
    """The change of every entry against another one; all arrays have shape (commits,)."""

    base: Entries  # the other entry; NONE where nothing can be compared
    ratio: FloatArray  # new rate / old rate; NaN where nothing can be compared
    adjusted: Truth  # whether adjusted times were compared
    overlapping: Truth  # whether the two intervals overlap
    unknown: Truth  # whether one of them is not known

    @property
    def distinct(self) -> Truth:
        """Whether two known intervals lie apart."""
        apart: Truth = ~np.isnan(self.ratio) & ~self.unknown & ~self.overlapping
        return apart

    def at(self, entry: int, commits: Sequence[str]) -> Change | None:
        """Return the change of one entry; `commits` are the SHAs of the entries."""
        if self.base[entry] == NONE:
            return None
        return Change(
            ratio=float(self.ratio[entry]),
            against=commits[self.base[entry]],
            overlapping=None if self.unknown[entry] else bool(self.overlapping[entry]),
        )


def against(series: Columns, base: Entries) -> Changes:
    """Return the change of every entry against `base`, shape (commits,), NONE where there is none."""
    both = _comparable(series, base)
    adjusted = both & ~np.isnan(series.adjusted) & ~np.isnan(series.adjusted[base])
    new = np.where(adjusted, series.adjusted, series.seconds)
    old = np.where(adjusted, series.adjusted[base], series.seconds[base])
    low, high = (np.where(adjusted, one, other) for one, other in _intervals(series))
    old_low, old_high = (np.where(adjusted, one[base], other[base]) for one, other in _intervals(series))
    return Changes(
        base=np.where(both, base, NONE),
        ratio=np.where(both, old / new, np.nan),
        adjusted=adjusted,
        overlapping=(low <= old_high) & (old_low <= high),
        unknown=np.isnan(low) | np.isnan(high) | np.isnan(old_low) | np.isnan(old_high),
    )


def _intervals(series: Columns) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """Return the lower bounds, adjusted and raw, and the upper ones."""
    return (series.adjusted_low, series.low), (series.adjusted_high, series.high)


def _comparable(series: Columns, base: Entries) -> Truth:
    """Return which entries have a time, as their base has, by one method or by one that is not known."""
    measured = series.is_measured
    new, old = series.method, series.method[base]
    comparable: Truth = (base != NONE) & measured & measured[base] & ((new == old) | (new < 0) | (old < 0))
    return comparable


def alike(series: Columns, method: int) -> Truth:
    """Return which entries have a time that one taken by a method (an index, -1: not known) can be compared with."""
    like: Truth = series.is_measured & ((series.method == method) | (series.method < 0) | (method < 0))
    return like


def before(series: Columns) -> Entries:
    """Return, for every entry, the newest one before it that it can be compared with.

    Not the one measured last, whatever measured it: a single commit of another method would blind the next comparison.
    """
    return at_or_before(series, series.place - 1)


def at_or_before(series: Columns, places: NDArray[np.signedinteger]) -> Entries:
    """Return, for every entry, the newest comparable one at or before a place of the line, and before itself.

    Args:
        places: on the first-parent line, shape (commits,); negative: there is none.
    """
    wanted = np.minimum(places, series.place - 1)
    found = np.full(len(series), NONE, dtype=np.int64)
    for method in np.unique(series.method):
        measured, rows = np.flatnonzero(alike(series, method)), series.method == method
        last = np.searchsorted(series.place[measured], wanted[rows], side="right") - 1
        found[rows] = np.where(last < 0, NONE, measured[last] if len(measured) else NONE)
    return found


def best_before(series: Columns) -> Entries:
    """Return, for every entry, the fastest comparable one before it: by the adjusted time where there is one."""
    times = np.where(np.isnan(series.adjusted), series.seconds, series.adjusted)
    found = np.full(len(series), NONE, dtype=np.int64)
    for method in np.unique(series.method):
        rows = series.method == method
        found[rows] = _running_best(np.where(alike(series, method), times, np.inf))[rows]
    return found


def _running_best(times: FloatArray) -> Entries:
    """Return, for every entry, the place of the least of those before it, the first of equal ones."""
    least = np.minimum.accumulate(times)
    earlier = np.concatenate(([np.inf], least[:-1]))  # the least of all before
    holder = np.maximum.accumulate(np.where(times < earlier, np.arange(len(times)), NONE))
    return np.concatenate(([NONE], holder[:-1])).astype(np.int64)
