"""How a method is timed: by which timer, with warm or cold caches, from an asv class to its line of telemetry."""

import dataclasses
import os
import sys

import pytest

from benchmarks import add_mul_exp, matmul
from kernel_velocity.engine import timing
from kernel_velocity.engine.sampling import measure
from kernel_velocity.engine.stopping import RULES, FixedTime
from kernel_velocity.machine import limits
from kernel_velocity.suite import benchmark
from tests.engine import pretend_cuda, pretend_nvml
from tests.machine.planted_limits import plant_limits
from tests.suite.measuring import as_asv_runs, asv_environment, rounds

__all__ = ["asv_environment"]

torch = pytest.importorskip("torch", reason="benchmarks measure torch tensors")

MB = 1 << 20


def test_unknown_cache_cannot_be_flushed(monkeypatch):
    monkeypatch.setattr(timing, "cache_size", lambda device: None)
    for ask in (timing.flush_size, timing.flush):
        with pytest.raises(NotImplementedError, match="not known here, so it cannot be made cold"):
            ask("cpu")


def test_flush_writes_all_and_allocates_nothing(monkeypatch):
    monkeypatch.setattr(timing, "cache_size", lambda device: MB)
    made = []
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *args, **named: made.append(zeros(*args, **named)) or made[-1])
    overwrite = timing.flush("cpu")
    (buffer,) = made
    assert buffer.numel() * buffer.element_size() == timing.flush_size("cpu")
    where = buffer.data_ptr()
    for times in (1, 2, 3):
        overwrite()
        assert bool((buffer == times).all())
    assert len(made) == 1
    assert buffer.data_ptr() == where


CASE = "float32-500k"
GB = 1e9


@pytest.fixture
def root(asv_environment, monkeypatch):
    """Asv's folder of a process that measures on a machine of a small cache and a known memory."""
    monkeypatch.setattr(timing, "cache_size", lambda device: 1 << 20)
    monkeypatch.setattr(limits, "cache_size", lambda device: 1 << 20)
    plant_limits(monkeypatch, memory=100 * GB)
    return asv_environment


@pytest.fixture
def flushes(monkeypatch):
    """Count the flushes."""
    did = []
    monkeypatch.setattr(timing, "flush", lambda device: lambda: did.append(device))
    return did


def test_only_cold_rounds_flush(root, flushes):
    bench = add_mul_exp.Cpu()
    bench.setup("eager", CASE)
    bench.measure("add_mul_exp.Cpu.time_hot", "eager", CASE)
    assert flushes == []
    result = bench.measure("add_mul_exp.Cpu.time_cold", "eager", CASE)
    record = rounds(root)[-1]
    assert result == {"samples": [record.estimate], "number": 1}
    assert (record.benchmark, record.batch) == ("add_mul_exp.Cpu.time_cold", 1)
    assert len(flushes) >= record.n


@pytest.mark.usefixtures("flushes")
@pytest.mark.parametrize(
    ("method", "factor", "flags"), [("cold", 0.75, {"warm"}), ("cold", 2, set()), ("hot", 0.75, set())]
)
def test_cold_call_faster_than_memory_is_flagged(root, monkeypatch, method, factor, flags):
    bench = add_mul_exp.Cpu()
    bench.setup("eager", CASE)
    needed = add_mul_exp.Cpu.bytes[CASE] / (100 * GB)

    def timed(call, timer, rule, look, gate):
        result = measure(call, timer, FixedTime(t_max=0.002))
        return dataclasses.replace(result, estimate=factor * needed, flags=())

    monkeypatch.setattr(benchmark, "measure", timed)
    monkeypatch.setattr(benchmark, "audit", lambda *_, **__: ())  # it would not believe the time
    bench.measure(f"add_mul_exp.Cpu.time_{method}", "eager", CASE)
    (record,) = rounds(root)
    assert set(record.flags) - {"contended"} == flags


@pytest.mark.parametrize(("method", "skipped"), [("time_cold", True), ("time_hot", False)])
def test_unknown_cache_makes_cold_na(root, monkeypatch, capsys, method, skipped):
    monkeypatch.setattr(timing, "cache_size", lambda device: None)
    bench = as_asv_runs("RoundBenchmark", matmul, method)
    assert bench.do_setup() is skipped
    assert ("cannot be made cold" in capsys.readouterr().out) is skipped


@pytest.fixture
def a_gpu(root, monkeypatch):
    """A pretended CUDA device with a pretended driver."""
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


def test_round_has_the_gpu_activity(root, a_gpu):
    a_gpu.sm_clocks[:] = [1980, 1755]
    a_gpu.reasons[:] = [0x200]  # a board limit, of which newer drivers have no name
    a_gpu.energies[:] = [7_000_000, 7_062_500]
    a_gpu.processes.append((7, None))
    record = cuda_round(root)
    assert record.gpu.sm_before == pytest.approx(pretend_cuda.CLOCK, rel=0.01)  # the timer's, not the driver's
    assert (record.gpu.power, record.gpu.temperature, record.gpu.reasons) == (350, 41, 0x200)
    assert record.energy == 62.5
    assert {"clock_drift", "throttled", "contended"} <= set(record.flags)


def test_round_without_a_driver(root, a_gpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    record = cuda_round(root)
    assert (record.core_gauge, record.memory_gauge, record.lost) == (None, None, None)  # a gate is the CPU's
    assert record.gpu.sm_before == record.gpu.sm_after == pytest.approx(pretend_cuda.CLOCK, rel=0.01)
    assert record.gpu.power is None
    assert not {"clock_drift", "throttled"} & set(record.flags)


def test_waiting_is_of_hot_rounds(root, a_gpu, monkeypatch):
    monkeypatch.setattr(timing, "wait", lambda call, device, estimate: 0.0)
    hot, cold = cuda_round(root), cuda_round(root, "time_cold")
    assert hot.waiting == pytest.approx(-hot.estimate, rel=0.06)  # two digits are kept
    assert cold.waiting is None
    monkeypatch.setenv("KV_TIMER", "sync")
    assert cuda_round(root).waiting is None  # its estimate is that time already


def test_wait_is_a_call_and_a_synchronise(monkeypatch):
    class Source(pretend_cuda.HostEvents):
        waits = 0

        def synchronize(self):
            Source.waits += 1

    monkeypatch.setattr(timing, "TorchEvents", Source)
    called = []
    call = lambda: called.append(Source.waits)  # noqa: E731
    assert timing.wait(call, "cuda", 0.3) is None  # an hour of a slow kernel would go into a figure of less than 1%
    assert called == []
    assert timing.wait(call, "cuda", 1e-4) > 0
    assert len(called) == timing.SYNCHRONISED
    assert Source.waits == 2 * len(called)  # before each sample, and after each call


def test_graphs_have_their_own_stream(root, a_gpu, monkeypatch):
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
    with pytest.raises(TypeError):  # nothing is bound: what matters is what was done before
        add_mul_exp.Cuda().setup("eager", CASE)
    assert bound == [2]


def test_timer_is_chosen_by_name(monkeypatch):
    from tests.engine import pretend_cuda

    monkeypatch.setattr(timing, "TorchEvents", pretend_cuda.HostEvents)
    for name, kind in {"": "CudaEventTimer", "graph": "CudaGraphTimer", "sync": "SyncTimer"}.items():
        monkeypatch.setenv("KV_TIMER", name)
        assert type(timing.timer_of("cuda", cold=False)).__name__ == kind
    assert type(timing.timer_of("cpu", cold=False)).__name__ == "HostTimer"
    monkeypatch.setenv("KV_TIMER", "sundial")
    with pytest.raises(timing.TimerError, match=r"no timer 'sundial'; there are events, graph, sync"):
        timing.method(os.environ)


@pytest.mark.parametrize(
    ("environ", "recorded"),
    [
        ({}, "994c70c7"),
        ({"KV_TIMER": "events"}, "994c70c7"),
        ({"KV_PATIENCE": "0.250"}, "994c70c7"),
        ({"KV_PATIENCE": "0"}, "9930b085"),
        ({"KV_PATIENCE": "2", "KV_TIMER": "sync"}, "b93ca544"),
        ({"KV_TIMER": "graph"}, "100a63a3"),
        ({"KV_TIMER": "sync"}, "121fd39b"),
        ({"KV_THREADS": "2"}, "7ce2c7e7"),
        ({"KV_EPS": ".005"}, "f6e6cdae"),
    ],
)
def test_recorded_methods_keep_their_hashes(environ, recorded):
    assert timing.method(environ) == recorded


@pytest.mark.parametrize(
    ("rule", "device", "products"), [("cv_gflops", "cuda", 10), ("cv_gflops", "cpu", 0), ("adaptive.round", "cuda", 0)]
)
def test_pre_warm_of_cv_gflops(monkeypatch, rule, device, products):
    torch = pytest.importorskip("torch")
    multiplied, waited = [], []
    monkeypatch.setattr(torch, "rand", lambda *shape, device: (*shape, device))
    monkeypatch.setattr(torch, "matmul", lambda a, b: multiplied.append((a, b)))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(len(multiplied)))
    timing.pre_warm(RULES[rule](), device)
    assert multiplied == [((5000, 5000, "cuda"),) * 2] * products
    assert waited == ([products] if products else [])
