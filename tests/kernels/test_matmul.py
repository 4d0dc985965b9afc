from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernels
from kernels._native.errors import ArgumentValueError
from tests.kernels.instruction_sets import SLOW_BUT_FOR_USUAL, in_turn
from tests.kernels.stand_in import HostTensor, float32_values, poisoned, properties, shifted

pytestmark = in_turn(SLOW_BUT_FOR_USUAL)  # test_devices.py has the quicker ones for all
SIZES = st.one_of(st.integers(0, 40), st.sampled_from([47, 48, 49, 63, 64, 65, 97, 129]))
UNIT_ROUNDOFF = 2.0**-24  # of float32


def run(a: np.ndarray, b: np.ndarray, threads: int | None = None) -> np.ndarray:
    out = HostTensor(poisoned((a.shape[0], b.shape[1]), "float32"))
    kernels.matmul(HostTensor(a), HostTensor(b), out=out, threads=threads)
    return out.array


def assert_close_to_float64(actual: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Any order of k float32 additions stays within k u |A||B| (Higham, Accuracy and Stability, section 3.5)."""
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = (a.shape[1] + 1) * UNIT_ROUNDOFF * (np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)))
    assert np.all(np.abs(actual - exact) <= bound)


@properties
@given(SIZES, SIZES, SIZES, st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_every_shape_is_within_the_error_bound_of_summation(m, n, k, seed, shift):
    a, b = float32_values(seed, (m, k)), shifted(float32_values(seed + 1, (k, n)), shift)
    assert_close_to_float64(run(a, b), a, b)


@pytest.mark.parametrize("shape", [(257, 300, 513), (1, 1000, 1025), (1000, 1, 70), (130, 2049, 3)])
def test_shapes_larger_than_any_block(shape):
    m, n, k = shape
    a, b = float32_values(1, (m, k)), float32_values(2, (k, n))
    assert_close_to_float64(run(a, b), a, b)


def test_small_integers_are_exact():
    a = np.random.default_rng(1).integers(-4, 5, (70, 90)).astype(np.float32)
    b = np.random.default_rng(2).integers(-4, 5, (90, 50)).astype(np.float32)
    assert np.array_equal(run(a, b), a @ b)


def test_no_inner_axis_gives_zeros():
    assert np.array_equal(run(float32_values(1, (3, 0)), float32_values(1, (0, 5))), np.zeros((3, 5)))


def test_nan_and_infinity_reach_exactly_their_row_and_column():
    a, b = float32_values(1, (20, 30)), float32_values(2, (30, 40))
    clean = run(a, b)
    a[7, 3], b[5, 11] = np.nan, np.inf
    actual = run(a, b)
    assert np.all(np.isnan(actual[7]))
    assert not np.any(np.isfinite(actual[:, 11]))
    untouched = np.delete(np.delete(actual, 7, 0), 11, 1)
    assert np.array_equal(untouched, np.delete(np.delete(clean, 7, 0), 11, 1))


@properties
@given(SIZES, SIZES, SIZES, st.integers(2, 5))
def test_threads_do_not_change_the_result(m, n, k, threads):
    a, b = float32_values(1, (m, k)), float32_values(2, (k, n))
    assert np.array_equal(run(a, b, threads), run(a, b, 1))


def test_nothing_beyond_the_output_is_written():
    memory = np.full(13 * 17 + 64, 7, np.float32)
    out = memory[32 : 32 + 13 * 17].reshape(13, 17)
    kernels.matmul(
        HostTensor(float32_values(1, (13, 19))), HostTensor(float32_values(2, (19, 17))), out=HostTensor(out)
    )
    assert np.all(memory[:32] == 7)
    assert np.all(memory[32 + 13 * 17 :] == 7)


def test_shapes_that_do_not_fit_are_refused():
    a, b = HostTensor(float32_values(1, (2, 3))), HostTensor(float32_values(1, (4, 5)))
    with pytest.raises(ArgumentValueError, match=r"b: got shape \[4, 5\], wanted \[3, n\]"):
        kernels.matmul(a, b)
    with pytest.raises(ArgumentValueError, match=r"a: got shape \[3\], wanted two axes"):
        kernels.matmul(HostTensor(float32_values(1, (3,))), b)
    with pytest.raises(ArgumentValueError, match=r"out: got shape \[2, 2\], wanted \[2, 3\]"):
        kernels.matmul(HostTensor(float32_values(1, (2, 2))), a, out=HostTensor(poisoned((2, 2), "float32")))


def test_in_place_is_refused():
    a, b = HostTensor(float32_values(1, (4, 4))), HostTensor(float32_values(2, (4, 4)))
    for out, name in ((a, "a"), (b, "b")):
        with pytest.raises(ArgumentValueError, match=f"overlap {name} .* wanted separate memory$"):
            kernels.matmul(a, b, out=out)


def test_pytorch_tensors_give_pytorch_tensors():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    a, b = torch.randn(50, 60), torch.randn(60, 70)
    torch.testing.assert_close(kernels.matmul(a, b), a @ b, rtol=1e-5, atol=1e-5)
