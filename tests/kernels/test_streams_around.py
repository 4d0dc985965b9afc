"""The streams that memory is measured with: right values at any place and size, and not one byte beside them."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from kernels._native import library, streams
from kernels._native.errors import ArgumentTypeError, ArgumentValueError
from tests.kernels.instruction_sets import ISAS, in_turn
from tests.kernels.stand_in import HostTensor, float32_values

pytestmark = in_turn(ISAS)

SIZES = (0, 1, 3, 4, 7, 15, 16, 17, 31, 33, 64, 255, 1000, 5003)
GUARD = 32  # floats to both sides of the output, more than a line
BINDERS = {1: streams.bind_copy, 2: streams.bind_triad}
INPUTS = pytest.mark.parametrize("count", BINDERS, ids=["copy", "triad"])


def placed(values, shift):
    """Return the memory of an array `shift` floats behind a line's beginning, guarded by NaN, and the array."""
    memory = np.full(values.size + 2 * GUARD + 16, np.nan, dtype=np.float32)
    start = -memory.ctypes.data % 64 // 4 + GUARD + shift
    memory[start : start + values.size] = values
    return memory, memory[start : start + values.size]


def wanted_of(inputs):
    """Whole numbers: exact with and without fused multiplication."""
    return inputs[0] + np.float32(1.5) * inputs[1] if len(inputs) == 2 else inputs[0].copy()


def whole_numbers(seed, size):
    return np.rint(100 * float32_values(seed, (size,)))


def native(count):
    function = library.LIBRARY["kv_stream_triad_cpu" if count == 2 else "kv_stream_copy_cpu"]
    function.argtypes = [ctypes.c_void_p] * (count + 1) + [ctypes.c_int64, ctypes.c_int]
    function.restype = ctypes.c_int
    return function


@INPUTS
@pytest.mark.parametrize("shift", [0, 1, 4, 7, 8, 15])
@pytest.mark.parametrize("threads", [1, 3])
def test_values_are_right_and_nothing_beside_them_is_written(count, shift, threads):
    for size in SIZES:
        inputs = [placed(whole_numbers(seed, size), (5 * shift + seed) % 16)[1] for seed in range(count)]
        memory, out = placed(np.full(size, 77.0), shift)
        wanted = wanted_of(inputs)
        bound = BINDERS[count](*map(HostTensor, inputs), HostTensor(out), threads=threads)
        assert bound() == 0
        assert out.tobytes() == wanted.tobytes(), size
        out[:] = np.nan
        assert np.isnan(memory).all(), size


@INPUTS
def test_in_place_and_inputs_at_any_byte(count):
    values = whole_numbers(1, 1000)
    memory = np.zeros(4100, dtype=np.uint8)
    odd = memory[-memory.ctypes.data % 64 + 3 :][:4000]
    odd[:] = values.view(np.uint8)
    out = whole_numbers(2, 1000)
    wanted = wanted_of([values, out][:count])
    inputs = [odd.ctypes.data, out.ctypes.data][:count]
    assert native(count)(*inputs, out.ctypes.data, 1000, 1) == 0
    assert out.tobytes() == wanted.tobytes()


@INPUTS
def test_what_is_wrong_is_a_status_with_a_text(count):
    call, out = native(count), np.full(8, 77.0, dtype=np.float32)
    at = out.ctypes.data

    def said(*arguments):
        return library.status_text(call(*arguments))

    assert said(*[at] * (count + 1), -1, 1) == "a size is negative"
    for null in range(count + 1):
        pointers = [None if place == null else at for place in range(count + 1)]
        assert said(*pointers, 8, 1) == "a null pointer to an array that is not empty"
    assert said(*[None] * (count + 1), 0, 1) == "ok"
    assert said(*[at] * (count + 1), 8, 0) == "fewer than one thread asked for"
    assert said(*[at] * count, at + 2, 7, 1) == "the address of an output is no multiple of the size of its elements"
    assert np.all(out == 77.0)


@INPUTS
def test_tensors_that_do_not_fit_are_refused(count):
    x, short = (HostTensor(np.zeros(size, dtype=np.float32)) for size in (8, 7))
    with pytest.raises(ArgumentValueError, match=r"wanted \[7\] \(the shape of out\)"):
        BINDERS[count](*[x] * count, short)
    with pytest.raises(ArgumentTypeError, match="out: got dtype float64, wanted float32"):
        BINDERS[count](*[x] * count, HostTensor(np.zeros(8)))
    memory = np.zeros(9, dtype=np.float32)
    with pytest.raises(ArgumentValueError, match="overlap"):
        BINDERS[count](*[HostTensor(memory[:8])] * count, HostTensor(memory[1:]))
