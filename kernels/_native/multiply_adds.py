"""Multiply-adds in registers, by which the harness measures a CPU's arithmetic: multiply_adds.cpp. No kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from kernels._native.arguments import TensorLike, read, require_integer
from kernels._native.launch import NativeFunction

_TYPES = {"float32": ctypes.c_float, "float64": ctypes.c_double}
_FUNCTIONS = {
    dtype: NativeFunction(
        "multiply_adds" if dtype == "float32" else f"multiply_adds_{dtype}",
        [ctypes.c_void_p, ctypes.c_int64, number, number, ctypes.c_int64],
        cuda=False,
    )
    for dtype, number in _TYPES.items()
}


def bind(items: TensorLike, a: float, b: float, steps: int, *, threads: int | None = None) -> Callable[[], int]:
    """Return a call that sets x = b - a x `steps` times, for each x of `items`, and returns its status.

    Args:
        items: (n,) float32 or float64, on the CPU; 2 n `steps` FLOP a call. As fast as can be where n is a multiple of
            192 for each thread (12 vectors of any CPU's width). threads: None: KV_THREADS, or 1.

    Raises:
        ArgumentTypeError, ArgumentValueError: `items`, `steps` or `threads` do not fit.
        LaunchError: the tensor is on a GPU.
    """
    read_ = read("items", items, *_TYPES)
    function = _FUNCTIONS[read_.dtype]
    return function.bind((read_,), (read_.elements, a, b, require_integer("steps", steps, 0, 2**63 - 1)), None, threads)
