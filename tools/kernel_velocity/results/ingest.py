"""``kv ingest``: move the rounds of finished measurements from the spool beside asv's results, and write asv's values.

The rounds beside a results file are the record. asv's value of a series is written from them where it is not theirs:
asv drops the rounds before a crash, and replaces a value in the first round of a run that may be interrupted.

    .asv/spool/<environment>/<commit>.jsonl  ->  results/<machine>/telemetry/<commit8>-<environment>.jsonl

Failures (`.failures.jsonl`) and facts of sessions (`.sessions.jsonl`) move likewise. A line that no result claims
within `GRACE`, of a dry run or an interrupted run, is pruned. An interruption loses nothing: lines are first written to
their new file, then removed from the spool, and duplicate lines count once.

What is not in rounds (versions of benchmarks, errors, ceilings, n/a) is asv's own. While asv runs, `RunResults` writes
no less of it than there was.
"""

from __future__ import annotations

import argparse
import enum
import fcntl
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, TypeVar

from kernel_velocity import lock, progress, units
from kernel_velocity.documents import lines_of
from kernel_velocity.engine import telemetry
from kernel_velocity.engine.spool import spool_path
from kernel_velocity.engine.telemetry import Round
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.results import asv_file, foreign, lines, programs
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.asv_file import Series, StoredFile, StoredSeries
from kernel_velocity.results.lines import (
    CLAIMED,
    FAILURES,
    TIME_SLACK,
    Failure,
    append,
    claimed,
    decode_failure,
    encode_failure,
    failures_spool,
    raised_since,
    set_aside,
)
from kernel_velocity.results.measurement import is_enough, round_interval
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.suite import config

FILES_NAMED = 3  # of one measurement, before a line only counts them
GRACE = 86400.0  # s; a round belongs to a stored result minutes after it ended, a day is a safe multiple

Line = TypeVar("Line", Round, Failure)


@dataclass(kw_only=True)
class IngestSummary:
    """What one ingest was asked for, and what it did so far."""

    now: float
    machine: str | None
    wanted: float
    moved: int = 0  # rounds now beside their result
    waiting: int = 0  # lines that a result may still claim
    pruned: int = 0  # lines that no result claimed within GRACE
    failures: int = 0  # failure lines moved
    restored: list[str] = field(default_factory=list)  # values that were written or withdrawn, one line each
    problems: list[str] = field(default_factory=list)  # malformed lines and files, one line each


def ingest(
    root: Path,
    *,
    results: Path | None = None,
    now: float | None = None,
    machine: str | None = None,
    wanted: float = math.inf,
) -> IngestSummary:
    """Move what is waiting in the spool. Not while a run measures in the clone: that one ingests when it ends.

    Args:
        root: the folder of asv.conf.json. results: asv's results directory. None: `root/results`. now: Unix
            time, s. None: the clock's. Lines older than `GRACE` by then are pruned if nothing claims them. machine:
            asv's name of the machine that measured. None: the one whose file asv wrote in the last waiting round.
        wanted: rounds of a complete measurement. A series with fewer new ones than these and than it has recorded
            rounds keeps the recorded ones.
    """
    summary = IngestSummary(now=time.time() if now is None else now, machine=machine, wanted=wanted)
    spool = root / ".asv" / "spool"
    folder = root / "results" if results is None else results
    with _one_at_a_time(spool):
        waiting = [*spool.glob("*/*.jsonl"), *spool.glob(f"*/*.jsonl{CLAIMED}*")]
        measured = sorted({(path.parent.name, path.name.partition(".")[0]) for path in waiting})
        for environment, commit in progress.counted("ingesting commits", measured):
            paths = asv_file.paths(folder, environment, commit) if folder.is_dir() else []
            files = [file for path in paths if (file := _stored_file(path, summary)) is not None]
            stored = [file for file in files if file.commit == commit]
            _ingest_commit(root, environment, commit, stored, summary)
    return summary


@contextmanager
def _one_at_a_time(spool: Path) -> Iterator[None]:
    spool.mkdir(parents=True, exist_ok=True)
    # Through no link, and so that a pipe in its place is not waited for
    with os.fdopen(os.open(spool / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _stored_file(path: Path, summary: IngestSummary) -> StoredFile | None:
    """Return a results file. None, and a problem, where it or a file beside it cannot be read, and so not replaced."""
    try:
        stored = StoredFile(path)
        for suffix in (lines.ROUNDS, FAILURES, session_facts.SUFFIX):
            lines.sound_texts(lines.beside(path, suffix))
    except (ResultsError, OSError) as error:
        summary.problems.append(f"{error}; its telemetry waits in the spool")
        return None
    return stored


def _ingest_commit(
    root: Path, environment: str, commit: str, stored: Sequence[StoredFile], summary: IngestSummary
) -> None:
    """Ingest what waits of a commit."""
    spool = spool_path(root, environment, commit)
    failed_spool = failures_spool(root, environment, commit)
    session_spool = session_facts.spool_path(root, environment, commit)
    with (
        claimed(spool, lines.decode_round, summary.problems) as fresh,
        claimed(failed_spool, decode_failure, summary.problems) as failed,
        claimed(session_spool, session_facts.decode, summary.problems) as sessions,
    ):
        left, left_failed, left_sessions = set(fresh), set(failed), sessions
        file = measured_here(stored, [*fresh, *failed], summary.machine)
        if file is not None:
            rounds, failures = _settle(file, fresh, failed, summary)
            left -= rounds
            left_failed -= failures
            began = file.measured_at if summary.machine else -math.inf  # errors have no rounds
            left_sessions = _keep_sessions(file, left_sessions, max([began, *(round_.time for round_ in rounds)]))
        _put_back(spool, [(round_.time, telemetry.encode(round_)) for round_ in fresh if round_ in left], summary)
        waiting = [(failure.time, encode_failure(failure)) for failure in failed if failure in left_failed]
        _put_back(failed_spool, waiting, summary)
        _put_back(session_spool, [(session.began, session_facts.encode(session)) for session in left_sessions], summary)


def measured_here(
    stored: Sequence[StoredFile], waiting: Sequence[Round | Failure], machine: str | None
) -> StoredFile | None:
    """Return the file of the machine that measured what is waiting, which names no machine.

    That of `machine`, else the one with the most waiting lines of the last round that asv has of their benchmark.
    """
    if machine is not None:
        return next((file for file in stored if file.path.parent.name == machine), None)
    counts = {file.path: _lines_of_last_round(file, waiting) for file in stored}
    best = max(stored, key=lambda file: counts[file.path], default=None)
    return best if best is not None and counts[best.path] else None


def _lines_of_last_round(file: StoredFile, waiting: Sequence[Round | Failure]) -> int:
    stored = dict(file.series())
    return sum(
        (series := stored.get((line.benchmark, line.params))) is not None
        and series.started_at is not None
        and series.started_at - TIME_SLACK <= line.time <= series.ended + TIME_SLACK
        for line in waiting
    )


def _keep_sessions(file: StoredFile, waiting: list[SessionFacts], newest: float) -> list[SessionFacts]:
    """Store the sessions that began by the `newest` Unix time of a file, s, beside it. Return the others."""
    for session in waiting:
        if session.began <= newest:
            lines.append_session(file.path, session)
    return [session for session in waiting if session.began > newest]


def _put_back(spool: Path, lines: Sequence[tuple[float, str]], summary: IngestSummary) -> None:
    """Write lines (with their times) that nothing claimed back to the spool, without those past GRACE."""
    unclaimed = [text for when, text in lines if summary.now - when <= GRACE]
    summary.waiting += len(unclaimed)
    summary.pruned += len(lines) - len(unclaimed)
    append(spool, unclaimed)


class Fate(enum.Enum):
    """What becomes of the value that asv stores of a series."""

    STAYS = "stays"
    FROM_ROUNDS = "from rounds"
    WITHDRAWN = "withdrawn"  # a round raised, or all died: there is no time


@dataclass(frozen=True, kw_only=True)
class SeriesLines:
    """The lines of one series: those beside the results, and those that came since."""

    recorded: Sequence[Round] = ()
    new: Sequence[Round] = ()
    recorded_failures: Sequence[Failure] = ()
    new_failures: Sequence[Failure] = ()


def settle(stored: StoredSeries, evidence: SeriesLines, wanted: float = math.inf) -> tuple[Fate, tuple[Round, ...]]:
    """Return what becomes of asv's value of a series, and the rounds that are its record now.

    A wrong kernel is wrong in every round. So where a round raised, for example because its numbers failed
    verification, there is no time. A round whose process died says nothing about the others, but where all of them
    died there is none either.

    Args:
        stored: asv's value now. evidence: the lines of the series.
        wanted: rounds of a complete measurement.
    """
    new = [round_ for round_ in evidence.new if round_.time <= stored.ended + TIME_SLACK]  # others are of no result yet
    died = any(failure.died for failure in evidence.new_failures)
    rounds = _current(stored, evidence.recorded, new, died=died)
    # asv's null stands for what was found wrong as long as nothing is measured anew
    failures = (
        evidence.new_failures if new or not stored.failed else [*evidence.recorded_failures, *evidence.new_failures]
    )
    if any(failure.raised for failure in failures) or raised_since(evidence.recorded_failures, rounds):
        return Fate.WITHDRAWN, rounds or tuple(evidence.recorded)
    if died and not new:
        return Fate.WITHDRAWN, ()
    before = set(evidence.recorded) - set(new)
    is_settled = is_enough(len(rounds), round_interval([round_.estimate for round_ in rounds]))
    missing = 0 if is_settled else min(len(before), wanted)
    if (new or evidence.new_failures) and max(len(rounds), stored.size) < missing:
        return Fate.FROM_ROUNDS, tuple(evidence.recorded)  # the run was cut off
    if rounds:
        return Fate.FROM_ROUNDS, rounds
    return Fate.STAYS, tuple(evidence.recorded)


def _current(stored: StoredSeries, recorded: Sequence[Round], new: Sequence[Round], *, died: bool) -> tuple[Round, ...]:
    """Return the rounds that the value of a series rests on, oldest first: the newest ones, as many as asv counts.

    asv's count tells whether it replaced a value, appended to it, or did not measure the series. It does not count the
    rounds before a crash. A series that does not apply has no rounds.
    """
    if stored.value is None and not stored.failed:
        return ()
    ordered, fresh = _ordered([*recorded, *new]), _ordered(new)
    before = set(recorded) - set(new)  # what an interrupted ingest wrote already is still new
    of_run = [round_ for round_ in fresh if round_.method == fresh[-1].method]
    if not fresh or (stored.value is not None and len(fresh) < stored.size == len(before)):
        current = _ordered(recorded)  # asv did not measure it
    elif stored.value is None:
        current = of_run
    else:
        current = (fresh if stored.size <= len(fresh) else ordered)[-stored.size :]
    return tuple(of_run if died and len(of_run) > len(current) else current)


def _ordered(rounds: Sequence[Round]) -> list[Round]:
    return sorted(dict.fromkeys(rounds), key=lambda round_: round_.time)


def _settle(
    file: StoredFile, fresh: Sequence[Round], failed: Sequence[Failure], summary: IngestSummary
) -> tuple[set[Round], set[Failure]]:
    """Write a results file and the lines beside it. Return the fresh lines that it took."""
    rounds_path, failures_path = (lines.beside(file.path, suffix) for suffix in (lines.ROUNDS, FAILURES))
    recorded = _beside(rounds_path, lines.decode_round, summary)
    recorded_failures = _beside(failures_path, decode_failure, summary)
    new, new_failures = by_series(fresh), by_series(failed)
    values: dict[Series, tuple[Round, ...]] = {}  # to write; no rounds: to withdraw
    of_file = dict(file.series())
    for series, stored in of_file.items():
        evidence = SeriesLines(
            recorded=recorded.get(series, ()),
            new=new.get(series, ()),
            recorded_failures=recorded_failures.get(series, ()),
            new_failures=new_failures.get(series, ()),
        )
        fate, rounds = settle(stored, evidence, summary.wanted)
        if fate is Fate.FROM_ROUNDS and not _is_of(stored, rounds):
            values[series] = rounds
        elif fate is Fate.WITHDRAWN and stored.value is not None:
            values[series] = ()
        recorded[series] = list(rounds)
        failures = dict.fromkeys([*evidence.recorded_failures, *evidence.new_failures])
        is_failed = fate is Fate.WITHDRAWN or (fate is Fate.STAYS and stored.failed)
        recorded_failures[series] = still_true(list(failures), rounds, failed=is_failed)
    _write(rounds_path, recorded, telemetry.encode)
    _write(failures_path, recorded_failures, encode_failure)
    summary.restored += _change(file, values)
    if values:
        file.save()
    moved = {round_ for series_rounds in recorded.values() for round_ in series_rounds} & set(fresh)
    moved_failures = {failure for failure in failed if (failure.benchmark, failure.params) in of_file}
    summary.moved += len(moved)
    summary.failures += len(moved_failures)
    return moved, moved_failures


def _is_of(stored: StoredSeries, rounds: Sequence[Round]) -> bool:
    """Return whether asv's value is that of rounds. Without samples, as of a plain `asv run`, their number tells."""
    if stored.samples is not None:
        return list(stored.samples) == [round_.estimate for round_ in rounds]
    return stored.size == len(rounds)


def _change(file: StoredFile, values: Mapping[Series, Sequence[Round]]) -> Iterator[str]:
    """Write or withdraw asv's values, and yield a line about each kind of change."""
    changed: dict[str, list[Series]] = {}
    for series, rounds in values.items():
        file.restore(series, rounds)
        restored, withdrawn = f"restored from {units.count(len(rounds), 'round')}", "withdrawn, a round of it failed"
        changed.setdefault(restored if rounds else withdrawn, []).append(series)
    for change, several in changed.items():
        names = units.listed([f"{benchmark} ({', '.join(params)})" for benchmark, params in several])
        yield f"{names}: value {change} ({file.path.name})"


def still_true(failures: Sequence[Failure], rounds: Sequence[Round], *, failed: bool) -> list[Failure]:
    """Return the failures of the measurement: all if it failed, else those since its first round.

    Where the series does not apply, every round has the same reason. Only the newest one is returned, and none once
    there is a time.
    """
    deaths = [failure for failure in failures if failure.raised or failure.died]
    if failed:
        return deaths
    if not rounds:
        skipped = sorted((failure for failure in failures if failure.skipped), key=lambda failure: failure.time)
        return [*deaths, *skipped[-1:]]
    first = min(round_.time for round_ in rounds) - TIME_SLACK
    return [failure for failure in deaths if failure.time >= first]


def _beside(path: Path, decode: Callable[[str], Line], summary: IngestSummary) -> dict[Series, list[Line]]:
    """Return the lines beside a results file by series, the malformed ones set aside."""
    return by_series(set_aside(path, lines.texts(path, summary.problems), decode, summary.problems))


def _write(path: Path, lines: Mapping[Series, Sequence[Line]], encode: Callable[[Line], str]) -> None:
    """Write a file beside the results, in order of time, if its text changes. Remove it if it would be empty."""
    ordered = sorted((line for group in lines.values() for line in group), key=lambda line: line.time)
    text = "".join(f"{encode(line)}\n" for line in ordered)
    if not text:
        path.unlink(missing_ok=True)
    elif not path.exists() or lines_of(path) != text:
        replace_text(path, text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--root", type=Path, default=Path(), help="the folder of asv.conf.json (default: here)")
    for program, form in programs.FORMS.items():
        parser.add_argument(
            f"--{program}",
            type=Path,
            nargs="+",
            action="extend",
            default=[],
            metavar="FILE",
            help=f"{form}; several files are one measurement",
        )
    parser.add_argument("--commit", metavar="REV", help="the commit that these files measured (default: HEAD)")
    parser.add_argument("--machine", metavar="NAME", help="the machine that measured these files (default: this one)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Ingest and say what was done. Return the exit status: 2 when a line or a file was malformed."""
    config.check(args.root)
    paths_of = {program: getattr(args, program.replace("-", "_")) for program in programs.FORMS}
    files = {program: paths for program, paths in paths_of.items() if paths}
    if files:
        return _record(args, files, out, err)
    if args.commit is not None or args.machine is not None:
        options = " or ".join(f"--{program} FILE" for program in programs.FORMS)
        raise UsageError(f"--commit and --machine say what a file measured: give {options} too")
    results = args.root / config.results_dir(args.root)
    with lock.held(args.root, measures=False), progress.reported(err):
        summary = ingest(args.root, results=results)
    for line in summary.restored:
        print(line, file=out)
    for line in summary.problems:
        print(line, file=err)
    print(
        f"{summary.moved} rounds and {summary.failures} failures moved, {summary.waiting} lines wait for their result, "
        f"{summary.pruned} pruned",
        file=out,
    )
    return ResultsError.exit_code if summary.problems else 0


def _record(args: argparse.Namespace, files: Mapping[str, Sequence[Path]], out: TextIO, err: TextIO) -> int:
    """Record files of other programs, all of which are read before the first is written."""
    from kernel_velocity.results import git  # noqa: PLC0415 - imports GitPython, which asv's plugin does without

    commit = git.resolve(args.root, "--commit", args.commit or "HEAD")
    date = float(git.run(args.root, "show", "--no-patch", "--format=%ct", commit).stdout)
    with progress.reported(err):
        runs = [foreign.read(program, paths) for program, paths in files.items()]
    if args.machine is None:
        foreign.check_hosts(runs)
    machine, facts = foreign.machine(args.root / config.results_dir(args.root), args.machine)
    with _one_at_a_time(args.root / ".asv" / "spool"):
        for ran in runs:
            for line in ran.notes:
                print(f"note: {line}", file=err)
            done = foreign.record(ran, machine, commit=commit, date=date, facts=facts)
            counts = ", ".join(f"{done[fate]} {fate}" for fate in foreign.FATES)
            names = units.listed([str(path) for path in ran.paths], FILES_NAMED)
            print(f"{names}: series of {commit[: git.SHORT]} on {machine.name}: {counts}", file=out)
    return 0


def by_series(lines: Iterable[Line]) -> dict[Series, list[Line]]:
    """Return lines by series, in their order."""
    grouped: dict[Series, list[Line]] = {}
    for line in lines:
        grouped.setdefault((line.benchmark, line.params), []).append(line)
    return grouped
