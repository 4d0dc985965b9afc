"""Cache state: what overwrites the caches before a cold sample, and how to tell that they were warm all the same."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from kernel_velocity.harness import kept_figure
from kernel_velocity.harness.reported import cache_size, free_memory, name, threads
from kernel_velocity.harness.timers import Call, Timer
from kernel_velocity.harness.workloads import AROUND, LACKING, STREAMS

Method = TypeVar("Method", bound=Callable[..., Any])

# Times the last cache before memory that the flush buffer has: replacement is not strictly by age, so one size is not
# enough. CUDA: within the 2 to 4 times L2 that published harnesses overwrite. CPU: with 32 MB, an addition of 12 MB
# that takes 147 us hot took 501 us after 1, 509 after 2 and 543 after 3 times; the flush 1.5, 2.8 and 5.3 ms.
FLUSH = {"cpu": 2, "cuda": 3}

BEYOND = 4  # times the cache that memory is measured with: what the cache holds of such a working set is a quarter
MEMORY_SHARE = 4  # of the free memory, at most one part in four
SECONDS = 0.1  # s per stream
FEWEST = 5  # samples
FASTEST = 0.1  # share of the samples that undercut what counts: what memory can do where nobody disturbs
# Memory's own peak is known to some percent, and a tenth of the working set may be left in a cache.
WARM = 1.1


def cold(method: Method) -> Method:
    """Mark a `time_*` method before each of whose samples the caches are overwritten."""
    method._cold = True  # type: ignore[attr-defined]
    return method


def is_cold(method: Callable[..., Any]) -> bool:
    """Return whether a method is so marked."""
    return getattr(method, "_cold", False)


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
    """Return a call that overwrites a buffer larger than the device's caches; it allocates nothing.

    On CUDA it is one launch on the current stream. The buffer is read and written: a plain fill may go past the caches.

    Raises:
        NotImplementedError: the size of the cache is not known: n/a.
    """
    import torch  # noqa: PLC0415 - discovery must work without torch

    buffer = torch.zeros(flush_size(device) // 4, dtype=torch.int32, device=device)

    def overwrite() -> None:
        buffer.add_(1)

    return overwrite


def is_warm(bytes_per_second: float, device: str, timer: Timer, folder: Path) -> bool | None:
    """Return whether a cold call moved its bytes faster than memory can: then its caches were not cold.

    Memory's peak is measured once and kept in `folder`; it is measured again, and the higher one kept, before it
    speaks against a call: the first time may have been disturbed.

    Args:
        bytes_per_second: least memory traffic of the call over its time.
        device: "cpu" or "cuda".
        timer: of the device, hot.
        folder: where peaks are kept.

    Returns: None where memory cannot be measured: the cache's size is unknown, or too little is free.
    """
    path = folder / f"{_machine(device)}.json"
    known = kept_figure.read(path, "bytes_per_second")
    if known is not None and bytes_per_second <= WARM * known:
        return False
    measured = memory_peak(device, timer)
    if measured is None:
        return None
    peak = max(measured, known or 0.0)
    kept_figure.keep(path, {"device": name(device), "threads": threads(), "bytes_per_second": peak})
    return bytes_per_second > WARM * peak


def memory_peak(device: str, timer: Timer) -> float | None:
    """Return the most bytes per second that streams beyond the caches moved; None where there is no room for them."""
    cache, free = cache_size(device), free_memory(device)
    if cache is None or (free is not None and MEMORY_SHARE * BEYOND * cache > free):
        return None
    rates = [_rate(*make(device, BEYOND * cache), timer) for make in STREAMS.values()]
    for make in AROUND.values() if device == "cpu" else ():
        with suppress(*LACKING):
            rates.append(_rate(*make(device, BEYOND * cache), timer))
    return max(rates)


def _rate(call: Call, moved: float, timer: Timer) -> float:
    """Return the bytes per second of a stream that moves `moved` bytes a call."""
    timer.samples(call, 1, 2)  # pages are mapped, clocks rise
    samples: list[float] = []
    began = perf_counter()
    while len(samples) < FEWEST or perf_counter() - began < SECONDS:
        samples += timer.samples(call, 1, FEWEST)
    return moved / sorted(samples)[int(FASTEST * len(samples))]


def _machine(device: str) -> str:
    """Return the name under which a device's peak is kept: another torch or number of threads has another."""
    import torch  # noqa: PLC0415

    identity = f"{device}-{name(device)}-{os.uname().nodename}-{torch.__version__}-{threads()}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]
