"""Writing files that a reader never sees half written, and that a power cut leaves as they were or as they are to be.

Without waiting for the disk a power cut may leave the new name on an empty file: an empty journal stops every night,
and an empty copy of a results file says that there was none.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

_TEMPORARY = re.compile(r"\..+\.(?P<pid>\d+)")


def replace_text(path: Path, text: str) -> None:
    """Write a file through a temporary one, so that a reader sees the old text or the new, never a part.

    Raises:
        OSError: it cannot be written, or is a folder; the temporary file is gone then too.
    """
    replace_bytes(path, text.encode("utf-8"))


def replace_bytes(path: Path, contents: bytes) -> None:
    """Write a file that is no text as `replace_text` does.

    Raises:
        OSError: it cannot be written, or is a folder; the temporary file is gone then too.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    try:
        with temporary.open("wb") as stream:
            stream.write(contents)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)  # there only where one of them failed
    _sync_folder(path.parent)


def try_to_write(path: Path) -> None:
    """Try whether `replace_text` could write a file: what is there stays as it is, and nothing is left beside it.

    Not asked of the access bits: they say yes to root on a disk that is read only.

    Raises:
        OSError: it cannot be written, or its folder is not there.
    """
    temporary = _temporary(path)
    try:
        temporary.touch()
    finally:
        temporary.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")


def _sync_folder(folder: Path) -> None:
    """Wait until the disk has the names of a folder; the file itself is whole either way."""
    with suppress(OSError):  # not every file system can, and who may write there may not read
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_left(folder: Path) -> list[Path]:
    """Remove the temporary files that processes left which were killed while they wrote; return them.

    Those of a process that is still there are its own.
    """
    found = [path for path in folder.rglob(".*") if _is_left(path)]
    for path in found:
        path.unlink(missing_ok=True)
    return found


def _is_left(path: Path) -> bool:
    named = _TEMPORARY.fullmatch(path.name)
    if named is None or not path.is_file():
        return False
    try:
        os.kill(int(named["pid"]), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):  # another user's process; no pid at all
        pass
    return False
