"""The verdict of a night or a gate: everything that its reports say, and its exit status. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kernel_velocity.findings.finding import Finding, Kind, State
from kernel_velocity.results.identity import Identity
from kernel_velocity.results.records import Commit
from kernel_velocity.series.silence import Stale, Superseded
from kernel_velocity.stats.sequential import Answer


@dataclass(frozen=True, kw_only=True)
class SeriesComparison:
    """One series of two commits, measured in one session; what is not known is None."""

    identity: Identity
    answer: Answer
    ratio: float | None = None  # of values, new / old
    low: float | None = None
    high: float | None = None
    p: float | None = None
    rounds: int | None = None  # a side


@dataclass(frozen=True, kw_only=True)
class Failed:
    """Something that has no value, and why."""

    what: str  # a series, or a commit
    why: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Of a night or a gate.

    `findings` are those that it made or changed, and all others that still wait for somebody.
    """

    title: str  # such as "nightly on bench-1", "gate main..feature"
    when: datetime  # with a time zone
    measured: int  # values that this run measured
    findings: tuple[Finding, ...] = ()
    comparisons: tuple[SeriesComparison, ...] = ()
    failures: tuple[Failed, ...] = ()
    failed_builds: tuple[Failed, ...] = ()
    stale: tuple[Stale, ...] = ()
    superseded: tuple[Superseded, ...] = ()
    errors: tuple[str, ...] = ()  # data that could not be read
    notes: tuple[str, ...] = ()
    commits: Mapping[str, Commit] = field(default_factory=dict)  # that findings name, as far as the repository has them

    def _of(self, kind: Kind, *states: State) -> tuple[Finding, ...]:
        """Return the findings of a kind and some states, the worst first."""
        found = [item for item in self.findings if item.kind is kind and item.state in states]
        return tuple(sorted(found, key=_badness))

    @property
    def regressions(self) -> tuple[Finding, ...]:
        """Confirmed ones that nobody expected or acknowledged."""
        return self._of(Kind.REGRESSION, State.CONFIRMED)

    @property
    def improvements(self) -> tuple[Finding, ...]:
        """Confirmed ones."""
        return self._of(Kind.IMPROVEMENT, State.CONFIRMED)

    @property
    def suspects(self) -> tuple[Finding, ...]:
        """Moves that were neither confirmed nor refuted; those for the worse first."""
        states = (State.NEW, State.SUSPECT)
        return (*self._of(Kind.REGRESSION, *states), *self._of(Kind.IMPROVEMENT, *states))

    @property
    def vanished(self) -> tuple[Finding, ...]:
        """Series that have no value any more, and that nobody has looked at."""
        return self._of(Kind.VANISHED, State.NEW, State.SUSPECT, State.CONFIRMED)

    @property
    def environment(self) -> tuple[Finding, ...]:
        """What the machines did."""
        return self._of(Kind.ENVIRONMENT, *State)

    @property
    def decided(self) -> tuple[Finding, ...]:
        """What is expected or acknowledged, or ended by a change of method."""
        states = (State.EXPECTED, State.ACKNOWLEDGED, State.METHOD)
        return tuple(
            one for kind in (Kind.REGRESSION, Kind.IMPROVEMENT, Kind.VANISHED) for one in self._of(kind, *states)
        )

    @property
    def resolved(self) -> tuple[Finding, ...]:
        """What is gone again."""
        kinds = (Kind.REGRESSION, Kind.IMPROVEMENT, Kind.VANISHED)
        return tuple(one for kind in kinds for one in self._of(kind, State.RESOLVED))


def _badness(finding: Finding) -> tuple[float, str]:
    return (-abs(finding.worst.effect) if finding.worst else 0.0), finding.id


def exit_status(verdict: Verdict) -> int:
    """Return the exit status of `nightly` and `gate` (contract): the first that holds.

    2 data error, 22 nothing measured, 10 regression confirmed, 21 a build failed, 20 a benchmark failed, 11 suspect (of
    a regression; or series vanished, and nobody has looked at it), 30 the environment changed, 0 clean. A comparison
    without an answer is no suspect by itself: whoever finds it one makes a finding of it.
    """
    suspected = any(item.kind is Kind.REGRESSION for item in verdict.suspects)
    holds = {
        2: bool(verdict.errors),
        22: verdict.measured == 0,
        10: bool(verdict.regressions),
        21: bool(verdict.failed_builds),
        20: bool(verdict.failures),
        11: suspected or bool(verdict.vanished),
        30: bool(verdict.environment),
    }
    return next((status for status, is_so in holds.items() if is_so), 0)
