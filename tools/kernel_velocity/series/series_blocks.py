"""The series of a layout some hundreds at a time, as matrices: what is asked of all of them is asked in a few steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_velocity.results.measurement import OUTCOMES, IntArray, Outcome
from kernel_velocity.series.changes import NONE, Entries, Timed, Truth
from kernel_velocity.series.layout import Layout
from kernel_velocity.series.packing import NOTHING

MOST_VALUES = 65_536  # of a block of several series: its columns fit into a processor's cache
MOST_SERIES = 256  # of a block: it has a column for each commit that measured any of them
_MEASURED = OUTCOMES.index(Outcome.MEASURED)


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """Some series: a row each; a column for each commit of the first-parent line that has a value of one of them."""

    layout: Layout
    rows: slice  # of the series that were asked for
    start: Entries  # (series,) where the values of each begin in the layout
    places: Entries  # (commits,) of the commits on the line, ascending
    slots: Entries  # (series, commits) where the values lie in the layout; NONE where there is none

    def column(self, name: str, nothing: int | float) -> NDArray[Any]:
        """Return one of the layout's columns, shape (series, commits); `nothing` where there is no value."""
        found: NDArray[Any] = self.layout.columns[name][self.slots]
        if not self._is_full:
            found[self.slots == NONE] = nothing
        return found

    @cached_property
    def _is_full(self) -> bool:
        return bool((self.slots != NONE).all())

    @cached_property
    def measured(self) -> Truth:
        """Which values are times."""
        return np.asarray(self.column("outcome", -1) == _MEASURED)

    @cached_property
    def methods(self) -> IntArray:
        """The numbers of the methods; NOTHING is one that is not known."""
        return self.column("method", NOTHING)

    @cached_property
    def times(self) -> NDArray[np.float64]:
        """The adjusted times where there are some, else the times, s."""
        adjusted = self.column("adjusted", np.nan)
        lacking = np.isnan(adjusted)
        return np.where(lacking, self.column("seconds", np.nan), adjusted)

    def alike(self, method: int) -> Truth:
        """Return which values are times that one taken by a method can be compared with."""
        if method == NOTHING or self._only in (method, NOTHING):
            return self.measured
        return np.asarray(self.measured & ((self.methods == method) | (self.methods == NOTHING)))

    @cached_property
    def _only(self) -> int | None:
        """The one method of all values; None where there are several."""
        first = int(self.methods.flat[0])
        return first if (self.methods == first).all() else None


def blocks(layout: Layout, numbers: NDArray[np.int64], upto: int | None = None) -> Iterator[Block]:
    """Yield series, by their numbers in the layout (each with a value on the line), in blocks.

    Args:
        upto: the last place of the first-parent line that is of interest; None: all.
    """
    start, stop = layout.start[numbers], layout.line_stop[numbers]
    for rows in _shares(stop - start):
        made = _block(layout, rows, start[rows], stop[rows] - start[rows])
        end = len(made.places) if upto is None else int(np.searchsorted(made.places, upto, side="right"))
        if end:
            yield Block(layout=layout, rows=rows, start=made.start, places=made.places[:end], slots=made.slots[:, :end])


def _shares(lengths: Entries) -> Iterator[slice]:
    """Yield which series are a block, given how many values each has."""
    first = held = 0
    for at, length in enumerate(lengths.tolist()):
        if at > first and (held + length > MOST_VALUES or at - first == MOST_SERIES):
            yield slice(first, at)
            first, held = at, 0
        held += length
    if first < len(lengths):
        yield slice(first, len(lengths))


def _block(layout: Layout, rows: slice, start: Entries, lengths: Entries) -> Block:
    total = int(lengths.sum())
    layout.held.used(total)
    slots = np.repeat(start - (np.cumsum(lengths) - lengths), lengths) + np.arange(total)
    places = layout.place[slots]
    known = np.zeros(int(places.max(initial=0)) + 1, np.bool_)
    known[places] = True
    used = np.flatnonzero(known)
    if total == len(start) * len(used):  # each series has a value of each commit
        matrix = slots.reshape(len(start), len(used))
    else:
        matrix = np.full((len(start), len(used)), NONE, np.int64)
        matrix[np.repeat(np.arange(len(start)), lengths), (np.cumsum(known) - 1)[places]] = slots
    return Block(layout=layout, rows=rows, start=start, places=used, slots=matrix)


def newest(which: Truth) -> NDArray[np.int32]:
    """Return, for each value of a block, the column of the newest one up to it that is among some; NONE: none is."""
    columns = np.arange(which.shape[1], dtype=np.int32)
    found: NDArray[np.int32] = np.maximum.accumulate(np.where(which, columns, np.int32(NONE)), axis=1)
    return found


def best(times: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return, for each time of a block, the column of the least one up to it, the first of equal ones; NONE: all inf.

    The least is never NaN: a time is known, and inf stands for what is none.
    """
    least = np.minimum.accumulate(times, axis=1)
    is_new = np.empty(times.shape, np.bool_)
    is_new[:, 0] = times[:, 0] < np.inf
    np.less(times[:, 1:], least[:, :-1], out=is_new[:, 1:])
    return newest(is_new)


def timed(layout: Layout, slots: Entries) -> Timed:
    """Return the values at some places in a layout as they are compared with others."""
    found = Timed.of(layout.columns, slots)
    return found._replace(method=found.method - 1)  # NOTHING is 0 there, and less than 0 here
