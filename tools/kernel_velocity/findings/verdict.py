"""The verdict of a night: everything that its reports say, its summary in a line, its exit status. Pure values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from kernel_velocity import units
from kernel_velocity.findings.finding import OPEN, Finding, Kind, State
from kernel_velocity.results.identity import Identity
from kernel_velocity.results.records import Commit
from kernel_velocity.series.silence import Stale, Superseded
from kernel_velocity.stats.sequential import Answer, Comparison

NOTHING_MEASURED = "nothing was measured"


@dataclass(frozen=True, kw_only=True)
class Failed:
    """Something that has no value, and why."""

    what: str  # a series, or a commit
    why: str


@dataclass(frozen=True, kw_only=True)
class NightVerdict:
    """The verdict of a night. `findings` are those that it made or changed, and all that are still open."""

    title: str  # such as "nightly on bench-1"
    when: datetime  # with a time zone
    measured: int  # values that this run measured
    findings: tuple[Finding, ...] = ()
    comparisons: tuple[tuple[Identity, Comparison], ...] = ()  # measured again in turns
    failures: tuple[Failed, ...] = ()
    failed_builds: tuple[Failed, ...] = ()
    stale: tuple[Stale, ...] = ()
    superseded: tuple[Superseded, ...] = ()
    errors: tuple[str, ...] = ()  # data that could not be read
    notes: tuple[str, ...] = ()
    commits: Mapping[str, Commit] = field(default_factory=dict)  # of the findings, as far as the repository has them

    @cached_property
    def groups(self) -> Mapping[str, tuple[Finding, ...]]:
        """The findings of each of GROUPS, kind by kind, the largest effects first."""
        return {
            name: tuple(
                sorted(
                    (finding for finding in self.findings if finding.kind in kinds and finding.state in states),
                    key=lambda finding: (kinds.index(finding.kind), *_badness(finding)),
                )
            )
            for name, (kinds, states) in GROUPS.items()
        }


_OF_COMMITS = (Kind.REGRESSION, Kind.IMPROVEMENT, Kind.VANISHED)
GROUPS: Mapping[str, tuple[Sequence[Kind], Collection[State]]] = {
    "regressions": ((Kind.REGRESSION,), {State.CONFIRMED}),  # neither expected nor acknowledged
    "suspects": ((Kind.REGRESSION, Kind.IMPROVEMENT), {State.NEW, State.SUSPECT}),  # those for the worse first
    "vanished": ((Kind.VANISHED,), OPEN),  # without a decision
    "environment": ((Kind.ENVIRONMENT,), frozenset(State)),
    "improvements": ((Kind.IMPROVEMENT,), {State.CONFIRMED}),
    "decided": (_OF_COMMITS, {State.EXPECTED, State.ACKNOWLEDGED, State.METHOD}),  # the last: by a change of method
    "resolved": (_OF_COMMITS, {State.RESOLVED}),
}


def _badness(finding: Finding) -> tuple[float, str]:
    return (-abs(finding.worst.effect) if finding.worst else 0.0), finding.id


def exit_status(verdict: NightVerdict) -> int:
    """Return the exit status of `nightly` (contract), the first that holds.

    2 data error, 22 nothing measured, 10 regression confirmed, 21 a build failed, 20 a benchmark failed, 11 a
    regression suspected, or series vanished without a decision, 30 the environment changed, 0 clean.
    """
    suspected = any(finding.kind is Kind.REGRESSION for finding in verdict.groups["suspects"])
    holds = {
        2: bool(verdict.errors),
        22: verdict.measured == 0,
        10: bool(verdict.groups["regressions"]),
        21: bool(verdict.failed_builds),
        20: bool(verdict.failures),
        11: suspected or bool(verdict.groups["vanished"]),
        30: bool(verdict.groups["environment"]),
    }
    return next((status for status, is_so in holds.items() if is_so), 0)


def summary(verdict: NightVerdict) -> str:
    """Return the verdict in one line, the worst first. It says "clean" only where the exit status is 0.

    A suspect is a suspected regression. A suspected improvement is called an unconfirmed one.
    """
    unconfirmed = sum(finding.kind is Kind.IMPROVEMENT for finding in verdict.groups["suspects"])
    counts = [
        (len(verdict.errors), "data error"),
        (len(verdict.groups["regressions"]), "confirmed regression"),
        (len(verdict.failed_builds), "failed build"),
        (len(verdict.failures), "failed benchmark"),
        (len(verdict.groups["suspects"]) - unconfirmed, "suspect"),
        (sum(len(finding.affected) for finding in verdict.groups["vanished"]), "vanished series"),
        (sum(comparison.answer is Answer.UNKNOWN for _, comparison in verdict.comparisons), "unanswered comparison"),
        (len(verdict.groups["environment"]), "environment event"),
        (len(verdict.groups["improvements"]), "confirmed improvement"),
        (unconfirmed, "unconfirmed improvement"),
    ]
    # "series" has no other plural
    parts = [f"{count} {noun}" if noun.endswith("s") else units.count(count, noun) for count, noun in counts if count]
    if verdict.measured == 0:
        parts.insert(1 if verdict.errors else 0, NOTHING_MEASURED)
    if exit_status(verdict) == 0:
        parts.insert(0, "clean")
    return ", ".join(parts)
