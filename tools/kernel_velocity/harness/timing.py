"""How a `time_*` method is timed: which timer, in which cache state, and under which method hash."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from typing import Any

from kernel_velocity.harness import cache, gate
from kernel_velocity.harness.cuda_timers import CudaEventTimer, CudaGraphTimer, EventSource, TorchEvents
from kernel_velocity.harness.regions import CudaRegionTimer, HostRegionTimer, Region, ReportedTimer, Timed, timed
from kernel_velocity.harness.stopping import StoppingRule, VariationOfRates, from_environment, method_hash
from kernel_velocity.harness.timers import Call, HostTimer, SyncTimer, Timer

DEFAULT = "events"
ON_CUDA: Mapping[str, Callable[[EventSource, Call | None], Timer]] = {
    DEFAULT: CudaEventTimer,
    "graph": CudaGraphTimer,
    "sync": lambda source, flush: SyncTimer(source.synchronize, flush),
}
LAUNCH_MATTERS = 1e-3  # s per call: a launch takes about 10 us
PRODUCTS, EXTENT = 10, 5000  # multiplied before the first run by the suites that `cv_gflops` comes from
SYNCHRONISED = 21  # samples of what a caller waits; the median counts


class TimerError(ValueError):
    """A timer that does not exist."""


def chosen(environ: Mapping[str, str]) -> str:
    """Return the timer of CUDA devices that KV_TIMER names; the CPU has only the host's clock.

    Raises:
        TimerError: there is no such timer.
    """
    name = environ.get("KV_TIMER") or DEFAULT
    if name not in ON_CUDA:
        raise TimerError(f"KV_TIMER: no timer {name!r}; there are {', '.join(sorted(ON_CUDA))}")
    return name


def method(environ: Mapping[str, str]) -> str:
    """Return the hash of the timing method that the settings ask for: rule, threads, what is not the default.

    Raises:
        RuleError, TimerError, GateError: a setting that makes no sense.
    """
    identity = method_hash(from_environment(environ), environ.get("KV_THREADS") or None)
    timer, patience = chosen(environ), gate.patience(environ)
    others = [] if timer == DEFAULT else [timer]
    others += [] if patience == gate.PATIENCE else [f"patience {patience:g}"]
    return hashlib.sha256(" ".join([identity, *others]).encode()).hexdigest()[:8] if others else identity


def prepare(device: str, environ: Mapping[str, str]) -> None:
    """Have all that follows launch on a stream that a graph can be captured from, where graphs are asked for.

    Raises:
        TimerError: there is no such timer.
    """
    if chosen(environ) == "graph" and device == "cuda":
        import torch  # noqa: PLC0415 - discovery must work without torch

        torch.cuda.set_stream(torch.cuda.Stream())  # type: ignore[no-untyped-call]


def pre_warm(rule: StoppingRule, device: str) -> None:
    """Bring a GPU's clocks up as the published rule does: ten products of 5000 x 5000 matrices, float32, random.

    Not on a CPU, where they take 25 s and the warm-up of each round serves.
    """
    if device != "cuda" or rule.name != VariationOfRates.name:
        return
    import torch  # noqa: PLC0415 - discovery must work without torch

    factor = torch.rand(EXTENT, EXTENT, device=device)
    for _ in range(PRODUCTS):
        torch.matmul(factor, factor)
    torch.cuda.synchronize()


def timer_of(device: str, method: Callable[..., Any], region: Region) -> Timer:
    """Return the timer of a `time_*` method on a device.

    Raises:
        NotImplementedError: the caches of this machine cannot be made cold: n/a.
        TimerError: KV_TIMER names none.
    """
    flush = cache.flush(device) if cache.is_cold(method) else None
    what = timed(method)
    if what is Timed.REPORTED:
        return ReportedTimer(flush)
    if device != "cuda":
        return HostTimer(flush) if what is Timed.WHOLE else HostRegionTimer(region, flush)
    source = TorchEvents(device)
    if what is Timed.REGION:
        return CudaRegionTimer(source, region, flush)
    return ON_CUDA[chosen(os.environ)](source, flush)


def plain(device: str, flush: Call | None = None) -> Timer:
    """Return the default timer of a device, whatever is asked for; hot without flush."""
    return CudaEventTimer(TorchEvents(device), flush) if device == "cuda" else HostTimer(flush)


def wait(call: Call, device: str, estimate: float) -> float | None:
    """Return how long a caller waits for a call and for its device, s: the median of SYNCHRONISED samples, hot.

    None where a call takes so long (`estimate`, s) that its launch is less than 1% of it: the samples would cost more
    than they say.
    """
    if estimate > LAUNCH_MATTERS:
        return None
    samples = SyncTimer(TorchEvents(device).synchronize).samples(call, 1, SYNCHRONISED)
    return sorted(samples)[SYNCHRONISED // 2]
