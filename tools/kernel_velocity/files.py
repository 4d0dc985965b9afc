"""Replace files atomically: a reader sees, and a power cut leaves, the old contents or the new ones.

Without waiting for the disk, a power cut may leave the new name on an empty file: an empty journal stops every night,
and an empty backup of a results file means that there was none.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kernel_velocity.errors import UsageError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a full disk, a quota, a limit of the size of files
# Variable: a folder that a parent removes when this process has ended. One that measures ends without a clean-up
SCRATCH = "KERNEL_VELOCITY_SCRATCH"
_folders: list[tempfile.TemporaryDirectory[str]] = []
_TEMPORARY = re.compile(r"\..+\.(?P<pid>\d+)")


def lasting_folder(prefix: str) -> Path:
    """Return a new temporary folder that lasts as long as this process, which imports or has loaded what it holds."""
    _folders.append(tempfile.TemporaryDirectory(prefix=prefix, dir=os.environ.get(SCRATCH)))
    return Path(_folders[-1].name)


def replace_text(path: Path, text: str) -> None:
    """Write UTF-8 text through a temporary file, which is removed on an error.

    Raises:
        OSError: the file cannot be written, or is a folder.
    """
    replace_bytes(path, text.encode("utf-8"))


def replace_bytes(path: Path, contents: bytes) -> None:
    """Write bytes as `replace_text` writes text.

    Raises:
        OSError: the file cannot be written, or is a folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacement(path) as temporary, temporary.open("wb") as stream:
        stream.write(contents)
        stream.flush()
        os.fsync(stream.fileno())
    _sync_folder(path.parent)


@contextmanager
def replacement(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file, which the body writes. It then replaces a file, or is removed on an error.

    Raises:
        OSError: the file cannot be written, or is a folder.
    """
    temporary = _temporary(path)
    try:
        with naming(path):
            yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)  # it exists only after an error


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add a path to the error of a write that finds no room, which has none."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM and error.filename is None:
            error.filename = str(path)
        raise


def check_report(option: str, path: Path) -> None:
    """Refuse a file for a report that cannot be written, before hours of measuring.

    Args:
        option: names the file, for the message.

    Raises:
        UsageError: its folder is missing, something else is in its place, or it cannot be written.
    """
    what = f"{option} {path}"
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"{what}: must be a file in an existing folder")
    if path.exists() and not path.is_file():  # it would be replaced: a device, a pipe
        raise UsageError(f"{what}: is no regular file; give another path")
    check_writable(what, path.absolute())


def check_writable(what: str, path: Path) -> None:
    """Raise a UsageError if `replace_text` could not write a file in an existing folder. `what` names it."""
    try:
        try_to_write(path)
    except OSError as error:
        raise UsageError(f"{what}: cannot be written ({error.strerror}); give another path") from None


def try_to_write(path: Path) -> None:
    """Raise if `replace_text` could not write a file, without changing it or leaving another.

    Access bits are no answer: they allow root to write to a read-only disk.

    Raises:
        OSError: the file cannot be written, or its folder is missing.
    """
    temporary = _temporary(path)
    try:
        temporary.touch()
    finally:
        temporary.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")


def _sync_folder(folder: Path) -> None:
    """Wait until the disk has the names of a folder."""
    with suppress(OSError):  # some file systems cannot, and the folder may be write-only; the file is whole anyway
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_left(folder: Path) -> list[Path]:
    """Remove and return the temporary files of processes that were killed while they wrote."""
    paths = [path for path in folder.rglob(".*") if _is_left(path)]
    for path in paths:
        path.unlink(missing_ok=True)
    return paths


def _is_left(path: Path) -> bool:
    match = _TEMPORARY.fullmatch(path.name)
    if match is None or not path.is_file():
        return False
    try:
        os.kill(int(match["pid"]), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):  # another user's process; not a pid
        pass
    return False
