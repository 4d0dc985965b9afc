"""The change points of a series of the site. Pure.

Finds the change points of the series that a report asks for, and keeps what the next one need not find again.

What the last report kept (series/change_points.py) is asked for many series at a time: what a point more leaves as it
was is seen for all of them at once (stats/changepoints/many.py).

The file of what reports keep of change points, so that the next one need not find them all from nothing.

Records one behind another, then an index, then how long and what it is. It is safe to delete, and good for any results
directory: a record follows from a series' values alone, and says which. A record or a file that is damaged, or made by
other code than this, is as none. It is written anew as a whole, and then takes the old one's place.
"""

from __future__ import annotations

import contextlib
import os
import struct
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import orjson
import scipy

from kernel_velocity.files import remove_left
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results.measurement import IntArray, SeriesKey
from kernel_velocity.series import cache
from kernel_velocity.series.columns import Columns
from kernel_velocity.stats.changepoints import incremental, many, vote
from kernel_velocity.stats.changepoints.incremental import Kept
from kernel_velocity.stats.changepoints.values import ChangePoint

BLOCK = 512  # series that are looked at together, at most: 20 MB of arrays, where there are 500 values of each

Found = tuple[ChangePoint, ...]
Records = dict[str, bytes | None]  # what to keep of a series, by name; None: what is kept of it

NAME = "changes.kept"
_END = struct.Struct("<QI")  # bytes of the index, and its checksum


class Logs(NamedTuple):
    """What the change points of a series follow from; both arrays have shape (commits,)."""

    values: FloatArray  # logarithms of the adjusted times where there are such, else of the times; NaN without one
    method: IntArray  # which timing method each was taken by


def of(columns: Columns) -> tuple[ChangePoint, ...]:
    """Return the change points of a series, oldest first; their indices are entries of `columns`.

    Of the logarithms of the adjusted times where there are such, as verdicts are made from (`histories`). Values of two
    timing methods are two series: no step is found between them.
    """
    return within(logs(columns))


def logs(columns: Columns) -> Logs:
    """Return what the change points of a series follow from."""
    seconds = np.where(np.isnan(columns.adjusted), columns.seconds, columns.adjusted)
    return Logs(values=np.log(np.where(columns.is_measured, seconds, np.nan)), method=columns.method)


def within(series: Logs) -> tuple[ChangePoint, ...]:
    """Return the change points of a series, as `of`."""
    return joined(vote.detect(values).points for values in by_method(series).values())


def by_method(series: Logs) -> dict[int, FloatArray]:
    """Return the values of each timing method, NaN where there is one of another method."""
    values, method = series
    used = method[~np.isnan(values)]
    if used.size and (used == used[0]).all():
        return {int(used[0]): values}
    return {one: np.where(method == one, values, np.nan) for one in np.unique(used).tolist()}


def joined(found: Iterable[Sequence[ChangePoint]]) -> tuple[ChangePoint, ...]:
    """Return the change points of all timing methods together."""
    return tuple(sorted((point for points in found for point in points), key=lambda point: point.index))


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
        parts = [by_method(logs(each)) for each in columns]
        names = [_names(key, each, part) for key, each, part in zip(keys, columns, parts, strict=True)]
        before = [self._known.get(name) for own in names for name in own]
        kept = many.found([values for part in parts for values in part.values()], before)
        results = zip(kept, before, strict=True)
        for key, own in zip(keys, names, strict=True):
            these = {name: next(results) for name in own}
            self._found[key] = joined(now.found for now, _ in these.values())
            self.records[key] = {
                name: None if now is then else incremental.packed(now) for name, (now, then) in these.items()
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


class Known:
    """What the last report kept, by the names of series."""

    def __init__(self, folder: Path | None) -> None:
        """Open the file of a cache's folder; where there is none, or none to be used, nothing is known."""
        self._file: IO[bytes] | None = None
        self._index: dict[str, tuple[int, int, int]] = {}
        if folder is not None:
            with contextlib.suppress(OSError, ValueError, TypeError, struct.error):
                self._file = (folder / NAME).open("rb")
                weakref.finalize(self, self._file.close)
                self._index = _read_index(self._file)

    def names(self) -> frozenset[str]:
        """Return of what there is a record."""
        return frozenset(self._index)

    def record(self, name: str) -> bytes | None:
        """Return a record, as it is; None where there is none, or none that is whole."""
        if self._file is None or name not in self._index:
            return None
        offset, length, checksum = self._index[name]
        found = os.pread(self._file.fileno(), length, offset)
        return found if zlib.crc32(found) == checksum else None

    def get(self, name: str) -> Kept | None:
        """Return what is known of a series."""
        record = self.record(name)
        return None if record is None else incremental.unpacked(record)

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            self._file.close()


class Rewriting:
    """The file that takes the place of the last report's, if anything in it differs.

    Where it cannot be written, the old one stays: that a cache cannot be used, a note says (`site_store.read`).
    """

    def __init__(self, folder: Path | None, known: Known) -> None:
        """Begin; without a folder, nothing is written."""
        self._folder, self._known = folder, known
        self._same: list[str] = []  # still to be copied
        self._index: dict[str, tuple[int, int, int]] = {}
        self._out: IO[bytes] | None = None

    def add(self, name: str, record: bytes | None) -> None:
        """Take a record; None: the one that is known."""
        if record is None:
            self._same.append(name)
        elif self._folder is not None:
            try:
                self._write(self._folder, name, record)
            except OSError:
                self.end()

    def finish(self) -> None:
        """Put the file into the place of the old one."""
        if self._folder is None or (self._out is None and self._known.names() == frozenset(self._same)):
            return
        try:
            for name in self._same:
                record = self._known.record(name)
                if record is not None:
                    self._write(self._folder, name, record)
            self._replace(self._folder)
        except OSError:
            pass
        self.end()

    def end(self) -> None:
        """Write no more, and remove what took no place."""
        out, self._folder, self._out = self._out, None, None
        if out is not None:
            with contextlib.suppress(OSError):
                out.close()
            with contextlib.suppress(OSError):
                Path(out.name).unlink(missing_ok=True)

    def _write(self, folder: Path, name: str, record: bytes) -> None:
        out = self._begun(folder)
        self._index[name] = out.tell(), len(record), zlib.crc32(record)
        out.write(record)

    def _replace(self, folder: Path) -> None:
        out, index = self._begun(folder), orjson.dumps(self._index)
        out.write(index + _END.pack(len(index), zlib.crc32(index)))
        out.close()
        Path(out.name).replace(folder / NAME)

    def _begun(self, folder: Path) -> IO[bytes]:
        if self._out is None:
            folder.mkdir(parents=True, exist_ok=True)
            remove_left(folder)
            self._out = (folder / f".{NAME}.{os.getpid()}").open("wb")
            self._out.write(_made_by())
        return self._out


def _read_index(file: IO[bytes]) -> dict[str, tuple[int, int, int]]:
    """Return where the records of a file are, with their checksums; none of a file that is not ours.

    Raises:
        OSError: it cannot be read.
        ValueError, struct.error: it is damaged.
    """
    made_by = _made_by()
    if file.read(len(made_by)) != made_by:
        return {}
    end = file.seek(-_END.size, os.SEEK_END)
    length, checksum = _END.unpack(file.read(_END.size))
    file.seek(end - length)
    text = file.read(length)
    if zlib.crc32(text) != checksum:
        return {}
    return {name: (offset, size, own) for name, (offset, size, own) in orjson.loads(text).items()}


def _made_by() -> bytes:
    """Return what changes with the code that finds change points, and with the libraries that it calls."""
    return f"{cache.digest()} {np.__version__} {scipy.__version__}\n".encode()
