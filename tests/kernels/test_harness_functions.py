"""The functions that ceilings are measured with: right values at any place and size, and not one byte beside them."""

from __future__ import annotations

import numpy as np
import pytest

from kernels._native import library, multiply_adds, streams
from tests.kernels.instruction_sets import ISAS, in_turn
from tests.kernels.stand_in import HostTensor, float32_values

pytestmark = in_turn(ISAS)

SIZES = (0, 1, 3, 4, 7, 15, 16, 17, 31, 33, 64, 255, 1000, 5003)
GUARD = 32  # floats to both sides of the output, more than a line
STREAMS = pytest.mark.parametrize(
    ("bind", "inputs"), [(streams.bind_copy, 1), (streams.bind_triad, 2)], ids=["copy", "triad"]
)


def placed(values, shift):
    """Return the memory of an array `shift` floats behind a line's beginning, guarded by NaN, and the array."""
    memory = np.full(values.size + 2 * GUARD + 16, np.nan, dtype=np.float32)
    start = -memory.ctypes.data % 64 // 4 + GUARD + shift
    memory[start : start + values.size] = values
    return memory, memory[start : start + values.size]


def streamed(inputs):
    """Whole numbers: exact with and without fused multiplication."""
    return inputs[0] + np.float32(1.5) * inputs[1] if len(inputs) == 2 else inputs[0].copy()


def whole_numbers(seed, size):
    return np.rint(100 * float32_values(seed, (size,)))


@STREAMS
@pytest.mark.parametrize("threads", [1, 3])
def test_stream(bind, inputs, threads):
    for shift in (0, 1, 4, 7, 8, 15):
        for size in SIZES:
            arrays = [placed(whole_numbers(seed, size), (5 * shift + seed) % 16)[1] for seed in range(inputs)]
            memory, out = placed(np.full(size, 77.0), shift)
            wanted = streamed(arrays)
            assert bind(*map(HostTensor, arrays), HostTensor(out), threads=threads)() == 0
            assert out.tobytes() == wanted.tobytes(), (shift, size)
            out[:] = np.nan
            assert np.isnan(memory).all(), (shift, size)


@STREAMS
def test_stream_in_place(bind, inputs):
    arrays = [whole_numbers(seed, 1000) for seed in range(inputs)]
    wanted = streamed(arrays)
    assert bind(*map(HostTensor, arrays), HostTensor(arrays[-1]))() == 0
    assert arrays[-1].tobytes() == wanted.tobytes()


@STREAMS
def test_stream_to_an_odd_address_is_refused(bind, inputs):
    memory = np.full(66, 77, np.uint8)
    odd = memory[-memory.ctypes.data % 4 + 2 :][:32].view(np.float32)
    status = bind(*[HostTensor(np.zeros(8, np.float32))] * inputs, HostTensor(odd))()
    assert library.status_text(status) == "the address of an output is no multiple of the size of its elements"
    assert np.all(memory == 77)


DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@DTYPES
@pytest.mark.parametrize("threads", [1, 3])
def test_multiply_adds(dtype, threads):
    """Of few whole numbers: exact with and without fused multiplication."""
    for size in (0, 1, 23, 24, 47, 48, 95, 96, 97, 191, 192, 193, 768, 1001):
        memory = np.full(size + 66, np.nan, dtype=dtype)
        numbers = memory[33 : 33 + size]
        numbers[:] = np.arange(size) % 7 - 3
        wanted = numbers.copy()
        for _ in range(5):
            wanted = dtype(3) - dtype(2) * wanted
        assert multiply_adds.bind(HostTensor(numbers), 2.0, 3.0, 5, threads=threads)() == 0
        assert numbers.tobytes() == wanted.tobytes(), size
        numbers[:] = np.nan
        assert np.isnan(memory).all(), size


@DTYPES
def test_multiply_adds_of_no_and_of_many_steps(dtype):
    numbers = np.linspace(-5, 5, 500, dtype=dtype)
    before = numbers.copy()
    assert multiply_adds.bind(HostTensor(numbers), 0.5, 3.0, 0)() == 0
    assert numbers.tobytes() == before.tobytes()
    assert multiply_adds.bind(HostTensor(numbers), 0.5, 3.0, 200)() == 0
    assert np.all(numbers == dtype(2))  # where they stay
