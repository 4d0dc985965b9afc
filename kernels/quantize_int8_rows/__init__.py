"""Each row of a matrix quantised to int8 with a scale of its own: max |x| of the row / 127.

The native code: quantize_int8_rows.cpp, quantize_int8_rows.cu.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
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
from kernels._native.errors import ArgumentValueError
from kernels._native.launch import NativeFunction
from kernels._native.library import raise_for_status

__all__ = ["SUPPORTS", "bind", "quantize_int8_rows"]

# What a benchmark of any later commit asks this commit before it calls it.
SUPPORTS: dict[str, tuple[str, ...]] = {
    "devices": ("cpu", "cuda"),
    "dtypes": ("float32", "float16", "bfloat16"),
    "keywords": ("out", "stream", "threads"),
}

_TYPES = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 2
_NATIVE = {
    "float32": NativeFunction("quantize_int8_rows", _TYPES),
    **{
        dtype: NativeFunction(f"quantize_int8_rows_{dtype}", _TYPES)
        for dtype in SUPPORTS["dtypes"]
        if dtype != "float32"
    },
}


def _read_matrix(x: TensorLike) -> Argument:
    x_ = read("x", x, *dtypes_on(SUPPORTS, x))
    if len(x_.shape) != 2:
        raise ArgumentValueError(f"x: got shape {list(x_.shape)}, wanted two axes")
    return x_


def read_arguments(x: TensorLike, scales: TensorLike, out: TensorLike) -> tuple[Argument, Argument, Argument]:
    """Check the tensors of a call; return what is known of x, scales and out."""
    x_, scales_, out_ = _read_matrix(x), read("scales", scales, "float32"), read("out", out, "int8")
    require_same_device(x_, scales_, out_)
    require_shape(scales_, x_.shape[:1], "one for each row of x")
    require_shape(out_, x_.shape, "the shape of x")
    require_no_overlap(out_, x_, scales_, in_place=False)
    require_no_overlap(scales_, x_, in_place=False)
    return x_, scales_, out_


def new_outputs(x: TensorLike, scales: Any, out: Any) -> tuple[Any, Any]:
    """Return out and scales: those that are given, and in the place of None uninitialised ones for x."""
    shape = _read_matrix(x).shape
    out = new_like(x, shape, "int8") if out is None else out
    return out, new_like(x, shape[:1], "float32") if scales is None else scales


def bind(
    x: TensorLike, scales: TensorLike, *, out: TensorLike, stream: Any = None, threads: int | None = None
) -> Callable[[], int]:
    """Check the arguments once; return a call without arguments that computes out and scales and returns a status.

    The arguments and errors are those of `quantize_int8_rows`; the status is 0 where all is done. The call keeps the
    tensors alive, and uses the stream that was current when it was bound.
    """
    x_, scales_, out_ = read_arguments(x, scales, out)
    return _NATIVE[x_.dtype].bind((x_, out_, scales_), x_.shape, stream, threads)


def quantize_int8_rows(
    x: TensorLike, scales: Any = None, *, out: Any = None, stream: Any = None, threads: int | None = None
) -> tuple[Any, Any]:
    """Quantize each row of x to -127 ... 127 and return the integers and the rows' scales.

    They are `scales = x.float().abs().amax(1, keepdim=True) / 127` and
    `torch.clamp(torch.round(x.float() / scales), -127, 127).to(torch.int8)` on the CPU: true divisions in float32,
    halves rounded to even. A row of zeros has scale 0 and integers 0; one with an infinity or a NaN has that as its
    scale, and integers 0. Where the maximum is so small that its scale is 0, numbers that are not 0 give 127 or -127.

    Args:
        x: float32, float16 or bfloat16, shape (rows, columns), contiguous, on the CPU or a CUDA device. float16 and
            bfloat16 are made float32 first.
        scales: float32, shape (rows,), on the device of x, overlapping neither: where the scales go. None: allocated
            with `x.new_empty`.
        out: int8, the shape and device of x, overlapping neither. None: allocated with `x.new_empty`.
        stream: the CUDA stream to run on: an integer handle or an object with `cuda_stream`. None: PyTorch's current
            stream where PyTorch is loaded, else CUDA's default stream.
        threads: CPU threads, 1 or more. None: the environment variable KV_THREADS, else 1.

    Raises:
        kernels._native.errors.ArgumentTypeError: an argument is no tensor, or of the wrong dtype.
        kernels._native.errors.ArgumentValueError: x has not two axes, shapes or devices differ, a tensor is not
            contiguous, tensors overlap, or threads or stream do not fit the device.
        kernels._native.errors.LaunchError: the kernel could not be run.
    """
    out, scales = new_outputs(x, scales, out)
    raise_for_status("quantize_int8_rows", bind(x, scales, out=out, stream=stream, threads=threads)())
    return out, scales
