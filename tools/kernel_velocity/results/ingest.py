"""``kv ingest``: move the rounds of finished measurements from the spool beside asv's results.

A line stays in the spool until a stored result rests on it. A line that no result claims within `GRACE`, of a dry run
or an interrupted run, is pruned. An interruption loses nothing: lines are first written to their new file, then removed
from the spool, and duplicate lines count once.

    .asv/spool/<environment>/<commit>.jsonl  ->  results/<machine>/telemetry/<commit8>-<environment>.jsonl

Failures (`.failures.jsonl`) and facts of sessions (`.sessions.jsonl`) move likewise. Lines name no machine, and results
of several machines may lie side by side, so `claimable` decides whose they are.
"""

from __future__ import annotations

import argparse
import fcntl
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO, TypeVar

from kernel_velocity import config, lock
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.harness import telemetry
from kernel_velocity.harness.spool import spool_path
from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results import asv_file, backup, foreign, lines
from kernel_velocity.results import failures as failure_lines
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.asv_file import Series, StoredFile
from kernel_velocity.results.failures import Failure
from kernel_velocity.results.join import TIME_SLACK, Change, Evidence, Settled, join, settle, still_true
from kernel_velocity.results.lines import CLAIMED, append, claimed, set_aside
from kernel_velocity.results.sessions import SessionFacts

GRACE = 86400.0  # s; a round belongs to a stored result minutes after it ended, a day is a safe multiple

Line = TypeVar("Line", Round, Failure)


@dataclass(kw_only=True)
class IngestSummary:
    """What one ingest was asked for, and what it did so far."""

    now: float
    machine: str | None
    moved: int = 0  # rounds now beside their result
    waiting: int = 0  # lines that a result may still claim
    pruned: int = 0  # lines that no result claimed within GRACE
    failures: int = 0  # failure lines moved
    restored: list[str] = field(default_factory=list)  # values that asv had dropped, or withdrawn, one line each
    problems: list[str] = field(default_factory=list)  # malformed lines and files, one line each


def ingest(
    root: Path, *, results: Path | None = None, now: float | None = None, machine: str | None = None
) -> IngestSummary:
    """Move what is waiting in the spool.

    Args:
        root: the folder of asv.conf.json. results: asv's results directory. None: `root/results`. now: Unix
            time, s. None: the clock's. Lines older than `GRACE` by then are pruned if nothing claims them. machine:
            asv's name of the machine that measured, whose file alone gets failures and dropped values. None: the one
            whose file agrees with a round, else the one whose file was measured last.
    """
    summary = IngestSummary(now=time.time() if now is None else now, machine=machine)
    spool = root / ".asv" / "spool"
    folder = root / "results" if results is None else results
    with _one_at_a_time(spool):
        for environment, commit in _waiting(spool):
            stored = _stored_files(folder, environment, commit, summary)
            _ingest_commit(root, environment, commit, stored, summary)
    return summary


@contextmanager
def _one_at_a_time(spool: Path) -> Iterator[None]:
    spool.mkdir(parents=True, exist_ok=True)
    with (spool / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _waiting(spool: Path) -> list[tuple[str, str]]:
    """Return (environment, commit) of everything in the spool."""
    paths = [*spool.glob("*/*.jsonl"), *spool.glob(f"*/*.jsonl{CLAIMED}*")]
    return sorted({(path.parent.name, path.name.split(".")[0]) for path in paths})


def _stored_files(results: Path, environment: str, commit: str, summary: IngestSummary) -> list[StoredFile]:
    files = []
    for path in asv_file.paths(results, environment, commit) if results.is_dir() else []:
        try:
            stored = StoredFile(path)
            for suffix in (lines.ROUNDS, failure_lines.SUFFIX, session_facts.SUFFIX):
                with suppress(FileNotFoundError):
                    lines.beside(path, suffix).open("rb").close()
        except (ResultsError, OSError) as error:  # what cannot be read must not be replaced
            summary.problems.append(f"{error}; its telemetry waits in the spool")
            continue
        if stored.commit == commit:
            files.append(stored)
    return files


def _ingest_commit(
    root: Path, environment: str, commit: str, stored: Sequence[StoredFile], summary: IngestSummary
) -> None:
    spool = spool_path(root, environment, commit)
    failed_spool = failure_lines.spool_path(root, environment, commit)
    session_spool = session_facts.spool_path(root, environment, commit)
    with (
        claimed(spool, lines.decode_round, summary.problems) as fresh,
        claimed(failed_spool, failure_lines.decode, summary.problems) as failed,
        claimed(session_spool, session_facts.decode, summary.problems) as sessions,
    ):
        left, left_failed, left_sessions = set(fresh), set(failed), sessions
        here = measured_here(stored, fresh, summary.machine)
        last = max(stored, key=lambda file: file.measured_at, default=None) if summary.machine is None else here
        for file in stored:
            failed_here = failed if file is (here or last) else ()
            claimed_rounds = claimable(file, fresh, is_here=file is here, is_last=file is last)
            rounds, failures = _settle(file, claimed_rounds, failed_here, summary)
            left -= rounds
            left_failed -= failures
            began = file.measured_at if summary.machine and file is here else -math.inf  # errors have no rounds
            left_sessions = _keep_sessions(file, left_sessions, max([began, *(round_.time for round_ in rounds)]))
        _put_back(spool, [(round_.time, telemetry.encode(round_)) for round_ in fresh if round_ in left], summary)
        waiting = [(failure.time, failure_lines.encode(failure)) for failure in failed if failure in left_failed]
        _put_back(failed_spool, waiting, summary)
        _put_back(session_spool, [(session.began, session_facts.encode(session)) for session in left_sessions], summary)


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


def _settle(
    file: StoredFile, fresh: Sequence[Round], failed: Sequence[Failure], summary: IngestSummary
) -> tuple[set[Round], set[Failure]]:
    """Write the telemetry and failures of one results file. Return the fresh lines that it took."""
    rounds_path, failures_path = (lines.beside(file.path, suffix) for suffix in (lines.ROUNDS, failure_lines.SUFFIX))
    recorded = _beside(rounds_path, lines.decode_round, summary)
    recorded_failures = _beside(failures_path, failure_lines.decode, summary)
    new, new_failures = by_series(fresh), by_series(failed)
    stored_series = dict(file.series())
    changed: list[str] = []
    for series, stored in stored_series.items():
        evidence = Evidence(
            recorded=recorded.get(series, ()),
            new=new.get(series, ()),
            recorded_failures=recorded_failures.get(series, ()),
            new_failures=new_failures.get(series, ()),
        )
        settled = settle(stored, evidence)
        changed += _change(file, series, settled)
        recorded[series] = list(settled.rounds)
        failures = dict.fromkeys([*evidence.recorded_failures, *evidence.new_failures])
        failed_now = settled.change is Change.WITHDRAW or (stored.failed and settled.change is Change.NONE)
        now = replace(stored, failed=failed_now)
        recorded_failures[series] = still_true(list(failures), settled.rounds, now)
    _write(rounds_path, recorded, telemetry.encode)
    _write(failures_path, recorded_failures, failure_lines.encode)
    if changed:
        file.save()
    summary.restored += changed
    moved = {round_ for series_rounds in recorded.values() for round_ in series_rounds} & set(fresh)
    moved_failures = {failure for failure in failed if (failure.benchmark, failure.params) in stored_series}
    summary.moved += len(moved)
    summary.failures += len(moved_failures)
    return moved, moved_failures


def _beside(path: Path, decode: Callable[[str], Line], summary: IngestSummary) -> dict[Series, list[Line]]:
    """Return the lines beside a results file by series, the malformed ones set aside."""
    return by_series(set_aside(path, lines.texts(path, summary.problems), decode, summary.problems))


def _change(file: StoredFile, series: Series, settled: Settled) -> Iterator[str]:
    """Restore or withdraw asv's stored value as settled, and yield a line about it."""
    if settled.change is Change.RESTORE:
        file.restore(series, settled.rounds)
        yield f"{_words(series)}: value restored from {len(settled.rounds)} rounds ({file.path.name})"
    elif settled.change is Change.WITHDRAW:
        file.withdraw(series)
        yield f"{_words(series)}: value withdrawn, a round of it failed ({file.path.name})"


def _words(series: Series) -> str:
    return f"{series[0]} ({', '.join(series[1])})"


def _write(path: Path, lines: Mapping[Series, Sequence[Line]], encode: Callable[[Line], str]) -> None:
    """Write a file beside the results, in order of time, if its text changes. Remove it if it would be empty."""
    ordered = sorted((line for group in lines.values() for line in group), key=lambda line: line.time)
    text = "".join(f"{encode(line)}\n" for line in ordered)
    if not text:
        path.unlink(missing_ok=True)
    elif not path.exists() or path.read_text(encoding="utf-8", errors="replace") != text:
        replace_text(path, text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--root", type=Path, default=Path(), help="the folder of asv.conf.json (default: here)")
    for program, form in foreign.FORMS.items():
        parser.add_argument(
            f"--{program}", type=Path, action="append", default=[], metavar="FILE", help=f"{form}; may be repeated"
        )
    parser.add_argument("--commit", metavar="REV", help="the commit that these files measured (default: HEAD)")
    parser.add_argument("--machine", metavar="NAME", help="the machine that measured these files (default: this one)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Ingest and say what was done. Return the exit status: 2 when a line or a file was malformed."""
    config.check(args.root)
    files = [(program, path) for program in foreign.FORMS for path in getattr(args, program.replace("-", "_"))]
    if files:
        return _record(args, files, out, err)
    if args.commit is not None or args.machine is not None:
        options = " or ".join(f"--{program} FILE" for program in foreign.FORMS)
        raise UsageError(f"--commit and --machine say what a file measured: give {options} too")
    results = args.root / config.results_dir(args.root)
    put_back = _put_back_values(args.root, results, err)
    summary = ingest(args.root, results=results)
    for line in (*put_back, *summary.restored):
        print(line, file=out)
    for line in summary.problems:
        print(line, file=err)
    print(
        f"{summary.moved} rounds and {summary.failures} failures moved, {summary.waiting} lines wait for their result, "
        f"{summary.pruned} pruned",
        file=out,
    )
    return ResultsError.exit_code if summary.problems else 0


def _record(args: argparse.Namespace, files: Sequence[tuple[str, Path]], out: TextIO, err: TextIO) -> int:
    """Record files of other programs, all of which are read before the first is written."""
    from kernel_velocity.results import git  # noqa: PLC0415 - imports GitPython, which asv's plugin does without

    commit = git.resolve(args.root, "--commit", args.commit or "HEAD")
    date = float(git.run(args.root, "show", "--no-patch", "--format=%ct", commit).stdout)
    runs = [foreign.read(program, path) for program, path in files]
    machine, facts = foreign.machine(args.root / config.results_dir(args.root), args.machine)
    with _one_at_a_time(args.root / ".asv" / "spool"):
        for (_, path), ran in zip(files, runs, strict=True):
            for line in ran.notes:
                print(f"note: {line}", file=err)
            done = foreign.record(ran, machine, commit=commit, date=date, facts=facts)
            counts = ", ".join(f"{done[fate]} {fate}" for fate in foreign.FATES)
            print(f"{path}: series of {commit[: git.SHORT]} on {machine.name}: {counts}", file=out)
    return 0


def _put_back_values(root: Path, results: Path, err: TextIO) -> list[str]:
    """Restore what an interrupted run left with fewer rounds, unless a run measures now: the copies are its own."""
    try:
        with lock.held(root, measures=False, wait=False):
            return backup.put_back(root, results)
    except UsageError as error:
        print(f"note: the values before an interrupted run are not restored: {error}", file=err)
        return []


def by_series(lines: Iterable[Line]) -> dict[Series, list[Line]]:
    """Return lines by series, in their order."""
    grouped: dict[Series, list[Line]] = {}
    for line in lines:
        grouped.setdefault((line.benchmark, line.params), []).append(line)
    return grouped


def measured_here(stored: Sequence[StoredFile], fresh: Sequence[Round], machine: str | None) -> StoredFile | None:
    """Return the file of the machine that measured `fresh`: that of `machine`, else one that agrees with a round."""
    if machine is not None:
        return next((file for file in stored if file.path.parent.name == machine), None)
    return next((file for file in stored if any(_agreeing(file, fresh))), None)


def _agreeing(file: StoredFile, fresh: Sequence[Round]) -> Iterator[Round]:
    new = by_series(fresh)
    for series, stored in file.series():
        yield from join(new.get(series, ()), stored)


def claimable(file: StoredFile, fresh: Sequence[Round], *, is_here: bool, is_last: bool) -> list[Round]:
    """Return the rounds that a file may rest on.

    Rounds cannot be compared with values that asv dropped, so the machine decides. A file of the machine that measured
    (`is_here`) may rest on all rounds. Another one may rest on those that agree with a value, and the file that was
    measured last also on those that began while it was measured.
    """
    if is_here:
        return list(fresh)
    agreeing = set(_agreeing(file, fresh))
    began = {series: stored.started_at for series, stored in file.series()} if is_last else {}
    for line in fresh:
        start = began.get((line.benchmark, line.params))
        if start is not None and start - TIME_SLACK <= line.time <= file.measured_at + TIME_SLACK:
            agreeing.add(line)
    return [line for line in fresh if line in agreeing]
