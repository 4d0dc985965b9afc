"""Timers on a CUDA device's own clock: events around batches of launches, or of replays of a graph of them."""

from __future__ import annotations

import sys
import warnings
from itertools import pairwise, repeat
from time import perf_counter_ns
from typing import Any, Protocol

from kernel_velocity.harness.timers import Call, no_collection

Pairs = list[tuple[Any, Any]]  # events: begin, end


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

    def capture(self, call: Call, batch: int) -> Call:
        """Return a call that launches `batch` calls as one graph.

        Raises:
            CaptureError: the calls cannot be captured.
        """
        ...


class CaptureError(RuntimeError):
    """Calls that no CUDA graph can hold: they wait for the device, allocate, or launch on another stream."""


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

    def capture(self, call: Call, batch: int) -> Call:
        """Capture on the current stream, which must not be the default one.

        Raises:
            CaptureError: PyTorch or the driver refused, or nothing of the calls was on that stream: PyTorch only
                warns of an empty graph, whose replay would take no time at all.
        """
        graph = self._cuda.CUDAGraph()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                with self._cuda.graph(graph, stream=self._cuda.current_stream()):
                    for _ in repeat(None, batch):
                        call()
        except (RuntimeError, UserWarning) as error:
            raise CaptureError(" ".join(str(error).split())) from error
        replay: Call = graph.replay
        return replay


class CudaEventTimer:
    """CUDA events around batches, all enqueued while a finite blocker keeps the device busy.

    Without the blocker the device waits for the host and an event pair includes the launch gap: a kernel of 7 us can
    read as 39. A first event that has passed when the last launch was enqueued proves that the device overtook the
    host: that block is thrown away, the next is half as long and covered for longer (a call may launch several
    kernels). Where nothing more can be done the block is kept and flagged `underfed`.

    Args:
        source: the device.
        flush: enqueued before every sample, outside its two events, so that caches are cold; of a batch only the first
            call would find them so: then a batch is one call.
    """

    LAUNCHES = 512  # per block: half of the 1024 that the driver queues before a launch waits for the device
    COVER = 20e-6  # s of host time per call that the blocker covers at first: a few times what one launch costs
    COVER_MOST = 1e-3  # s

    def __init__(self, source: EventSource, flush: Call | None = None) -> None:
        self._source = source
        self._flush = flush
        self.by_wall = flush is not None
        self._launches = self.LAUNCHES  # per block; less where calls turn out to be several launches each
        self._cover = self.COVER
        self.flags: set[str] = set()

    @property
    def batch_limit(self) -> int:
        """Return the most calls that a batch may have: a block holds at least one batch and its two events."""
        return 1 if self._flush is not None else max(1, self._launches - 2)

    def _launches_of(self, batch: int) -> int:
        """Return how many places in the queue a sample takes, if a call takes one."""
        return batch + 2 + (self._flush is not None)

    def samples(self, call: Call, batch: int, n: int) -> list[float]:
        """Return n samples in seconds per call; `flags` gets "underfed" where the host could not keep ahead."""
        found: list[float] = []
        while len(found) < n:
            block = max(1, min(self._launches // self._launches_of(batch), n - len(found)))
            fed, seconds, host = self._block(call, batch, block)
            exhausted = block == 1 and self._cover >= self.COVER_MOST
            if fed or exhausted:
                found.extend(seconds)
                self.flags |= set() if fed else {"underfed"}
            else:
                needed = 1.5 * host / (block * self._launches_of(batch))
                self._cover = min(max(2 * self._cover, needed), self.COVER_MOST)
                self._launches = max(3, self._launches // 2)
        return found

    def _block(self, call: Call, batch: int, samples: int) -> tuple[bool, list[float], float]:
        """Enqueue [flush, event, batch, event] `samples` times behind a blocker.

        Returns: whether the host kept ahead, seconds per call of each sample, host seconds of enqueuing.
        """
        source = self._source
        enqueued = []
        with no_collection():
            source.block(self._cover * samples * self._launches_of(batch))
            started = perf_counter_ns()
            for _ in repeat(None, samples):
                if self._flush is not None:
                    self._flush()
                enqueued.append(self._enqueue(call, batch))
            host = (perf_counter_ns() - started) * 1e-9
            fed = not enqueued[0][0][0].query()
            source.synchronize()
        return fed, [sum(begin.elapsed_time(end) for begin, end in pairs) * 1e-3 / batch for pairs in enqueued], host

    def _enqueue(self, call: Call, batch: int) -> Pairs:
        """Enqueue the calls of one sample; return the pairs of events around what is timed of it."""
        begin = self._source.event()
        for _ in repeat(None, batch):
            call()
        return [(begin, self._source.event())]

    def tick(self) -> float:
        """Return the smallest non-zero difference between the readings of 64 empty pairs, or their smallest value."""
        readings = sorted({round(value, 12) for value in CudaEventTimer.samples(self, lambda: None, 1, 64)})
        steps = [after - before for before, after in pairwise(readings)]
        return min([step for step in steps if step > 0] or [value for value in readings if value > 0] or [0.5e-6])

    def overhead(self) -> float:
        """Return the median of 21 samples of an empty kernel, seconds; reported, never subtracted."""
        return sorted(self.samples(self._source.nothing, 1, 21))[10]


class CudaGraphTimer(CudaEventTimer):
    """CUDA events around replays of a graph of one batch: no launch of ours is in it, whatever a call costs the host.

    The calls must be bound to the stream that is current, and that must not be the default stream. Where they cannot
    be captured, events around plain launches time them, flagged `ungraphed` and said on standard error.
    """

    def __init__(self, source: EventSource, flush: Call | None = None) -> None:
        super().__init__(source, flush)
        self._captured: tuple[Call, int] | None = None  # what `_replay` replays
        self._replay: Call | None = None

    def samples(self, call: Call, batch: int, n: int) -> list[float]:
        """Return n samples in seconds per call."""
        if self._captured != (call, batch):
            self._captured, self._replay = (call, batch), self._capture(call, batch)
        if self._replay is None:
            self.flags.add("ungraphed")
            return super().samples(call, batch, n)
        return [seconds / batch for seconds in super().samples(self._replay, 1, n)]

    def _capture(self, call: Call, batch: int) -> Call | None:
        call()  # what only a first call does (load a module, allocate) must not be captured
        self._source.synchronize()
        try:
            return self._source.capture(call, batch)
        except CaptureError as error:
            print(f"kernel-velocity: no CUDA graph, so launches are timed: {error}", file=sys.stderr)  # noqa: T201
            return None
