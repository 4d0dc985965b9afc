"""The measuring half of a night: choose commits, build them, have asv measure them, ingest, measure the ceilings.

An interrupted night resumes with the commits that it had chosen, and with what is measured of them.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from kernel_velocity.harness import timing
from kernel_velocity.nightly import plan
from kernel_velocity.nightly.journal import Night, Record
from kernel_velocity.nightly.plan import CommitState, Why
from kernel_velocity.results import git
from kernel_velocity.runner import fingerprint
from kernel_velocity.runner.report import LIMITS
from kernel_velocity.runner.session import Session

LOOKED_AT = 200  # newest commits that are searched for holes: reading what is stored of one takes 10 ms
ROUNDS = 8  # of the limits of runner/report.py
# s within which an interrupted night resumes: less than from one night to the next, which has commits of its own
LASTS = 20 * 3600.0


def begin(work: Session, record: Record, *, budget: float, tier: str, now: float, out: TextIO) -> Night:
    """Return the night to do: the interrupted one, or a new one.

    Args:
        work: of the line's newest commits. budget: s for all of the night. now: Unix time, s.
    """
    interrupted = record.night
    if interrupted is not None and interrupted.began > now:
        print(
            "note: the interrupted night began in the future: the clock was set back, and a new night begins", file=out
        )
        interrupted = None
    if interrupted is not None and set(work.commits) >= set(interrupted.commits):
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(interrupted.began))
        if now - interrupted.began <= LASTS:
            print(f"resuming the night of {when}", file=out)
            for commit in work.commits:
                work.is_readable(commit)  # notes those that are not; a new night examines them anyway
            return interrupted
        print(
            f"note: the night of {when} was interrupted too long ago to resume: a new one judges its values", file=out
        )
    seconds = LIMITS[tier] * work.rounds / ROUNDS
    chosen, left = plan.plan(commit_states(work, record), budget=budget, seconds_per_commit=seconds)
    for commit, why in chosen.items():
        print(f"tonight: {commit[:8]} ({why})", file=out)
    if left:
        print(f"left to another night, out of time: {len(left)} commits", file=out)
    return Night(
        began=now,
        commits=tuple(commit for commit in work.commits if commit in chosen),
        heartbeat=Why.HEARTBEAT in chosen.values(),
        judged_from=None if interrupted is None else interrupted.since,
    )


def changing(repository: Path) -> frozenset[str]:
    """Return the newest commits of the line that change files which kernels are built from."""
    return frozenset(git.commits(repository, None, most=LOOKED_AT))


def setting(work: Session, environ: Mapping[str, str]) -> str:
    """Return what identifies the series to measure and this machine. Another setting may give a test case a value."""
    series = [work.series.series, sorted(work.series.versions.items()), work.rounds, timing.method(environ)]
    text = json.dumps([*series, sorted(fingerprint.now(environ).items())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def commit_states(work: Session, record: Record) -> list[CommitState]:
    """Return the states of a session's commits on its machine and environment.

    A commit whose file cannot be read is noted in the session, and counts as measured: it costs the others nothing.
    """
    touched = changing(work.root)

    def is_done(commit: str) -> bool:
        return work.is_measured(commit) or record.incomplete.get(commit, 0) > plan.RETRIES

    return [
        CommitState(
            commit=commit,
            changes_kernels=commit in touched,
            is_readable=(is_readable := work.is_readable(commit)),
            is_measured=not is_readable or is_done(commit),
            failed_builds=max(1, record.unbuilt.get(commit, 0)) if work.failed_before(commit) else 0,
        )
        for commit in work.commits
    ]


def measure(work: Session, night: Night, *, device: str, ceilings: bool, out: TextIO, err: TextIO) -> None:
    """Build and measure the night's commits. A heartbeat that an interrupted night measured is not measured again."""
    work.recover(out)
    work.ingest(err)  # what an interrupted night left in the spool: it resumes from there
    again = night.heartbeat and not all(work.measured_since(commit, night.began) for commit in night.commits)
    work.forget_failures()
    work.build(False, out)
    try:
        work.measure(again, out)
    finally:
        work.ingest(err)
    if ceilings:
        work.measure_ceilings(device, out)
