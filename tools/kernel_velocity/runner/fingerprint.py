"""What a time depends on besides the code: driver, CUDA, torch, clocks, governor, as texts to be compared.

Read in the process that starts a session, and without importing torch. What this machine does not say is absent: a fact
that only one of two sessions knows is no change. Nothing that differs by itself from one hour to the next belongs here.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kernel_velocity.results import lines, sessions
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.runner.build_info import BUILD_INFO, code_hash
from kernel_velocity.runner.host import torch_version

LIBRARY = BUILD_INFO.with_name("libkernel_velocity.so")
_CPUS = Path("/sys/devices/system/cpu")
_CPU_INFO = Path("/proc/cpuinfo")
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_CUDA = re.compile(r"^cuda\b[^=\n]*=\s*'([^']+)'", re.MULTILINE)  # torch/version.py


def record(results_file: Path, began: float, unpacked: Path, environ: Mapping[str, str]) -> None:
    """Keep beside a results file what the machine is now, and how its commit was built (arguments as `session`)."""
    lines.append_session(results_file, session(began, unpacked, environ))


def session(began: float, unpacked: Path, environ: Mapping[str, str]) -> SessionFacts:
    """Return what the machine is now, and how a commit was built.

    Args:
        began: Unix time at which the session that measures it began, s. unpacked: the commit's unpacked wheel.
        environ: of the process that measures.
    """
    info = build_info(unpacked)
    facts = {**now(environ), **compilers(info), **isa_of(unpacked)}
    return SessionFacts(began=began, facts=facts, code=code_of(info, unpacked), ptxas=ptxas_of(info))


def now(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the facts of this machine, by name."""
    texts: dict[str, str | None] = {
        "cpu": _cpu_info("model name"),
        "microcode": _cpu_info("microcode"),
        "governor": _each(_CPUS.glob("cpu[0-9]*/cpufreq/scaling_governor")),
        "cpu clock limit": _each(_CPUS.glob("cpu[0-9]*/cpufreq/scaling_max_freq")),
        "boost": _each([_CPUS / "cpufreq" / "boost"]),
        "turbo off": _each([_CPUS / "intel_pstate" / "no_turbo"]),
        "huge pages": _each([_HUGE_PAGES]),
        "system": f"{platform.system()} {platform.release()}",
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "torch": torch_version(),
        "cuda": _torch_cuda(),
        "threads": environ.get("KV_THREADS") or "1",
        **_gpus(environ),
    }
    return {name: text for name, text in texts.items() if text}


def compilers(info: Mapping[str, Any]) -> dict[str, str]:
    """Return what a wheel was compiled with, from its build-info.json."""
    found = {name: info.get(name.replace(" ", "_")) for name in sorted(sessions.COMPILERS)}
    return {name: text for name, text in found.items() if isinstance(text, str)}


def isa_of(unpacked: Path) -> dict[str, str]:
    """Return the instruction set that the CPU kernels of an unpacked wheel run here ("isa"): its library is asked.

    {} for a commit from before there was a choice, and where KV_ISA names none.
    """
    with suppress(OSError, AttributeError):
        ask = ctypes.CDLL(str(unpacked / LIBRARY)).kv_isa
        ask.argtypes, ask.restype = [], ctypes.c_char_p
        name = ask()
        return {"isa": name.decode()} if isinstance(name, bytes) else {}
    return {}


def code_of(info: Mapping[str, Any], unpacked: Path) -> dict[str, str]:
    """Return what identifies the code of each kernel of an unpacked wheel."""
    kernels = info.get("kernels")
    hashes = {name: code_hash(unpacked, name) for name in kernels} if isinstance(kernels, Mapping) else {}
    return {name: text for name, text in hashes.items() if text is not None}


def ptxas_of(info: Mapping[str, Any]) -> dict[str, str]:
    """Return what the CUDA compiler said of each kernel of a wheel: "sm_90: 168 registers, 0 bytes spilled".

    The most that a function takes, by architecture: registers of a thread, and bytes that it stores and loads for want
    of more. Kernels without CUDA code are left out.
    """
    kernels = info.get("kernels")
    found = {}
    for name, said in kernels.items() if isinstance(kernels, Mapping) else ():
        with suppress(LookupError, TypeError):
            found[name] = "; ".join(_most(said["ptxas"]))
    return {name: text for name, text in found.items() if text}


def _most(functions: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield, by architecture, the most that a function of a kernel takes."""
    registers: dict[str, int] = {}
    spilled: dict[str, int] = {}
    for item in functions:
        name = item["architecture"]
        registers[name] = max(registers.get(name, 0), item["registers"])
        spilled[name] = max(spilled.get(name, 0), item["spill_store_bytes"] + item["spill_load_bytes"])
    for name in sorted(registers):
        yield f"{name}: {registers[name]} registers, {spilled[name]} bytes spilled"


def build_info(unpacked: Path) -> dict[str, Any]:
    """Return the build-info.json of an unpacked wheel; {} for a commit from before there was one."""
    with suppress(OSError, ValueError):
        info = json.loads((unpacked / BUILD_INFO).read_text(encoding="utf-8"))
        return info if isinstance(info, dict) else {}
    return {}


def _each(paths: Iterable[Path]) -> str | None:
    """Return what the files say, each text once; None where there is none to read."""
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
    """Return the CUDA that torch was built for, from its version.py; None for a torch without."""
    with suppress(ImportError, ValueError, OSError):
        spec = importlib.util.find_spec("torch")
        if spec is not None and spec.origin is not None:
            found = _CUDA.search(Path(spec.origin).with_name("version.py").read_text(encoding="utf-8"))
            return found[1] if found else None
    return None


def _gpus(environ: Mapping[str, str]) -> dict[str, str | None]:
    """Return the driver, and the kinds and limits of the GPUs that are visible; {} without NVML or a driver."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ModuleNotFoundError:
        return {}
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:  # no driver
        return {}
    try:
        driver = _asked(nvml, nvml.nvmlSystemGetDriverVersion)
        described = sorted({_gpu(nvml, handle) for handle in _visible(nvml, environ.get("CUDA_VISIBLE_DEVICES"))})
        return {"driver": driver, "gpu": " | ".join(described)}
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _visible(nvml: Any, wanted: str | None) -> Iterator[Any]:
    """Yield the handles of GPUs; those that CUDA_VISIBLE_DEVICES names by UUID, else all.

    Its numbers count in CUDA's order, which NVML does not know.
    """
    names = {name.strip() for name in (wanted or "").split(",") if name.strip().startswith("GPU-")}
    for index in range(int(_asked(nvml, nvml.nvmlDeviceGetCount) or 0)):
        with suppress(nvml.NVMLError):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            if not names or any(str(nvml.nvmlDeviceGetUUID(handle)).startswith(name) for name in names):
                yield handle


def _gpu(nvml: Any, handle: Any) -> str:
    """Return a GPU's name and what limits it: application clocks (what a lock sets), the power limit, ECC."""
    questions: dict[str, Callable[[], Any]] = {
        "SM clock, MHz": lambda: nvml.nvmlDeviceGetApplicationsClock(handle, nvml.NVML_CLOCK_SM),
        "memory clock, MHz": lambda: nvml.nvmlDeviceGetApplicationsClock(handle, nvml.NVML_CLOCK_MEM),
        "power limit, mW": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle),
        "ECC": lambda: nvml.nvmlDeviceGetEccMode(handle)[0],
        "persistence": lambda: nvml.nvmlDeviceGetPersistenceMode(handle),
        "MIG": lambda: nvml.nvmlDeviceGetMigMode(handle)[0],
    }
    answers = {name: _asked(nvml, ask) for name, ask in questions.items()}
    known = [f"{name} {answer}" for name, answer in answers.items() if answer is not None]
    return "; ".join([_asked(nvml, lambda: nvml.nvmlDeviceGetName(handle)) or "a GPU", *known])


def _asked(nvml: Any, ask: Callable[[], Any]) -> str | None:
    """Return an answer as text; None where the device keeps it to itself, or the binding has no such question."""
    try:
        answer = ask()
    except (nvml.NVMLError, AttributeError):
        return None
    return answer.decode() if isinstance(answer, bytes) else str(answer)
