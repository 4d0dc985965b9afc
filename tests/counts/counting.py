"""Small C libraries whose calls are counted."""

import ctypes
import functools
import shutil
import subprocess
from pathlib import Path

import pytest

from kernel_velocity.counts import c_call, callgrind
from kernel_velocity.counts.c_call import NotCountedError


def can_count():
    """Return why nothing can be counted here. "" where it can."""
    try:
        callgrind.check()
    except NotCountedError as error:
        return str(error)
    return "" if shutil.which("gcc") else "no gcc"


COUNTS = pytest.mark.skipif(bool(can_count()), reason=can_count() or "can count")


class Memory:
    """Stands for a tensor: bytes at an address."""

    def __init__(self, size):
        self._bytes = ctypes.create_string_buffer(size)
        self.nbytes = size

    def data_ptr(self):
        return ctypes.addressof(self._bytes)


def compiled(folder: Path, source: str, *options: str, name: str = "libsmall.so") -> Path:
    """Compile C into a library in a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    command = ["gcc", *(options or ("-O2",)), "-shared", "-fPIC", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=source, text=True, check=True)
    return path


def call(library: Path, name: str, *arguments, result=ctypes.c_int, inputs=(), outputs=()):
    """Return the call of a function of a library."""
    function = ctypes.CDLL(str(library))[name]
    function.restype = result
    return c_call.read(functools.partial(function, *arguments), inputs, outputs)


def pointer(memory, offset=0):
    return ctypes.c_void_p(memory.data_ptr() + offset)
