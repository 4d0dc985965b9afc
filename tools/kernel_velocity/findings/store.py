"""The files of findings, expectations and nights, in `results/findings`, `expected` and `nights` below it: TOML.

One file each, with its keys always in the same order, so that branches merge without a conflict and the diff of a
decision is that decision. People edit these files: each is checked when it is read, and a bad one costs no other.

What a night measured is not for people to edit: `check` tells whether it was changed. People may remove that line. They
decide about a finding in its keys of EDITED, which it does not cover.

Of nights there is the newest of each machine. Its file lies below the findings, because the branch `results` carries
them from machine to machine. It is no JSON, because asv takes every JSON file below its results for one of its own.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import tomli_w

from kernel_velocity import documents, fields
from kernel_velocity.errors import ResultsError
from kernel_velocity.fields import Sha
from kernel_velocity.files import replace_text
from kernel_velocity.findings import verdict
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.finding import OF_SERIES, Finding, Ratio
from kernel_velocity.findings.verdict import NightVerdict
from kernel_velocity.results.identity import Identity

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
            records.append(parse(kind, documents.contents_of(path).decode("utf-8"), path))
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
    if not path.exists() or documents.lines_of(path) != text:
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


NIGHTS = "nights"  # in the folder of the findings
LISTED_FAILURES = 20  # failures that are named; the summary counts all


@dataclass(frozen=True, kw_only=True)
class Noted:
    """A series that the next night has to know of, and a commit."""

    identity: Identity = field(metadata=OF_SERIES)
    commit: Sha
    ratio: Ratio = 1.0  # new / old, as its history has it

    @property
    def effect(self) -> float:
        """The change of the logarithm of the value."""
        return math.log(self.ratio)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What a night has to know of the one before."""

    refuted: tuple[Noted, ...] = ()  # moved at the commit, and a re-run in turns showed nothing
    left: tuple[Noted, ...] = ()  # changed their code after the commit, and there was no time for a re-run


NO_MEMORY = Memory()


@dataclass(frozen=True, kw_only=True)
class NightRecord:
    """The verdict of a machine's newest night."""

    machine: str
    when: datetime  # with a time zone
    summary: str  # one line
    exit_status: int  # of the contract
    measured: int  # series
    failures: tuple[str, ...] = ()  # benchmarks and builds that failed, at most LISTED_FAILURES, each with its reason
    memory: Memory = NO_MEMORY


def night_record(night: NightVerdict, machine: str, memory: Memory = NO_MEMORY) -> NightRecord:
    """Return the record of a night's verdict."""
    return NightRecord(
        machine=machine,
        when=night.when,
        summary=verdict.summary(night),
        exit_status=verdict.exit_status(night),
        measured=night.measured,
        failures=tuple(
            f"{failed.what}: {failed.why}" for failed in (*night.failed_builds, *night.failures)[:LISTED_FAILURES]
        ),
        memory=memory,
    )


def write_night(results: Path, record: NightRecord) -> Path:
    """Write a verdict in the place of the machine's last one, and return the file."""
    path = results / FOLDER / NIGHTS / f"{record.machine}{SUFFIX}"
    replace_text(path, as_text(record))
    return path


def read_nights(results: Path) -> tuple[tuple[NightRecord, ...], tuple[str, ...]]:
    """Return the recorded verdicts, the newest first, and a line for each file with an error."""
    records, problems = read_folder(results / FOLDER / NIGHTS, NightRecord)
    return tuple(sorted(records, key=lambda record: (-record.when.timestamp(), record.machine))), problems


def memory_of(results: Path, machine: str, since: float) -> tuple[Memory, tuple[str, ...]]:
    """Return what a machine's last night left to the one that began at a Unix time, s, and a line for each bad file."""
    records, problems = read_nights(results)
    nights = (record for record in records if record.machine == machine and record.when.timestamp() < since)
    return next((record.memory for record in nights), NO_MEMORY), problems
