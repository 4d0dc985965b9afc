"""Benchmarks that time a part of themselves, or report their own time."""

import os
import time

import pytest

from kernel_velocity.harness import regions, timing
from kernel_velocity.harness.gate import GateError
from kernel_velocity.harness.regions import (
    CudaRegionTimer,
    HostRegionTimer,
    Region,
    RegionError,
    ReportedTimer,
    Timed,
    timed,
    times_a_region,
    times_itself,
)
from kernel_velocity.harness.sampling import measure
from kernel_velocity.harness.stopping import RULES, FixedTime
from kernel_velocity.harness.telemetry import decode
from tests.harness.simulated_cuda import device

__all__ = ["device"]


@pytest.fixture
def host(monkeypatch):
    """A host clock that moves only when it is told to: seconds."""

    class Host:
        now = 0.0

        def work(self, seconds):
            self.now += seconds

    made = Host()
    monkeypatch.setattr(regions, "perf_counter_ns", lambda: round(made.now * 1e9))
    return made


def body(region, work, inside=3e-6, around=100e-6):
    """Return a call that works before, in and after its region."""

    def call():
        work(around)
        with region:
            work(inside)
        work(around)

    return call


def test_only_the_region_is_timed_on_the_host(host):
    region = Region()
    timer = HostRegionTimer(region)
    assert timer.samples(body(region, host.work), 1, 5) == pytest.approx([3e-6] * 5)
    assert timer.samples(body(region, host.work), 10, 5) == pytest.approx([3e-6] * 5)
    assert timer.by_wall  # a budget of 3 us samples would last 70 times as long


def test_only_the_region_is_timed_on_the_device(device):
    region = Region()
    timer = CudaRegionTimer(device, region)
    assert timer.samples(body(region, device.work), 1, 200) == pytest.approx([3e-6] * 200)
    assert timer.samples(body(region, device.work), 7, 200) == pytest.approx([3e-6] * 200)
    assert not timer.flags
    assert timer.overhead() == pytest.approx(2e-6)
    assert timer.tick() > 0


def test_a_region_that_starves_is_flagged(device):
    device.blocker = 0.0
    region = Region()
    timer = CudaRegionTimer(device, region)
    timer.samples(body(region, device.work, around=0.0), 1, 8)
    assert timer.flags == {"underfed"}


def test_a_cold_region_is_flushed_before_the_call_and_has_no_flush_in_it(device):
    region = Region()
    timer = CudaRegionTimer(device, region, device.flush)

    def call():
        with region:
            device.kernel(3e-6, missing=7e-6)

    assert timer.samples(call, 1, 40) == pytest.approx([10e-6] * 40)
    assert (device.flushes, timer.batch_limit) == (40, 1)


def test_a_cold_region_on_the_host(host):
    region = Region()
    flushed = []
    timer = HostRegionTimer(region, lambda: (flushed.append(1), host.work(1.0)))
    assert timer.samples(body(region, host.work), 1, 4) == pytest.approx([3e-6] * 4)
    assert (len(flushed), timer.batch_limit) == (4, 1)


def never(region):
    pass


def twice(region):
    for _ in range(2):
        with region:
            pass


def nested(region):
    with region, region:
        pass


def unfinished(region):
    region.__enter__()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [(never, "nothing was timed"), (twice, "twice"), (nested, "twice"), (unfinished, "inside its region")],
)
@pytest.mark.parametrize("where", ["host", "device"])
def test_a_region_is_used_once_in_every_call(where, wrong, says, device):
    region = Region()
    timer = HostRegionTimer(region) if where == "host" else CudaRegionTimer(device, region)
    with pytest.raises(RegionError, match=says):
        timer.samples(lambda: wrong(region), 1, 1)


def test_the_empty_region_has_an_overhead():
    assert 0 < HostRegionTimer(Region()).overhead() < 1e-4


def test_reported_microseconds_are_seconds():
    said = iter([5.0, 7, 6.5])
    timer = ReportedTimer()
    assert timer.samples(lambda: next(said), 1, 3) == pytest.approx([5e-6, 7e-6, 6.5e-6])
    assert (timer.tick(), timer.overhead(), timer.batch_limit, timer.by_wall) == (None, None, 1, True)


def test_reported_times_make_a_round(monkeypatch):
    monkeypatch.setattr("kernel_velocity.harness.sampling.WARM_UP", 0.0)
    result = measure(lambda: 5 + time.perf_counter() % 1e-3, ReportedTimer(), FixedTime(t_max=0.002))
    assert result.estimate == pytest.approx(5e-6, rel=1e-3)
    assert (result.batch, result.tick, result.overhead) == (1, None, None)


@pytest.mark.parametrize("said", [None, "5", True, [5.0]])
def test_what_is_no_number_is_refused(said):
    with pytest.raises(RegionError, match="wanted its microseconds"):
        ReportedTimer().samples(lambda: said, 1, 1)


@pytest.mark.parametrize("said", [0.0, -1.0, float("nan"), float("inf")])
def test_numbers_that_are_no_times_are_refused(said, monkeypatch):
    monkeypatch.setattr("kernel_velocity.harness.sampling.WARM_UP", 0.0)
    with pytest.raises(ValueError, match="the timer returned"):
        measure(lambda: said, ReportedTimer(), FixedTime(t_max=0.002))


def test_cold_reports_are_flushed():
    flushed = []
    ReportedTimer(lambda: flushed.append(1)).samples(lambda: 1.0, 1, 3)
    assert len(flushed) == 3


def test_a_method_says_what_of_it_is_timed():
    assert timed(times_a_region(lambda: None)) is Timed.REGION
    assert timed(times_itself(lambda: None)) is Timed.REPORTED
    assert timed(lambda: None) is Timed.WHOLE


COMMIT = "c" * 40


@pytest.fixture
def users(tmp_path, monkeypatch):
    """A user's asv class, derived from the base, with a method of each kind; and where its telemetry goes."""
    pytest.importorskip("torch", reason="benchmarks measure torch tensors")
    from benchmarks.add_mul_exp import AddMulExp
    from kernel_velocity.harness.benchmark import _KernelBenchmark

    for name, value in {"ASV_CONF_DIR": str(tmp_path), "ASV_ENV_NAME": "env", "ASV_COMMIT": COMMIT}.items():
        monkeypatch.setenv(name, value)
    for name, value in {"KV_T_MIN": ".01", "KV_T_SOFT": ".02", "KV_T_MAX": ".02", "KV_PATIENCE": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ASV_ENV_DIR", raising=False)

    class Cpu(_KernelBenchmark):
        problem, device = AddMulExp(), "cpu"

        @times_a_region
        def time_part(self, implementation, case):
            time.sleep(0.05)
            with self.region:
                self.call()

        @times_itself
        def time_counted(self, implementation, case):
            return 12.5

        @times_a_region
        def time_forgotten(self, implementation, case):
            self.call()

        def time_counting(self, implementation, case):
            self.call()
            self.counted = getattr(self, "counted", 0) + 1

    def rounds():
        path = tmp_path / ".asv" / "spool" / "env" / f"{COMMIT}.jsonl"
        return [decode(line) for line in path.read_text().splitlines()] if path.exists() else []

    bench = Cpu()
    bench.setup("eager", "float32-500k")
    return bench, rounds


def test_a_users_benchmarks_are_rounds_like_any_other(users):
    bench, rounds = users
    found = {}
    for method in ("time_hot", "time_part", "time_counted", "time_counting"):
        found[method] = bench.measure(f"mine.Cpu.{method}", "eager", "float32-500k")["samples"][0]
    assert [record.benchmark for record in rounds()] == [f"mine.Cpu.{method}" for method in found]
    assert found["time_counted"] == pytest.approx(12.5e-6)
    assert found["time_part"] < 0.05  # the sleep is not in it
    assert rounds()[2].overhead is None
    assert bench.counted > rounds()[3].n * rounds()[3].batch  # its own body was called, and not the bound call


def test_a_users_mistake_is_an_error_and_leaves_no_round(users):
    bench, rounds = users
    with pytest.raises(RegionError, match="nothing was timed"):
        bench.measure("mine.Cpu.time_forgotten", "eager", "float32-500k")
    assert rounds() == []


def test_the_timer_of_a_cuda_device_is_chosen_by_name(monkeypatch):
    from tests.harness import pretend_cuda

    monkeypatch.setattr(timing, "TorchEvents", pretend_cuda.HostEvents)
    for name, kind in {"": "CudaEventTimer", "graph": "CudaGraphTimer", "sync": "SyncTimer"}.items():
        monkeypatch.setenv("KV_TIMER", name)
        assert type(timing.timer_of("cuda", never, Region())).__name__ == kind
    assert type(timing.timer_of("cuda", times_a_region(lambda: None), Region())) is CudaRegionTimer
    assert type(timing.timer_of("cpu", never, Region())).__name__ == "HostTimer"
    monkeypatch.setenv("KV_TIMER", "sundial")
    with pytest.raises(timing.TimerError, match=r"no timer 'sundial'; there are events, graph, sync"):
        timing.method(os.environ)


def test_another_timer_is_another_series_and_the_default_is_none():
    from kernel_velocity.harness.stopping import from_environment, method_hash

    usual = method_hash(from_environment({}), None)
    assert timing.method({}) == timing.method({"KV_TIMER": "events"}) == usual
    hashes = {timing.method({"KV_TIMER": name}) for name in ("events", "graph", "sync")}
    assert len(hashes) == 3
    assert timing.method({"KV_THREADS": "2"}) == method_hash(from_environment({}), "2")


def test_another_patience_is_another_series():
    assert timing.method({}) == timing.method({"KV_PATIENCE": "0.250"}) == "994c70c7"
    assert timing.method({"KV_PATIENCE": "0"}) == "9930b085"
    assert timing.method({"KV_PATIENCE": "2", "KV_TIMER": "sync"}) == "b93ca544"
    with pytest.raises(GateError, match="KV_PATIENCE: got 'long'"):
        timing.method({"KV_PATIENCE": "long"})


@pytest.mark.parametrize(
    ("rule", "device", "products"), [("cv_gflops", "cuda", 10), ("cv_gflops", "cpu", 0), ("adaptive.round", "cuda", 0)]
)
def test_the_published_rule_of_rates_warms_a_gpu_with_products(monkeypatch, rule, device, products):
    torch = pytest.importorskip("torch")
    multiplied, waited = [], []
    monkeypatch.setattr(torch, "rand", lambda *shape, device: (*shape, device))
    monkeypatch.setattr(torch, "matmul", lambda a, b: multiplied.append((a, b)))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(len(multiplied)))
    timing.pre_warm(RULES[rule](), device)
    assert multiplied == [((5000, 5000, "cuda"),) * 2] * products
    assert waited == ([products] if products else [])
