"""Take one round of an implementation with all its samples, and time its whole function.

A round is that of the history (`sampling.measure`: warm-up by time, batches, quiet-core filter). With a fixed number
of warm-up calls it is what published scripts do: a sample is one call, and all samples count.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter

from kernel_velocity.harness import gate, gpu, timing
from kernel_velocity.harness.reported import activity, read_counters
from kernel_velocity.harness.sampling import batch_for, measure
from kernel_velocity.harness.statistics import trimmed_mean
from kernel_velocity.harness.stopping import Stop, StoppingRule, without_burn_in
from kernel_velocity.harness.timers import Call, HostTimer, SyncTimer, Timer, TorchEvents
from kernel_velocity.harness.under_test import root_folder

FUNCTION_SAMPLES = 21  # of a whole function in each round; the median counts
FUNCTION_SECONDS = 0.1  # s that they may take; else there are FEWEST
FEWEST = 3


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round: `samples` in s per call, in order, without burn-in."""

    samples: tuple[float, ...]
    estimate: float  # s per call, 10%-per-side trimmed mean of the samples
    stop: str
    flags: tuple[str, ...]


def take_round(
    call: Call,
    rule: StoppingRule,
    device: str,
    *,
    working_set: float = 0.0,
    threads: int = 1,
    warmups: int | None = None,
) -> Round:
    """Take one round of `call`.

    Args:
        call: on CUDA it launches on the current stream.
        rule: decides when it stops.
        device: "cpu" or "cuda".
        working_set: bytes that a call touches.
        threads: CPU threads that the call uses.
        warmups: calls before the first sample, each sample then one call. None: as a round of the history.

    Raises:
        ValueError: the timer returned a time that is zero, negative or not finite.
    """
    timer = timing.plain(device)
    before, clock = read_counters(), perf_counter()
    with gpu.GpuWatch(gpu.uuid() if device == "cuda" else None) as watch:
        if warmups is None:
            environ = {**os.environ, "KV_THREADS": str(threads)}
            folder = root_folder(os.environ) / ".asv" / "cache" / "gauge"
            with gate.on_cpu(working_set, folder, environ) if device == "cpu" else nullcontext() as quiet:
                result = measure(call, timer, rule, watch.look, quiet)
            samples, stop, flags = without_burn_in(rule.samples), result.stop, result.flags
        else:
            stop = _sample_calls(call, rule, timer, warmups, watch.look)
            samples, flags = rule.samples, tuple(sorted(timer.flags))
    host = activity(before, read_counters(), perf_counter() - clock)
    contended = ("contended",) if host.contended else ()
    crowded = ("crowded",) if device == "cpu" and host.crowds(threads) else ()
    return Round(
        samples=tuple(samples),
        estimate=trimmed_mean(samples),
        stop=stop,
        flags=tuple(dict.fromkeys((*flags, *contended, *crowded, *watch.flags))),
    )


def _sample_calls(call: Call, rule: StoppingRule, timer: Timer, warmups: int, look: Call) -> str:
    """Fill the rule with samples of one call each, and return its reason to stop."""
    for _ in range(warmups):
        call()
    look()
    rule.start()
    while not isinstance(decision := rule.decide(), Stop):
        began = perf_counter()
        samples = timer.samples(call, 1, decision.n)
        rule.add(samples, perf_counter() - began if timer.by_wall else sum(samples))
    look()
    return decision.reason.value


def time_of_function(function: Call, device: str, per_call: float) -> float:
    """Return the s per call that a caller waits for a whole function: the median of FUNCTION_SAMPLES, hot.

    On CUDA each call is waited for. On the CPU short calls are batched so that the clock resolves them.

    Args:
        function: allocates its outputs, checks its arguments, and computes.
        device: "cpu" or "cuda".
        per_call: s that a call takes, about.
    """
    timer = SyncTimer(TorchEvents(device).synchronize) if device == "cuda" else HostTimer()
    batch = 1 if device == "cuda" else batch_for(per_call, timer, timer.tick(), timer.overhead())
    count = FUNCTION_SAMPLES if FUNCTION_SAMPLES * batch * per_call <= FUNCTION_SECONDS else FEWEST
    timer.samples(function, 1, 1)  # maps the memory that it allocates
    return sorted(timer.samples(function, batch, count))[count // 2]
