"""Our timers against ways to time that share no code with them: CUDA graphs, Triton's do_bench, PyTorch's benchmark.

Both sides are timed in turns, and end in the same location, so that timers are compared, not estimators. And series
that share a process, as a round's do on a GPU, against series in processes of their own.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import statistics
from functools import partial

import pytest

from kernel_velocity.engine.sampling import calibrate
from kernel_velocity.engine.server import ProcessState
from kernel_velocity.engine.statistics import t_975, trimmed_mean
from tests.small_suite import SUITE

torch = pytest.importorskip("torch", reason="what is timed is PyTorch's")

AGREE = 0.03  # relative: three times what rounds of one commit differ by on a quiet machine
BUSY = 2.0  # factor: other work moves a pass on a CPU by less, a wrong unit or batch by more
PASSES = 3  # each times both sides in turn, so that a drift of the machine is no disagreement
TRIES = 3  # another program may disturb one of them
SECONDS = 0.05  # s of calls per side and pass
GRAPH = 1e-3  # s that a graph lasts at least: then its own launch, some 10 us, is no more than 1% of it
TURNS, PORTION = 20, 0.03  # of two processes, s of samples in each
ON_CUDA = [
    ("matmul", "cuda", "eager", "float32-1024x1024x1024"),
    ("quantize_int8_rows", "cuda", "native", "float32-512x4096"),
]


def set_up(kernel, device, implementation, case):
    """Return the benchmark of a series, with inputs made and its output checked."""
    bench = SUITE.benchmark(kernel, device)()
    bench.setup(implementation, case)
    return bench


def our_time(bench, seconds=SECONDS):
    """Return a function that times calls by the harness: its warm-up and its batch once, its samples at every call."""
    timer = bench.new_timer()
    per_call, batch = calibrate(bench.call, timer)
    count = max(3, math.ceil(seconds / (per_call * batch)))
    return lambda: trimmed_mean(timer.samples(bench.call, batch, count))


def ratios(ours, theirs, is_enough):
    """Yield how long theirs reads beside ours, the median over passes, of each try up to one that is enough."""
    for _ in range(TRIES):
        ratio = statistics.median([theirs() / ours() for _ in range(PASSES)])
        yield ratio
        if is_enough(ratio):
            return


def graph_time(series, seconds):
    """Return a function that times replays of a CUDA graph of many calls between two events.

    No launch of ours is in it. The calls are captured on a stream of their own, and bound there: a native call uses the
    stream that was current when it was bound.
    """
    stream = torch.cuda.Stream()
    count = min(256, max(1, math.ceil(GRAPH / seconds)))
    replays = min(20, max(3, math.ceil(SECONDS / (seconds * count))))
    with torch.cuda.stream(stream):
        bench = set_up(*series)  # warms up, too: what a first call allocates must not be captured
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(count):
            bench.call()

    def run(_held=bench):  # the graph replays into its memory
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(stream):
            graph.replay()  # keeps the device busy while the next ones are launched
            first.record()
            for _ in range(replays):
                graph.replay()
            last.record()
        stream.synchronize()
        return first.elapsed_time(last) * 1e-3 / (count * replays)

    return run


@pytest.mark.cuda
@pytest.mark.parametrize("series", ON_CUDA, ids=lambda series: series[0])
def test_events_agree_with_a_graph(series):
    ours = our_time(set_up(*series))
    theirs = graph_time(series, ours())
    tried = list(ratios(ours, theirs, lambda ratio: abs(ratio - 1) <= AGREE))
    assert abs(tried[-1] - 1) <= AGREE, tried


@pytest.mark.cuda
@pytest.mark.parametrize("series", ON_CUDA, ids=lambda series: series[0])
def test_cold_call_of_do_bench_is_no_shorter(series):
    """do_bench overwrites L2 before every call."""
    testing = pytest.importorskip("triton.testing", reason="do_bench is Triton's")
    bench = set_up(*series)

    def theirs():
        times = testing.do_bench(bench.call, warmup=100 * SECONDS, rep=1000 * SECONDS, return_mode="all")  # ms
        return trimmed_mean(times) * 1e-3

    tried = list(ratios(our_time(bench), theirs, lambda ratio: ratio >= 1 - AGREE))
    assert tried[-1] >= 1 - AGREE, tried


def serve(tasks):
    """Set series up one after the other, as a round's process does, and time the last one whenever asked."""
    state, bench, sample = ProcessState(), None, None
    with contextlib.suppress(EOFError):
        while True:
            series = tasks.recv()
            if series is not None:
                if bench is not None:
                    bench = sample = None
                    state.put_back()
                bench = set_up(*series)
                sample = our_time(bench, PORTION)
            tasks.send(sample())


@contextlib.contextmanager
def process():
    """Yield a function that has a fresh process set a series up, or time it again, and returns s per call."""
    context = multiprocessing.get_context("forkserver")  # a fork of this one could not use its GPU
    context.set_forkserver_preload(["torch"])
    tasks, theirs = context.Pipe()
    serving = context.Process(target=serve, args=(theirs,), daemon=True)
    serving.start()
    theirs.close()

    def ask(series=None):
        tasks.send(series)
        return tasks.recv()

    try:
        yield ask
    finally:
        tasks.close()
        serving.join()


def longer_when_shared(every):
    """Return how much longer each series reads in a process that measured those before it: a log for each pass."""
    longer = {series: [] for series in every}
    for _ in range(PASSES):  # fresh processes differ by the memory that they got
        with process() as shared:
            for series in every:
                with process() as isolated:
                    shared(series)
                    isolated(series)
                    turns = [(shared(), isolated()) for _ in range(TURNS)]
                longer[series].append(statistics.median(math.log(here / alone) for here, alone in turns))
    return longer


@pytest.mark.cuda
def test_series_that_share_a_process_read_as_in_their_own():
    """The mean over passes of each series, shared over isolated, is 1 within its interval or AGREE. -rP shows it."""
    problems = SUITE.problems("cuda")
    every = [(problem.kernel, "cuda", "native", case) for problem in problems for case in problem.core["cuda"]]
    apart = []
    for (kernel, *_, case), logs in longer_when_shared(every).items():
        longer, half = statistics.fmean(logs), t_975(PASSES - 1) * statistics.stdev(logs) / math.sqrt(PASSES)
        print(f"{kernel}, {case}: {longer:+.2%} within {half:.2%}, by pass", *(f"{log:+.2%}" for log in logs))
        if abs(longer) > max(AGREE, half):
            apart.append((kernel, case))
    assert not apart


@pytest.fixture
def one_thread():
    """PyTorch with one thread, as measuring processes have it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_host_timer_agrees_with_pytorchs(one_thread, monkeypatch):
    monkeypatch.delenv("ASV_ENV_DIR", raising=False)
    bench = set_up("matmul", "cpu", "eager", "float32-256x256x256")
    timing = pytest.importorskip("torch.utils.benchmark")
    timer = timing.Timer(stmt="call()", globals={"call": bench.call}, num_threads=1)
    theirs = partial(timer.blocked_autorange, min_run_time=SECONDS)
    tried = list(ratios(our_time(bench), lambda: trimmed_mean(theirs().times), lambda ratio: 1 / BUSY < ratio < BUSY))
    assert 1 / BUSY < tried[-1] < BUSY, tried
