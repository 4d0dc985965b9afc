from __future__ import annotations

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
# Where float32's exp goes over to infinity and to zero; the arguments of ours are halved.
LARGEST = np.float32(np.log(np.finfo(np.float32).max))
SMALLEST_NORMAL = np.float32(np.log(np.finfo(np.float32).tiny))
# Error bound stated in add_mul_exp.cpp, in units in the last place of the float32 result.
BOUND_ULP = 1.1

SIZES = st.sampled_from([0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 100, 1000, 1023, 4097])


def run(x: np.ndarray, y: np.ndarray, threads: int | None = None) -> np.ndarray:
    out = HostTensor(poisoned(x.shape, "float32"))
    kernels.add_mul_exp(HostTensor(x), HostTensor(y), out=out, threads=threads)
    return out.array


def error_ulp(actual: np.ndarray, argument: np.ndarray) -> np.ndarray:
    """Distance from the true exp of a float32 argument, in ulp of the result, subnormals included."""
    true = np.exp(argument.astype(np.float64))
    ulp = np.spacing(np.maximum(true.astype(np.float32), np.finfo(np.float32).tiny)).astype(np.float64)
    return np.abs(actual.astype(np.float64) - true) / ulp


@properties
@given(SIZES, st.integers(0, 2**32 - 1), st.integers(0, 3), st.integers(0, 3))
def test_every_size_and_alignment_is_within_the_stated_bound(n, seed, shift_x, shift_y):
    x, y = shifted(float32_values(seed, (n,), 5), shift_x), shifted(float32_values(seed + 1, (n,), 5), shift_y)
    assert np.all(error_ulp(run(x, y), (x + y) * np.float32(2)) <= BOUND_ULP)


@pytest.mark.parametrize(("low", "high"), [(-104, SMALLEST_NORMAL), (SMALLEST_NORMAL, -1), (-1, 1), (1, LARGEST)])
def test_the_whole_range_is_within_the_stated_bound_subnormal_results_too(low, high):
    argument = np.linspace(low, high, 1_000_001).astype(np.float32)
    argument = argument[argument < LARGEST]
    half = argument / np.float32(2)
    worst = error_ulp(run(half, np.zeros_like(half)), half * np.float32(2)).max()
    assert worst <= BOUND_ULP, f"worst error {worst:.3f} ulp"


@properties
@given(arrays.arrays(np.float32, st.integers(0, 80), elements=st.floats(width=32, allow_nan=True, allow_infinity=True)))
def test_special_values_follow_ieee(x):
    actual = run(x, np.zeros_like(x))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        argument = x * np.float32(2)
        true = np.exp(argument.astype(np.float64))
        nearest = true.astype(np.float32)
    assert np.array_equal(np.isnan(actual), np.isnan(x))
    assert np.all(actual[np.isposinf(nearest) & (argument > LARGEST * np.float32(1.0001))] == np.inf)
    assert np.all(actual[argument < -110] == 0)
    assert np.all(actual[~np.isnan(actual)] >= 0)


def test_named_special_values():
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 88.0, -88.0, 3e38], np.float32)
    expected = np.array([np.nan, np.inf, 0, 1, 1, 1, np.inf, 0, np.inf], np.float32)
    assert np.array_equal(run(x, np.zeros_like(x)), expected, equal_nan=True)
    infinities = np.full(3, np.inf, np.float32)
    assert np.all(np.isnan(run(infinities, -infinities)))


def test_a_special_value_does_not_disturb_its_neighbours():
    x = float32_values(3, (256,))
    clean = run(x, x)
    for index in (0, 5, 16, 100, 255):
        dirty = x.copy()
        dirty[index] = np.nan
        actual = run(dirty, x)
        assert np.isnan(actual[index])
        assert np.array_equal(np.delete(actual, index), np.delete(clean, index))


@properties
@given(SIZES, st.integers(2, 5))
def test_threads_do_not_change_the_result(n, threads):
    x, y = float32_values(1, (n,)), float32_values(2, (n,))
    assert np.array_equal(run(x, y, threads), run(x, y, 1))


@properties
@given(SIZES)
def test_in_place_is_the_same_as_apart(n):
    x, y = float32_values(1, (n,)), float32_values(2, (n,))
    apart = run(x, y)
    for out in (HostTensor(x.copy()), HostTensor(y.copy())):
        first = out if np.array_equal(out.array, x) else HostTensor(x)
        second = HostTensor(y) if first is out else out
        assert np.array_equal(kernels.add_mul_exp(first, second, out=out).array, apart)


def test_nothing_beyond_the_output_is_written():
    memory = np.full(100 + 64, 7, np.float32)
    x = float32_values(1, (100,))
    kernels.add_mul_exp(HostTensor(x), HostTensor(x), out=HostTensor(memory[32:132]))
    assert np.all(memory[:32] == 7)
    assert np.all(memory[132:] == 7)


def test_out_is_allocated_like_x_and_any_shape_is_kept():
    x = float32_values(1, (3, 0, 2)), float32_values(2, (2, 3, 4))
    for array in x:
        assert kernels.add_mul_exp(HostTensor(array), HostTensor(array)).shape == array.shape


def test_partial_overlap_is_refused():
    memory = float32_values(1, (20,))
    with pytest.raises(
        ArgumentValueError, match=r"out: got bytes .* overlap x .* wanted separate memory, or exactly x"
    ):
        kernels.add_mul_exp(HostTensor(memory[:10]), HostTensor(memory[10:]), out=HostTensor(memory[5:15]))


def test_mismatched_arguments_are_named():
    x, y = HostTensor(float32_values(1, (4,))), HostTensor(float32_values(1, (5,)))
    with pytest.raises(ArgumentValueError, match=r"y: got shape \[5\], wanted \[4\]"):
        kernels.add_mul_exp(x, y)
    with pytest.raises(ArgumentTypeError, match="out: got dtype int8, wanted float32"):
        kernels.add_mul_exp(x, x, out=HostTensor(poisoned((4,), "int8")))
    with pytest.raises(ArgumentValueError, match="y: got device cuda:1, wanted cpu as x"):
        kernels.add_mul_exp(x, HostTensor(x.array, device="cuda:1"))


def test_pytorch_tensors_give_pytorch_tensors():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x, y = torch.randn(1001), torch.randn(1001)
    actual = kernels.add_mul_exp(x, y)
    assert actual.dtype == torch.float32
    torch.testing.assert_close(actual, torch.exp((x + y) * 2), rtol=5e-7, atol=0)
