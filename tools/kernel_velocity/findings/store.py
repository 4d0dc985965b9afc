"""The files of findings and expectations: `results/findings/<id>.toml`, `results/findings/expected/<id>.toml`.

One file each, with its keys always in the same order, so that branches merge without a conflict and the diff of a
decision is that decision. People edit these files: each is checked when it is read, and a bad one costs no other.

What a night measured is not for people to edit: `check` tells whether it was changed. People may remove that line. They
decide about a finding in its keys of EDITED, which it does not cover.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import tomli_w

from kernel_velocity import fields
from kernel_velocity.errors import ResultsError
from kernel_velocity.files import replace_text
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.finding import Finding
from kernel_velocity.harness import documents

FOLDER = "findings"  # in the results directory
EXPECTED = "expected"  # in that folder
SUFFIX = ".toml"
CHECK = "check"  # key of a CRC-32
EDITED = ("state", "how", "ruled_out", "decisions")
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
        except OSError as error:
            problems.append(f"{path}: {error.strerror}")
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
        data = tomllib.loads(text)
    except RecursionError:
        raise ResultsError(f"{path}: not TOML: nested too deeply") from None
    except ValueError as error:  # a whole number of thousands of digits among them
        hint = ": a merge was left unfinished here" if "<<<<<<<" in text else ""
        raise ResultsError(f"{path}: not TOML: {error}{hint}") from None
    check = data.pop(CHECK, None)
    record = fields.parse(kind, data, path)
    if getattr(record, "id", path.stem) != path.stem:
        raise ResultsError(f"{path}: id: the file's name, {path.stem!r}, is wanted")
    if check is not None and check != _check(data):
        cure = f"restore it, or remove the line {CHECK} to let it stand as it is"
        raise ResultsError(f"{path}: {CHECK}: the measured values were edited: {cure}")
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
    text = _text(data)
    return text if isinstance(record, Expectation) else _text({**data, CHECK: _check(tomllib.loads(text))})


def _text(data: Mapping[str, Any]) -> str:
    arrays = [name for name in ("decisions", "series") if name in data]
    # With a head each: tomli-w would write a short table of an array in one line, until it is longer
    tables = [f"[[{name}]]\n{_toml(row)}" for name in arrays for row in data[name]]
    head = _toml({name: value for name, value in data.items() if name not in arrays})
    return "\n".join([head, *tables]).encode("utf-8", "replace").decode("utf-8")


def _check(data: Mapping[str, Any]) -> str:
    """Return the check of a file's keys that nobody edits. `data` as TOML has them."""
    measured = {key: value for key, value in data.items() if key not in EDITED}
    return documents.crc(json.dumps(measured, default=str, sort_keys=True))


def _toml(table: Mapping[str, Any]) -> str:
    return tomli_w.dumps({key: value for key, value in table.items() if value is not None})
