"""Timers: seconds per call of batches of calls, on the host's clock or by CUDA events."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise, repeat
from time import perf_counter_ns
from typing import Any, Protocol

Call = Callable[[], object]


class Timer(Protocol):
    """What `sampling` needs of a timer."""

    flags: set[str]  # what went wrong while timing: "underfed"

    @property
    def batch_limit(self) -> int:
        """Return the most calls that a batch may have."""
        ...

    def samples(self, call: Call, batch: int, n: int) -> list[float]:
        """Return n samples: seconds per call, each over `batch` calls back to back."""
        ...

    def tick(self) -> float:
        """Return the smallest difference that the clock shows, in seconds."""
        ...

    def overhead(self) -> float:
        """Return what an empty call costs, in seconds."""
        ...


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector out of the timed region."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _nothing() -> None:
    """Stand in for a kernel that does nothing."""


class HostTimer:
    """`time.perf_counter_ns` around a batch: right for calls that return when the work is done."""

    batch_limit = 1 << 20

    def __init__(self) -> None:
        self.flags: set[str] = set()

    def samples(self, call: Call, batch: int, n: int) -> list[float]:
        """Return n samples in seconds per call."""
        found = []
        with _no_collection():
            for _ in repeat(None, n):
                calls = repeat(None, batch)
                begin = perf_counter_ns()
                for _ in calls:
                    call()
                found.append((perf_counter_ns() - begin) / batch * 1e-9)
        return found

    def tick(self) -> float:
        """Return the smallest non-zero difference of 1000 readings in a row."""
        readings = [perf_counter_ns() for _ in range(1000)]
        steps = [after - before for before, after in pairwise(readings) if after > before]
        return min(steps) * 1e-9

    def overhead(self) -> float:
        """Return the median of 21 samples of 1000 empty calls."""
        return sorted(self.samples(_nothing, 1000, 21))[10]


class EventSource(Protocol):
    """The part of CUDA that `CudaEventTimer` touches; a test puts a simulated clock in its place."""

    def block(self, seconds: float) -> None:
        """Keep the stream busy for about that long, without waiting on the host (so it cannot deadlock)."""
        ...

    def event(self) -> Any:
        """Record an event on the stream: has query() -> bool (has passed) and elapsed_time(later) -> milliseconds."""
        ...

    def synchronize(self) -> None:
        """Wait until the stream is idle."""
        ...

    def nothing(self) -> None:
        """Launch an empty kernel."""
        ...


class TorchEvents:
    """CUDA events of PyTorch on the current stream of `device`."""

    def __init__(self, device: str) -> None:
        import torch  # noqa: PLC0415 - discovery must work without torch

        self._cuda: Any = torch.cuda
        self._device = device
        # torch.cuda._sleep is the finite spin kernel that PyTorch's own tests use. It counts clock64() cycles; devices
        # clock at up to 2.9 GHz (H200: 1.98), so that cycles counted at 3 GHz never block for less than was asked.
        self._cycles_per_second = 3.0e9

    def block(self, seconds: float) -> None:
        """Spin on the stream."""
        self._cuda._sleep(int(seconds * self._cycles_per_second))

    def event(self) -> Any:
        """Record a timing event."""
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def synchronize(self) -> None:
        """Wait for the device."""
        self._cuda.synchronize(self._device)

    def nothing(self) -> None:
        """Spin for no cycles: the smallest kernel at hand."""
        self._cuda._sleep(0)


class CudaEventTimer:
    """CUDA events around batches, all enqueued while a finite blocker keeps the device busy.

    Without the blocker the device waits for the host and an event pair includes the launch gap: a kernel of 7 us can
    read as 39. A first event that has passed when the last launch was enqueued proves that the device overtook the
    host: that block is thrown away, the next is half as long and covered for longer (a call may launch several
    kernels). Where nothing more can be done the block is kept and flagged `underfed`.
    """

    LAUNCHES = 512  # per block: half of the 1024 that the driver queues before a launch waits for the device
    COVER = 20e-6  # s of host time per call that the blocker covers at first: a few times what one launch costs
    COVER_MOST = 1e-3  # s

    def __init__(self, source: EventSource) -> None:
        self._source = source
        self._launches = self.LAUNCHES  # per block; less where calls turn out to be several launches each
        self._cover = self.COVER
        self.flags: set[str] = set()

    @property
    def batch_limit(self) -> int:
        """Return the most calls that a batch may have: a block holds at least one batch and its two events."""
        return max(1, self._launches - 2)

    def samples(self, call: Call, batch: int, n: int) -> list[float]:
        """Return n samples in seconds per call; `flags` gets "underfed" where the host could not keep ahead."""
        found: list[float] = []
        while len(found) < n:
            block = max(1, min(self._launches // (batch + 2), n - len(found)))
            fed, seconds, host = self._block(call, batch, block)
            exhausted = block == 1 and self._cover >= self.COVER_MOST
            if fed or exhausted:
                found.extend(seconds)
                self.flags |= set() if fed else {"underfed"}
            else:
                needed = 1.5 * host / (block * (batch + 2))
                self._cover = min(max(2 * self._cover, needed), self.COVER_MOST)
                self._launches = max(3, self._launches // 2)
        return found

    def _block(self, call: Call, batch: int, samples: int) -> tuple[bool, list[float], float]:
        """Enqueue [event, batch, event] `samples` times behind a blocker.

        Returns: whether the host kept ahead, seconds per call of each sample, host seconds of enqueuing.
        """
        source = self._source
        pairs = []
        with _no_collection():
            source.block(self._cover * samples * (batch + 2))
            started = perf_counter_ns()
            for _ in repeat(None, samples):
                begin = source.event()
                for _ in repeat(None, batch):
                    call()
                pairs.append((begin, source.event()))
            host = (perf_counter_ns() - started) * 1e-9
            fed = not pairs[0][0].query()
            source.synchronize()
        return fed, [begin.elapsed_time(end) * 1e-3 / batch for begin, end in pairs], host

    def tick(self) -> float:
        """Return the smallest non-zero difference between the readings of 64 empty pairs, or their smallest value."""
        readings = sorted({round(value, 12) for value in self.samples(lambda: None, 1, 64)})
        steps = [after - before for before, after in pairwise(readings)]
        return min([step for step in steps if step > 0] or [value for value in readings if value > 0] or [0.5e-6])

    def overhead(self) -> float:
        """Return the median of 21 samples of an empty kernel, seconds; reported, never subtracted."""
        return sorted(self.samples(self._source.nothing, 1, 21))[10]
