"""The suite on a real device: every kernel and implementation, checked, timed without gaps, believable."""

import pytest

from benchmarks import add_mul_exp, matmul, quantize_int8
from kernel_velocity.engine import gpu, reported, timing
from kernel_velocity.engine.telemetry import decode
from kernel_velocity.engine.timers import (
    CudaEventTimer,
    CudaGraphTimer,
    SyncTimer,
    TorchEvents,
)
from kernel_velocity.machine import ceilings, limits
from tests.small_suite import SUITE

torch = pytest.importorskip("torch", reason="CUDA is reached through torch")
pytestmark = [
    pytest.mark.cuda,
    # Torch 2.9 to 2.11 say so about the setting that older versions know, and about their own compiler's use of it.
    pytest.mark.filterwarnings("ignore:Please use the new API settings to control TF32:UserWarning"),
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores for float32 matrix multiplication:UserWarning"),
]

SMALLEST = {add_mul_exp: "float32-500k", quantize_int8: "float32-500k", matmul: "float32-512x512x512"}
MATMUL = SUITE.benchmark("matmul", "cuda")
COMMIT = "c" * 40


@pytest.mark.parametrize("implementation", ["eager", "compile", "native", "triton"])
@pytest.mark.parametrize("module", SMALLEST, ids=lambda module: module.__name__.split(".")[-1])
def test_round_on_the_device(tmp_path, monkeypatch, module, implementation):
    for name, value in {"ASV_CONF_DIR": str(tmp_path), "ASV_ENV_NAME": "env", "ASV_COMMIT": COMMIT}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ASV_ENV_DIR", raising=False)
    bench = module.Cuda()
    try:
        bench.setup(implementation, SMALLEST[module])
    except NotImplementedError as error:
        if implementation not in ("compile", "triton"):
            raise
        pytest.skip(f"n/a here: {error}")  # a node without a compiler or a CUDA toolkit, or without Triton
    bench.measure("k.Cuda.time_hot", implementation, SMALLEST[module])
    (line,) = (tmp_path / ".asv" / "spool" / "env" / f"{COMMIT}.jsonl").read_text().splitlines()
    record = decode(line)
    assert "underfed" not in record.flags
    # No kernel here moves its bytes faster than the fastest cache, or takes longer than a launch-bound sequence.
    moved = module.Cuda.bytes[SMALLEST[module]]
    assert moved / record.estimate < 30e12
    assert record.estimate < 500e-6


@pytest.mark.parametrize("implementation", ["eager", "compile", "native", "triton"])
@pytest.mark.parametrize("case", [case for case in MATMUL.problem.cases["cuda"] if not case.startswith("float32")])
def test_products_of_every_dtype_are_right(monkeypatch, implementation, case):
    monkeypatch.delenv("ASV_ENV_DIR", raising=False)
    try:
        MATMUL().setup(implementation, case)  # checks every element
    except NotImplementedError as error:
        is_hopper = torch.cuda.get_device_capability() == (9, 0)  # which float8 needs
        if implementation not in ("compile", "triton") and (is_hopper or "float8" not in case):
            raise
        pytest.skip(f"n/a here: {error}")  # a node without a compiler or a CUDA toolkit, or without Triton


def test_events_read_a_known_kernel():
    timer = CudaEventTimer(TorchEvents("cuda"))
    spin = lambda: torch.cuda._sleep(20_000)  # noqa: E731 - about 10 us
    timer.samples(spin, 1, 64)  # the clock rises
    samples = timer.samples(spin, 1, 64)
    assert not timer.flags
    assert max(samples) < 1.2 * min(samples)
    single, batched = sorted(samples)[32], sorted(timer.samples(spin, 16, 32))[16]
    assert batched == pytest.approx(single, rel=0.2)


def median(samples):
    return sorted(samples)[len(samples) // 2]


@pytest.fixture
def addition():
    """An addition whose 12 MB every L2 since Ampere holds: hot and cold differ."""
    x = torch.randn(1_000_000, device="cuda")
    y, out = torch.randn_like(x), torch.empty_like(x)
    return lambda: torch.add(x, y, out=out)


def test_cold_is_slower_than_hot(addition):
    if (reported.cache_size("cuda") or 0) < 24e6:
        pytest.skip("this L2 does not hold 12 MB")
    hot, cold = CudaEventTimer(TorchEvents("cuda")), CudaEventTimer(TorchEvents("cuda"), timing.flush("cuda"))
    hot.samples(addition, 16, 256)  # the clock rises
    warm, cool = median(hot.samples(addition, 1, 256)), median(cold.samples(addition, 1, 256))
    assert not (hot.flags | cold.flags)
    assert cool > 1.05 * warm
    limit = ceilings.limit_of("memory", "cuda")
    assert limit and 12e6 / cool < limits.WARM * limit


def test_cold_loop_allocates_nothing(addition):
    timer = CudaEventTimer(TorchEvents("cuda"), timing.flush("cuda"))
    timer.samples(addition, 1, 8)
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    timer.samples(addition, 1, 64)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


@pytest.fixture
def own_stream():
    """A stream that graphs can be captured from, current while the test runs."""
    with torch.cuda.stream(torch.cuda.Stream()):
        yield


def test_graph_takes_as_long_as_its_launches(own_stream):
    spin = lambda: torch.cuda._sleep(40_000)  # noqa: E731 - about 20 us: no gap between launches shows
    events, graph = CudaEventTimer(TorchEvents("cuda")), CudaGraphTimer(TorchEvents("cuda"))
    events.samples(spin, 16, 64)
    launched, replayed = median(events.samples(spin, 32, 32)), median(graph.samples(spin, 32, 32))
    assert not (events.flags | graph.flags)
    assert replayed == pytest.approx(launched, rel=0.1)


def test_waiting_call_is_timed_by_launches(own_stream, capsys):
    x = torch.randn(1000, device="cuda")
    timer = CudaGraphTimer(TorchEvents("cuda"))
    samples = timer.samples(lambda: float(x.sum()), 1, 8)
    assert min(samples) > 0
    assert "ungraphed" in timer.flags
    assert "no CUDA graph" in capsys.readouterr().err
    torch.cuda.synchronize()  # the refused capture left the device usable


def test_default_stream_cannot_be_captured(addition):
    timer = CudaGraphTimer(TorchEvents("cuda"))
    timer.samples(addition, 1, 8)
    assert timer.flags >= {"ungraphed"}


def test_work_on_another_stream_is_not_captured(own_stream):
    other = torch.cuda.Stream()

    def elsewhere():
        with torch.cuda.stream(other):
            torch.cuda._sleep(1000)

    timer = CudaGraphTimer(TorchEvents("cuda"))
    timer.samples(elsewhere, 1, 4)
    assert "ungraphed" in timer.flags


def test_caller_waits_longer_than_the_device(addition):
    on_device = median(CudaEventTimer(TorchEvents("cuda")).samples(addition, 16, 64))
    waited = timing.wait(addition, "cuda", on_device)
    assert waited and on_device < waited < 0.01
    assert on_device < median(SyncTimer(torch.cuda.synchronize).samples(addition, 1, 64))


def test_driver_knows_the_current_device():
    uuid = gpu.uuid()
    if uuid is None:
        pytest.skip("this torch does not say the device's uuid")
    description = gpu.describe(uuid)
    if isinstance(description, str):
        pytest.skip(description)  # no binding, or a part of a GPU (MIG), whose UUID is another
    assert description["driver"]
    with gpu.opened(uuid) as (library, handle):
        state = gpu.read(library, handle)
    assert state.sm_clock is None or 1e8 < state.sm_clock < 4e9
    assert state.power is None or 5 < state.power < 2000
    assert state.temperature is None or 10 < state.temperature < 120


@pytest.mark.parametrize("method", ["time_cold", "time_hot"])
@pytest.mark.parametrize("timer", ["graph", "sync"])
def test_rounds_of_other_timers_and_cold_caches(tmp_path, monkeypatch, method, timer):
    settings = {"ASV_CONF_DIR": str(tmp_path), "ASV_ENV_NAME": "env", "ASV_COMMIT": COMMIT, "KV_TIMER": timer}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ASV_ENV_DIR", raising=False)
    stream = torch.cuda.current_stream()
    try:
        bench = MATMUL()
        bench.setup("native", SMALLEST[matmul])
        bench.measure(f"matmul.Cuda.{method}", "native", SMALLEST[matmul])
    finally:
        torch.cuda.set_stream(stream)
    (line,) = (tmp_path / ".asv" / "spool" / "env" / f"{COMMIT}.jsonl").read_text().splitlines()
    record = decode(line)
    assert not {"ungraphed", "warm"} & set(record.flags)
    assert 1e-6 < record.estimate < 5e-3
