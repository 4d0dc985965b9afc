"""Compute the roofs of a machine from the ceilings of its last sessions, and choose those of a commit. Pure.

A session that ran beside other work measures ceilings that are too low, and timings of a quiet hour then look
impossible. The highest ever measured may be an error. The roof is the upper quartile of the last SESSIONS.

A CPU's peak and bandwidths grow with its threads, so a commit's roofs are of the number of threads that it was measured
with. All figures are in base units.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernel_velocity import units
from kernel_velocity.machine.device_figures import CACHES, ID, PEAK, UNITS
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.roofline.model import MEMORY, MemoryLevel, Roofs

SESSIONS = 10
QUARTILE = 0.75
LOWER_IS_BETTER = ("launch_overhead", "timer_tick")  # costs, whose roof is the lower quartile

THREADS = "threads"  # a fact of a session, and a figure of its ceilings


@dataclass(frozen=True, kw_only=True)
class CeilingSession:
    """The ceilings of one session.

    Attributes:
        began: Unix time, s.
        figures: by the names of `device_figures.UNITS`, base units. None: could not be measured.
        reported: sizes of the caches by name, bytes, as the OS or the driver reports them.
        warnings: doubts about the figures.
        commit: full SHA that it was recorded with, or "".
    """

    began: float
    figures: Mapping[str, float | None]
    reported: Mapping[str, int]
    warnings: tuple[str, ...] = ()
    commit: str = ""


def of_newest(sessions: Sequence[CeilingSession]) -> tuple[CeilingSession, ...]:
    """Return the sessions (oldest first) of the newest one's device and number of threads.

    Several devices can share a machine's name. A session without a device or a number of threads belongs to any.
    """
    same = tuple(sessions)
    for name in (ID, THREADS):
        values = [value for session in same if (value := session.figures.get(name)) is not None]
        same = tuple(session for session in same if session.figures.get(name) in (*values[-1:], None))
    return same


def roof(sessions: Sequence[CeilingSession], name: str) -> float | None:
    """Return one figure's roof over the last SESSIONS (oldest first). None where none of them could measure it.

    The roof is the upper quartile of rates, the lower quartile of costs, the median of other figures, such as sizes.
    """
    values = [value for session in sessions[-SESSIONS:] if (value := session.figures.get(name)) is not None]
    if not values:
        return None
    if name in LOWER_IS_BETTER:
        return float(np.quantile(values, 1 - QUARTILE))
    if is_rate(name):
        return float(np.quantile(values, QUARTILE))
    return statistics.median_low(values)  # one of the values: a measured size, a number of threads


def is_rate(name: str) -> bool:
    """Return whether a figure is a bandwidth or a peak."""
    return name.endswith("_bandwidth") or name.startswith(PEAK)


def roofs(sessions: Sequence[CeilingSession], device: str) -> Roofs | None:
    """Return the roofs of a device from its sessions, or None without a session.

    DRAM's bandwidth is the highest of copy, read and triad: a kernel that mostly reads may go as fast as a read, and
    one that writes past the caches writes no slower (a plain store first fetches the line that it fills). A cache's
    size is that of the sweep, else the reported one. Its bandwidth is never below that of the next outer level.

    Args:
        sessions: of one machine, oldest first. device: "cpu" or "cuda".
    """
    if not sessions:
        return None
    reported = next((session.reported for session in reversed(sessions) if session.reported), {})
    tops = {name: roof(sessions, name) for name in UNITS[device]}
    dram = [value for name, value in tops.items() if name.startswith("dram_") and value is not None]
    levels = [MemoryLevel(name=MEMORY, size=None, bandwidth=max(dram, default=None))]
    for name in reversed(CACHES[device]):
        measured, bandwidth = tops.get(f"{name.lower()}_size"), tops.get(f"{name.lower()}_bandwidth")
        size = reported.get(name) if measured is None else int(measured)
        if size is None and bandwidth is None:
            continue  # this machine has no such cache, or reports none
        if bandwidth is not None:
            bandwidth = max(bandwidth, levels[0].bandwidth or 0.0)
        levels.insert(0, MemoryLevel(name=name, size=size, bandwidth=bandwidth))
    peaks = {name.removeprefix(PEAK): value for name, value in tops.items() if name.startswith(PEAK)}
    return Roofs(levels=tuple(levels), peaks=peaks, warnings=sessions[-1].warnings)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The roofs of a commit, or the reason of their lack."""

    roofs: Roofs | None
    lacking: str = ""  # the reason: "no ceilings ..."
    apart: frozenset[str] = frozenset()  # commits of another number of threads, to which these roofs do not apply


def threads(sessions: Iterable[tuple[str, SessionFacts]]) -> dict[str, int]:
    """Return the number of threads of each commit's last session that records it, in the order of those sessions."""
    counts: dict[str, int] = {}
    for commit, session in sessions:
        text = session.facts.get(THREADS, "")
        if text.isdecimal() and len(text) < 10:
            counts.pop(commit, None)
            counts[commit] = int(text)
    return counts


def choose(
    ceilings: Sequence[CeilingSession], device: str, threads: Mapping[str, int], commit: str | None = None
) -> Choice:
    """Return the roofs of a commit's timings.

    Args:
        ceilings: of one machine, oldest first. device: "cpu" or "cuda".
        threads: by commit (`threads`). commit: full SHA. None: all commits, whose roofs are those of the newest
            session's number of threads.
    """
    if not ceilings:
        return Choice(roofs=None, lacking=f"no ceilings of this machine's {device.capitalize()} are recorded")
    if device != "cpu":
        return Choice(roofs=roofs(of_newest(ceilings), device))
    count = threads.get(commit) if commit is not None else [None, *threads.values()][-1]
    measured = {value for session in ceilings if (value := session.figures.get(THREADS)) is not None}
    if count is None and len(measured) > 1:
        text = f"the ceilings are of {_listed(measured)}, and the commit's number of threads is not recorded"
        return Choice(roofs=None, lacking=text)
    fits = [session for session in ceilings if count is None or session.figures.get(THREADS) in (count, None)]
    if not fits:
        return Choice(
            roofs=None, lacking=f"no ceilings of this machine's Cpu with {_listed([count or 0])} are recorded"
        )
    chosen = roofs(of_newest(fits), device)
    counts = set(threads.values())
    if chosen is not None and commit is None and len(counts) > 1:
        doubt = f"commits were measured with {_listed(counts)}; the roofs drawn are of {count}, and apply to no others"
        chosen = replace(chosen, warnings=(*chosen.warnings, doubt))
    apart = frozenset(sha for sha, number in threads.items() if count is not None and number != count)
    return Choice(roofs=chosen, apart=apart)


class Chooser:
    """Choose the roofs of one machine and environment, computed once for each number of threads."""

    def __init__(
        self, sessions: Iterable[tuple[str, SessionFacts]], ceilings: Callable[[str], Sequence[CeilingSession]]
    ) -> None:
        """Take (commit, session) pairs, oldest first, and a function from a device ("Cpu", "Cuda") to its ceilings."""
        self._threads, self._ceilings = threads(sessions), ceilings
        self._choices: dict[tuple[str, int | None, bool], Choice] = {}

    def choice(self, device: str, commit: str | None) -> Choice:
        """Return `choose` for a device ("Cpu", "Cuda") and a commit, or None for all commits."""
        key = (device, self._threads.get(commit or ""), commit is None)
        if key not in self._choices:
            self._choices[key] = choose(self._ceilings(device), device.lower(), self._threads, commit)
        return self._choices[key]


def _listed(counts: Iterable[float]) -> str:
    *first, last = sorted(map(int, counts))
    return " and ".join([*map(str, first), units.count(last, "thread")])
