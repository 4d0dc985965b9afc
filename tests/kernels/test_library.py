"""The loader, the build's own description of itself, and what a machine without CUDA is told."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kernels
from kernels._native import library
from kernels._native.errors import LibraryError
from kernels._native.write_build_info import ptxas_figures

PTXAS_TEXT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'kv_b' for 'sm_90'
ptxas info    : Function properties for kv_b
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 16384 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 16.716 ms
ptxas info    : Compiling entry function 'kv_a' for 'sm_80'
ptxas info    : Function properties for kv_a
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 0 barriers, 380 bytes cmem[0]
"""


def test_missing_library_says_what_to_run(tmp_path):
    with pytest.raises(LibraryError, match=r"looked for .*libkernel_velocity\.so\): run `make build`"):
        library.load(tmp_path)


def test_library_of_another_system_is_refused(tmp_path):
    (tmp_path / library.LIBRARY_NAME).write_bytes(b"not a library")
    with pytest.raises(LibraryError, match=r"does not load: .* probably built on another system"):
        library.load(tmp_path)


def test_broken_build_info_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    with pytest.raises(LibraryError, match=r"build-info\.json does not tell how"):
        library.build_info()
    (tmp_path / "build-info.json").write_text("{")
    with pytest.raises(LibraryError, match=r"build-info\.json does not tell how"):
        library.build_info()


def test_build_info_describes_every_kernel():
    info = kernels.build_info()
    assert sorted(info["kernels"]) == list(kernels.KERNELS)
    assert info["build_type"] == "Release"
    assert "-O3" in info["cxx_flags"]
    assert "fast-math" not in info["cxx_flags"] + (info["cuda_flags"] or "")
    assert all(len(kernel["code_hash"]) == 64 for kernel in info["kernels"].values())
    assert len({kernel["code_hash"] for kernel in info["kernels"].values()}) == len(kernels.KERNELS)


@pytest.mark.skipif(not library.HAS_CUDA, reason="built without CUDA kernels")
def test_no_cuda_kernel_spills_registers():
    info = kernels.build_info()
    products = {figure["function"] for figure in info["kernels"]["matmul"]["ptxas"]}  # of all its files
    dtypes, paths = ("", "float16_", "bfloat16_", "int8_"), ("64_vector", "64_scalar", "128_vector", "128_scalar")
    assert {f"kv_matmul_{dtype}{path}" for dtype in dtypes for path in paths} <= products
    for name, kernel in info["kernels"].items():
        on_hopper = ["_hopper_" in figure["function"] for figure in kernel["ptxas"]]
        architectures = {
            (alone, figure["architecture"]) for alone, figure in zip(on_hopper, kernel["ptxas"], strict=True)
        }
        wanted = {(False, architecture) for architecture in info["cuda_architectures"]}
        assert architectures == wanted | ({(True, "sm_90a")} if any(on_hopper) else set()), name
        for figure in kernel["ptxas"]:
            assert figure["registers"] > 0
            assert (figure["spill_store_bytes"], figure["spill_load_bytes"]) == (0, 0), figure


def test_importing_needs_neither_torch_nor_numpy():
    code = "import sys, kernels; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    root = Path(kernels.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_loading_makes_no_cuda_call():
    code = "import kernels, pathlib; print('libcuda' in pathlib.Path('/proc/self/maps').read_text())"
    root = Path(kernels.__file__).parents[1]
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == "False"


@pytest.mark.skipif(not library.HAS_CUDA, reason="built without CUDA kernels")
def test_cuda_runtime_is_private():
    with pytest.raises(AttributeError):
        _ = library.LIBRARY["cudaGetDeviceCount"]


STARVED = """
import ctypes, resource, pathlib, kernels
from kernels._native.library import LIBRARY, status_text
n = 4_000_000
x = (ctypes.c_float * n)()
used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 200_000, used + 200_000))
size = ctypes.c_int64
print(status_text(LIBRARY["kv_add_mul_exp_cpu"](x, x, x, size(n), 64)))
print(status_text(LIBRARY["kv_matmul_cpu"](x, x, x, size(1000), size(1000), size(1000), 1)))
print(status_text(LIBRARY["kv_add_mul_exp_cpu"](x, x, x, size(n), 1)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_missing_memory_is_a_status():
    root = Path(kernels.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", STARVED], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "the system refused to start a thread",
        "the system refused memory for a work buffer",
        "ok",
    ]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ((0, 13000, 0, "no CUDA-capable device"), "no CUDA driver on this machine"),
        (
            (12040, 13000, 0, "insufficient"),
            r"driver too old: it supports CUDA 12\.4; CUDA 13 needs driver 580 or newer",
        ),
        ((13000, 13000, 0, "no CUDA-capable device is detected"), "no usable CUDA device: no CUDA-capable device"),
        ((13000, 13000, 0, ""), "no usable CUDA device: the driver lists none"),
        ((13010, 12080, 8, ""), "$"),  # none: it can
    ],
)
def test_reason_without_cuda(facts, expected):
    assert re.match(expected, library.explain_cuda(*facts) or "")


def test_ptxas_figures_are_read():
    figures = ptxas_figures(PTXAS_TEXT)
    assert [tuple(figure.values()) for figure in figures] == [
        ("kv_a", "sm_80", 24, 0, 0, 0, 0),
        ("kv_b", "sm_90", 128, 16384, 16, 8, 12),
    ]


@pytest.mark.cuda
def test_failed_cuda_call_leaves_no_error():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    native = ctypes.CDLL(library.LIBRARY._name).kv_add_mul_exp_cuda
    native.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64, ctypes.c_int, ctypes.c_void_p]
    x, out = torch.ones(8, device="cuda"), torch.empty(8, device="cuda")
    arguments = (x.data_ptr(), x.data_ptr(), out.data_ptr(), 8)
    assert native(*arguments, 99, None) > 1000
    assert native(*arguments, 0, None) == 0
