"""Finds the change points of many series in two processes, and keeps what the next report need not find again.

Another process finds those of every second series while this one finds the others and makes the pages. What the last
report kept (tools/kept_changes.py) is asked a block of series at a time: what a point more leaves as it was is seen for
all of them at once (tools/changepoints_many.py).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tools import changepoints_many, changepoints_packed, making_apart, series_changes
from tools.changepoints_values import ChangePoint
from tools.columns import Columns
from tools.kept_changes import Known, Rewriting
from tools.measurements import SeriesKey

FEWEST = 250_000  # values in all; the change points of fewer are found sooner than told from process to process
BLOCK = 512  # series that are looked at together: 20 MB of arrays, where there are 500 values of each

Found = tuple[ChangePoint, ...]
Told = tuple[Found, list[tuple[str, bytes | None]]]  # of a series; what to keep, by name, None: what is kept of it


class Finder:
    """The change points of some series, found when they are asked for or before, a block of series at a time.

    When those of all blocks are found, what was found is kept.
    """

    def __init__(
        self, keys: Sequence[SeriesKey], series: Callable[[SeriesKey], Columns], folder: Path | None = None
    ) -> None:
        """Begin.

        Args:
            keys: of the series. series: returns the columns of one.
            folder: of what is kept between reports; None: nothing is.
        """
        self._series, self._known = series, Known(folder)
        self._rewriting = Rewriting(folder, self._known)
        self._blocks = [keys[start : start + BLOCK] for start in range(0, len(keys), BLOCK)]
        self._number = {key: number for number, block in enumerate(self._blocks) for key in block}
        self._found: dict[SeriesKey, Found] = {}
        self._left = set(range(len(self._blocks)))
        self._told = 0  # blocks that the other process has told of
        weakref.finalize(self, self._rewriting.end)
        self._is_apart = sum(len(series(key)) for key in keys) >= FEWEST and making_apart.is_possible()
        if self._is_apart:
            self._other = making_apart.Other(self._find_theirs)
            weakref.finalize(self, self._other.end)

    def of(self, key: SeriesKey) -> Found:
        """Return the change points of a series."""
        number = self._number[key]
        if number in self._left:
            block = self._blocks[number]
            self._take(block[:: self._shares], _told(block[:: self._shares], self._series, self._known))
            while self._is_apart and self._told <= number:
                self._take(self._blocks[self._told][1::2], next(self._other))
                self._told += 1
            self._left.remove(number)
            if not self._left:
                self._end()
        return self._found[key]

    @property
    def _shares(self) -> int:
        return 2 if self._is_apart else 1

    def _take(self, keys: Sequence[SeriesKey], told: Iterable[Told]) -> None:
        for key, (found, records) in zip(keys, told, strict=True):
            self._found[key] = found
            for name, record in records:
                self._rewriting.add(name, record)

    def _end(self) -> None:
        if self._is_apart:
            self._other.end()
        self._rewriting.finish()
        self._known.close()

    def _find_theirs(self) -> Iterator[list[Told]]:
        return (_told(block[1::2], self._series, self._known) for block in self._blocks)


def _told(keys: Sequence[SeriesKey], series: Callable[[SeriesKey], Columns], known: Known) -> list[Told]:
    """Return the change points of some series, and what to keep of them."""
    columns = [series(key) for key in keys]
    parts = [series_changes.by_method(series_changes.logs(each)) for each in columns]
    names = [[_name(key, each, one) for one in part] for key, each, part in zip(keys, columns, parts, strict=True)]
    before = [known.get(name) for own in names for name in own]
    kept = changepoints_many.found([values for part in parts for values in part.values()], before)
    records = iter(
        (None if now is then else changepoints_packed.packed(now), now) for now, then in zip(kept, before, strict=True)
    )
    told = []
    for own in names:
        these = [(name, *next(records)) for name in own]
        told.append(
            (series_changes.joined(now.found for _, _, now in these), [(name, record) for name, record, _ in these])
        )
    return told


def _name(key: SeriesKey, columns: Columns, method: int) -> str:
    """Return what tells the values of a series that one method timed from all others."""
    timed = columns.methods[method] if method >= 0 else None
    return repr((key, timed))
