"""How a round is timed: with warm or cold caches, by which timer."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping

from kernel_velocity.engine import gpu, quiet
from kernel_velocity.engine.reported import cache_size, threads
from kernel_velocity.engine.stopping import StoppingRule, VariationOfRates, from_environment, method_hash
from kernel_velocity.engine.timers import (
    Call,
    CudaEventTimer,
    CudaGraphTimer,
    HostTimer,
    SyncTimer,
    Timer,
    TorchEvents,
)

DEFAULT = "events"
ON_CUDA: Mapping[str, Callable[[TorchEvents, Call | None], Timer]] = {
    DEFAULT: CudaEventTimer,
    "graph": CudaGraphTimer,
    "sync": lambda source, flush: SyncTimer(source.synchronize, flush),
}
LAUNCH_MATTERS = 1e-3  # s per call: a launch takes about 10 us
PRODUCTS, EXTENT = 10, 5000  # multiplied before the first run by the suites that `cv_gflops` comes from
SYNCHRONISED = 21  # samples of what a caller waits; the median counts

# Times the last cache before memory that the flush buffer has: replacement is not strictly by age, so one size is not
# enough. CUDA: within the 2 to 4 times L2 that published harnesses overwrite. CPU: with 32 MB, an addition of 12 MB
# that takes 147 us hot took 501 us after 1, 509 after 2 and 543 after 3 times; the flush 1.5, 2.8 and 5.3 ms.
FLUSH = {"cpu": 2, "cuda": 3}


def is_cold(name: str) -> bool:
    """Return whether the caches are overwritten before each sample of a benchmark, by its name's last part."""
    return name.endswith("time_cold")


def prepare_torch(device: str, count: int | None = None) -> None:
    """Set threads and the arithmetic of float32 for this process.

    Args:
        count: of threads. PyTorch starts some of a pool as soon as it is set. None: KV_THREADS, else 1.

    Raises:
        NotImplementedError: torch or the device is missing.
    """
    try:
        import torch  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise NotImplementedError("PyTorch is not installed") from None
    torch.set_num_threads(count or threads())
    torch.set_grad_enabled(False)
    products = torch.backends.cuda.matmul
    products.allow_tf32 = False  # float32 products in float32, whatever the image's default
    # Of two bytes summed up in float32, as ours: by default cuBLAS may add the parts of a sum in the inputs' type.
    products.allow_fp16_reduced_precision_reduction = products.allow_bf16_reduced_precision_reduction = False
    if device == "cuda" and not torch.cuda.is_available():
        raise NotImplementedError("PyTorch sees no CUDA device")


# Settings -------------------------------------------------------------------------------------------------------------


class TimerError(ValueError):
    """A timer that does not exist."""


def chosen(environ: Mapping[str, str]) -> str:
    """Return the timer of CUDA devices that KV_TIMER names. The CPU has only the host's clock.

    Raises:
        TimerError: there is no such timer.
    """
    name = environ.get("KV_TIMER") or DEFAULT
    if name not in ON_CUDA:
        raise TimerError(f"KV_TIMER: no timer {name!r}; there are {', '.join(sorted(ON_CUDA))}")
    return name


def method(environ: Mapping[str, str]) -> str:
    """Return the hash of the timing method that the settings ask for: rule, threads, and what differs from the default.

    Raises:
        RuleError, TimerError, GateError, ValueError: a setting that makes no sense.
    """
    identity = method_hash(from_environment(environ), environ.get("KV_THREADS") or None)
    timer, patience = chosen(environ), quiet.patience(environ)
    others = [] if timer == DEFAULT else [timer]
    others += [] if patience == quiet.PATIENCE else [f"patience {patience:g}"]
    clock = gpu.clock_lock(environ)
    others += [] if clock is None else [f"clocks {clock}"]
    return hashlib.sha256(" ".join([identity, *others]).encode()).hexdigest()[:8] if others else identity


# Timers ---------------------------------------------------------------------------------------------------------------


def prepare(device: str, environ: Mapping[str, str]) -> None:
    """Make all that follows launch on a stream that a graph can be captured from, where KV_TIMER asks for graphs.

    Raises:
        TimerError: there is no such timer.
    """
    if chosen(environ) == "graph" and device == "cuda":
        import torch  # noqa: PLC0415 - discovery must work without torch

        torch.cuda.set_stream(torch.cuda.Stream())  # type: ignore[no-untyped-call]


def pre_warm(rule: StoppingRule, device: str) -> None:
    """Bring a GPU's clocks up as the rule `cv_gflops` does: ten products of 5000 x 5000 matrices, float32, random.

    Not on a CPU, where they take 25 s and the warm-up of each round serves.
    """
    if device != "cuda" or rule.name != VariationOfRates.name:
        return
    import torch  # noqa: PLC0415

    factor = torch.rand(EXTENT, EXTENT, device=device)
    for _ in range(PRODUCTS):
        torch.matmul(factor, factor)
    torch.cuda.synchronize()


def timer_of(device: str, *, cold: bool) -> Timer:
    """Return the timer of a round on a device, with cold caches or hot.

    Raises:
        NotImplementedError: the caches of this machine cannot be made cold: n/a.
        TimerError: KV_TIMER names none.
    """
    flush_caches = flush(device) if cold else None
    if device != "cuda":
        return HostTimer(flush_caches)
    return ON_CUDA[chosen(os.environ)](TorchEvents(device), flush_caches)


def plain(device: str, flush: Call | None = None) -> Timer:
    """Return the default timer of a device, whatever KV_TIMER names. Hot without flush."""
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


# Cold caches ----------------------------------------------------------------------------------------------------------


def flush_size(device: str) -> int:
    """Return the size of the buffer that makes a device's caches cold, bytes.

    Raises:
        NotImplementedError: the size of the cache is not known: n/a.
    """
    size = cache_size(device)
    if size is None:
        raise NotImplementedError("the size of the last-level cache is not known here, so it cannot be made cold")
    return FLUSH[device] * size


def flush(device: str) -> Call:
    """Return a call that overwrites a buffer larger than the device's caches. It allocates nothing.

    On CUDA it is two launches on the current stream. The first reads and writes the buffer: a plain fill may go past
    the caches. The second only reads it, in sums of a row each. Else the caches would be full of lines to be written
    back, and the call after it would pay for that.

    Raises:
        NotImplementedError: the size of the cache is not known: n/a.
    """
    import torch  # noqa: PLC0415

    columns = 1024
    buffer = torch.zeros((flush_size(device) // (4 * columns), columns), dtype=torch.float32, device=device)
    sums = torch.empty(len(buffer), dtype=torch.float32, device=device)

    def overwrite() -> None:
        buffer.add_(1)
        if device == "cuda":
            torch.sum(buffer, dim=1, out=sums)

    return overwrite
