"""C = A B, row-major. The native code: matmul.cpp (float32), matmul.cu (float32), matmul_tensor.cu (other dtypes)."""

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
from kernels._native.errors import ArgumentValueError
from kernels._native.launch import NativeFunction
from kernels._native.library import raise_for_status

__all__ = ["SUPPORTS", "bind", "matmul"]

# What a benchmark of any later commit asks this commit before it calls it.
SUPPORTS: dict[str, tuple[str, ...]] = {
    "devices": ("cpu", "cuda"),
    "dtypes": ("float32",),
    "dtypes_cuda": ("float32", "float16", "bfloat16", "int8", "float8_e4m3fn"),  # instead of "dtypes"
    "keywords": ("out", "stream", "threads"),
}

_TYPES = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 3
_NATIVE = {
    "float32": NativeFunction("matmul", _TYPES),
    **{
        dtype: NativeFunction(f"matmul_{dtype}", _TYPES, cpu=False)
        for dtype in SUPPORTS["dtypes_cuda"]
        if dtype != "float32"
    },
}


def output_dtype(dtype: str) -> str:
    """Return the dtype of the product of factors of a dtype."""
    return {"int8": "int32", "float8_e4m3fn": "float32"}.get(dtype, dtype)


def _read_factors(a: TensorLike, b: TensorLike, supports: Mapping[str, tuple[str, ...]]) -> tuple[Argument, Argument]:
    a_ = read("a", a, *dtypes_on(supports, a))
    b_ = read("b", b, a_.dtype)
    for argument in (a_, b_):
        if len(argument.shape) != 2:
            raise ArgumentValueError(f"{argument.name}: got shape {list(argument.shape)}, wanted two axes")
    if a_.shape[1] != b_.shape[0]:
        raise ArgumentValueError(
            f"b: got shape {list(b_.shape)}, wanted [{a_.shape[1]}, n] (a has the shape {list(a_.shape)})"
        )
    return a_, b_


def new_output(a: TensorLike, b: TensorLike, supports: Mapping[str, tuple[str, ...]] = SUPPORTS) -> Any:
    """Return an uninitialised output for a and b, of which `supports` says what may be theirs."""
    a_, b_ = _read_factors(a, b, supports)
    return new_like(a, (a_.shape[0], b_.shape[1]), output_dtype(a_.dtype))


def read_matrices(
    a: TensorLike, b: TensorLike, out: TensorLike, supports: Mapping[str, tuple[str, ...]] = SUPPORTS
) -> tuple[Argument, Argument, Argument]:
    """Check the tensors of a call by what `supports` says; return what is known of them."""
    a_, b_ = _read_factors(a, b, supports)
    out_ = read("out", out, output_dtype(a_.dtype))
    require_same_device(a_, b_, out_)
    require_shape(out_, (a_.shape[0], b_.shape[1]), "rows of a, columns of b")
    require_no_overlap(out_, a_, b_, in_place=False)
    return a_, b_, out_


def _require_what_hopper_reads(a: Argument, b: Argument, out: Argument) -> None:
    """Raise ArgumentValueError where TMA cannot read the matrices: float8_e4m3fn has no other kernel."""
    (m, k), n = a.shape, b.shape[1]
    if min(m, n) < 64 or k < 128 or n % 16 or k % 16:
        raise ArgumentValueError(
            f"a, b: got m = {m}, n = {n}, k = {k}, wanted m and n of 64 or more and k of 128 or more, and that 16 "
            "divides n and k: pad the matrices with zeros, or use float16"
        )
    for argument in (a, b, out):
        if argument.pointer % 16:
            raise ArgumentValueError(f"{argument.name}: got address {argument.pointer:#x}, wanted a multiple of 16")


def bind(
    a: TensorLike, b: TensorLike, *, out: TensorLike, stream: Any = None, threads: int | None = None
) -> Callable[[], int]:
    """Check the arguments once; return a call without arguments that computes out and returns a status (0: done).

    The arguments and errors are those of `matmul`. The call keeps the tensors alive, and uses the stream that was
    current when it was bound.
    """
    a_, b_, out_ = read_matrices(a, b, out)
    (m, k), n = a_.shape, b_.shape[1]
    if a_.dtype == "float8_e4m3fn":
        _require_what_hopper_reads(a_, b_, out_)
    return _NATIVE[a_.dtype].bind((a_, b_, out_), (m, n, k), stream, threads)


def matmul(a: TensorLike, b: TensorLike, *, out: Any = None, stream: Any = None, threads: int | None = None) -> Any:
    """Compute the matrix product of a and b and return it.

    Args:
        a: float32, shape (m, k), contiguous, on the CPU or a CUDA device; on CUDA also float16, bfloat16 and int8, of
            compute capability 8.0 or higher, and float8_e4m3fn, of 9.0 alone.
        b: shape (k, n), contiguous, of the dtype of a and on its device.
        out: shape (m, n), of the dtype of a, but of int8 int32 and of float8_e4m3fn float32, on the device of a,
            overlapping neither. None: allocated with `a.new_empty`.
        stream: the CUDA stream to run on: an integer handle or an object with `cuda_stream`. None: PyTorch's current
            stream where PyTorch is loaded, else CUDA's default stream.
        threads: CPU threads, 1 or more. None: the environment variable KV_THREADS, else 1.

    Products are summed in float32, in an order of the implementation's choice; float16 and bfloat16 are multiplied
    exactly, summed in float32 as tensor cores round, and rounded to the nearest at the end. int8 is exact in int32,
    which wraps around where k is 131072 or more and the sum beyond 2^31 - 1. k = 0 gives zeros. float8_e4m3fn is
    multiplied exactly, and of its sums Hopper's tensor cores keep about 14 bits. m and n must be 64 or more, k 128 or
    more, 16 must divide n and k, and addresses. Gradients are not tracked.

    Raises:
        kernels._native.errors.ArgumentTypeError: an argument is no tensor, or of another dtype.
        kernels._native.errors.ArgumentValueError: shapes do not fit, devices differ, a tensor is not contiguous, out
            overlaps an input, or threads or stream do not fit the device.
        kernels._native.errors.LaunchError: the kernel could not be run.
    """
    if out is None:
        out = new_output(a, b)
    raise_for_status("matmul", bind(a, b, out=out, stream=stream, threads=threads)())
    return out
