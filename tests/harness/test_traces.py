"""Raw traces: every timer and state, from the first call on, in order, nothing smoothed."""

import json
import sys
from types import SimpleNamespace

import pytest

from kernel_velocity.harness import timing, traces
from kernel_velocity.harness.suite import Series
from kernel_velocity.harness.timers import Timer
from kernel_velocity.harness.traces import record, take
from tests.harness import pretend_cuda
from tests.suite import SUITE


class ScriptedTimer(Timer):
    """Each sample is the number of the call that ended it. Notes how it was asked."""

    batch_limit = 64

    def __init__(self, per_call=0.0):
        super().__init__()
        self.requests = []
        self.calls = 0
        self.per_call = per_call

    def samples(self, call, batch, n):
        self.requests.append((batch, n))
        samples = []
        for _ in range(n):
            for _ in range(batch):
                call()
            self.calls += 1
            samples.append(float(self.calls))
        return samples

    def tick(self):
        return 1e-8

    def overhead(self):
        return 1e-7


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves by a tenth of a second at each look."""
    now = iter(x / 10 for x in range(10**9))
    monkeypatch.setattr(traces, "perf_counter", lambda: next(now))


def test_trace_keeps_the_order_from_the_first_call():
    timer, made = ScriptedTimer(), []
    samples = take(timer, lambda: made.append(1), 3, 0.01)
    assert samples == [float(i + 1) for i in range(len(samples))]
    assert timer.requests[0] == (3, 1)
    assert len(made) == 3 * len(samples)


def test_trace_ends_at_the_cap(monkeypatch):
    monkeypatch.setattr(traces, "CAP", 1000)
    timer = ScriptedTimer()
    assert len(take(timer, lambda: None, 1, 3600.0)) == 1000
    assert max(n for _, n in timer.requests) > 100  # not a look at the clock per sample


@pytest.mark.parametrize(
    ("seconds", "least", "most"), [(0.0, traces.FEWEST, traces.FEWEST), (2.0, traces.FEWEST + 1, 10)]
)
def test_slow_call_is_sampled_one_by_one(clock, seconds, least, most):
    timer = ScriptedTimer()
    assert least <= len(take(timer, lambda: None, 1, seconds)) <= most
    assert set(timer.requests) == {(1, 1)}


SERIES = SUITE.series("matmul", "cpu", "eager", "float32-256x256x256")


@pytest.fixture
def scripted(monkeypatch):
    """Series without kernels: a call that does nothing, a scripted timer per set-up. A cache of unknown size."""
    timers = []

    def new_timer(flush=None):
        timers.append(ScriptedTimer())
        timers[-1].flush = flush
        return timers[-1]

    monkeypatch.setattr(Series, "set_up", lambda self: SimpleNamespace(call=lambda: None, new_timer=new_timer))
    monkeypatch.setattr(traces, "cache_size", lambda device: None)
    monkeypatch.setattr(traces, "warm_up", lambda call, timer: (1e-6, 0.05))
    return timers


def test_single_then_batched(scripted):
    traces = dict(record(SERIES, 0.001, lambda name: None))
    stem = "matmul-cpu-eager-float32-256x256x256-HostTimer-hot"
    assert list(traces) == [f"{stem}-single.json", f"{stem}-batched.json"]
    single, batched = traces.values()
    assert single["batch"] == 1
    assert single["chosen"] == batched["batch"] == 2  # max(20 x .1 us, 200 x .01 us) / 1 us
    assert single["seconds"][0] == batched["seconds"][0] == 1.0  # each from the first call of a fresh set-up
    assert len(scripted) == 2
    assert single["unit"] == "s"
    assert single["tick"] == 1e-8


def test_sync_timer_traces_single_calls_only(scripted, monkeypatch):
    torch = SimpleNamespace(cuda=SimpleNamespace(synchronize=lambda: None))
    monkeypatch.setitem(sys.modules, "torch", torch)
    series = SUITE.series("matmul", "cuda", "eager", "float32-1024x1024x1024")
    traces = [
        (trace["timer"], trace["batch"], trace["chosen"]) for _, trace in record(series, 0.001, lambda name: None)
    ]
    assert traces == [("CudaEventTimer", 1, 2), ("CudaEventTimer", 2, 2), ("SyncTimer", 1, 1)]


def test_no_batched_trace_of_single_calls(scripted, monkeypatch):
    monkeypatch.setattr(traces, "warm_up", lambda call, timer: (1.0, 0.05))
    assert len(list(record(SERIES, 0.001, lambda name: None))) == 1


def test_existing_traces_are_not_repeated(scripted):
    (single, first), (batched, _) = record(SERIES, 0.001, lambda name: None)
    stored = {single: {**first, "chosen": 7}}
    ((name, second),) = record(SERIES, 0.001, stored.get)
    assert name == batched
    assert second["batch"] == 7
    assert list(record(SERIES, 0.001, {**stored, batched: second}.get)) == []


def test_cold_traces_are_single_calls(scripted, monkeypatch):
    flushes = []
    monkeypatch.setattr(timing, "flush", lambda device: flushes.append(device) or "flush")
    assert {trace["state"] for _, trace in record(SERIES, 0.001, lambda name: None)} == {"hot"}
    scripted.clear()
    monkeypatch.setattr(traces, "cache_size", lambda device: 1 << 25)
    recorded = dict(record(SERIES, 0.001, lambda name: None))
    states = [(trace["state"], trace["batch"]) for trace in recorded.values()]
    assert states == [("hot", 1), ("hot", 2), ("cold", 1)]
    assert [timer.flush for timer in scripted] == [None, None, "flush"]
    assert flushes == ["cpu"]
    far = SUITE.series("matmul", "cpu", "eager", "float32-512x512x512")  # beyond the caches: cold anyway
    assert {trace["state"] for _, trace in record(far, 0.001, lambda name: None)} == {"hot"}


def test_flags_are_of_the_samples(scripted, monkeypatch):
    monkeypatch.setattr(ScriptedTimer, "tick", lambda self: self.flags.add("underfed") or 1e-8)
    assert all(trace["flags"] == [] for _, trace in record(SERIES, 0.001, lambda name: None))
    flagging = lambda self, call, batch, n: self.flags.add("underfed") or [1.0] * n  # noqa: E731
    monkeypatch.setattr(ScriptedTimer, "samples", flagging)
    assert all(trace["flags"] == ["underfed"] for _, trace in record(SERIES, 0.001, lambda name: None))


@pytest.fixture
def short(monkeypatch):
    torch = pytest.importorskip("torch", reason="traces are of torch tensors")
    monkeypatch.delenv("ASV_ENV_DIR", raising=False)
    for name in ("WARM_UP", "WARM_UP_MOST"):
        monkeypatch.setattr(f"kernel_velocity.harness.sampling.{name}", 0.001)
    return torch


def test_real_call_hot_and_cold(short):
    result = [trace for _, trace in record(SERIES, 0.02, lambda name: None)]
    assert [trace["state"] for trace in result if trace["batch"] == 1] == ["hot", "cold"]
    for trace in result:
        assert trace == json.loads(json.dumps(trace))
        assert all(1e-6 < value < 1 for value in trace["seconds"])
        assert 0 < trace["tick"] < 1e-4
        assert trace["kernel"] == "matmul"


def test_gpu_is_traced_by_two_timers(short, monkeypatch):
    waits = pretend_cuda.plant(monkeypatch, short)
    series = SUITE.series("add_mul_exp", "cuda", "eager", "float32-1M")
    recorded = dict(record(series, 0.01, lambda name: None))
    kinds = {(trace["timer"], trace["state"]) for trace in recorded.values()}
    assert kinds == {(timer, state) for timer in ("CudaEventTimer", "SyncTimer") for state in ("hot", "cold")}
    assert {trace["device"] for trace in recorded.values()} == {"cuda"}
    before = len(waits)
    made = []
    traces._synchronised(None).samples(lambda: made.append(len(waits)), 1, 5)
    assert made == [before + 1 + 2 * i for i in range(5)]  # a wait before every sample, and after every call
