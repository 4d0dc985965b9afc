"""quantize_int8 of every dtype on every device, and where the CPU replaces divisions by products."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernels
from tests.kernels import references
from tests.kernels.guarded import Prepared, run
from tests.kernels.instruction_sets import on_every_device
from tests.kernels.numbers import FORMATS
from tests.kernels.references import FLOAT32
from tests.kernels.stand_in import OFFSET, SEEDS, SIZES, ZERO_POINTS, few_examples

torch = pytest.importorskip("torch", reason="tensors on a device are PyTorch's")
pytestmark = on_every_device()

DTYPES = ("float32", "float16", "bfloat16")
DTYPE = pytest.mark.parametrize("dtype", DTYPES)
ANY_SCALE = st.floats(2**-149, float(FLOAT32.max), width=32)


@DTYPE
@few_examples
@given(SIZES, SEEDS, st.tuples(OFFSET, OFFSET), st.floats(2**-7, 10, width=32), ZERO_POINTS, st.integers(2, 5))
def test_any_size_and_alignment(device, dtype, n, seed, offsets, scale, zero_point, threads):  # noqa: PLR0917 - drawn
    case = references.quantize_int8(references.values(dtype, seed, (n,), 60 * scale), scale, zero_point, dtype)
    output = run(case, device, offsets)
    if device == "cpu":
        prepared = Prepared(case, device, offsets)
        prepared.call(threads=threads)
        assert np.array_equal(prepared.check(), output)


@DTYPE
@few_examples
@given(st.lists(st.floats(width=32), max_size=80), ANY_SCALE, ZERO_POINTS)
def test_any_values_and_scale(device, dtype, numbers, scale, zero_point):
    x = references.rounded(dtype, np.array(numbers, np.float32))
    run(references.quantize_int8(x, scale, zero_point, dtype), device)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize(("scale", "zero_point"), [(0.05, 3), (1 / 3, -128), (2.0**-20, 127), (300.0, -7)])
@pytest.mark.parametrize("offset", [0, 1])
def test_all_numbers_of_two_bytes(device, name, scale, zero_point, offset):
    form = FORMATS[name]
    x = form.decode(np.arange(2**16, dtype=np.uint16).view(form.stored))
    run(references.quantize_int8(x, scale, zero_point, name), device, (offset, offset))


@few_examples
@given(st.floats(2**-20, 2**20, width=32), ZERO_POINTS)
def test_ties_and_saturation(device, scale, zero_point):
    ties = (np.arange(-300, 300) + np.float32(0.5)).astype(np.float32) * np.float32(scale)
    beside = [np.nextafter(ties, np.float32(side * np.inf)) for side in (1, -1)]
    run(references.quantize_int8(np.concatenate([ties, *beside]), scale, zero_point), device)


def test_division_is_not_a_product_with_the_reciprocal(device):
    # Where x is a tie of x / scale, the product with the reciprocal often is not.
    differences = 0
    for scale in (3, 41, 55, 83, 187):
        x = (np.arange(-100, 100, dtype=np.float32) + np.float32(0.5)) * np.float32(scale)
        output = run(references.quantize_int8(x, scale, 0), device)
        differences += np.sum(np.rint(x * (np.float32(1) / np.float32(scale))) != output)
    assert differences > 5  # else the inputs would not tell the two apart


@few_examples
@given(st.lists(st.integers(0, 40), min_size=2, max_size=12), st.integers(0, 63), SEEDS)
def test_runs_of_blocks_that_must_be_divided(device, runs, shift, seed):
    """Products are given up for the longer the more blocks with a tie followed each other, then tried again."""
    numbers, parts = np.random.default_rng(seed), []
    for turn, run_ in enumerate(runs):
        part = numbers.uniform(-6.0, 6.0, 64 * run_).astype(np.float32)
        if turn % 2:  # a tie, or a NaN, in every 64 elements
            positions = 64 * np.arange(run_) + numbers.integers(0, 64, run_)
            part[positions] = numbers.choice(np.float32([0.125, -0.375, 2.625, np.nan]), run_)
        parts.append(part)
    x = np.concatenate([np.zeros(shift, np.float32), *parts])
    run(references.quantize_int8(x, 0.05, 3), device)


@pytest.mark.parametrize("bound", [2.0**-64, 2.0**100, 2.0**-126, 2.0**127])
@pytest.mark.parametrize("zero_point", [-128, 0, 127])
def test_scales_at_which_another_division_begins(device, bound, zero_point):
    integers = np.arange(-260, 260, 0.25, dtype=np.float32)
    for scale in np.float32([bound, np.nextafter(np.float32(bound), np.float32(0)), bound * 1.2345678]):
        with np.errstate(over="ignore", under="ignore"):
            x = np.concatenate([integers * scale, np.float32([np.inf, -np.inf, np.nan, 1e-45, 3.4e38, -3.4e38])])
        run(references.quantize_int8(x, float(scale), zero_point), device)


def test_every_kind_of_nan_gives_zero(device):
    bits = np.uint32([0x7FC00000, 0x7F800001, 0x7FC000FF, 0xFFC00080, 0xFFFFFFFF, 0x7FBFFFFF])
    for x in (np.tile(bits, 50).view(np.float32), bits.view(np.float32)):
        assert not kernels.quantize_int8(torch.from_numpy(x).to(device), 0.05, 77).cpu().numpy().any()


def quotients_closest_to_a_tie() -> Iterator[tuple[np.float32, np.float32]]:
    """Yield x and scale where x / scale is as close as it gets to the end of what rounds to a tie as a float32.

    All of them but for powers of two, up to ties of 256 and a distance of 2^-46 of the quotient.

    Beyond that end the float32 is the tie's neighbour, and the integer may be another. The end is half a unit beside
    the tie t: (M + side) 2^(e - 24), with e the exponent of t and M = t 2^(24 - e). With scale = S 2^-23 and
    x = X 2^(g + e - 47) the difference x - end scale is (X 2^g - (M + side) S) 2^(e - 47). As M + side is odd, there
    is one S modulo 2^g for which the difference in brackets is j.
    """
    for t, side, j, g in itertools.product(np.arange(0.5, 256), (-1, 1), range(-4, 5), (24, 25)):
        e = int(np.floor(np.log2(t)))
        end = int(t * 2 ** (24 - e)) + side
        s = -j * pow(end, -1, 2**g) % 2**g
        x = (end * s + j) >> g
        if j and 2**23 <= s < 2**24 and 2**23 <= x < 2**24:
            yield np.float32(np.ldexp(x, g + e - 47)), np.float32(np.ldexp(s, -23))


def test_quotients_closest_to_a_tie(device):
    pairs = list(quotients_closest_to_a_tie())
    assert len(pairs) > 1000
    for x, scale in pairs:  # of fewer than 128 numbers, all are divided
        prepared = Prepared(references.quantize_int8(np.full(128, x), float(scale), -128), device)
        prepared.call()
        prepared.check()
