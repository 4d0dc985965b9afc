"""Read the traces that `kv lab record` and `kv offline traces` write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernel_velocity import bounds
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.harness.statistics import trimmed_mean
from kernel_velocity.harness.stopping import without_burn_in
from kernel_velocity.harness.telemetry import parse
from kernel_velocity.harness.traces import FORMAT

BASELINE = 10_000  # samples that a baseline wants, the number that the published comparisons take
NOT_TRACES = ("missing.json", "started.json")  # files of the recorder beside its traces
_MOST_CALLS = 10**12  # in a sample: at a nanosecond each, a quarter of an hour
TRACES = Path(".asv", "traces")


def files(paths: Iterable[Path]) -> list[Path]:
    """Return trace files, and those in folders at any depth.

    Raises:
        UsageError: a path does not exist, or a folder holds no trace.
    """
    traces: list[Path] = []
    for path in paths:
        if path.is_dir():
            if not (inner := inside(path)):
                raise UsageError(f"{path}: no traces; `kv lab record` records some into .asv/traces")
            traces += inner
        elif path.is_file():
            traces.append(path)
        else:
            raise UsageError(f"{path}: no such file or folder of traces")
    return traces


def inside(folder: Path) -> list[Path]:
    """Return the trace files of a folder, at any depth. None if it does not exist."""
    return sorted(path for path in folder.rglob("*.json") if path.name not in NOT_TRACES)


def read(paths: Iterable[Path]) -> Iterator[Trace]:
    """Yield the traces of files.

    The truth is the location of the last 10,000 samples, where there are 12,500 or more. Else that of the whole trace
    without its first fifth.

    Raises:
        ResultsError: a file is no trace: cut off, of another format, or with a sample that is no positive time.
    """
    for path in paths:
        document = _document(path)
        samples = _samples(path, document)
        settled = samples[-BASELINE:] if 4 * len(samples) >= 5 * BASELINE else without_burn_in(samples)
        truth = trimmed_mean(np.asarray(settled))
        yield Trace(source=str(path), samples=samples, batch=_batch(path, document), truth=truth)


def document(path: Path) -> dict[str, Any]:
    """Return a trace file's whole document, as `kernel_velocity.harness.traces` describes it, its samples checked.

    Raises:
        ResultsError: the file is no trace (see `read`).
    """
    contents = _document(path)
    return {**contents, "seconds": _samples(path, contents), "batch": _batch(path, contents)}


def _document(path: Path) -> dict[str, Any]:
    try:
        contents = parse(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ResultsError(f"{path}: no trace ({error}); it may be cut off: record it again") from None
    if contents.get("format") != FORMAT or contents.get("unit") != "s":
        raise ResultsError(f"{path}: no trace of format {FORMAT} in seconds; `kv lab record` writes those")
    return contents


def _samples(path: Path, document: dict[str, Any]) -> list[float]:
    samples = document.get("seconds")
    if not isinstance(samples, list) or not samples:
        raise ResultsError(f"{path}: no samples; wanted a list under 'seconds'")
    for number, sample in enumerate(samples):
        if not bounds.is_time(sample):
            wanted = f"wanted a time from {bounds.LEAST:g} to {bounds.MOST:g} s"
            raise ResultsError(f"{path}: sample {number} is {repr(sample)[:60]}; {wanted}")
    return [float(sample) for sample in samples]


def _batch(path: Path, document: dict[str, Any]) -> int:
    batch = document.get("batch")
    if not isinstance(batch, int) or not 1 <= batch <= _MOST_CALLS:
        raise ResultsError(f"{path}: batch {repr(batch)[:60]}; wanted a positive number of calls")
    return batch


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Samples of one process, s per call, from its first on. Every rule sees the same ones (common random numbers)."""

    source: str  # what was measured: traces of one source are repetitions
    samples: Sequence[float]
    batch: int  # calls that a sample is the mean of
    truth: float  # s
