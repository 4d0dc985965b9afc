"""Record what a value depends on besides the source: the machine, the compilers, the code of a build, what counts.

Facts are texts that sessions are compared by, read without importing torch. A fact that this machine does not report is
absent, because a fact that only one of two sessions has is no change. Facts that vary from hour to hour do not belong
here.

A build that does not describe itself gets its code hashes from code_identity.py.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kernel_velocity import documents
from kernel_velocity.counts import callgrind, compiled, machine_code
from kernel_velocity.engine import gpu, server
from kernel_velocity.results import sessions
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.runner import code_identity
from kernel_velocity.runner.host import compiler, torch_version
from kernel_velocity.suite.config import Project
from kernel_velocity.suite.under_test import described, find_info

DEFAULT_CUDA = "/usr/local/cuda"
FLAGS = ("CFLAGS", "CPPFLAGS", "CXXFLAGS", "CUDAFLAGS", "LDFLAGS")
BUILD_SETTINGS = ("KV_CUDA", "KV_CUDA_ARCHITECTURES", "KV_CXX_ARCHITECTURE", *FLAGS)
_CPUS = Path("/sys/devices/system/cpu")
_CPU_INFO = Path("/proc/cpuinfo")
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_CUDA = re.compile(r"^cuda\b[^=\n]*=\s*'([^']+)'", re.MULTILINE)  # torch/version.py


def session(began: float, unpacked: Path, environ: Mapping[str, str]) -> SessionFacts:
    """Return the facts of this machine and of a commit's build.

    Args:
        began: Unix time at which the measuring session began, s. unpacked: the commit's unpacked wheel.
        environ: of the measuring process.
    """
    info = build_info(unpacked)
    named = {name: info.get(name.replace(" ", "_")) for name in sorted(sessions.COMPILERS)}
    compilers = {name: text for name, text in named.items() if isinstance(text, str)}
    facts = {**now(environ), **compilers, **isa_of(unpacked)}
    whole = code_identity.reasons_of(info)
    return SessionFacts(
        began=began,
        facts=facts,
        code=code_hashes(unpacked),
        ptxas=compiled.ptxas_of(info),
        whole=whole,
        counted=callgrind.counted_by() | machine_code.read_by(),
    )


def now(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the facts of this machine, by name."""
    texts: dict[str, str | None] = {
        "cpu": _cpu_info("model name"),
        "microcode": _cpu_info("microcode"),
        "governor": _contents(_CPUS.glob("cpu[0-9]*/cpufreq/scaling_governor")),
        "cpu clock limit": _contents(_CPUS.glob("cpu[0-9]*/cpufreq/scaling_max_freq")),
        "boost": _contents([_CPUS / "cpufreq" / "boost"]),
        "turbo off": _contents([_CPUS / "intel_pstate" / "no_turbo"]),
        "huge pages": _contents([_HUGE_PAGES]),
        "system": f"{platform.system()} {platform.release()}",
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "torch": torch_version(),
        "cuda": _torch_cuda(),
        "threads": environ.get("KV_THREADS") or "1",
        **_gpus(environ),
    }
    return {name: text for name, text in texts.items() if text}


def toolchain(environ: Mapping[str, str], project: Project) -> str:
    """Return the compilers and build settings in one line: equal lines make the same build of the same commit.

    The line says "no nvcc" where no CUDA code is built. It has the output of the section's `toolchain` commands.
    """
    cxx, cuda = compiler(environ), nvcc(environ)
    parts = [_version(cxx, 0) if cxx else "no C++ compiler", _version(cuda, -1) if cuda else "no nvcc"]
    parts += [f"{name}={environ[name]}" for name in BUILD_SETTINGS if environ.get(name)]
    for command in project.toolchain:
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, errors="replace", check=False)
        parts.append(" ".join((done.stdout or done.stderr).split()))
    return "; ".join(parts)


def nvcc(environ: Mapping[str, str]) -> str | None:
    """Return the nvcc that CMakeLists.txt finds, or None."""
    hints = [environ[name] for name in ("CUDACXX", "CUDA_HOME", "CUDA_PATH") if environ.get(name)]
    for hint in [*hints, DEFAULT_CUDA]:
        for path in (Path(hint), Path(hint, "nvcc"), Path(hint, "bin", "nvcc")):
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
    return shutil.which("nvcc")


def _version(program: str, line: int) -> str:
    """Return a line of the output of `program --version`, or the program's path where the output is empty."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, errors="replace", check=False)
    return (done.stdout.strip().splitlines() or [program])[line].strip()


def build_info(unpacked: Path) -> dict[str, Any]:
    """Return the build-info.json of a build (`described`), {} where it has none, or one that is damaged."""
    return _read(described(unpacked))


def timed_info(unpacked: Path) -> dict[str, Any]:
    """Return the build-info.json of the code of a build that is timed, as `build_info` does of all that it has."""
    return _read(find_info(unpacked))


def _read(path: Path | None) -> dict[str, Any]:
    with suppress(OSError, documents.DamagedError):
        return {} if path is None else documents.read(path)
    return {}


def isa_of(unpacked: Path) -> dict[str, str]:
    """Return {"isa": the instruction set that the CPU kernels use here}, as the build's library reports it.

    The library lies beside build-info.json and has a function `const char* kv_isa(void)`. Empty where there is none, or
    KV_ISA names an unknown set.
    """
    path = find_info(unpacked)
    for library in () if path is None else sorted(path.parent.glob("*.so")):
        with suppress(OSError, AttributeError):
            kv_isa = ctypes.CDLL(str(library)).kv_isa
            kv_isa.argtypes, kv_isa.restype = [], ctypes.c_char_p
            name = kv_isa()
            return {"isa": name.decode()} if isinstance(name, bytes) else {}
    return {}


def code_hashes(unpacked: Path) -> dict[str, str]:
    """Return the code hash of each kernel of a build. Equal hashes mean equal machine code.

    A kernel's hash covers its `code_hash` of build-info.json (machine code of host object and cubin, the kernel's
    Python files, flags) and the Python files of the folder of build-info.json and of the one above: they call every
    kernel. Its scheme, if it names one, stays in front. A kernel without a `code_hash` is left out.
    """
    path = find_info(unpacked)
    kernels = _read(path).get("kernels")
    if path is None or not isinstance(kernels, Mapping):
        return {}
    folders = {path.parent, path.parent.parent} - {unpacked, unpacked.parent}
    paths = sorted(source for folder in folders for source in folder.glob("*.py"))
    shared = b"".join(f"{path.relative_to(unpacked)}\0".encode() + path.read_bytes() + b"\0" for path in paths)
    hashes = {name: entry.get("code_hash") for name, entry in kernels.items() if isinstance(entry, Mapping)}
    return {
        name: sessions.scheme(text) + hashlib.sha256(text.encode() + shared).hexdigest()
        for name, text in hashes.items()
        if isinstance(text, str) and text  # equal hashes of nothing would be equal code
    }


def _contents(paths: Iterable[Path]) -> str | None:
    """Return the different contents of the readable files, or None."""
    texts = set()
    for path in paths:
        with suppress(OSError):
            texts.add(path.read_text(encoding="ascii", errors="replace").strip())
    return ", ".join(sorted(texts)) or None


def _cpu_info(field: str) -> str | None:
    with suppress(OSError):
        lines = _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
        values = {line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == field}
        return ", ".join(sorted(values)) or None
    return None


def _torch_cuda() -> str | None:
    """Return the CUDA version that torch was built for, from its version.py. None for a CPU build."""
    with suppress(ImportError, ValueError, OSError):
        spec = importlib.util.find_spec("torch")
        if spec is not None and spec.origin is not None:
            match = _CUDA.search(Path(spec.origin).with_name("version.py").read_text(encoding="utf-8"))
            return match[1] if match else None
    return None


def _gpus(environ: Mapping[str, str]) -> dict[str, str | None]:
    """Return the driver, and the models and limits of the visible GPUs, {} without NVML or a driver."""
    try:
        with gpu.nvml() as nvml:
            driver = query(nvml, nvml.nvmlSystemGetDriverVersion)
            described = sorted({_gpu(nvml, handle) for handle in visible(nvml, environ.get("CUDA_VISIBLE_DEVICES"))})
            processes = "one for a GPU's series" if server.is_shared(environ, "cuda") else "one for each series"
            return {"driver": driver, "gpu": " | ".join(described), "processes": processes}
    except gpu.NvmlError:
        return {}


def visible(nvml: Any, wanted: str | None) -> Iterator[Any]:
    """Yield the handles of the GPUs that CUDA_VISIBLE_DEVICES names by UUID, else of all.

    Numbers in that variable are ignored: they count in CUDA's order, which NVML does not know.
    """
    names = {name.strip() for name in (wanted or "").split(",") if name.strip().startswith("GPU-")}
    for index in range(int(query(nvml, nvml.nvmlDeviceGetCount) or 0)):
        with suppress(nvml.NVMLError):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            if not names or any(str(nvml.nvmlDeviceGetUUID(handle)).startswith(name) for name in names):
                yield handle


def _gpu(nvml: Any, handle: Any) -> str:
    """Return a GPU's name and its limits: application clocks (which a clock lock sets), power limit, ECC, MIG."""
    queries: dict[str, Callable[[], Any]] = {
        "SM clock, MHz": lambda: nvml.nvmlDeviceGetApplicationsClock(handle, nvml.NVML_CLOCK_SM),
        "memory clock, MHz": lambda: nvml.nvmlDeviceGetApplicationsClock(handle, nvml.NVML_CLOCK_MEM),
        "power limit, mW": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle),
        "ECC": lambda: nvml.nvmlDeviceGetEccMode(handle)[0],
        "persistence": lambda: nvml.nvmlDeviceGetPersistenceMode(handle),
        "MIG": lambda: nvml.nvmlDeviceGetMigMode(handle)[0],
    }
    values = {name: query(nvml, ask) for name, ask in queries.items()}
    limits = [f"{name} {value}" for name, value in values.items() if value is not None]
    return "; ".join([query(nvml, lambda: nvml.nvmlDeviceGetName(handle)) or "a GPU", *limits])


def query(nvml: Any, ask: Callable[[], Any]) -> str | None:
    """Return the value of an NVML query as text. None where the device or the binding does not support it."""
    try:
        value = ask()
    except (nvml.NVMLError, AttributeError):
        return None
    return value.decode() if isinstance(value, bytes) else str(value)
