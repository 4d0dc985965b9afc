"""Plan a night: which commits it measures, in which order, on which device.

A night is of one machine and environment. It measures what is new, then the holes that earlier nights left, then what
did not build. A commit that cannot change a kernel is measured as a heartbeat only, without which a quiet night would
say nothing about the machine.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from kernel_velocity.errors import NothingMeasured, ResultsError, UsageError
from kernel_velocity.harness.cases import DEVICES
from kernel_velocity.results.asv_file import StoredFile
from kernel_velocity.runner import host
from kernel_velocity.series.silence import DAY, GONE_AFTER

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
        if MARK.encode() not in path.read_bytes():  # parsing a file of 100 series takes 5 ms
            continue
        try:
            stored = StoredFile(path)
        except ResultsError:
            continue  # the night names it
        for (name, _), series in stored.series():
            if MARK in name and series.value is not None and series.started_at is not None:
                yield series.started_at
