"""Launches Triton kernels where the tensors are, on the stream asked for. Only the kernels' `triton.py` import this.

Triton takes the device and the stream from PyTorch, so where this module runs, PyTorch is there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any

import triton
from triton.errors import TritonError

from kernels._native.arguments import Argument
from kernels._native.errors import ArgumentValueError, LaunchError
from kernels._native.launch import place


def devices_of(kernel: Any) -> tuple[str, ...]:
    """Return the devices that a function of `triton.jit` runs on: ("cuda",).

    ("cpu",) if the environment variable TRITON_INTERPRET was set when the function was made: then Triton calls it block
    by block on arrays of numpy. That shows whether it is right, and nothing of its speed.
    """
    return ("cuda",) if isinstance(kernel, triton.runtime.JITFunction) else ("cpu",)


def bind(
    name: str,
    kernel: Any,
    blocks: int,
    *,
    tensors: tuple[Argument, ...],
    values: tuple[int | float, ...],
    options: Mapping[str, Any],
    stream: Any,
    threads: int | None,
) -> Callable[[], None]:
    """Return a call without arguments that launches a kernel; without blocks it does nothing.

    Args:
        name: the kernel's, for messages. kernel: a function of `triton.jit`. blocks: programs to launch.
        tensors: checked tensors in the order of the kernel's pointers; the call keeps them alive.
        values: what follows the pointers. options: what the kernel takes by name, its constants, and Triton's
            `num_warps`, `num_stages`.
        stream: as `NativeFunction.bind` takes it. threads: for CUDA tensors None; interpreted, one thread runs anyway.

    Raises:
        ArgumentTypeError, ArgumentValueError: the device is none of the kernel's, or stream or threads do not fit it.
    """
    first, wanted = tensors[0], devices_of(kernel)
    if first.device.partition(":")[0] not in wanted:
        raise ArgumentValueError(
            f"{first.name}: got device {first.device}, wanted {wanted[0]}: Triton compiles for CUDA devices, and where "
            "TRITON_INTERPRET=1 was set before it was imported it interprets on the CPU"
        )
    on_stream = _on_stream(first.device_index, place(first.device_index, stream, threads))
    if blocks == 0:
        return lambda: None
    run = functools.partial(kernel[(blocks,)], *(one.tensor for one in tensors), *values, **options)
    return functools.partial(_launch, name, on_stream, run)


def _on_stream(device: int | None, where: tuple[int, ...]) -> Callable[[], AbstractContextManager[Any]]:
    """Return what makes a context in which a CUDA device and its stream are PyTorch's current ones."""
    if device is None:
        return nullcontext
    cuda, handle = import_module("torch").cuda, where[1]
    # PyTorch takes the handle 0, which is CUDA's default stream, for none, and makes a stream.
    queue = cuda.ExternalStream(handle, device=device) if handle else cuda.default_stream(device)
    return functools.partial(cuda.stream, queue)


def _launch(name: str, on_stream: Callable[[], AbstractContextManager[Any]], run: Callable[[], Any]) -> None:
    """Launch. The first launch for its dtypes, and sizes divisible alike, compiles, or loads from Triton's cache.

    Raises:
        LaunchError: Triton cannot compile it, or the driver refuses to launch it.
    """
    try:
        with on_stream():
            run()
    except (TritonError, RuntimeError) as error:
        raise LaunchError(f"{name}: {error}") from error
