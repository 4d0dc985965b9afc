"""Writing around the caches: the same bits, in whatever place the output lies, and not one byte beside it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import kernels
from kernels._native import library
from tests.kernels import references
from tests.kernels.instruction_sets import ISAS, in_turn
from tests.kernels.numbers import FORMATS
from tests.kernels.stand_in import HostTensor, float32_values

pytestmark = in_turn(ISAS)

SIZES = (1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 300, 1024, 5003)
GUARD = 128  # bytes to both sides of an output, more than a line


@pytest.fixture
def around():
    """Let calls of any size write around the caches. Put back what was."""
    library.stream_above(0)
    yield
    library.stream_above(None)


def guarded(size, dtype, shift):
    """Return memory, and an output of `size` elements that begins `shift` bytes behind a line's beginning."""
    itemsize = np.dtype(dtype).itemsize
    memory = np.full(size * itemsize + 2 * GUARD + 64, 0xA5, dtype=np.uint8)
    start = -memory.ctypes.data % 64 + GUARD + shift
    return memory, memory[start : start + size * itemsize].view(dtype), start


def values(form, seed, count):
    return form.encode(float32_values(seed, (count,), 3.0).astype(np.float64))


def add_mul_exp(form, out, seed, threads=None):
    x, y = (form.tensor(values(form, seed + number, out.size)) for number in (0, 1))
    kernels.add_mul_exp(x, y, out=form.tensor(out), threads=threads)


def quantize(form, out, seed, threads=None):
    x = form.tensor(values(form, seed, out.size))
    kernels.quantize_int8(x, 0.05, 3, out=HostTensor(out), threads=threads)


CASES = [
    *((add_mul_exp, FORMATS[name], FORMATS[name].stored) for name in ("float32", "float64", "float16", "bfloat16")),
    *((quantize, FORMATS[name], np.int8) for name in ("float32", "float16", "bfloat16")),
]
CALLS = pytest.mark.parametrize(
    ("call", "form", "stored"), CASES, ids=[f"{call.__name__}-{form.name}" for call, form, _ in CASES]
)


@CALLS
def test_bits_and_guards(around, call, form, stored):
    for shift, size in itertools.product((0, 1, 4, 8, 16, 28, 60, 63), SIZES):
        memory, out, start = guarded(size, stored, shift)
        call(form, out, size)
        usual = np.zeros(size, dtype=stored)
        library.stream_above(None)
        call(form, usual, size)
        library.stream_above(0)
        assert out.tobytes() == usual.tobytes(), (shift, size)
        memory[start : start + out.nbytes] = 0xA5
        assert np.all(memory == 0xA5), (shift, size)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_blocks_with_ties(around, name):
    form, x = FORMATS[name], float32_values(5, (20 * 64,), 3.0).astype(np.float64)
    x[64 * np.arange(0, 20, 3) + 7] = 0.125  # 2.5 scales
    tensor = form.tensor(form.encode(x))
    for shift in (0, 5):
        memory, out, _ = guarded(x.size, np.int8, shift)
        kernels.quantize_int8(tensor, 0.05, 3, out=HostTensor(out))
        assert np.array_equal(out, references.quantize_int8_values(form.decode(tensor.array), 0.05, 3))
        out[:] = -91  # 0xA5
        assert np.all(memory == 0xA5)


def test_in_place(around):
    x = float32_values(1, (1000,))
    wanted = x.copy()
    library.stream_above(None)
    kernels.add_mul_exp(HostTensor(wanted), HostTensor(x), out=HostTensor(wanted))
    library.stream_above(0)
    out = x.copy()
    kernels.add_mul_exp(HostTensor(out), HostTensor(x), out=HostTensor(out))
    assert out.tobytes() == wanted.tobytes()
