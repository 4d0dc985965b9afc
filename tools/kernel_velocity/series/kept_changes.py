"""The file of what reports keep of change points, so that the next one need not find them all from nothing.

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
from pathlib import Path
from typing import IO

import numpy as np
import orjson
import scipy

from kernel_velocity.files import remove_left
from kernel_velocity.series import makers
from kernel_velocity.stats.changepoints import changepoints_packed
from kernel_velocity.stats.changepoints.incremental import Kept

NAME = "changes.kept"
_END = struct.Struct("<QI")  # bytes of the index, and its checksum


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
        return None if record is None else changepoints_packed.unpacked(record)

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
    return f"{makers.digest()} {np.__version__} {scipy.__version__}\n".encode()
