"""Checks of what callers pass to kernels. Each raises with the argument, what was got and what was wanted."""

from __future__ import annotations

import ctypes
import math
import operator
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kernels._native.errors import ArgumentTypeError, ArgumentValueError

ITEM_SIZES = {  # bytes
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    "uint8": 1,
    "bool": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}
CUDA_DEVICE = re.compile(r"cuda:\d+")


class TensorLike(Protocol):
    """What kernels take: PyTorch tensors have all of it, and so may anything else.

    Contiguity is read from `is_contiguous()`, or else from `strides` in bytes (None: contiguous).
    """

    @property
    def shape(self) -> Sequence[int]:
        """Sizes of the axes."""

    @property
    def dtype(self) -> Any:
        """Element type; `str()` of it is "float32" or "torch.float32", and so on."""

    @property
    def device(self) -> Any:
        """Where the memory is; `str()` of it is "cpu" or "cuda:N"."""

    def data_ptr(self) -> int:
        """Address of the first element."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A checked tensor argument: its name, the tensor itself, and what the native code needs to know of it."""

    name: str
    tensor: TensorLike
    shape: tuple[int, ...]
    dtype: str
    device: str
    pointer: int  # address of the first byte
    elements: int
    end: int  # address of the first byte behind the last element

    @property
    def device_index(self) -> int | None:
        """N of "cuda:N", None on the CPU."""
        return None if self.device == "cpu" else int(self.device.removeprefix("cuda:"))


def dtypes_on(supports: Mapping[str, tuple[str, ...]], tensor: TensorLike) -> tuple[str, ...]:
    """Return the dtypes that a kernel takes on the device of a tensor, by its SUPPORTS.

    Those of "dtypes_cpu" or "dtypes_cuda" where there is such a key, else those of "dtypes".
    """
    device = str(getattr(tensor, "device", "cpu")).partition(":")[0]
    return supports.get(f"dtypes_{device}", supports["dtypes"])


def read(name: str, tensor: TensorLike, *dtypes: str) -> Argument:
    """Check one tensor by itself: attributes, dtype (one of those given), device, contiguity.

    Raises:
        ArgumentTypeError: not a tensor, or of another dtype.
        ArgumentValueError: on a device without kernels, or not contiguous.
    """
    try:
        shape, got_dtype, device = tuple(tensor.shape), str(tensor.dtype), str(tensor.device)
        pointer = tensor.data_ptr()
    except AttributeError as error:
        raise ArgumentTypeError(
            f"{name}: got {type(tensor).__name__} without {error.name}; "
            "wanted a tensor with data_ptr(), shape, dtype and device"
        ) from error
    dtype = got_dtype.removeprefix("torch.")
    if dtype not in dtypes:
        raise ArgumentTypeError(f"{name}: got dtype {dtype}, wanted {' or '.join(dtypes)}")
    if device != "cpu" and not CUDA_DEVICE.fullmatch(device):
        raise ArgumentValueError(f"{name}: got device {device!r}, wanted 'cpu' or 'cuda:N'")
    _require_contiguous(name, tensor, shape, ITEM_SIZES[dtype])
    elements = math.prod(shape)
    return Argument(name, tensor, shape, dtype, device, pointer, elements, pointer + elements * ITEM_SIZES[dtype])


def _require_contiguous(name: str, tensor: Any, shape: tuple[int, ...], item_size: int) -> None:
    is_contiguous = getattr(tensor, "is_contiguous", None)
    if is_contiguous is not None:
        contiguous = bool(is_contiguous())
    elif hasattr(tensor, "strides"):
        contiguous = tensor.strides is None or _are_row_major(tuple(tensor.strides), shape, item_size)
    else:
        raise ArgumentTypeError(
            f"{name}: {type(tensor).__name__} has neither is_contiguous() nor strides, so its layout is unknown"
        )
    if not contiguous:
        raise ArgumentValueError(
            f"{name}: got a tensor of shape {list(shape)} that is not contiguous, wanted row-major without gaps: "
            "pass a contiguous copy"
        )


def _are_row_major(strides: tuple[int, ...], shape: tuple[int, ...], item_size: int) -> bool:
    if 0 in shape:
        return True
    expected = item_size
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def require_same_device(first: Argument, *others: Argument) -> None:
    """Raise ArgumentValueError unless all tensors are on one device."""
    for other in others:
        if other.device != first.device:
            raise ArgumentValueError(f"{other.name}: got device {other.device}, wanted {first.device} as {first.name}")


def require_shape(argument: Argument, shape: tuple[int, ...], reason: str) -> None:
    """Raise ArgumentValueError unless the argument has this shape."""
    if argument.shape != shape:
        raise ArgumentValueError(f"{argument.name}: got shape {list(argument.shape)}, wanted {list(shape)} ({reason})")


def require_no_overlap(out: Argument, *inputs: Argument, in_place: bool) -> None:
    """Raise ArgumentValueError when out shares memory with an input, unless it may be and is exactly that input."""
    for argument in inputs:
        same = (argument.pointer, argument.end) == (out.pointer, out.end)
        if argument.pointer < out.end and out.pointer < argument.end and not (same and in_place):
            wanted = f"separate memory, or exactly {argument.name}" if in_place else "separate memory"
            raise ArgumentValueError(
                f"{out.name}: got bytes [{out.pointer:#x}, {out.end:#x}) that overlap {argument.name} "
                f"[{argument.pointer:#x}, {argument.end:#x}), wanted {wanted}"
            )


def require_positive_float(name: str, value: float) -> float:
    """Return a Python number as the float32 that the kernel will use, as a float; it must be finite and above 0.

    Raises:
        ArgumentTypeError: not a number.
        ArgumentValueError: NaN, infinite, zero or negative, before or after rounding to float32.
    """
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"{name}: got {value!r}, wanted a number") from error
    rounded = ctypes.c_float(number).value  # rounds to nearest, overflows to infinity
    if not (math.isfinite(rounded) and rounded > 0):
        raise ArgumentValueError(f"{name}: got {number!r}, wanted a finite float32 above 0")
    return rounded


def require_integer(name: str, value: int, low: int, high: int) -> int:
    """Return an integer in [low, high].

    Raises:
        ArgumentTypeError: not an integer.
        ArgumentValueError: out of range.
    """
    try:
        number = operator.index(value)
    except TypeError as error:
        raise ArgumentTypeError(f"{name}: got {value!r}, wanted an integer") from error
    if not low <= number <= high:
        raise ArgumentValueError(f"{name}: got {number}, wanted {low} to {high}")
    return number


def new_like(model: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Return an uninitialised tensor of the same library and device as `model`, through its `new_empty`.

    Raises:
        ArgumentTypeError: `model` cannot make one; the message asks for `out=`.
    """
    make = getattr(model, "new_empty", None)
    if make is None:
        raise ArgumentTypeError(
            f"out: got None, but {type(model).__name__} has no new_empty() to allocate it with: "
            f"pass out= of shape {list(shape)} and dtype {dtype}"
        )
    if isinstance(model.dtype, str):
        return make(shape, dtype=dtype)
    return make(shape, dtype=getattr(sys.modules[type(model.dtype).__module__], dtype))  # an object of its library
