"""From the comparisons of a gate to one verdict, its exit status, and the order to read them in. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tools.ab_test import Answer, Comparison, Obstacle
from tools.errors import BenchmarkFailed, BuildFailed, NothingMeasured
from tools.recorded import Commit
from tools.stored_file import Series


class Verdict(enum.Enum):
    """What a gate says of all its series; the value is the exit status."""

    CLEAN = 0
    REGRESSION = 10
    SUSPECT = 11
    FAILED = BenchmarkFailed.exit_code
    NOT_BUILT = BuildFailed.exit_code
    NOTHING = NothingMeasured.exit_code


WORDS: Mapping[Verdict, str] = {
    Verdict.CLEAN: "no regression",
    Verdict.REGRESSION: "regression confirmed",
    Verdict.SUSPECT: "suspect: slower by the floor or more, but not settled",
    Verdict.FAILED: "a benchmark failed",
    Verdict.NOT_BUILT: "a commit does not build",
    Verdict.NOTHING: "nothing was compared",
}


def verdict(found: Iterable[Comparison]) -> Verdict:
    """Return the verdict; of several the first in the contract's order.

    That a commit does not build comes before "nothing was measured", although nothing was: with two commits one of them
    is always the reason of the other. No series at all is NOTHING. Improvements, what is n/a, and an unknown one that
    does not lean to slower leave a gate clean, as long as one series was compared.
    """
    items = list(found)
    obstacles = {item.obstacle for item in items}
    if Obstacle.NOT_BUILT in obstacles:
        return Verdict.NOT_BUILT
    if any(item.slower for item in items):
        return Verdict.REGRESSION
    if Obstacle.FAILED in obstacles:
        return Verdict.FAILED
    if not any(item.p is not None or item.answer is Answer.SAME for item in items):
        return Verdict.NOTHING
    return Verdict.SUSPECT if any(item.suspect for item in items) else Verdict.CLEAN


@dataclass(frozen=True, kw_only=True)
class GateReport:
    """All that a gate has to say, in any format."""

    base: Commit
    head: Commit
    found: Mapping[Series, Comparison]
    budget: float  # s
    measured: float  # s that measuring took
    evidence: str  # the folder of the rounds

    @property
    def verdict(self) -> Verdict:
        """The verdict on all series."""
        return verdict(self.found.values())

    @property
    def rows(self) -> list[tuple[Series, Comparison]]:
        """The series, worst first: slower, failed, suspect, unknown, the same, faster; by how much within each."""
        return sorted(self.found.items(), key=lambda row: (_rank(row[1]), -_size(row[1]), row[0]))


def _rank(item: Comparison) -> int:
    if item.slower:
        return 0
    if item.obstacle in (Obstacle.FAILED, Obstacle.NOT_BUILT):
        return 1
    if item.suspect:
        return 2
    if item.answer is Answer.UNKNOWN:
        return 3 if item.obstacle is None else 4
    return 6 if item.faster else 5


def _size(item: Comparison) -> float:
    if item.ratio is None:
        return 0.0
    return 1 / item.ratio if item.faster else item.ratio
