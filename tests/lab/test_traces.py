"""Raw traces: every timer and state, from the first call on, in order, nothing smoothed."""

import io
import json

import pytest

from lab import record as command
from lab import traces
from lab.series import of_suite
from lab.traces import record
from tests.engine import pretend_cuda
from tests.package_graph import ROOT
from tests.small_suite import SUITE


@pytest.fixture
def short(monkeypatch):
    torch = pytest.importorskip("torch", reason="traces are of torch tensors")
    monkeypatch.delenv("ASV_ENV_DIR", raising=False)
    for name in ("WARM_UP", "WARM_UP_MOST"):
        monkeypatch.setattr(f"kernel_velocity.engine.sampling.{name}", 0.001)
    return torch


def test_gpu_is_traced_by_two_timers(short, monkeypatch):
    waits = pretend_cuda.plant(monkeypatch, short)
    series = of_suite(SUITE, "add_mul_exp", "cuda", "eager", "float32-1M")
    recorded = dict(record(series, 0.01, lambda name: None))
    kinds = {(trace["timer"], trace["state"]) for trace in recorded.values()}
    assert kinds == {(timer, state) for timer in ("CudaEventTimer", "SyncTimer") for state in ("hot", "cold")}
    assert {trace["device"] for trace in recorded.values()} == {"cuda"}
    assert {trace["batch"] for trace in recorded.values() if trace["state"] == "cold"} == {1}  # others would be warm
    assert list(record(series, 0.01, recorded.get)) == []  # what is there is not recorded again
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
