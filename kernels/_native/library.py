"""Loads libkernel_velocity.so, once, when the first kernel is imported; says what it was built with, and what it runs.

Loading makes no CUDA call: a library with CUDA kernels loads on a machine without a driver.
"""

from __future__ import annotations

import ctypes
import json
import os
from importlib import resources
from typing import Any

from kernels._native.errors import ArgumentValueError, LaunchError, LibraryError

LIBRARY_NAME = "libkernel_velocity.so"
BUILD_INFO_NAME = "build-info.json"
FOLDER = resources.files("kernels._native")


def load(folder: resources.abc.Traversable) -> ctypes.CDLL:
    """Load the native library from a folder.

    Raises:
        LibraryError: there is none (a source tree that was not built), or the system refuses to load it.
    """
    path = folder / LIBRARY_NAME
    if not path.is_file():
        raise LibraryError(
            f"kernels is imported from a source tree without its native library (looked for {path}): run `make build`"
        )
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise LibraryError(
            f"{path} does not load: {error}. It was probably built on another system: run `make build` here"
        ) from error


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    library.kv_status_text.argtypes = [ctypes.c_int]
    library.kv_status_text.restype = ctypes.c_char_p
    library.kv_isa.argtypes = library.kv_isas.argtypes = []
    library.kv_isa.restype = library.kv_isas.restype = ctypes.c_char_p
    library.kv_choose_isa.argtypes = [ctypes.c_char_p]
    library.kv_choose_isa.restype = ctypes.c_int
    library.kv_stream_above.argtypes = [ctypes.c_int64]
    library.kv_stream_above.restype = None
    library.kv_has_cuda.argtypes = []
    library.kv_has_cuda.restype = ctypes.c_int
    library.kv_cuda_runtime.argtypes = [ctypes.POINTER(ctypes.c_int)] * 3
    library.kv_cuda_runtime.restype = ctypes.c_int
    return library


LIBRARY = _declare(load(FOLDER))
HAS_CUDA = bool(LIBRARY.kv_has_cuda())


def status_text(status: int) -> str:
    """Return the text of a status code of the C ABI."""
    text: bytes = LIBRARY.kv_status_text(status)
    return text.decode()


def raise_for_status(kernel: str, status: int) -> None:
    """Raise LaunchError when a kernel returned a status other than 0."""
    if status != 0:
        raise LaunchError(f"{kernel}: {status_text(status)} (status {status})")


def cpu_isas() -> tuple[str, ...]:
    """Return the instruction sets that this build has and this CPU runs, slowest first."""
    names: bytes = LIBRARY.kv_isas()
    return tuple(names.decode().split())


def cpu_isa() -> str:
    """Return the instruction set whose code the CPU kernels run: "sse2", "avx2" or "avx512", or "baseline".

    The best that this CPU has, or what the environment variable KV_ISA names when it is first asked for; "baseline" in
    a build with one only.

    Raises:
        ArgumentValueError: KV_ISA names none that this build has and this CPU runs.
    """
    name: bytes | None = LIBRARY.kv_isa()
    if name is None:
        raise ArgumentValueError(f"KV_ISA: {_unusable(os.environ.get('KV_ISA'))}")
    return name.decode()


def choose_isa(name: str | None) -> None:
    """Let the CPU kernels run the code of another instruction set from now on; None: what it was at first.

    For tests and experiments: it holds for the process, also for calls that are bound already.

    Raises:
        ArgumentValueError: this build does not have it, or this CPU does not run it; nothing has changed.
    """
    if LIBRARY.kv_choose_isa(None if name is None else name.encode()) != 0:
        asked = f"isa: {_unusable(name)}" if name is not None else f"KV_ISA: {_unusable(os.environ.get('KV_ISA'))}"
        raise ArgumentValueError(asked)


def stream_above(size: int | None) -> None:
    """Let the CPU kernels write around the caches in calls that read and write more than `size` bytes in all.

    None: more than the last cache holds, as it is at first. For tests and experiments: it holds for the process.
    """
    LIBRARY.kv_stream_above(-1 if size is None else size)


def _unusable(name: str | None) -> str:
    known = cpu_isas()
    wanted = f"one of {', '.join(known)}" if len(known) > 1 else known[0]
    return f"got {name!r}, wanted {wanted}: what this build has and this CPU runs"


def build_info() -> dict[str, Any]:
    """Return what the library was built with: see write_build_info.py for the keys.

    Raises:
        LibraryError: build-info.json is missing or is not JSON.
    """
    path = FOLDER / BUILD_INFO_NAME
    try:
        info: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LibraryError(f"{path} does not tell how the library was built ({error}): run `make build`") from error
    return info


def cuda_status() -> str | None:
    """Return None when the CUDA kernels can run on this machine, else one line that says why not.

    Initialises CUDA in this process: do not call it in a process that forks children which use CUDA.
    """
    if not HAS_CUDA:
        return "built without CUDA: no CUDA compiler at build time, or KV_CUDA=OFF"
    driver, runtime, devices = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    status = LIBRARY.kv_cuda_runtime(driver, runtime, devices)
    return explain_cuda(driver.value, runtime.value, devices.value, "" if status == 0 else status_text(status))


def explain_cuda(driver: int, runtime: int, devices: int, error: str) -> str | None:
    """Say why CUDA kernels cannot run, or None when they can.

    Args:
        driver: CUDA version of the driver as 1000 * major + 10 * minor, 0 without a driver.
        runtime: CUDA version of the library's runtime, in the same form.
        devices: number of CUDA devices.
        error: what the CUDA runtime said, empty when it said nothing.
    """
    if driver == 0:
        return "no CUDA driver on this machine: the CUDA kernels need an NVIDIA GPU and its driver"
    if runtime and driver // 1000 < runtime // 1000:
        # NVIDIA's table of minimum drivers: any 12.x needs 525, any 13.x needs 580.
        minimum = {12: "525", 13: "580"}.get(runtime // 1000, "its release notes' minimum")
        return (
            f"driver too old: it supports CUDA {driver // 1000}.{driver % 1000 // 10}; "
            f"CUDA {runtime // 1000} needs driver {minimum} or newer"
        )
    if error or devices == 0:
        return f"no usable CUDA device: {error or 'the driver lists none'}"
    return None
