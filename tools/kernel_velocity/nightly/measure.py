"""The measuring half of a night: which commits, built, measured by asv, ingested, with the machine's ceilings.

A night that was cut off, however, goes on where it was: the commits are those it had chosen, and what is measured of
them stays so.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from kernel_velocity.harness import timing
from kernel_velocity.nightly import journal as night_journal
from kernel_velocity.nightly import plan
from kernel_velocity.nightly.journal import Journal, Night
from kernel_velocity.nightly.plan import Known, Plan, Why
from kernel_velocity.results import git
from kernel_velocity.runner import fingerprint
from kernel_velocity.runner.report import LIMITS
from kernel_velocity.runner.session import Session

LOOKED_AT = 200  # newest commits that holes are looked for in: reading what is stored of one takes 10 ms
ROUNDS = 8  # that the limits of run_report are for
# s that a night is gone on with: less than from one night to the next, which has commits of its own
LASTS = 20 * 3600.0


def begin(work: Session, journal: Journal, *, budget: float, tier: str, now: float, out: TextIO) -> Night:
    """Return the night to do: the one that was cut off, or a new one.

    Args:
        work: of the line's newest commits, for what is known of them. budget: s for all of the night.
        now: Unix time, s.
    """
    cut_off = journal.night
    if cut_off is not None and cut_off.began > now:
        print("note: the night that was cut off began after now: the clock was set back; a new one begins", file=out)
        cut_off = None
    if cut_off is not None and set(work.commits) >= set(cut_off.commits):
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(cut_off.began))
        if now - cut_off.began <= LASTS:
            print(f"going on with the night of {when}", file=out)
            for commit in work.commits:
                work.is_readable(commit)  # which notes those that are not; a new night looks at them anyway
            return cut_off
        print(
            f"note: the night of {when} was cut off: too long ago to go on with, a new one judges its values", file=out
        )
    seconds = LIMITS[tier] * work.rounds / ROUNDS
    chosen = plan.plan(known(work, journal), budget=budget, seconds_per_commit=seconds)
    _say(chosen, out)
    wanted = {item.commit for item in chosen.commits}
    return Night(
        began=now,
        commits=tuple(commit for commit in work.commits if commit in wanted),
        heartbeat=any(item.why is Why.HEARTBEAT for item in chosen.commits),
        judged_from=None if cut_off is None else cut_off.since,
    )


def _say(chosen: Plan, out: TextIO) -> None:
    for item in chosen.commits:
        print(f"tonight: {item.commit[:8]} ({item.why})", file=out)
    if chosen.left:
        print(f"left for another night, for want of time: {len(chosen.left)} commits", file=out)


def changing(repository: Path) -> frozenset[str]:
    """Return those of the line's newest commits that touch what kernels are built from."""
    return frozenset(git.commits(repository, None, most=LOOKED_AT))


def setting(work: Session, environ: Mapping[str, str]) -> str:
    """Return what identifies what is asked for, and this machine: with another, a test case may have a value."""
    asked = [work.series.series, sorted(work.series.versions.items()), work.rounds, timing.method(environ)]
    said = [*asked, sorted(fingerprint.now(environ).items())]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def known(work: Session, journal: Journal) -> list[Known]:
    """Return what is known of a session's commits on its machine and environment.

    One whose file cannot be read is noted in the session, and counts as measured: it costs the others nothing.
    """
    touched = changing(work.root)

    def is_measured(commit: str) -> bool:
        return work.is_measured(commit) or journal.incomplete.get(commit, 0) > plan.RETRIES

    return [
        Known(
            commit=commit,
            changes_kernels=commit in touched,
            is_readable=(is_readable := work.is_readable(commit)),
            is_measured=not is_readable or is_measured(commit),
            failed_builds=max(1, journal.unbuilt.get(commit, 0)) if work.failed_before(commit) else 0,
        )
        for commit in work.commits
    ]


def measure(work: Session, night: Night, *, device: str, ceilings: bool, out: TextIO, err: TextIO) -> None:
    """Build and measure the night's commits; what a cut-off night measured of its heartbeat is not measured again."""
    work.recover(out)
    work.ingest(err)  # what a night that was cut off left in the spool: it is gone on from
    again = night.heartbeat and not all(work.measured_since(commit, night.began) for commit in night.commits)
    work.forget_failures()
    work.build(False, out)
    try:
        work.measure(again, out)
    finally:
        work.ingest(err)
    if ceilings:
        work.measure_ceilings(device, out)


class Kept:
    """A machine's journal, read at once, and written as the night goes on."""

    def __init__(self, path: Path, setting: str) -> None:
        self.path, self.journal = path, night_journal.read(path).under(setting)

    @property
    def since(self) -> float:
        """From when on values are judged, Unix time, s; without a night: infinity."""
        return math.inf if self.journal.night is None else self.journal.night.since

    def begun(self, night: Night) -> None:
        """Keep what this night has chosen."""
        self.journal = self.journal.during(night)
        night_journal.write(self.path, self.journal)

    def over(self, work: Session) -> None:
        """Keep what the next night has to know of this one."""
        built = [commit for commit in work.commits if commit not in work.failed_builds]
        incomplete = [commit for commit in built if commit not in work.unreadable and not work.is_measured(commit)]
        self.journal = self.journal.after(work.commits, tuple(work.failed_builds), incomplete)
        night_journal.write(self.path, self.journal)
