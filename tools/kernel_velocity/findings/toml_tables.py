"""Tables of a TOML file that people edit: values are checked as they are taken, and refused by line and column."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from kernel_velocity.errors import ResultsError

_ID = re.compile(r"[a-z0-9_]+(?:-[a-z0-9_]+)*")
_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_POSITION = re.compile(
    r"^(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$", re.DOTALL
)
Value = TypeVar("Value")


def load(text: str, path: Path) -> Table:
    """Return the whole of a file.

    Raises:
        ResultsError: it is not TOML; with line and column.
    """
    try:
        return Table(values=tomllib.loads(text), text=text, path=path)
    except tomllib.TOMLDecodeError as error:
        at = _POSITION.match(str(error))
        ended = text.count("\n") + 1, len(text) - text.rfind("\n")
        line, column = (at["line"], at["column"]) if at and at["line"] else ended
        what = at["what"] if at else str(error)
        hint = ": a merge was left unfinished here" if "<<<<<<<" in text else ""
        raise ResultsError(f"{path}:{line}:{column}: not TOML: {what}{hint}") from None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of a file, that knows where it stands: `name` and `index` of an array of tables, or the whole file."""

    values: Mapping[str, Any]
    text: str
    path: Path
    name: str = ""
    index: int = 0

    def refuse(self, key: str, wanted: str) -> NoReturn:
        """Raise ResultsError for a key: where it stands, what it is, what is wanted."""
        line, column = self._where(key)
        got = repr(self.values[key])[:60] if key in self.values else "nothing"
        within = f"[[{self.name}]] " if self.name else ""
        raise ResultsError(f"{self.path}:{line}:{column}: {within}{key}: {wanted} is wanted, got {got}")

    def _where(self, key: str) -> tuple[int, int]:
        """Return line and column of a key, from 1; of one that is missing, those of its table."""
        lines = self.text.split("\n")
        first, last = self._span(lines)
        written = re.compile(rf'\s*("?){re.escape(key)}\1\s*=')
        headed = re.compile(rf"\s*\[+\s*{re.escape(key)}\b")
        found = next((number for number in range(first, last) if written.match(lines[number])), None)
        if found is None and not self.name:
            found = next((number for number, line in enumerate(lines) if headed.match(line)), None)
        if found is None:
            return first + 1, 1
        return found + 1, len(lines[found]) - len(lines[found].lstrip()) + 1

    def _span(self, lines: Sequence[str]) -> tuple[int, int]:
        """Return the first line of the table and the one after its last, from 0."""
        first = 0
        if self.name:
            heads = [number for number, line in enumerate(lines) if re.match(rf"\s*\[\[\s*{self.name}\s*\]\]", line)]
            if self.index >= len(heads):  # written inline, as an array
                return 0, len(lines)
            first = heads[self.index]
        after = (number for number in range(first + 1, len(lines)) if lines[number].lstrip().startswith("["))
        return first, next(after, len(lines))

    def check(self, known: set[str]) -> None:
        """Refuse a key that nobody reads: it is a slip of the pen, and writing the file again would lose it."""
        for key in self.values:
            if key not in known:
                self.refuse(key, f"one of {', '.join(sorted(known))}")

    def get(self, key: str, kind: type[Value], *default: Any) -> Any:
        """Return a value of a type; the default, where one is given, for a missing one."""
        if key not in self.values and default:
            return default[0]
        value = self.values.get(key)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.refuse(key, {str: "a text", int: "a whole number"}.get(kind, kind.__name__))
        return value

    def id(self) -> str:
        """Return the id, which is the file's name."""
        found: str = self.get("id", str)
        if found != self.path.stem or not _ID.fullmatch(found):
            self.refuse("id", f"the file's name, {self.path.stem!r}, in lower case")
        return found

    def number(self, key: str) -> float | None:
        """Return a finite number; None for a missing one."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < float("inf"):
            self.refuse(key, "a number")
        return float(value)

    def time(self, key: str) -> datetime:
        """Return a time with its zone."""
        value = self.values.get(key)
        if not isinstance(value, datetime) or value.tzinfo is None:
            self.refuse(key, "a time with its zone, such as 2026-11-22T03:00:00Z,")
        return value

    def day(self, key: str) -> date | None:
        """Return a day; None for a missing one."""
        value = self.values.get(key)
        if value is not None and (not isinstance(value, date) or isinstance(value, datetime)):
            self.refuse(key, "a day, such as 2026-12-24,")
        return value

    def choice(self, key: str, kind: type[Any]) -> Any:
        """Return a member of an enumeration."""
        value = self.values.get(key)
        names = [member.value for member in kind]
        if value not in names:
            self.refuse(key, f"one of {', '.join(names)}")
        return kind(value)

    def hashes(self, key: str) -> tuple[str, ...]:
        """Return a list of commits; () for a missing one."""
        found = self.texts(key)
        if not all(map(_HASH.fullmatch, found)):
            self.refuse(key, "a list of full hashes of commits")
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; () for a missing one."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.refuse(key, "a list of texts")
        return tuple(value)

    def changes(self) -> dict[str, tuple[str, str]] | None:
        """Return what changed: name -> before and after; None for a missing table."""
        value = self.values.get("changes")
        if value is None:
            return None
        pairs = value.values() if isinstance(value, dict) else [None]
        if not all(isinstance(pair, list) and list(map(type, pair)) == [str, str] for pair in pairs):
            self.refuse("changes", "a table of lists [before, after]")
        return {name: (pair[0], pair[1]) for name, pair in value.items()}

    def tables(self, key: str) -> list[Table]:
        """Return an array of tables; [] for a missing one."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.refuse(key, f"tables, each headed [[{key}]],")
        return [
            Table(values=item, text=self.text, path=self.path, name=key, index=index)
            for index, item in enumerate(value)
        ]
