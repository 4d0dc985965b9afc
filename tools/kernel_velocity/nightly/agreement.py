"""Tell how many of the series that share a kernel moved alike. Agreement raises a finding, its lack lowers it. Pure.

Series share a kernel's cause if they are of the same device and implementation, on whatever machine, with values on
both sides of the same commits.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kernel_velocity.findings.finding import Finding
from kernel_velocity.results.identity import Identity
from kernel_velocity.series.history import LEAST, SeriesHistory

LEVEL = 20  # values a side of the commits that tell a level, at most
Cause = tuple[str, str, str, bool]  # kernel, device, implementation, whether it is timed


class Agreement:
    """The histories of all series, grouped by kernel, device and implementation: what can share a cause."""

    def __init__(self, histories: Iterable[SeriesHistory], order: Mapping[str, int]) -> None:
        """Begin.

        Args:
            order: commit -> position on the first-parent line.
        """
        self._order = order
        self._groups: dict[Cause, list[SeriesHistory]] = defaultdict(list)
        self._shifts: dict[tuple[Cause, tuple[str, ...]], dict[Identity, float]] = {}
        for history in histories:
            self._groups[_cause(history.identity)].append(history)

    def shifts(self, of: Identity, commits: tuple[str, ...]) -> dict[Identity, float]:
        """Return the change of level (log) at some commits, of each series that can share a cause with a series."""
        key = _cause(of), commits
        if key not in self._shifts:
            positions = [self._order[sha] for sha in commits if sha in self._order]
            shifts = self._shifts[key] = {}
            for history in self._groups[key[0]] if positions else ():
                before = [
                    observation.value for observation in history.observations if observation.position < min(positions)
                ][-LEVEL:]
                after = [
                    observation.value for observation in history.observations if observation.position >= max(positions)
                ][:LEVEL]
                if before and after:
                    shifts[history.identity] = statistics.median(after) - statistics.median(before)
        return self._shifts[key]

    def weight(self, of: Identity, commits: tuple[str, ...], *, rises: bool) -> float:
        """Return the share of the other series that moved the same way by LEAST, by Laplace's rule of succession.

        It follows from the histories. A test of a re-run, whose rounds are others, is independent of it.
        """
        others = [shift for identity, shift in self.shifts(of, commits).items() if identity != of]
        alike = sum((shift if rises else -shift) >= LEAST for shift in others)
        return (alike + 1) / (len(others) + 2)

    def counted(self, finding: Finding) -> Finding:
        """Return a finding with the number of series that could show it, and of their machines."""
        shown = {series.identity for series in finding.affected}
        sharing = shown.union(*(self.shifts(of, finding.commits) for of in shown))
        if not finding.commits or not sharing:
            return finding
        return replace(finding, among=(len(sharing), len({identity.machine for identity in sharing})))


def _cause(identity: Identity) -> Cause:
    return identity.kernel, identity.device, identity.implementation, identity.is_timed
