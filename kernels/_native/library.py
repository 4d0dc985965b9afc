"""Loads libkernel_velocity.so, once, when the first kernel is imported; says what it was built with.

Loading makes no CUDA call: a library with CUDA kernels loads on a machine without a driver.
"""

from __future__ import annotations

import ctypes
import json
from importlib import resources
from typing import Any

from kernels._native.errors import LaunchError, LibraryError

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
