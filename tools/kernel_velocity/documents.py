"""Read JSON that may be damaged: any bytes give a document, or one line that says what is wrong.

What we write and judge by ends with a checksum: no syntax tells a changed digit from a measurement. A document of an
earlier version has none, and is read nevertheless.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

CHECKSUM = "#"  # the last key of an object that we write: the CRC-32 of the text without it, 8 hex digits
_BEFORE = f',"{CHECKSUM}":"'
ROOM = len(f'{_BEFORE}00000000"')  # bytes that it takes


class DamagedError(ValueError):
    """Bytes that are no such document. The message says in one line what is wrong."""


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
    document = parse(path.read_bytes())
    if not isinstance(document, dict):
        raise DamagedError(f"an object in JSON is wanted, got {str(document)[:60]!r}")
    return document


def read_checked(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file that has a checksum.

    Raises:
        DamagedError: there is none in it, or it has no checksum. OSError: the file cannot be read.
    """
    document = read(path)
    if not has_checksum(path.read_bytes()):
        raise DamagedError(f"its checksum ({CHECKSUM}) is missing")
    return document
