"""Tensors: numpy arrays with PyTorch's method names."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from typing import Any

import numpy as np


class dtype:  # noqa: N801 - PyTorch's name
    """An element type. `str()` of it is "torch.float32" and so on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.array_type = np.dtype(name)

    def __repr__(self) -> str:
        return f"torch.{self.name}"


dtype.__module__ = "torch"  # whoever makes a tensor like another looks its dtypes up there

float32, float64 = dtype("float32"), dtype("float64")
int8, int32, int64, bool = dtype("int8"), dtype("int32"), dtype("int64"), dtype("bool")  # noqa: A001 - PyTorch's name
DTYPES = {known.array_type: known for known in (float32, float64, int8, int32, int64, bool)}


def _operation(function: Callable[[Any, Any], Any], *, swapped: builtins.bool = False) -> Callable[[Any, Any], Tensor]:
    def method(self: Tensor, other: Any) -> Tensor:
        pair = (self.array, _plain(other))
        return Tensor(function(*(pair[::-1] if swapped else pair)))

    return method


def _plain(value: Any) -> Any:
    """Return what numpy works with: the array of a tensor, and of an index each of its parts."""
    if isinstance(value, tuple):
        return tuple(_plain(part) for part in value)
    return value.array if isinstance(value, Tensor) else value


def extents(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the sizes that are given one by one, or as one sequence."""
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape


class Tensor:
    """A numpy array, contiguous or not, on the CPU."""

    device = "cpu"
    __hash__ = None

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def dtype(self) -> dtype:
        return DTYPES[self.array.dtype]

    def data_ptr(self) -> int:
        return self.array.ctypes.data if self.array.size else 0

    def numel(self) -> int:
        return self.array.size

    def is_contiguous(self) -> builtins.bool:
        return self.array.flags.c_contiguous

    def is_floating_point(self) -> builtins.bool:
        return self.array.dtype.kind == "f"

    __add__, __radd__ = _operation(operator.add), _operation(operator.add, swapped=True)
    __sub__, __rsub__ = _operation(operator.sub), _operation(operator.sub, swapped=True)
    __mul__, __rmul__ = _operation(operator.mul), _operation(operator.mul, swapped=True)
    __truediv__ = _operation(operator.truediv)
    __matmul__ = _operation(operator.matmul)
    __eq__, __ne__ = _operation(operator.eq), _operation(operator.ne)
    __le__, __lt__ = _operation(operator.le), _operation(operator.lt)
    __ge__, __gt__ = _operation(operator.ge), _operation(operator.gt)
    __and__, __or__ = _operation(operator.and_), _operation(operator.or_)

    def __invert__(self) -> Tensor:
        return Tensor(~self.array)

    def __float__(self) -> builtins.float:
        return float(self.array.item())

    def __int__(self) -> int:
        return int(self.array.item())

    def __bool__(self) -> builtins.bool:
        return builtins.bool(self.array.item())

    def item(self) -> Any:
        return self.array.item()

    def __getitem__(self, index: Any) -> Tensor:
        return Tensor(self.array[_plain(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[_plain(index)] = _plain(value)

    def fill_(self, value: builtins.float) -> Tensor:
        self.array.fill(value)
        return self

    def copy_(self, source: Tensor) -> Tensor:
        np.copyto(self.array, source.array)
        return self

    def clone(self) -> Tensor:
        return Tensor(self.array.copy())

    def to(self, target: Any, *, copy: builtins.bool = True) -> Tensor:
        """Return it with another dtype, or itself: it is on the CPU already."""
        if isinstance(target, dtype):
            with np.errstate(invalid="ignore", over="ignore"):
                return Tensor(self.array.astype(target.array_type, copy=copy))
        if str(target) != "cpu":
            raise NotImplementedError(f"the stand-in for PyTorch has no device {target}")
        return self

    def float(self) -> Tensor:
        """Return it as float32."""
        return self.to(float32)

    def double(self) -> Tensor:
        return self.to(float64)

    def int(self) -> Tensor:
        return self.to(int32)

    def detach(self) -> Tensor:
        return self

    def abs(self) -> Tensor:
        return Tensor(np.abs(self.array))

    def isnan(self) -> Tensor:
        return Tensor(np.isnan(self.array))

    def isinf(self) -> Tensor:
        return Tensor(np.isinf(self.array))

    def isfinite(self) -> Tensor:
        return Tensor(np.isfinite(self.array))

    def clamp_min(self, low: builtins.float) -> Tensor:
        return Tensor(np.maximum(self.array, self.array.dtype.type(low)))

    def mul(self, factor: builtins.float) -> Tensor:
        return self * factor

    def masked_fill_(self, mask: Tensor, value: builtins.float) -> Tensor:
        self.array[mask.array] = value
        return self

    def _store(self, result: Any) -> Tensor:
        self.array[...] = result
        return self

    def abs_(self) -> Tensor:
        return self._store(np.abs(self.array))

    def add_(self, other: Any) -> Tensor:
        return self._store(self.array + _plain(other))

    def sub_(self, other: Tensor) -> Tensor:
        with np.errstate(invalid="ignore"):
            return self._store(self.array - other.array)

    def mul_(self, factor: builtins.float) -> Tensor:
        return self._store(self.array * factor)

    def div_(self, other: Tensor) -> Tensor:
        return self._store(self.array / other.array)

    def clamp_min_(self, low: builtins.float) -> Tensor:
        return self._store(self.clamp_min(low).array)

    def bitwise_and_(self, bits: builtins.int) -> Tensor:
        return self._store(self.array & bits)

    def any(self) -> Tensor:
        return Tensor(self.array.any())

    def sum(self) -> Tensor:
        """Return the sum. Of booleans and integers as int64, as PyTorch does."""
        with np.errstate(invalid="ignore"):
            return Tensor(self.array.sum(dtype=None if self.is_floating_point() else np.int64))

    def max(self) -> Tensor:
        return Tensor(self.array.max())

    def nonzero(self) -> Tensor:
        """Return the indices of what is not zero, a row for each."""
        return Tensor(np.argwhere(self.array))

    def flatten(self) -> Tensor:
        return Tensor(self.array.reshape(-1))

    def view(self, *shape: Any) -> Tensor:
        """Return the same memory as another dtype or in another shape. What is not contiguous has none here."""
        if isinstance(shape[0], dtype):
            return Tensor(self.array.view(shape[0].array_type))
        if not self.is_contiguous():
            raise RuntimeError("view: the stand-in for PyTorch views contiguous tensors only")
        return self.reshape(*shape)

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        return self.array

    def expand_as(self, other: Tensor) -> Tensor:
        return Tensor(np.broadcast_to(self.array, other.shape))

    def split(self, rows: builtins.int) -> tuple[Tensor, ...]:
        return tuple(self[begin : begin + rows] for begin in range(0, self.shape[0], rows))

    def all(self) -> Tensor:
        return Tensor(self.array.all())

    def reshape(self, *shape: Any) -> Tensor:
        return Tensor(self.array.reshape(extents(shape)))

    def repeat(self, *times: Any) -> Tensor:
        return Tensor(np.tile(self.array, extents(times)))

    def contiguous(self) -> Tensor:
        return Tensor(np.ascontiguousarray(self.array))

    def new_empty(self, *shape: Any, dtype: dtype | None = None) -> Tensor:
        return Tensor(np.empty(extents(shape), (dtype or self.dtype).array_type))
