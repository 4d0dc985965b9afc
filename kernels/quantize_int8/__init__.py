"""out = int8(clamp(round_half_even(x / scale) + zero_point, -128, 127)).

The native code: quantize_int8.cpp, quantize_int8.cu.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from kernels._native.arguments import (
    Argument,
    TensorLike,
    dtypes_on,
    new_like,
    read,
    require_integer,
    require_no_overlap,
    require_positive_float,
    require_same_device,
    require_shape,
)
from kernels._native.launch import NativeFunction
from kernels._native.library import raise_for_status

__all__ = ["SUPPORTS", "bind", "quantize_int8"]

# What a benchmark of any later commit asks this commit before it calls it.
SUPPORTS: dict[str, tuple[str, ...]] = {
    "devices": ("cpu", "cuda"),
    "dtypes": ("float32", "float16", "bfloat16"),
    "keywords": ("out", "stream", "threads"),
}

_TYPES = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int]
_NATIVE = {
    "float32": NativeFunction("quantize_int8", _TYPES),
    **{dtype: NativeFunction(f"quantize_int8_{dtype}", _TYPES) for dtype in SUPPORTS["dtypes"] if dtype != "float32"},
}


def new_output(supports: Mapping[str, tuple[str, ...]], x: TensorLike) -> Any:
    """Return an uninitialised output for x, whose dtype must be one that `supports` names."""
    return new_like(x, read("x", x, *dtypes_on(supports, x)).shape, "int8")


def read_arguments(
    supports: Mapping[str, tuple[str, ...]], x: TensorLike, scale: float, zero_point: int, out: TensorLike
) -> tuple[Argument, Argument, float, int]:
    """Check the arguments of a call by the SUPPORTS of an implementation.

    Returns: what is known of x and out, scale as a float32 number, zero_point.
    """
    x_, out_ = read("x", x, *dtypes_on(supports, x)), read("out", out, "int8")
    require_same_device(x_, out_)
    require_shape(out_, x_.shape, "the shape of x")
    require_no_overlap(out_, x_, in_place=False)
    scale = require_positive_float("scale", scale)
    return x_, out_, scale, require_integer("zero_point", zero_point, -128, 127)


def bind(
    x: TensorLike,
    scale: float,
    zero_point: int,
    *,
    out: TensorLike,
    stream: Any = None,
    threads: int | None = None,
) -> Callable[[], int]:
    """Check the arguments once; return a call without arguments that computes out and returns a status (0: done).

    The arguments and errors are those of `quantize_int8`. The call keeps the tensors alive, and uses the stream that
    was current when it was bound.
    """
    x_, out_, scale, zero_point = read_arguments(SUPPORTS, x, scale, zero_point, out)
    return _NATIVE[x_.dtype].bind((x_, out_), (x_.elements, scale, zero_point), stream, threads)


def quantize_int8(
    x: TensorLike,
    scale: float,
    zero_point: int,
    *,
    out: Any = None,
    stream: Any = None,
    threads: int | None = None,
) -> Any:
    """Quantize to int8 and return the result: exactly the integers of five float32 operations.

    They are `torch.clamp(torch.round(x / scale) + zero_point, -128, 127).to(torch.int8)` on the CPU: a true division
    by the float32 nearest to scale, halves rounded to even, zero_point added in float32. Infinities saturate; NaN
    gives 0, as PyTorch's cast does on x86 CPUs. (PyTorch's division of a CUDA tensor by a Python number multiplies
    with the reciprocal instead: there the integers may differ by one from these.)

    Args:
        x: float32, float16 or bfloat16, any shape, contiguous, on the CPU or a CUDA device. float16 and bfloat16 are
            made float32 first (PyTorch rounds their quotients to the type: those integers may differ).
        scale: finite and above 0, as float32 too.
        zero_point: -128 to 127.
        out: int8, the shape and device of x, not overlapping it. None: allocated with `x.new_empty`.
        stream: the CUDA stream to run on: an integer handle or an object with `cuda_stream`. None: PyTorch's current
            stream where PyTorch is loaded, else CUDA's default stream.
        threads: CPU threads, 1 or more. None: the environment variable KV_THREADS, else 1.

    Raises:
        kernels._native.errors.ArgumentTypeError: an argument is no tensor or number, or of the wrong dtype.
        kernels._native.errors.ArgumentValueError: shapes or devices differ, a tensor is not contiguous, out overlaps
            x, scale or zero_point is out of range, or threads or stream do not fit the device.
        kernels._native.errors.LaunchError: the kernel could not be run.
    """
    if out is None:
        out = new_output(SUPPORTS, x)
    raise_for_status("quantize_int8", bind(x, scale, zero_point, out=out, stream=stream, threads=threads)())
    return out
