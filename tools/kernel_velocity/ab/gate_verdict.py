"""From the comparisons of a gate to one verdict, its exit status, and the order to read them in. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kernel_velocity.ab.code_changes import CodeChange
from kernel_velocity.errors import BenchmarkFailed, BuildFailed, NothingMeasured
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.records import Commit
from kernel_velocity.stats.sequential import Answer, Comparison, Obstacle


class Verdict(enum.Enum):
    """What a gate says of all its series; the value is the exit status."""

    CLEAN = 0
    REGRESSION = 10
    SUSPECT = 11
    FAILED = BenchmarkFailed.exit_code
    NOT_BUILT = BuildFailed.exit_code
    NOTHING = NothingMeasured.exit_code


SPILLS = "code that cannot be run here spills more registers"
WORDS: Mapping[Verdict, str] = {
    Verdict.CLEAN: "no regression",
    Verdict.REGRESSION: "regression confirmed",
    Verdict.SUSPECT: "suspect",
    Verdict.FAILED: "a benchmark failed",
    Verdict.NOT_BUILT: "a commit does not build",
    Verdict.NOTHING: "nothing was compared",
}


def verdict(
    found: Iterable[Comparison], expected: Iterable[Comparison] = (), unrun: Iterable[CodeChange] = ()
) -> Verdict:
    """Return the verdict; of several the first in the contract's order: 22, 10, 21, 20, 11.

    Args:
        found: of all series but those of `expected`: these are slower, or may be, and somebody said that they will be.
        unrun: what became of code that nothing here can run.

    Nothing was compared where no series had a look, and one was to have one: that the code of others is the same says
    nothing of it. A commit that does not build leaves nothing to compare, either. Improvements, what is n/a on both
    sides or failed at the earlier commit alone, and an unknown one that was looked at and does not lean to slower leave
    a gate clean.
    """
    own = list(found)
    items = [*own, *expected]
    obstacles = {item.obstacle for item in items}
    seen = any(item.p is not None for item in items)
    is_known = seen or any(item.answer is Answer.SAME for item in items)
    holds = {
        Verdict.NOTHING: not is_known or (not seen and any(item.unseen for item in items)),
        Verdict.REGRESSION: any(item.slower for item in own),
        Verdict.NOT_BUILT: Obstacle.NOT_BUILT in obstacles,
        Verdict.FAILED: Obstacle.FAILED in obstacles,
        Verdict.SUSPECT: any(doubt(item) for item in own) or any(each.spills_more for each in unrun),
    }
    return next((verdict for verdict, is_so in holds.items() if is_so), Verdict.CLEAN)


def doubt(item: Comparison) -> str:
    """Return why a series can be slower for all that is known, in words; "" where it cannot, or has no time at all."""
    if item.suspect:
        return "slower by the floor or more, but not settled"
    if item.unseen:
        return "too few rounds for a look"
    return "gone: it had times before" if item.obstacle is Obstacle.GONE else ""


@dataclass(frozen=True, kw_only=True)
class GateReport:
    """All that a gate has to say, in any format."""

    base: Commit
    head: Commit
    found: Mapping[Series, Comparison]
    budget: float  # s
    measured: float  # s that measuring took
    evidence: str  # the folder of the rounds
    expected: Mapping[Series, str] = field(default_factory=dict)  # slower, or may be, as somebody said: why
    code: tuple[CodeChange, ...] = ()  # what became of the compiled code
    device: str = "cpu"  # that was measured; code for another was not run
    notes: tuple[str, ...] = ()  # what else is to be said, such as of a line that nobody can read

    @property
    def verdict(self) -> Verdict:
        """The verdict on all series."""
        return verdict(self._own, (self.found[series] for series in self.expected), self._unrun)

    @property
    def _unrun(self) -> list[CodeChange]:
        return [each for each in self.code if each.device != self.device]

    @property
    def _own(self) -> list[Comparison]:
        return [item for series, item in self.found.items() if series not in self.expected]

    @property
    def words(self) -> str:
        """The verdict in words, and what it is for where a table may not tell."""
        items, said = self._own, self.verdict
        why: Iterable[str] = ()
        if said is Verdict.SUSPECT:
            spills = any(each.spills_more for each in self._unrun)
            why = (*(doubt(item) for item in items), SPILLS * spills)
        if said is Verdict.NOTHING:
            why = (doubt(item) if item.obstacle is None else item.obstacle.value for item in items)
        as_said = [f"{len(self.expected)} slower as expected"] * bool(self.expected)
        return "; ".join(dict.fromkeys([WORDS[said], *filter(None, why), *as_said]))

    @property
    def rows(self) -> list[tuple[Series, Comparison]]:
        """The series, worst first: slower, failed, suspect, unknown, the same, faster; by how much within each."""
        return sorted(self.found.items(), key=lambda row: (_rank(row[1]), -_size(row[1]), row[0]))


def _rank(item: Comparison) -> int:
    if item.slower:
        return 0
    if item.obstacle in (Obstacle.FAILED, Obstacle.NOT_BUILT):
        return 1
    if doubt(item):
        return 2
    if item.answer is Answer.UNKNOWN:
        return 3 if item.obstacle is None else 4
    return 6 if item.faster else 5


def _size(item: Comparison) -> float:
    if item.ratio is None:
        return 0.0
    return 1 / item.ratio if item.faster else item.ratio
