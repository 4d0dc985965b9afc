"""The planted history, built: code changes where it should, and products are right but for one.

Nothing is timed: how much slower a commit is follows from its work (edits.factor), and a night tells (nights.py).
"""

import ctypes
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kernels
from kernel_velocity import lock
from kernels._native import write_build_info
from tests.planted import history
from tests.planted.history import Kind

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SIZE = 256  # the sizes of the product, and a test case of tier core
OBJECT = Path(f"CMakeFiles/kv_{kernels.cpu_isa()}.dir/kernels/matmul/matmul.cpp.o")  # of what runs here
KINDS = (Kind.START, Kind.SAME_CODE, Kind.SLOWER, Kind.SAME_SPEED, Kind.UNBUILDABLE, Kind.WRONG, Kind.FASTER)


class Build:
    """A commit's library and its build-info.json."""

    def __init__(self, folder):
        info = json.loads((folder / "build-info.json").read_text())
        self.hashes = {name: kernel["code_hash"] for name, kernel in info["kernels"].items()}
        self.machine_code = b"".join(
            code for _, code in write_build_info.elf_sections((folder / OBJECT.name).read_bytes(), (".text",))
        )
        self._call = ctypes.CDLL(str(folder / "libkernel_velocity.so")).kv_matmul_cpu
        pointer = np.ctypeslib.ndpointer(np.float32, flags="C_CONTIGUOUS")
        self._call.argtypes = [pointer] * 3 + [ctypes.c_int64] * 3 + [ctypes.c_int]

    def product(self, a, b):
        c = np.full((SIZE, SIZE), np.nan, dtype=np.float32)
        assert self._call(a, b, c, SIZE, SIZE, SIZE, 1) == 0
        return c


def run(folder, *command):
    """Run a command with the programs of this environment."""
    variables = {name: text for name, text in os.environ.items() if name == lock.FOLDER or not name.startswith("KV_")}
    variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    return folder / "repository", history.make(folder / "repository")


@pytest.fixture(scope="module")
def builds(manifest):
    """The commits of KINDS by their place in the history. The text of its failure for one that does not build."""
    folder, planted = manifest
    assert run(folder, "cmake", "-S", ".", "-B", "build", "-G", "Ninja").returncode == 0
    return {index: _built(folder, commit.commit) for index, commit in enumerate(planted) if commit.kind in KINDS}


def _built(folder, commit):
    assert run(folder, "git", "checkout", "-q", commit).returncode == 0
    done = run(folder, "cmake", "--build", "build")
    if done.returncode != 0:
        return done.stdout
    target = folder.parent / commit
    target.mkdir()
    for name in ("libkernel_velocity.so", "build-info.json", OBJECT):
        shutil.copy(folder / "build" / name, target)
    return Build(target)


def positions(manifest, kind):
    return [index for index, commit in enumerate(manifest[1]) if commit.kind is kind]


def test_one_commit_does_not_build_and_the_compiler_says_where(manifest, builds):
    (index,) = positions(manifest, Kind.UNBUILDABLE)
    assert [number for number, build in builds.items() if isinstance(build, str)] == [index]
    assert "float32_blocks_cpu.h" in builds[index]


def test_code_hash_knows_which_refactoring_changed_the_code(manifest, builds):
    (start,), (same_code,) = positions(manifest, Kind.START), positions(manifest, Kind.SAME_CODE)
    slower, much_slower = positions(manifest, Kind.SLOWER)
    wider, python = positions(manifest, Kind.SAME_SPEED)
    matmul, quantize = (
        {index: build.hashes[kernel] for index, build in builds.items() if isinstance(build, Build)}
        for kernel in ("matmul", "quantize_int8")
    )
    assert matmul[same_code] == matmul[start]
    assert len({matmul[index] for index in (start, slower, wider, much_slower)}) == 4
    assert matmul[python] == matmul[much_slower]
    assert quantize[much_slower] == quantize[start] != quantize[python]


def test_change_of_speed_moves_no_code(manifest, builds):
    """Alignment alone can cost a few percent: what is planted is work alone, and what is innocent nothing."""
    timed = [index for index in builds if manifest[1][index].factor is not None]
    for earlier, later in itertools.pairwise(builds[index].machine_code for index in timed):
        assert len(earlier) == len(later)
        assert (
            sum(entry != other for entry, other in zip(earlier, later, strict=True)) <= 16
        )  # constants in instructions


def test_all_products_are_right_but_one(manifest, builds):
    random = np.random.default_rng(7)
    a, b = (random.standard_normal((SIZE, SIZE), dtype=np.float32) for _ in range(2))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    (wrong,) = positions(manifest, Kind.WRONG)
    for index, build in builds.items():
        if isinstance(build, Build):
            assert (np.abs(build.product(a, b) - exact).max() > 0.1) == (index == wrong), index
