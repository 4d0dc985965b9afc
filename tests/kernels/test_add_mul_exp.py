"""add_mul_exp of every dtype on every device: sizes, alignment, special values, memory beside the output."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernels
from tests.kernels import references
from tests.kernels.guarded import GuardedOutput, Prepared, run
from tests.kernels.instruction_sets import on_every_device
from tests.kernels.numbers import FORMATS
from tests.kernels.stand_in import OFFSET, SEEDS, SIZES, few_examples

pytest.importorskip("torch", reason="tensors on a device are PyTorch's")
pytestmark = on_every_device()


@pytest.fixture(scope="module", params=["float32", "float64", "float16", "bfloat16"])
def dtype(request, device):
    """A dtype that the device computes with."""
    if request.param == "float64" and device == "cuda":
        pytest.skip("float64 is only the CPU's")
    return request.param


@few_examples
@given(SIZES, SEEDS, st.tuples(OFFSET, OFFSET, OFFSET))
def test_any_size_and_alignment(device, dtype, n, seed, offsets):
    run(references.elementwise("add_mul_exp", n, dtype, seed), device, offsets)


@few_examples
@given(st.lists(st.tuples(*[st.one_of(st.floats(), st.floats(width=32))] * 2), max_size=80))
def test_any_values(device, dtype, pairs):
    x, y = references.rounded(dtype, np.array(pairs, np.float64).reshape(-1, 2).T)
    run(references.add_mul_exp(x.copy(), y.copy(), dtype), device)


RANGES = [("float32", -105, -87), ("float32", -87, 0), ("float32", 0, 89)]
RANGES += [("float64", -747, -707), ("float64", -707, -1), ("float64", -1, 1), ("float64", 1, 711)]


@pytest.mark.parametrize(("name", "low", "high"), RANGES)
def test_whole_range(device, name, low, high):
    if name == "float64" and device == "cuda":
        pytest.skip("float64 is only the CPU's")
    # Beside halves of ln 2 the remainder is largest.
    borders = (np.arange(np.ceil(low / np.log(2)), high / np.log(2)) + 0.5) * np.log(2)
    near = np.concatenate([borders * (1 + step) for step in np.linspace(-1e-4, 1e-4, 41)])
    x = references.rounded(name, np.concatenate([np.linspace(low, high, 100_003), near]) / 2)
    run(references.add_mul_exp(x, np.zeros_like(x), name), device)


def test_pairs_of_special_values(device, dtype):
    form = FORMATS[dtype]
    tiny = float(np.ldexp(1.0, form.smallest))
    least, most = tiny * 2.0 ** (1 - form.digits), float(np.ldexp(2 - 2.0 ** (1 - form.digits), form.largest - 1))
    signed = np.array([np.inf, 0.0, tiny, least, most, 1.0, np.log(2) / 2])
    special = references.rounded(dtype, np.concatenate([[np.nan], signed, -signed]))
    x, y = (grid.ravel().copy() for grid in np.meshgrid(special, special))
    run(references.add_mul_exp(x, y, dtype), device)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("y", [0.0, -3.5])
@pytest.mark.parametrize("offset", [0, 1])
def test_all_numbers_of_two_bytes(device, name, y, offset):
    form = FORMATS[name]
    x = form.decode(np.arange(2**16, dtype=np.uint16).view(form.stored))
    run(references.add_mul_exp(x, np.full_like(x, y), name), device, (offset,) * 3)


@few_examples
@given(SIZES, SEEDS, st.sampled_from([0, 1, 4]), st.integers(2, 5))
def test_in_place_and_threads(device, dtype, n, seed, offset, threads):  # noqa: PLR0917 - drawn
    case = references.elementwise("add_mul_exp", n, dtype, seed)
    prepared = Prepared(case, device, (offset,) * 3)
    prepared.call(**({"threads": threads} if device == "cpu" else {}))
    apart = prepared.check()
    for which in (0, 1):
        out = GuardedOutput((n,), dtype, device, offset)
        inputs = list(prepared.inputs)
        inputs[which] = out.tensor.copy_(inputs[which])
        kernels.add_mul_exp(*inputs, out=out.tensor)
        assert out.read(out.host()).tobytes() == apart.tobytes()
