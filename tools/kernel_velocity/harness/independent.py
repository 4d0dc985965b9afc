"""Time the same bound calls by methods that share no code with our timers, and compare.

The methods are PyTorch's and Triton's own, CUDA graphs, and the profiler. Every method ends in the harness's
robust location, so that timers are compared, not estimators. Where a method is known to measure something
else (it empties caches, or leaves out gaps) its time is shown without a verdict.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any, TypeVar

from kernel_velocity.harness.benchmark import _KernelBenchmark
from kernel_velocity.harness.reported import cache_size, threads
from kernel_velocity.harness.sampling import calibrate
from kernel_velocity.harness.statistics import trimmed_mean
from kernel_velocity.harness.suite import Series
from kernel_velocity.harness.timers import Call, Timer
from kernel_velocity.harness.workloads import BEYOND

FORMAT = 1
DISAGREE = 0.03  # relative: three times what rounds of one commit differ by on a quiet machine
PASSES = 3  # each times all methods in turn, so that a drift of the machine is not taken for disagreement

SECONDS = 0.05  # s of calls per method and pass: 18 series x 3 passes x 4 methods take some 11 s of a GPU
GRAPH = 1e-3  # s that one graph lasts at least: then its own launch, some 10 us, is no more than 1% of it
GRAPH_MOST = 256  # calls in a graph
REPLAYS = 20  # at most
PROFILED = 64  # calls at most: each is an event or more that the profiler keeps
# A GPU takes about 1 us between two kernels of a stream, to drain one and start the next; a call has up to three. The
# profiler's sum leaves those gaps out, so that it can be held against a call only where they are not seen.
GAPS = 3e-6  # s

Run = Callable[[], float]  # returns seconds per call
T = TypeVar("T")


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
        prepare: returns a run of a call that takes about so many seconds. Raises NotImplementedError where the method
            does not exist or does not apply.
        incomparable: (subject, the harness's seconds) -> why its time differs by nature, or "".
    """

    name: str
    prepare: Callable[[Subject, float], Run]
    incomparable: Callable[[Subject, float], str] = lambda *_: ""


@dataclass(frozen=True)
class Deviation:
    """A method against the harness, relative. `noise` is what passes of the same method differ by."""

    value: float
    noise: float

    @property
    def agrees(self) -> bool | None:
        """Return whether the two agree. None where the noise hides it."""
        if abs(self.value) <= DISAGREE:
            return True
        return False if abs(self.value) > DISAGREE + self.noise else None

    def in_words(self) -> str:
        """Return "differs by +4.1%", and why that proves nothing where it does not."""
        hidden = f", but passes differ by {self.noise:.1%}" if self.agrees is None else ""
        return f"differs by {self.value:+.1%}{hidden}"


@dataclass
class Timings:
    """What has been measured of one series so far: seconds per call by method."""

    harness: list[float] = field(default_factory=list)
    others: dict[str, float] = field(default_factory=dict)
    deviations: dict[str, Deviation] = field(default_factory=dict)  # of the comparable methods
    reasons: dict[str, str] = field(default_factory=dict)  # method -> why absent, or why not comparable

    def attempt(self, step: Callable[[], T], name: str) -> T | None:
        """Return what a step of a method returns. None if it fails, with the reason recorded."""
        try:
            return step()
        except Exception as error:  # noqa: BLE001 - a profiler or a capture may fail in ways of its own
            self.reasons[name] = _in_words(error)
            return None


def measure(series: Sequence[Series], device: str, save: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Time every series by every method of its device. Return the document, ready for JSON.

    `save` gets the document after each series, too: a method that takes the process with it costs only what follows.
    Groups of methods that must not share a process's state run one after the other.
    """
    cache = cache_size(device)
    timings = {member: Timings() for member in series}
    for group in METHODS[device]:
        for member, record in timings.items():
            try:
                compare(Subject(member, member.set_up(), cache), group, record)
            except Exception as error:  # noqa: BLE001 - what one series raises must not cost the others
                record.reasons |= dict.fromkeys((method.name for method in group), _in_words(error))
            save(document(device, timings))
    return document(device, timings)


def compare(subject: Subject, group: Sequence[Method], record: Timings) -> None:
    """Add the times of the harness and of a group's methods, and the deviations of those that are comparable."""
    harness = harness_method(subject.bench.call, subject.bench.new_timer())
    seconds = harness()
    runs: dict[str, Run] = {}
    for method in group:
        run = record.attempt(partial(method.prepare, subject, seconds), method.name)
        if run is not None and record.attempt(run, method.name) is not None:  # a first run warms up
            runs[method.name] = run
    ours: list[float] = []
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(PASSES):
        ours.append(harness())
        for name in tuple(times):
            value = record.attempt(runs[name], name)
            if value is None:
                del times[name]
            else:
                times[name].append(value)
    record.harness += ours
    for method in group:
        if method.name not in times:
            continue
        record.others[method.name] = median(times[method.name])
        if why := method.incomparable(subject, median(ours)):
            record.reasons[method.name] = why
        else:
            record.deviations[method.name] = deviation(ours, times[method.name])


def deviation(ours: Sequence[float], theirs: Sequence[float]) -> Deviation:
    """Return how far a method is from ours, both timed in the same passes: the median over passes."""
    ratios = [their / our for our, their in zip(ours, theirs, strict=True)]
    return Deviation(median(ratios) - 1, max((max(t) - min(t)) / median(t) for t in (ours, theirs)))


def harness_method(call: Call, timer: Timer) -> Run:
    """Return the harness as a method: its warm-up and its choice of the batch once, its samples at every call."""
    per_call, batch = calibrate(call, timer)
    n = max(3, math.ceil(SECONDS / (per_call * batch)))
    return lambda: trimmed_mean(timer.samples(call, batch, n))


def _in_words(error: Exception) -> str:
    """Return why a method or a series is n/a, or in one line how it failed."""
    if isinstance(error, NotImplementedError):
        return str(error)
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


# The document ---------------------------------------------------------------------------------------------------------


def document(device: str, timings: Mapping[Series, Timings]) -> dict[str, Any]:
    """Return everything as JSON has it. `missing` are the methods that timed no series, with the first reason."""
    records = timings.values()
    names = [method.name for group in METHODS[device] for method in group]
    missing = {
        name: next((record.reasons[name] for record in records if name in record.reasons), "not reached")
        for name in names
        if not any(name in record.others for record in records)
    }
    rows = [row(series, record) for series, record in timings.items() if record.harness or record.reasons]
    return {"format": FORMAT, "device": device, "rows": rows, "missing": missing}


def row(series: Series, record: Timings) -> dict[str, Any]:
    """Return one series by every method. Seconds per call. None where a method has no value.

    bytes: least memory traffic of a call, about its working set. worst: the largest relative deviation of a comparable
    method from the harness (signed), None without one. agrees: True where all comparable methods are within DISAGREE.
    False where one is beyond it by more than the passes themselves differ. None where that is not known. why: what is
    absent or not comparable, what disagrees, what is too noisy to say.
    """
    verdicts = {deviation.agrees for deviation in record.deviations.values()}
    return {
        "kernel": series.kernel,
        "implementation": series.implementation,
        "case": series.case,
        "bytes": series.bytes,
        "harness": median(record.harness) if record.harness else None,
        "others": {method.name: record.others.get(method.name) for group in METHODS[series.device] for method in group},
        "worst": max((deviation.value for deviation in record.deviations.values()), key=abs, default=None),
        "agrees": False if False in verdicts else True if verdicts == {True} else None,
        "why": "; ".join(_reasons(record)),
    }


def _reasons(record: Timings) -> Iterator[str]:
    """Yield what disagrees, then each reason once, behind the methods that it is given for."""
    yield from (
        f"{name} {deviation.in_words()}" for name, deviation in record.deviations.items() if not deviation.agrees
    )
    for why in dict.fromkeys(record.reasons.values()):
        yield f"{', '.join(name for name in record.reasons if record.reasons[name] == why)}: {why}"


# The methods ----------------------------------------------------------------------------------------------------------


def _repeats(seconds: float, most: int) -> int:
    """Return how many calls of `seconds` fill SECONDS: at least 3, at most `most`."""
    return min(most, max(3, math.ceil(SECONDS / seconds)))


def _imported(name: str, absence: str) -> Any:
    """Return a module. NotImplementedError, with `absence`, where it is missing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise NotImplementedError(f"{absence} ({error})") from None


def _blocked_autorange(subject: Subject, _seconds: float) -> Run:
    """torch.utils.benchmark: blocks of calls on `timeit`'s clock."""
    timing = _imported("torch.utils.benchmark", "this torch has no torch.utils.benchmark")
    timer = timing.Timer(stmt="call()", globals={"call": subject.bench.call}, num_threads=threads())
    return lambda: trimmed_mean(timer.blocked_autorange(min_run_time=SECONDS).times)


def _profiler(subject: Subject, seconds: float) -> Run:
    """The profiler's duration of every kernel, copy and fill on the device, added up."""
    import torch  # noqa: PLC0415 - discovery must work without torch

    profiler = _imported("torch.profiler", "this torch has no profiler")
    kinds = profiler.ProfilerActivity
    call, calls = subject.bench.call, _repeats(seconds, PROFILED)

    def run() -> float:
        with profiler.profile(activities=[kinds.CPU, kinds.CUDA]) as profile:
            for _ in range(calls):
                call()
            torch.cuda.synchronize()
        return kernels_time(profile.events(), calls)

    return run


def kernels_time(events: Sequence[Any], calls: int) -> float:
    """Return the seconds per call that kernels ran. Gaps between them are not in it.

    Raises:
        NotImplementedError: the profiler saw no kernels (CUPTI may be forbidden), or lost some.
    """
    on_device = [
        event
        for event in events
        if event.device_type.name == "CUDA" and not getattr(event, "is_user_annotation", False)
    ]
    if not on_device:
        raise NotImplementedError("the profiler saw no kernels: CUPTI is absent, forbidden, or in use")
    if len(on_device) % calls:
        raise NotImplementedError(f"the profiler lost events: {len(on_device)} kernels of {calls} equal calls")
    return float(sum(event.time_range.elapsed_us() for event in on_device)) * 1e-6 / calls


def _gaps(_subject: Subject, seconds: float) -> str:
    short = seconds * DISAGREE < GAPS
    return "without the gaps between kernels, which count in so short a call" if short else ""


def _graph(subject: Subject, seconds: float) -> Run:
    """Replays of a CUDA graph of many calls, between two events: no launch of ours is in it.

    The calls are captured on a stream of their own, and bound there: a native call uses the stream that was current
    when it was bound.
    """
    import torch  # noqa: PLC0415

    cuda: Any = torch.cuda
    stream = cuda.Stream()
    count = min(GRAPH_MOST, max(1, math.ceil(GRAPH / seconds)))
    replays = _repeats(seconds * count, REPLAYS)
    with cuda.stream(stream):
        bench = subject.series.set_up()  # warms up, too: what a first call allocates must not be captured
    graph = cuda.CUDAGraph()
    with cuda.graph(graph, stream=stream):
        for _ in range(count):
            bench.call()

    def run(_held: _KernelBenchmark = bench) -> float:  # the graph replays into its memory
        first, last = (cuda.Event(enable_timing=True) for _ in range(2))
        with cuda.stream(stream):
            graph.replay()  # keeps the device busy while the next ones are launched
            first.record()
            for _ in range(replays):
                graph.replay()
            last.record()
        stream.synchronize()
        return float(first.elapsed_time(last)) * 1e-3 / (count * replays)

    return run


def _do_bench(subject: Subject, _seconds: float) -> Run:
    """Triton's do_bench: L2 is overwritten before every call."""
    testing = _imported("triton.testing", "Triton is not installed")
    call = subject.bench.call
    milliseconds = 1e3 * SECONDS
    # Its times are milliseconds; "all" returns those of every call.
    return lambda: (
        1e-3 * trimmed_mean(testing.do_bench(call, warmup=milliseconds / 10, rep=milliseconds, return_mode="all"))
    )


def _cold(subject: Subject, _seconds: float) -> str:
    """Return why a cold time is not a hot one: some of the working set fits into the cache."""
    if subject.cache is None:
        return "cold, and the size of the cache is not known"
    moved = subject.series.bytes
    if moved is None or moved <= BEYOND * subject.cache:
        return f"cold, and the working set is no more than {BEYOND} times the cache"
    return ""


# In order, device -> groups. The profiler comes last: CUPTI and CUDA graphs in one process have crashed (torch.profiler
# works around it where it knows of graphs), and once used it leaves its hooks in the driver.
METHODS: Mapping[str, tuple[tuple[Method, ...], ...]] = {
    "cpu": ((Method("blocked_autorange", _blocked_autorange),),),
    "cuda": (
        (Method("graph", _graph, _gaps), Method("do_bench", _do_bench, _cold)),
        (Method("profiler", _profiler, _gaps),),
    ),
}
