"""Calls entry points of a kernel that runs on the CPU, with arrays whose every byte is watched."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.cuda_on_host.traffic import ACCESS

ORDERS = ("forward", "backward", 1)  # in which threads, and blocks, take turns; an integer seeds a random order
MARGIN = 64  # bytes around an array, and what its address is divisible by where it is not shifted
POISON = 0xFF  # NaN of every floating-point type; as an integer -1


class KernelError(AssertionError):
    """A kernel did what it must not do: touched other memory, raced, waited for ever."""


class Memory:
    """An array on the pretended device: its items, amid poison.

    Args:
        values: what it holds at first.
        shift: how many items behind an aligned address it begins.
        is_output: whether kernels may write to it.
    """

    def __init__(self, values: np.ndarray, shift: int = 0, *, is_output: bool = False) -> None:
        self.is_output = is_output
        self._all = np.full(values.nbytes + 3 * MARGIN + shift * values.itemsize, POISON, np.uint8)
        begin = -self._all.ctypes.data % MARGIN + MARGIN + shift * values.itemsize
        self._inside = slice(begin, begin + values.nbytes)
        self.array = self._all[self._inside].view(values.dtype).reshape(values.shape)
        self.array[...] = values

    @property
    def address(self) -> int:
        return self.array.ctypes.data

    def require_whole_margins(self) -> None:
        """Raise KernelError where bytes beside the array were written. The engine sees nothing of memcpy and memset."""
        outside = np.delete(self._all, self._inside)
        if np.any(outside != POISON):
            raise KernelError(f"{np.sum(outside != POISON)} bytes beside an array were written")


def output(shape: tuple[int, ...], dtype: Any, shift: int = 0) -> Memory:
    """Return an array for a kernel to write, which holds poison."""
    dtype = np.dtype(dtype)
    poison = np.full((*shape, dtype.itemsize), POISON, np.uint8).view(dtype).reshape(shape)
    return Memory(poison, shift, is_output=True)


@dataclass(frozen=True)
class Launch:
    """One launch: the kernel's name, its grid and block, dynamic shared memory (bytes), device and stream."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    device: int
    stream: int


class Library:
    """A kernel's entry points, `kv_..._cuda`, and the engine that runs them."""

    def __init__(self, path: Path) -> None:
        self._native = ctypes.CDLL(str(path))
        for text in (self._native.on_host_fault, self._native.on_host_launches):
            text.restype = ctypes.c_char_p
        self._native.on_host_accesses.restype = ctypes.c_void_p
        self.accesses = np.empty(0, ACCESS)  # those of the last call, if it was to note them
        self.launches: list[Launch] = []  # those of the last call
        self.streamed = False  # whether the last call stored what is to leave the caches first

    def call(
        self,
        name: str,
        *arguments: Any,
        order: str | int = "forward",
        processors: int = 4,
        capability: int = 8,
        device: int = 0,
        stream: int = 0,
        note_accesses: bool = False,
    ) -> int:
        """Call an entry point and return its status.

        Args:
            name: of the entry point.
            arguments: what it takes before device and stream: Memory or None (a null pointer), integers (as int64_t:
                sizes), or ctypes values (other scalars).
            order: one of ORDERS, or another integer.
            processors: how many the pretended device has. capability: its compute capability, the major number.
            device: 0 or 1. Others do not exist.
            stream: any number.
            note_accesses: whether `accesses` are those of this call afterwards, or none.

        Raises:
            KernelError: the kernel did what it must not do, or the launcher left another device current than it found.
        """
        memories = list({id(argument): argument for argument in arguments if isinstance(argument, Memory)}.values())
        self._begin(memories, order, processors)
        self._native.on_host_set_capability(capability)
        self._native.on_host_note_accesses(int(note_accesses))
        prepared = [_as_ctypes(argument) for argument in arguments]
        status = int(self._native[name](*prepared, ctypes.c_int(device), ctypes.c_void_p(stream)))
        self.launches = [_launch(line) for line in self._native.on_host_launches().decode().splitlines()]
        self.accesses = self._noted()
        self.streamed = bool(self._native.on_host_streamed())
        if fault := self._native.on_host_fault().decode():
            raise KernelError(fault)
        for memory in memories:
            memory.require_whole_margins()
        if self._native.on_host_device() != 0:
            raise KernelError("the device that was current before is not current again")
        return status

    def _noted(self) -> np.ndarray:
        count = ctypes.c_size_t()
        address = self._native.on_host_accesses(ctypes.byref(count))
        noted = ctypes.string_at(address, count.value * ACCESS.itemsize) if count.value else b""
        return np.frombuffer(noted, ACCESS)

    def _begin(self, memories: list[Memory], order: str | int, processors: int) -> None:
        kinds = {"forward": 0, "backward": 1}
        seed = order if isinstance(order, int) else 0
        self._native.on_host_begin(2 if isinstance(order, int) else kinds[order], ctypes.c_uint64(seed), processors)
        self._native.on_host_forget_arrays()
        for memory in memories:
            size = ctypes.c_size_t(memory.array.nbytes)
            self._native.on_host_allow(ctypes.c_void_p(memory.address), size, int(memory.is_output))


def _as_ctypes(argument: Any) -> Any:
    if argument is None:
        return ctypes.c_void_p(None)
    if isinstance(argument, Memory):
        return ctypes.c_void_p(argument.address)
    return ctypes.c_int64(argument) if isinstance(argument, int) else argument


def _launch(line: str) -> Launch:
    kernel, *numbers = line.split()
    values = [int(number) for number in numbers]
    return Launch(kernel, tuple(values[:3]), tuple(values[3:6]), *values[6:])
