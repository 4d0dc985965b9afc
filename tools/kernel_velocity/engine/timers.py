"""Timers: seconds per call of batches of calls, on the host's clock or on a CUDA device's.

`HostTimer` and `SyncTimer` read the host's clock. `CudaEventTimer` and `CudaGraphTimer` put events of the device around
batches of launches, or around replays of a graph of them.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise, repeat
from time import perf_counter_ns
from typing import Any

Call = Callable[[], object]


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep the garbage collector out of the timed region."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _nothing() -> None:
    """Stand in for a kernel that does nothing, and for a clock that is not read."""


class Timer(ABC):
    """What `sampling` needs of a timer. `samples` are seconds per call, each over `batch` calls back to back."""

    # A batch lasts at least so many empty calls, so that what one reads as moves a sample by no more than 5%.
    empty_calls = 20
    by_wall: bool  # whether much time passes outside the samples: then a rule's seconds are those of the host's clock

    def __init__(self) -> None:
        self.flags: set[str] = set()  # what went wrong while timing, such as "underfed"

    @property
    @abstractmethod
    def batch_limit(self) -> int:
        """Return the most calls that a batch may have."""

    @abstractmethod
    def samples(self, call: Call, batch: int, n: int) -> list[float]:
        """Return n samples in seconds per call."""

    @abstractmethod
    def tick(self) -> float:
        """Return the smallest difference that the clock shows, in seconds."""

    @abstractmethod
    def overhead(self) -> float:
        """Return what an empty call reads as, in seconds."""

    def restart(self) -> None:
        """Forget flags, and what was read of the device's clock."""
        self.flags.clear()

    def clocks(self) -> list[float]:
        """Return the device's clock beside the samples, Hz, in order. [] where it is not read."""
        return []


# On the host's clock --------------------------------------------------------------------------------------------------


class StandingClockError(RuntimeError):
    """A clock that does not move."""


class HostTimer(Timer):
    """`time.perf_counter_ns` around a batch: right for calls that return when the work is done.

    Args:
        flush: called before every sample, outside the timed part, so that caches are cold. Only the first call of a
            batch would find them cold, so a batch is then one call.
    """

    def __init__(self, flush: Call | None = None) -> None:
        super().__init__()
        self.by_wall = flush is not None
        self._limit = 1 << 20 if flush is None else 1
        self._flush = flush

    @property
    def batch_limit(self) -> int:
        """Return the most calls that a batch may have."""
        return self._limit

    def samples(self, call: Call, batch: int, n: int) -> list[float]:
        """Return n samples in seconds per call."""
        samples = []
        with no_collection():
            for _ in repeat(None, n):
                if self._flush is not None:
                    self._flush()
                calls = repeat(None, batch)
                begin = perf_counter_ns()
                for _ in calls:
                    call()
                samples.append((perf_counter_ns() - begin) / batch * 1e-9)
        return samples

    def tick(self) -> float:
        """Return the smallest non-zero difference of 1000 readings in a row.

        Raises:
            StandingClockError: there is none.
        """
        readings = [perf_counter_ns() for _ in range(1000)]
        steps = [after - before for before, after in pairwise(readings) if after > before]
        if not steps:
            raise StandingClockError("the clock stood still for 1000 readings: has the code under test replaced it?")
        return min(steps) * 1e-9

    def overhead(self) -> float:
        """Return the median of 21 samples of 1000 empty calls. Of 5 of one call where each costs a flush."""
        count = 21 if self._flush is None else 5
        return sorted(self.samples(_nothing, min(1000, self.batch_limit), count))[count // 2]


class SyncTimer(HostTimer):
    """The host's clock around calls that each end in a wait for the device: what a caller waits for a result.

    Args:
        synchronize: returns when the device is idle.
        flush: as `HostTimer`'s. The device finishes it before the clock is read.
    """

    def __init__(self, synchronize: Call, flush: Call | None = None) -> None:
        super().__init__(self._settle)
        self.by_wall = True  # a batch waits for the device before it begins
        self._limit = 1 << 20 if flush is None else 1
        self._synchronize, self._before = synchronize, flush or _nothing

    def samples(self, call: Call, batch: int, n: int) -> list[float]:
        """Return n samples in seconds per call, each call waited for."""
        wait = self._synchronize
        return super().samples(lambda: (call(), wait()), batch, n)

    def _settle(self) -> None:
        self._before()
        self._synchronize()


class RegionState(ctypes.Structure):
    """What a library that times a region of itself and its timer tell one another (include/kernel_velocity.h)."""

    _fields_ = (
        ("warmups", ctypes.c_int64),
        ("iterations", ctypes.c_int64),
        ("entered", ctypes.c_int64),
        ("seconds", ctypes.c_double),
    )


class RegionError(RuntimeError):
    """A call that did not enter the region that it is to time."""


class RegionTimer(HostTimer):
    """The clock of the code under test: a call times a region of itself, which it runs `batch` times after one more.

    Args:
        region: of the library that is called, all zeros but one iteration, as it is between the samples.
    """

    def __init__(self, region: RegionState) -> None:
        super().__init__()
        self.by_wall = True
        self._region = region

    def samples(self, call: Call, batch: int, n: int) -> list[float]:
        """Return n samples in seconds per iteration of the region.

        Raises:
            RegionError: a call did not enter it.
        """
        region, samples = self._region, []
        try:
            with no_collection():
                for _ in repeat(None, n):
                    region.warmups, region.iterations, region.entered, region.seconds = 1, batch, 0, 0.0
                    call()
                    if not region.entered:
                        raise RegionError("it did not enter its region (kv::region)")
                    samples.append(region.seconds / batch)
        finally:
            region.warmups, region.iterations = 0, 1
        return samples

    def overhead(self) -> float:
        """Return what an empty region reads as: a step of the clock."""
        return self.tick()


# On a CUDA device's clock ---------------------------------------------------------------------------------------------


class CaptureError(RuntimeError):
    """Calls that no CUDA graph can hold: they wait for the device, allocate, or launch on another stream."""


class TorchEvents:
    """The part of CUDA that timers touch, by PyTorch, on the current stream of `device`."""

    def __init__(self, device: str) -> None:
        import torch  # noqa: PLC0415 - discovery must work without torch

        self._cuda: Any = torch.cuda
        self._device = device
        # torch.cuda._sleep is the finite spin kernel that PyTorch's own tests use. It counts clock64() cycles; devices
        # clock at up to 2.9 GHz (H200: 1.98), so that cycles counted at 3 GHz never block for less than was asked.
        self._cycles_per_second = 3.0e9

    def block(self, seconds: float) -> None:
        """Keep the stream busy for about that long, without waiting on the host (so it cannot deadlock)."""
        self._cuda._sleep(int(seconds * self._cycles_per_second))

    def spin(self, cycles: int) -> None:
        """Keep the stream busy for that many cycles of the multiprocessors' clock."""
        self._cuda._sleep(cycles)

    def event(self) -> Any:
        """Record a timing event on the stream."""
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        self._cuda.synchronize(self._device)

    def nothing(self) -> None:
        """Spin for no cycles: the smallest kernel at hand."""
        self._cuda._sleep(0)

    def capture(self, call: Call, batch: int) -> Call:
        """Return a call that launches `batch` calls as one graph, captured on the current stream (not the default one).

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
            # PyTorch leaves its random numbers in the state of a capture, where the next draw is an error.
            for generator in self._cuda.default_generators:
                generator.graphsafe_set_state(generator.clone_state())
            raise CaptureError(" ".join(str(error).split())) from error
        replay: Call = graph.replay
        return replay


class CudaEventTimer(Timer):
    """CUDA events around batches, all enqueued while a finite blocker keeps the device busy.

    Without the blocker the device waits for the host and an event pair includes the launch gap: a kernel of 7 us can
    read as 39. A first event that has passed when the last launch was enqueued proves that the device overtook the
    host. Such a block is thrown away, and the next is half as long and covered for longer (a call may launch several
    kernels). Where nothing more can be done the block is kept and flagged `underfed`. A block that the host kept ahead
    of says what a launch costs: the next is covered for twice that.

    A block ends in a spin of SPIN cycles between two events of its own. Its time tells the clock that the samples ran
    at. The driver tells the clock of a device that has gone idle.

    Args:
        source: the device.
        flush: enqueued before every sample, outside its two events, so that caches are cold. Only the first call of a
            batch would find them cold, so a batch is then one call.
    """

    # By no more than .5%: an empty call reads as 3.2 us on an H200, where batches of one call of 70 us read 4% more
    # than a graph of them.
    empty_calls = 200
    LAUNCHES = 512  # per block: half of the 1024 that the driver queues before a launch waits for the device
    COVER = 20e-6  # s of host time per call that the blocker covers at first: a few times what one launch costs
    COVER_LEAST, COVER_MOST = 2e-6, 1e-3  # s
    # The device spins while the host launches: on an H200, 1,750 samples of a call of 3.3 us took 2.7 s, its calls .12.
    by_wall = True
    SPIN = 500_000  # cycles: 250 us at 1.98 GHz

    def __init__(self, source: TorchEvents, flush: Call | None = None) -> None:
        super().__init__()
        self._source = source
        self._flush = flush
        self._launches = self.LAUNCHES  # per block; less where calls turn out to be several launches each
        self._cover = self.COVER
        self._spins: list[float] = []  # s
        self._overhead = 0.0  # s
        self._flushes = 0 if flush is None else 2  # launches of it

    def restart(self) -> None:
        """Forget flags and readings of the clock."""
        super().restart()
        self._spins.clear()

    def clocks(self) -> list[float]:
        """Return the multiprocessors' clock at the end of each block, Hz. An empty call is taken off, if it was timed.

        An H200 that its driver says runs at 1980 MHz reads 1983.
        """
        return [self.SPIN / (seconds - self._overhead) for seconds in self._spins]

    @property
    def batch_limit(self) -> int:
        """Return the most calls that a batch may have: a block holds at least one batch and its two events."""
        return 1 if self._flush is not None else max(1, self._launches - 2)

    def samples(self, call: Call, batch: int, n: int) -> list[float]:
        """Return n samples in seconds per call. `flags` gets "underfed" where the host could not keep ahead."""
        samples: list[float] = []
        launches = batch + 2 + self._flushes  # of a sample, if a call is one
        while len(samples) < n:
            block = max(1, min(self._launches // launches, n - len(samples)))
            fed, seconds, host = self._block(call, batch, block, self._cover * block * launches)
            exhausted = block == 1 and self._cover >= self.COVER_MOST
            launch = host / (block * launches)
            if fed or exhausted:
                samples.extend(seconds)
                self.flags |= set() if fed else {"underfed"}
                self._cover = min(self._cover, max(2 * launch, self.COVER_LEAST)) if fed else self._cover
            else:
                self._cover = min(max(2 * self._cover, 1.5 * launch), self.COVER_MOST)
                self._launches = max(3, self._launches // 2)
        return samples

    def _block(self, call: Call, batch: int, samples: int, blocked: float) -> tuple[bool, list[float], float]:
        """Enqueue [flush, event, batch, event] `samples` times behind a blocker of `blocked` seconds.

        Returns: whether the host kept ahead, seconds per call of each sample, host seconds of enqueuing.
        """
        source = self._source
        enqueued = []
        with no_collection():
            source.block(blocked)
            started = perf_counter_ns()
            for _ in repeat(None, samples):
                if self._flush is not None:
                    self._flush()
                begin = source.event()
                for _ in repeat(None, batch):
                    call()
                enqueued.append((begin, source.event()))
            host = (perf_counter_ns() - started) * 1e-9
            fed = not enqueued[0][0].query()
            begin = source.event()
            source.spin(self.SPIN)
            end = source.event()
            source.synchronize()
        self._spins.append(begin.elapsed_time(end) * 1e-3)
        return fed, [begin.elapsed_time(end) * 1e-3 / batch for begin, end in enqueued], host

    def tick(self) -> float:
        """Return the smallest non-zero difference between the readings of 64 empty pairs, or their smallest value."""
        readings = sorted({round(value, 12) for value in CudaEventTimer.samples(self, _nothing, 1, 64)})
        steps = [after - before for before, after in pairwise(readings)]
        return min([step for step in steps if step > 0] or [value for value in readings if value > 0] or [0.5e-6])

    def overhead(self) -> float:
        """Return the median of 21 samples of an empty kernel, seconds. Never subtracted from a time."""
        self._overhead = sorted(self.samples(self._source.nothing, 1, 21))[10]
        return self._overhead


class CudaGraphTimer(CudaEventTimer):
    """CUDA events around replays of a graph of one batch: no launch of ours is in it, whatever a call costs the host.

    The calls must be bound to the stream that is current, and that must not be the default stream. Where they cannot
    be captured, events around plain launches time them, with the flag `ungraphed` and a line on standard error.
    """

    def __init__(self, source: TorchEvents, flush: Call | None = None) -> None:
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
