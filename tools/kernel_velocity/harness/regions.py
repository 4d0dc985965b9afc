"""Time only a part of a benchmark's body, or take the time that it reports itself.

A `time_*` method of a class derived from the suite's base is timed as a whole. Two decorators change that:

    from kernel_velocity.harness.benchmark import _KernelBenchmark
    from kernel_velocity.harness.regions import times_a_region, times_itself

    class Cpu(_KernelBenchmark):
        problem, device = MyProblem(), "cpu"

        @times_a_region
        def time_product(self, implementation, case):
            operands = pack(case)          # not timed
            with self.region:              # timed: once in every call, neither never nor twice
                multiply(operands)

        @times_itself
        def time_pipeline(self, implementation, case):
            return run_and_read_its_own_counter()  # microseconds of this call

On a CUDA device a region is what its launches take there, by events; the body may launch more before and after it.
Rule, rounds, flags and telemetry are those of every other series; its estimate is in seconds as always.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from itertools import repeat
from numbers import Real
from time import perf_counter_ns
from typing import Any, TypeVar

from kernel_velocity.harness.cuda_timers import CudaEventTimer, EventSource, Pairs
from kernel_velocity.harness.timers import Call, HostTimer, no_collection

Method = TypeVar("Method", bound=Callable[..., Any])


class RegionError(RuntimeError):
    """A body that times no region, or more than one, or that reports no number."""


class Timed(Enum):
    """What of a body is its time."""

    WHOLE = "whole"
    REGION = "region"
    REPORTED = "reported"


def times_a_region(method: Method) -> Method:
    """Mark a `time_*` method whose time is that of its `with self.region:`."""
    method._timed = Timed.REGION  # type: ignore[attr-defined]
    return method


def times_itself(method: Method) -> Method:
    """Mark a `time_*` method that returns its own time, in microseconds."""
    method._timed = Timed.REPORTED  # type: ignore[attr-defined]
    return method


def timed(method: Callable[..., Any]) -> Timed:
    """Return what of a method is its time."""
    found: Timed = getattr(method, "_timed", Timed.WHOLE)
    return found


class Region:
    """The timed part of one call. `mark` reads a clock or records an event; a timer calls `take` after each call.

    Until a timer begins to use it (set-up, checks) it marks nothing, but must be used as strictly.
    """

    def __init__(self) -> None:
        self._mark: Callable[[], Any] = _no_mark
        self._begin: Any = None
        self._end: Any = None
        self._entered = self._left = False

    def marks_by(self, mark: Callable[[], Any]) -> None:
        """Take marks by `mark` from now on."""
        self._mark = mark

    def __enter__(self) -> None:
        if self._entered:
            raise RegionError("region entered twice in one call; time one part, or write a benchmark for each")
        self._entered = True
        self._begin = self._mark()

    def __exit__(self, *_: object) -> None:
        self._end = self._mark()
        self._left = True

    def take(self) -> tuple[Any, Any]:
        """Return the marks of the call that just ended, and be ready for the next.

        Raises:
            RegionError: the call used no region, or is still in it.
        """
        entered, left = self._entered, self._left
        self._entered = self._left = False
        if not entered:
            raise RegionError("the call ended without `with self.region:`; nothing was timed")
        if not left:
            raise RegionError("the call ended inside its region; leave it before it returns")
        return self._begin, self._end


def _no_mark() -> None:
    """Mark nothing."""


class HostRegionTimer(HostTimer):
    """`HostTimer` for calls that time a part of themselves."""

    def __init__(self, region: Region, flush: Call | None = None) -> None:
        super().__init__(flush)
        self.by_wall = True  # how long the rest of a body takes is not known
        self._region = region
        region.marks_by(perf_counter_ns)

    def samples(self, call: Call, batch: int, n: int) -> list[float]:
        """Return n samples: seconds in the region per call."""
        with no_collection():
            return [sum(self._one(call) for _ in repeat(None, batch)) / batch * 1e-9 for _ in repeat(None, n)]

    def overhead(self) -> float:
        """Return the median of 21 empty regions, seconds."""
        return sorted(self.samples(self._nothing, 1, 21))[10]

    def _one(self, call: Call) -> int:
        if self._flush is not None:
            self._flush()
        call()
        begin, end = self._region.take()
        return int(end - begin)

    def _nothing(self) -> None:
        with self._region:
            pass


class CudaRegionTimer(CudaEventTimer):
    """`CudaEventTimer` for calls that time a part of themselves."""

    def __init__(self, source: EventSource, region: Region, flush: Call | None = None) -> None:
        super().__init__(source, flush)
        self.by_wall = True
        self._region = region
        region.marks_by(source.event)

    @property
    def batch_limit(self) -> int:
        """Return the most calls that a batch may have: each has two events of its own."""
        return 1 if self._flush is not None else max(1, self._launches // 3)

    def _launches_of(self, batch: int) -> int:
        return 3 * batch + (self._flush is not None)

    def _enqueue(self, call: Call, batch: int) -> Pairs:
        pairs = []
        for _ in repeat(None, batch):
            call()
            pairs.append(self._region.take())
        return pairs

    def tick(self) -> float:
        """Return the tick of the device's events, seconds."""
        return CudaEventTimer(self._source).tick()

    def overhead(self) -> float:
        """Return the median of 21 regions around an empty kernel, seconds."""
        return sorted(self.samples(self._nothing, 1, 21))[10]

    def _nothing(self) -> None:
        with self._region:
            self._source.nothing()


class ReportedTimer:
    """The microseconds that calls return. Its clock is not ours: tick and overhead are unknown."""

    by_wall = True  # what a call reports need not be what it takes
    batch_limit = 1

    def __init__(self, flush: Call | None = None) -> None:
        self.flags: set[str] = set()
        self._flush = flush

    def samples(self, call: Call, batch: int, n: int) -> list[float]:
        """Return n samples in seconds per call.

        Raises:
            RegionError: a call returned no number. What numbers are no times, every stopping rule refuses.
        """
        return [sum(self._one(call) for _ in repeat(None, batch)) / batch for _ in repeat(None, n)]

    def _one(self, call: Call) -> float:
        if self._flush is not None:
            self._flush()
        said = call()
        if not isinstance(said, Real) or isinstance(said, bool):
            raise RegionError(f"the call returned {said!r}; wanted its microseconds, a number")
        return float(said) * 1e-6

    def tick(self) -> None:
        """Return None."""

    def overhead(self) -> None:
        """Return None."""
