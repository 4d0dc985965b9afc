"""Arrays beyond 2^31 bytes and beyond 2^31 elements on CUDA: every index must be 64 bits wide.

The inputs repeat a pattern whose length is prime, so an element read at the wrong place is almost surely another one,
and the output can be compared on the device. On the CPU the same checks run on arrays of a size that costs nothing.
"""

from __future__ import annotations

import gc

import numpy as np
import pytest

import kernels
from kernels._native.errors import LaunchError
from tests.kernels.guarded import GUARD_VALUE, GuardedOutput, Prepared, run
from tests.kernels.instruction_sets import USUAL, on_every_device
from tests.kernels.references import add_mul_exp, matmul, quantize_int8, random_case
from tests.kernels.stand_in import float32_values

torch = pytest.importorskip("torch", reason="tensors on a device are PyTorch's")
pytestmark = on_every_device([pytest.param(USUAL)])  # sizes that only CUDA's kernels care for

PERIOD = 1009
COUNTS = {"cpu": 2**18 + 5, "cuda": 2**31 + 5}  # elements
CHUNK = 2**28  # elements compared at once


def require_memory(device: str, wanted: int) -> None:
    """Skip where a CUDA device has fewer than `wanted` bytes free."""
    if device == "cpu":
        return
    gc.collect()
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    if free < wanted:
        pytest.skip(f"needs {wanted / 2**30:.0f} GiB of free device memory, here are {free / 2**30:.0f}")


def repeated(pattern: np.ndarray, count: int, device: str):
    """Return the first `count` rows (or numbers) of a pattern over and over, without the memory for a second copy."""
    times = -(-count // PERIOD)
    return torch.from_numpy(pattern).to(device).repeat((times,) + (1,) * (pattern.ndim - 1))[:count]


def assert_repeats(output, expected: np.ndarray) -> None:
    """Raise AssertionError unless the output's rows (or numbers) are those of `expected`, over and over."""
    wanted = torch.from_numpy(expected).to(output.device)
    whole = output.shape[0] // PERIOD * PERIOD
    groups = output[:whole].view(-1, PERIOD, *output.shape[1:])
    for part in groups.split(max(1, CHUNK // wanted.numel())):
        assert torch.equal(part, wanted.expand_as(part))
    assert torch.equal(output[whole:], wanted[: output.shape[0] - whole])


def assert_guards_are_whole(out: GuardedOutput) -> None:
    edges = (out.memory[: out.begin], out.memory[out.end :])
    assert all(bool((edge == GUARD_VALUE).all()) for edge in edges)


@pytest.mark.parametrize("offset", [0, 1])  # by vectors, and one by one
@pytest.mark.parametrize("kernel", ["add_mul_exp", "quantize_int8"])
def test_elementwise(device, kernel, offset):
    count = COUNTS[device]
    require_memory(device, 12 * count + (4 << 30))
    x, y = float32_values(1, (PERIOD,)), float32_values(2, (PERIOD,))
    case = add_mul_exp(x, y) if kernel == "add_mul_exp" else quantize_int8(x, 0.02, 3)
    expected = run(case, device)
    inputs = [repeated(array, count + offset, device)[offset:] for array in case.arrays]
    out = GuardedOutput((count,), case.dtype, device, offset)
    getattr(kernels, kernel)(*inputs, *case.scalars, out=out.tensor)
    assert_repeats(out.tensor, np.roll(expected, -offset))
    assert_guards_are_whole(out)


MATMULS = {
    "tall": {"cpu": (2053, 8, 64), "cuda": (2**21 + 3, 8, 1024)},  # a is large
    "wide": {"cpu": (1511, 519, 4), "cuda": (46343, 46343, 4)},  # the output is
}


@pytest.mark.parametrize("name", MATMULS)
def test_matmul(device, name):
    m, n, k = MATMULS[name][device]
    require_memory(device, 4 * (m * k + m * n) + (4 << 30))
    rows = np.random.default_rng(1).integers(-4, 5, (PERIOD, k)).astype(np.float32)
    b = np.random.default_rng(2).integers(-4, 5, (k, n)).astype(np.float32)
    out = GuardedOutput((m, n), "float32", device)
    kernels.matmul(repeated(rows, m, device), torch.from_numpy(b).to(device), out=out.tensor)
    assert_repeats(out.tensor, rows @ b)  # small integers: exact in any order
    assert_guards_are_whole(out)


def test_more_columns_than_a_launch_has_blocks(device):
    # CUDA's grids have at most 65535 blocks along y, and the larger tiles have 128 columns.
    n = 65535 * 128 + 1
    wide = Prepared(matmul(float32_values(1, (1, 1)), float32_values(2, (1, n))), device)
    try:
        wide.call()
    except LaunchError:
        assert device == "cuda"
        assert wide.out.is_poison(wide.out.host())
    else:
        wide.check()
    run(random_case("matmul", 1), device)
