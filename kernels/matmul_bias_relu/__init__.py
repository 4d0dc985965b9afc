"""C = relu(A B + bias), row-major. Native: matmul_bias_relu.cpp, .cu (float32), _tensor.cu and _hopper.cu (others)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from kernels._native.arguments import (
    Argument,
    TensorLike,
    read,
    require_no_overlap,
    require_same_device,
    require_shape,
)
from kernels._native.launch import NativeFunction
from kernels._native.library import raise_for_status
from kernels.matmul import new_output, read_matrices

__all__ = ["SUPPORTS", "bind", "matmul_bias_relu"]

# What a benchmark of any later commit asks this commit before it calls it.
SUPPORTS: dict[str, tuple[str, ...]] = {
    "devices": ("cpu", "cuda"),
    "dtypes": ("float32",),
    "dtypes_cuda": ("float32", "float16", "bfloat16"),  # instead of "dtypes"
    "keywords": ("out", "stream", "threads"),
}

_TYPES = [ctypes.c_void_p] * 4 + [ctypes.c_int64] * 3
_NATIVE = {
    "float32": NativeFunction("matmul_bias_relu", _TYPES),
    **{dtype: NativeFunction(f"matmul_bias_relu_{dtype}", _TYPES, cpu=False) for dtype in ("float16", "bfloat16")},
}


def read_arguments(
    a: TensorLike, b: TensorLike, bias: TensorLike, out: TensorLike, supports: Mapping[str, tuple[str, ...]] = SUPPORTS
) -> tuple[tuple[Argument, Argument, Argument], Argument]:
    """Check the tensors of a call by what `supports` says; return what is known of a, b and out, and of bias."""
    a_, b_, out_ = read_matrices(a, b, out, supports)
    bias_ = read("bias", bias, a_.dtype)
    require_same_device(a_, bias_)
    require_shape(bias_, (b_.shape[1],), "columns of b")
    require_no_overlap(out_, bias_, in_place=False)
    return (a_, b_, out_), bias_


def bind(
    a: TensorLike,
    b: TensorLike,
    bias: TensorLike,
    *,
    out: TensorLike,
    stream: Any = None,
    threads: int | None = None,
) -> Callable[[], int]:
    """Check the arguments once; return a call without arguments that computes out and returns a status (0: done).

    The arguments and errors are those of `matmul_bias_relu`. The call keeps the tensors alive, and uses the stream
    that was current when it was bound.
    """
    (a_, b_, out_), bias_ = read_arguments(a, b, bias, out)
    (m, k), n = a_.shape, b_.shape[1]
    return _NATIVE[a_.dtype].bind((a_, b_, bias_, out_), (m, n, k), stream, threads)


def matmul_bias_relu(
    a: TensorLike,
    b: TensorLike,
    bias: TensorLike,
    *,
    out: Any = None,
    stream: Any = None,
    threads: int | None = None,
) -> Any:
    """Compute max(a b + bias, 0) and return it: a product, a bias for each column, and what is negative made 0.

    Args:
        a: float32, shape (m, k), contiguous, on the CPU or a CUDA device. On CUDA also float16 and bfloat16, of compute
            capability 8.0 or higher.
        b: shape (k, n), contiguous, of the dtype of a and on its device.
        bias: shape (n,), contiguous, of the dtype of a and on its device.
        out: shape (m, n), of the dtype of a and on its device, overlapping none of them. None: allocated with
            `a.new_empty`.
        stream: the CUDA stream to run on: an integer handle or an object with `cuda_stream`. None: PyTorch's current
            stream where PyTorch is loaded, else CUDA's default stream.
        threads: CPU threads, 1 or more. None: the environment variable KV_THREADS, else 1.

    Products are summed in float32, in an order of the implementation's choice, and bias is added to the whole sum;
    k = 0 gives relu(bias). float16 and bfloat16 are multiplied exactly, summed in float32 as tensor cores round, and
    rounded to the nearest at the end. NaN stays NaN. Gradients are not tracked.

    Raises:
        kernels._native.errors.ArgumentTypeError: an argument is no tensor, or of another dtype.
        kernels._native.errors.ArgumentValueError: shapes do not fit, devices differ, a tensor is not contiguous, out
            overlaps an input, or threads or stream do not fit the device.
        kernels._native.errors.LaunchError: the kernel could not be run.
    """
    if out is None:
        out = new_output(a, b, SUPPORTS)
    raise_for_status("matmul_bias_relu", bind(a, b, bias, out=out, stream=stream, threads=threads)())
    return out
