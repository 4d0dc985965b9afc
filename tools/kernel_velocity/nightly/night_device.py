"""Which device a night measures: the machine's GPU where it has one. One that it had, and lost, is said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kernel_velocity.errors import NothingMeasured, ResultsError, UsageError
from kernel_velocity.harness.cases import DEVICES
from kernel_velocity.results.asv_file import StoredFile
from kernel_velocity.runner import host
from kernel_velocity.series.silence import DAY, GONE_AFTER

MARK = f".{DEVICES['cuda']}.time_"  # in the names of what is timed on a GPU


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
