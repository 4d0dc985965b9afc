"""out = exp((x + y) * 2), element by element. The native code: add_mul_exp.cpp, add_mul_exp.cu."""

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
    require_no_overlap,
    require_same_device,
    require_shape,
)
from kernels._native.launch import NativeFunction
from kernels._native.library import raise_for_status

__all__ = ["SUPPORTS", "add_mul_exp", "bind"]

# What a benchmark of any later commit asks this commit before it calls it.
SUPPORTS: dict[str, tuple[str, ...]] = {
    "devices": ("cpu", "cuda"),
    "dtypes": ("float32", "float16", "bfloat16"),
    "dtypes_cpu": ("float32", "float64", "float16", "bfloat16"),  # instead of "dtypes"
    "keywords": ("out", "stream", "threads"),
}

_TYPES = [ctypes.c_void_p] * 3 + [ctypes.c_int64]
_NATIVE = {
    "float32": NativeFunction("add_mul_exp", _TYPES),
    **{
        dtype: NativeFunction(f"add_mul_exp_{dtype}", _TYPES, cuda=dtype in SUPPORTS["dtypes"])
        for dtype in SUPPORTS["dtypes_cpu"]
        if dtype != "float32"
    },
}


def new_output(supports: Mapping[str, tuple[str, ...]], x: TensorLike) -> Any:
    """Return an uninitialised output for x, whose dtype must be one that `supports` names."""
    x_ = read("x", x, *dtypes_on(supports, x))
    return new_like(x, x_.shape, x_.dtype)


def read_tensors(
    supports: Mapping[str, tuple[str, ...]], x: TensorLike, y: TensorLike, out: TensorLike
) -> tuple[Argument, Argument, Argument]:
    """Check the tensors of a call by the SUPPORTS of an implementation; return what is known of them."""
    x_ = read("x", x, *dtypes_on(supports, x))
    y_, out_ = read("y", y, x_.dtype), read("out", out, x_.dtype)
    require_same_device(x_, y_, out_)
    require_shape(y_, x_.shape, "the shape of x: shapes are not broadcast")
    require_shape(out_, x_.shape, "the shape of x")
    require_no_overlap(out_, x_, y_, in_place=True)
    return x_, y_, out_


def bind(
    x: TensorLike, y: TensorLike, *, out: TensorLike, stream: Any = None, threads: int | None = None
) -> Callable[[], int]:
    """Check the arguments once; return a call without arguments that computes out and returns a status (0: done).

    The arguments and errors are those of `add_mul_exp`. The call keeps the tensors alive, and uses the stream that
    was current when it was bound.
    """
    x_, y_, out_ = read_tensors(SUPPORTS, x, y, out)
    return _NATIVE[x_.dtype].bind((x_, y_, out_), (x_.elements,), stream, threads)


def add_mul_exp(
    x: TensorLike, y: TensorLike, *, out: Any = None, stream: Any = None, threads: int | None = None
) -> Any:
    """Compute exp((x + y) * 2) and return it.

    Args:
        x: float32, float16 or bfloat16, any shape, contiguous, on the CPU or a CUDA device; on the CPU also float64.
        y: the dtype, shape and device of x.
        out: where the result goes: as x, and may be x or y itself. None: allocated with `x.new_empty`.
        stream: the CUDA stream to run on: an integer handle or an object with `cuda_stream`. None: PyTorch's current
            stream where PyTorch is loaded, else CUDA's default stream.
        threads: CPU threads, 1 or more. None: the environment variable KV_THREADS, else 1.

    float16 and bfloat16 are computed in float32 and rounded once, to the nearest, half to even. Overflow gives
    infinity, underflow 0, NaN gives NaN. Gradients are not tracked.

    Raises:
        kernels._native.errors.ArgumentTypeError: an argument is no tensor, or of another dtype.
        kernels._native.errors.ArgumentValueError: shapes or devices differ, a tensor is not contiguous, out overlaps
            an input without being it, or threads or stream do not fit the device.
        kernels._native.errors.LaunchError: the kernel could not be run.
    """
    if out is None:
        out = new_output(SUPPORTS, x)
    raise_for_status("add_mul_exp", bind(x, y, out=out, stream=stream, threads=threads)())
    return out
