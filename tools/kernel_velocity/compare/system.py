"""What a comparison ran on, as text: device, caches, clocks, load, versions, environment variables that matter."""

from __future__ import annotations

import importlib
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernel_velocity import lock
from kernel_velocity.engine import gpu, reported
from kernel_velocity.roofline.ceilings import size_text
from kernel_velocity.roofline.model import MemoryLevel, Roofs
from kernel_velocity.runner.host import ALLOCATOR, torch_version
from kernel_velocity.units import memory, significant

UNKNOWN = "unknown"
# Ours, and those that control threads, allocation, the visible GPU, and PyTorch's arithmetic.
VARIABLES = (
    *("KV_", "OMP_", "MKL_", "GOMP_", "KMP_", "CUDA_", "NVIDIA_", "TORCH", "PYTORCH_", "TRITON_"),
    *("MALLOC_", "GLIBC_"),
)
NO_ALLOCATOR = "not set up: times of large allocations include page faults (use the command `kv compare`)"
_CPUS = Path("/sys/devices/system/cpu")
_FREQUENCIES = "cpu[0-9]*/cpufreq/scaling_cur_freq"
_CPUINFO = Path("/proc/cpuinfo")


def environment(device: str, threads: int, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the facts of the machine and of this process, by name.

    Args:
        device: "cpu" or "cuda", which exists.
        threads: of the CPU.
        environ: the environment variables.
    """
    caches, free = reported.data_caches(device), reported.free_memory(device)
    keeps = all(environ.get(name) == value for name, value in ALLOCATOR.items())
    facts = {
        "device": reported.name(device),
        "caches": ", ".join(f"{name} {size_text(size)}" for name, size in caches.items()) or UNKNOWN,
        "free memory": UNKNOWN if free is None else memory(free),
        "clocks": clocks(device),
        "load": significant(os.getloadavg()[0]) if hasattr(os, "getloadavg") else UNKNOWN,
        "cores": str(os.cpu_count()),
        "threads": str(threads),
        "python": platform.python_version(),
        "torch": torch_version() or UNKNOWN,
        "system": f"{platform.system()} {platform.release()}",
        "allocator": "keeps freed memory" if keeps else NO_ALLOCATOR,
    }
    if device == "cuda":
        torch, driver = importlib.import_module("torch"), _nvml()
        facts |= {"cuda": str(torch.version.cuda), "driver": str(driver.get("driver", UNKNOWN))}
        if (power := driver.get("power_limit")) is not None:
            facts["power limit"] = f"{significant(power)} W"
    variables = [name for name in sorted(environ) if name.startswith(VARIABLES) and name != lock.HOLDER]
    return facts | {name: environ[name] for name in variables}


def reported_levels(device: str) -> Roofs | None:
    """Return the memory levels with their reported sizes and no bandwidths, None where no cache is known.

    They say which level holds a working set where no ceiling was measured.
    """
    caches = [MemoryLevel(name=name, size=size, bandwidth=None) for name, size in reported.data_caches(device).items()]
    return Roofs(levels=(*caches, MemoryLevel(name="DRAM", size=None, bandwidth=None)), peaks={}) if caches else None


def clocks(device: str) -> str:
    """Return the clocks now."""
    if device == "cuda":
        driver = _nvml()
        sm, most = _hertz(driver.get("sm_clock")), _hertz(driver.get("sm_clock_most"))
        return f"SM {sm} of {most}, memory {_hertz(driver.get('memory_clock'))}"
    return _hertz(cpu_clock())


def cpu_clock() -> float | None:
    """Return the clock of the fastest core now, Hz: idle cores slow down, the measuring one does not. None: unknown."""
    try:
        clocks = [1e3 * int(file.read_text(encoding="ascii")) for file in _CPUS.glob(_FREQUENCIES)]  # kHz
    except (OSError, ValueError):
        clocks = []
    if not clocks and _CPUINFO.exists():
        lines = _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
        clocks = [1e6 * float(line.split(":", 1)[1]) for line in lines if line.startswith("cpu MHz")]
    return max(clocks, default=None)


def _hertz(value: float | None) -> str:
    return UNKNOWN if value is None else f"{significant(value / 1e9)} GHz"


def _nvml() -> dict[str, Any]:
    uuid = gpu.uuid()
    described = UNKNOWN if uuid is None else gpu.describe(uuid)
    return described if isinstance(described, dict) else {}
