"""A live command's own process, set up as those that measure the history are: allocator, threads, PyTorch."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.harness.benchmark import prepare_torch
from tools import host
from tools.errors import UsageError


def is_command() -> bool:
    """Return whether this process is `python -m tools`, and not one that calls `main`."""
    return getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", None) == "tools.__main__"


def restart(threads: str) -> None:
    """Start this command anew with the environment of every measuring process, unless it has that.

    The allocator reads its settings when a process starts.
    """
    wanted = {**host.measuring_variables(threads), "KV_THREADS": threads}
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **wanted})


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
    before = torch.get_num_threads(), torch.is_grad_enabled(), torch.backends.cuda.matmul.allow_tf32
    variable = os.environ.get("KV_THREADS")
    os.environ["KV_THREADS"] = str(threads)  # what native kernels, compiled packages and PyTorch go by
    try:
        _prepare_torch(device)
        yield
    finally:
        os.environ.pop("KV_THREADS")
        os.environ |= {} if variable is None else {"KV_THREADS": variable}
        torch.set_num_threads(before[0])
        torch.set_grad_enabled(before[1])
        torch.backends.cuda.matmul.allow_tf32 = before[2]


def _prepare_torch(device: str) -> None:
    try:
        prepare_torch(device)
    except NotImplementedError as error:
        raise UsageError(f"--device {device}: {error}; take --device cpu") from None
