"""Our timers against independent ones: what is compared, what is not, and what a real device would be asked."""

import contextlib
import json
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.harness import independent
from kernel_velocity.harness.independent import (
    DISAGREE,
    METHODS,
    Deviation,
    Method,
    Subject,
    Timings,
    compare,
    deviation,
    kernels_time,
    row,
)
from kernel_velocity.harness.suite import Series
from tests.suite import SUITE

SERIES = SUITE.series("matmul", "cuda", "eager", "float32-1024x1024x1024")  # 12 MiB
LARGE = SUITE.series("add_mul_exp", "cuda", "native", "float32-50M")  # 600 MB
TIMES = st.lists(st.floats(1e-6, 1.0), min_size=3, max_size=3)


@given(TIMES, TIMES, st.floats(1e-3, 1e3))
def test_deviation_does_not_depend_on_the_unit(ours, theirs, unit):
    first, other = deviation(ours, theirs), deviation([unit * x for x in ours], [unit * x for x in theirs])
    assert first.value == pytest.approx(other.value, rel=1e-6, abs=1e-6)
    assert first.noise == pytest.approx(other.noise, rel=1e-6, abs=1e-6)


def test_machine_drift_is_no_disagreement():
    assert deviation([3.0, 1.0, 2.0], [3.03, 1.01, 2.3]).value == pytest.approx(0.01)  # the medians are 15% apart


def test_noise_is_the_larger_of_two():
    quiet, noisy = [1.0, 1.0, 1.0], [1.0, 1.1, 0.9]
    assert deviation(quiet, noisy).noise == deviation(noisy, quiet).noise == pytest.approx(0.2)


def test_disagreement_threshold():
    assert Deviation(DISAGREE, 0.0).agrees is True
    assert Deviation(-DISAGREE - 1e-9, 0.0).agrees is False
    assert Deviation(0.05, 0.021).agrees is None
    assert Deviation(0.05, 0.019).agrees is False
    assert Deviation(0.05, 0.021).in_words() == "differs by +5.0%, but passes differ by 2.1%"
    assert Deviation(-0.05, 0.0).in_words() == "differs by -5.0%"


def deviating(**deviations):
    return Timings(
        harness=[1.0, 3.0, 2.0],
        others=dict.fromkeys(deviations, 2.0),
        deviations={name: Deviation(*value) for name, value in deviations.items()},
    )


@pytest.mark.parametrize(
    ("deviations", "worst", "agrees", "why"),
    [
        ({}, None, None, ""),
        ({"graph": (0.01, 0.0), "do_bench": (-0.02, 0.0)}, -0.02, True, ""),
        ({"graph": (0.01, 0.0), "do_bench": (-0.2, 0.0)}, -0.2, False, "do_bench differs by -20.0%"),
        ({"graph": (0.04, 0.5)}, 0.04, None, "graph differs by +4.0%, but passes differ by 50.0%"),
        ({"graph": (0.04, 0.5), "do_bench": (0.2, 0.0)}, 0.2, False, None),
    ],
)
def test_row_is_as_good_as_its_worst_method(deviations, worst, agrees, why):
    made = row(SERIES, deviating(**deviations))
    assert (made["worst"], made["agrees"], made["harness"]) == (worst, agrees, 2.0)
    assert why is None or made["why"] == why
    assert made["bytes"] == 3 * 4 * 1024**2
    assert list(made["others"]) == ["graph", "do_bench", "profiler"]
    assert made["others"]["profiler"] is None


@pytest.fixture
def harness(monkeypatch):
    """Return a log to which a harness that reads 1 s adds each of its runs, and a function that compares methods."""
    log = []
    monkeypatch.setattr(independent, "harness_method", lambda call, timer: lambda: log.append("harness") or 1.0)
    subject = Subject(SERIES, SimpleNamespace(call=None, new_timer=lambda: None), 1)

    def timings(*methods):
        record = Timings()
        compare(subject, methods, record)
        return record

    return log, timings


def test_failing_method_is_left_out(harness):
    def absent(subject, seconds):
        raise NotImplementedError("not here")

    def broken(subject, seconds):
        raise RuntimeError("capture failed")

    def fails_later(subject, seconds):
        answers = iter([2.0, 2.0])
        return lambda: next(answers, None) or events()

    def events():
        raise ValueError("lost\nits events")

    methods = {"a": absent, "b": broken, "c": fails_later, "d": lambda subject, seconds: lambda: 1.0}
    record = harness[1](*(Method(name, prepare) for name, prepare in methods.items()))
    assert record.reasons == {
        "a": "not here",
        "b": "RuntimeError: capture failed",
        "c": "ValueError: lost its events",
    }
    assert record.others == {"d": 1.0}


# A simulated GPU ----------------------------------------------------------------------------------------------------


class Gpu:
    """A stream's clock: calls take `cost` of device time, a captured call takes it when it is replayed."""

    def __init__(self, cost):
        self.cost, self.now = cost, 0.0
        self.capturing = None
        self.current = ["default"]
        self.replays = 0
        gpu = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                assert gpu.current[-1] != "default"
                self.at = gpu.now

            def elapsed_time(self, later):
                return (later.at - self.at) * 1e3

        class CUDAGraph:
            def replay(self):
                assert gpu.current[-1] != "default"
                gpu.replays += 1
                gpu.now += self.captured

        self.Event, self.CUDAGraph = Event, CUDAGraph

    def Stream(self):
        return SimpleNamespace(synchronize=lambda: None)

    @contextlib.contextmanager
    def stream(self, stream):
        self.current.append(stream)
        yield
        self.current.pop()

    @contextlib.contextmanager
    def graph(self, graph, stream):
        self.capturing = 0.0
        with self.stream(stream):
            yield
        graph.captured, self.capturing = self.capturing, None

    def synchronize(self):
        pass

    def call(self):
        if self.capturing is None:
            self.now += self.cost
        else:
            self.capturing += self.cost


@pytest.fixture
def gpu(monkeypatch):
    device = Gpu(7e-6)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=device))
    return device


@pytest.fixture
def subject(gpu, monkeypatch):
    bound = []

    def set_up(self):
        bound.append(gpu.current[-1])
        return SimpleNamespace(call=gpu.call)

    monkeypatch.setattr(Series, "set_up", set_up)
    made = Subject(SERIES, SimpleNamespace(call=gpu.call), 1 << 20)
    return made, bound


def test_graph_is_captured_on_its_own_stream(gpu, subject):
    made, bound = subject
    run = independent._graph(made, 7e-6)
    assert len(bound) == 1
    assert bound[0] != "default"
    assert [run(), run()] == pytest.approx([7e-6] * 2)
    assert 6 <= gpu.replays <= 2 * (1 + independent.REPLAYS)


def event(kind, microseconds=0.0, *, annotation=False):
    return SimpleNamespace(
        device_type=SimpleNamespace(name=kind),
        time_range=SimpleNamespace(elapsed_us=lambda: microseconds),
        is_user_annotation=annotation,
    )


def test_profiler_adds_kernels_per_call():
    events = [event("CPU", 100.0), *[event("CUDA", 2.0), event("CUDA", 3.0)] * 4]
    assert kernels_time(events, 4) == pytest.approx(5e-6)
    assert kernels_time([*events, event("CUDA", 99.0, annotation=True)], 4) == pytest.approx(5e-6)


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([event("CUDA", 1.0)] * 7, "lost events: 7 kernels of 4 equal calls"),
        ([event("CPU", 1.0)] * 8, "saw no kernels"),
    ],
)
def test_profiler_without_all_events_is_refused(events, why):
    with pytest.raises(NotImplementedError, match=why):
        kernels_time(events, 4)


def test_profiler_waits_for_the_device(gpu, subject, monkeypatch):
    log = []

    @contextlib.contextmanager
    def profile(activities):
        log.append(tuple(activities))
        began = gpu.now
        yield SimpleNamespace(events=lambda: [event("CUDA", 7.0)] * round((gpu.now - began) / 7e-6))
        log.append("end")

    kinds = SimpleNamespace(CPU="cpu", CUDA="cuda")
    monkeypatch.setitem(sys.modules, "torch.profiler", SimpleNamespace(profile=profile, ProfilerActivity=kinds))
    monkeypatch.setattr(gpu, "synchronize", lambda: log.append("wait"))
    assert independent._profiler(subject[0], 7e-6)() == pytest.approx(7e-6)
    assert log == [("cpu", "cuda"), "wait", "end"]


def test_do_bench_returns_all_times(gpu, subject, monkeypatch):
    options = {}

    def do_bench(call, warmup, rep, return_mode):
        options.update(warmup=warmup, rep=rep, return_mode=return_mode)
        call()
        return [0.5] * 19 + [900.0]  # ms

    monkeypatch.setitem(sys.modules, "triton.testing", SimpleNamespace(do_bench=do_bench))
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace())
    assert independent._do_bench(subject[0], 1e-3)() == pytest.approx(0.5e-3)
    assert options == {"warmup": 5.0, "rep": 50.0, "return_mode": "all"}


@pytest.mark.parametrize("method", ["_do_bench", "_blocked_autorange", "_profiler"])
def test_missing_tool_is_absent(gpu, subject, monkeypatch, method):
    for name in ("triton", "triton.testing", "torch.utils.benchmark", "torch.profiler"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(NotImplementedError):
        getattr(independent, method)(subject[0], 1e-3)


def test_do_bench_is_compared_beyond_the_cache():
    method = next(method for group in METHODS["cuda"] for method in group if method.name == "do_bench")
    cache = 50 << 20
    assert method.incomparable(Subject(LARGE, None, cache), 1e-3) == ""
    assert "no more than 4 times the cache" in method.incomparable(Subject(SERIES, None, cache), 1e-3)
    assert "not known" in method.incomparable(Subject(LARGE, None, None), 1e-3)


def test_profiler_is_compared_on_long_calls():
    method = METHODS["cuda"][-1][0]
    assert method.name == "profiler"
    assert "gaps" in method.incomparable(Subject(SERIES, None, 1), 99e-6)
    assert method.incomparable(Subject(SERIES, None, 1), 101e-6) == ""


# The whole, on a device of scripted methods -------------------------------------------------------------------------


@pytest.fixture
def scripted(monkeypatch):
    """Two groups of methods that always read the same. A harness that reads 2 s. Series that set up or do not."""
    slow = Method("slow", lambda subject, seconds: lambda: 2.5)
    late = Method("late", lambda subject, seconds: lambda: 2.0)
    other = Method("other", lambda subject, seconds: lambda: 9.0, lambda *_: "differs by nature")
    monkeypatch.setattr(independent, "METHODS", {"cuda": ((slow, other), (late,))})
    monkeypatch.setattr(independent, "harness_method", lambda call, timer: lambda: 2.0)
    monkeypatch.setattr(independent, "cache_size", lambda device: 1)
    made = []

    def set_up(self):
        made.append(self)
        if self.implementation == "native":
            raise NotImplementedError("built without CUDA")
        if self.implementation == "compile":
            raise ValueError("wrong result")
        return SimpleNamespace(call=None, new_timer=lambda: None)

    monkeypatch.setattr(Series, "set_up", set_up)
    return made


def test_document_has_a_row_per_series(scripted):
    series = list(SUITE.core_series("cuda", r"matmul\..*(eager|compile|native).*1024"))
    saved = []
    document = independent.measure(series, "cuda", lambda state: saved.append(json.dumps(state)))
    assert document == json.loads(saved[-1])
    eager, compiled, native = document["rows"]
    assert eager["others"] == {"slow": 2.5, "other": 9.0, "late": 2.0}
    assert (eager["harness"], eager["agrees"], eager["worst"]) == (2.0, False, 0.25)
    assert eager["why"] == "slow differs by +25.0%; other: differs by nature"
    assert compiled["why"] == "slow, other, late: ValueError: wrong result"
    assert native["why"] == "slow, other, late: built without CUDA"
    assert (native["harness"], native["agrees"]) == (None, None)
    assert document["missing"] == {}
    assert len(saved) == 2 * 3


# Real methods on the CPU --------------------------------------------------------------------------------------------


@pytest.fixture
def real(monkeypatch):
    pytest.importorskip("torch", reason="what is timed is PyTorch's")
    monkeypatch.delenv("ASV_ENV_DIR", raising=False)
    monkeypatch.delenv("KV_THREADS", raising=False)
    monkeypatch.setattr(independent, "SECONDS", 0.002)
    for name in ("WARM_UP", "WARM_UP_MOST"):
        monkeypatch.setattr(f"kernel_velocity.harness.sampling.{name}", 0.001)
    return SUITE.series("matmul", "cpu", "eager", "float32-256x256x256")


def test_cpu_methods_time_an_eager_call(real):
    document = independent.measure([real], "cpu", lambda state: None)
    (only,) = document["rows"]
    assert document["missing"] == {}
    for name, seconds in only["others"].items():
        assert 0.01 < seconds / only["harness"] < 100, (name, only)  # a busy machine moves it, a wrong unit more
