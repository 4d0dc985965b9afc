"""Raw traces: every timer and state, from the first call on, in order, nothing smoothed."""

import io
import json
from types import SimpleNamespace

import pytest

from kernel_velocity.errors import ResultsError
from kernel_velocity.harness import timing
from kernel_velocity.harness.suite import Series
from kernel_velocity.harness.timers import Timer
from lab import record as command
from lab import traces
from lab.traces import record, take
from tests.harness import pretend_cuda
from tests.package_graph import ROOT
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


def test_trace_keeps_the_order_from_the_first_call():
    timer, made = ScriptedTimer(), []
    samples = take(timer, lambda: made.append(1), 3, 0.01)
    assert samples == [float(i + 1) for i in range(len(samples))]
    assert timer.requests[0] == (3, 1)
    assert len(made) == 3 * len(samples)


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


@pytest.fixture
def short(monkeypatch):
    torch = pytest.importorskip("torch", reason="traces are of torch tensors")
    monkeypatch.delenv("ASV_ENV_DIR", raising=False)
    for name in ("WARM_UP", "WARM_UP_MOST"):
        monkeypatch.setattr(f"kernel_velocity.harness.sampling.{name}", 0.001)
    return torch


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


def test_recorded_files_are_read_as_they_were_recorded(short, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    out = io.StringIO()
    assert command.record(tmp_path, "cpu", r"matmul\..*eager.*256x", 0.02, out) == 0
    files = traces.files([tmp_path])
    assert out.getvalue().count("samples of batch") == len(files) >= 2
    for path, trace in zip(files, traces.read(files), strict=True):
        document = json.loads(path.read_text())
        assert (trace.samples, trace.batch) == (document["seconds"], document["batch"])
        assert 1e-6 < trace.truth < 1
    assert command.record(tmp_path, "cpu", r"matmul\..*eager.*256x", 0.02, io.StringIO()) == 0
    assert traces.files([tmp_path]) == files


@pytest.mark.parametrize("samples", [[9e-3] * 20 + [1e-3] * 80, [9e-3] * 6000 + [1e-3] * 10_000])
def test_truth_of_a_recorded_trace_is_its_settled_part(tmp_path, samples):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"format": 1, "unit": "s", "batch": 2, "seconds": samples}))
    (result,) = traces.read([path])
    assert (result.truth, result.batch, len(result.samples)) == (pytest.approx(1e-3), 2, len(samples))
    path.write_text(path.read_text()[:-20])
    with pytest.raises(ResultsError, match="cut off: record it again"):
        list(traces.read([path]))
