"""Joins checked arguments and a native function to a call that costs as little as ctypes allows."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from kernels._native.arguments import Argument, require_integer
from kernels._native.errors import ArgumentTypeError, ArgumentValueError, LaunchError
from kernels._native.library import HAS_CUDA, LIBRARY, cpu_isa, cuda_status

MAX_THREADS = 1024  # more than any machine this runs on; a typing error must not start a million threads


class NativeFunction:
    """The CPU and CUDA entry points of one kernel: `kv_<name>_cpu` and, in a library with CUDA, `kv_<name>_cuda`.

    Args:
        name: the kernel; for another dtype than its first with that behind it ("add_mul_exp_float64").
        argtypes: ctypes types of what both entry points take first: pointers, sizes, scalars.
        cpu, cuda: whether there is one for that device.
    """

    def __init__(self, name: str, argtypes: list[Any], *, cpu: bool = True, cuda: bool = True) -> None:
        self.name = name
        self._cpu = self._entry_point("cpu") if cpu else None
        self._cpu_types = [*argtypes, ctypes.c_int]
        self._cuda = self._entry_point("cuda") if HAS_CUDA and cuda else None
        self._cuda_types = [*argtypes, ctypes.c_int, ctypes.c_void_p]

    def _entry_point(self, device: str) -> Callable[..., int]:
        # Note: no argtypes here. bind() converts every argument to its ctypes type once; with argtypes, ctypes would
        # check that again at each call (398 instead of 347 ns for a call with five arguments).
        function = LIBRARY[f"kv_{self.name}_{device}"]
        function.restype = ctypes.c_int
        return function

    def bind(
        self,
        tensors: tuple[Argument, ...],
        values: tuple[int | float, ...],
        stream: Any,
        threads: int | None,
    ) -> Callable[[], int]:
        """Return a call without arguments that runs the kernel and returns its status code.

        Args:
            tensors: checked tensors in the order of their pointers, all on one device; the call keeps them alive.
            values: what follows the pointers: sizes and scalars.
            stream: None (the current stream of the device at this moment), a cudaStream_t as an integer, or an
                object with `cuda_stream`. Only for CUDA tensors.
            threads: number of threads, None for KV_THREADS or 1. Only for CPU tensors.

        Raises:
            ArgumentTypeError, ArgumentValueError: stream or threads do not fit the device, or KV_ISA this CPU.
            LaunchError: CUDA tensors, but the library has no CUDA kernels; or CPU tensors, but this is CUDA's alone.
        """
        device = tensors[0].device_index
        pointers = [tensor.pointer for tensor in tensors]
        tail = place(device, stream, threads)
        if device is None:
            if self._cpu is None:
                raise LaunchError(f"{self.name}: the tensors are on the CPU, for which there is no kernel")
            cpu_isa()  # raises where KV_ISA names what is not there; a call would return that as a status
            function, types = self._cpu, self._cpu_types
        else:
            if self._cuda is None:
                raise LaunchError(f"{self.name}: the tensors are on cuda:{device}, but kernels is {cuda_status()}")
            function, types = self._cuda, self._cuda_types
        prepared = [kind(value) for kind, value in zip(types, (*pointers, *values, *tail), strict=True)]
        call = functools.partial(function, *prepared)
        call.__dict__["tensors"] = tuple(tensor.tensor for tensor in tensors)
        return call


def place(device: int | None, stream: Any, threads: int | None) -> tuple[int, ...]:
    """Return what says where to run: (threads,) on the CPU, where `device` is None, else (device, cudaStream_t).

    `stream` and `threads` are those of `NativeFunction.bind`.

    Raises:
        ArgumentTypeError, ArgumentValueError: they do not fit the device.
    """
    if device is None:
        if stream is not None:
            raise ArgumentValueError("stream: got one for tensors on the CPU, wanted None")
        return (_threads(threads),)
    if threads is not None:
        raise ArgumentValueError(f"threads: got {threads} for tensors on cuda:{device}, wanted None")
    return device, _stream_handle(stream, device)


def _threads(threads: int | None) -> int:
    if threads is not None:
        return require_integer("threads", threads, 1, MAX_THREADS)
    text = os.environ.get("KV_THREADS", "1")
    if not text.isdecimal():
        raise ArgumentValueError(f"KV_THREADS: got {text!r}, wanted a number of threads from 1 to {MAX_THREADS}")
    return require_integer("KV_THREADS", int(text), 1, MAX_THREADS)


def _stream_handle(stream: Any, device: int) -> int:
    """Return the cudaStream_t to run on; 0 is CUDA's default stream, current for whoever has not loaded PyTorch."""
    if stream is None:
        torch = sys.modules.get("torch")
        # A PyTorch that has not used CUDA, or cannot, has no current stream; the tensors are another library's.
        return int(torch.cuda.current_stream(device).cuda_stream) if torch and torch.cuda.is_initialized() else 0
    handle = getattr(stream, "cuda_stream", stream)
    if not isinstance(handle, int):
        raise ArgumentTypeError(
            f"stream: got {type(stream).__name__}, wanted None, a cudaStream_t as an integer, "
            "or an object with cuda_stream"
        )
    return handle
