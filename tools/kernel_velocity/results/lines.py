"""Telemetry files of a commit: JSON lines of rounds, failures and sessions, in a file of each kind.

Lines wait in the spool until a stored result rests on them. Then `ingest` moves them beside the results file:

    .asv/spool/<environment>/<commit><suffix>  ->  results/<machine>/telemetry/<commit8>-<environment><suffix>

asv stores that a benchmark failed, but not why: the measuring process writes a line before it gives up, and `kv track`
for a process that could not (crash, timeout).

    {"b": "matmul.Cpu.time_hot", "p": ["native", "float32-512x512x512"], "t": 1700000000.0, "error": "...",
    "died": true}

`died` is absent where the round raised an exception. `skipped` is true where the series does not apply (asv's n/a), for
the reason in `error`.

An interruption loses no line: the lines that ingest takes stay beside the spool file until they are written elsewhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from kernel_velocity import bounds
from kernel_velocity.documents import ROOM, has_checksum, with_checksum
from kernel_velocity.engine import telemetry
from kernel_velocity.engine.spool import append_line
from kernel_velocity.engine.telemetry import GAUGES, LINE_LIMIT, Round, TelemetryError, parse
from kernel_velocity.files import replace_text
from kernel_velocity.results import sessions
from kernel_velocity.results.sessions import SessionFacts


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One round of one series that ended without a value."""

    benchmark: str
    params: tuple[str, ...]  # implementation, case
    time: float  # Unix time, s
    error: str
    died: bool = False  # its process crashed or timed out, without an exception
    skipped: bool = False  # no failure: the series does not apply at this commit, or on this machine

    @property
    def raised(self) -> bool:
        """Whether the code under test raised an exception. Ctrl-C is none of it."""
        return not (self.died or self.skipped or self.error.startswith(_INTERRUPTED))


Series = tuple[str, str, str]  # benchmark, implementation, case
Line = TypeVar("Line", Round, Failure, SessionFacts)
Timed = TypeVar("Timed", Round, Failure)
TELEMETRY = "telemetry"  # of a machine's folder
ROUNDS, FAILURES = ".jsonl", ".failures.jsonl"  # suffixes; the third is `sessions.SUFFIX`
TIME_SLACK = 1.0  # s by which the times of asv, of failures and of rounds may differ: a process's start-up
_INTERRUPTED = "KeyboardInterrupt"
CLAIMED = ".claimed-"  # in the name of a spool file that an ingest works on, or was interrupted at
LONGEST_ENVIRONMENT = 128  # characters of an environment's name; asv hashes a longer one (`asv.results.get_filename`)
_MALFORMED = ".malformed"
_TIMES = ("estimate", *GAUGES)  # whose logarithms adjusting takes


def stem(commit: str, environment: str) -> str:
    """Return the stem of the files of a commit and environment, asv's and ours."""
    if len(environment) >= LONGEST_ENVIRONMENT:
        environment = f"env-{hashlib.md5(environment.encode(), usedforsecurity=False).hexdigest()}"
    return f"{commit[:8]}-{environment}"


def beside(results_file: Path, suffix: str) -> Path:
    """Return the telemetry file beside a results file, by its suffix."""
    return results_file.parent / TELEMETRY / f"{results_file.stem}{suffix}"


def texts(path: Path, notes: list[str]) -> list[str]:
    """Return the lines of a file. None, and a note unless it is missing, where it cannot be read.

    Malformed UTF-8 becomes U+FFFD, which `decoded` refuses.
    """
    try:
        return path.read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        notes.append(f"{_where(path)}: {error.strerror}; it is left out")
        return []


def _where(path: Path) -> str:
    return "/".join(path.parts[-3:])


def decoded(
    texts: Iterable[str], decode: Callable[[str], Line]
) -> Iterator[tuple[int, str, Line] | tuple[int, str, ValueError]]:
    """Yield number, text and record of each line that is not blank. What is wrong with a line stands for its record."""
    for number, text in enumerate(texts, start=1):
        if not text or text.isspace():
            continue
        try:
            if "\ufffd" in text:  # which no writer of ours leaves raw
                raise TelemetryError("not UTF-8")
            yield number, text, decode(text)
        except ValueError as error:
            yield number, text, error


def read(path: Path, decode: Callable[[str], Line], notes: list[str]) -> list[Line]:
    """Return the decoded lines of a file. `notes` gets a note for each malformed line.

    Args:
        decode: raises ValueError where a line is malformed.
    """
    good: list[Line] = []
    unchecked: list[int] = []
    lines = texts(path, notes)
    for number, text, record in decoded(lines, decode):
        if isinstance(record, ValueError):
            notes.append(f"{_where(path)}:{number}: {record}; it is left out")
            continue
        good.append(record)
        if not has_checksum(text):
            unchecked.append(number)
    if 0 < len(unchecked) < len(good):
        short = [number for number in unchecked if len(lines[number - 1]) < LINE_LIMIT - ROOM]
        if short:
            notes.append(f"{_where(path)}:{short[0]}: no checksum, which other lines have: it may have changed")
    return good


def read_rounds(path: Path, notes: list[str]) -> dict[Series, tuple[Round, ...]]:
    """Return the rounds of a file as `read`, by benchmark, implementation and case."""
    return _by_series(read(path, decode_round, notes))


def remove_rounds(results_file: Path, benchmarks: Collection[str]) -> None:
    """Remove the rounds of some benchmarks from beside a results file. Malformed lines stay."""
    path = beside(results_file, ROUNDS)
    entries = decoded(texts(path, []), decode_round)
    others = [text for _, text, entry in entries if isinstance(entry, ValueError) or entry.benchmark not in benchmarks]
    if path.exists():
        replace_text(path, "".join(f"{line}\n" for line in others))


def read_failures(path: Path, notes: list[str]) -> dict[Series, tuple[Failure, ...]]:
    """Return the failures of a file as `read_rounds`, oldest first."""
    return _by_series(sorted(read(path, _decode_failure, notes), key=lambda failure: failure.time))


def _by_series(entries: Iterable[Timed]) -> dict[Series, tuple[Timed, ...]]:
    grouped: dict[Series, list[Timed]] = {}
    for entry in dict.fromkeys(entries):  # an interrupted ingest may have moved a line twice
        grouped.setdefault((entry.benchmark, entry.params[0], entry.params[1]), []).append(entry)
    return {series: tuple(several) for series, several in grouped.items()}


def decode_round(text: str) -> Round:
    """Return the round of a line, with times that pages can show.

    Raises:
        TelemetryError: as `telemetry.decode`, or it is of no series, or a time is out of bounds.
    """
    entry = _of_series(telemetry.decode(text))
    if not 0 <= entry.time <= bounds.LAST_MOMENT:  # `decode` returns numbers alone
        raise TelemetryError(f"time: a Unix time is wanted, got {entry.time!r}")
    for name in _TIMES:
        value = getattr(entry, name)
        if value is not None and not bounds.LEAST <= value <= bounds.MOST:
            wanted = f"a time from {bounds.LEAST:g} to {bounds.MOST:g} s"
            raise TelemetryError(f"{name}: {wanted} is wanted, got {value!r}")
    return entry


def _decode_failure(text: str) -> Failure:
    return _of_series(decode_failure(text))


def _of_series(entry: Timed) -> Timed:
    if len(entry.params) != 2:
        raise TelemetryError(f"params: implementation and case are wanted, got {entry.params!r}")
    return entry


def read_sessions(results_file: Path, notes: list[str]) -> tuple[SessionFacts, ...]:
    """Return the sessions that measured a results file, in the order stored. Notes as `read`."""
    return tuple(read(beside(results_file, sessions.SUFFIX), sessions.decode, notes))


def append_session(results_file: Path, session: SessionFacts) -> None:
    """Add a session unless it differs from the last one only in its time. The file is replaced at once."""
    path, recorded = beside(results_file, sessions.SUFFIX), read_sessions(results_file, [])
    if not recorded or replace(recorded[-1], began=session.began) != session:
        lines = decoded(texts(path, []), sessions.decode)
        before = [text if isinstance(record, ValueError) else sessions.encode(record) for _, text, record in lines]
        replace_text(path, "".join(f"{line}\n" for line in [*before, sessions.encode(session)]))


@contextmanager
def claimed(path: Path, decode: Callable[[str], Line], problems: list[str]) -> Iterator[list[Line]]:
    """Take a spool file away from its writers and yield its lines. At the end, delete it.

    Writers open the file for each line. After the rename they begin a new file. A writer that has the old one open
    holds a lock, for which this waits. Files that an interrupted ingest left are taken too. Malformed lines go to a
    separate file, and `problems` gets a line for each. A file that cannot be read stays.
    """
    if path.is_file():
        path.rename(path.with_name(f"{path.name}{CLAIMED}{time.time_ns()}"))
    elif path.is_symlink() or path.exists():
        problems.append(f"{path}: no file")
    by_file: dict[Path, list[str]] = {}
    for file in sorted(path.parent.glob(f"{path.name}{CLAIMED}*")):
        try:
            by_file[file] = _unlocked_texts(file)
        except OSError as error:
            problems.append(f"{file}: {error.strerror}")
    yield list(set_aside(path, dict.fromkeys(line for texts in by_file.values() for line in texts), decode, problems))
    for file in by_file:
        file.unlink()


def _unlocked_texts(path: Path) -> list[str]:
    """Return the lines of a file once its last writer has unlocked it.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("r+b") as stream:  # writable, which an exclusive lock wants on NFS
        fcntl.flock(stream, fcntl.LOCK_EX)
        return stream.read().decode(errors="replace").split("\n")


def set_aside(path: Path, texts: Iterable[str], decode: Callable[[str], Line], problems: list[str]) -> Iterator[Line]:
    """Yield the decoded lines of a file. Malformed ones are moved to a file beside it, and named in `problems`."""
    for _, text, record in decoded(texts, decode):
        if isinstance(record, ValueError):
            aside = path.with_name(path.name + _MALFORMED)
            problems.append(f"{path}: malformed line set aside in {aside.name}: {record}")
            append(aside, [text])
        else:
            yield record


def append(path: Path, lines: Sequence[str]) -> None:
    """Append lines to a file. None leave no file."""
    if lines:
        append_line(path, "\n".join(lines))


# Failures -------------------------------------------------------------------------------------------------------------


def raised_since(failures: Iterable[Failure], rounds: Sequence[Round]) -> bool:
    """Return whether a round raised during the measurement of `rounds`, or later. False without any."""
    first = min((round_.time for round_ in rounds), default=math.inf) - TIME_SLACK
    return any(failure.raised and failure.time >= first for failure in failures)


def encode_failure(failure: Failure) -> str:
    """Return the line of a failure, without newline. In ASCII, since an error may hold what UTF-8 cannot."""
    line: dict[str, object] = {"b": failure.benchmark, "p": list(failure.params), "t": round(failure.time, 3)}
    line["error"] = failure.error
    if failure.died:
        line["died"] = True
    if failure.skipped:
        line["skipped"] = True
    return with_checksum(json.dumps(line, separators=(",", ":")))


def decode_failure(line: str) -> Failure:
    """Return the failure of a line. Unknown keys are ignored.

    Raises:
        TelemetryError: as `telemetry.parse`, or a key is absent or of the wrong type.
    """
    raw = parse(line)
    benchmark, params, time, text = (raw.get(key) for key in ("b", "p", "t", "error"))
    if not isinstance(benchmark, str) or not isinstance(text, str):
        raise TelemetryError(f"b and error: strings are wanted, got {benchmark!r} and {text!r}")
    if not isinstance(params, list) or not all(isinstance(param, str) for param in params):
        raise TelemetryError(f"p: a list of strings is wanted, got {params!r}")
    if not bounds.is_moment(time):
        raise TelemetryError(f"t: a Unix time is wanted, got {time!r}")
    return Failure(
        benchmark=benchmark,
        params=tuple(params),
        time=float(time),
        error=text,
        died=raw.get("died") is True,
        skipped=raw.get("skipped") is True,
    )


def failures_spool(root: Path, environment: str, commit: str) -> Path:
    """Return where the failures of a commit wait to be ingested."""
    return root / ".asv" / "spool" / environment / f"{commit}{FAILURES}"


def add_failure(path: Path, failure: Failure) -> None:
    """Append a failure's line."""
    append_line(path, encode_failure(failure))
