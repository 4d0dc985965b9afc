"""The planted history, built: code changes where it should, products are right but for one, the speed is as planted.

No sampling of times here: a call takes a fraction of a millisecond, sides take turns, and the fastest of thousands
counts, which a busy machine leaves alone. It shows the plant, not the detector.
"""

import ctypes
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
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
PATIENCE = 20.0  # s
TURNS = 500
KINDS = (Kind.START, Kind.SAME_CODE, Kind.SLOWER, Kind.SAME_SPEED, Kind.UNBUILDABLE, Kind.WRONG, Kind.FASTER)


class Build:
    """A commit's library and what was written about it."""

    def __init__(self, folder):
        self.hashes = {
            name: kernel["code_hash"]
            for name, kernel in json.loads((folder / "build-info.json").read_text())["kernels"].items()
        }
        self.machine_code = b"".join(
            code for _, code in write_build_info.elf_sections((folder / OBJECT.name).read_bytes(), (".text",))
        )
        self._call = ctypes.CDLL(str(folder / "libkernel_velocity.so")).kv_matmul_cpu
        pointer = np.ctypeslib.ndpointer(np.float32, flags="C_CONTIGUOUS")
        self._call.argtypes = [pointer] * 3 + [ctypes.c_int64] * 3 + [ctypes.c_int]

    def product(self, a, b, c):
        """Multiply; return the seconds it took."""
        began = time.perf_counter()
        status = self._call(a, b, c, SIZE, SIZE, SIZE, 1)
        spent = time.perf_counter() - began
        assert status == 0
        return spent


def run(folder, *command):
    """Run a command with the programs of this environment; return it ended, whatever its status."""
    kept = {name: text for name, text in os.environ.items() if name == lock.FOLDER or not name.startswith("KV_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(command, cwd=folder, env={**kept, "PATH": path}, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    return folder / "repository", history.make(folder / "repository")


@pytest.fixture(scope="module")
def builds(manifest):
    """The commits of KINDS by their place in the history; the text of its failure for one that does not build."""
    folder, planted = manifest
    assert run(folder, "cmake", "-S", ".", "-B", "build", "-G", "Ninja").returncode == 0
    return {place: _built(folder, item.commit) for place, item in enumerate(planted) if item.kind in KINDS}


def _built(folder, commit):
    assert run(folder, "git", "checkout", "-q", commit).returncode == 0
    done = run(folder, "cmake", "--build", "build")
    if done.returncode != 0:
        return done.stdout
    kept = folder.parent / commit
    kept.mkdir()
    for name in ("libkernel_velocity.so", "build-info.json", OBJECT):
        shutil.copy(folder / "build" / name, kept)
    return Build(kept)


def places(manifest, kind):
    return [place for place, item in enumerate(manifest[1]) if item.kind is kind]


def operands():
    random = np.random.default_rng(7)
    a, b = (random.standard_normal((SIZE, SIZE), dtype=np.float32) for _ in range(2))
    return a, b, np.zeros((SIZE, SIZE), dtype=np.float32)


def test_one_does_not_build_and_the_compiler_says_where(manifest, builds):
    (place,) = places(manifest, Kind.UNBUILDABLE)
    assert isinstance(builds[place], str)
    assert "float32_blocks_cpu.h" in builds[place]
    assert len([build for build in builds.values() if isinstance(build, str)]) == 1


def test_the_code_hash_knows_which_refactoring_changed_the_code(manifest, builds):
    (start,), (same_code,) = places(manifest, Kind.START), places(manifest, Kind.SAME_CODE)
    slower, much_slower = places(manifest, Kind.SLOWER)
    wider, python = places(manifest, Kind.SAME_SPEED)
    matmul = {place: build.hashes["matmul"] for place, build in builds.items() if isinstance(build, Build)}
    assert matmul[same_code] == matmul[start]
    assert len({matmul[place] for place in (start, slower, wider, much_slower)}) == 4
    assert matmul[python] == matmul[much_slower]
    quantize = {place: build.hashes["quantize_int8"] for place, build in builds.items() if isinstance(build, Build)}
    assert quantize[much_slower] == quantize[start] != quantize[python]


def test_a_change_of_speed_moves_no_code(manifest, builds):
    """Alignment alone can cost a few percent: what is planted is work alone, and what is innocent nothing."""
    timed = [place for place in builds if manifest[1][place].factor is not None]
    for earlier, later in itertools.pairwise(builds[place].machine_code for place in timed):
        assert len(earlier) == len(later)
        assert sum(one != other for one, other in zip(earlier, later, strict=True)) <= 16  # constants in instructions


def test_all_products_are_right_but_one(manifest, builds):
    a, b, c = operands()
    exact = a.astype(np.float64) @ b.astype(np.float64)
    (wrong,) = places(manifest, Kind.WRONG)
    for place, build in builds.items():
        if isinstance(build, Build):
            c.fill(np.nan)
            build.product(a, b, c)
            assert (np.abs(c - exact).max() > 0.1) == (place == wrong), place


def fastest(first, second):
    """Return the fastest call of each, in turns; until that changes no more, or patience ends."""
    a, b, c = operands()
    best = [np.inf, np.inf]
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        before = tuple(best)
        for _ in range(TURNS):
            for side, build in enumerate((first, second)):
                best[side] = min(best[side], build.product(a, b, c))
        if max(was / now for was, now in zip(before, best, strict=True)) < 1.001:
            break
    return best


SPEEDS = [
    (Kind.SLOWER, 0, (1.015, 1.05)),
    (Kind.SLOWER, 1, (1.06, 1.15)),
    (Kind.FASTER, 0, (0.85, 0.93)),
    (Kind.SAME_SPEED, 0, (0.985, 1.015)),
]


@pytest.mark.parametrize(("kind", "which", "bounds"), SPEEDS)
def test_the_speed_is_as_planted(manifest, builds, kind, which, bounds):
    place = places(manifest, kind)[which]
    before = max(earlier for earlier in builds if earlier < place and manifest[1][earlier].factor is not None)
    earlier, later = fastest(builds[before], builds[place])
    assert bounds[0] < later / earlier < bounds[1]
    assert later / earlier == pytest.approx(manifest[1][place].factor, abs=0.025)
