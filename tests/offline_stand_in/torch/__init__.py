"""A stand-in for PyTorch over numpy arrays: for a rehearsal of the machinery, not a device to measure `eager` by.

It has what the CPU half of the suite and the kernels' tests touch (implementations eager and native, ceilings), by
PyTorch's names, dtypes and shapes, and nothing else: a rehearsal on an interpreter that has no PyTorch runs the suite's
own code from end to end. Its random numbers are other ones than PyTorch's, its times mean nothing, it has no CUDA and
no AOTInductor.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from torch import cuda as cuda
from torch import version as version
from torch._tensor import Tensor as Tensor
from torch._tensor import bool as bool  # noqa: A004 - PyTorch's name
from torch._tensor import dtype as dtype
from torch._tensor import extents as extents
from torch._tensor import float32 as float32
from torch._tensor import float64 as float64
from torch._tensor import int8 as int8
from torch._tensor import int32 as int32
from torch._tensor import int64 as int64

__version__ = version.__version__

backends = SimpleNamespace(
    cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False)),
    cpu=SimpleNamespace(get_cpu_capability=lambda: "DEFAULT"),
)


class Generator:
    """A source of random numbers, to be seeded before it is used."""

    def manual_seed(self, seed: int) -> Generator:
        self.numbers = np.random.default_rng(seed)
        return self


def randn(*shape: int, generator: Generator | None = None, dtype: dtype = float32) -> Tensor:
    numbers = generator.numbers if generator else np.random.default_rng()
    return Tensor(numbers.standard_normal(shape, dtype=dtype.array_type))


def rand(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng().random(shape, np.float32))


def tensor(values: Sequence[float]) -> Tensor:
    return Tensor(np.array(values, np.float32))


def from_numpy(array: np.ndarray) -> Tensor:
    """Return a tensor over the array's own memory."""
    return Tensor(array)


def full(shape: tuple[int, ...], value: float, *, dtype: dtype = float32, device: str = "cpu") -> Tensor:
    return empty(shape, dtype=dtype, device=device).fill_(value)


def empty(*shape: Any, dtype: dtype = float32, device: str = "cpu") -> Tensor:
    """Return uninitialised memory. `to` says what is wrong with another device."""
    return Tensor(np.empty(extents(shape), dtype.array_type)).to(device)


def empty_like(model: Tensor, *, dtype: dtype | None = None) -> Tensor:
    return model.new_empty(model.shape, dtype=dtype)


def add(x: Tensor, y: Tensor, *, alpha: float = 1, out: Tensor) -> Tensor:
    np.add(x.array, y.array if alpha == 1 else y.array * alpha, out=out.array)
    return out


def sum(x: Tensor, *, dim: int, out: Tensor) -> Tensor:  # noqa: A001 - PyTorch's name
    np.sum(x.array, axis=dim, out=out.array)
    return out


def minimum(x: Tensor, y: Tensor) -> Tensor:
    return Tensor(np.minimum(x.array, y.array))


def exp(x: Tensor) -> Tensor:
    return Tensor(np.exp(x.array))


def round(x: Tensor) -> Tensor:  # noqa: A001 - PyTorch's name
    """Round halves to even, as PyTorch does."""
    return Tensor(np.rint(x.array))


def clamp(x: Tensor, low: float, high: float) -> Tensor:
    return Tensor(np.clip(x.array, low, high))


def matmul(a: Tensor, b: Tensor, *, out: Tensor | None = None) -> Tensor:
    return Tensor(np.matmul(a.array, b.array, out=None if out is None else out.array))


def equal(a: Tensor, b: Tensor) -> Any:
    return np.array_equal(a.array, b.array)


def _assert_close(actual: Tensor, expected: Tensor, *, rtol: float, atol: float) -> None:
    assert actual.dtype is expected.dtype
    np.testing.assert_allclose(actual.array, expected.array, rtol=rtol, atol=atol)


testing = SimpleNamespace(assert_close=_assert_close)


def set_num_threads(count: int) -> None:
    """Take a number of threads, which numpy has no way to be told at this time."""
    if count < 1:
        raise RuntimeError(f"set_num_threads expects a positive integer, got {count}")


def set_grad_enabled(mode: Any) -> None:
    """Refuse what cannot be: there are no gradients here."""
    if mode:
        raise NotImplementedError("the stand-in for PyTorch has no gradients")
