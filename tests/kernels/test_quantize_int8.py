from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import kernels
from kernels._native.errors import ArgumentTypeError, ArgumentValueError
from tests.kernels.instruction_sets import SLOW_BUT_FOR_USUAL, in_turn
from tests.kernels.stand_in import HostTensor, float32_values, poisoned, properties, shifted

pytestmark = in_turn(SLOW_BUT_FOR_USUAL)  # test_devices.py has the quicker ones for all
SIZES = st.sampled_from([0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000, 4097])
SCALES = st.floats(2**-100, 2**100, width=32)
ZERO_POINTS = st.integers(-128, 127)


def run(x: np.ndarray, scale: float, zero_point: int, threads: int | None = None) -> np.ndarray:
    out = HostTensor(poisoned(x.shape, "int8"))
    kernels.quantize_int8(HostTensor(x), scale, zero_point, out=out, threads=threads)
    return out.array


def five_operations(x: np.ndarray, scale: float, zero_point: int) -> np.ndarray:
    """The definition, in numpy's float32 arithmetic."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        value = np.rint(x / np.float32(scale)) + np.float32(zero_point)
        return np.where(np.isnan(value), np.float32(0), np.clip(value, -128, 127)).astype(np.int8)


@properties
@given(SIZES, st.integers(0, 2**32 - 1), st.floats(2**-7, 10, width=32), ZERO_POINTS, st.integers(0, 3))
def test_every_size_and_alignment_gives_the_integers_of_the_definition(n, seed, scale, zero_point, shift):
    x = shifted(float32_values(seed, (n,), 50 * scale), shift)
    assert np.array_equal(run(x, scale, zero_point), five_operations(x, scale, zero_point))


@properties
@given(
    arrays.arrays(np.float32, st.integers(0, 80), elements=st.floats(width=32, allow_nan=True, allow_infinity=True)),
    SCALES,
    ZERO_POINTS,
)
def test_any_bits_give_the_integers_of_the_definition(x, scale, zero_point):
    assert np.array_equal(run(x, scale, zero_point), five_operations(x, scale, zero_point))


@properties
@given(st.floats(2**-20, 2**20, width=32), ZERO_POINTS)
def test_ties_go_to_even_and_neighbours_of_ties_do_not(scale, zero_point):
    ties = (np.arange(-140, 140) + np.float32(0.5)).astype(np.float32) * np.float32(scale)
    x = np.concatenate([ties, np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(-np.inf))])
    assert np.array_equal(run(x, scale, zero_point), five_operations(x, scale, zero_point))


@properties
@given(st.lists(st.integers(0, 40), min_size=2, max_size=12), st.integers(0, 63), st.integers(0, 2**32 - 1))
def test_blocks_that_must_be_divided_come_in_runs_of_any_length(runs, shift, seed):
    """Products are given up for the longer the more blocks with a tie followed each other, then tried again."""
    numbers, parts = np.random.default_rng(seed), []
    for turn, run_ in enumerate(runs):
        part = numbers.uniform(-6.0, 6.0, 64 * run_).astype(np.float32)
        if turn % 2:  # a tie, or a NaN, in every 64 elements
            places = 64 * np.arange(run_) + numbers.integers(0, 64, run_)
            part[places] = numbers.choice(np.float32([0.125, -0.375, 2.625, np.nan]), run_)
        parts.append(part)
    x = np.concatenate([np.zeros(shift, np.float32), *parts])
    assert np.array_equal(run(x, 0.05, 3), five_operations(x, 0.05, 3))


@pytest.mark.parametrize("bound", [2.0**-64, 2.0**100, 2.0**-126, 2.0**127])
@pytest.mark.parametrize("zero_point", [-128, 0, 127])
def test_scales_about_which_another_way_to_divide_begins(bound, zero_point):
    integers = np.arange(-260, 260, 0.25, dtype=np.float32)
    for scale in np.float32([bound, np.nextafter(np.float32(bound), np.float32(0)), bound * 1.2345678]):
        with np.errstate(over="ignore", under="ignore"):
            x = np.concatenate([integers * scale, np.float32([np.inf, -np.inf, np.nan, 1e-45, 3.4e38, -3.4e38])])
        assert np.array_equal(run(x, float(scale), zero_point), five_operations(x, float(scale), zero_point))


def test_no_nan_has_another_integer():
    bits = np.uint32([0x7FC00000, 0x7F800001, 0x7FC000FF, 0xFFC00080, 0xFFFFFFFF, 0x7FBFFFFF])
    for x in (np.tile(bits, 50).view(np.float32), bits.view(np.float32)):
        assert not run(x, 0.05, 77).any()


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


def test_quotients_closest_to_a_tie_round_as_those_of_divisions():
    pairs = list(quotients_closest_to_a_tie())
    assert len(pairs) > 1000
    for x, scale in pairs:
        block = np.full(128, x)  # fewer are divided
        assert np.array_equal(run(block, float(scale), -128), five_operations(block, float(scale), -128)), (x, scale)


def test_named_special_values():
    x = np.array([np.nan, np.inf, -np.inf, 0.5, 1.5, 2.5, -0.5, -1.5, 3e38, 1e-45], np.float32)
    assert run(x, 1.0, 0).tolist() == [0, 127, -128, 0, 2, 2, 0, -2, 127, 0]
    assert run(x, 1.0, 100).tolist() == [0, 127, -128, 100, 102, 102, 100, 98, 127, 100]


def test_division_is_not_a_product_with_the_reciprocal():
    # 1.5 * 41 / 41 is exactly 1.5, a tie that goes to 2; where x * (1 / 41) is a bit off, it does not.
    differences = 0
    for scale in range(3, 200):
        x = (np.arange(-100, 100, dtype=np.float32) + np.float32(0.5)) * np.float32(scale)
        exact = five_operations(x, scale, 0)
        differences += np.sum(np.rint(x * (np.float32(1) / np.float32(scale))) != exact)
        assert np.array_equal(run(x, scale, 0), exact)
    assert differences > 100  # else the inputs would not tell the two apart


@properties
@given(SIZES, st.integers(2, 5))
def test_threads_do_not_change_the_result(n, threads):
    x = float32_values(1, (n,), 50)
    assert np.array_equal(run(x, 1, 3, threads), run(x, 1, 3, 1))


def test_nothing_beyond_the_output_is_written():
    memory = np.full(100 + 128, 55, np.int8)
    kernels.quantize_int8(HostTensor(float32_values(1, (100,))), 1.0, 0, out=HostTensor(memory[64:164]))
    assert np.all(memory[:64] == 55)
    assert np.all(memory[164:] == 55)


def test_out_is_allocated_as_int8_of_the_same_shape():
    out = kernels.quantize_int8(HostTensor(float32_values(1, (2, 3))), 1.0, 0)
    assert (out.shape, out.dtype) == ((2, 3), "int8")


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 1e-46, 1e39])
def test_a_scale_that_is_no_positive_float32_is_refused(scale):
    with pytest.raises(ArgumentValueError, match=r"scale: got .* wanted a finite float32 above 0"):
        kernels.quantize_int8(HostTensor(float32_values(1, (4,))), scale, 0)


def test_scale_and_zero_point_must_be_numbers_in_range():
    x = HostTensor(float32_values(1, (4,)))
    with pytest.raises(ArgumentTypeError, match="scale: got 'a', wanted a number"):
        kernels.quantize_int8(x, "a", 0)
    with pytest.raises(ArgumentTypeError, match=r"zero_point: got 1\.5, wanted an integer"):
        kernels.quantize_int8(x, 1.0, 1.5)
    for zero_point in (-129, 128):
        with pytest.raises(ArgumentValueError, match=f"zero_point: got {zero_point}, wanted -128 to 127"):
            kernels.quantize_int8(x, 1.0, zero_point)


def test_any_overlap_is_refused():
    x = float32_values(1, (16,))
    with pytest.raises(ArgumentValueError, match=r"out: got bytes .* overlap x .* wanted separate memory$"):
        kernels.quantize_int8(HostTensor(x), 1.0, 0, out=HostTensor(x.view(np.int8)[:16]))


def test_exactly_the_integers_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = torch.randn(200_001, generator=torch.Generator().manual_seed(1)) * 3
    x[:4] = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e30])
    for scale, zero_point in ((0.05, 3), (0.1, -7), (1 / 3, 0)):
        expected = torch.clamp(torch.round(x / scale) + zero_point, -128, 127).to(torch.int8)
        actual = kernels.quantize_int8(x, scale, zero_point)
        assert actual.dtype == torch.int8
        assert torch.equal(actual, expected)
