"""The files of findings and expectations: `results/findings/<id>.toml`, `results/findings/expected/<id>.toml`.

One file each, with its keys always in the same order, so that branches merge without a conflict and the diff of a
decision is that decision. People edit these files: each is checked when it is read, and a bad one costs no other.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import tomli_w

from kernel_velocity.errors import ResultsError
from kernel_velocity.files import replace_text
from kernel_velocity.findings import fields
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.finding import Finding

FOLDER = "findings"  # in the results directory
EXPECTED = "expected"  # in that folder
SUFFIX = ".toml"
Record = TypeVar("Record")


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The recorded findings and expectations, each in the order of the ids."""

    findings: tuple[Finding, ...]
    expectations: tuple[Expectation, ...]
    problems: tuple[str, ...]  # one line for each file that cannot be read


def read(results: Path) -> Stored:
    """Return what a results directory has."""
    findings, problems = read_folder(results / FOLDER, Finding)
    expectations, others = read_folder(results / FOLDER / EXPECTED, Expectation)
    return Stored(findings=findings, expectations=expectations, problems=problems + others)


def read_folder(folder: Path, kind: type[Record]) -> tuple[tuple[Record, ...], tuple[str, ...]]:
    """Return the records of a folder's files in the order of their names, and a line for each file with an error."""
    records, problems = [], []
    for path in sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []:
        try:
            records.append(parse(kind, path.read_text(encoding="utf-8"), path))
        except UnicodeDecodeError as error:
            problems.append(f"{path}: not UTF-8 at byte {error.start}")
        except ResultsError as error:
            problems.append(str(error))
    return tuple(records), tuple(problems)


def parse(kind: type[Record], text: str, path: Path) -> Record:
    """Return the record of a file.

    Raises:
        ResultsError: not TOML, or not such a record. The message says where, what is wanted, and what is there.
    """
    try:
        record = fields.parse(kind, tomllib.loads(text), path)
    except tomllib.TOMLDecodeError as error:
        hint = ": a merge was left unfinished here" if "<<<<<<<" in text else ""
        raise ResultsError(f"{path}: not TOML: {error}{hint}") from None
    if getattr(record, "id", path.stem) != path.stem:
        raise ResultsError(f"{path}: id: the file's name, {path.stem!r}, is wanted")
    return record


def path_of(results: Path, record: Finding | Expectation) -> Path:
    """Return the file of a finding or an expectation."""
    folder = results / FOLDER / EXPECTED if isinstance(record, Expectation) else results / FOLDER
    return folder / f"{record.id}{SUFFIX}"


def write(results: Path, record: Finding | Expectation) -> Path:
    """Write the file of a finding or an expectation if that changes it, and return it."""
    path, text = path_of(results, record), as_text(record)
    if not path.exists() or path.read_text(encoding="utf-8", errors="replace") != text:
        replace_text(path, text)
    return path


def as_text(record: Any) -> str:
    """Return the file of a record. Letters that UTF-8 cannot hold become "?": an argument may have another encoding."""
    data = fields.plain(record)
    arrays = [(name, data.pop(name)) for name in ("decisions", "series") if name in data]
    # With a head each: tomli-w would write a short table of an array in one line, until it is longer
    tables = [f"[[{name}]]\n{_toml(row)}" for name, rows in arrays for row in rows]
    return "\n".join([_toml(data), *tables]).encode("utf-8", "replace").decode("utf-8")


def _toml(table: Mapping[str, Any]) -> str:
    return tomli_w.dumps({key: value for key, value in table.items() if value is not None})
