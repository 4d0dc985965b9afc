"""A pretended CUDA device for rounds: the host emulation runs its kernels, tensors lie on the CPU.

What is launched on the default stream is done at once. What is launched on another stream is done when somebody waits
for it, as it may be on a device.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cuda_on_host.building import Builder

SOURCE = Path(__file__).with_name("tricks.cu")
LIBRARY = "KV_TRICKS_LIBRARY"  # environment variable: the library of SOURCE


def built() -> str:
    """Build the library of the tricks. Return its path."""
    name: str = Builder().library(SOURCE)._native._name
    return name


class Device:
    """The library of the tricks, on the device that it pretends."""

    def __init__(self, path: str) -> None:
        self._native = ctypes.CDLL(path)
        self._native.on_host_fault.restype = ctypes.c_char_p
        self._native.on_host_put_off(1)

    def call(self, name: str, tensors: tuple[Any, Any, Any], n: int, trick: bool) -> None:
        """Call an entry point with two inputs and an output. It launches what it likes.

        Raises:
            RuntimeError: a kernel did what it must not do.
        """
        native = self._native
        native.on_host_forget_arrays()
        arrays = [(tensor.data_ptr(), tensor.nbytes) for tensor in tensors]
        for address, size in arrays:
            native.on_host_allow(ctypes.c_void_p(address), ctypes.c_size_t(size), 1)
        native[name](*(ctypes.c_void_p(address) for address, _ in arrays), n, int(trick))
        if fault := native.on_host_fault().decode():
            raise RuntimeError(fault)

    def synchronize(self, *_: object) -> None:
        """Wait for all streams."""
        self._native.on_host_finish()


def device() -> Device:
    """Return the device of this process."""
    if not _DEVICE:
        _DEVICE.append(Device(os.environ[LIBRARY]))
    return _DEVICE[0]


_DEVICE: list[Device] = []


def plant() -> None:
    """Make "cuda" mean the pretended device in this process, for ever."""
    import torch

    from kernel_velocity.suite import definition
    from kernel_velocity.suite.originals import ORIGINALS
    from tests.engine import pretend_cuda

    patch = pytest.MonkeyPatch()
    pretend_cuda.plant(patch, torch)
    patch.setattr(torch.cuda, "synchronize", device().synchronize)
    patch.setattr(pretend_cuda.HostEvents, "synchronize", device().synchronize)
    original = definition._Defined.inputs_of
    patch.setattr(definition._Defined, "inputs_of", lambda self, case, where=None: original(self, case, where or "cpu"))
    ORIGINALS.__init__()  # type: ignore[misc]  # what is pretended is original here
    ORIGINALS.note()
