"""Changes along a series, of all its commits at once. Pure: columns in, arrays of the same length out.

The same rules as `trends.compare`, which takes two measurements: a change is a ratio of speeds, new over old, of the
adjusted times where both have one, between times taken by one method. An entry is an index into the columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results.measurement import OUTCOMES, IntArray, Outcome
from kernel_velocity.series.columns import TIMES, Columns
from kernel_velocity.series.trends import Change

Entries = NDArray[np.int64]
Truth = NDArray[np.bool_]
Rows = NDArray[np.signedinteger] | slice
NONE = -1  # no entry to compare with
_MEASURED = OUTCOMES.index(Outcome.MEASURED)


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
    made = compared(Timed.of(vars(series), slice(None)), Timed.of(vars(series), base))
    both = made.both & (base != NONE)
    return Changes(
        base=np.where(both, base, NONE),
        ratio=np.where(both, made.ratio, np.nan),
        adjusted=both & made.adjusted,
        overlapping=made.overlapping,
        unknown=made.unknown,
    )


class Timed(NamedTuple):
    """What of some values says how they compare with others; all arrays have one shape, times are in s."""

    measured: Truth
    method: IntArray  # of one numbering; less than 0: unknown
    seconds: FloatArray
    low: FloatArray
    high: FloatArray
    adjusted: FloatArray
    adjusted_low: FloatArray
    adjusted_high: FloatArray

    @classmethod
    def of(cls, columns: Mapping[str, Any], rows: Rows) -> Timed:
        """Return some rows of columns, by the names of `Columns`."""
        times = (columns[name][rows] for name in TIMES)
        return cls(columns["outcome"][rows] == _MEASURED, columns["method"][rows], *times)


class Compared(NamedTuple):
    """Values against others, one by one."""

    both: Truth  # whether they have times, by one method or by one that is not known; else the others say nothing
    ratio: FloatArray  # new rate / old rate
    adjusted: Truth  # whether adjusted times were compared
    overlapping: Truth  # whether the two intervals overlap
    unknown: Truth  # whether one of them is not known


def compared(new: Timed, old: Timed) -> Compared:
    """Return values against others of the same shape."""
    both = new.measured & old.measured & ((new.method == old.method) | (new.method < 0) | (old.method < 0))
    adjusted = both & ~np.isnan(new.adjusted) & ~np.isnan(old.adjusted)
    now, then = _fairest(new, adjusted), _fairest(old, adjusted)
    return Compared(
        both=both,
        ratio=then[0] / now[0],
        adjusted=adjusted,
        overlapping=(now[1] <= then[2]) & (then[1] <= now[2]),
        unknown=np.isnan(now[1]) | np.isnan(now[2]) | np.isnan(then[1]) | np.isnan(then[2]),
    )


def _fairest(values: Timed, adjusted: Truth) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return times with their lower and upper bounds: adjusted ones where those are asked for."""
    if not adjusted.any():
        return values.seconds, values.low, values.high
    return (
        np.where(adjusted, values.adjusted, values.seconds),
        np.where(adjusted, values.adjusted_low, values.low),
        np.where(adjusted, values.adjusted_high, values.high),
    )


def alike(series: Columns, method: int) -> Truth:
    """Return which entries have a time that one taken by a method (an index, -1: not known) can be compared with."""
    like: Truth = series.is_measured & ((series.method == method) | (series.method < 0) | (method < 0))
    return like


def methods(series: Columns) -> list[int]:
    """Return the timing methods that entries of a series have (indices, -1: not known), each once."""
    found = series.method
    if len(found) and (found == found[0]).all():  # nearly always, and a tenth of the time
        return [int(found[0])]
    several: list[int] = np.unique(found).tolist()
    return several


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
    for method in methods(series):
        measured, rows = np.flatnonzero(alike(series, method)), series.method == method
        last = np.searchsorted(series.place[measured], wanted[rows], side="right") - 1
        found[rows] = np.where(last < 0, NONE, measured[last] if len(measured) else NONE)
    return found


def best_before(series: Columns) -> Entries:
    """Return, for every entry, the fastest comparable one before it: by the adjusted time where there is one."""
    times = np.where(np.isnan(series.adjusted), series.seconds, series.adjusted)
    found = np.full(len(series), NONE, dtype=np.int64)
    for method in methods(series):
        rows = series.method == method
        found[rows] = _running_best(np.where(alike(series, method), times, np.inf))[rows]
    return found


def _running_best(times: FloatArray) -> Entries:
    """Return, for every entry, the place of the least of those before it, the first of equal ones."""
    least = np.minimum.accumulate(times)
    earlier = np.concatenate(([np.inf], least[:-1]))  # the least of all before
    holder = np.maximum.accumulate(np.where(times < earlier, np.arange(len(times)), NONE))
    return np.concatenate(([NONE], holder[:-1])).astype(np.int64)
