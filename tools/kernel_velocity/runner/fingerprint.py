"""Record what a timing depends on besides the source: the machine, the compilers, and the machine code that runs.

Facts are texts that sessions are compared by, read without importing torch. A fact that this machine does not report is
absent, because a fact that only one of two sessions has is no change. Facts that vary from hour to hour do not belong
here.

A build that does not describe itself gets a build-info.json with the code hash of each kernel. A kernel of which the
section names functions (`symbols`) is hashed by their machine code: the instructions of each function, and of those of
the library that it reaches, without addresses. The hash covers the address modulo 64, too. The same instructions in
another cache line were 32% slower in a real history. Data and GPU code are hashed for the whole library, because
instructions refer to them by address. The other files of the build are hashed whole, because the library may call them.
Any other kernel is hashed by all files of the build. So is one whose library objdump cannot read, and one that calls or
jumps through a pointer: what it reaches is not known.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import importlib.util
import json
import os
import platform
import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_velocity import documents
from kernel_velocity.engine import gpu, server
from kernel_velocity.files import replace_text
from kernel_velocity.results import sessions
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.runner.host import compiler, torch_version
from kernel_velocity.suite.config import Project
from kernel_velocity.suite.under_test import INFO_NAME, find_info

DEFAULT_CUDA = "/usr/local/cuda"
BUILD_SETTINGS = ("KV_CUDA", "KV_CUDA_ARCHITECTURES", "CXXFLAGS", "CUDAFLAGS")
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
    return SessionFacts(began=began, facts=facts, code=code_hashes(unpacked), ptxas=ptxas_of(info))


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
    cxx, nvcc = compiler(environ), _nvcc(environ)
    parts = [_version(cxx, 0) if cxx else "no C++ compiler", _version(nvcc, -1) if nvcc else "no nvcc"]
    parts += [f"{name}={environ[name]}" for name in BUILD_SETTINGS if environ.get(name)]
    for command in project.toolchain:
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
        parts.append(" ".join((done.stdout or done.stderr).split()))
    return "; ".join(parts)


def _nvcc(environ: Mapping[str, str]) -> str | None:
    """Return the nvcc that CMakeLists.txt finds, or None."""
    hints = [environ[name] for name in ("CUDACXX", "CUDA_HOME", "CUDA_PATH") if environ.get(name)]
    for hint in [*hints, DEFAULT_CUDA]:
        for path in (Path(hint), Path(hint, "nvcc"), Path(hint, "bin", "nvcc")):
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
    return shutil.which("nvcc")


def _version(program: str, line: int) -> str:
    """Return a line of the output of `program --version`, or the program's path where the output is empty."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return (done.stdout.strip().splitlines() or [program])[line].strip()


def build_info(unpacked: Path) -> dict[str, Any]:
    """Return the build-info.json of a build, {} where it has none, or one that is damaged."""
    path = find_info(unpacked)
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
    kernel. A kernel without a `code_hash` is left out.
    """
    path, kernels = find_info(unpacked), build_info(unpacked).get("kernels")
    if path is None or not isinstance(kernels, Mapping):
        return {}
    folders = {path.parent, path.parent.parent} - {unpacked, unpacked.parent}
    paths = sorted(source for folder in folders for source in folder.glob("*.py"))
    shared = b"".join(f"{path.relative_to(unpacked)}\0".encode() + path.read_bytes() + b"\0" for path in paths)
    hashes = {name: entry.get("code_hash") for name, entry in kernels.items() if isinstance(entry, Mapping)}
    return {
        name: hashlib.sha256(text.encode() + shared).hexdigest()
        for name, text in hashes.items()
        if isinstance(text, str)
    }


def ptxas_of(info: Mapping[str, Any]) -> dict[str, str]:
    """Return the output of ptxas for each CUDA kernel of a wheel: "sm_90: 168 registers, 0 bytes spilled".

    Both figures are the maximum over the kernel's functions, by architecture. Registers are per thread. Spilled bytes
    are stores and loads.
    """
    kernels = info.get("kernels")
    texts = {}
    for name, entry in kernels.items() if isinstance(kernels, Mapping) else ():
        with suppress(LookupError, TypeError):
            texts[name] = "; ".join(_maxima(entry["ptxas"]))
    return {name: text for name, text in texts.items() if text}


def _maxima(functions: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a text per architecture with the maximum over the functions of a kernel."""
    registers: dict[str, int] = {}
    spilled: dict[str, int] = {}
    for function in functions:
        name = function["architecture"]
        registers[name] = max(registers.get(name, 0), function["registers"])
        spilled[name] = max(spilled.get(name, 0), function["spill_store_bytes"] + function["spill_load_bytes"])
    for name in sorted(registers):
        yield f"{name}: {registers[name]} registers, {spilled[name]} bytes spilled"


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


# Builds that do not describe themselves -------------------------------------------------------------------------------

LINE = 64  # bytes of a cache line, and of the blocks in which processors fetch and decode instructions
DATA = (".rodata", ".data", ".tdata", ".data.rel.ro", ".nv_fatbin")
_FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_INSTRUCTION = re.compile(r"^\s*[0-9a-f]+:\s*(.*)$")
_TARGET = re.compile(r"<([^>+]+)(?:\+0x[0-9a-f]+)?>")
_BY_POINTER = re.compile(r"\b(?:call|jmp)\w*\s+\*|^(?:blra?|bra?)\w*\s", re.MULTILINE)  # x86-64, AArch64
ELF_64_LITTLE = b"\x7fELF\x02\x01"
EXECUTABLE = 4  # SHF_EXECINSTR
STUB = "@plt"  # ends the name of a stub that jumps to a function of another library
# What moves with the layout: the address before a target's name, an offset from the instruction, objdump's comment.
_ADDRESS = re.compile(r"\b(?:0x)?[0-9a-f]+ (?=<)|-?0x[0-9a-f]+(?=\(%rip\))|\s*#.*$")


@dataclass(frozen=True)
class Function:
    """A function of a library: instructions without addresses, the functions that it names, its place in a line."""

    code: str
    names: frozenset[str]
    offset: int  # address modulo LINE, bytes


def write_code_hashes(build: Path, project: Project, kernels: Iterable[str]) -> None:
    """Write a build-info.json with the code hashes of kernels, unless the build has one."""
    if find_info(build) is None:
        whole = _of_files(build)
        hashes = {kernel: _of_symbols(build, project.symbols_of(kernel)) or whole for kernel in kernels}
        info = {"kernels": {kernel: {"code_hash": text} for kernel, text in hashes.items()}}
        replace_text(build / INFO_NAME, json.dumps(info, indent=1))


def placement(build: Path) -> str | None:
    """Return the hash of the machine code in a build's libraries as linked: instructions with all their addresses.

    Equal hashes mean that every function lies in the same place. None: the build has no library (64-bit ELF).
    """
    digest, is_empty = hashlib.sha256(), True
    for path in sorted(build.rglob("*.so*")):
        data = path.read_bytes()
        for address, code in _executable(data) if data.startswith(ELF_64_LITTLE) else ():
            is_empty = False
            digest.update(f"{path.relative_to(build).as_posix()}\0{address}\0{len(code)}\0".encode() + code)
    return None if is_empty else digest.hexdigest()


def _executable(library: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (address, bytes) of the sections of an ELF library that hold instructions."""
    (table,), (size, count) = struct.unpack_from("<Q", library, 0x28), struct.unpack_from("<HH", library, 0x3A)
    for number in range(count):
        _, _, flags, address, offset, length = struct.unpack_from("<IIQQQQ", library, table + number * size)
        if flags & EXECUTABLE:
            yield address, library[offset : offset + length]


def missing_symbols(build: Path, project: Project) -> list[str]:
    """Return the symbols of the section that no library of a build has, as "library:function"."""
    return [
        symbol
        for kernel in project.kernels
        for symbol in project.symbols_of(kernel)
        if (functions := _functions(build, symbol)) is not None and symbol.partition(":")[2] not in functions
    ]


def _of_files(build: Path, besides: Container[str] = ()) -> str:
    """Return the hash of all files of a build, without those that are named."""
    digest = hashlib.sha256()
    for path in sorted(path for path in build.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        name = path.relative_to(build).as_posix()
        if name not in besides:
            digest.update(f"{name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _of_symbols(build: Path, symbols: Iterable[str]) -> str | None:
    """Return the hash of functions and of what they reach. None without symbols, or where that is not known."""
    digest = hashlib.sha256()
    used = set()
    for symbol in symbols:
        library, _, name = symbol.partition(":")
        functions = _functions(build, symbol)
        if functions is None or name not in functions:
            return None
        reached, waiting = set[str](), [name]
        while waiting:
            if (current := waiting.pop()) not in reached:
                reached.add(current)
                waiting += functions[current].names & functions.keys()
        for current in sorted(reached):
            if not current.endswith(STUB) and _BY_POINTER.search(functions[current].code):
                return None
            digest.update(f"{library}:{current} {functions[current].offset}\n{functions[current].code}\n".encode())
        used.add(library)
    for library in sorted(used):
        digest.update(_data(build / library))
    digest.update(_of_files(build, besides=used).encode())
    return digest.hexdigest() if used else None


def _functions(build: Path, symbol: str) -> dict[str, Function] | None:
    """Return the functions of a symbol's library by name. None where the build has no such library, or no objdump."""
    path = build / symbol.partition(":")[0]
    text = _objdump("-d", "--no-show-raw-insn", "--wide", str(path)) if path.is_file() else None
    if text is None:
        return None
    functions: dict[str, Function] = {}
    for block in text.split("\n\n"):
        head, _, body = block.strip("\n").partition("\n")
        if match := _FUNCTION.match(head):
            lines = [parsed[1] for line in body.splitlines() if (parsed := _INSTRUCTION.match(line))]
            names = frozenset(name for line in lines for name in _TARGET.findall(line))
            code = "\n".join(_ADDRESS.sub("", line).strip() for line in lines)
            functions[match[2]] = Function(code, names, int(match[1], 16) % LINE)
    return functions


def _data(library: Path) -> bytes:
    """Return the data and the GPU code of a library, without addresses. Empty where it has none."""
    options = [option for name in DATA for option in ("-j", name)]
    text = _objdump("-s", *options, str(library)) or ""  # it fails where a library has none of the sections
    return "\n".join(line[line.find(" ", 1) :] for line in text.splitlines() if line.startswith(" ")).encode()


def _objdump(*args: str) -> str | None:
    """Return the output of objdump, None where it is missing or cannot read the file."""
    program = shutil.which("objdump")
    if program is None:
        return None
    done = subprocess.run([program, *args], capture_output=True, text=True, errors="replace", check=False)
    return done.stdout if done.returncode == 0 else None
