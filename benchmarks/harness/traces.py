"""Raw sample traces: what every timer read, sample by sample, from the first call on. Stopping rules are replayed on
them, and improved by them; nothing is left out, smoothed or stopped early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter, time
from typing import Any

from benchmarks.harness.benchmark import _KernelBenchmark
from benchmarks.harness.sampling import batch_for, warm_up
from benchmarks.harness.series import Series
from benchmarks.harness.timers import Call, HostTimer, Timer

FORMAT = 1
CAP = 20_000  # samples: 0.25 MB of JSON, and more than any rule of ours looks at
FEWEST = 3  # samples, however slow the call: what a rule asks of a call slower than its budget
PORTION = 0.05  # s of samples between two looks at the clock
DIGITS = 6  # significant, of a sample: a nanosecond in a millisecond

Document = dict[str, Any]
Load = Callable[[str], Document | None]  # file name -> the trace that is there already, None


@dataclass(frozen=True)
class State:
    """What the caches hold before a call. `sample(timer, call, batch, n)` returns n samples taken in that state."""

    name: str
    sample: Callable[[Timer, Call, int, int], list[float]]
    batched: bool  # whether calls back to back are all in that state: of a cold batch only the first is cold


@dataclass(frozen=True)
class Clock:
    """A timer on a device, and how a call must end for it."""

    name: str
    make: Callable[[_KernelBenchmark], Timer]
    finish: Callable[[Call], Call]
    batched: bool


def _hot(timer: Timer, call: Call, batch: int, n: int) -> list[float]:
    return timer.samples(call, batch, n)


def _as_it_is(call: Call) -> Call:
    return call


def _synchronised(call: Call) -> Call:
    """Return the call and a wait for the device: what a host's clock sees of a launch."""
    import torch  # noqa: PLC0415 - discovery must work without torch

    wait = torch.cuda.synchronize
    return lambda: (call(), wait())


STATES = (State("hot", _hot, batched=True),)
CLOCKS: Mapping[str, tuple[Clock, ...]] = {
    "cpu": (Clock("HostTimer", lambda bench: bench.new_timer(), _as_it_is, batched=True),),
    "cuda": (
        Clock("CudaEventTimer", lambda bench: bench.new_timer(), _as_it_is, batched=True),
        Clock("HostTimer", lambda bench: HostTimer(), _synchronised, batched=False),
    ),
}


def file_name(series: Series, clock: Clock, state: State, kind: str) -> str:
    """Return the name of a trace's file; `kind` is "single" (batch 1) or "batched" (as the harness chooses it)."""
    parts = (series.kernel, series.device, series.implementation, series.case, clock.name, state.name, kind)
    return "-".join(parts) + ".json"


def record(series: Series, seconds: float, load: Load) -> Iterator[tuple[str, Document]]:
    """Yield (file name, trace) of a series under every timer and cache state; those that `load` finds are not repeated.

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
    for clock in CLOCKS[series.device]:
        for state in STATES:
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
    timer, call = clock.make(bench), clock.finish(bench.call)
    began = time()
    samples = take(timer, call, state, batch, seconds)
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


def _chosen(timer: Timer, call: Call, tick: float, overhead: float) -> int:
    """Return the batch that a round of the harness would take."""
    per_call, _ = warm_up(call, timer)
    return batch_for(per_call, tick=tick, overhead=overhead, limit=timer.batch_limit)


def take(timer: Timer, call: Call, state: State, batch: int, seconds: float) -> list[float]:
    """Return samples, s per call, in the order in which they were taken; the first of them is the first call."""
    found: list[float] = []
    portion, began = 1, perf_counter()
    while len(found) < FEWEST or (perf_counter() - began < seconds and len(found) < CAP):
        looked = perf_counter()
        found += state.sample(timer, call, batch, min(portion, CAP - len(found)))
        if perf_counter() - looked < PORTION:
            portion *= 2
    return found
