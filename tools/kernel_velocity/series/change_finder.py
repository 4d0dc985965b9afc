"""Finds the change points of the series that a report asks for, and keeps what the next one need not find again.

What the last report kept (series/kept_changes.py) is asked for many series at a time: what a point more leaves as it
was is seen for all of them at once (stats/changepoints/changepoints_many.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.series import change_points as series_changes
from kernel_velocity.series.columns import Columns
from kernel_velocity.series.kept_changes import Known, Rewriting
from kernel_velocity.stats.changepoints import changepoints_many, changepoints_packed
from kernel_velocity.stats.changepoints.values import ChangePoint

BLOCK = 512  # series that are looked at together, at most: 20 MB of arrays, where there are 500 values of each

Found = tuple[ChangePoint, ...]
Records = dict[str, bytes | None]  # what to keep of a series, by name; None: what is kept of it


class Finder:
    """The change points of some series, found when they are asked for."""

    def __init__(
        self, keys: Sequence[SeriesKey], series: Callable[[SeriesKey], Columns], folder: Path | None = None
    ) -> None:
        """Begin.

        Args:
            keys: of the series. series: returns the columns of one.
            folder: of what is kept between reports; None: nothing is.
        """
        self._keys, self._series, self._folder = keys, series, folder
        self._known = Known(folder)
        self._found: dict[SeriesKey, Found] = {}
        self.records: dict[SeriesKey, Records] = {}  # of the series that were asked for

    def of(self, keys: Sequence[SeriesKey]) -> Mapping[SeriesKey, Found]:
        """Return the change points of some of the series; those asked for together are found soonest."""
        new = [key for key in dict.fromkeys(keys) if key not in self._found]
        for start in range(0, len(new), BLOCK):
            self._find(new[start : start + BLOCK])
        return {key: self._found[key] for key in keys}

    def _find(self, keys: Sequence[SeriesKey]) -> None:
        columns = [self._series(key) for key in keys]
        parts = [series_changes.by_method(series_changes.logs(each)) for each in columns]
        names = [_names(key, each, part) for key, each, part in zip(keys, columns, parts, strict=True)]
        before = [self._known.get(name) for own in names for name in own]
        kept = changepoints_many.found([values for part in parts for values in part.values()], before)
        results = zip(kept, before, strict=True)
        for key, own in zip(keys, names, strict=True):
            these = {name: next(results) for name in own}
            self._found[key] = series_changes.joined(now.found for now, _ in these.values())
            self.records[key] = {
                name: None if now is then else changepoints_packed.packed(now) for name, (now, then) in these.items()
            }

    def keep(self, others: Mapping[SeriesKey, Records]) -> None:
        """Keep what was found, also what was `others`' to find; of series that nobody asked for what there is."""
        every = {**others, **self.records}
        if any(record is not None for records in every.values() for record in records.values()):
            rewriting = Rewriting(self._folder, self._known)
            for name, record in self._to_keep(every):
                rewriting.add(name, record)
            rewriting.finish()

    def _to_keep(self, found: Mapping[SeriesKey, Records]) -> Iterator[tuple[str, bytes | None]]:
        known = self._known.names()
        for key in self._keys:
            if key in found:
                yield from found[key].items()
            else:
                columns = self._series(key)
                yield from (
                    (name, None) for name in _names(key, columns, range(-1, len(columns.methods))) if name in known
                )


def _names(key: SeriesKey, columns: Columns, methods: Iterable[int]) -> list[str]:
    """Return what tells the values of a series that one method timed from all others, for each of its methods."""
    return [repr((key, columns.methods[method] if method >= 0 else None)) for method in methods]
