"""Conclude a night: judge the history, confirm suspects, write the findings and the verdict."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TextIO

from kernel_velocity.ab.confirm import Runner
from kernel_velocity.errors import ResultsError
from kernel_velocity.findings import decisions, evidence, finding, store
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.evidence import Evidence
from kernel_velocity.findings.finding import OPEN, Finding, State
from kernel_velocity.findings.store import NO_MEMORY, Memory
from kernel_velocity.findings.verdict import NightVerdict
from kernel_velocity.nightly import confirm, judge, measure
from kernel_velocity.nightly.confirm import Remeasured
from kernel_velocity.nightly.judge import Suspicions
from kernel_velocity.nightly.measure import LOOKED_AT, NightJournal
from kernel_velocity.past.past import Past
from kernel_velocity.results import git
from kernel_velocity.results.identity import Slot
from kernel_velocity.results.measurement import Measurement
from kernel_velocity.results.records import History
from kernel_velocity.runner.session import LONGEST_SESSION, Session
from kernel_velocity.verdict import history, silence
from kernel_velocity.verdict.history import SeriesHistory
from kernel_velocity.verdict.moves import Move


@dataclass(frozen=True, kw_only=True)
class Concluded:
    """A night's verdict, what it measured, the moves that a re-run refuted, and what the next night continues from."""

    verdict: NightVerdict
    measurements: Sequence[Measurement] = ()  # of its commits
    refuted: tuple[str, ...] = ()
    memory: Memory = NO_MEMORY
    unwritten: bool = False  # whether findings could not be written: the next start has to do it


def conclude(
    work: Session, journal: NightJournal, recorded: Past | None, runner: Runner, *, budget: float, out: TextIO
) -> Concluded:
    """Judge the values of a night, confirm the moves, and write the findings.

    Args:
        work: has measured. recorded: the history with the night's values. None: nothing was ever recorded.
        runner: measures again, in turns. budget: s of measuring that it may take. out: for progress.
    """
    when = datetime.now(UTC).replace(microsecond=0)
    verdict = NightVerdict(
        title=f"nightly on {work.machine}", when=when, measured=0, failed_builds=measure.failed_builds(work)
    )
    if recorded is None:
        return Concluded(verdict=verdict)
    measurements, decided = work.among(recorded), store.read(work.results)
    background = _background(work, recorded, decided.findings, journal.since)
    before, forgotten = store.memory_of(work.results, work.machine, journal.since)
    night = _night(background, recorded, decided.findings, journal, before)
    failures = measure.lacking(work, measurements)
    suspected, moves, outcome = _looked_again(work, night, decided.findings, runner, budget=budget, out=out)
    decided = store.read(work.results)  # again: people decide while a night measures
    findings = judge.findings(
        outcome,
        suspected,
        background.series,
        background.absent,
        recorded=decided.findings,
        expectations=(*decided.expectations, *background.expected),
        order=recorded.order,
        when=when,
    )
    blocked, unwritten = write(work.results, work.machine, findings, outcome.evidence, decided.findings)
    memory = judge.remembered(moves, outcome, suspected, before)
    notes = (*work.notes, *recorded.problems, *forgotten, *background.notes)
    notes += finding.beside_notes(findings, recorded.order)
    if memory.left:
        notes += (f"out of time: {len(memory.left)} series whose code changed are left to the next night",)
    verdict = replace(
        verdict,
        measured=suspected.measured,
        findings=_to_report(findings, decided.findings, journal.since),
        comparisons=tuple(outcome.comparisons),
        failures=failures,
        stale=silence.stale(background.series, when.timestamp()),
        superseded=silence.superseded(background.series),
        errors=(*decided.problems, *blocked, *unwritten, *work.unreadable.values()),
        notes=tuple(dict.fromkeys(notes)),
        commits=background.commits.commits,
    )
    refuted = tuple(outcome.refuted.values())
    return Concluded(
        verdict=verdict, measurements=measurements, refuted=refuted, memory=memory, unwritten=bool(unwritten)
    )


@dataclass(frozen=True, kw_only=True)
class _Background:
    """What is known before anything is measured again."""

    commits: History
    expected: tuple[Expectation, ...]  # by messages of commits
    series: Sequence[SeriesHistory]  # of all machines, without values of the future
    here: Sequence[SeriesHistory]  # of this machine
    absent: Mapping[Slot, tuple[str, ...]]  # the commits at which a slot did not apply
    notes: tuple[str, ...]


def _background(work: Session, recorded: Past, findings: Iterable[Finding], since: float) -> _Background:
    """Return what is known of a history to which a night added the values from a Unix time on."""
    now = time.time()
    commits, (expected, notes) = _expectations(work.root, recorded, findings)
    histories = history.build(recorded)
    series = history.undated(histories.series, now)
    here = [history for history in series if history.identity.machine == work.machine]
    notes += silence.from_the_future(histories.series, now, work.machine) + silence.renamed(series, work.machine)
    return _Background(
        commits=commits,
        expected=expected,
        series=series,
        here=here,
        absent=histories.absent,
        notes=(*notes, *_uncompared(here, since)),
    )


def _night(
    background: _Background, recorded: Past, findings: Sequence[Finding], journal: NightJournal, memory: Memory
) -> judge.Night:
    """Return the night to judge: this machine's series, without the steps that findings explain."""
    return judge.Night(
        background.here,
        line=background.commits.line,
        idle=recorded.idle,
        since=journal.since,
        explained=finding.known_steps(findings, recorded.order),
        again=journal.again,
        memory=memory,
    )


def _looked_again(
    work: Session, night: judge.Night, findings: Sequence[Finding], runner: Runner, *, budget: float, out: TextIO
) -> tuple[Suspicions, tuple[Move, ...], Remeasured]:
    """Return what a night suspects, the moves that were to be measured again, and the outcome.

    The moves are those suspected, and those that findings left open.
    """
    # The sessions of earlier nights that suspects of the machine rest on
    stored = [evidence.read(work.results, record.id)[0] for record in findings if record.state is State.SUSPECT]
    reruns = (rerun for machines in stored for rerun in machines.get(work.machine, Evidence()).reruns)
    earlier = confirm.sessions(reruns, time.time() - LONGEST_SESSION)
    suspected = night.suspicions()
    already = {(move.identity, move.bad.commit) for move in suspected.suspects}
    moves = (*suspected.suspects, *confirm.pending(findings, night.histories, already))
    say = partial(print, file=out, flush=True)
    return suspected, moves, confirm.look_again(moves, runner, budget=budget, earlier=earlier, say=say)


def _uncompared(here: Iterable[SeriesHistory], since: float) -> Iterator[str]:
    """Yield a note where no series that a night measured has an earlier value."""
    times = [[entry.measured or 0.0 for entry in history.observations] for history in here]
    tonight = [moments for moments in times if max(moments) >= since]
    if tonight and all(min(moments) >= since for moments in tonight):
        yield "nothing was compared: no series of this night has an earlier value on this line of commits"


def _expectations(
    root: Path, recorded: Past, findings: Iterable[Finding]
) -> tuple[History, tuple[tuple[Expectation, ...], tuple[str, ...]]]:
    """Return measured commits, those of findings and the possible causes of tonight, and what their messages expect."""
    named = {sha for record in findings for sha in record.commits}
    read = git.read(root, named | {*recorded.directory.commits.values(), *git.newest(root, LOOKED_AT)})
    commits = read.commits.values()
    return read, decisions.expectations(commits, git.merged(root, commits, saying=decisions.KEY))


def write(
    results: Path, machine: str, findings: Sequence[Finding], night: Evidence, recorded: Sequence[Finding]
) -> tuple[list[str], list[str]]:
    """Write the findings and their evidence. Return a line for each file that blocks one, and one if the disk failed.

    A full disk does not lose the verdict on hours of measuring.
    """
    blocked: list[str] = []
    try:
        # Evidence first: a night that is cut off in between looks again at what no finding explains yet
        for record in findings:
            try:
                if rerun := evidence.of(record, night):
                    evidence.add(results, record.id, machine, rerun)
            except ResultsError as error:
                blocked.append(f"{error}; this night's re-runs of it are not kept")
        before = {record.id: record for record in recorded}
        for record in findings:
            path = store.path_of(results, record)
            if record.id not in before and path.exists():  # it holds decisions
                blocked.append(f"{path}: cannot be read, so tonight's finding is not written: repair the file")
            elif before.get(record.id) != record:
                store.write(results, record)
    except OSError as error:
        return blocked, [f"findings cannot be written: {error}; mend that: the next start writes and tells them again"]
    return blocked, []


def _to_report(findings: Sequence[Finding], recorded: Sequence[Finding], since: float) -> tuple[Finding, ...]:
    """Return the findings that this night made or changed, and all others that are open.

    Those that an interrupted start of this night wrote count as its own.
    """
    before, now = {record.id: record for record in recorded}, time.time()

    def is_of_tonight(record: Finding) -> bool:
        return bool(record.decisions) and since <= record.decisions[-1].when.timestamp() <= now

    return tuple(
        record
        for record in findings
        if record.state in OPEN or before.get(record.id) != record or is_of_tonight(record)
    )
