"""Telemetry files of a commit: JSON lines of rounds, failures and sessions, in a file of each kind.

Lines wait in the spool until a stored result rests on them. Then `ingest` moves them beside the results file:

    .asv/spool/<environment>/<commit><suffix>  ->  results/<machine>/telemetry/<commit8>-<environment><suffix>

Two commits whose hashes begin with the same eight digits have two files: the second one's name has its whole hash
(`results_path`).

asv stores that a benchmark failed, but not why: the measuring process writes a line before it gives up, and `kv track`
for a process that could not (crash, timeout).

    {"b": "matmul.Cpu.time_hot", "p": ["native", "float32-512x512x512"], "t": 1700000000.0, "error": "...",
    "died": true}

`died` is absent where the round raised an exception. `skipped` is true where the series does not apply (asv's n/a), for
the reason in `error`.

An interruption loses no line: the lines that ingest takes stay beside the spool file until they are written elsewhere.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kernel_velocity import bounds
from kernel_velocity.documents import ROOM, contents_of, has_checksum, lines_of, size_of, with_checksum
from kernel_velocity.engine import telemetry
from kernel_velocity.engine.spool import append_line
from kernel_velocity.engine.telemetry import GAUGES, LINE_LIMIT, Round, TelemetryError, parse
from kernel_velocity.errors import ResultsError
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
# Of one file: 1,000 rounds of each of 100 series, where a night measures 8. A report holds the rounds of all files
MOST_LINES = 100_000
DIGITS = 8  # of a commit's hash in asv's names of files
TELEMETRY = "telemetry"  # of a machine's folder
ROUNDS, FAILURES = ".jsonl", ".failures.jsonl"  # suffixes; the third is `sessions.SUFFIX`
TIME_SLACK = 1.0  # s by which the times of asv, of failures and of rounds may differ: a process's start-up
_INTERRUPTED = "KeyboardInterrupt"
CLAIMED = ".claimed-"  # in the name of a spool file that an ingest works on, or was interrupted at
LONGEST_ENVIRONMENT = 128  # characters of an environment's name; asv hashes a longer one (`asv.results.get_filename`)
_COMMIT = re.compile(rb'"commit_hash":\s*"(?P<commit>[0-9a-f]+)"')
_MALFORMED = ".malformed"
_TIMES = ("estimate", *GAUGES)  # whose logarithms adjusting takes


def in_name(environment: str) -> str:
    """Return what stands for an environment in the names of files, asv's and ours."""
    if len(environment) >= LONGEST_ENVIRONMENT:
        return f"env-{hashlib.md5(environment.encode(), usedforsecurity=False).hexdigest()}"
    return environment


def stem(commit: str, environment: str) -> str:
    """Return the stem that asv gives the files of a commit and environment."""
    return f"{commit[:DIGITS]}-{in_name(environment)}"


def results_path(machine: Path, commit: str, environment: str) -> Path:
    """Return the results file of a commit and environment, which may not be there yet.

    Where the file that asv names by DIGITS is another commit's, the name has the whole hash.

    Args:
        machine: its folder in the results. commit: full SHA.

    Raises:
        ResultsError: the file that asv names cannot be read, so nobody knows whose it is.
    """
    path, whole = (machine / f"{name}.json" for name in (stem(commit, environment), f"{commit}-{in_name(environment)}"))
    return whole if whole.exists() or commit_in(path) not in (commit, None) else path


def counterpart(path: Path, machine: Path) -> Path:
    """Return the results file in a machine's folder of the commit and environment of another results file.

    Raises:
        ResultsError: one of them cannot be read.
    """
    commit = commit_in(path)
    return machine / path.name if commit is None else results_path(machine, commit, path.stem.partition("-")[2])


def commit_in(path: Path) -> str | None:
    """Return the commit that a results file names. None: there is no file, or it names none.

    Raises:
        ResultsError: it cannot be read.
    """
    try:
        match = _COMMIT.search(contents_of(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read ({error.strerror})") from None
    return match["commit"].decode() if match else None


def beside(results_file: Path, suffix: str) -> Path:
    """Return the telemetry file beside a results file, by its suffix."""
    return results_file.parent / TELEMETRY / f"{results_file.stem}{suffix}"


def texts(path: Path, notes: list[str]) -> list[str]:
    """Return the lines of a file. None, and a note unless it is missing, where it cannot be read.

    Malformed UTF-8 becomes U+FFFD, which `decoded` refuses.
    """
    try:
        return sound_texts(path)
    except OSError as error:
        notes.append(f"{_where(path)}: {error.strerror}; it is left out")
        return []


def sound_texts(path: Path) -> list[str]:
    """Return the lines of a file as `texts`, for whoever replaces it.

    Raises:
        OSError: it is there and cannot be read, or has too many lines. So it is not replaced.
    """
    try:
        lines = lines_of(path).split("\n")
    except FileNotFoundError:
        return []
    if len(lines) > MOST_LINES + 1:
        got = f"at most {MOST_LINES:,} lines are wanted, got {len(lines) - 1:,}"
        raise OSError(errno.EINVAL, got, str(path))
    return lines


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
    entries = decoded(sound_texts(path), decode_round)
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
    """Add a session unless it differs from the last one only in its time. The file is replaced at once.

    Machine code that the session did not read is that of the last one, where the code hashes are equal.
    """
    path, recorded = beside(results_file, sessions.SUFFIX), read_sessions(results_file, [])
    if recorded and recorded[-1].code == session.code:
        session = replace(session, listings={**recorded[-1].listings, **session.listings})
    if not recorded or replace(recorded[-1], began=session.began) != session:
        lines = decoded(sound_texts(path), sessions.decode)
        before = [text if isinstance(record, ValueError) else sessions.encode(record) for _, text, record in lines]
        replace_text(path, "".join(f"{line}\n" for line in [*before, sessions.encode(session)]))


def add_sessions(results_file: Path, others: Iterable[SessionFacts]) -> None:
    """Add sessions that measured a results file in another place, or another program. Each is stored once."""
    text = sessions.merged(read_sessions(results_file, []), others)
    if text:
        replace_text(beside(results_file, sessions.SUFFIX), text)


@contextmanager
def claimed(path: Path, decode: Callable[[str], Line], problems: list[str]) -> Iterator[list[Line]]:
    """Take a spool file away from its writers and yield its lines. At the end, delete it.

    Writers open the file for each line. After the rename they begin a new file. A writer that has the old one open
    holds a lock, for which this waits. Files that an interrupted ingest left are taken too. Malformed lines go to a
    separate file, and `problems` gets a line for each. A file that cannot be read, or is no file of lines, stays.
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
        OSError: it cannot be read, is no regular file, or is too large.
    """
    size_of(path)  # opens nothing that could wait
    with path.open("r+b") as stream:  # writable, which an exclusive lock wants on NFS
        fcntl.flock(stream, fcntl.LOCK_EX)
        return sound_texts(path)


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


# Lines of another file ------------------------------------------------------------------------------------------------

_ANY_LENGTH = 1 << 20  # bytes; another program's names are long, and no process appends these lines beside others
CODECS: Mapping[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {  # by suffix
    ROUNDS: (telemetry.decode, partial(telemetry.encode, limit=_ANY_LENGTH)),
    FAILURES: (decode_failure, encode_failure),
}
Named = tuple[str, tuple[str, ...]]  # a series: benchmark, parameters


def merge_beside(
    results_file: Path, there: Mapping[str, Iterable[str]], replaced: Collection[Named], adopted: Collection[Named]
) -> None:
    """Replace lines beside a results file by those of others. A file that would be empty is removed.

    Args:
        there: lines by suffix.
        replaced, adopted: the series whose lines here leave, and those whose lines there come.
    """
    for suffix, others in there.items():
        path = beside(results_file, suffix)
        text = _merged(sound_texts(path), others, replaced, adopted, suffix)
        if text:
            replace_text(path, text)
        else:
            path.unlink(missing_ok=True)


def _merged(
    here: Iterable[str], there: Iterable[str], replaced: Collection[Named], adopted: Collection[Named], suffix: str
) -> str:
    """Return the text of merged lines, in the order of time, those that cannot be read last."""
    decode, encode = CODECS[suffix]
    times: dict[str, float] = {}  # Unix time, s, by line
    for _, line, entry in decoded(here, decode):
        if isinstance(entry, ValueError):
            times[line] = math.inf
        elif (entry.benchmark, entry.params) not in replaced:
            times[encode(entry)] = entry.time
    for _, _, entry in decoded(there, decode):
        if not isinstance(entry, ValueError) and (entry.benchmark, entry.params) in adopted:
            times[encode(entry)] = entry.time
    return "".join(f"{line}\n" for line in sorted(times, key=times.__getitem__))
