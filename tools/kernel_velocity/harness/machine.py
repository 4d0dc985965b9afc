"""What the host did to a round while it was timed: load, involuntary context switches, steal. Linux; else unknown."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

# A preempted process loses a scheduler slice of milliseconds each time; ten a second move a mean by more than 1%.
SWITCHES_PER_SECOND = 10.0
STEAL_SHARE = 0.01  # of the time spent, per CPU


@dataclass(frozen=True)
class HostCounters:
    """Counters of the process and of the machine at one moment."""

    switches: int  # involuntary, of this process
    steal: float | None  # s, all CPUs together, since boot


@dataclass(frozen=True)
class HostActivity:
    """The difference of two readings."""

    switches: int
    steal: float | None
    load: float | None  # 1-minute average at the end
    contended: bool


def read_counters() -> HostCounters:
    """Return the counters now; steal is None where /proc/stat does not say."""
    return HostCounters(resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw, _steal())


def page_faults() -> int:
    """Return the minor page faults of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _steal() -> float | None:
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    except OSError:
        return None
    return int(fields[8]) / os.sysconf("SC_CLK_TCK") if len(fields) > 8 else None


def activity(before: HostCounters, after: HostCounters, spent: float) -> HostActivity:
    """Return what happened between two readings that lie `spent` seconds apart."""
    switches = after.switches - before.switches
    steal = after.steal - before.steal if before.steal is not None and after.steal is not None else None
    stolen = steal is not None and steal > STEAL_SHARE * spent * (os.cpu_count() or 1)
    contended = switches > max(1.0, SWITCHES_PER_SECOND * spent) or stolen
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return HostActivity(switches, steal, load, contended)
