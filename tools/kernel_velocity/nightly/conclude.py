"""From what a night measured to its verdict: reads the history, judges it, has it confirmed, writes the findings."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from asv.config import Config

from kernel_velocity.ab.confirm import Runner
from kernel_velocity.errors import ResultsError
from kernel_velocity.findings import decisions, evidence, evidence_store, finding, store
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.evidence import Evidence
from kernel_velocity.findings.finding import OPEN, Finding
from kernel_velocity.findings.verdict import Failed, Verdict
from kernel_velocity.nightly import confirm, judge
from kernel_velocity.nightly.judge import Before
from kernel_velocity.nightly.measure import LOOKED_AT
from kernel_velocity.nightly.screen import look_back, shift
from kernel_velocity.results import git
from kernel_velocity.results.records import Commit
from kernel_velocity.runner import report
from kernel_velocity.runner.session import Session
from kernel_velocity.series import history, past, silence
from kernel_velocity.series.past import Past


@dataclass(frozen=True, kw_only=True)
class Concluded:
    """A night's verdict, and what was looked at again and was not there."""

    verdict: Verdict
    refuted: tuple[str, ...]
    unwritten: bool = False  # whether findings could not be written: the next start has to do it


def conclude(work: Session, since: float, runner: Runner, *, budget: float, out: TextIO) -> Concluded:
    """Judge what a session measured, confirm what moved, and write down the findings.

    Args:
        work: the night's session, measured and ingested. since: when the night began, Unix time, s.
        runner: measures again, in turns. budget: s of measuring that it may take. out: is told what is done.
    """
    results = Path(Config.load().results_dir).absolute()
    when = datetime.now(UTC).replace(microsecond=0)
    if not work.has_results():
        return Concluded(verdict=_of_nothing(work, when), refuted=())
    recorded = past.open(results, work.root)
    kept = store.read(results)
    known = git.read(work.root, _named(recorded, kept.findings, work))
    order = recorded.order
    histories = recorded.histories()
    all_series = history.undated(histories.series, now := time.time())
    told = silence.from_the_future(histories.series, now, work.machine) + silence.renamed(all_series, work.machine)
    here = [item for item in all_series if item.identity.machine == work.machine]
    said, expected_notes = expectations(work.root, known.commits.values())
    suspected = judge.suspicions(
        here, shift, look_back, line=known.line, since=since, known=finding.known_steps(kept.findings, order)
    )
    taken = {(move.identity, move.bad.commit) for move in suspected.moves}
    moves = (*suspected.moves, *confirm.pending(kept.findings, here, taken))
    outcome = confirm.look_again(moves, runner, budget=budget, say=lambda text: print(text, file=out, flush=True))
    kept = store.read(results)  # again: people decide while a night measures
    before = Before(known=kept.findings, expectations=(*kept.expectations, *said), order=order, when=when)
    found = judge.findings(outcome, suspected, all_series, histories.absent, before)
    blocked, unwritten = write(results, work.machine, found, outcome.evidence, kept.findings)
    told += finding.beside_notes(found, order)
    verdict = Verdict(
        title=_title(work),
        when=when,
        measured=suspected.measured,
        findings=_to_tell(found, kept.findings, since),
        comparisons=tuple(outcome.comparisons),
        failures=tuple(map(_failed, _failures(work))),
        failed_builds=_failed_builds(work),
        stale=silence.stale(all_series, when.timestamp()),
        superseded=silence.superseded(all_series),
        errors=(*kept.problems, *blocked, *unwritten, *work.unreadable.values()),
        notes=tuple(dict.fromkeys((*work.notes, *recorded.problems, *expected_notes, *suspected.notes, *told))),
        commits=known.commits,
    )
    return Concluded(verdict=verdict, refuted=tuple(outcome.refuted.values()), unwritten=bool(unwritten))


def expectations(root: Path, commits: Collection[Commit]) -> tuple[tuple[Expectation, ...], tuple[str, ...]]:
    """Return what the messages of commits, and of those that merges among them brought, expect; and notes."""
    return decisions.expectations(commits, git.merged(root, commits, saying=decisions.KEY))


def write(
    results: Path, machine: str, found: Sequence[Finding], tonight: Evidence, known: Sequence[Finding]
) -> tuple[list[str], list[str]]:
    """Write the findings and their evidence; return a line for each file in the way, and one if the disk failed.

    A full disk takes nobody the verdict on hours of measuring.
    """
    blocked: list[str] = []
    try:
        # Evidence first: a night that is cut off in between looks again at what no finding explains yet
        blocked += keep(results, machine, found, tonight)
        blocked += _write(results, found, known)
    except OSError as error:
        return blocked, [f"findings cannot be written: {error}; mend that: the next start writes and tells them again"]
    return blocked, []


def _write(results: Path, found: Sequence[Finding], known: Sequence[Finding]) -> list[str]:
    """Write what is new or changed; return a line for each finding whose file is there and cannot be read.

    Such a file holds decisions: it is not replaced.
    """
    before = {item.id: item for item in known}
    blocked = []
    for item in found:
        path = store.path_of(results, item)
        if item.id not in before and path.exists():
            blocked.append(f"{path}: cannot be read, so what this night found of it is not written down; mend the file")
        elif before.get(item.id) != item:
            store.write(results, item)
    return blocked


def keep(results: Path, machine: str, found: Sequence[Finding], tonight: Evidence) -> list[str]:
    """Keep this night's evidence beside its findings; return a line for each file that cannot be read."""
    blocked = []
    for item in found:
        own = evidence.of(item, tonight)
        try:
            if own:
                evidence_store.add(results, item.id, machine, own)
        except ResultsError as error:
            blocked.append(f"{error}; what this night measured again for it is not kept")
    return blocked


def _title(work: Session) -> str:
    return f"nightly on {work.machine}"


def _failed_builds(work: Session) -> tuple[Failed, ...]:
    """Return the commits that do not build: tonight's, and the newest that changed a kernel where it is given up."""
    newest = git.commits(work.root, None, most=1)
    given_up = {
        sha: "did not build on earlier nights, and is not tried again (`make track AGAIN=1 RANGE=...` does)"
        for sha in newest
        if sha not in work.failed_builds and work.failed_before(sha)
    }
    return tuple(Failed(what=commit, why=why) for commit, why in (work.failed_builds | given_up).items())


def _of_nothing(work: Session, when: datetime) -> Verdict:
    """Return the verdict where nothing was ever recorded: there is nothing to judge."""
    return Verdict(title=_title(work), when=when, measured=0, failed_builds=_failed_builds(work))


def _named(recorded: Past, found: Sequence[Finding], work: Session) -> set[str]:
    """Return the commits whose messages are wanted: measured ones, what findings name, what may be blamed tonight."""
    newest = git.newest(work.root, LOOKED_AT)
    return {*recorded.directory.commits.values()} | {sha for item in found for sha in item.commits} | set(newest)


def _to_tell(found: Sequence[Finding], known: Sequence[Finding], since: float) -> tuple[Finding, ...]:
    """Return the findings that this night made or changed, and all others that wait for somebody.

    A night that was cut off may have written some of them before.
    """
    before, now = {item.id: item for item in known}, time.time()

    def is_of_tonight(item: Finding) -> bool:
        return bool(item.decisions) and since <= item.decisions[-1].when.timestamp() <= now

    return tuple(item for item in found if item.state in OPEN or before.get(item.id) != item or is_of_tonight(item))


def _failures(work: Session) -> list[str]:
    measurements, failures = work.measurements(), work.failures()
    return [
        *report.failed_lines(measurements, failures),
        *report.error_lines(work.wrong_errors(), failures),
        *report.short_lines(
            [item for item in measurements if item.commit in work.measured], work.rounds, work.reader.deaths
        ),
    ]


def _failed(line: str) -> Failed:
    """Return what one of the run's lines says, `failed: <commit> <series>: <why>`."""
    what, _, why = line.partition(": ")[2].partition(": ")
    return Failed(what=what, why=why)
