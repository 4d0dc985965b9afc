"""Raw sample traces: what every timer read, sample by sample, from the first call on.

Stopping rules are replayed on them (`kv lab replay`): nothing is left out, smoothed or stopped early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from kernel_velocity.harness import timing
from kernel_velocity.harness.reported import cache_size
from kernel_velocity.harness.sampling import batch_for, warm_up
from kernel_velocity.harness.timers import Call, SyncTimer, Timer

if TYPE_CHECKING:
    from kernel_velocity.harness.suite import Series

FORMAT = 1
CAP = 20_000  # samples: 0.25 MB of JSON, and more than any rule of ours looks at
FEWEST = 3  # samples, however slow the call: what a rule wants of a call slower than its budget
PORTION = 0.05  # s of samples between two looks at the clock
DIGITS = 6  # significant, of a sample: a nanosecond in a millisecond

Document = dict[str, Any]
Load = Callable[[str], Document | None]  # file name -> the trace that is there already, None


CLOCKS: Mapping[str, tuple[str, ...]] = {"cpu": ("HostTimer",), "cuda": ("CudaEventTimer", "SyncTimer")}


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
    states = ("hot", "cold") if series.has_cold and cache_size(series.device) is not None else ("hot",)
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
    while len(samples) < FEWEST or (perf_counter() - began < seconds and len(samples) < CAP):
        looked = perf_counter()
        samples += timer.samples(call, batch, min(portion, CAP - len(samples)))
        if perf_counter() - looked < PORTION:
            portion *= 2
    return samples
