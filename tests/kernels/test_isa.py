"""The choice among instruction sets: what KV_ISA and `choose_isa` take and refuse. No code leaves its object."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kernels
from kernels._native import library
from kernels._native.errors import ArgumentValueError
from kernels._native.write_build_info import BuildInfoError, check_variants
from tests.kernels.stand_in import HostTensor, float32_values

ROOT = Path(kernels.__file__).parents[1]
KV_ERROR_ISA = 6
COMPILER = os.environ.get("CXX", "c++")
TELL = """
import ctypes, kernels
from kernels._native.library import LIBRARY
size, number = ctypes.c_int64, ctypes.c_float
print(LIBRARY.kv_isa())
print(LIBRARY["kv_add_mul_exp_cpu"](None, None, None, size(0), 1))
print(LIBRARY["kv_quantize_int8_cpu"](None, None, size(0), number(1), 0, 1))
print(LIBRARY["kv_matmul_cpu"](None, None, None, size(0), size(0), size(0), 1))
try:
    print(kernels.cpu_isa())
except ValueError as error:
    print(error)
"""


@pytest.fixture
def put_back():
    """Whatever a test chooses, the next one finds what it was."""
    yield
    library.choose_isa(None)


def process_with(isa: str | None) -> list[str]:
    """Return what a fresh process says with KV_ISA set to this."""
    environment = {name: value for name, value in os.environ.items() if name != "KV_ISA"}
    if isa is not None:
        environment["KV_ISA"] = isa
    command = [sys.executable, "-c", TELL]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_isa_of_this_cpu():
    assert set(library.cpu_isas()) <= set(kernels.build_info()["isas"])
    assert kernels.cpu_isa() in library.cpu_isas()


@pytest.mark.skipif(not {"sse2", "avx2"} <= set(library.cpu_isas()), reason="this CPU has no FMA")
def test_chosen_isa_runs(put_back):
    a, b = float32_values(1, (30, 300)), float32_values(2, (300, 40))
    products, usual = {}, kernels.cpu_isa()
    for isa in ("sse2", "avx2"):
        library.choose_isa(isa)
        products[isa] = kernels.matmul(HostTensor(a), HostTensor(b)).array
    library.choose_isa(None)
    assert kernels.cpu_isa() == usual
    assert np.any(products["sse2"] != products["avx2"])  # SSE2 rounds the products, too
    np.testing.assert_allclose(products["sse2"], products["avx2"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["avx1024", "AVX2", "", "avx512 "])
def test_unknown_isa_is_refused(put_back, name):
    before = library.cpu_isas()[0]
    library.choose_isa(before)
    with pytest.raises(ArgumentValueError, match=rf"isa: got '{name}', wanted .*{before}.*: what this build has"):
        library.choose_isa(name)
    assert library.LIBRARY.kv_choose_isa(name.encode()) == KV_ERROR_ISA
    assert kernels.cpu_isa() == before
    assert "KV_ISA" in library.status_text(KV_ERROR_ISA)


def test_kv_isa_is_read_at_first_use():
    slowest, best = library.cpu_isas()[0], library.cpu_isas()[-1]
    assert process_with(slowest) == [repr(slowest.encode()), "0", "0", "0", slowest]
    assert process_with("") == [repr(best.encode()), "0", "0", "0", best]
    refused = [str(KV_ERROR_ISA)] * 3
    *statuses, message = process_with("mmx")
    assert statuses == ["None", *refused]
    assert message.startswith("KV_ISA: got 'mmx', wanted ") and slowest in message


def compiled(folder: Path, source: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "source.cpp").write_text(source)
    # Without optimisation: what is inline is kept as a function.
    subprocess.run([COMPILER, "-O0", "-c", "source.cpp", "-o", "kernel.cpp.o"], cwd=folder, check=True)
    return folder / "kernel.cpp.o"


def test_code_that_leaves_its_object_is_refused(tmp_path):
    shared = compiled(tmp_path / "shared", "int kv_shared() { return 1; }")
    plain = compiled(tmp_path / "sse2", "int kv_f_sse2(int x) { return x; }")
    inline = "inline int twice(int x) { return 2 * x; }\nint kv_f_ISA(int x) { return twice(x); }"
    leaking = compiled(tmp_path / "avx2", inline.replace("ISA", "avx2"))
    first = compiled(tmp_path / "first", inline.replace("ISA", "sse2"))
    hidden = compiled(tmp_path / "hidden", f"namespace {{\n{inline.replace('int kv', '} int kv')}")
    with pytest.raises(BuildInfoError, match=r"avx2/kernel\.cpp\.o: its code for avx2 holds _Z5twicei, .* anonymous"):
        check_variants([shared], [("sse2", [plain]), ("avx2", [leaking])])
    check_variants([shared], [("sse2", [first]), ("avx2", [leaking])])  # the linker keeps the first
    check_variants([shared, first], [("sse2", [plain]), ("avx2", [leaking])])
    check_variants([shared], [("sse2", [plain]), ("avx2", [hidden])])
    check_variants([shared], [("baseline", [leaking])])
