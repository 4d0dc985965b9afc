"""Describe the host of a measurement: its torch, compiler and device, and how processes are started on it."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from kernel_velocity.engine import gpu, server
from kernel_velocity.errors import KernelVelocityError, UsageError
from kernel_velocity.processes import variable

# Of every measuring process, the same for every implementation.
#
# The allocator: above 32 MB glibc maps and unmaps memory at every allocation, and returns the heap's top when it is
# freed, so that an implementation that allocates its output measures page faults (3 ms becomes 60). No mappings and
# no trimming make freed memory stay. Checked on glibc 2.36: 3555 faults of five 400 MB buffers become 0. MMAP_MAX_=0
# and not a large MMAP_THRESHOLD_, which older glibc silently refuses above 32 MB.
# Huge pages (glibc 2.35 and newer, where the kernel offers them on request; else ignored): which 4 KB pages a process
# gets is chance, and decides how its arrays share the caches. Ten fresh processes at 10M elements, standard deviation
# between them: add_mul_exp 5.4% -> 1.0%, quantize_int8 3.5% -> 1.1%; the times themselves fall by 8 and 5%.
ALLOCATOR: Mapping[str, str] = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),  # bytes
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
# torch.cuda.is_available() then asks NVML and does not initialise CUDA, which a forking server must not do.
CUDA_CHECK: Mapping[str, str] = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}

# A crash then prints its cause, where asv only sees a process that ended.
CRASHES: Mapping[str, str] = {"PYTHONFAULTHANDLER": "1"}


def measuring_variables(threads: str | None) -> dict[str, str]:
    """Return the environment variables of a measuring process.

    Args:
        threads: number of threads of OpenMP and MKL, from KV_THREADS. None: 1, because two busy cores make
            a parallel operation jump from 1 to 8 ms whenever the scheduler takes one of them away.

    Raises:
        UsageError: `threads` is not a positive integer.
    """
    count = "1" if threads is None else threads
    if not (count.isascii() and count.isdigit() and int(count) > 0):
        raise UsageError(f"KV_THREADS={threads!r}: wanted a positive number of threads, such as KV_THREADS=1")
    return {**ALLOCATOR, **CUDA_CHECK, **CRASHES, "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count}


def measuring_command(args: Sequence[str]) -> list[str]:
    """Return the arguments of Python for a command of asv. Where series share a process, the server is ours."""
    is_server = args[1:2] == ["run_server"] and server.is_shared(os.environ, "cuda" if has_driver() else "cpu")
    return ["-P", "-m", "kernel_velocity.engine.server", *args[1:]] if is_server else [*args]


def torch_version() -> str | None:
    """Return the version of the installed torch, or None, without importing it."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def host_site_folders(paths: Sequence[str]) -> tuple[Path, ...]:
    """Return the existing site folders among `paths` (a `sys.path`), in order, without duplicates.

    A virtual environment that borrows torch through a path file has the lender's site folder in its `sys.path` too.
    Other folders (the current one, a checkout) are left out: they could hold a `kernels` of their own.
    """
    folders = [Path(path) for path in paths if Path(path).name in ("site-packages", "dist-packages")]
    return tuple(dict.fromkeys(folder.resolve() for folder in folders if folder.is_dir()))


@functools.cache
def lines_of_path_files(folder: Path) -> tuple[str, ...]:
    """Return the lines of path files (.pth) that wheels installed into a site folder, with whole paths.

    Python reads those of its own site folder alone, and some packages are not complete without them: CuTe DSL lies in
    a folder that its file names, and numba-cuda takes the place of numba.cuda. Those of editable installs are left out:
    they name checkouts.
    """
    files = {path.name: path for path in sorted(folder.glob("*.pth"))}
    wheels: set[str] = set()
    for distribution in importlib.metadata.distributions(path=[str(folder)]) if files else ():
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
        if not origin.get("dir_info", {}).get("editable"):
            wheels |= {row.partition(",")[0] for row in (distribution.read_text("RECORD") or "").splitlines()}
    texts = [path.read_text(encoding="utf-8") for name, path in files.items() if name in wheels]
    lines = [line for text in texts for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return tuple(line if line.startswith("import") else str(folder / line.strip()) for line in lines)


VISIBLE = "CUDA_VISIBLE_DEVICES"
NO_COMPILER = "no C++ compiler found (CXX, c++, g++, clang++): install one, for example `apt install g++`"


def compiler(environ: Mapping[str, str]) -> str | None:
    """Return the path of the compiler that CXX names, else of the first of c++, g++, clang++. None: it is missing."""
    names = environ.get("CXX", "").split()[:1] or ["c++", "g++", "clang++"]
    return next((path for name in names if (path := shutil.which(name))), None)


def has_compiler() -> bool:
    """Return whether there is a C++ compiler."""
    return compiler(os.environ) is not None


def has_driver() -> bool:
    """Return whether there is a GPU's driver."""
    return shutil.which("nvidia-smi") is not None or Path("/dev/nvidiactl").exists()


def python(*args: str, environ: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run another Python. Return its exit status, and the last line that it printed, of its errors if it failed."""
    done = subprocess.run(
        [sys.executable, *args], env=environ, capture_output=True, text=True, errors="replace", check=False
    )
    text, least = (done.stderr, "no reason given") if done.returncode else (done.stdout, "")
    return done.returncode, (text.strip().splitlines() or [least])[-1]


def device() -> str:
    """Return "cuda" where PyTorch can use a GPU, else "cpu"."""
    if not has_driver():
        return "cpu"  # saves the second that importing torch costs
    script = "import torch, sys; sys.exit(0 if torch.cuda.is_available() else 1)"
    return "cuda" if python("-c", script)[0] == 0 else "cpu"


def seeing(chosen: str | None) -> AbstractContextManager[None]:
    """Have processes that the body starts see one device alone.

    Args:
        chosen: "cpu", or "cuda:1" for the second GPU as the driver counts them. None: all.

    Raises:
        UsageError: there is no such device.
    """
    return variable(VISIBLE, "" if chosen == "cpu" else chosen and _uuid(chosen))


def _uuid(chosen: str) -> str:
    """Return the UUID of a GPU: CUDA may count in another order than the driver."""
    if (number := re.fullmatch(r"cuda:(\d+)", chosen, re.ASCII)) is None:
        raise UsageError(f"--device {chosen!r}: cpu or the number of a GPU is wanted, such as --device cuda:1")
    try:
        with gpu.nvml() as nvml:
            count = int(nvml.nvmlDeviceGetCount())
            if int(number[1]) < count:
                return str(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(int(number[1]))))
    except gpu.NvmlError as error:
        raise UsageError(f"--device {chosen}: {error}; --device cpu measures the CPU") from None
    raise UsageError(f"--device {chosen}: this machine has {count} GPUs, the last is cuda:{count - 1}")


def gpu_uuid() -> str | None:
    """Return the UUID of the GPU that measures, as NVML writes it. None where there is none, or PyTorch does not say.

    Another process asks: a context of this one would be beside what is measured.
    """
    if device() != "cuda":
        return None
    script = "from kernel_velocity.engine import gpu; print(gpu.uuid() or '')"
    status, uuid = python("-P", "-c", script)
    return None if status else uuid or None


_NOTE, _ERROR = "note: ", "error: "  # prefixes of the lines of `kv report` on stderr


def write_site(
    *, results: Path, repository: Path, out: Path, unfinished: tuple[float, str] | None = None
) -> tuple[str, ...]:
    """Write the site by `kv report`. Return its notes on unreadable entries.

    Args:
        unfinished: until when the page may be renewed, Unix time, s, and what is still being measured.

    Raises:
        KernelVelocityError: with the error of `kv report`, or how its process ended.
    """
    folders = {"--results": results, "--repository": repository, "--out": out}
    options = [*(f"{name}={folder.absolute()}" for name, folder in folders.items())]
    options += ["--unfinished", *map(str, unfinished)] if unfinished else []
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kernel_velocity", "report", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="backslashreplace",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    lines = done.stderr.splitlines()
    if done.returncode:
        raise KernelVelocityError(_reason(done.returncode, lines))
    return tuple(line.removeprefix(_NOTE) for line in lines if line.startswith(_NOTE))


def _reason(status: int, lines: list[str]) -> str:
    errors = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
    if errors:
        return errors[-1]
    ended = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    return "\n".join([f"the process that writes the site {ended}", *lines])
