"""Records in files: dataclasses as plain data, and plain data checked against the annotations of a dataclass.

The annotations are the table of fields. A field that has a default may be missing, a key that no field has is refused,
and `Annotated[..., Rule(...)]` says what a value needs beyond its type. `field(metadata={KEY: "series"})` gives a field
another name in the file. A field with metadata of PARTS has no key: these parts of it are keys beside the others.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from kernel_velocity import bounds, documents
from kernel_velocity.errors import ResultsError

KEY, PARTS = "key", "parts"
FORMAT = "format"  # key of a document's version
Record = TypeVar("Record")


@dataclass(frozen=True)
class Rule:
    """What a field needs beyond its type."""

    wanted: str  # for the message: "a positive number"
    holds: Callable[[Any], object]


Measured = Annotated[float, Rule(f"a number from {bounds.LEAST:g} to {bounds.MOST:g}", bounds.is_time)]  # s, or a ratio
Moment = Annotated[float, Rule("a Unix time in seconds", bounds.is_moment)]
Count = Annotated[int, Rule("a positive number", bool)]
NotNegative = Annotated[float, Rule("a number from 0 on", lambda value: value >= 0)]
Sha = Annotated[str, Rule("a full hash of a commit", re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?").fullmatch)]

_SIMPLE: Mapping[type, Rule] = {
    str: Rule("a text", lambda value: isinstance(value, str)),
    bool: Rule("true or false", lambda value: isinstance(value, bool)),
    int: Rule("a whole number", lambda value: type(value) is int and value >= 0),
    float: Rule("a number", bounds.is_number),
    date: Rule("a day, such as 2026-12-24,", lambda value: type(value) is date),
    datetime: Rule(
        "a time with its zone, such as 2026-11-22T03:00:00Z,",
        lambda value: isinstance(value, datetime) and value.tzinfo is not None,
    ),
}


_TABLE = Rule("a table of keys", lambda value: isinstance(value, Mapping))
_LIST = Rule("a list", lambda value: isinstance(value, list))


class _FieldError(ValueError):
    """A value that its field does not allow. The message names the field."""


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


def plain(value: Any) -> Any:
    """Return a record as plain data: values of enumerations, lists, dictionaries in the order of the fields."""
    if dataclasses.is_dataclass(value):
        data: dict[str, Any] = {}
        for field in dataclasses.fields(value):
            part = getattr(value, field.name)
            spread = {name: plain(getattr(part, name)) for name in field.metadata.get(PARTS, ())}
            data |= spread or {field.metadata.get(KEY, field.name): plain(part)}
        return data
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, tuple) else value


def parse(kind: type[Record], data: object, file: object) -> Record:
    """Return the record of plain data.

    Raises:
        ResultsError: a value is not what its field wants. The message says file, field, what is wanted, and the value.
    """
    try:
        record: Record = _record(kind, data, "")
    except _FieldError as error:
        raise ResultsError(f"{file}: {error}") from None
    return record


def read(kind: type[Record], contents: bytes | str, file: object, formats: range, unchecked: int = 0) -> Record:
    """Return the record of a JSON document.

    Args:
        file: begins the message of an error. formats: that are read.
        unchecked: the last format whose documents may lack a checksum.

    Raises:
        ResultsError: it is no JSON, changed since it was written, of another format, or no such record.
    """
    try:
        data = documents.parse(contents)
    except documents.DamagedError as error:
        raise ResultsError(f"{file}: {error}") from None
    version = data.pop(FORMAT, None) if isinstance(data, dict) else None
    if type(version) is int and version > formats[-1]:
        raise ResultsError(f"{file}: {FORMAT} {version}: this kernel-velocity reads {formats[-1]} at most: update it")
    if type(version) is not int or version not in formats:
        raise ResultsError(f"{file}: {FORMAT}: {formats[-1]} is wanted, got {version!r}")
    if version > unchecked and not documents.has_checksum(contents):
        raise ResultsError(f"{file}: its checksum ({documents.CHECKSUM}) is missing")
    return parse(kind, data, file)


def _refuse(where: str, wanted: str, value: object) -> NoReturn:
    raise _FieldError(f"{where}{': ' if where else ''}{wanted} is wanted, got {repr(value)[:60]}")


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _record(kind: Any, data: Any, where: str) -> Any:
    _checked(_TABLE, data, where)
    values: dict[str, Any] = {}
    keys: set[str] = set()
    hints = _hints(kind)
    for field in dataclasses.fields(kind):
        hint, key = hints[field.name], field.metadata.get(KEY, field.name)
        if parts := field.metadata.get(PARTS):
            values[field.name] = _record(hint, {part: data[part] for part in parts if part in data}, where)
            keys.update(parts)
            continue
        keys.add(key)
        if key in data or field.default is field.default_factory is dataclasses.MISSING:
            values[field.name] = _converted(hint, data.get(key, _Missing()), f"{where}.{key}".lstrip("."))
    for key in data:
        if key not in keys:
            _refuse(f"{where}.{key}".lstrip("."), f"one of {', '.join(sorted(keys))}", data[key])
    return kind(**values)


def _converted(hint: Any, value: Any, where: str) -> Any:
    """Return the value of a field as its annotation has it."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind is Annotated:
        return _checked(parts[1], _converted(parts[0], value, where), where)
    if kind in (types.UnionType, Union):  # X | None
        return None if value is None else _converted(parts[0], value, where)
    if kind in (tuple, Mapping):
        return _collection(kind, parts, value, where)
    if dataclasses.is_dataclass(kind):
        return _record(kind, value, where)
    if issubclass(kind, Enum):
        words = [member.value for member in kind]
        return kind(_checked(Rule(f"one of {', '.join(words)}", words.__contains__), value, where))
    value = _checked(_SIMPLE[kind], value, where)
    return float(value) if kind is float else value


def _checked(rule: Rule, value: Any, where: str) -> Any:
    if not rule.holds(value):
        _refuse(where, rule.wanted, value)
    return value


def _collection(kind: type, parts: tuple[Any, ...], value: Any, where: str) -> Any:
    if kind is Mapping:
        _checked(_TABLE, value, where)
        return {key: _converted(parts[1], part, f"{where}.{key}") for key, part in value.items()}
    _checked(_LIST, value, where)
    hints = [parts[0]] * len(value) if parts[-1] is Ellipsis else parts
    if len(hints) != len(value):
        _refuse(where, f"a list of {len(hints)}", value)
    pairs = zip(hints, value, strict=True)
    return tuple(_converted(hint, part, f"{where}[{number}]") for number, (hint, part) in enumerate(pairs))
