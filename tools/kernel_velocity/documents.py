"""Read files that may be damaged, or a stranger's: any file gives a document, or one line that says what is wrong.

What we write and judge by ends with a checksum: no syntax tells a changed digit from a measurement. A document of an
earlier version has none, and is read nevertheless.
"""

from __future__ import annotations

import codecs
import errno
import json
import os
import stat
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

CHECKSUM = "#"  # the last key of an object that we write: the CRC-32 of the text without it, 8 hex digits
_BEFORE = f',"{CHECKSUM}":"'
ROOM = len(f'{_BEFORE}00000000"')  # bytes that it takes


# A file with all samples of 10,000 values has 20 MB. JSON takes ten times its bytes of memory, so this takes below 1 GB
MOST_BYTES = 64 << 20


class DamagedError(ValueError):
    """Bytes that are no such document. The message says in one line what is wrong."""


def contents_of(path: Path) -> bytes:
    """Return the bytes of a regular file, up to `MOST_BYTES`. Nothing else is opened: a pipe could wait for ever.

    Raises:
        OSError: it cannot be read, is no regular file, or is larger.
    """
    size = size_of(path)
    with path.open("rb") as stream:
        return stream.read(size)  # no more: files of /proc that never end have a size of 0


def size_of(path: Path) -> int:
    """Return the bytes of a regular file, up to `MOST_BYTES`, without opening it.

    Raises:
        OSError: as `contents_of`.
    """
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        kind = "a pipe" if stat.S_ISFIFO(status.st_mode) else "a device or socket"
        raise OSError(errno.EINVAL, f"a regular file is wanted, got {kind}", str(path))
    if status.st_size > MOST_BYTES:
        wanted = f"a file of at most {MOST_BYTES:,} bytes is wanted"
        raise OSError(errno.EINVAL, f"{wanted}, got {status.st_size:,}", str(path))
    return status.st_size


def lines_of(path: Path) -> str:
    """Return the text of such a file, malformed UTF-8 as U+FFFD, each line's end as a line break.

    Raises:
        OSError: as `contents_of`.
    """
    return contents_of(path).decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


def text_of(path: Path) -> str:
    """Return the text of a file that a person or another program wrote.

    Raises:
        DamagedError: it is not in UTF-8, or begins with a byte order mark. The message has the cure.
        OSError: it cannot be read.
    """
    contents = path.read_bytes()  # of a file that a user names, which may be a pipe
    marks = {
        codecs.BOM_UTF8: "UTF-8",
        codecs.BOM_UTF16_LE: "UTF-16",
        codecs.BOM_UTF16_BE: "UTF-16",
    }
    encoding = next((name for mark, name in marks.items() if contents.startswith(mark)), None)
    if encoding is not None:
        raise DamagedError(f"it begins with the byte order mark of {encoding}; save it as UTF-8 without one")
    try:
        return contents.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedError(f"not UTF-8 at byte {error.start}; save it as UTF-8") from None


def with_checksum(text: str) -> str:
    """Return the JSON text of an object that is not empty, with its checksum."""
    return f'{text[:-1]}{_BEFORE}{crc(text)}"}}'


def has_checksum(contents: bytes | str) -> bool:
    """Return whether the text of an object ends with a checksum."""
    text = contents if isinstance(contents, str) else contents.decode("utf-8", "replace")
    return _BEFORE in text.rstrip()[-ROOM - 1 :]


def without_checksum(text: str) -> str:
    """Return the JSON text of an object without its checksum. One that has none stays as it is.

    Raises:
        DamagedError: it changed since it was written.
    """
    text = text.replace("\r\n", "\n").rstrip()
    if not has_checksum(text):
        return text
    whole = f"{text[: -ROOM - 1]}}}"
    if with_checksum(whole) != text:
        raise DamagedError(f"changed since it was written, by its checksum ({CHECKSUM})")
    return whole


def crc(text: str) -> str:
    """Return the CRC-32 of a text, 8 hex digits."""
    return f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def parse(contents: bytes | str) -> Any:
    """Return the value of JSON text in UTF-8, without its checksum.

    Raises:
        DamagedError: it is no JSON, it changed since it was written, or a key comes twice.
    """
    if not contents.strip():
        raise DamagedError("empty")
    try:
        text = contents if isinstance(contents, str) else contents.decode("utf-8")
        value = json.loads(without_checksum(text), object_pairs_hook=without_duplicates)
    except DamagedError:
        raise
    except UnicodeDecodeError as error:
        raise DamagedError(f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise DamagedError("not JSON: nested too deeply") from None
    except ValueError as error:
        hint = ": a merge was left unfinished here" if "<<<<<<<" in text else ""
        raise DamagedError(f"not JSON: {error}{hint}") from None
    if isinstance(value, dict) and CHECKSUM in value:
        raise DamagedError(f"changed since it was written, by its checksum ({CHECKSUM})")
    return value


def without_duplicates(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON from its keys and values.

    Raises:
        DamagedError: a key comes twice.
    """
    pairs = list(pairs)
    document = dict(pairs)
    if len(document) != len(pairs):
        keys = [key for key, _ in pairs]
        raise DamagedError(f"the key {next(key for key in keys if keys.count(key) > 1)[:60]!r} comes twice")
    return document


def read(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file, as `parse` does.

    Raises:
        DamagedError: there is none in it. OSError: the file cannot be read.
    """
    document = parse(contents_of(path))
    if not isinstance(document, dict):
        raise DamagedError(f"an object in JSON is wanted, got {str(document)[:60]!r}")
    return document


def read_checked(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file that has a checksum.

    Raises:
        DamagedError: there is none in it, or it has no checksum. OSError: the file cannot be read.
    """
    document = read(path)
    if not has_checksum(contents_of(path)):
        raise DamagedError(f"its checksum ({CHECKSUM}) is missing")
    return document
