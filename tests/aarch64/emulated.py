"""Builds the library for aarch64, and calls its functions in a process of the emulator."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import kernels
from kernels._native import library
from kernels._native.arguments import Argument
from kernels._native.launch import NativeFunction, place

ROOT = Path(kernels.__file__).parents[1]
FOLDER = ROOT / "build" / "aarch64"
NAME = "aarch64"  # among the instruction sets that tests run with
COMPILER = "aarch64-linux-gnu-g++"
EMULATORS = ("qemu-aarch64", "qemu-aarch64-static")
Real = ctypes.c_float | ctypes.c_double
LINE = 64  # bytes; an array is as far behind a line's beginning there as it is here


class EmulationError(AssertionError):
    """The emulated process ended within a call: it crashed, or wrote beside an array."""


@dataclass(frozen=True)
class Region:
    """Bytes of this process that a call may read and write."""

    address: int
    size: int


def missing() -> str | None:
    """Return what this machine lacks to compile and run the library for aarch64. None: nothing."""
    for tools in ((COMPILER,), EMULATORS, ("cmake",), ("ninja",)):
        if not any(map(shutil.which, tools)):
            return f"no {tools[0]} (Debian: apt install g++-aarch64-linux-gnu qemu-user)"
    return None


def build() -> Path:
    """Compile the library for any aarch64, by the project's rules and with warnings as errors. Return where it is.

    Processes that run tests beside each other wait for the first, and later ones compile what changed.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _built(FOLDER)


def _built(folder: Path) -> Path:
    settings = {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": "aarch64",
        "CMAKE_CXX_COMPILER": COMPILER,
        "CMAKE_COMPILE_WARNING_AS_ERROR": "ON",
        "KV_CUDA": "OFF",
        "KV_CXX_ARCHITECTURE": "",
    }
    _run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", *(f"-D{name}={value}" for name, value in settings.items()))
    _run("cmake", "--build", folder)
    source = Path(__file__).with_name("caller.cpp")
    _run(COMPILER, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", source, "-ldl", "-o", folder / "caller")
    return folder / library.LIBRARY_NAME


def _run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Emulated:
    """A process of the emulator that calls functions of a library that `build` made."""

    def __init__(self, native: Path) -> None:
        self.native = native
        # The compiler's own C library is what programs for it run with: below the folder that holds "lib".
        libc = Path(_run(COMPILER, "-print-file-name=libc.so.6").strip()).resolve()
        emulator = next(filter(None, map(shutil.which, EMULATORS)))
        command = [emulator, "-L", str(libc.parents[1]), str(native.with_name("caller")), str(native)]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self._process = subprocess.Popen(command, **pipes)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def call(self, name: str, arguments: Sequence[Region | int | Real | None]) -> int:
        """Call a function that returns an int. None is a null pointer.

        Raises:
            EmulationError: the process ended.
        """
        regions = list(dict.fromkeys(argument for argument in arguments if isinstance(argument, Region)))
        reals = [argument for argument in arguments if isinstance(argument, Real)]
        integers = [argument for argument in arguments if not isinstance(argument, Real)]
        before = [ctypes.string_at(region.address, region.size) for region in regions]
        request = [struct.pack("<4Q", len(name), len(regions), len(integers), len(reals)), name.encode()]
        for region, data in zip(regions, before, strict=True):
            request += [struct.pack("<2Q", region.size, region.address % LINE), data]
        for integer in integers:
            value, is_array = (regions.index(integer), 1) if isinstance(integer, Region) else (integer or 0, 0)
            request.append(struct.pack("<2q", value, is_array))
        request += [bytes(real).ljust(8, b"\0") for real in reals]
        with contextlib.suppress(BrokenPipeError):  # it has ended: reading tells why
            self._process.stdin.write(b"".join(request))
            self._process.stdin.flush()
        (status,) = struct.unpack("<q", self._read(8))
        for region, data in zip(regions, before, strict=True):
            after = self._read(region.size)
            if after != data:
                ctypes.memmove(region.address, after, region.size)
        return status

    def _read(self, size: int) -> bytes:
        data = self._process.stdout.read(size)
        if len(data) != size:
            text = self._process.stderr.read().decode().strip()
            raise EmulationError(f"the emulated process ended with status {self._process.wait()}: {text}")
        return data

    @contextlib.contextmanager
    def instead_of_native(self) -> Iterator[None]:
        """Let this process do the calls of CPU kernels that Python's functions have checked."""
        native = NativeFunction.bind

        def bind(
            function: NativeFunction, tensors: tuple[Argument, ...], values: tuple[Any, ...], stream: Any, threads: Any
        ) -> Callable[[], int]:
            if tensors[0].device_index is not None or function._cpu is None:
                return native(function, tensors, values, stream, threads)
            regions = [Region(tensor.pointer, tensor.end - tensor.pointer) for tensor in tensors]
            kinds = function._cpu_types[len(regions) :]
            tail = zip(kinds, (*values, *place(None, stream, threads)), strict=True)
            scalars = [kind(value) if issubclass(kind, Real) else value for kind, value in tail]
            call = functools.partial(self.call, f"kv_{function.name}_cpu", [*regions, *scalars])
            call.__dict__["tensors"] = tuple(tensor.tensor for tensor in tensors)
            return call

        def stream_above(size: int | None) -> None:
            self.call("kv_stream_above", [-1 if size is None else size])

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(NativeFunction, "bind", bind)
            patch.setattr(library, "stream_above", stream_above)
            yield
