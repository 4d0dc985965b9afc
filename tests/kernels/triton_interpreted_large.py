"""Checks of the Triton kernels on large tensors, interpreted on the CPU. Run by triton_calls.py.

Beyond 2^31 elements only the first and the last program of a call are interpreted. So next to nothing of the tensors
is touched, and they take address space, but no memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from tests.kernels import references
from tests.kernels.triton_calls import module, run

LAST = 16 + 5  # elements of a vector that its last program computes, and the first one, which takes the rest
COUNT = 2**31 + LAST


def ends_of(*limits: int) -> Sequence[int]:
    """Return the first and the last number of a range from 0, which is one of programs, and all of any other."""
    return sorted({0, limits[0] - 1}) if len(limits) == 1 else range(*limits)


@contextmanager
def outer_programs_alone() -> Iterator[None]:
    """Let the interpreter run, of a grid, only the first and the last place along every axis, and copy no tensor."""
    from triton.runtime import interpreter

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(interpreter, "range", ends_of, raising=False)
        patched.setattr(interpreter.GridExecutor, "_restore_args_dev", lambda *_: None)
        yield


def check_add_mul_exp():
    import torch

    x, y, out = (torch.empty(COUNT, dtype=torch.float16) for _ in range(3))
    x[-LAST:], y[-LAST:] = torch.arange(LAST) / 8, 0.5
    with outer_programs_alone():
        module("add_mul_exp").add_mul_exp(x, y, out=out)
    wanted = torch.exp((x[-LAST:].float() + 0.5) * 2)
    assert torch.allclose(out[-LAST:].float(), wanted, rtol=2**-10)


def check_quantize_int8():
    import torch

    x, out = torch.empty(COUNT, dtype=torch.float16), torch.empty(COUNT, dtype=torch.int8)
    x[-LAST:] = torch.arange(LAST) * 0.5
    with outer_programs_alone():
        module("quantize_int8").quantize_int8(x, 1.0, 3, out=out)
    wanted = references.quantize_int8_values(x[-LAST:].float().numpy(), 1.0, 3)
    assert np.array_equal(out[-LAST:].numpy(), wanted)


def _product_of_ones(m: int, n: int, k: int) -> None:
    """Check the last element of a product whose last tile is of ones."""
    import torch

    a, b, out = torch.empty(m, k), torch.empty(k, n), torch.empty(m, n)
    tile = module("matmul").configuration(m, n, "float32", False)[1]["tile"]
    a[-(m % tile) :], b[:, -(n % tile) :] = 1, 1
    with outer_programs_alone():
        module("matmul").matmul(a, b, out=out)
    assert out[-1, -1] == k == out[-(m % tile), -(n % tile)]


def check_matmul_of_a_tall_matrix():
    _product_of_ones(2**25 + 3, 9, 64)


def check_matmul_of_a_wide_matrix():
    _product_of_ones(2, 2**27 + 3, 17)  # what lies between the passes, too, has more than 32 bits


def check_matmul_with_a_large_output():
    _product_of_ones(46343, 46343, 4)


def check_matmul_of_larger_tiles():
    tiles = module("matmul").LARGE["tile"]
    m, n, k = 11 * tiles + 3, 9 * tiles + 5, 21  # 12 x 10 tiles in groups of 8 rows
    assert module("matmul").configuration(m, n, "float32", False)[1]["tile"] == tiles
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    case = references.matmul(a, b)
    assert np.array_equal(run(case), a @ b)  # small integers: exact in any order
