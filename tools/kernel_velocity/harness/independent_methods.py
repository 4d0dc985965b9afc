"""The methods that our timers are compared with: PyTorch's and Triton's own, CUDA graphs, the profiler, CPU time.

A method prepares a call once and then returns seconds per call as often as it is asked. It raises NotImplementedError
where it does not exist or does not apply.
"""

from __future__ import annotations

import importlib
import math
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel_velocity.harness.benchmark import _KernelBenchmark
from kernel_velocity.harness.ceilings import BEYOND
from kernel_velocity.harness.reported import threads
from kernel_velocity.harness.statistics import trimmed_mean
from kernel_velocity.harness.suite import Series

SECONDS = 0.05  # s of calls per method and pass: 18 series x 3 passes x 4 methods take some 11 s of a GPU
GRAPH = 1e-3  # s that one graph lasts at least: then its own launch, some 10 us, is no more than 1% of it
GRAPH_MOST = 256  # calls in a graph
REPLAYS = 20  # at most
PROFILED = 64  # calls at most: each is an event or more that the profiler keeps
# A GPU takes about 1 us between two kernels of a stream, to drain one and start the next; a call has up to three. The
# profiler's sum leaves those gaps out, so that it can be held against a call only where they are not seen.
GAPS = 3e-6  # s

Run = Callable[[], float]


@dataclass(frozen=True)
class Subject:
    """A series that is set up. `cache` is the size of the last cache before memory, bytes."""

    series: Series
    bench: _KernelBenchmark
    cache: int | None


@dataclass(frozen=True)
class Method:
    """A way to time.

    Attributes:
        prepare: returns a run of a call that takes about so many seconds.
        incomparable: (subject, the harness's seconds, threshold) -> why it differs by nature, or "".
        alone: whether it leaves out the time that the scheduler gave to others: then it differs on a busy machine.
    """

    name: str
    prepare: Callable[[Subject, float], Run]
    incomparable: Callable[[Subject, float, float], str] = lambda *_: ""
    alone: bool = False


def _repeats(seconds: float, most: int) -> int:
    """Return how many calls of `seconds` fill SECONDS: at least 3, at most `most`."""
    return min(most, max(3, math.ceil(SECONDS / seconds)))


def _blocked_autorange(subject: Subject, _seconds: float) -> Run:
    """torch.utils.benchmark: blocks of calls on `timeit`'s clock."""
    try:
        timing: Any = importlib.import_module("torch.utils.benchmark")
    except ModuleNotFoundError as error:
        raise NotImplementedError(f"this torch has no torch.utils.benchmark ({error})") from None
    timer = timing.Timer(stmt="call()", globals={"call": subject.bench.call}, num_threads=threads())
    return lambda: trimmed_mean(timer.blocked_autorange(min_run_time=SECONDS).times)


def _process_time(subject: Subject, seconds: float) -> Run:
    """CPU time of the process: what the scheduler gives to others is not in it."""
    if threads() > 1:
        raise NotImplementedError("CPU time adds up over threads: only with one thread")
    timer = timeit.Timer(subject.bench.call, timer=time.process_time)
    number = max(1, math.ceil(SECONDS / 10 / seconds))
    repeats = _repeats(seconds * number, 10)
    return lambda: trimmed_mean([spent / number for spent in timer.repeat(repeats, number)])


def _profiled(subject: Subject, seconds: float, device: str, time_of: Callable[[Any, int], float]) -> Run:
    """Return a run under torch.profiler; `time_of(events, calls)` reads the seconds per call."""
    import torch  # noqa: PLC0415 - discovery must work without torch

    try:
        profiler: Any = importlib.import_module("torch.profiler")
    except ModuleNotFoundError as error:
        raise NotImplementedError(f"this torch has no profiler ({error})") from None
    kinds = profiler.ProfilerActivity
    activities = [kinds.CPU, kinds.CUDA] if device == "cuda" else [kinds.CPU]
    call, calls = subject.bench.call, _repeats(seconds, PROFILED)

    def run() -> float:
        with profiler.profile(activities=activities) as profile:
            for _ in range(calls):
                call()
            if device == "cuda":
                torch.cuda.synchronize()
        return time_of(profile.events(), calls)

    return run


def _profiler_cpu(subject: Subject, seconds: float) -> Run:
    """The profiler's CPU time of all operations."""
    if subject.series.implementation != "eager":
        raise NotImplementedError("the profiler sees only torch's own operations: eager")
    return _profiled(subject, seconds, "cpu", operations_time)


def operations_time(events: Sequence[Any], calls: int) -> float:
    """Return the seconds per call that operations took, each counted without those that it called."""
    total = sum(event.self_cpu_time_total for event in events)  # us
    if total <= 0:
        raise NotImplementedError("the profiler saw no operations")
    return float(total) * 1e-6 / calls


def _profiler_cuda(subject: Subject, seconds: float) -> Run:
    """The profiler's duration of every kernel, copy and fill on the device, added up."""
    return _profiled(subject, seconds, "cuda", kernels_time)


def kernels_time(events: Sequence[Any], calls: int) -> float:
    """Return the seconds per call that kernels ran; gaps between them are not in it.

    Raises:
        NotImplementedError: the profiler saw no kernels (CUPTI may be forbidden), or lost some.
    """
    on_device = [event for event in events if event.device_type.name == "CUDA" and not _annotation(event)]
    if not on_device:
        raise NotImplementedError("the profiler saw no kernels: CUPTI is absent, forbidden, or in use")
    if len(on_device) % calls:
        raise NotImplementedError(f"the profiler lost events: {len(on_device)} kernels of {calls} equal calls")
    return float(sum(event.time_range.elapsed_us() for event in on_device)) * 1e-6 / calls


def _annotation(event: Any) -> bool:
    return bool(getattr(event, "is_user_annotation", False))


def _gaps(_subject: Subject, seconds: float, threshold: float) -> str:
    if seconds * threshold < GAPS:
        return "without the gaps between kernels, which count in so short a call"
    return ""


def _graph(subject: Subject, seconds: float) -> Run:
    """Replays of a CUDA graph of many calls, between two events: no launch of ours is in it.

    The calls are captured on a stream of their own, and bound there: a native call uses the stream that was current
    when it was bound.
    """
    import torch  # noqa: PLC0415

    stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    count = min(GRAPH_MOST, max(1, math.ceil(GRAPH / seconds)))
    replays = _repeats(seconds * count, REPLAYS)
    with torch.cuda.stream(stream):
        bench = subject.series.set_up()  # warms up, too: what a first call allocates must not be captured
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(count):
            bench.call()

    def run() -> float:
        with torch.cuda.stream(stream):
            graph.replay()  # keeps the device busy while the next ones are launched
            events = [_event(torch.cuda)]
            for _ in range(replays):
                graph.replay()
                events.append(_event(torch.cuda))
        stream.synchronize()
        # Over all of them, and not one by one: an event between two replays could hold up the next.
        return float(events[0].elapsed_time(events[-1])) * 1e-3 / (count * replays)

    return run


def _event(cuda: Any) -> Any:
    event = cuda.Event(enable_timing=True)
    event.record()
    return event


def _do_bench(subject: Subject, _seconds: float) -> Run:
    """Triton's do_bench: L2 is overwritten before every call."""
    try:
        testing = importlib.import_module("triton.testing")
    except ModuleNotFoundError as error:
        raise NotImplementedError(f"Triton is not installed ({error})") from None
    call = subject.bench.call
    milliseconds = 1e3 * SECONDS
    # Its times are milliseconds; "all" returns those of every call.
    return lambda: (
        1e-3 * trimmed_mean(testing.do_bench(call, warmup=milliseconds / 10, rep=milliseconds, return_mode="all"))
    )


def _cold(subject: Subject, _seconds: float, _threshold: float) -> str:
    """Say why a cold time is not a hot one: some of the working set fits into the cache."""
    if subject.cache is None:
        return "cold, and the size of the cache is not known"
    moved = subject.series.bytes
    if moved is None or moved <= BEYOND * subject.cache:
        return f"cold, and the working set is no more than {BEYOND} times the cache"
    return ""


# In order, device -> groups. The profiler comes last: CUPTI and CUDA graphs in one process have crashed (torch.profiler
# works around it where it knows of graphs), and once used it leaves its hooks in the driver.
METHODS: Mapping[str, tuple[tuple[Method, ...], ...]] = {
    "cpu": (
        (
            Method("blocked_autorange", _blocked_autorange),
            Method("process_time", _process_time, alone=True),
            Method("profiler", _profiler_cpu),
        ),
    ),
    "cuda": (
        (Method("graph", _graph, _gaps), Method("do_bench", _do_bench, _cold)),
        (Method("profiler", _profiler_cuda, _gaps),),
    ),
}
