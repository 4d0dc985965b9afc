"""Timers: seconds per call of batches of calls, on the host's clock. `cuda_timers` has those of the device's."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise, repeat
from time import perf_counter_ns
from typing import Protocol

Call = Callable[[], object]


class Timer(Protocol):
    """What `sampling` needs of a timer."""

    flags: set[str]  # what went wrong while timing, such as "underfed"
    by_wall: bool  # whether much time passes outside the samples: then a rule's seconds are those of the host's clock

    @property
    def batch_limit(self) -> int:
        """Return the most calls that a batch may have."""
        ...

    def samples(self, call: Call, batch: int, n: int) -> list[float]:
        """Return n samples: seconds per call, each over `batch` calls back to back."""
        ...

    def tick(self) -> float | None:
        """Return the smallest difference that the clock shows, in seconds; None: the clock is not ours."""
        ...

    def overhead(self) -> float | None:
        """Return what an empty call reads as, in seconds; None: the clock is not ours."""
        ...


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
    """Stand in for a kernel that does nothing."""


class HostTimer:
    """`time.perf_counter_ns` around a batch: right for calls that return when the work is done.

    Args:
        flush: called before every sample, outside the timed part, so that caches are cold; of a batch only the first
            call would find them so: then a batch is one call.
    """

    def __init__(self, flush: Call | None = None) -> None:
        self.flags: set[str] = set()
        self.by_wall = flush is not None
        self.batch_limit = 1 << 20 if flush is None else 1
        self._flush = flush

    def samples(self, call: Call, batch: int, n: int) -> list[float]:
        """Return n samples in seconds per call."""
        found = []
        with no_collection():
            for _ in repeat(None, n):
                if self._flush is not None:
                    self._flush()
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
        """Return the median of 21 samples of 1000 empty calls; of 5 of one call where each costs a flush."""
        count = 21 if self._flush is None else 5
        return sorted(self.samples(_nothing, min(1000, self.batch_limit), count))[count // 2]


class SyncTimer(HostTimer):
    """The host's clock around calls that each end in a wait for the device: what a caller waits for a result.

    Args:
        synchronize: returns when the device is idle.
        flush: as `HostTimer`'s; it is waited for, too, before the clock is read.
    """

    def __init__(self, synchronize: Call, flush: Call | None = None) -> None:
        super().__init__(self._settle)
        self.by_wall = True  # a batch waits for the device before it begins
        self.batch_limit = 1 << 20 if flush is None else 1
        self._synchronize, self._before = synchronize, flush or _nothing

    def samples(self, call: Call, batch: int, n: int) -> list[float]:
        """Return n samples in seconds per call, each call waited for."""
        wait = self._synchronize
        return super().samples(lambda: (call(), wait()), batch, n)

    def _settle(self) -> None:
        self._before()
        self._synchronize()
