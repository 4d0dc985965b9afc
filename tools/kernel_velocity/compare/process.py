"""A live command's own process, set up as those that measure the history are: allocator, threads, PyTorch."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kernel_velocity.compare import torch_state
from kernel_velocity.errors import UsageError
from kernel_velocity.harness.benchmark import prepare_torch
from kernel_velocity.runner import host


def is_command() -> bool:
    """Return whether this process is the command line, whose main module has `console`, and not one that calls it."""
    return hasattr(sys.modules["__main__"], "console")


def environment(threads: str) -> dict[str, str]:
    """Return our environment with what every measuring process has: the allocator reads its settings at the start."""
    return {**os.environ, **host.measuring_variables(threads), "KV_THREADS": threads}


def command() -> list[str]:
    """Return the command that started this process."""
    return [sys.executable, *sys.orig_argv[1:]]


@contextmanager
def prepared(device: str, threads: int) -> Iterator[None]:
    """Set PyTorch up as measuring processes have it, and set it back at the end.

    Raises:
        UsageError: PyTorch or the device is not there.
    """
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError:
        raise UsageError("PyTorch is not installed for this Python: `make venv` installs it") from None
    names = ("threads", "grad mode", torch_state.PRECISION)
    before = {each: each.read(torch) for each in torch_state.SETTINGS if each.name in names}
    variable = os.environ.get("KV_THREADS")
    os.environ["KV_THREADS"] = str(threads)  # what native kernels, compiled packages and PyTorch go by
    try:
        _prepare_torch(device)
        yield
    finally:
        os.environ.pop("KV_THREADS")
        os.environ |= {} if variable is None else {"KV_THREADS": variable}
        for setting, value in before.items():
            setting.write(torch, value)


def _prepare_torch(device: str) -> None:
    try:
        prepare_torch(device)
    except NotImplementedError as error:
        raise UsageError(f"--device {device}: {error}; take --device cpu") from None
