"""A tensor for tests, over numpy memory: kernels must need nothing of PyTorch."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

FLOAT_POISON = np.float32(np.nan)
INT_POISON = 77

# Of each dtype, with each instruction set
few_examples = settings(max_examples=min(40, settings.default.max_examples))

SEEDS = st.integers(0, 2**32 - 2)
# Elements behind an aligned address at which a tensor begins. Half of them at 0: vectors need it of every tensor.
OFFSET = st.one_of(st.just(0), st.integers(0, 7))
# Nothing, one, around vectors of 4 to 16, around blocks of 256 threads with one and with four elements each, primes.
SIZES = st.one_of(
    st.sampled_from([0, 1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 4099, 65537]),
    st.integers(0, 3000),
)
ZERO_POINTS = st.integers(-128, 127)


class HostTensor:
    """What `kernels` asks of a tensor, and nothing else."""

    def __init__(self, array: np.ndarray, device: str = "cpu") -> None:
        self.array = array
        self.device = device

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> str:
        return str(self.array.dtype)

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def is_contiguous(self) -> bool:
        return self.array.flags.c_contiguous

    def new_empty(self, shape: tuple[int, ...], dtype: str) -> HostTensor:
        return HostTensor(poisoned(shape, dtype), self.device)


def poisoned(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """An array full of values that a kernel which forgets an element leaves behind."""
    return np.full(shape, FLOAT_POISON if dtype == "float32" else INT_POISON, dtype=dtype)


def shifted(array: np.ndarray, elements: int) -> np.ndarray:
    """A copy of an array that begins `elements` elements behind an address divisible by 64."""
    memory = np.zeros(array.nbytes + 128 + elements * array.itemsize, dtype=np.uint8)
    start = -memory.ctypes.data % 64 + elements * array.itemsize
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def float32_values(seed: int, shape: tuple[int, ...], spread: float = 1.0) -> np.ndarray:
    """Random normal float32 values with the standard deviation `spread`."""
    return (np.random.default_rng(seed).standard_normal(shape) * spread).astype(np.float32)
