"""Telemetry files of a commit: JSON lines of rounds, failures and sessions, in a file of each kind.

Lines wait in the spool until a stored result rests on them. Then `ingest` moves them beside the results file:

    .asv/spool/<environment>/<commit><suffix>  ->  results/<machine>/telemetry/<commit8>-<environment><suffix>

An interruption loses no line: the lines that ingest takes stay beside the spool file until they are written elsewhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from kernel_velocity import bounds
from kernel_velocity.files import replace_text
from kernel_velocity.harness import telemetry
from kernel_velocity.harness.telemetry import GAUGES, Round, TelemetryError
from kernel_velocity.results import failures, sessions
from kernel_velocity.results.failures import Failure
from kernel_velocity.results.sessions import SessionFacts

Series = tuple[str, str, str]  # benchmark, implementation, case
Line = TypeVar("Line", Round, Failure, SessionFacts)
Timed = TypeVar("Timed", Round, Failure)
FOLDER = "telemetry"  # of a machine's folder
ROUNDS = ".jsonl"  # suffix; the others are `failures.SUFFIX` and `sessions.SUFFIX`
CLAIMED = ".claimed-"  # in the name of a spool file that an ingest works on, or was interrupted at
LONGEST = 128  # characters of an environment's name; asv hashes a longer one (`asv.results.get_filename`)
_MALFORMED = ".malformed"
_TIMES = ("estimate", *GAUGES)  # whose logarithms adjusting takes


def stem(commit: str, environment: str) -> str:
    """Return the stem of the files of a commit and environment, asv's and ours."""
    if len(environment) >= LONGEST:
        environment = f"env-{hashlib.md5(environment.encode(), usedforsecurity=False).hexdigest()}"
    return f"{commit[:8]}-{environment}"


def beside(results_file: Path, suffix: str) -> Path:
    """Return the telemetry file beside a results file, by its suffix."""
    return results_file.parent / FOLDER / f"{results_file.stem}{suffix}"


def texts(path: Path) -> list[str]:
    """Return the lines of a file. None if it does not exist. Malformed UTF-8 becomes U+FFFD."""
    return path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else []


def read(path: Path, decode: Callable[[str], Line], notes: list[str]) -> list[Line]:
    """Return the decoded lines of a file. `notes` gets a note for each malformed line.

    Args:
        decode: raises ValueError where a line is malformed.
    """
    items = []
    for number, text in enumerate(texts(path), start=1):
        try:
            items += [decode(_utf8(text))] if text else []
        except ValueError as error:
            notes.append(f"{'/'.join(path.parts[-3:])}:{number}: {error}; it is left out")
    return items


def read_rounds(path: Path, notes: list[str]) -> dict[Series, tuple[Round, ...]]:
    """Return the rounds of a file as `read`, by benchmark, implementation and case."""
    return _by_series(read(path, _checked(telemetry.decode), notes))


def read_failures(path: Path, notes: list[str]) -> dict[Series, tuple[Failure, ...]]:
    """Return the failures of a file as `read_rounds`, oldest first."""
    items = read(path, _checked(failures.decode), notes)
    return _by_series(sorted(items, key=lambda item: item.time))


def _by_series(items: Iterable[Timed]) -> dict[Series, tuple[Timed, ...]]:
    grouped: dict[Series, list[Timed]] = {}
    for item in dict.fromkeys(items):  # an interrupted ingest may have moved a line twice
        grouped.setdefault((item.benchmark, item.params[0], item.params[1]), []).append(item)
    return {series: tuple(several) for series, several in grouped.items()}


def _checked(decode: Callable[[str], Timed]) -> Callable[[str], Timed]:
    """Return a function that decodes a line and checks that pages can show it."""

    def checked(text: str) -> Timed:
        item = decode(text)
        if len(item.params) != 2:
            raise TelemetryError(f"params: implementation and case are wanted, got {item.params!r}")
        if not bounds.is_moment(item.time):
            raise TelemetryError(f"time: a Unix time is wanted, got {item.time!r}")
        for name in _TIMES if isinstance(item, Round) else ():
            value = getattr(item, name)
            if value is not None and not bounds.is_time(value):
                wanted = f"a time from {bounds.LEAST:g} to {bounds.MOST:g} s"
                raise TelemetryError(f"{name}: {wanted} is wanted, got {value!r}")
        return item

    return checked


def read_sessions(results_file: Path, notes: list[str]) -> tuple[SessionFacts, ...]:
    """Return the sessions that measured a results file, in the order stored. Notes as `read`."""
    return tuple(read(beside(results_file, sessions.SUFFIX), sessions.decode, notes))


def append_session(results_file: Path, session: SessionFacts) -> None:
    """Add a session unless it differs from the last one only in its time. The file is replaced at once."""
    path, recorded = beside(results_file, sessions.SUFFIX), read_sessions(results_file, [])
    if not recorded or replace(recorded[-1], began=session.began) != session:
        before = [line for line in texts(path) if line]
        replace_text(path, "".join(f"{line}\n" for line in [*before, sessions.encode(session)]))


@contextmanager
def claimed(path: Path, decode: Callable[[str], Line], problems: list[str]) -> Iterator[list[Line]]:
    """Take a spool file away from its writers and yield its lines. At the end, delete it.

    Writers open the file for each line. After the rename they begin a new file. A writer that has the old one open
    holds a lock, for which this waits. Files that an interrupted ingest left are taken too. Malformed lines go to a
    separate file, and `problems` gets a line for each.
    """
    if path.exists():
        path.rename(path.with_name(f"{path.name}{CLAIMED}{time.time_ns()}"))
    taken = sorted(path.parent.glob(f"{path.name}{CLAIMED}*"))
    yield decoded(path, dict.fromkeys(line for file in taken for line in _unlocked_texts(file)), decode, problems)
    for file in taken:
        file.unlink()


def _unlocked_texts(path: Path) -> list[str]:
    """Return the lines of a file once its last writer has unlocked it."""
    with path.open("r+b") as stream:  # writable, which an exclusive lock wants on NFS
        fcntl.flock(stream, fcntl.LOCK_EX)
        return texts(path)


def decoded(path: Path, lines: Iterable[str], decode: Callable[[str], Line], problems: list[str]) -> list[Line]:
    """Return the decoded lines of a file. Malformed ones are moved to a file beside it, and named in `problems`."""
    good = []
    for text in filter(str.strip, lines):
        try:
            good.append(decode(_utf8(text)))
        except ValueError as error:
            aside = path.with_name(path.name + _MALFORMED)
            problems.append(f"{path}: malformed line set aside in {aside.name}: {error}")
            append(aside, [text])
    return good


def _utf8(text: str) -> str:
    if "\ufffd" in text:  # which no writer of ours leaves raw
        raise TelemetryError("not UTF-8")
    return text


def append(path: Path, lines: Sequence[str]) -> None:
    """Append lines to a file. None leave no file."""
    if lines:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as stream:
            stream.writelines(f"{line}\n" for line in lines)
