"""A finding: one cause, the series that show it, and the decisions about it. Pure values.

A night makes it (nightly/confirm.py), `joined` adds it to the recorded ones, decisions change it
(findings/decisions.py). Its id never changes, because it names the file.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Annotated

from kernel_velocity import direction
from kernel_velocity.fields import KEY, PARTS, Rule, Sha
from kernel_velocity.results.identity import Identity
from kernel_velocity.verdict.ranges import CommitRange

Id = Annotated[
    str, Rule("an id of lower case letters, digits, _ and -", re.compile(r"[a-z0-9_]+(-[a-z0-9_]+)*").fullmatch)
]
Probability = Annotated[float, Rule("a number from 0 to 1", lambda p: 0 <= p <= 1)]
Ratio = Annotated[float, Rule("a positive number, new value / old value,", lambda ratio: ratio > 0)]
OF_SERIES = {PARTS: tuple(part.name for part in dataclasses.fields(Identity))}  # of a field that is an identity


class Kind(enum.Enum):
    """What happened."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    ENVIRONMENT = "environment"
    VANISHED = "vanished"


class State(enum.Enum):
    """What became of it."""

    NEW = "new"  # seen, not examined yet
    SUSPECT = "suspect"  # examined, neither confirmed nor refuted
    CONFIRMED = "confirmed"
    EXPECTED = "expected"  # announced by its author or by `kv findings expect`
    ACKNOWLEDGED = "acknowledged"  # left alone until a day
    ENVIRONMENT = "environment"  # caused by the machine
    METHOD = "method"  # its series ended, because the way of measuring changed
    RESOLVED = "resolved"  # gone again


OPEN = frozenset({State.NEW, State.SUSPECT, State.CONFIRMED})  # somebody has to decide


@dataclass(frozen=True, kw_only=True)
class Affected:
    """One series that shows a finding: the ratio of its values, and how sure that is."""

    identity: Identity = field(metadata=OF_SERIES)
    ratio: Ratio  # new / old: 1.03 is 3% more time
    low: Ratio | None = None  # interval of the ratio
    high: Ratio | None = None
    p: Probability | None = None
    rounds: int | None = None  # a side

    @property
    def effect(self) -> float:
        """The change of the logarithm of the value."""
        return math.log(self.ratio)

    def exceeds(self, earlier: Affected) -> bool:
        """Return whether the effect is clearly larger than an earlier one: the intervals do not touch."""
        if self.effect >= 0:
            return (self.low or self.ratio) > (earlier.high or earlier.ratio)
        return (self.high or self.ratio) < (earlier.low or earlier.ratio)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A state that a finding was brought to: by whom, when, and why."""

    when: datetime
    who: str
    state: State
    reason: str
    until: date | None = None  # of an acknowledgement: its last day


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One cause, with all the series that show it. The order of the fields is that of the file."""

    id: Id
    kind: Kind
    state: State
    subject: str  # the kernel; of an environment the machine
    found: datetime  # words: a key of the file. With a time zone. Of an environment: when it began
    commits: tuple[Sha, ...] = ()  # the possible causes, oldest first; a single one is the culprit
    anchor: str | None = None  # the commit that it was compared with
    bad: Sha | None = None  # the first measured commit that surely shows it; None: not recorded
    how: str = ""  # how it was confirmed, in words
    ruled_out: tuple[str, ...] = ()
    among: tuple[int, int] | None = None  # series and machines that could have shown it; None: not counted
    changes: Mapping[str, tuple[str, str]] | None = None  # of the environment: fact -> before, after
    decisions: tuple[Decision, ...] = ()  # oldest first
    affected: tuple[Affected, ...] = field(default=(), metadata={KEY: "series"})

    @property
    def culprit(self) -> str | None:
        """The only possible commit. None while there are several."""
        return self.commits[0] if len(self.commits) == 1 else None

    @property
    def range(self) -> CommitRange | None:
        """The possible causes between the measured ends. None: the environment."""
        if not self.commits:
            return None
        good, bad = self.anchor or self.commits[0], self.bad or self.commits[-1]
        return CommitRange(good=good, bad=bad, commits=self.commits)

    @property
    def worst(self) -> Affected | None:
        """The series with the largest effect. None without any."""
        return max(self.affected, key=lambda series: abs(series.effect), default=None)

    def worse(self, series: Affected) -> bool | None:
        """Return whether one of its series changed for the worse. None where neither direction is.

        What one commit did went one way (nightly/confirm.py). What a machine did may have gone both.
        """
        if self.kind in (Kind.REGRESSION, Kind.IMPROVEMENT):
            return self.kind is Kind.REGRESSION
        return direction.is_worse(direction.better(series.identity.benchmark), series.effect)

    @property
    def until(self) -> date | None:
        """The last day of its acknowledgement. None where it has none."""
        return self.decisions[-1].until if self.state is State.ACKNOWLEDGED and self.decisions else None

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines that show it."""
        return tuple(sorted({series.identity.machine for series in self.affected}))


def slug(*parts: str) -> str:
    """Return an id: letters, digits, `_` and `-`, in lower case."""
    return re.sub(r"[^a-z0-9_]+", "-", "-".join(part for part in parts if part).lower()).strip("-")


def joined(recorded: Iterable[Finding], new: Finding) -> Finding:
    """Return a new finding together with the recorded one of the same cause, if there is one.

    A decision stands (expected, acknowledged) until more than it covered is confirmed. A confirmed finding replaces a
    suspect. A suspect adds nothing to a confirmed or decided finding, because its ratios were not measured in turns. A
    finding that was resolved, or that ended with its series, is open again.
    """
    recorded = list(recorded)
    old = _same_cause(recorded, new)
    if old is None:
        return replace(new, id=_whole_id(new)) if new.id in {record.id for record in recorded} else new
    is_decided = old.state in (State.EXPECTED, State.ACKNOWLEDGED)
    if new.state is State.SUSPECT and (is_decided or old.state is State.CONFIRMED):
        return old
    earlier = () if old.state is State.METHOD else old.affected  # ended series never show anything again
    affected = {series.identity: series for series in (*earlier, *new.affected)}
    whole = replace(
        old,
        commits=tuple(sha for sha in old.commits if sha in new.commits) or new.commits,
        anchor=new.anchor or old.anchor,
        bad=new.bad or old.bad,
        how=new.how or old.how,
        ruled_out=tuple(dict.fromkeys((*old.ruled_out, *new.ruled_out))),
        affected=tuple(affected[identity] for identity in sorted(affected)),
    )
    is_undecided = old.state in (State.NEW, State.SUSPECT)
    before = {series.identity: series for series in old.affected}
    adds = any(series.identity not in before or series.exceeds(before[series.identity]) for series in new.affected)
    is_raised = new.state is State.CONFIRMED and (is_undecided or (is_decided and adds))
    if is_raised or old.state in (State.RESOLVED, State.METHOD):
        return replace(whole, state=new.state, decisions=(*whole.decisions, *new.decisions))
    return whole


def _whole_id(finding: Finding) -> str:
    """Return the id of a finding where that of other commits, whose hashes begin alike, is the same."""
    return slug(finding.id, *finding.commits[-1:])


def _same_cause(recorded: Sequence[Finding], new: Finding) -> Finding | None:
    """Return the recorded finding with the same id, or else with the same kind and subject and a common commit."""
    same = [
        old
        for old in recorded
        if old.id in (new.id, _whole_id(new)) and (old.commits == new.commits or set(old.commits) & set(new.commits))
    ]
    alike = [
        old
        for old in recorded
        if (old.kind, old.subject) == (new.kind, new.subject)
        and old.state is not State.RESOLVED
        and set(old.commits) & set(new.commits)
    ]
    return next(iter(same + alike), None)


@dataclass(frozen=True, kw_only=True)
class RecordedStep:
    """An explained move: from here on a series is expected at its new level."""

    identity: Identity
    effect: float  # of log values
    position: int | None = None  # on the line, of the commit that it began with; None for an environment
    since: float | None = None  # Unix time that it began at, s; None for a commit


def known_steps(findings: Iterable[Finding], order: Mapping[str, int]) -> tuple[RecordedStep, ...]:
    """Return the moves that findings explain, so that no night searches for their cause again.

    A suspect explains nothing. A resolved finding counts only where a later improvement names the commit that undid it:
    only then both ends are known.

    Args:
        order: commit -> position on the first-parent line. Findings of other commits are left out.
    """
    explained = {State.CONFIRMED, State.EXPECTED, State.ACKNOWLEDGED, State.ENVIRONMENT, State.RESOLVED}
    steps: list[RecordedStep] = []
    improved: dict[Identity, int] = {}  # series -> position of its last improvement
    resolved: list[RecordedStep] = []
    for finding in findings:
        position = max((order[sha] for sha in finding.commits if sha in order), default=None)
        is_elsewhere = finding.commits and position is None
        if finding.state not in explained or finding.kind is Kind.VANISHED or is_elsewhere:
            continue
        since = None if finding.commits else finding.found.timestamp()
        for series in finding.affected:
            step = RecordedStep(identity=series.identity, effect=series.effect, position=position, since=since)
            (resolved if finding.state is State.RESOLVED else steps).append(step)
            if finding.kind is Kind.IMPROVEMENT and position is not None:
                improved[series.identity] = max(position, improved.get(series.identity, 0))
    undone = [step for step in resolved if improved.get(step.identity, 0) > (step.position or 0)]
    return (*undone, *steps)


def beside_notes(findings: Iterable[Finding], order: Mapping[str, int]) -> tuple[str, ...]:
    """Return a note of the open findings of whose commits none is on the line.

    After a rebase no later value can show that such a finding is over.
    """
    beside = [
        finding.id
        for finding in findings
        if finding.state in OPEN and finding.commits and order.keys().isdisjoint(finding.commits)
    ]
    if not beside:
        return ()
    cure = "open until somebody decides, by `kv findings acknowledge`"
    return (f"of commits that are not on this line (rebased away?): {', '.join(sorted(beside))}; {cure}",)


def finding_href(finding: str) -> str:
    """Return the file name of the page of a finding (its id)."""
    return f"finding-{finding}.html"
