"""Which of a machine's ceilings are the roofs of a commit: those of as many threads as it was measured with. Pure.

A CPU's peak and bandwidths grow with its threads: a time by one thread is no share of what eight can do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kernel_velocity import units
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.roofline import roofs
from kernel_velocity.roofline.model import Roofs
from kernel_velocity.roofline.roofs import CeilingSession

FACT = "threads"  # of a session; ceilings have a figure of that name


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
        return Choice(roofs=roofs.roofs(roofs.of_newest(ceilings), device))
    own = known.get(commit) if commit is not None else [None, *known.values()][-1]
    measured = {value for each in ceilings if (value := each.figures.get(FACT)) is not None}
    if own is None and len(measured) > 1:
        text = f"the ceilings are of {_listed(measured)}, and nothing says with how many it was measured"
        return Choice(roofs=None, lacking=text)
    fits = [each for each in ceilings if own is None or each.figures.get(FACT) in (own, None)]
    if not fits:
        return Choice(roofs=None, lacking=f"no ceilings of this machine's Cpu with {_listed([own or 0])} are recorded")
    made = roofs.roofs(roofs.of_newest(fits), device)
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
