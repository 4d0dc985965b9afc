"""Damage the bytes of a file at random, from a seed: what disks, editors, merges and people do to files.

`mutants` knows JSON, JSON lines and TOML by their looks, and damages any other bytes as bytes.
`damage_path` damages what a path names instead: no file, an empty one, a folder, a link to itself.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

DEEP = 100_000  # levels of nesting: more than Python's parser of JSON takes
HUGE = 10**400  # no float holds it

# Text of a value, in JSON and in TOML. Each takes the place of one value of a document.
_ANY = ["[]", "{}", "true", "0", "-1", str(HUGE), "1e400", "1.5", '"text"', '""', "[[[]]]"]
JSON_VALUES = [
    *_ANY,
    *["null", "false", "-1e400", "NaN", "Infinity", "-Infinity", "[null]"],
    '"\\u0000"',
    '"\\ud800"',
    '"../../../x"',
]
JSON_VALUES += ['{"a": [1, null]}', "[" * DEEP, "[" * DEEP + "]" * DEEP, '{"a":' * DEEP]
TOML_VALUES = [*_ANY, "nan", "inf", "-inf", "'''\n'''", "1979-05-27", "{a = [1, {}]}", "[" * 5000]
PATHS = ("removed", "empty", "folder", "link to itself", "link to nothing", "unreadable")

_INSERTED = [
    b"\0",
    b"\xff",
    b"\xc3\x28",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\r",
    b"\n",
    b"\xe2\x80\xa8",
    b"\x1b[2J",
    b"\0" * 512,
]
_NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_TOML_KEY = re.compile(rb"(?m)^(?P<key>[\w.\"'-]+)(?P<equals>[ \t]*=[ \t]*)(?P<value>.+)$")

_Damage = Callable[[bytes, random.Random], "tuple[str, bytes] | None"]  # None: there is nothing of the kind to damage


def mutants(data: bytes, seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield `count` damaged copies of a file's bytes, each with what was done to it, the same for the same seed.

    Every copy differs from `data`. Every third is damaged twice.
    """
    rng = random.Random(seed)
    for index in range(count):
        while True:
            done, damaged = _damage(data, rng)
            if index % 3 == 2:
                again, damaged = _damage(damaged, rng)
                done = f"{done}, then {again}"
            if damaged != data:
                break
        yield done, damaged


def damage_path(path: Path, how: str) -> None:
    """Replace a file by what one of `PATHS` says. A user who is root reads an unreadable file all the same."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    if how == "unreadable":
        path.chmod(0)
        return
    path.unlink(missing_ok=True)
    if how == "empty":
        path.write_bytes(b"")
    elif how == "folder":
        path.mkdir()
    elif how == "link to itself":
        path.symlink_to(path.name)
    elif how == "link to nothing":
        path.symlink_to("no-such-file")


def _damage(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Return what was done, and the bytes after it."""
    damages = (_json_document(data) or _json_lines(data) or _toml(data)) * 2 + BYTES
    for _ in range(20):
        done = rng.choice(damages)(data, rng)
        if done is not None:
            return done
    return "appended a byte", data + b"x"


# --- bytes and lines -------------------------------------------------------------------------------------------------


def _truncate(data: bytes, rng: random.Random) -> tuple[str, bytes] | None:
    if not data:
        return None
    length = rng.randrange(len(data))
    return f"cut at byte {length}", data[:length]


def _empty(data: bytes, rng: random.Random) -> tuple[str, bytes] | None:
    if rng.random() < 0.8:  # one empty file is as good as another
        return None
    return "emptied", b""


def _flip_bit(data: bytes, rng: random.Random) -> tuple[str, bytes] | None:
    if not data:
        return None
    at, bit = rng.randrange(len(data)), rng.randrange(8)
    return f"flipped bit {bit} of byte {at}", data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]


def _insert(data: bytes, rng: random.Random) -> tuple[str, bytes] | None:
    at, inserted = rng.choice((0, len(data), rng.randrange(len(data) + 1))), rng.choice(_INSERTED)
    return f"inserted {inserted[:4]!r} at byte {at}", data[:at] + inserted + data[at:]


def _zero_block(data: bytes, rng: random.Random) -> tuple[str, bytes] | None:
    if not data:
        return None
    at = rng.randrange(len(data))
    end = min(len(data), at + rng.randrange(1, 512))
    return f"bytes {at} to {end} became zeros", data[:at] + b"\0" * (end - at) + data[end:]


def _drop_bytes(data: bytes, rng: random.Random) -> tuple[str, bytes] | None:
    if not data:
        return None
    at = rng.randrange(len(data))
    end = min(len(data), at + rng.choice((1, 2, 10, 100)))
    return f"dropped bytes {at} to {end}", data[:at] + data[end:]


def _utf16(data: bytes, rng: random.Random) -> tuple[str, bytes] | None:
    if rng.random() < 0.7:
        return None
    return "in UTF-16", data.decode("utf-8", errors="replace").encode("utf-16")


def _edit_lines(data: bytes, rng: random.Random) -> tuple[str, bytes] | None:
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return None
    at, other = rng.sample(range(len(lines)), 2)
    how = rng.choice(("dropped", "repeated", "swapped", "joined", "replaced"))
    if how == "dropped":
        done, lines[at : at + 1] = f"dropped line {at + 1}", []
    elif how == "repeated":
        done, lines[at:at] = f"repeated line {at + 1}", [lines[at]]
    elif how == "swapped":
        done, lines[at], lines[other] = f"swapped lines {at + 1} and {other + 1}", lines[other], lines[at]
    elif how == "joined":
        done, lines[at] = f"joined line {at + 1} and the next", lines[at].rstrip(b"\r\n")
    else:
        marks = b"<<<<<<< HEAD\n" + lines[at] + b"=======\n" + lines[other] + b">>>>>>> other\n"
        done, lines[at] = f"conflict marks at line {at + 1}", marks
    return done, b"".join(lines)


def _change_number(data: bytes, rng: random.Random) -> tuple[str, bytes] | None:
    matches = list(_NUMBER.finditer(data))
    if not matches:
        return None
    match = rng.choice(matches)
    value = rng.choice((b"-" + match[0], match[0] + b"0", match[0] + b"e9", b"0", b"1e400", str(HUGE).encode()))
    return f"number {match[0]!r} became {value[:8]!r}", data[: match.start()] + value + data[match.end() :]


BYTES: tuple[_Damage, ...] = (
    *(_truncate, _flip_bit, _change_number) * 2,
    *(_empty, _insert, _zero_block, _drop_bytes, _utf16, _edit_lines),
)


# --- JSON ------------------------------------------------------------------------------------------------------------


class _Members(list[tuple[str, Any]]):
    """The members of an object in order, so that a key can come twice."""


class _Raw(str):
    """JSON text of a value."""

    __slots__ = ()


def _json_document(data: bytes) -> tuple[_Damage, ...]:
    """Return the damages of a JSON document, none for other bytes."""
    return (_change_json,) if _parsed(data) is not None else ()


def _json_lines(data: bytes) -> tuple[_Damage, ...]:
    return (_change_json_line,) if any(_parsed(line) is not None for line in data.splitlines()[:3]) else ()


def _parsed(data: bytes) -> _Members | list[Any] | None:
    if data.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        document = json.loads(data, object_pairs_hook=_Members)
    except (ValueError, RecursionError):
        return None
    return document if document else None


def _change_json_line(data: bytes, rng: random.Random) -> tuple[str, bytes] | None:
    lines = data.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    changed = _change_json(lines[at], rng)
    if changed is None:
        return None
    done, line = changed
    end = b"\n" if lines[at].endswith(b"\n") else b""
    return f"line {at + 1}: {done}", b"".join([*lines[:at], line + end, *lines[at + 1 :]])


def _change_json(data: bytes, rng: random.Random) -> tuple[str, bytes] | None:
    document = _parsed(data)
    if document is None:
        return None
    spots = list(_spots(document, "$"))
    path, parent, at = rng.choice(spots)
    name = ""
    how = rng.choice(("value", "value", "value", "value", "renamed", "dropped", "repeated", "nested"))
    if isinstance(parent, _Members):
        name, value = parent[at]
    else:
        value = parent[at]
    if how == "renamed" and isinstance(parent, _Members):
        name = rng.choice((name[:-1], name + "_", "", "\x00", name.upper(), rng.choice(parent)[0]))
        parent[at] = (name, value)
        done = f"{path} renamed to {name!r}"
    elif how == "dropped":
        del parent[at]
        done = f"{path} dropped"
    elif how == "repeated":
        other = rng.choice((value, _Raw(rng.choice(JSON_VALUES))))
        parent.insert(at + 1, (name, other) if isinstance(parent, _Members) else other)
        done = f"{path} repeated"
    elif how == "nested":
        parent[at] = (name, [value]) if isinstance(parent, _Members) else [value]
        done = f"{path} put into a list"
    else:
        text = rng.choice(JSON_VALUES)
        parent[at] = (name, _Raw(text)) if isinstance(parent, _Members) else _Raw(text)
        done = f"{path} became {text[:20]}"
    indented = data.count(b"\n") > 1
    return done, _json_text(document, "\n" if indented else "").encode("utf-8", errors="surrogatepass")


def _spots(document: Any, path: str) -> Iterator[tuple[str, Any, int]]:
    """Yield each value of a document: its path, the list that holds it, its index there."""
    if isinstance(document, _Members):
        for at, (key, value) in enumerate(document):
            yield f"{path}.{key}", document, at
            yield from _spots(value, f"{path}.{key}")
    elif isinstance(document, list):
        for at, value in enumerate(document):
            yield f"{path}[{at}]", document, at
            yield from _spots(value, f"{path}[{at}]")


def _json_text(value: Any, end: str) -> str:
    if isinstance(value, _Raw):
        return str(value)
    if isinstance(value, _Members):
        members = (f"{json.dumps(key)}: {_json_text(member, '')}" for key, member in value)
        return "{" + end + f", {end}".join(members) + end + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_json_text(member, "") for member in value) + "]"
    return json.dumps(value)


# --- TOML ------------------------------------------------------------------------------------------------------------


def _toml(data: bytes) -> tuple[_Damage, ...]:
    return (_change_toml,) if _TOML_KEY.search(data) else ()


def _change_toml(data: bytes, rng: random.Random) -> tuple[str, bytes] | None:
    matches = list(_TOML_KEY.finditer(data))
    if not matches:
        return None
    match = rng.choice(matches)
    key, equals, value = match["key"], match["equals"], match["value"]
    how = rng.choice(("value", "value", "value", "renamed", "dropped", "repeated", "table"))
    if how == "renamed":
        line = rng.choice((key[:-1] or b"x", key + b"_", b'""', key.upper())) + equals + value
    elif how == "dropped":
        line = b""
    elif how == "repeated":
        line = match[0] + b"\n" + match[0]
    elif how == "table":
        line = b"[" + key + b"]\n" + match[0]
    else:
        line = key + equals + rng.choice(TOML_VALUES).encode()
    return f"{key.decode(errors='replace')}: {how}", data[: match.start()] + line + data[match.end() :]
