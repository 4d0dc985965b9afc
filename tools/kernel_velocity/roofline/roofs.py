"""The roofs of a machine, made from what its last sessions measured. Pure; base units.

A session that ran beside other work measures ceilings that are too low, and timings of a quiet hour then look
impossible; the highest ever measured may be an error. The roof is the upper quartile of the last SESSIONS.

Which of a machine's ceilings are the roofs of a commit: those of as many threads as it was measured with. Pure.

A CPU's peak and bandwidths grow with its threads: a time by one thread is no share of what eight can do.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kernel_velocity import units
from kernel_velocity.harness.device_figures import CACHES, ID, UNITS
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.roofline.model import MEMORY, Level, Roofs

SESSIONS = 10
QUARTILE = 0.75
LOWER_IS_BETTER = ("launch_overhead", "timer_tick")  # of costs, the lower quartile is what the machine can do
_PEAK = "peak_"

FACT = "threads"  # of a session; ceilings have a figure of that name


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
    for name in reversed(CACHES[device]):
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


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The roofs, or why there are none."""

    roofs: Roofs | None
    lacking: str = ""  # "no ceilings ..."
    apart: frozenset[str] = frozenset()  # commits of another number of threads, of which these roofs tell nothing


def threads(sessions: Iterable[tuple[str, SessionFacts]]) -> dict[str, int]:
    """Return commit -> with how many threads it was measured last, as far as its sessions say; the newest one last."""
    found: dict[str, int] = {}
    for commit, session in sessions:
        text = session.facts.get(FACT, "")
        if text.isdecimal() and len(text) < 10:
            found.pop(commit, None)
            found[commit] = int(text)
    return found


def choose(
    ceilings: Sequence[CeilingSession], device: str, known: Mapping[str, int], commit: str | None = None
) -> Choice:
    """Return the roofs of what was measured of a commit.

    Args:
        ceilings: of one machine, oldest first. device: "cpu" or "cuda".
        known: of `threads`. commit: full SHA; None: all commits, whose roofs are those of the newest session's threads.
    """
    if not ceilings:
        return Choice(roofs=None, lacking=f"no ceilings of this machine's {device.capitalize()} are recorded")
    if device != "cpu":
        return Choice(roofs=roofs(of_newest(ceilings), device))
    own = known.get(commit) if commit is not None else [None, *known.values()][-1]
    measured = {value for each in ceilings if (value := each.figures.get(FACT)) is not None}
    if own is None and len(measured) > 1:
        text = f"the ceilings are of {_listed(measured)}, and nothing says with how many it was measured"
        return Choice(roofs=None, lacking=text)
    fits = [each for each in ceilings if own is None or each.figures.get(FACT) in (own, None)]
    if not fits:
        return Choice(roofs=None, lacking=f"no ceilings of this machine's Cpu with {_listed([own or 0])} are recorded")
    made = roofs(of_newest(fits), device)
    several = set(known.values())
    if made is not None and commit is None and len(several) > 1:
        doubt = (
            f"commits were measured with {_listed(several)}; the roofs drawn are of {own}, and tell nothing of others"
        )
        made = replace(made, warnings=(*made.warnings, doubt))
    apart = frozenset(sha for sha, count in known.items() if own is not None and count != own)
    return Choice(roofs=made, apart=apart)


class Chooser:
    """Chooses the roofs of one machine and environment, those of as many threads once."""

    def __init__(
        self, sessions: Iterable[tuple[str, SessionFacts]], ceilings: Callable[[str], Sequence[CeilingSession]]
    ) -> None:
        """Take its sessions, oldest first, and what returns the ceilings of a device ("Cpu", "Cuda")."""
        self._known, self._ceilings = threads(sessions), ceilings
        self._made: dict[tuple[str, int | None, bool], Choice] = {}

    def choice(self, device: str, commit: str | None) -> Choice:
        """Return the roofs of what was measured of a commit, or of all, as `choose`."""
        asked = (device, self._known.get(commit or ""), commit is None)
        if asked not in self._made:
            self._made[asked] = choose(self._ceilings(device), device.lower(), self._known, commit)
        return self._made[asked]


def _listed(counts: Iterable[float]) -> str:
    *first, last = sorted(map(int, counts))
    return " and ".join([*map(str, first), units.count(last, "thread")])
