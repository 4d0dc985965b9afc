"""`time_cold` from an asv class to its line of telemetry, and what is watched of a device beside it."""

import dataclasses
import json
import math
import shutil
import sys
import warnings
from types import SimpleNamespace

import pytest

from benchmarks import add_mul_exp, matmul
from kernel_velocity.harness import benchmark, cache, gate, timing
from kernel_velocity.harness.cuda_timers import CaptureError, TorchEvents
from kernel_velocity.harness.sampling import measure
from kernel_velocity.harness.stopping import FixedTime
from kernel_velocity.harness.telemetry import decode
from tests.harness import pretend_cuda, pretend_nvml

torch = pytest.importorskip("torch", reason="benchmarks measure torch tensors")

COMMIT = "c" * 40
CASE = "float32-500k"
GB = 1e9


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Set what asv sets for a measuring process; quick timing, a small cache, a known memory."""
    for name, value in {
        "ASV_CONF_DIR": str(tmp_path),
        "ASV_ENV_NAME": "env",
        "ASV_COMMIT": COMMIT,
        "KV_T_MIN": ".002",
        "KV_T_SOFT": ".004",
        "KV_T_MAX": ".004",
        "KV_PATIENCE": "0",  # a busy machine measures as long
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ASV_ENV_DIR", raising=False)
    monkeypatch.setattr(cache, "cache_size", lambda device: 1 << 20)
    monkeypatch.setattr(cache, "memory_peak", lambda device, timer: 100 * GB)
    return tmp_path


def rounds(root):
    path = root / ".asv" / "spool" / "env" / f"{COMMIT}.jsonl"
    return [decode(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def flushes(monkeypatch):
    """Count the flushes."""
    did = []
    monkeypatch.setattr(cache, "flush", lambda device: lambda: did.append(device))
    return did


def test_a_cold_round_flushes_before_every_sample(root, flushes):
    bench = add_mul_exp.Cpu()
    bench.setup("eager", CASE)
    result = bench.measure("add_mul_exp.Cpu.time_cold", "eager", CASE)
    (record,) = rounds(root)
    assert result == {"samples": [record.estimate], "number": 1}
    assert (record.benchmark, record.batch) == ("add_mul_exp.Cpu.time_cold", 1)
    assert len(flushes) >= record.n


def test_a_hot_round_flushes_nothing(root, flushes):
    bench = add_mul_exp.Cpu()
    bench.setup("eager", CASE)
    bench.measure("add_mul_exp.Cpu.time_hot", "eager", CASE)
    assert flushes == []


@pytest.mark.usefixtures("flushes")
def test_what_is_cold_comes_from_memory_and_what_is_hot_may_not(root, monkeypatch):
    sets = []
    on_cpu = gate.on_cpu
    monkeypatch.setattr(
        gate, "on_cpu", lambda size, folder, environ, _: sets.append(size) or on_cpu(size, folder, environ)
    )
    bench = add_mul_exp.Cpu()
    bench.setup("eager", CASE)
    for method in ("hot", "cold"):
        bench.measure(f"add_mul_exp.Cpu.time_{method}", "eager", CASE)
    assert sets == [add_mul_exp.Cpu.bytes[CASE], math.inf]


@pytest.mark.usefixtures("flushes")
@pytest.mark.parametrize(
    ("method", "factor", "flags"), [("cold", 0.5, {"warm"}), ("cold", 2, set()), ("hot", 0.5, set())]
)
def test_a_cold_call_faster_than_memory_is_flagged(root, monkeypatch, method, factor, flags):
    bench = add_mul_exp.Cpu()
    bench.setup("eager", CASE)
    needed = add_mul_exp.Cpu.bytes[CASE] / (100 * GB)

    def timed(call, timer, rule, look, gate):
        found = measure(call, timer, FixedTime(t_max=0.002))
        return dataclasses.replace(found, estimate=factor * needed, flags=())

    monkeypatch.setattr(benchmark, "measure", timed)
    bench.measure(f"add_mul_exp.Cpu.time_{method}", "eager", CASE)
    (record,) = rounds(root)
    assert set(record.flags) - {"contended"} == flags


def of_asv(method, instance):
    pytest.importorskip("asv_runner", reason="the benchmark type is asv's")
    from kernel_velocity.harness.asv_type import RoundBenchmark

    function = getattr(instance, method)
    return RoundBenchmark(f"matmul.Cpu.{method}", function, [function, instance, matmul])


def test_cold_has_the_same_axes_and_fewer_cases(root):
    hot, cold = (of_asv(method, matmul.Cpu()) for method in ("time_hot", "time_cold"))
    assert cold.param_names == hot.param_names
    assert cold.params[0] == hot.params[0]
    assert set(cold.params[1]) < set(hot.params[1])
    assert {repr(case) for case in cold.flops} == {repr(case) for case in cold.bytes} == set(cold.params[1])
    assert (cold.rounds, cold.version, cold.unit) == (hot.rounds, hot.version, hot.unit)
    assert {repr(case) for case in hot.flops} == set(hot.params[1])


def test_a_problem_that_says_nothing_of_cold_caches_has_its_core_timed():
    class Plain(matmul.Matmul):
        cold = {}  # noqa: RUF012 - as a definition from elsewhere writes it

    class Bare(Plain):
        core = {}  # noqa: RUF012

    for kind, wanted in ((Plain, matmul.Matmul.core["cpu"]), (Bare, matmul.Matmul.cases["cpu"])):
        suite = type("Cpu", (benchmark._KernelBenchmark,), {"problem": kind(), "device": "cpu"})
        assert suite.cold_params[1] == list(wanted)


@pytest.mark.parametrize(("method", "skipped"), [("time_cold", True), ("time_hot", False)])
def test_where_the_cache_is_not_known_cold_does_not_apply(root, monkeypatch, capsys, method, skipped):
    monkeypatch.setattr(cache, "cache_size", lambda device: None)
    bench = of_asv(method, matmul.Cpu())
    bench.set_param_idx(0)
    assert bench.do_setup() is skipped
    assert ("cannot be made cold" in capsys.readouterr().out) is skipped


@pytest.fixture
def a_gpu(root, monkeypatch):
    """A pretended CUDA device with a pretended driver."""
    pytest.importorskip("torch.profiler", reason="a whole PyTorch is wanted, not a part that stands in for it")
    pretend_nvml.reset()
    pretend_cuda.plant(monkeypatch, torch)
    monkeypatch.setitem(sys.modules, "pynvml", pretend_nvml)
    yield pretend_nvml
    assert pretend_nvml.opened == []
    pretend_nvml.reset()


def cuda_round(root, method="time_hot"):
    bench = add_mul_exp.Cuda()
    bench.setup("eager", CASE)
    bench.measure(f"add_mul_exp.Cuda.{method}", "eager", CASE)
    return rounds(root)[-1]


def test_what_the_driver_says_is_on_the_line_of_a_round(root, a_gpu):
    a_gpu.sm_clocks[:] = [1980, 1755]
    a_gpu.reasons[:] = [0x4]
    record = cuda_round(root)
    assert (record.gpu.sm_before, record.gpu.sm_after) == (1.98e9, 1.755e9)
    assert (record.gpu.power, record.gpu.temperature, record.gpu.reasons) == (350, 41, 4)
    assert {"clock_drift", "throttled"} <= set(record.flags)


def test_without_a_driver_a_round_is_a_round(root, a_gpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    record = cuda_round(root)
    assert (record.core_gauge, record.memory_gauge, record.lost) == (None, None, None)  # a gate is the CPU's
    assert record.gpu is None
    assert not {"clock_drift", "throttled"} & set(record.flags)


def test_what_a_caller_waits_beyond_the_device_is_a_figure_of_hot_rounds(root, a_gpu, monkeypatch):
    monkeypatch.setattr(timing, "wait", lambda call, device, estimate: 0.0)
    hot, cold = cuda_round(root), cuda_round(root, "time_cold")
    assert hot.waiting == pytest.approx(-hot.estimate, rel=0.06)  # two digits are kept
    assert cold.waiting is None
    monkeypatch.setenv("KV_TIMER", "sync")
    assert cuda_round(root).waiting is None  # its estimate is that time already


def test_waiting_is_a_call_and_a_wait(monkeypatch):
    class Source(pretend_cuda.HostEvents):
        waits = 0

        def synchronize(self):
            Source.waits += 1

    monkeypatch.setattr(timing, "TorchEvents", Source)
    called = []
    assert timing.wait(lambda: called.append(Source.waits), "cuda", 1e-4) > 0
    assert len(called) == timing.SYNCHRONISED
    assert Source.waits == 2 * len(called)  # before each sample, and after each call


def test_a_call_that_takes_long_is_not_made_again_for_its_launch(monkeypatch):
    """An hour of a slow kernel would go into a figure of less than 1%."""
    monkeypatch.setattr(timing, "TorchEvents", pretend_cuda.HostEvents)
    called = []
    assert timing.wait(lambda: called.append(1), "cuda", 0.3) is None
    assert called == []


def test_samples_of_the_gpu_go_to_a_file_of_their_own(root, a_gpu, monkeypatch, tmp_path):
    (tmp_path / "path").mkdir()
    shutil.copy(pretend_nvml.__file__, tmp_path / "path" / "pynvml.py")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    monkeypatch.setenv("KV_NVML_SAMPLE", ".001")
    record = cuda_round(root)
    (samples,) = (root / ".asv" / "clocks" / COMMIT).glob("add_mul_exp.Cuda.time_hot-eager-float32-500k-*.jsonl")
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    assert lines
    assert set(lines[0]) == {"t", "sm_clock", "memory_clock", "power", "temperature", "reasons"}
    assert record.gpu is not None


def test_graphs_are_captured_from_a_stream_of_their_own(root, a_gpu, monkeypatch):
    streams = []
    monkeypatch.setattr(torch.cuda, "Stream", lambda: "stream")
    monkeypatch.setattr(torch.cuda, "set_stream", streams.append)
    timing.prepare("cuda", {})
    timing.prepare("cpu", {"KV_TIMER": "graph"})
    assert streams == []
    timing.prepare("cuda", {"KV_TIMER": "graph"})
    assert streams == ["stream"]
    monkeypatch.setenv("KV_TIMER", "graph")
    bound = []
    monkeypatch.setattr(benchmark, "bind", lambda *_: bound.append(len(streams)))
    with pytest.raises(AttributeError):  # nothing is bound: what matters is what was done before
        add_mul_exp.Cuda().setup("eager", CASE)
    assert bound == [2]


def test_a_refused_capture_is_an_error_with_its_words(monkeypatch):
    class Capture:
        def __init__(self, graph, stream):
            pass

        def __enter__(self):
            pass

        def __exit__(self, *_):
            warnings.warn("The CUDA Graph is empty.", UserWarning, stacklevel=1)

    captured = []
    cuda = SimpleNamespace(
        CUDAGraph=lambda: SimpleNamespace(replay="replay"), graph=Capture, current_stream=lambda: "stream"
    )
    events = TorchEvents("cuda")
    events._cuda = cuda
    with pytest.raises(CaptureError, match="The CUDA Graph is empty"):
        events.capture(lambda: captured.append(1), 3)
    assert len(captured) == 3
    Capture.__exit__ = lambda *_: None
    assert events.capture(lambda: captured.append(1), 3) == "replay"

    def refuse():
        raise RuntimeError("operation not permitted\nwhen stream is capturing")

    with pytest.raises(CaptureError, match="operation not permitted when stream is capturing"):
        events.capture(refuse, 1)
