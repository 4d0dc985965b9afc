"""Read what the system reports about a machine: names, caches, memory, threads, and how it schedules a process.

The operating system or the driver reports it: bytes, Hz, watts and degrees Celsius, None for what they do not report.
Single figures that were measured are kept in files of JSON between rounds.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import resource
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

from kernel_velocity import documents
from kernel_velocity.engine import gpu

_CPU_FOLDERS = Path("/sys/devices/system/cpu")
_CACHES = _CPU_FOLDERS / "cpu0" / "cache"
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


# Caches and memory ----------------------------------------------------------------------------------------------------


def last_level_cache(folder: Path = _CACHES) -> int | None:
    """Return the size of the CPU's largest-numbered data cache, bytes, from sysfs. None where sysfs does not say."""
    data = _data_caches(folder)
    return data[-1][1] if data else None


def private_cache(folder: Path = _CACHES) -> int | None:
    """Return the size of the largest data cache below the last level, bytes: the core's own. None if unknown."""
    data = _data_caches(folder)
    return data[-2][1] if len(data) > 1 else None


def data_caches(device: str, folder: Path = _CACHES) -> dict[str, int]:
    """Return the size of each of a device's data caches by name ("L1", ...), bytes, {} where unknown.

    Of a GPU, its L2: what lies nearer to its cores is not coherent, and holds nothing that two of them share.
    """
    if device == "cpu":
        return {f"L{level}": size for level, size, _ in _data_caches(folder)}
    size = cache_size(device)
    return {} if size is None else {"L2": size}


def _data_caches(folder: Path) -> list[tuple[int, int, Path]]:
    """Return level, bytes and folder of each data cache that a CPU's folder of sysfs describes, innermost first."""
    indexes = [size.parent for size in folder.glob("index*/size")]
    data = [index for index in indexes if _text(index / "type") in ("Data", "Unified")]
    return sorted((int(_text(index / "level")), _bytes(_text(index / "size")), index) for index in data)


def neighbours(cpus: Path = _CPU_FOLDERS) -> list[int]:
    """Return the cores that this process may run on and that share a last-level cache with the first of them.

    To them a thread can move and find its data as far away as before. [] where that is unknown. Linux only.
    """
    if not hasattr(os, "sched_getaffinity"):
        return []
    allowed = os.sched_getaffinity(0)
    data = _data_caches(cpus / f"cpu{min(allowed)}" / "cache")
    try:
        shared = _numbers(_text(data[-1][2] / "shared_cpu_list")) if data else set()
    except (OSError, ValueError):  # masked, or empty
        return []
    return sorted(shared & allowed)


def _numbers(text: str) -> set[int]:
    """Return what sysfs means by "0-3,8"."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()


def _bytes(text: str) -> int:
    """Return what sysfs means by "32768K"."""
    return int(text[:-1]) * _UNITS[text[-1]] if text[-1] in _UNITS else int(text)


def cache_size(device: str) -> int | None:
    """Return the size of the last cache before memory, bytes: the CPU's last level, or the GPU's L2."""
    if device == "cpu":
        return last_level_cache()
    return int(getattr(gpu.properties(), "L2_cache_size", 0)) or None  # torch 2.5 and newer say


def free_memory(device: str) -> int | None:
    """Return the memory that could be allocated now, bytes: the kernel's estimate, or the driver's."""
    if device == "cpu":
        available = _proc_field("/proc/meminfo", "MemAvailable")
        return None if available is None else int(available.split()[0]) << 10
    import torch  # noqa: PLC0415 - discovery must work without torch

    return int(torch.cuda.mem_get_info()[0])


@contextmanager
def memory_bound(device: str, share: float) -> Iterator[None]:
    """Let this process take at most that share of the free memory inside the block: then allocations fail, none kills.

    Nothing is bound on a GPU, whose driver refuses what does not fit, and where the free memory is unknown.
    """
    free, used = free_memory(device), _proc_field("/proc/self/status", "VmData")
    if device != "cpu" or free is None or used is None:
        yield
        return
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = (int(used.split()[0]) << 10) + int(share * free)
    bounds = [bound, *(limit for limit in (before, hard) if limit != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def _proc_field(path: str, field: str) -> str | None:
    """Return what stands behind the first `field:` in a file of /proc. None where there is none."""
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(field)), None)


# Names and settings ---------------------------------------------------------------------------------------------------


def name(device: str) -> str:
    """Return the name of the processor or of the GPU."""
    if device == "cuda":
        import torch  # noqa: PLC0415

        return str(torch.cuda.get_device_name())
    return _proc_field("/proc/cpuinfo", "model name") or os.uname().machine


def threads(environ: Mapping[str, str] = os.environ) -> int:
    """Return the number of threads that `prepare_torch` sets: KV_THREADS, else 1."""
    return int(environ.get("KV_THREADS") or 1)


def reported(device: str) -> dict[str, Any]:
    """Return everything that is reported of the device, by name. Of a GPU also what its driver says."""
    import torch  # noqa: PLC0415

    report: dict[str, Any] = {"torch": torch.__version__, "threads": threads()}
    report |= {"cache": cache_size(device), "caches": data_caches(device), "free_memory": free_memory(device)}
    if device == "cpu":
        return report | {"cores": os.cpu_count()}
    properties, uuid = gpu.properties(), gpu.uuid()
    report |= {"memory": properties.total_memory, "multiprocessors": properties.multi_processor_count}
    report |= {"capability": f"{properties.major}.{properties.minor}", "cuda": torch.version.cuda}
    return report | {"nvml": "this torch does not say the device's uuid" if uuid is None else gpu.describe(uuid)}


# Figures between rounds -----------------------------------------------------------------------------------------------


def machine_id(device: str, *more: str) -> str:
    """Return 16 hex digits for a device of this machine, and for what else a figure depends on."""
    identity = "-".join((device, name(device), os.uname().nodename, *more))
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def read_figure(path: Path, key: str) -> float | None:
    """Return the number under a key of a file of `write_figure`. None where there is none, or a negative one."""
    try:
        value = documents.read_checked(path)[key]
    except (OSError, ValueError, LookupError):
        return None
    return float(value) if isinstance(value, int | float) and 0 <= value < math.inf else None


def write_figure(path: Path, document: Mapping[str, object]) -> None:
    """Write a JSON file whole or not at all: rounds of two runs may write at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    draft.write_text(documents.with_checksum(json.dumps(document)), encoding="utf-8")
    draft.replace(path)


# What the host does to a process --------------------------------------------------------------------------------------

# A preempted process loses a scheduler slice of milliseconds each time; ten a second move a mean by more than 1%.
SWITCHES_PER_SECOND = 10.0
# Share of the processor time of all threads that those beyond the allowed ones may take: what looks after others takes
# less. All together, since each of 30 threads, or of 8 beside one that waits actively, takes less by itself.
CROWDED = 0.05
STEAL_SHARE = 0.01  # of the time spent, per CPU


@dataclass(frozen=True)
class HostCounters:
    """Counters of the process and of the machine at one moment."""

    switches: int  # involuntary, of this process
    steal: float | None  # s, all CPUs together, since boot
    processor: float  # s that this process ran, threads that have ended included, before they were read
    threads: Mapping[str, float]  # s that each of its threads ran
    read: float  # s that this process ran, after they were read: that takes 5% of a short round


@dataclass(frozen=True)
class HostActivity:
    """The difference of two readings."""

    switches: int
    steal: float | None
    load: float | None  # 1-minute average at the end
    contended: bool
    ran: tuple[float, ...]  # s of each thread, the longest first. Those that ended in between count as one

    def crowds(self, threads: int) -> bool:
        """Return whether more threads ran than a call on so many may have: beside it, PyTorch's pool times controls."""
        return sum(self.ran[2 * threads - 1 :]) > CROWDED * sum(self.ran)


def read_counters() -> HostCounters:
    """Return the counters now. Steal is None where /proc/stat does not say."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    except OSError:
        fields = []
    steal = int(fields[8]) / os.sysconf("SC_CLK_TCK") if len(fields) > 8 else None
    switches, processor, threads_ = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw, process_time(), _ran()
    return HostCounters(switches, steal, processor, threads_, process_time())


def _ran() -> dict[str, float]:
    """Return the s that each thread of this process has run so far. Empty where the kernel does not say."""
    ran = {}
    for path in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError):  # it has ended
            ran[path.parent.name] = int(path.read_text(encoding="ascii").split()[0]) * 1e-9
    return ran


def page_faults() -> int:
    """Return the minor page faults of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def activity(before: HostCounters, after: HostCounters, spent: float) -> HostActivity:
    """Return what happened between two readings that lie `spent` seconds apart."""
    switches = after.switches - before.switches
    steal = after.steal - before.steal if before.steal is not None and after.steal is not None else None
    stolen = steal is not None and steal > STEAL_SHARE * spent * (os.cpu_count() or 1)
    contended = switches > max(1.0, SWITCHES_PER_SECOND * spent) or stolen
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    ran = [seconds - before.threads.get(thread, 0.0) for thread, seconds in after.threads.items()]
    ran.append(max(0.0, after.processor - before.read - sum(ran)))
    return HostActivity(switches, steal, load, contended, tuple(sorted(ran, reverse=True)))
