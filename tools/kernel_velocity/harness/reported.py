"""What the operating system or the driver says of a machine: names, cache and memory sizes, clocks. Claims, not
measurements; bytes, Hz, watts and degrees Celsius; what nobody says is None.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernel_velocity.harness import nvml

_CPUS = Path("/sys/devices/system/cpu")
_CACHES = _CPUS / "cpu0" / "cache"
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def last_level_cache(folder: Path = _CACHES) -> int | None:
    """Return the size of the CPU's largest-numbered data cache, bytes, from sysfs; None where sysfs does not say."""
    found = [(int(_text(index / "level")), _bytes(_text(index / "size"))) for index in _data_caches(folder)]
    return max(found)[1] if found else None


def private_cache(folder: Path = _CACHES) -> int | None:
    """Return the size of the largest data cache below the last level, bytes: the core's own; None if unknown."""
    found = sorted((int(_text(index / "level")), _bytes(_text(index / "size"))) for index in _data_caches(folder))
    return found[-2][1] if len(found) > 1 else None


def data_caches(device: str, folder: Path = _CACHES) -> dict[str, int]:
    """Return the size of each of a device's data caches by name ("L1", ...), bytes; {} where nobody says.

    Of a GPU, its L2: what lies nearer to its cores is not coherent, and holds nothing that two of them share.
    """
    if device == "cpu":
        found = {f"L{_text(index / 'level')}": _bytes(_text(index / "size")) for index in _data_caches(folder)}
        return dict(sorted(found.items()))
    size = cache_size(device)
    return {} if size is None else {"L2": size}


def _data_caches(folder: Path) -> list[Path]:
    indexes = [size.parent for size in folder.glob("index*/size")]
    return [index for index in indexes if _text(index / "type") in ("Data", "Unified")]


def neighbours(cpus: Path = _CPUS) -> list[int]:
    """Return the cores that this process may run on and that share a last-level cache with the first of them.

    To them a thread can move and find its data as far away as before. [] where nobody says; Linux only.
    """
    if not hasattr(os, "sched_getaffinity"):
        return []
    allowed = os.sched_getaffinity(0)
    indexes = _data_caches(cpus / f"cpu{min(allowed)}" / "cache")
    if not indexes:
        return []
    last = max(indexes, key=lambda index: int(_text(index / "level")))
    try:
        shared = _numbers(_text(last / "shared_cpu_list"))
    except (OSError, ValueError):  # masked, or empty
        return []
    return sorted(shared & allowed)


def _numbers(text: str) -> set[int]:
    """Return what sysfs means by "0-3,8"."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()


def _bytes(text: str) -> int:
    """Return what sysfs means by "32768K"."""
    return int(text[:-1]) * _UNITS[text[-1]] if text[-1] in _UNITS else int(text)


def cache_size(device: str) -> int | None:
    """Return the size of the last cache before memory, bytes: the CPU's last level, or the GPU's L2."""
    if device == "cpu":
        return last_level_cache()
    import torch  # noqa: PLC0415 - discovery must work without torch

    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return int(getattr(properties, "L2_cache_size", 0)) or None  # torch 2.5 and newer say


def free_memory(device: str) -> int | None:
    """Return the memory that could be allocated now, bytes: the kernel's estimate, or the driver's."""
    if device == "cpu":
        return _proc_field(Path("/proc/meminfo"), "MemAvailable", scale=1 << 10)
    import torch  # noqa: PLC0415

    return int(torch.cuda.mem_get_info()[0])


def _proc_field(path: Path, field: str, scale: int) -> int | None:
    """Return the number behind `field:` in a file of /proc, times `scale`; None where there is none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    values = [line.split(":", 1)[1].split()[0] for line in lines if line.startswith(f"{field}:")]
    return int(values[0]) * scale if values else None


def name(device: str) -> str:
    """Return the name of the processor or of the GPU."""
    if device == "cuda":
        import torch  # noqa: PLC0415

        return str(torch.cuda.get_device_name())
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else os.uname().machine


def threads(environ: Mapping[str, str] = os.environ) -> int:
    """Return the number of threads that `prepare_torch` sets: KV_THREADS, else 1."""
    return int(environ.get("KV_THREADS") or 1)


def reported(device: str) -> dict[str, Any]:
    """Return everything that is said of the device, by name; a GPU's driver adds what `nvml.describe` knows."""
    import torch  # noqa: PLC0415

    said: dict[str, Any] = {"torch": torch.__version__, "threads": threads()}
    said |= {"cache": cache_size(device), "caches": data_caches(device), "free_memory": free_memory(device)}
    if device == "cpu":
        return said | {"cores": os.cpu_count()}
    properties: Any = torch.cuda.get_device_properties(torch.cuda.current_device())
    said |= {"memory": properties.total_memory, "multiprocessors": properties.multi_processor_count}
    said |= {"capability": f"{properties.major}.{properties.minor}", "cuda": torch.version.cuda}
    uuid = getattr(properties, "uuid", None)  # torch 2.5 and newer say
    unknown = "this torch does not say the device's uuid"
    return said | {"nvml": unknown if uuid is None else nvml.describe(f"GPU-{uuid}")}
