"""Findings and expectations as files: `results/findings/<id>.toml`, `results/findings/expected/<id>.toml`.

One file for each, its keys always in the same order: two branches that each found something merge without a conflict,
and the difference of a decision is that decision. What is in a file is checked when it is read: an error names line and
column, and nobody's other findings are lost to it.

Tables of a TOML file that people edit: values are checked as they are taken, and refused by line and column.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import tomli_w

from kernel_velocity.errors import ResultsError
from kernel_velocity.files import replace_text
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.finding import Affected, Decision, Finding, Kind, State
from kernel_velocity.results.identity import Identity

FOLDER = "findings"  # in the results directory
EXPECTED = "expected"  # in that folder
SUFFIX = ".toml"
_IDENTITY = tuple(field.name for field in fields(Identity))
Value = TypeVar("Value")

_ID = re.compile(r"[a-z0-9_]+(?:-[a-z0-9_]+)*")
_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_POSITION = re.compile(
    r"^(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$", re.DOTALL
)
Parsed = TypeVar("Parsed")


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What the files say."""

    findings: tuple[Finding, ...]
    expectations: tuple[Expectation, ...]
    problems: tuple[str, ...]  # files that could not be read: file, line, column, what is wrong


def read(results: Path) -> Stored:
    """Return what is stored in a results directory, in the order of the ids."""
    problems: list[str] = []
    folder = results / FOLDER
    return Stored(
        findings=tuple(_read_all(folder, parse_finding, problems)),
        expectations=tuple(_read_all(folder / EXPECTED, parse_expectation, problems)),
        problems=tuple(problems),
    )


def _read_all(folder: Path, parse: Callable[[str, Path], Value], problems: list[str]) -> list[Value]:
    found = []
    for path in sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []:
        try:
            found.append(parse(path.read_text(encoding="utf-8"), path))
        except UnicodeDecodeError as error:
            problems.append(f"{path}: not UTF-8 at byte {error.start}")
        except ResultsError as error:
            problems.append(str(error))
    return found


def path_of(results: Path, item: Finding | Expectation) -> Path:
    """Return the file of a finding or an expectation."""
    folder = results / FOLDER / EXPECTED if isinstance(item, Expectation) else results / FOLDER
    return folder / f"{item.id}{SUFFIX}"


def write(results: Path, item: Finding | Expectation) -> Path:
    """Write the file of a finding or an expectation if that changes it; return it."""
    path = path_of(results, item)
    text = expectation_text(item) if isinstance(item, Expectation) else finding_text(item)
    if not path.exists() or path.read_text(encoding="utf-8", errors="replace") != text:
        replace_text(path, text)
    return path


def finding_text(finding: Finding) -> str:
    """Return the file of a finding."""
    table = {
        "id": finding.id,
        "kind": finding.kind.value,
        "state": finding.state.value,
        "subject": finding.subject,
        "found": finding.found,
        "commits": list(finding.commits),
        "anchor": finding.anchor,
        "how": finding.how,
        "ruled_out": list(finding.ruled_out),
        "changes": None if finding.changes is None else {name: list(pair) for name, pair in finding.changes.items()},
    }
    decisions = [_headed("decisions", _decision(item)) for item in finding.decisions]
    series = [_headed("series", _affected(item)) for item in finding.affected]
    return _encodable("\n".join([tomli_w.dumps(_known(table)), *decisions, *series]))


def expectation_text(item: Expectation) -> str:
    """Return the file of an expectation."""
    table = {field.name: getattr(item, field.name) for field in fields(item)} | {"commits": list(item.commits)}
    return _encodable(tomli_w.dumps(_known(table)))


def _encodable(text: str) -> str:
    """Return text with "?" for what UTF-8 cannot hold: an argument in another encoding has such letters."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _headed(name: str, table: Mapping[str, Any]) -> str:
    """Return a table of an array with its head. tomli-w would write short ones in one line, until one is longer."""
    return f"[[{name}]]\n{tomli_w.dumps(table)}"


def _affected(item: Affected) -> dict[str, Any]:
    numbers = {name: getattr(item, name) for name in ("ratio", "low", "high", "p", "rounds")}
    return _known({name: getattr(item.identity, name) for name in _IDENTITY} | numbers)


def _decision(item: Decision) -> dict[str, Any]:
    said = {"when": item.when, "who": item.who, "state": item.state.value, "reason": item.reason, "until": item.until}
    return _known(said)


def _known(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if value is not None}


def parse_finding(text: str, path: Path) -> Finding:
    """Return the finding of a file.

    Raises:
        ResultsError: it is none; with line and column.
    """
    table = load(text, path)
    table.check(
        {"id", "kind", "state", "subject", "found", "commits", "anchor", "how", "ruled_out", "changes"}
        | {"decisions", "series"}
    )
    return Finding(
        id=table.id(),
        kind=table.choice("kind", Kind),
        state=table.choice("state", State),
        subject=table.get("subject", str),
        found=table.time("found"),
        commits=table.hashes("commits"),
        anchor=table.get("anchor", str, None),
        how=table.get("how", str, ""),
        ruled_out=table.texts("ruled_out"),
        changes=table.changes(),
        affected=tuple(_parse_affected(item) for item in table.tables("series")),
        decisions=tuple(_parse_decision(item) for item in table.tables("decisions")),
    )


def _parse_affected(table: Table) -> Affected:
    table.check({*_IDENTITY, "ratio", "low", "high", "p", "rounds"})
    numbers = {name: table.number(name) for name in ("low", "high", "p")}
    ratio = table.number("ratio")
    if ratio is None or ratio <= 0:
        table.refuse("ratio", "a positive number, new value / old value")
    return Affected(
        identity=Identity(**{name: table.get(name, str) for name in _IDENTITY}),
        ratio=ratio,
        rounds=table.get("rounds", int, None),
        **numbers,
    )


def _parse_decision(table: Table) -> Decision:
    table.check({"when", "who", "state", "reason", "until"})
    return Decision(
        when=table.time("when"),
        who=table.get("who", str),
        state=table.choice("state", State),
        reason=table.get("reason", str),
        until=table.day("until"),
    )


def parse_expectation(text: str, path: Path) -> Expectation:
    """Return the expectation of a file.

    Raises:
        ResultsError: it is none; with line and column.
    """
    table = load(text, path)
    table.check({field.name for field in fields(Expectation)})
    bench = table.get("bench", str)
    try:
        re.compile(bench)
    except re.error as error:
        table.refuse("bench", f"a regular expression ({error})")
    return Expectation(
        id=table.id(),
        commits=table.hashes("commits"),
        bench=bench,
        reason=table.get("reason", str),
        who=table.get("who", str),
        when=table.time("when"),
        most=table.number("most"),
    )


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

    def get(self, key: str, kind: type[Parsed], *default: Any) -> Any:
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
