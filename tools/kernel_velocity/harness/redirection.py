"""Runs code that has `device="cuda"` written in on another device: public problem definitions make their inputs so.

PyTorch's own hook for this is used, the one that `torch.set_default_device` is made of: a mode that sees every call of
a function of torch, and may change its arguments. Generators are a class, which no mode sees, so that one name is
exchanged while the code runs. Nothing is timed in here: the mode costs microseconds for every call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_CUDA = re.compile(r"cuda(:\d+)?")


@contextmanager
def redirected(device: str) -> Iterator[None]:
    """Make every CUDA device that torch is told of inside the block `device` instead; for "cuda" itself do nothing."""
    if device == "cuda":
        yield
        return
    import torch  # noqa: PLC0415

    here, original = torch.device(device), torch.Generator
    torch.Generator = lambda device="cpu": original(device=_moved(device, here))  # type: ignore[assignment,misc]
    try:
        with _mode(here):
            yield
    finally:
        torch.Generator = original  # type: ignore[misc]


def _moved(value: Any, here: Any) -> Any:
    """Return `here` for what names a CUDA device, and anything else as it is."""
    named = value if isinstance(value, str) else str(value) if type(value) is type(here) else ""
    return here if _CUDA.fullmatch(named) else value


def _mode(here: Any) -> Any:
    import torch  # noqa: PLC0415
    from torch.overrides import TorchFunctionMode  # noqa: PLC0415

    class Redirected(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.device:  # an object only: it is redirected where it is used
                return function(*args, **(kwargs or {}))
            if function is torch.Tensor.cuda:
                return args[0].to(here)
            given = {name: _moved(value, here) for name, value in (kwargs or {}).items()}
            return function(*(_moved(value, here) for value in args), **given)

    return Redirected()
