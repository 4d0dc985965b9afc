"""Times in which the machine cannot have done the work: refused once their limit was measured again."""

import json
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import add_mul_exp
from kernel_velocity.engine.quiet import FRESH
from kernel_velocity.machine import ceilings, limits
from kernel_velocity.machine.limits import AGAIN, MARGINS, WARM, ImpossibleError, Work, check
from kernel_velocity.machine.workloads import BEYOND
from tests.engine import pretend_cuda
from tests.machine.planted_limits import plant_limits
from tests.suite.measuring import as_asv_runs, asv_environment, failure, rounds

torch = pytest.importorskip("torch", reason="limits are measured with torch")

__all__ = ["asv_environment"]

MB = 1_000_000
G = 1e9


class Machine:
    """A machine with a last cache of 1 MB, whose limits read as `readings` say: the last one from then on."""

    def __init__(self, folder):
        self.folder = folder
        self.readings = {"float": [100 * G], "int8": [400 * G], "memory": [10 * G], "cache": [200 * G]}
        self.requests = []

    def measured_apart(self, _device, names, times):
        self.requests.append([*names, times])
        return {name: max(self.read(self.readings[name]) for _ in range(times)) for name in names}

    def read(self, readings):
        return readings.pop(0) if readings[1:] else readings[0]

    def check(self, rate, *, threads=1, **work):
        """Hold a call against the limits that does `work` at a rate of so many G a second."""
        fields = {"flops": None, "bytes": None, "footprint": None, "dtype": "float32"}
        cold = work.pop("cold", False)
        ((_, amount), *_) = work.items()
        return check(Work(**fields | work), amount / (rate * G), "cpu", threads, self.folder, cold=cold)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    made = Machine(tmp_path)
    monkeypatch.setattr(limits, "cache_size", lambda device: MB)
    monkeypatch.setattr(limits, "_measured_apart", made.measured_apart)
    return made


def test_limits_are_measured_once_and_kept(machine):
    for _ in range(3):
        assert machine.check(90, flops=1000, bytes=500, footprint=500) == ()
    assert machine.requests == [["float", "cache", 1]]


@pytest.mark.parametrize(
    ("rate", "work", "reason"),
    [
        (
            1_611_560,
            {"flops": 2 * 512**3},
            "faster than the machine (16,116 times the peak of 100 GFLOPS); is the work of every call done when it "
            "returns, or does flops= count more than it computes?",
        ),
        (
            601,
            {"flops": 1000, "dtype": "int8"},
            "faster than the machine (1.5 times the peak of 400 GOPS); is the work of every call done when it "
            "returns, or does flops= count more than it computes?",
        ),
        (
            1000,
            {"bytes": 500, "footprint": 500},
            "faster than the machine (5.0 times the peak of 200 GB/s of the innermost cache); is the work of every "
            "call done when it returns, or does bytes= count more than it moves?",
        ),
        (
            100,
            {"bytes": 10 * MB, "footprint": 10 * MB},
            "faster than the machine (9.0 times the peak of 10 GB/s of memory); is the work of every call done when it "
            "returns, or does bytes= count more than it moves?",
        ),
    ],
)
def test_impossible_rate_is_refused_once_measured_again(machine, rate, work, reason):
    with pytest.raises(ImpossibleError) as caught:
        machine.check(rate, **work)
    assert str(caught.value) == reason
    (again,) = machine.requests[1:]
    assert len(again) == 2 and again[-1] == AGAIN


HONEST = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(sorted(MARGINS)),
        "limit": st.floats(1e9, 1e15),
        "share": st.floats(0.01, 0.999),  # of the limit and its margin, that the rate is
        "disturbed": st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=AGAIN + 1),
        "quiet": st.integers(0, AGAIN),  # which measurement sees the limit
    }
)


@given(HONEST)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rate_within_a_limit_that_one_measurement_saw_is_honest(machine, drawn):
    for path in machine.folder.iterdir():
        path.unlink()
    kind, limit = drawn["kind"], drawn["limit"]
    rates = [limit * part for part in drawn["disturbed"]]
    rates[min(drawn["quiet"], len(rates) - 1)] = limit
    machine.readings = {name: [1e30] for name in MARGINS} | {kind: rates}
    work = {"flops": 1000, "dtype": "int8" if kind == "int8" else "bfloat16"}
    if kind in ("memory", "cache"):
        work = {"bytes": 9 * MB, "footprint": 9 * MB if kind == "memory" else 1000}
    most = MARGINS[kind] * limit / G
    assert machine.check(most * drawn["share"], **work) == ()
    with pytest.raises(ImpossibleError):
        machine.check(2 * most, **work)


def test_several_threads_have_several_times_the_limit(machine):
    assert machine.check(4 * 149, threads=4, flops=1000) == ()
    with pytest.raises(ImpossibleError, match=r"\(1\.6 times the peak of 400 GFLOPS\)"):
        machine.check(4 * 160, threads=4, flops=1000)


def test_unknown_type_is_only_flagged(machine):
    assert machine.check(149, flops=1000, dtype="int32") == ()
    assert machine.check(151, flops=1000, dtype="int32") == ("unchecked",)
    assert machine.check(1e6, flops=1000, dtype="float8") == ("unchecked",)
    assert machine.requests == [["float", 1]]  # it could refuse nothing


def test_sets_that_a_cache_may_hold_are_not_held_against_memory(machine):
    assert machine.check(100, bytes=BEYOND * MB, footprint=BEYOND * MB) == ()
    # a quarter of a set just beyond may be there when the next call begins
    rate = 0.999 * MARGINS["memory"] * 10 / (1 - 1 / (BEYOND + 0.001))
    assert machine.check(rate, bytes=BEYOND * MB + 1000, footprint=BEYOND * MB + 1000) == ()


@pytest.mark.parametrize(("rate", "flags"), [(0.99 * WARM, ()), (1.01 * WARM, ("warm",)), (15, ("warm",))])
def test_cold_call_faster_than_memory_is_warm(machine, rate, flags):
    assert machine.check(rate * 10, bytes=1000, footprint=1000, cold=True) == flags
    assert machine.requests == [["cache", "memory", 1], *([["memory", 1]] if flags else [])]


@pytest.mark.parametrize("rate", ["Infinity", "-3", '"fast"', "null", "1.0", ""])
def test_damaged_file_is_measured_again(machine, rate):
    machine.check(90, flops=1000)
    (path,) = machine.folder.iterdir()
    path.write_text(f'{{"rate": {rate}}}')
    assert machine.check(90, flops=1000) == ()
    assert json.loads(path.read_text())["rate"] == 100 * G


def test_limit_that_cannot_be_measured_flags(machine, monkeypatch):
    machine.readings["float"] = [0.0]
    for _ in range(2):
        assert machine.check(1e9, flops=1000) == ("unchecked",)
    assert machine.requests == [["float", 1]]
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + FRESH + 60)
    machine.readings["float"] = [100 * G]
    assert machine.check(90, flops=1000) == ()


def test_limit_that_cannot_be_measured_again_refuses_nobody(machine, monkeypatch):
    machine.check(90, flops=1000)
    monkeypatch.setattr(limits, "_measured_apart", lambda *_: {})
    assert machine.check(9000, flops=1000) == ("unchecked",)


def test_fastest_sample_is_the_limit(monkeypatch):
    monkeypatch.setattr(ceilings, "samples_of", lambda *_: [9.0] * 50 + [2.0])
    assert ceilings._rate(lambda: (lambda: None, 8.0), lambda: None) == 4.0


def test_folder_that_cannot_be_written_to(machine):
    machine.folder = machine.folder / "file"
    machine.folder.write_text("")
    assert machine.check(90, flops=1000) == ()
    with pytest.raises(ImpossibleError):
        machine.check(151, flops=1000)


def test_process_that_fails_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(limits, "_PROGRAM", "raise SystemExit('no memory left')")
    work = Work(flops=10, bytes=None, footprint=None, dtype="float32")
    assert check(work, 1e-9, "cpu", 1, tmp_path) == ("unchecked",)
    assert capsys.readouterr().err == "kernel-velocity: no limits of cpu could be measured: no memory left\n"


def test_users_torch_is_not_the_one_that_measures(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise SystemExit('a problem of that name')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(limits, "_PROGRAM", 'import json, sys; sys.path[:] = json.loads(sys.argv[1])[2]; print("{}")')
    monkeypatch.setattr(limits, "_PROGRAM", limits._PROGRAM.replace("print(", "import torch; print("))
    assert limits._measured_apart("cpu", ["float"], 1) == {}


# Rounds ---------------------------------------------------------------------------------------------------------------


def test_impossible_round_is_failed_and_not_recorded(asv_environment, monkeypatch):
    plant_limits(monkeypatch, cache=1.0)
    bench = as_asv_runs("RoundBenchmark", add_mul_exp, "time_hot")
    assert bench.do_setup() is False
    with pytest.raises(ImpossibleError):
        bench.run(*bench._current_params)
    assert rounds(asv_environment) == []
    assert failure(asv_environment)["error"].startswith("ImpossibleError: faster than the machine (")


# Measuring ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_limit_is_measured(monkeypatch, device):
    """The paths of a GPU, too, on a pretended one."""
    allowed = []
    if device == "cuda":
        pretend_cuda.plant(monkeypatch, torch)
        monkeypatch.setattr(ceilings, "LIMIT_SIZES", {"cuda": (32,)})
        made = ceilings.product
        is_tf32 = torch.backends.cuda.matmul
        monkeypatch.setattr(ceilings, "product", lambda *a: allowed.append((a[1], is_tf32.allow_tf32)) or made(*a))
        monkeypatch.setattr(ceilings, "PER_CALL", {"cuda": 1 << 21})
    monkeypatch.setattr(ceilings, "SECONDS", 0.002)
    monkeypatch.setattr(ceilings, "cache_size", lambda device: 1 << 18)
    rates = {name: ceilings.limit_of(name, device) for name in MARGINS}
    assert all(rate and rate > 1e6 for rate in rates.values())
    products = [("float32", False), ("tf32", True), ("float16", False), ("bfloat16", False)]
    products += [("int8", False), ("bfloat16", False)]  # twice the rate of bfloat16 is a limit of int8, too
    assert allowed == (products if device == "cuda" else [])


def test_memory_without_room_or_size_has_no_limit(monkeypatch):
    for size, free in ((None, 1 << 40), (MB, 15 * MB)):
        monkeypatch.setattr(ceilings, "cache_size", lambda device, size=size: size)
        monkeypatch.setattr(ceilings, "free_memory", lambda device, free=free: free)
        assert ceilings.limit_of("memory", "cpu") is None
