"""Solutions that time a region of themselves (include/kernel_velocity.h): verified as any, timed by their own clock."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

import kernel_velocity
from kernel_velocity.compare.api import compare
from kernel_velocity.compare.solutions import binder
from tests.compare.doubling import EAGER, QUICK, Doubling

pytest.importorskip("torch", reason="implementations compute with torch tensors")
pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
INCLUDE = Path(kernel_velocity.__file__).parent / "include"
SOLUTION = """
#include "kernel_velocity.h"
#include <cstddef>

extern "C" void solution(const float* x, float* out, size_t n) {
    const auto doubled = [=] { for (size_t i = 0; i < n; ++i) out[i] = 2 * x[i]; };
    BODY
}
"""


@pytest.fixture
def mine(tmp_path):
    def timed(body):
        """Return what became of a solution on the small case."""
        (tmp_path / "mine.cpp").write_text(SOLUTION.replace("BODY", body))
        strict = ("-std=c++17", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{INCLUDE}", "-shared", "-fPIC")
        subprocess.run(["c++", *strict, "mine.cpp", "-o", "mine.so"], cwd=tmp_path, check=True)
        problem = Doubling()
        both = {**EAGER, "mine": binder(tmp_path / "mine.so", problem)}
        (compared,) = compare(problem, both, cases="small", settings=QUICK).compared
        return compared.timed[1]

    return timed


def test_time_is_what_the_region_says(mine):
    result = mine("kv::region_manually([&] { doubled(); return .25; });")
    assert (result.status, result.estimates) == ("right", (0.25, 0.25))
    assert result.function < 0.25  # by our clock
    assert any("mine times a region of itself" in note for note in result.notes)


def test_times_of_several_regions_are_added(mine):
    quarter = "kv::region_manually([&] { doubled(); return .125; });"
    assert mine(2 * quarter).estimates == (0.25, 0.25)


def test_region_by_the_clock_leaves_out_what_is_around_it(mine):
    around = "const double slow = kv::by_clock(1, [] { for (kv::Timer t; t.seconds() < .002;) kv::clobber(); });"
    result = mine(f"{around} kv::keep(slow); kv::region(doubled);")
    assert result.status == "right"
    assert min(result.samples) < 0.002 <= result.function
    assert any("its whole function takes" in note and "its region" in note for note in result.notes)


def test_region_that_accumulates_is_wrong(mine):
    """It is right where it runs once, as in the first check, and wrong as it is timed."""
    assert "out is wrong" in mine("doubled(); float more = 0; kv::region([&] { out[0] += more++; });").failed


def test_region_that_is_not_entered_is_named(mine):
    result = mine("doubled(); if (n == 0) kv::region(doubled);")
    assert result.failed == "raised RegionError: it did not enter its region (kv::region)"


def test_header_alone_leaves_the_call_timed(mine):
    result = mine("doubled(); kv::keep(out);")
    assert (result.status, result.notes) == ("right", ())


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
def test_region_of_cuda_compiles(tmp_path):
    kernel = "__global__ void doubled(const float* x, float* out) { out[threadIdx.x] = 2 * x[threadIdx.x]; }\n"
    body = "kv::region([&] { doubled<<<1, n>>>(x, out); });"
    solution = SOLUTION.replace('extern "C"', f'{kernel}extern "C"').replace("BODY", body)
    (tmp_path / "mine.cu").write_text("\n".join(line for line in solution.splitlines() if "const auto" not in line))
    command = ["nvcc", "-std=c++17", f"-I{INCLUDE}", "-shared", "-Xcompiler", "-fPIC", "mine.cu", "-o", "mine.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert ctypes.c_int64.in_dll(ctypes.CDLL(str(tmp_path / "mine.so")), "kv_region").value == 0
