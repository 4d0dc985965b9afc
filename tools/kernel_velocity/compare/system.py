"""What a comparison ran on: device, caches, clocks, load, versions, the environment variables that matter; as text."""

from __future__ import annotations

import importlib
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernel_velocity.harness import gpu, nvml, reported
from kernel_velocity.roofline.model import Level, Roofs
from kernel_velocity.runner.host import ALLOCATOR, torch_version
from kernel_velocity.units import memory, significant

UNKNOWN = "not known"
# Besides our own (KV_*): what decides on threads, allocation, the GPU that is seen, and how PyTorch computes.
VARIABLES = ("OMP_", "MKL_", "GOMP_", "KMP_", "CUDA_", "NVIDIA_", "TORCH", "PYTORCH_", "TRITON_", "MALLOC_", "GLIBC_")
_FREQUENCY = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")


def environment(device: str, threads: int) -> dict[str, str]:
    """Return what there is to say of the machine and of this process, by name; what nobody says is "not known".

    Args:
        device: "cpu" or "cuda"; inside `comparing.prepared`, which has looked whether it is there.
        threads: of the CPU.
    """
    said = {
        "device": reported.name(device),
        "caches": caches(device),
        "free memory": _or_unknown(reported.free_memory(device), memory),
        "clocks": clocks(device),
        "load": significant(os.getloadavg()[0]) if hasattr(os, "getloadavg") else UNKNOWN,
        "cores": str(os.cpu_count()),
        "threads": str(threads),
        "python": platform.python_version(),
        "torch": torch_version() or UNKNOWN,
        "system": f"{platform.system()} {platform.release()}",
        "allocator": allocator(os.environ),
    }
    if device == "cuda":
        said |= _driver()
    return said | variables(os.environ)


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that can move a time."""
    return {name: environ[name] for name in sorted(environ) if name.startswith(("KV_", *VARIABLES))}


def allocator(environ: Mapping[str, str]) -> str:
    """Return whether freed memory stays with the process, as in every measuring process of the history."""
    if all(environ.get(name) == value for name, value in ALLOCATOR.items()):
        return "keeps freed memory"
    return "not set up: large allocations measure page faults (start by `kv compare`)"


def caches(device: str) -> str:
    """Return the sizes of the caches as the operating system or the driver reports them."""
    levels = reported_levels(device)
    if levels is None:
        return UNKNOWN
    sized = [level for level in levels.levels if level.size is not None]
    return ", ".join(f"{level.name} {_size(level.size or 0)}" for level in sized)


def _size(size: int) -> str:
    return f"{significant(size / 2**20)} MiB" if size >= 1 << 20 else f"{significant(size / 2**10)} KiB"


def reported_levels(device: str) -> Roofs | None:
    """Return the levels of the memory hierarchy with their reported sizes and no bandwidths; None where none is known.

    Where nothing was measured this still says where a working set lies.
    """
    found = [Level(name=name, size=size, bandwidth=None) for name, size in reported.data_caches(device).items()]
    if not found:
        return None
    return Roofs(levels=(*found, Level(name="DRAM", size=None, bandwidth=None)), peaks={})


def clocks(device: str) -> str:
    """Return the clocks now."""
    if device == "cuda":
        described = _nvml()
        sm, most = described.get("sm_clock"), described.get("sm_clock_most")
        return f"SM {_hertz(sm)} of {_hertz(most)}, memory {_hertz(described.get('memory_clock'))}"
    try:
        return _hertz(1e3 * int(_FREQUENCY.read_text(encoding="ascii")))  # kHz
    except (OSError, ValueError):
        return _hertz(_processor_clock(Path("/proc/cpuinfo")))


def _processor_clock(path: Path) -> float | None:
    """Return the first processor's clock, Hz."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    found = [float(line.split(":", 1)[1]) for line in lines if line.startswith("cpu MHz")]
    return 1e6 * found[0] if found else None


def _hertz(value: Any) -> str:
    return _or_unknown(value, lambda known: f"{significant(known / 1e9)} GHz")


def _or_unknown(value: Any, text: Any) -> str:
    return UNKNOWN if value is None else str(text(value))


def _driver() -> dict[str, str]:
    torch: Any = importlib.import_module("torch")
    described = _nvml()
    said = {"cuda": str(torch.version.cuda), "driver": str(described.get("driver", UNKNOWN))}
    if (power := described.get("power_limit")) is not None:
        said["power limit"] = f"{significant(power)} W"
    return said


def _nvml() -> dict[str, Any]:
    found = gpu.uuid()
    described = UNKNOWN if found is None else nvml.describe(found)
    return described if isinstance(described, dict) else {}
