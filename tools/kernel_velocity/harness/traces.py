"""Raw sample traces: what every timer read, sample by sample, from the first call on. Stopping rules are replayed on
them, and improved by them; nothing is left out, smoothed or stopped early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter, time
from typing import Any

from kernel_velocity.harness import cache
from kernel_velocity.harness.benchmark import _KernelBenchmark
from kernel_velocity.harness.reported import cache_size
from kernel_velocity.harness.sampling import batch_for, warm_up
from kernel_velocity.harness.suite import Series
from kernel_velocity.harness.timers import Call, SyncTimer, Timer

FORMAT = 1
CAP = 20_000  # samples: 0.25 MB of JSON, and more than any rule of ours looks at
FEWEST = 3  # samples, however slow the call: what a rule asks of a call slower than its budget
PORTION = 0.05  # s of samples between two looks at the clock
DIGITS = 6  # significant, of a sample: a nanosecond in a millisecond

Document = dict[str, Any]
Load = Callable[[str], Document | None]  # file name -> the trace that is there already, None


@dataclass(frozen=True)
class State:
    """What the caches hold before a call; `flush(device)` makes what brings them there before every sample."""

    name: str
    flush: Callable[[str], Call | None]
    batched: bool  # whether calls back to back are all in that state: of a cold batch only the first is cold


@dataclass(frozen=True)
class Clock:
    """A timer on a device, of a benchmark's calls behind what flushes its caches."""

    name: str
    make: Callable[[_KernelBenchmark, Call | None], Timer]
    batched: bool


def _as_it_is(_device: str) -> None:
    """Leave what the call before left."""


def _synchronised(_bench: _KernelBenchmark, flush: Call | None) -> Timer:
    import torch  # noqa: PLC0415 - discovery must work without torch

    return SyncTimer(torch.cuda.synchronize, flush)


def _own(bench: _KernelBenchmark, flush: Call | None) -> Timer:
    return bench.new_timer(flush)


HOT = State("hot", _as_it_is, batched=True)
STATES = (HOT, State("cold", cache.flush, batched=False))
CLOCKS: Mapping[str, tuple[Clock, ...]] = {
    "cpu": (Clock("HostTimer", _own, batched=True),),
    "cuda": (Clock("CudaEventTimer", _own, batched=True), Clock("SyncTimer", _synchronised, batched=False)),
}


def file_name(series: Series, clock: Clock, state: State, kind: str) -> str:
    """Return the name of a trace's file; `kind` is "single" (batch 1) or "batched" (as the harness chooses it)."""
    parts = (series.kernel, series.device, series.implementation, series.case, clock.name, state.name, kind)
    return "-".join(parts) + ".json"


def record(series: Series, seconds: float, load: Load) -> Iterator[tuple[str, Document]]:
    """Yield (file name, trace) of a series under every timer and cache state; those that `load` finds are not repeated.

    Where the size of the cache is not known no state but the hot one can be made; where a case lies far beyond the
    caches there is no other.
    Each is taken on inputs and outputs made anew, so that its warm-up is in it; the device's clocks remember the one
    before. A trace of batch 1 comes first and says, as "chosen", which batch the harness takes: where that is 1, there
    is no second trace.

    Args:
        series: what to call.
        seconds: wall time of a trace; CAP samples end it earlier.
        load: returns the trace that a file holds already.

    Raises:
        NotImplementedError: n/a here.
        WrongResultError: the output is wrong.
    """
    states = STATES if series.has_cold and cache_size(series.device) is not None else (HOT,)
    for clock in CLOCKS[series.device]:
        for state in states:
            name = file_name(series, clock, state, "single")
            single = load(name)
            if single is None:
                single = _trace(series, clock, state, 1, seconds)
                yield name, single
            name = file_name(series, clock, state, "batched")
            if single["chosen"] > 1 and load(name) is None:
                yield name, _trace(series, clock, state, single["chosen"], seconds)


def _trace(series: Series, clock: Clock, state: State, batch: int, seconds: float) -> Document:
    bench = series.set_up()
    timer, call = clock.make(bench, state.flush(series.device)), bench.call
    began = time()
    samples = take(timer, call, batch, seconds)
    flags = sorted(timer.flags)
    tick, overhead = timer.tick(), timer.overhead()  # after: asking before would warm the device up
    chosen = _chosen(timer, call, tick, overhead) if clock.batched and state.batched else 1
    return {
        "format": FORMAT,
        "kernel": series.kernel,
        "device": series.device,
        "implementation": series.implementation,
        "case": series.case,
        "timer": clock.name,
        "state": state.name,
        "batch": batch,
        "chosen": chosen,
        "tick": tick,
        "overhead": overhead,
        "flags": flags,
        "unit": "s",
        "began": began,
        "seconds": [float(f"{value:.{DIGITS - 1}e}") for value in samples],
    }


def _chosen(timer: Timer, call: Call, tick: float | None, overhead: float | None) -> int:
    """Return the batch that a round of the harness would take."""
    per_call, _ = warm_up(call, timer)
    return batch_for(per_call, tick=tick, overhead=overhead, limit=timer.batch_limit)


def take(timer: Timer, call: Call, batch: int, seconds: float) -> list[float]:
    """Return samples, s per call, in the order in which they were taken; the first of them is the first call."""
    found: list[float] = []
    portion, began = 1, perf_counter()
    while len(found) < FEWEST or (perf_counter() - began < seconds and len(found) < CAP):
        looked = perf_counter()
        found += timer.samples(call, batch, min(portion, CAP - len(found)))
        if perf_counter() - looked < PORTION:
            portion *= 2
    return found
