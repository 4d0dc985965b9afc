"""The measuring half of a night: choose commits, build them, have asv measure them, ingest, measure the ceilings.

A night is of one machine and environment. It measures what is new, then the holes that earlier nights left, then what
did not build. A commit that cannot change a kernel is measured as a heartbeat only, without which a quiet night would
say nothing about the machine.

An interrupted night resumes with the commits that it had chosen, and with what is measured of them. Values, rounds of
re-runs and findings are recorded as they come. Only the journal, `.asv/journals/<machine>-<environment>.json`, knows
when a night began and which commits it chose, how often a commit did not build, and how often a measured commit still
had a test case without any value: where every implementation fails, the machine may have been to blame, or the case.
"""

from __future__ import annotations

import enum
import hashlib
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TextIO

from kernel_velocity import documents, fields, units
from kernel_velocity.engine import timing
from kernel_velocity.errors import NothingMeasured, ResultsError, UsageError
from kernel_velocity.fields import Moment
from kernel_velocity.files import replace_text
from kernel_velocity.findings.verdict import Failed
from kernel_velocity.names import DEVICES
from kernel_velocity.results import git
from kernel_velocity.results.asv_file import StoredFile
from kernel_velocity.results.measurement import Measurement
from kernel_velocity.runner import fingerprint, host, report
from kernel_velocity.runner.session import Session
from kernel_velocity.verdict.silence import DAY, GONE_AFTER

JOURNALS = Path(".asv", "journals")
JOURNAL_FORMAT = 2  # the first that has a checksum


@dataclass(frozen=True, kw_only=True)
class PlannedNight:
    """A night that is not over."""

    began: Moment  # Unix time, s
    commits: tuple[str, ...]  # chosen, newest first
    heartbeat: bool  # whether they are measured although they may be already
    judged_from: Moment | None = None  # when the first night began that was given up unjudged, Unix time, s

    @property
    def since(self) -> float:
        """Unix time, s, from which on this night judges values."""
        return self.began if self.judged_from is None else self.judged_from


@dataclass(frozen=True, kw_only=True)
class JournalRecord:
    """The content of a journal."""

    night: PlannedNight | None = None
    unbuilt: Mapping[str, int] = field(default_factory=dict)  # commit -> nights on which it did not build
    incomplete: Mapping[str, int] = field(default_factory=dict)  # commit -> nights that left it so
    setting: str = ""  # identifies the series and the machine of the nights that `incomplete` counts


class NightJournal:
    """A machine's journal: read when it is made, written at each step of the night.

    Args:
        setting: what tonight measures, and on which machine. Another one may measure what this one could not.

    Raises:
        ResultsError: the file is no journal.
    """

    def __init__(self, path: Path, setting: str) -> None:
        self.path = path
        try:
            record = fields.read(
                JournalRecord, documents.contents_of(path), path, range(JOURNAL_FORMAT, JOURNAL_FORMAT + 1)
            )
        except FileNotFoundError:
            record = JournalRecord()
        except (OSError, ResultsError) as error:
            raise ResultsError(
                f"{path}: not the journal of a night ({error}); remove it to start a new night"
            ) from None
        self.record = record if record.setting == setting else replace(record, incomplete={}, setting=setting)

    @property
    def since(self) -> float:
        """Unix time, s, from which on values are judged. Infinity without a night."""
        return math.inf if self.record.night is None else self.record.night.since

    @property
    def again(self) -> str | None:
        """The commit that this night measures even if it has values. None without one."""
        night = self.record.night
        commits = night.commits if night is not None and night.heartbeat else ()
        return next((commit for commit in commits if commit not in self.record.unbuilt), None)

    def begin(self, night: PlannedNight) -> None:
        """Record the night that begins or resumes."""
        self._write(replace(self.record, night=night))

    def end(self, tried: Sequence[str], unbuilt: Sequence[str], incomplete: Sequence[str]) -> None:
        """Record that the night is over.

        Args:
            tried: its commits. unbuilt: those that did not build. incomplete: measured ones with values missing.
        """
        record = JournalRecord(
            unbuilt=_counted(self.record.unbuilt, tried, unbuilt),
            incomplete=_counted(self.record.incomplete, tried, incomplete),
            setting=self.record.setting,
        )
        self._write(record)

    def _write(self, record: JournalRecord) -> None:
        self.record = record
        document = {"format": JOURNAL_FORMAT, **fields.plain(record)}
        replace_text(self.path, documents.with_checksum(json.dumps(document, indent=1)) + "\n")


def _counted(before: Mapping[str, int], tried: Sequence[str], again: Sequence[str]) -> dict[str, int]:
    rest = {commit: count for commit, count in before.items() if commit not in tried}
    return rest | {commit: before.get(commit, 0) + 1 for commit in again}


def journal_path(root: Path, machine: str, environment: str) -> Path:
    """Return the journal's file."""
    return root / JOURNALS / f"{machine}-{environment}.json"


FIRST_NIGHT = 3  # commits of a history of which nothing is measured; the rest is for `kv track` with a RANGE
# Nights that try again what did not build, or left a test case without a value: a full disk heals, a syntax error not.
RETRIES = 1
# Share of the night's time for measuring the history; confirming and bisecting what it shows needs the rest.
MEASURING = 0.6

MARK = f".{DEVICES['cuda']}.time_"  # in the names of GPU times


class Why(enum.StrEnum):
    """Why a commit is measured tonight."""

    NEW = "new"  # it may change a kernel, and no commit after it is measured
    HOLE = "hole"  # it may change a kernel, and a commit after it is measured
    BUILD_AGAIN = "build again"  # it did not build the last time
    HEARTBEAT = "heartbeat"  # nothing else tells how the machine is tonight


@dataclass(frozen=True, kw_only=True)
class CommitState:
    """The state of a commit on this machine and environment."""

    commit: str  # full SHA
    changes_kernels: bool  # whether it touches what kernels are built from
    is_measured: bool  # every series has its rounds, or a reason why not; or it is given up, or unreadable
    failed_builds: int = 0  # nights on which it did not build
    is_readable: bool = True  # whether asv can read, and so add to, what is recorded of it


def plan(
    line: Sequence[CommitState], *, budget: float, seconds_per_commit: float
) -> tuple[dict[str, Why], dict[str, Why]]:
    """Return the commits to measure tonight, most urgent first, and those that do not fit into the budget.

    Args:
        line: the commits of the first-parent line, newest first. At least one.
        budget: s that the night may take in all. seconds_per_commit: building and measuring of one.
    """
    wanted = _wanted(line)
    if all(why is Why.BUILD_AGAIN for why in wanted.values()):  # which may measure nothing
        sound = next((state for state in line if state.is_readable and not state.failed_builds), line[0])
        heartbeat = {sound.commit: Why.HEARTBEAT}
        wanted = heartbeat | wanted | heartbeat  # first, whatever else it is wanted for
    number = max(1, int(MEASURING * budget / seconds_per_commit))
    return dict(islice(wanted.items(), number)), dict(islice(wanted.items(), number, None))


def _wanted(line: Sequence[CommitState]) -> dict[str, Why]:
    measured = [index for index, state in enumerate(line) if state.is_measured]
    newest, oldest = (measured[0], measured[-1]) if measured else (len(line), len(line))
    missing = [(index, state) for index, state in enumerate(line) if state.changes_kernels and not state.is_measured]
    sound = [(index, state.commit) for index, state in missing if not state.failed_builds]
    new = [commit for index, commit in sound if index < newest]
    holes = [commit for index, commit in sound if newest < index < oldest]
    unbuilt = [state.commit for _, state in missing if 0 < state.failed_builds <= RETRIES]
    wanted = dict.fromkeys(new if measured else new[:FIRST_NIGHT], Why.NEW)
    return wanted | dict.fromkeys(holes, Why.HOLE) | dict.fromkeys(unbuilt, Why.BUILD_AGAIN)


def choose(device: str | None, folder: Path, now: float) -> str:
    """Return the device that a night measures.

    Args:
        device: "cpu" or "cuda". None: the GPU where PyTorch can use one. folder: of the machine, in the results.
        now: Unix time, s.

    Raises:
        UsageError: there is no such device.
        NothingMeasured: no device is given, and the machine lost its GPU. Measuring its CPU instead would call a night
            good that measured nothing of what the machine is for.
    """
    if device not in (None, *DEVICES):
        raise UsageError(f"KV_DEVICE={device!r}: {' or '.join(DEVICES)} is wanted")
    usable = "cpu" if device == "cpu" else host.device()
    if device == "cuda" != usable:
        raise UsageError(
            "--device cuda: PyTorch sees no GPU here (torch.cuda.is_available() is false); use --device cpu"
        )
    last = max(_gpu_times(folder), default=None) if device is None and usable == "cpu" else None
    if last is not None and now - last <= GONE_AFTER * DAY:
        days = max(now - last, 0.0) / DAY
        raise NothingMeasured(
            f"{folder.name}: nothing was measured: the GPU that was measured here {days:.1f} days ago cannot be used "
            "(torch.cuda.is_available() is false): look at nvidia-smi and at the torch that is installed, or measure "
            "the CPU, --device cpu"
        )
    return usable


def _gpu_times(folder: Path) -> Iterator[float]:
    """Yield when a machine's GPU was measured, Unix times, s, as far as its files can be read."""
    for path in sorted(folder.glob("*.json")):
        try:
            if MARK.encode() not in documents.contents_of(path):  # parsing a file of 100 series takes 5 ms
                continue
            stored = StoredFile(path)
        except (OSError, ResultsError):
            continue  # the night names it
        for (name, _), series in stored.series():
            if MARK in name and series.value is not None and series.started_at is not None:
                yield series.started_at


LOOKED_AT = 200  # newest commits that are searched for holes: reading what is stored of one takes 10 ms
# s within which an interrupted night resumes: less than from one night to the next, which has commits of its own
LASTS = 20 * 3600.0


def begin(work: Session, record: JournalRecord, *, budget: float, now: float, out: TextIO) -> PlannedNight:
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
    seconds = work.pace().seconds(1, len(work.series.series) * work.rounds)
    chosen, left = plan(commit_states(work, record), budget=budget, seconds_per_commit=seconds)
    for commit, why in chosen.items():
        print(f"tonight: {commit[:8]} ({why})", file=out)
    number, share = len(chosen) + len(left), seconds / MEASURING  # s of the budget that a commit takes
    if budget < number * share:
        print(
            f"note: a budget of {budget / 60:g} minutes is short for {units.count(number, 'commit')}: each takes about "
            f"{seconds / 60:.2g} minutes, and {1 - MEASURING:.0%} of the budget is for confirming; "
            f"{len(left)} left to another night; --budget {math.ceil(number * share / 60)} has time for all",
            file=out,
        )
    return PlannedNight(
        began=now,
        commits=tuple(commit for commit in work.commits if commit in chosen),
        heartbeat=Why.HEARTBEAT in chosen.values(),
        judged_from=None if interrupted is None else interrupted.since,
    )


def check_line(work: Session) -> None:
    """Refuse a shallow clone that cut off every commit with values of this machine: nothing would be compared.

    Raises:
        NothingMeasured: with the cure.
    """
    stored = {path.name[: git.SHORT] for path in (work.results / work.machine).glob(f"*-{work.environment}.json")}
    if (
        stored
        and stored.isdisjoint(commit[: git.SHORT] for commit in work.commits)
        and (cure := git.cut_off(work.root))
    ):
        values = units.count(len(stored), "commit")
        raise NothingMeasured(f"none of the {values} that were measured on {work.machine} is in this clone{cure}")


def setting(work: Session, environ: Mapping[str, str]) -> str:
    """Return what identifies the series to measure and this machine. Another setting may give a test case a value."""
    series = [work.series.series, sorted(work.series.versions.items()), work.rounds, timing.method(environ)]
    text = json.dumps([*series, sorted(fingerprint.now(environ).items())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def commit_states(work: Session, record: JournalRecord) -> list[CommitState]:
    """Return the states of a session's commits on its machine and environment.

    A commit whose file cannot be read is noted in the session, and counts as measured: it costs the others nothing.
    """
    touched = frozenset(git.commits(work.root, None, most=LOOKED_AT))  # change files that kernels are built from

    def is_done(commit: str) -> bool:
        return work.is_measured(commit) or record.incomplete.get(commit, 0) > RETRIES

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


def measure(work: Session, night: PlannedNight, *, device: str, ceilings: bool, out: TextIO) -> None:
    """Build and measure the night's commits. A heartbeat that an interrupted night measured is not measured again."""
    work.recover(out)
    again = night.heartbeat and not all(work.measured_since(commit, night.began) for commit in night.commits)
    work.forget_failures()
    work.build(False, out)
    work.measure(again, out)
    if ceilings:
        work.measure_ceilings(device, out)


def lacking(work: Session, measurements: Sequence[Measurement]) -> tuple[Failed, ...]:
    """Return the series of a session without a value, or with too few rounds."""
    tonight = [measurement for measurement in measurements if measurement.commit in work.measured]
    failed = report.failed(measurements, work.wrong_errors(), work.failures())
    short = report.short(tonight, work.rounds, work.reader.deaths)
    return tuple(Failed(what=series.what, why=series.why) for series in (*failed, *short))


def failed_builds(work: Session) -> tuple[Failed, ...]:
    """Return the commits that do not build: tonight's, and the newest that changed a kernel where it is given up."""
    why = "did not build on earlier nights, and is not tried again (`kv track --again 1 --range ...` does)"
    newest = git.commits(work.root, None, most=1)
    given_up = {sha: why for sha in newest if sha not in work.failed_builds and work.failed_before(sha)}
    return tuple(Failed(what=commit, why=why) for commit, why in (work.failed_builds | given_up).items())
