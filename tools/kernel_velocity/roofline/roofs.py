"""The roofs of a machine, made from what its last sessions measured. Pure; base units.

A session that ran beside other work measures ceilings that are too low, and timings of a quiet hour then look
impossible; the highest ever measured may be an error. The roof is the upper quartile of the last SESSIONS.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernel_velocity.harness import cache_sweep
from kernel_velocity.harness.device_figures import ID, UNITS
from kernel_velocity.roofline.model import MEMORY, Level, Roofs

SESSIONS = 10
QUARTILE = 0.75
LOWER_IS_BETTER = ("launch_overhead", "timer_tick")  # of costs, the lower quartile is what the machine can do
_PEAK = "peak_"


@dataclass(frozen=True, kw_only=True)
class CeilingSession:
    """What one session measured.

    Attributes:
        began: Unix time, s.
        figures: as `device_figures.UNITS` names them, base units; None: could not be measured.
        reported: sizes of the caches as the OS or the driver says, bytes, by name.
        warnings: what speaks against its figures.
        commit: full SHA that it was recorded with; "" where it was recorded with none.
    """

    began: float
    figures: Mapping[str, float | None]
    reported: Mapping[str, int]
    warnings: tuple[str, ...] = ()
    commit: str = ""


def of_newest(sessions: Sequence[CeilingSession]) -> tuple[CeilingSession, ...]:
    """Return the sessions of the newest one's device, with as many threads; `sessions` are oldest first.

    Several devices can bear one machine's name. A session from before that was stored counts as of any.
    """
    kept = tuple(sessions)
    for name in (ID, "threads"):
        known = [value for each in kept if (value := each.figures.get(name)) is not None]
        kept = tuple(each for each in kept if each.figures.get(name) in (*known[-1:], None))
    return kept


def roof(sessions: Sequence[CeilingSession], name: str) -> float | None:
    """Return one figure's roof over the last SESSIONS (oldest first), None where none of them could measure it.

    The upper quartile of rates, the lower of costs, the median of sizes and of all that has neither direction.
    """
    values = [value for each in sessions[-SESSIONS:] if (value := each.figures.get(name)) is not None]
    if not values:
        return None
    if name in LOWER_IS_BETTER:
        return quantile(values, 1 - QUARTILE)
    if is_rate(name):
        return quantile(values, QUARTILE)
    return statistics.median_low(values)  # one of them: a size that was seen, a number of threads


def is_rate(name: str) -> bool:
    """Return whether a figure is a bandwidth or a peak."""
    return name.endswith("_bandwidth") or name.startswith(_PEAK)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lie, linear between two (Hyndman and Fan's type 7).

    Raises:
        ValueError: no values.
    """
    if not values:
        raise ValueError("quantile of no values")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def roofs(sessions: Sequence[CeilingSession], device: str) -> Roofs | None:
    """Return the roofs of a device from its sessions, oldest first; None where there are none.

    Memory's bandwidth is the highest of copy, read and triad: a kernel that mostly reads may go as fast as a read, and
    one that writes past the caches writes no slower (a plain store first fetches the line that it fills). A cache's
    size is the one that the sweep saw, else the reported one; its bandwidth is never below that of what lies behind.

    Args:
        sessions: of one machine, oldest first. device: "cpu" or "cuda".
    """
    if not sessions:
        return None
    reported = next((each.reported for each in reversed(sessions) if each.reported), {})
    beyond = max((v for n in _dram(device) if (v := roof(sessions, n)) is not None), default=None)
    found = [Level(name=MEMORY, size=None, bandwidth=beyond)]
    for name in reversed(cache_sweep.NAMES[device]):
        size, own = roof(sessions, f"{name.lower()}_size"), roof(sessions, f"{name.lower()}_bandwidth")
        held = reported.get(name) if size is None else int(size)
        if held is None and own is None:
            continue  # this machine has no such cache, or nobody says so
        rates = [rate for rate in (own, found[0].bandwidth) if rate is not None and own is not None]
        found.insert(0, Level(name=name, size=held, bandwidth=max(rates, default=None)))
    peaks = {name.removeprefix(_PEAK): roof(sessions, name) for name in UNITS[device] if name.startswith(_PEAK)}
    return Roofs(levels=tuple(found), peaks=peaks, warnings=sessions[-1].warnings)


def _dram(device: str) -> list[str]:
    return [name for name in UNITS[device] if name.startswith("dram_")]
