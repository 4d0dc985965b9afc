"""The multiply-adds that arithmetic is measured with: right values for any number of numbers, and none beside them."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from kernels._native import library, multiply_adds
from kernels._native.errors import ArgumentTypeError, ArgumentValueError
from tests.kernels.instruction_sets import ISAS, in_turn
from tests.kernels.stand_in import HostTensor

pytestmark = in_turn(ISAS)

DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
SIZES = (0, 1, 23, 24, 47, 48, 95, 96, 97, 191, 192, 193, 768, 1001)


def wanted_of(numbers, a, b, steps):
    for _ in range(steps):
        numbers = b - a * numbers
    return numbers


@DTYPES
@pytest.mark.parametrize("threads", [1, 3])
def test_values_are_right_and_nothing_beside_them_is_written(dtype, threads):
    """Of few whole numbers: exact with and without fused multiplication."""
    for size in SIZES:
        memory = np.full(size + 66, np.nan, dtype=dtype)
        numbers = memory[33 : 33 + size]
        numbers[:] = np.arange(size) % 7 - 3
        wanted = wanted_of(numbers, dtype(2), dtype(3), 5)
        assert multiply_adds.bind(HostTensor(numbers), 2.0, 3.0, 5, threads=threads)() == 0
        assert numbers.tobytes() == wanted.tobytes(), size
        numbers[:] = np.nan
        assert np.isnan(memory).all(), size


@DTYPES
def test_no_step_leaves_them_alone_and_many_come_to_where_they_stay(dtype):
    numbers = np.linspace(-5, 5, 500, dtype=dtype)
    before = numbers.copy()
    assert multiply_adds.bind(HostTensor(numbers), 0.5, 3.0, 0)() == 0
    assert numbers.tobytes() == before.tobytes()
    assert multiply_adds.bind(HostTensor(numbers), 0.5, 3.0, 200)() == 0
    assert np.all(numbers == dtype(2))


def native(dtype):
    is_double = dtype == np.float64
    function = library.LIBRARY["kv_multiply_adds_float64_cpu" if is_double else "kv_multiply_adds_cpu"]
    number = ctypes.c_double if is_double else ctypes.c_float
    function.argtypes = [ctypes.c_void_p, ctypes.c_int64, number, number, ctypes.c_int64, ctypes.c_int]
    function.restype = ctypes.c_int
    return function


@DTYPES
def test_what_is_wrong_is_a_status_with_a_text(dtype):
    numbers = np.full(8, 77.0, dtype=dtype)

    def said(items, n, steps, threads):
        return library.status_text(native(dtype)(items, n, 1.0, 1.0, steps, threads))

    at = numbers.ctypes.data
    assert said(at, -1, 1, 1) == said(at, 8, -1, 1) == "a size is negative"
    assert said(None, 8, 1, 1) == "a null pointer to an array that is not empty"
    assert said(None, 0, 1, 1) == "ok"
    assert said(at, 8, 1, 0) == "fewer than one thread asked for"
    assert np.all(numbers == 77.0)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ArgumentTypeError, match="items: got dtype int32, wanted float32 or float64"):
        multiply_adds.bind(HostTensor(np.zeros(8, dtype=np.int32)), 1.0, 1.0, 1)
    with pytest.raises(ArgumentValueError, match="steps: got -1"):
        multiply_adds.bind(HostTensor(np.zeros(8, dtype=np.float32)), 1.0, 1.0, -1)
