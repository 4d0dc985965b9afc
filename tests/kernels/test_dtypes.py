"""The element-wise kernels with every dtype that the CPU takes besides float32, with each instruction set."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernels
from kernels._native.errors import ArgumentTypeError, ArgumentValueError
from kernels._native.library import HAS_CUDA, LIBRARY
from tests.kernels import references
from tests.kernels.instruction_sets import ISAS, in_turn
from tests.kernels.numbers import FORMATS, Format, worst_exp_error
from tests.kernels.stand_in import HostTensor, float32_values, properties, shifted

pytestmark = in_turn(ISAS)
# Error bounds stated in add_mul_exp.cpp, in units in the last place of the result.
BOUNDS = {"float64": 1.1, "float16": 0.5002, "bfloat16": 0.50002}
EXP = pytest.mark.parametrize("form", [FORMATS[name] for name in BOUNDS], ids=list(BOUNDS))
SIZES = st.sampled_from([0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 255, 256, 257, 1000])
SEEDS = st.integers(0, 2**32 - 2)
SHIFTS = st.integers(0, 3)


def values(form: Format, seed: int, count: int, spread: float = 1.0) -> np.ndarray:
    """Random normal values of a format."""
    return form.encode(float32_values(seed, (count,), spread).astype(np.float64))


def poisoned(form: Format, count: int) -> np.ndarray:
    return form.encode(np.full(count, np.nan))


def exp(form: Format, x: np.ndarray, y: np.ndarray, threads: int | None = None) -> np.ndarray:
    out = poisoned(form, x.size)
    kernels.add_mul_exp(form.tensor(x), form.tensor(y), out=form.tensor(out), threads=threads)
    return out


def assert_exp(form: Format, out: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """Raise AssertionError unless every element is within the bound."""
    worst = worst_exp_error(form, out, x, y)
    assert worst <= BOUNDS[form.name], f"worst error {worst:.5f} ulp"


@EXP
@properties
@given(SIZES, SEEDS, st.tuples(SHIFTS, SHIFTS, SHIFTS))
def test_add_mul_exp_of_any_size_and_alignment(form, n, seed, shifts):
    arrays = (values(form, seed, n), values(form, seed + 1, n), poisoned(form, n))
    x, y, out = (shifted(array, shift) for array, shift in zip(arrays, shifts, strict=True))
    kernels.add_mul_exp(form.tensor(x), form.tensor(y), out=form.tensor(out))
    assert_exp(form, out, x, y)


@pytest.mark.parametrize(("low", "high"), [(-747, -707), (-707, -1), (-1, 1), (1, 711)])
def test_add_mul_exp_of_float64_over_the_whole_range_subnormal_results_too(low, high):
    form = FORMATS["float64"]
    # Beside halves of ln 2 the remainder is largest.
    borders = (np.arange(np.ceil(low / np.log(2)), high / np.log(2)) + 0.5) * np.log(2)
    near = np.concatenate([borders * (1 + step) for step in np.linspace(-1e-4, 1e-4, 41)])
    x = np.concatenate([np.linspace(low, high, 100_003), near]) / 2
    assert_exp(form, exp(form, x, np.zeros_like(x)), x, np.zeros_like(x))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("y", [0.0, 1.0, -3.5])
def test_add_mul_exp_of_all_numbers_of_two_bytes(name, y):
    form = FORMATS[name]
    x = np.arange(2**16, dtype=np.uint16).view(form.stored)
    other = form.encode(np.full(x.shape, y))
    assert_exp(form, exp(form, x, other), x, other)


@EXP
@properties
@given(st.lists(st.floats(), max_size=40), st.lists(st.floats(), max_size=40))
def test_add_mul_exp_of_any_values(form, some, others):
    n = min(len(some), len(others))
    x, y = (form.encode(np.array(numbers[:n], np.float64)) for numbers in (some, others))
    assert_exp(form, exp(form, x, y), x, y)


@EXP
def test_add_mul_exp_of_every_pair_of_special_values(form):
    tiny = float(np.ldexp(1.0, form.smallest))
    least, most = tiny * 2.0 ** (1 - form.digits), float(np.ldexp(2 - 2.0 ** (1 - form.digits), form.largest - 1))
    signed = [np.inf, 0.0, tiny, least, most, 1.0, float(np.log(2)) / 2]
    special = form.encode(np.array([np.nan, *signed, *(-value for value in signed)]))
    x, y = (grid.ravel().copy() for grid in np.meshgrid(special, special))
    out = exp(form, x, y)
    assert_exp(form, out, x, y)
    assert np.all(form.decode(out)[np.isneginf(form.decode(x)) & (form.decode(y) == 0)] == 0)


@EXP
def test_add_mul_exp_of_a_special_value_does_not_disturb_its_neighbours(form):
    x = values(form, 3, 256)
    clean = exp(form, x, x)
    for index in (0, 5, 16, 100, 255):
        dirty = x.copy()
        dirty[index] = form.encode(np.array(np.nan))
        actual = exp(form, dirty, x)
        assert np.isnan(form.decode(actual)[index])
        assert np.array_equal(np.delete(actual, index), np.delete(clean, index))


@EXP
@properties
@given(SIZES, st.integers(2, 5))
def test_add_mul_exp_by_threads_in_place_and_beside_others_is_the_same(form, n, threads):
    x, y = values(form, 1, n), values(form, 2, n)
    apart = exp(form, x, y)
    assert np.array_equal(exp(form, x, y, threads), apart)
    for which in (0, 1):
        memory = np.full(n + 64, 7, form.stored)
        out = memory[32 : 32 + n]
        inputs = [x, y]
        out[:] = inputs[which]
        inputs[which] = out
        kernels.add_mul_exp(*map(form.tensor, inputs), out=form.tensor(out))
        assert np.array_equal(out, apart)
        assert np.all(memory[:32] == 7) and np.all(memory[32 + n :] == 7)


@EXP
def test_add_mul_exp_allocates_its_own_dtype_and_wants_it_of_all(form):
    x = form.tensor(values(form, 1, 6).reshape(2, 3))
    out = kernels.add_mul_exp(x, x)
    assert (out.shape, out.dtype) == ((2, 3), form.name)
    other = HostTensor(float32_values(1, (2, 3)))
    with pytest.raises(ArgumentTypeError, match=f"y: got dtype float32, wanted {form.name}$"):
        kernels.add_mul_exp(x, other)
    with pytest.raises(ArgumentTypeError, match=f"out: got dtype float32, wanted {form.name}$"):
        kernels.add_mul_exp(x, x, out=other)
    flat = x.array.ravel()
    inside = form.tensor(flat[1:])
    with pytest.raises(ArgumentValueError, match=r"overlap x"):
        kernels.add_mul_exp(inside, inside, out=form.tensor(flat[:-1]))


def test_float64_is_only_the_cpus():
    x = FORMATS["float64"].tensor(values(FORMATS["float64"], 1, 4))
    x.device = "cuda:0"
    with pytest.raises(ArgumentTypeError, match=r"x: got dtype float64, wanted float32 or float16 or bfloat16$"):
        kernels.add_mul_exp(x, x)
    if HAS_CUDA:
        with pytest.raises(AttributeError):
            _ = LIBRARY["kv_add_mul_exp_float64_cuda"]


@EXP
def test_the_native_add_mul_exp_checks_for_itself(form):
    function, size = LIBRARY[f"kv_add_mul_exp_{form.name}_cpu"], ctypes.c_int64
    statuses = [function(None, None, None, size(n), threads) for n, threads in ((-1, 1), (4, 1), (0, 1), (0, 0))]
    assert statuses == [1, 2, 0, 3]


def test_a_dtype_that_no_kernel_takes_is_refused():
    x = HostTensor(np.zeros(4, np.int32))
    wanted = "float32 or float64 or float16 or bfloat16"
    with pytest.raises(ArgumentTypeError, match=f"x: got dtype int32, wanted {wanted}$"):
        kernels.add_mul_exp(x, x)


HALF = pytest.mark.parametrize("form", [FORMATS["float16"], FORMATS["bfloat16"]], ids=["float16", "bfloat16"])
ZERO_POINTS = st.integers(-128, 127)


def quantized(form: Format, x: np.ndarray, scale: float, zero_point: int, threads: int | None = None) -> np.ndarray:
    out = np.full(x.shape, 77, np.int8)
    kernels.quantize_int8(form.tensor(x), scale, zero_point, out=HostTensor(out), threads=threads)
    return out


def as_float32(form: Format, x: np.ndarray, scale: float, zero_point: int) -> np.ndarray:
    """The integers of the same numbers in float32, by the definition in numpy."""
    return references.quantize_int8_values(form.decode(x), scale, zero_point)


@HALF
@pytest.mark.parametrize(("scale", "zero_point"), [(0.05, 3), (1.0, 0), (1 / 3, -128), (2.0**-20, 127), (300.0, -7)])
def test_quantize_int8_of_all_numbers_of_two_bytes(form, scale, zero_point):
    x = np.arange(2**16, dtype=np.uint16).view(form.stored)
    assert np.array_equal(quantized(form, x, scale, zero_point), as_float32(form, x, scale, zero_point))


@HALF
@properties
@given(SIZES, SEEDS, st.tuples(SHIFTS, SHIFTS), st.floats(2**-7, 10, width=32), ZERO_POINTS)
def test_quantize_int8_of_any_size_and_alignment(form, n, seed, shifts, scale, zero_point):  # noqa: PLR0917 - drawn
    x = shifted(values(form, seed, n, 50 * scale), shifts[0])
    out = shifted(np.full(n, 77, np.int8), shifts[1])
    kernels.quantize_int8(form.tensor(x), scale, zero_point, out=HostTensor(out))
    assert np.array_equal(out, as_float32(form, x, scale, zero_point))


@HALF
@properties
@given(st.floats(2**-149, 2**127, width=32), ZERO_POINTS, st.integers(2, 5))
def test_quantize_int8_with_any_scale_and_by_threads(form, scale, zero_point, threads):
    x = np.arange(0, 2**16, 7, dtype=np.uint16).view(form.stored)
    wanted = as_float32(form, x, scale, zero_point)
    assert np.array_equal(quantized(form, x, scale, zero_point), wanted)
    assert np.array_equal(quantized(form, x, scale, zero_point, threads), wanted)


@HALF
def test_quantize_int8_of_ties_and_special_values(form):
    x = form.encode(np.array([np.nan, np.inf, -np.inf, 0.5, 1.5, 2.5, -0.5, -1.5, 126.5, -127.5, 60000.0, 1e-7, -0.0]))
    assert quantized(form, x, 1.0, 0).tolist() == [0, 127, -128, 0, 2, 2, 0, -2, 126, -128, 127, 0, 0]


@HALF
def test_quantize_int8_of_numbers_of_two_bytes_refuses_as_of_float32(form):
    memory = values(form, 1, 32)
    x = form.tensor(memory)
    with pytest.raises(ArgumentValueError, match=r"out: got bytes .* overlap x"):
        kernels.quantize_int8(x, 1.0, 0, out=HostTensor(memory.view(np.int8)[32:]))
    with pytest.raises(ArgumentTypeError, match=r"x: got dtype float64, wanted float32 or float16 or bfloat16$"):
        kernels.quantize_int8(HostTensor(np.zeros(4)), 1.0, 0)
    function, size, scale = LIBRARY[f"kv_quantize_int8_{form.name}_cpu"], ctypes.c_int64, ctypes.c_float(1)
    statuses = [function(None, None, size(n), scale, 0, threads) for n, threads in ((-1, 1), (4, 1), (0, 1), (0, 0))]
    assert statuses == [1, 2, 0, 3]
