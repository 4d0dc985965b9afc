"""Streams of float32 that write around the caches, by which the harness measures memory: streams.cpp. No kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from kernels._native.arguments import TensorLike, read, require_no_overlap, require_same_device, require_shape
from kernels._native.launch import NativeFunction

_COPY = NativeFunction("stream_copy", [ctypes.c_void_p] * 2 + [ctypes.c_int64], cuda=False)
_TRIAD = NativeFunction("stream_triad", [ctypes.c_void_p] * 3 + [ctypes.c_int64], cuda=False)


def bind_copy(source: TensorLike, out: TensorLike, *, threads: int | None = None) -> Callable[[], int]:
    """Return a call that sets out = source and returns its status, as `_bind`."""
    return _bind(_COPY, {"source": source}, out, threads)


def bind_triad(b: TensorLike, c: TensorLike, out: TensorLike, *, threads: int | None = None) -> Callable[[], int]:
    """Return a call that sets out = b + 1.5 c and returns its status, as `_bind`."""
    return _bind(_TRIAD, {"b": b, "c": c}, out, threads)


def _bind(
    function: NativeFunction, inputs: dict[str, TensorLike], out: TensorLike, threads: int | None
) -> Callable[[], int]:
    """Return a call on tensors of float32 and one shape, on the CPU; None threads: KV_THREADS, or 1.

    Raises:
        ArgumentTypeError, ArgumentValueError: a tensor or `threads` does not fit.
        LaunchError: the tensors are on a GPU.
    """
    out_ = read("out", out, "float32")
    read_ = [read(name, tensor, "float32") for name, tensor in inputs.items()]
    require_same_device(out_, *read_)
    for each in read_:
        require_shape(each, out_.shape, "the shape of out")
    require_no_overlap(out_, *read_, in_place=True)
    return function.bind((*read_, out_), (out_.elements,), None, threads)
