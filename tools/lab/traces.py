"""Raw sample traces: what every timer read, sample by sample, from the first call on. Recorded, and read from files.

Stopping rules are replayed on them (`python -m lab replay`): nothing is left out, smoothed or stopped early.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, time
from typing import Any

import numpy as np

from kernel_velocity import bounds
from kernel_velocity.engine import timing
from kernel_velocity.engine.reported import cache_size
from kernel_velocity.engine.sampling import batch_for, warm_up
from kernel_velocity.engine.statistics import trimmed_mean
from kernel_velocity.engine.stopping import without_burn_in
from kernel_velocity.engine.telemetry import parse
from kernel_velocity.engine.timers import Call, SyncTimer, Timer
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.suite import config
from lab.series import Series, of_suite

TRACES = Path(".asv", "traces")
FORMAT = 1
CAP = 20_000  # samples: 0.25 MB of JSON, and more than any rule of ours looks at
FEWEST_SAMPLES = 3  # however slow the call: what a rule wants of a call slower than its budget
PORTION = 0.05  # s of samples between two looks at the clock
DIGITS = 6  # significant, of a sample: a nanosecond in a millisecond
BASELINE = 10_000  # samples that a baseline wants, the number that the published comparisons take
MOST_CALLS = 10**12  # in a sample: at a nanosecond each, a quarter of an hour

Document = dict[str, Any]
Load = Callable[[str], Document | None]  # file name -> the trace that is there already, None
CLOCKS: Mapping[str, tuple[str, ...]] = {"cpu": ("HostTimer",), "cuda": ("CudaEventTimer", "SyncTimer")}


def core_series(device: str, bench: str | None) -> list[Series]:
    """Return every kernel x core case x implementation of a device, whose name contains the expression `bench`.

    Implementations are those that can exist on the device.

    Raises:
        UsageError: no series matches, or `bench` is no regular expression.
    """
    suite = config.suite(Path())
    every = [
        of_suite(suite, str(problem.kernel), device, implementation, case)
        for problem in suite.problems(device)
        for case in problem.core[device]
        for implementation in problem.implementations_on(device)
    ]
    try:
        chosen = [series for series in every if re.search(bench or "", series.name)]
    except re.error as error:
        raise UsageError(f"--bench {bench!r}: not a regular expression ({error})") from None
    if not chosen:
        raise UsageError(f"--bench {bench!r} matches no core series on {device}")
    return chosen


def record(series: Series, seconds: float, load: Load) -> Iterator[tuple[str, Document]]:
    """Yield (file name, trace) of a series under every timer, hot and cold. Those that `load` returns are not repeated.

    Cold traces are taken where the size of the cache is known and the case does not lie far beyond the caches. Each
    trace is taken on inputs and outputs made anew, so that its warm-up is in it. The device's clocks remember the one
    before. A trace of batch 1 comes first. Its "chosen" is the batch that the harness takes: where that is 1, there is
    no second trace. Only the first call of a cold batch would be cold.

    Args:
        series: what to call.
        seconds: wall time of a trace. CAP samples end it earlier.
        load: returns the trace that a file holds already.

    Raises:
        NotImplementedError: n/a here.
        WrongResultError: the output is wrong.
    """
    states = (
        ("hot", "cold")
        if series.case in series.timed_by.cold_params[1] and cache_size(series.device) is not None
        else ("hot",)
    )
    for clock in CLOCKS[series.device]:
        for state in states:
            parts = (series.kernel, series.device, series.implementation, series.case, clock, state)
            name = "-".join((*parts, "single.json"))
            single = load(name)
            if single is None:
                single = _trace(series, clock, state, 1, seconds)
                yield name, single
            name = "-".join((*parts, "batched.json"))
            if single["chosen"] > 1 and load(name) is None:
                yield name, _trace(series, clock, state, single["chosen"], seconds)


def _trace(series: Series, clock: str, state: str, batch: int, seconds: float) -> Document:
    bench = series.set_up()
    call, flush = bench.call, timing.flush(series.device) if state == "cold" else None
    timer = _synchronised(flush) if clock == "SyncTimer" else bench.new_timer(flush)
    began = time()
    samples = take(timer, call, batch, seconds)
    flags = sorted(timer.flags)
    tick, overhead = timer.tick(), timer.overhead()  # after: before, they would warm the device up
    chosen = 1
    if clock != "SyncTimer" and state == "hot":
        per_call, _ = warm_up(call, timer)
        chosen = batch_for(per_call, timer, tick, overhead)
    return {
        "format": FORMAT,
        "kernel": series.kernel,
        "device": series.device,
        "implementation": series.implementation,
        "case": series.case,
        "timer": clock,
        "state": state,
        "batch": batch,
        "chosen": chosen,
        "tick": tick,
        "overhead": overhead,
        "flags": flags,
        "unit": "s",
        "began": began,
        "seconds": [float(f"{value:.{DIGITS - 1}e}") for value in samples],
    }


def _synchronised(flush: Call | None) -> Timer:
    import torch  # noqa: PLC0415 - discovery must work without torch

    return SyncTimer(torch.cuda.synchronize, flush)


def take(timer: Timer, call: Call, batch: int, seconds: float) -> list[float]:
    """Return samples, s per call, in the order in which they were taken. The first of them is the first call."""
    samples: list[float] = []
    portion, began = 1, perf_counter()
    while len(samples) < FEWEST_SAMPLES or (perf_counter() - began < seconds and len(samples) < CAP):
        looked = perf_counter()
        samples += timer.samples(call, batch, min(portion, CAP - len(samples)))
        if perf_counter() - looked < PORTION:
            portion *= 2
    return samples


# Reading --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Samples of one process, s per call, from its first on. Every rule sees the same ones (common random numbers)."""

    source: str  # what was measured: traces of one source are repetitions
    samples: Sequence[float]
    batch: int  # calls that a sample is the mean of
    truth: float  # s


def files(paths: Iterable[Path]) -> list[Path]:
    """Return trace files, and those in folders at any depth.

    Raises:
        UsageError: a path does not exist, or a folder holds no trace.
    """
    traces: list[Path] = []
    for path in paths:
        if path.is_dir():
            if not (inner := sorted(path.rglob("*.json"))):
                raise UsageError(f"{path}: no traces; `python -m lab record` records some into .asv/traces")
            traces += inner
        elif path.is_file():
            traces.append(path)
        else:
            raise UsageError(f"{path}: no such file or folder of traces")
    return traces


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


def _document(path: Path) -> dict[str, Any]:
    try:
        contents = parse(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ResultsError(f"{path}: no trace ({error}); it may be cut off: record it again") from None
    if contents.get("format") != FORMAT or contents.get("unit") != "s":
        raise ResultsError(f"{path}: no trace of format {FORMAT} in seconds; `python -m lab record` writes those")
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
    if not isinstance(batch, int) or not 1 <= batch <= MOST_CALLS:
        raise ResultsError(f"{path}: batch {repr(batch)[:60]}; wanted a positive number of calls")
    return batch
