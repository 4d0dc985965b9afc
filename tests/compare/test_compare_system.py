"""What a comparison ran on, as text."""

import pytest

from kernel_velocity.compare import system
from kernel_velocity.harness import gpu, nvml, reported
from kernel_velocity.runner.host import measuring_variables

KEYS = {"device", "caches", "clocks", "free memory", "load", "cores", "threads", "python", "torch", "allocator"}


def test_the_processor():
    found = system.environment("cpu", 3)
    assert set(found) >= KEYS and found["threads"] == "3"
    assert all(isinstance(value, str) and value for value in found.values())
    assert found["device"] == reported.name("cpu")


def test_only_variables_that_matter_are_told():
    environ = {"KV_RULE": "cv", "OMP_NUM_THREADS": "2", "HOME": "/h", "SECRET": "s", "CUDA_VISIBLE_DEVICES": "0"}
    assert system.variables(environ) == {"CUDA_VISIBLE_DEVICES": "0", "KV_RULE": "cv", "OMP_NUM_THREADS": "2"}


def test_an_allocator_that_gives_memory_back_is_said():
    assert system.allocator(measuring_variables(None)) == "keeps freed memory"
    assert "not set up" in system.allocator({})


def test_caches_as_reported(monkeypatch):
    monkeypatch.setattr(reported, "data_caches", lambda device: {"L1": 32 << 10, "L2": 3 << 19})
    assert system.caches("cpu") == "L1 32.0 KiB, L2 1.50 MiB"
    levels = system.reported_levels("cpu").levels
    assert [(level.name, level.size, level.bandwidth) for level in levels] == [
        ("L1", 32 << 10, None),
        ("L2", 3 << 19, None),
        ("DRAM", None, None),
    ]
    monkeypatch.setattr(reported, "data_caches", lambda device: {})
    assert (system.caches("cpu"), system.reported_levels("cpu")) == (system.UNKNOWN, None)


def test_clocks(monkeypatch, tmp_path):
    path = tmp_path / "frequency"
    path.write_text("2600000\n")
    monkeypatch.setattr(system, "_FREQUENCY", path)
    assert system.clocks("cpu") == "2.60 GHz"
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("model name : x\ncpu MHz\t\t: 2450.500\n")
    assert system._processor_clock(cpuinfo) == pytest.approx(2.4505e9)
    assert system._processor_clock(tmp_path / "none") is None


def test_a_gpu_says_what_its_driver_knows(monkeypatch):
    torch = pytest.importorskip("torch")
    from tests.harness import pretend_cuda

    pretend_cuda.plant(monkeypatch, torch)
    answers = {
        "driver": "560.1",
        "sm_clock": 1.98e9,
        "sm_clock_most": 1.98e9,
        "memory_clock": 2.6e9,
        "power_limit": 700.0,
    }
    monkeypatch.setattr(gpu, "uuid", lambda: "GPU-0")
    monkeypatch.setattr(nvml, "describe", lambda uuid: answers)
    found = system.environment("cuda", 1)
    assert found["device"] == "Pretend"
    assert (found["driver"], found["power limit"]) == ("560.1", "700 W")
    assert found["clocks"] == "SM 1.98 GHz of 1.98 GHz, memory 2.60 GHz"
    monkeypatch.setattr(nvml, "describe", lambda uuid: "no driver")
    assert system.environment("cuda", 1)["driver"] == system.UNKNOWN
