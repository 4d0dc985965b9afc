"""Which commits a night measures, in which order. Pure.

A night looks at one machine and environment. It measures what is new, then the holes that earlier nights left, then
what once did not build; a commit that cannot change a kernel is measured by no night but as its heartbeat, without
which a quiet night would say nothing of the machine.

Which device a night measures: the machine's GPU where it has one. One that it had, and lost, is said.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_velocity.errors import NothingMeasured, ResultsError, UsageError
from kernel_velocity.harness.cases import DEVICES
from kernel_velocity.results.asv_file import StoredFile
from kernel_velocity.runner import host
from kernel_velocity.series.silence import DAY, GONE_AFTER

FIRST_NIGHT = 3  # commits of a history of which nothing is measured; the rest is for `make track` with a RANGE
# Nights that try again what did not build, or left a test case without a value: a full disk heals, a syntax error not.
RETRIES = 1
# Share of the night's time that measuring the history may take; confirming and bisecting what it shows needs the rest.
MEASURING = 0.6

MARK = f".{DEVICES['cuda']}.time_"  # in the names of what is timed on a GPU


class Why(enum.StrEnum):
    """Why a commit is measured tonight."""

    NEW = "new"  # it may change a kernel, and no commit after it is measured
    HOLE = "hole"  # it may change a kernel, and a commit after it is measured
    BUILD_AGAIN = "build again"  # it did not build the last time
    HEARTBEAT = "heartbeat"  # nothing else tells how the machine is tonight


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known of a commit on this machine and environment."""

    commit: str  # full SHA
    changes_kernels: bool  # whether it touches what kernels are built from
    is_measured: (
        bool  # every series that was asked for has its rounds, or a reason why not; or it is given up, or unreadable
    )
    failed_builds: int = 0  # nights on which it did not build
    is_readable: bool = True  # whether what is recorded of it can be read, so that asv can add to it


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A commit to measure, and why."""

    commit: str
    why: Why


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A night's commits, the most wanted first, and how many the time does not allow."""

    commits: tuple[Planned, ...]
    left: tuple[Planned, ...]  # for another night


def plan(line: Sequence[Known], *, budget: float, seconds_per_commit: float) -> Plan:
    """Return what to measure tonight.

    Args:
        line: the commits of the first-parent line, newest first.
        budget: s that the night may take in all. seconds_per_commit: what building and measuring one takes.

    Raises:
        ValueError: no commit at all, or a time that is not positive.
    """
    if not line:
        raise ValueError("a night without a commit")
    if not (budget > 0 and seconds_per_commit > 0):
        raise ValueError(f"budget {budget!r} s and {seconds_per_commit!r} s a commit: positive times are wanted")
    wanted = _wanted(line)
    if all(item.why is Why.BUILD_AGAIN for item in wanted):  # which may measure nothing
        wanted = [_heartbeat(line), *wanted]
    number = max(1, int(MEASURING * budget / seconds_per_commit))
    return Plan(commits=tuple(wanted[:number]), left=tuple(wanted[number:]))


def _wanted(line: Sequence[Known]) -> list[Planned]:
    measured = [index for index, item in enumerate(line) if item.is_measured]
    newest, oldest = (measured[0], measured[-1]) if measured else (len(line), len(line))
    open_ = [(index, item) for index, item in enumerate(line) if item.changes_kernels and not item.is_measured]
    unbuilt = [item.commit for _, item in open_ if 0 < item.failed_builds <= RETRIES]
    sound = [(index, item.commit) for index, item in open_ if not item.failed_builds]
    new = [commit for index, commit in sound if index < newest]
    holes = [commit for index, commit in sound if newest < index < oldest]
    found = [*((commit, Why.NEW) for commit in (new if measured else new[:FIRST_NIGHT]))]
    found += [*((commit, Why.HOLE) for commit in holes), *((commit, Why.BUILD_AGAIN) for commit in unbuilt)]
    return [Planned(commit=commit, why=why) for commit, why in found]


def _heartbeat(line: Sequence[Known]) -> Planned:
    """Return the newest commit that can be measured: its kernels are those of the newest that changed one."""
    sound = next((item for item in line if item.is_readable and not item.failed_builds), line[0])
    return Planned(commit=sound.commit, why=Why.HEARTBEAT)


def choose(asked: str | None, folder: Path, now: float) -> str:
    """Return the device that a night measures.

    Args:
        asked: "cpu" or "cuda"; None: the GPU where PyTorch can use one. folder: of the machine, in the results.
        now: Unix time, s.

    Raises:
        UsageError: it is not there, or there is no such.
        NothingMeasured: nothing was asked for, and the machine lost its GPU: who measures its CPU instead would call a
            night good on which nothing that it is for was measured.
    """
    if asked not in (None, *DEVICES):
        raise UsageError(f"KV_DEVICE={asked!r}: {' or '.join(DEVICES)} is wanted")
    found = "cpu" if asked == "cpu" else host.device()
    if asked == "cuda" != found:
        raise UsageError("--device cuda: PyTorch can use no GPU here (torch.cuda.is_available() is false)")
    last = last_on_gpu(folder) if asked is None and found == "cpu" else None
    if last is not None and now - last <= GONE_AFTER * DAY:
        days = max(now - last, 0.0) / DAY
        raise NothingMeasured(
            f"{folder.name}: nothing was measured: the GPU that was measured here {days:.1f} days ago cannot be used "
            "(torch.cuda.is_available() is false): look at nvidia-smi and at the torch that is installed, or measure "
            "the CPU, --device cpu"
        )
    return found


def last_on_gpu(folder: Path) -> float | None:
    """Return when a machine last measured a time on its GPU, Unix time, s; None: never, as far as files can be read."""
    return max(_times(folder), default=None)


def _times(folder: Path) -> Iterator[float]:
    for path in sorted(folder.glob("*.json")):
        if MARK.encode() not in path.read_bytes():  # a file of 100 series takes 5 ms to look into
            continue
        try:
            stored = StoredFile(path)
        except ResultsError:
            continue  # the night names it
        for (name, _), item in stored.series():
            if MARK in name and item.value is not None and item.started_at is not None:
                yield item.started_at
