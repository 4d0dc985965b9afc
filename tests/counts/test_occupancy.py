"""Occupancy, as NVIDIA's own header computes it."""

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from kernel_velocity.counts.gpu_figures import LIMITS, occupancy

HEADER = "cuda_occupancy.h"
PROGRAM = r"""
#include <cstdio>
#include "cuda_occupancy.h"
int main() {
    int number, registers, threads; long shared, largest, most; size_t wanted;
    while (scanf("%d %ld %ld %ld %d %d %zu", &number, &shared, &largest, &most, &registers, &threads, &wanted) == 7) {
        cudaOccDeviceProp gpu; cudaOccFuncAttributes kernel; cudaOccDeviceState state; cudaOccResult result;
        gpu.computeMajor = number / 10; gpu.computeMinor = number % 10; gpu.maxThreadsPerBlock = 1024;
        gpu.maxThreadsPerMultiprocessor = most; gpu.regsPerBlock = gpu.regsPerMultiprocessor = 65536; gpu.warpSize = 32;
        gpu.sharedMemPerBlock = 49152; gpu.sharedMemPerMultiprocessor = shared; gpu.numSms = 100;
        gpu.sharedMemPerBlockOptin = largest; gpu.reservedSharedMemPerBlock = 1024;
        kernel.maxThreadsPerBlock = 1024; kernel.numRegs = registers; kernel.numBlockBarriers = 1;
        kernel.sharedSizeBytes = 0; kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN; kernel.maxDynamicSharedSizeBytes = largest;
        state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
        int error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &gpu, &kernel, &state, threads, wanted);
        printf("%d %d %u\n", error, result.activeBlocksPerMultiprocessor, result.limitingFactors);
    }
}
"""
BITS = {1: "threads", 2: "registers", 4: "shared memory", 8: "blocks"}


def header():
    """Return the folder of the header. None: no toolkit is here."""
    folders = [Path("/usr/local/cuda/include"), *sorted(Path("/usr/local").glob("cuda-*/include"))]
    return next((folder for folder in folders if (folder / HEADER).is_file()), None)


@pytest.mark.skipif(shutil.which("g++") is None or header() is None, reason=f"no g++, or no {HEADER}")
def test_nvidia_as_its_header_computes_it(tmp_path):
    (tmp_path / "k.cpp").write_text(PROGRAM)
    subprocess.run(["g++", "-I", str(header()), "k.cpp", "-o", "k"], cwd=tmp_path, check=True)
    nvidia = [name for name in LIMITS if name.startswith("sm_")]
    registers, threads = (16, 32, 37, 40, 64, 72, 96, 128, 168, 255), (1, 32, 96, 160, 256, 384, 512, 768, 1024)
    shared = (0, 1, 1024, 8192, 33 * 1024, 48 * 1024, 64 * 1024, 99 * 1024)
    cases = [*itertools.product(nvidia, registers, threads, shared)]
    lines = [
        f"{name[3:]} {LIMITS[name].shared} {LIMITS[name].shared_of_block} {32 * LIMITS[name].warps} {r} {t} {s}"
        for name, r, t, s in cases
    ]
    done = subprocess.run([tmp_path / "k"], input="\n".join(lines), capture_output=True, text=True, check=True)
    for case, line in zip(cases, done.stdout.splitlines(), strict=True):
        error, blocks, factors = map(int, line.split())
        got = occupancy(*case)
        assert error == 0 and got.warps == blocks * -(-case[2] // 32), (case, line, got)
        assert set(got.limits) == {name for bit, name in BITS.items() if factors & bit}, (case, line, got)


@pytest.mark.parametrize(
    ("architecture", "registers", "threads", "shared", "words"),
    [
        ("sm_90a", 168, 384, 0, "12 of 64 warps, limited by registers"),
        ("sm_120f", 32, 1024, 0, "32 of 48 warps, limited by threads"),
        ("sm_80", 32, 128, 164 * 1024, "0 of 64 warps, limited by shared memory"),
        ("gfx942", 104, 256, 16384, "16 of 32 warps, limited by registers and shared memory"),
        ("gfx942", 128, 64, 0, "16 of 32 warps, limited by registers"),
        ("gfx950", 512, 256, 65536, "4 of 32 warps, limited by registers"),
        ("gfx1201", 96, 128, 0, "64 of 64 warps"),
        ("gfx1201", 97, 128, 0, "48 of 64 warps, limited by registers"),
        ("gfx1201", 24, 64, 0, "64 of 64 warps"),
    ],
)
def test_occupancy_in_words(architecture, registers, threads, shared, words):
    assert str(occupancy(architecture, registers, threads, shared)) == words


def test_unknown_architecture_has_none():
    assert occupancy("sm_61", 32, 128, 0) is None
