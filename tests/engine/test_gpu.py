"""A GPU as its driver describes it, by a pretended NVML."""

import dataclasses
import sys

import pytest

from kernel_velocity.engine import gpu
from kernel_velocity.engine.gpu import GpuState, GpuWatch
from tests.engine import pretend_nvml

STATE = GpuState(sm_clock=1.98e9, memory_clock=2.619e9, power=350.0, temperature=41, reasons=0)


@pytest.fixture
def library(monkeypatch):
    pretend_nvml.reset()
    monkeypatch.setitem(sys.modules, "pynvml", pretend_nvml)
    yield pretend_nvml
    assert pretend_nvml.opened == []  # whatever was opened is closed again
    pretend_nvml.reset()


def test_describe_is_in_base_units(library):
    library.refused.add("temperature")
    assert gpu.describe("GPU-1") == {
        "driver": "580.1",
        "sm_clock": 1.98e9,
        "memory_clock": 2.619e9,
        "power": 350,
        "temperature": None,
        "sm_clock_most": 1.98e9,
        "memory_clock_most": 2.619e9,
        "power_limit": 700,
    }


def test_describe_without_driver_gives_the_reason(library, monkeypatch):
    assert gpu.describe("MIG-1") == "NVML: Not Found"
    library.refused.add("nvmlInit")
    assert gpu.describe("GPU-1") == "NVML: Driver Not Loaded"
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "not installed" in gpu.describe("GPU-1")


@pytest.mark.parametrize(
    ("question", "field"),
    [("power", "power"), ("temperature", "temperature"), ("reasons", "reasons"), ("clock", "sm_clock")],
)
def test_refused_figure_is_none(library, question, field):
    library.refused.add(question)
    with gpu.opened("GPU-1") as (stand_in, handle):
        state = gpu.read(stand_in, handle)
    assert getattr(state, field) is None
    assert sum(value is not None for value in dataclasses.asdict(state).values()) >= 3


NEW, OLD = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"


def unknown(_handle):
    raise pretend_nvml.NVMLError("Function Not Found")


@pytest.mark.parametrize(
    ("functions", "reasons"),
    [
        ({NEW: lambda _: 0x8, OLD: lambda _: 0x4}, 0x8),
        ({NEW: unknown, OLD: lambda _: 0x4}, 0x4),  # a driver older than the binding
        ({}, None),
    ],
)
def test_reasons_by_their_newer_or_older_name(library, monkeypatch, functions, reasons):
    monkeypatch.delattr(library, OLD)
    for name, function in functions.items():
        monkeypatch.setattr(library, name, function, raising=False)
    with gpu.opened("GPU-1") as (stand_in, handle):
        assert gpu.read(stand_in, handle) == dataclasses.replace(STATE, reasons=reasons)


def test_old_binding_is_an_nvml_error(library, monkeypatch):
    def bytes_only(_uuid):
        raise TypeError("bytes or integer address expected")

    monkeypatch.setattr(library, "nvmlDeviceGetHandleByUUID", bytes_only)
    assert gpu.describe("GPU-1") == "NVML: bytes or integer address expected"


def at(**changes):
    return dataclasses.replace(STATE, **changes)


@pytest.mark.parametrize(
    ("states", "flags"),
    [
        ([STATE, STATE], ()),
        ([STATE, at(sm_clock=1.965e9)], ()),
        ([STATE, at(sm_clock=1.95e9)], ("clock_drift",)),
        ([at(sm_clock=1.95e9), STATE], ("clock_drift",)),
        ([STATE, at(memory_clock=1.593e9)], ("clock_drift",)),
        ([STATE, at(sm_clock=1.2e9), STATE], ("clock_drift",)),  # back again, but sampled between
        ([at(sm_clock=None), STATE], ()),
        ([at(sm_clock=None, memory_clock=None, reasons=None)] * 2, ()),
        *(
            ([STATE, at(reasons=bit)], ("throttled",))
            for bit in (0x4, 0x8, 0x10, 0x20, 0x40, 0x80, 0x200, 0x400, 0x800)
        ),
        *(([STATE, at(reasons=bit)], ()) for bit in (0x1, 0x2, 0x100)),  # idle, and what the user set
        ([at(reasons=0x5), at(sm_clock=1.5e9)], ("clock_drift", "throttled")),
    ],
)
def test_flags(states, flags):
    assert gpu.flags(states) == flags


def test_throttle_reasons_have_a_name_or_are_hexadecimal():
    assert gpu.throttling(0x1 | 0x2 | 0x100) == []
    assert gpu.throttling(0x1 | 0x4 | 0x200 | 0x400 | 0x2000) == ["power cap", "board limit", "reliability", "0x2000"]


def test_activity_of_states():
    hot = at(sm_clock=1.755e9, power=698.0, temperature=71, reasons=0x4)
    last = at(sm_clock=1.9e9, power=None, temperature=60, reasons=0x40)
    shares = gpu.activity([STATE, hot, last])
    assert (shares.sm_before, shares.sm_after) == (1.98e9, 1.9e9)
    assert (shares.memory_before, shares.memory_after) == (2.619e9, 2.619e9)
    assert (shares.power, shares.temperature, shares.reasons) == (698.0, 71, 0x44)


def test_watch_without_gpu(monkeypatch):
    monkeypatch.setattr(gpu, "opened", lambda uuid: pytest.fail("asked"))
    with GpuWatch(None) as watch:
        watch.look()
    assert (watch.activity, watch.flags) == (None, ())


def test_watch_without_driver(library):
    with GpuWatch("MIG-1") as watch:
        watch.look()
    assert (watch.activity, watch.flags) == (None, ())


@pytest.mark.parametrize(
    ("counter", "used"),
    [
        ([7_000_000, 7_012_500, 7_080_250], 80.25),
        ([7_000_000], None),  # it has not moved: shorter than a step of the counter
        ([7_000_000, 500], None),  # the driver was loaded anew
    ],
)
def test_energy_is_that_between_the_looks(library, counter, used):
    library.energies[:] = counter
    with GpuWatch("GPU-1") as watch:
        for _ in range(3):
            watch.look()
    assert watch.energy == used


def test_gpu_that_counts_no_energy(library, monkeypatch):
    library.refused.add("energy")
    with GpuWatch("GPU-1") as watch:
        watch.look()
        watch.look()
        monkeypatch.delattr(library, "nvmlDeviceGetTotalEnergyConsumption")  # an old binding
        watch.look()
    assert watch.energy is None and watch.activity is not None


@pytest.mark.parametrize(
    ("before", "after", "flags"),
    [([1, 1], [1], ()), ([1, 7], [1], ("contended",)), ([1], [7, 1], ("contended",)), ([], [], ())],
)
def test_other_process_on_the_gpu_is_contention(library, before, after, flags):
    library.processes[:] = [(pid, None) for pid in before]
    with GpuWatch("GPU-1") as watch:
        watch.look()
        library.processes[:] = [(pid, None) for pid in after]
    assert watch.flags == flags


def test_processes_have_names_and_memory_as_far_as_told(library, monkeypatch):
    library.processes[:] = [(1, None), (7, 2**30)]
    with gpu.opened("GPU-1") as opened:
        assert gpu.processes(*opened) == [gpu.Process(1, None, None), gpu.Process(7, "/usr/bin/job-7", 2**30)]
        library.refused.add("processes")
        assert gpu.processes(*opened) == []
        monkeypatch.delattr(library, "nvmlDeviceGetComputeRunningProcesses")  # an old binding
        assert gpu.processes(*opened) == []
