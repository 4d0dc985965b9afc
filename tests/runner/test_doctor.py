"""`kv doctor`: its text on a pretended H200, the rows that decide, and the command on this machine."""

import dataclasses
import inspect
import io
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernel_velocity.__main__ import main
from kernel_velocity.errors import UsageError
from kernel_velocity.problem import implementations
from kernel_velocity.runner import doctor
from tests.commands import kv
from tests.engine import pretend_nvml
from tests.golden import check_golden
from tests.package_graph import ROOT

INFO = {
    "cuda_compiler_version": "13.0.88",
    "cuda_architectures": ["sm_80", "sm_90"],
    "kernels": {"matmul": {"ptxas": [{"architecture": "sm_90a"}]}},
}
BUILT = ["sm_80", "sm_90", "sm_90a"]
NODE = doctor.Facts(
    torch="2.11.0+cu130",
    torch_cuda="13.0",
    gpus=["NVIDIA H200"],
    reason=None,
    driver="580.1",
    numpy=True,
    toolchain="c++ 13; no nvcc; KV_CUDA=ON",
)


@pytest.fixture
def node(monkeypatch):
    """A pretended node with an H200, whose every fact is fixed."""
    pretend_nvml.reset()
    monkeypatch.setitem(sys.modules, "pynvml", pretend_nvml)
    monkeypatch.setattr(doctor, "_version", "version of {}".format)
    monkeypatch.setattr(doctor.platform, "python_version", lambda: "3.12.3")
    monkeypatch.setattr(doctor.sys, "executable", "/env/bin/python")
    monkeypatch.setattr(doctor.fingerprint, "now", lambda _: {"cpu": "Xeon", "governor": "powersave"})
    monkeypatch.setattr(doctor.os, "getloadavg", lambda: (0.2, 0, 0))
    monkeypatch.setattr(doctor.os, "sched_getaffinity", lambda _: range(16))
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=1e9))
    monkeypatch.setattr(doctor, "SMT", Path("/none"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.chdir(ROOT)
    yield NODE
    assert pretend_nvml.opened == []
    pretend_nvml.reset()


def test_text_on_an_h200(node, accept):
    pretend_nvml.processes[:] = [(7, 2**30), (1, None)]
    pretend_nvml.reasons[:] = [0x3]
    rows = [*doctor.software(node, INFO), *doctor.gpus(node, INFO), *doctor.host()]
    reasons = [*doctor.lacking(node), ("Cuda, native of matmul", "not built: run `make build`")]
    text = doctor.text(rows, reasons, doctor.first_commands(node, reasons))
    check_golden(Path(__file__).parent / "golden" / "doctor.txt", text + "\n", accept=accept)


def test_gpu_alone_and_without_a_lock(node):
    pretend_nvml.processes.clear()
    rows = dict(doctor.gpus(node, INFO))
    assert rows["  processes"] == "none that NVML lists"
    assert rows["  SM clock"].endswith("no lock")


def test_gpu_without_nvml(node, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    ((_, row),) = doctor.gpus(node, INFO)
    assert row.startswith("NVIDIA H200; ") and "pynvml is not installed" in row
    assert doctor.gpus(dataclasses.replace(node, driver=None), INFO) == [("GPU", "none")]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"torch_cuda": None, "gpus": []}, "NVIDIA driver 580.1, but torch 2.11.0+cu130 is a CPU build"),
        ({"reason": "no kernel image is available"}, "no kernel image is available"),
        ({}, "no nvcc (looked in CUDACXX"),
        ({"toolchain": "c++ 13; nvcc 13", "numpy": False}, "no NumPy beside torch"),
        ({"driver": None, "gpus": []}, "no NVIDIA driver: the CPU is measured, and no GPU"),
    ],
)
def test_lack_of_a_machine_is_one_line(fields, reason):
    ((_, line),) = doctor.lacking(dataclasses.replace(NODE, **fields))
    assert reason in line


def test_torch_that_cannot_be_imported_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.13: cannot open shared object file')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"torch cannot be imported by .*libcudart.so.13: cannot open") as caught:
        doctor.gather()
    assert sys.executable in str(caught.value)


@pytest.mark.parametrize(
    ("capability", "built", "code"),
    [
        ("9.0", BUILT, "sm_90 and sm_90a"),
        ("8.9", BUILT, "sm_80"),
        ("10.0", BUILT, "PTX of sm_90, which .* -> KV_CUDA_ARCHITECTURES=sm_100 make build"),
        ("7.5", BUILT, "none -> KV_CUDA_ARCHITECTURES=sm_75 make build"),
        ("8.0", ["sm_86"], "none -> .*"),
    ],
)
def test_machine_code_of_a_capability(capability, built, code):
    assert re.fullmatch(code, doctor.machine_code(capability, built))


@pytest.mark.parametrize(
    ("driver", "built", "fit"),
    [(13000, "13.1", ", fits our"), (12080, "13.0", ", too old for our"), (13000, None, "CUDA 13.0"), (0, "13.0", "")],
)
def test_driver_fits_the_cuda_of_the_build(driver, built, fit):
    assert fit in doctor.driver_fit(driver, built) and (driver or doctor.driver_fit(driver, built) == "")


def test_every_cure_is_of_a_text_of_the_code():
    ours = (f"tools/kernel_velocity/{name}" for name in ("engine", "problem", "machine", "suite", "runner"))
    rooms = ("kernels/_native", *ours)
    paths = [path for room in rooms for path in (ROOT / room).glob("*.py") if path.name != "doctor.py"]
    sources = "\n".join([*(path.read_text() for path in paths), inspect.getsource(doctor.lacking)])
    assert not [part for part in doctor.CURES if part not in sources]


def test_missing_names_what_the_checks_refuse(monkeypatch):
    bench = SimpleNamespace(params=[["eager", "native", "triton"], ["float32-1M", "int8-1M"]], problem=None)
    suite = SimpleNamespace(modules=lambda: ["matmul", "relu", "ceilings"])
    suite.benchmark = lambda kernel, _: None if kernel == "ceilings" else bench

    def refuse(implementation, _problem, case):
        if implementation == "native" and case.startswith("int8"):
            raise NotImplementedError("not int8")
        if implementation == "triton":
            raise ImportError("not built")

    monkeypatch.setattr(doctor, "check", refuse)
    monkeypatch.setattr(doctor, "prepare_torch", lambda _: None)
    monkeypatch.setattr(doctor.timing, "flush_size", lambda _: 1)
    reasons = [("Cpu, native of matmul, relu", "not int8"), ("Cpu, triton of matmul, relu", "not built")]
    assert doctor.missing(suite, "cpu", has_driver=False) == reasons

    def no_device(_):
        raise NotImplementedError("no CUDA device")

    monkeypatch.setattr(doctor, "prepare_torch", no_device)
    first = ("Cuda, every series", "no CUDA device")
    assert doctor.missing(suite, "cuda", has_driver=False) == [first]
    with_driver = doctor.missing(suite, "cuda", has_driver=True)
    assert with_driver[0] == first and len(with_driver) == 3


def test_check_is_what_bind_raises(monkeypatch):
    problem = SimpleNamespace(device="cuda", functions={}, implementations_on=lambda _: ["compile", "eager"])
    monkeypatch.setattr(implementations.importlib.util, "find_spec", lambda _: None)
    implementations.check("eager", problem, "float32-1M")
    for implementation, why in (("compile", "needs Triton on CUDA"), ("triton", "Triton needs a CPU")):
        with pytest.raises(NotImplementedError, match=why):
            implementations.check(implementation, problem, "float32-1M")


def test_command_without_torch_or_a_repository_is_no_failure(tmp_path, monkeypatch):
    def refuse():
        raise UsageError("torch cannot be imported by python: no libcudart")

    monkeypatch.setattr(doctor, "installed_torch", lambda: "2.13.0")  # this Python may have none
    monkeypatch.setattr(doctor, "gather", refuse)
    out = io.StringIO()
    assert main(["doctor", "--root", str(tmp_path)], out, out) == 0
    assert "- every series: torch cannot be imported by python: no libcudart\n" in out.getvalue()
    assert "no asv.conf.json here" in out.getvalue().replace("\n  ", " ")


def test_root_that_is_no_folder_is_named(tmp_path):
    message = f"error: --root {tmp_path / 'none'}: no such folder; name the folder of asv.conf.json\n"
    assert kv("doctor", "--root", tmp_path / "none") == (2, "", message)


def test_command_in_this_repository(monkeypatch):
    pytest.importorskip("torch", reason="the suite is asked with PyTorch")
    monkeypatch.chdir(ROOT)
    out = io.StringIO()
    assert main(["doctor"], out, out) == 0
    assert re.search(r"- Cpu, .*triton of add_mul_exp, .*: Triton needs a CUDA device", out.getvalue())
    assert "kv track" in out.getvalue().partition("What to run first")[2]


def test_newer_versions_than_tested_are_named():
    versions = dict.fromkeys(doctor.TESTED, "not installed") | {
        "torch": "2.99.0+cu140",
        "asv": "0.6.6",
        "numpy": "2.4.9",
    }
    assert [*doctor.newer_than_tested(versions)] == [
        "torch 2.99.0+cu140 is newer than 2.13, the newest that was tested"
    ]
