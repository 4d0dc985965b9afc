"""The facts of a machine and a build: by name, without importing torch, with and without a GPU's driver."""

import json
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

import kernels
from kernel_velocity.counts import compiled
from kernel_velocity.results import sessions
from kernel_velocity.runner import fingerprint
from kernel_velocity.suite.config import Project
from tests.engine import pretend_nvml

BUILD_INFO = Path("kernels", "_native", "build-info.json")  # where the wheels of this repository have it


@pytest.fixture
def two_gpus(monkeypatch):
    """A driver with two GPUs of one kind, which tells no clock of the memory. Return the power limits by handle, mW."""
    limits = {"handle of GPU-0": 700, "handle of GPU-1": 700}

    def clock(handle, which):
        if which == pretend_nvml.NVML_CLOCK_MEM:
            raise pretend_nvml.NVMLError("Not Supported")
        return 1980

    answers = {
        "nvmlSystemGetDriverVersion": lambda: b"560.35",
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetUUID": lambda handle: f"{handle.removeprefix('handle of ')}-x",
        "nvmlDeviceGetApplicationsClock": clock,
        "nvmlDeviceGetEnforcedPowerLimit": limits.get,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pretend_nvml, name, answer, raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", pretend_nvml)
    pretend_nvml.reset()
    yield limits
    assert pretend_nvml.opened == []
    pretend_nvml.reset()


@pytest.mark.usefixtures("two_gpus")
def test_gpu_facts_without_unsupported_queries():
    facts = fingerprint.now({})
    assert facts["driver"] == "560.35"
    assert facts["gpu"] == "NVIDIA H200; SM clock, MHz 1980; power limit, mW 700"
    apart = fingerprint.now({"KV_ISOLATE": "1"})
    assert (facts["processes"], apart["processes"]) == ("one for a GPU's series", "one for each series")


def test_gpu_facts_of_equal_and_different_gpus(two_gpus):
    two_gpus["handle of GPU-1"] = 500
    assert fingerprint.now({})["gpu"].count("NVIDIA H200") == 2
    assert fingerprint.now({"CUDA_VISIBLE_DEVICES": "GPU-1"})["gpu"].endswith("power limit, mW 500")


@pytest.mark.usefixtures("two_gpus")
def test_gpu_facts_absent_without_a_driver(monkeypatch):
    pretend_nvml.refused.add("nvmlInit")
    assert not {"driver", "gpu"} & fingerprint.now({}).keys()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert not {"driver", "gpu"} & fingerprint.now({}).keys()


def test_facts_do_not_import_torch():
    script = (
        "import sys; from kernel_velocity.runner.fingerprint import now; now({}); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("text", "cuda"),
    [("cuda: Optional[str] = None\n", None), ("cuda: Optional[str] = '12.8'\n", "12.8"), ("cuda = '11.8'\n", "11.8")],
)
def test_cuda_version_of_torch(tmp_path, monkeypatch, text, cuda):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    (tmp_path / "torch" / "version.py").write_text(f"__version__ = '2.13'\n{text}")
    spec = types.SimpleNamespace(origin=str(tmp_path / "torch" / "__init__.py"))
    monkeypatch.setattr(fingerprint.importlib.util, "find_spec", lambda name: spec)
    assert fingerprint.now({}).get("cuda") == cuda


KERNELS = {"matmul": {"code_hash": "1", "ptxas": []}, "relu": {"code_hash": "2"}}


@pytest.fixture
def wheel(tmp_path):
    """An unpacked wheel of two kernels."""
    folder = tmp_path / "unpacked"
    (folder / BUILD_INFO).parent.mkdir(parents=True)
    info = {"cxx_compiler": "GNU", "cxx_compiler_version": "12.2", "cuda_compiler_version": None, "kernels": KERNELS}
    (folder / BUILD_INFO).write_text(json.dumps(info))
    (folder / "kernels" / "__init__.py").write_text("")
    (folder / BUILD_INFO).with_name("launch.py").write_text("")
    return folder


def recorded(wheel):
    """Return the session as it is recorded."""
    return sessions.decode(sessions.encode(fingerprint.session(5.0, wheel, {})))


def test_record_holds_the_machine_the_compilers_and_the_code(wheel):
    session = recorded(wheel)
    assert session.began == 5.0
    assert session.code == fingerprint.code_hashes(wheel) and session.code.keys() == KERNELS.keys()
    assert session.facts["cxx compiler version"] == "12.2" and "cuda compiler version" not in session.facts
    assert sessions.COMPILERS & session.facts.keys() == {"cxx compiler", "cxx compiler version"}


def test_record_holds_the_instruction_set_of_the_library(wheel):
    assert "isa" not in recorded(wheel).facts
    library = (wheel / BUILD_INFO).with_name("libkernel_velocity.so")
    library.write_bytes(b"of another system")
    assert fingerprint.isa_of(wheel) == {}
    library.unlink()
    shutil.copy(Path(kernels.__file__).parent / "_native" / library.name, library)
    assert fingerprint.isa_of(wheel) == {"isa": kernels.cpu_isa()}


def test_empty_code_hash_is_unknown(wheel):
    path = wheel / "kernels" / "build-info.json"
    path.write_text(json.dumps({"kernels": {"matmul": {"code_hash": ""}, "relu": {"code_hash": "2"}}}))
    assert fingerprint.code_hashes(wheel).keys() == {"relu"}


def test_code_hash_differs_by_kernel_and_follows_its_own_code(wheel):
    before = fingerprint.code_hashes(wheel)
    assert before["matmul"] != before["relu"]
    changed = {"kernels": KERNELS | {"relu": {"code_hash": "3"}}}
    (wheel / BUILD_INFO).write_text(json.dumps(changed))
    after = fingerprint.code_hashes(wheel)
    assert after["matmul"] == before["matmul"] and after["relu"] != before["relu"]


@pytest.mark.parametrize("path", ["kernels/__init__.py", "kernels/_native/launch.py", "kernels/_native/new.py"])
def test_shared_python_files_are_code_of_every_kernel(wheel, path):
    before = fingerprint.code_hashes(wheel)
    (wheel / path).write_text("changed")
    after = fingerprint.code_hashes(wheel)
    assert all(after[kernel] != before[kernel] for kernel in KERNELS)


@pytest.mark.parametrize("text", ["{", '{"kernels": 5}', '{"kernels": {"a": 1, "matmul": {"code_hash": 5}}}', None])
def test_malformed_build_info_has_no_code_hashes(wheel, text):
    (wheel / BUILD_INFO).unlink() if text is None else (wheel / BUILD_INFO).write_text(text)
    assert fingerprint.code_hashes(wheel) == {}


def test_toolchain_is_its_compilers_and_settings(tmp_path, monkeypatch):
    for name, output in (("g++", "g++ 12"), ("nvcc", "nvcc\nBuild 13.0")):
        (tmp_path / name).write_text(f"#!/bin/sh\nprintf '{output}\\n'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(fingerprint, "DEFAULT_CUDA", str(tmp_path / "none"))
    assert fingerprint.toolchain({"KV_CUDA": "ON"}, Project()) == "g++ 12; Build 13.0; KV_CUDA=ON"
    (tmp_path / "nvcc").unlink()
    assert (
        fingerprint.toolchain({"CXX": "no-such"}, Project(toolchain=("printf '1.2\\n'",)))
        == "no C++ compiler; no nvcc; 1.2"
    )


@pytest.mark.parametrize(
    "recorded",
    [{"matmul": {}}, {"matmul": {"ptxas": [{"architecture": "sm_90"}]}}, None],
)
def test_a_wheel_without_figures_of_the_cuda_compiler_has_none(recorded):
    assert compiled.ptxas_of({"kernels": recorded}) == {}


def test_registers_and_spills_are_maxima_over_functions():
    def function(architecture, registers, stored, loaded):
        return {
            "architecture": architecture,
            "registers": registers,
            "spill_store_bytes": stored,
            "spill_load_bytes": loaded,
        }

    figures = [function("sm_90", 168, 0, 0), function("sm_80", 32, 4, 8), function("sm_90", 40, 16, 0)]
    assert compiled.ptxas_of({"kernels": {"matmul": {"ptxas": figures}}}) == {
        "matmul": "sm_80: 32 registers, 12 bytes spilled; sm_90: 168 registers, 16 bytes spilled"
    }
