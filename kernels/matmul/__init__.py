"""C = A B, row-major float32. The native code: matmul.cpp, matmul.cu."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from kernels._native.arguments import (
    Argument,
    TensorLike,
    new_like,
    read,
    require_no_overlap,
    require_same_device,
    require_shape,
)
from kernels._native.errors import ArgumentValueError
from kernels._native.launch import NativeFunction
from kernels._native.library import raise_for_status

__all__ = ["SUPPORTS", "bind", "matmul"]

# What a benchmark of any later commit asks this commit before it calls it.
SUPPORTS: dict[str, tuple[str, ...]] = {
    "devices": ("cpu", "cuda"),
    "dtypes": ("float32",),
    "keywords": ("out", "stream", "threads"),
}

_NATIVE = NativeFunction("matmul", [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 3)


def _read_factors(a: TensorLike, b: TensorLike) -> tuple[Argument, Argument]:
    a_, b_ = read("a", a, "float32"), read("b", b, "float32")
    for argument in (a_, b_):
        if len(argument.shape) != 2:
            raise ArgumentValueError(f"{argument.name}: got shape {list(argument.shape)}, wanted two axes")
    if a_.shape[1] != b_.shape[0]:
        raise ArgumentValueError(
            f"b: got shape {list(b_.shape)}, wanted [{a_.shape[1]}, n] (a has the shape {list(a_.shape)})"
        )
    return a_, b_


def new_output(a: TensorLike, b: TensorLike) -> Any:
    """Return an uninitialised output for a and b."""
    a_, b_ = _read_factors(a, b)
    return new_like(a, (a_.shape[0], b_.shape[1]), "float32")


def read_matrices(a: TensorLike, b: TensorLike, out: TensorLike) -> tuple[Argument, Argument, Argument]:
    """Check the tensors of a call; return what is known of them."""
    a_, b_ = _read_factors(a, b)
    out_ = read("out", out, "float32")
    require_same_device(a_, b_, out_)
    require_shape(out_, (a_.shape[0], b_.shape[1]), "rows of a, columns of b")
    require_no_overlap(out_, a_, b_, in_place=False)
    return a_, b_, out_


def bind(
    a: TensorLike, b: TensorLike, *, out: TensorLike, stream: Any = None, threads: int | None = None
) -> Callable[[], int]:
    """Check the arguments once; return a call without arguments that computes out and returns a status (0: done).

    The arguments and errors are those of `matmul`. The call keeps the tensors alive, and uses the stream that was
    current when it was bound.
    """
    a_, b_, out_ = read_matrices(a, b, out)
    (m, k), n = a_.shape, b_.shape[1]
    return _NATIVE.bind((a_, b_, out_), (m, n, k), stream, threads)


def matmul(a: TensorLike, b: TensorLike, *, out: Any = None, stream: Any = None, threads: int | None = None) -> Any:
    """Compute the matrix product of a and b and return it.

    Args:
        a: float32, shape (m, k), contiguous, on the CPU or a CUDA device.
        b: float32, shape (k, n), contiguous, on the device of a.
        out: float32, shape (m, n), on the device of a, overlapping neither. None: allocated with `a.new_empty`.
        stream: the CUDA stream to run on: an integer handle or an object with `cuda_stream`. None: PyTorch's current
            stream where PyTorch is loaded, else CUDA's default stream.
        threads: CPU threads, 1 or more. None: the environment variable KV_THREADS, else 1.

    Products are summed in float32, in an order of the implementation's choice; k = 0 gives zeros. Gradients are not
    tracked.

    Raises:
        kernels._native.errors.ArgumentTypeError: an argument is no tensor, or not float32.
        kernels._native.errors.ArgumentValueError: shapes do not fit, devices differ, a tensor is not contiguous, out
            overlaps an input, or threads or stream do not fit the device.
        kernels._native.errors.LaunchError: the kernel could not be run.
    """
    if out is None:
        out = new_output(a, b)
    raise_for_status("matmul", bind(a, b, out=out, stream=stream, threads=threads)())
    return out
