"""Findings and expectations as files: `results/findings/<id>.toml`, `results/findings/expected/<id>.toml`.

One file for each, its keys always in the same order: two branches that each found something merge without a conflict,
and the difference of a decision is that decision. What is in a file is checked when it is read: an error names line and
column, and nobody's other findings are lost to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import tomli_w

from kernel_velocity.errors import ResultsError
from kernel_velocity.files import replace_text
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.finding import Affected, Decision, Finding, Kind, State
from kernel_velocity.findings.toml_tables import Table, load
from kernel_velocity.results.identity import Identity

FOLDER = "findings"  # in the results directory
EXPECTED = "expected"  # in that folder
SUFFIX = ".toml"
_IDENTITY = tuple(field.name for field in fields(Identity))
Value = TypeVar("Value")


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
