"""A finding: what was found out about one cause, how it is known, and what was decided about it. Pure values.

A finding is made by a night (nightly/cases.py), joined to what is known already (`joined`), and changed by
decisions (findings/decisions.py). Its id never changes: it names its file.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime

from kernel_velocity.results.identity import Identity, is_worse


class Kind(enum.Enum):
    """What was found."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    ENVIRONMENT = "environment"
    VANISHED = "vanished"


class State(enum.Enum):
    """What has become of it."""

    NEW = "new"  # seen, and not looked at
    SUSPECT = "suspect"  # looked at, and neither confirmed nor refuted
    CONFIRMED = "confirmed"
    EXPECTED = "expected"  # somebody said beforehand, or by a range, that it was wanted
    ACKNOWLEDGED = "acknowledged"  # somebody said that it is to be left alone, until a day
    ENVIRONMENT = "environment"  # the machine's doing
    METHOD = "method"  # how it is measured changed, so that its series ended
    RESOLVED = "resolved"  # gone again


OPEN = frozenset({State.NEW, State.SUSPECT, State.CONFIRMED})  # wait for somebody


@dataclass(frozen=True, kw_only=True)
class Affected:
    """One series that shows a finding: new over old value, and how sure that is."""

    identity: Identity
    ratio: float  # of values, new / old: 1.03 is 3% more time
    low: float | None = None  # interval of the ratio
    high: float | None = None
    p: float | None = None
    rounds: int | None = None  # a side

    @property
    def effect(self) -> float:
        """The change of the logarithm of the value."""
        return math.log(self.ratio)

    @property
    def worse(self) -> bool | None:
        """Whether it is a change for the worse."""
        return is_worse(self.identity, self.effect)

    def exceeds(self, known: Affected) -> bool:
        """Return whether the effect is clearly larger than a known one: the intervals do not touch."""
        if self.effect >= 0:
            return (self.low or self.ratio) > (known.high or known.ratio)
        return (self.high or self.ratio) < (known.low or known.ratio)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A state that a finding was brought to: by whom, when, and why."""

    when: datetime
    who: str
    state: State
    reason: str
    until: date | None = None  # of an acknowledgement: the last day that it holds


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One cause, with all the series that show it."""

    id: str
    kind: Kind
    state: State
    subject: str  # the kernel; of an environment the machine
    found: datetime  # with a time zone; of an environment: when it began
    commits: tuple[str, ...] = ()  # that can have done it, oldest first; one: the culprit
    anchor: str | None = None  # the commit that it was compared with
    how: str = ""  # how it was confirmed, in words
    ruled_out: tuple[str, ...] = ()
    changes: Mapping[str, tuple[str, str]] | None = None  # of the environment
    affected: tuple[Affected, ...] = ()
    decisions: tuple[Decision, ...] = ()  # oldest first

    @property
    def culprit(self) -> str | None:
        """The one commit that did it; None while there are several."""
        return self.commits[0] if len(self.commits) == 1 else None

    @property
    def worst(self) -> Affected | None:
        """The series that it shows most in; None without any."""
        return max(self.affected, key=lambda item: abs(item.effect), default=None)

    @property
    def until(self) -> date | None:
        """The last day of its acknowledgement; None where it has none."""
        return self.decisions[-1].until if self.state is State.ACKNOWLEDGED and self.decisions else None

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines that show it."""
        return tuple(sorted({item.identity.machine for item in self.affected}))


def slug(*parts: str) -> str:
    """Return an id, which is a file's name too: letters, digits, `_` and `-`, in lower case."""
    return re.sub(r"[^a-z0-9_]+", "-", "-".join(part for part in parts if part).lower()).strip("-")


def matching(known: Iterable[Finding], found: Finding) -> Finding | None:
    """Return the known finding of the same cause: the same id, or kind and subject, and a commit in common."""
    items = list(known)
    same = [item for item in items if item.id == found.id]
    alike = [
        item
        for item in items
        if (item.kind, item.subject) == (found.kind, found.subject)
        and item.state is not State.RESOLVED
        and set(item.commits) & set(found.commits)
    ]
    return next(iter([*same, *alike]), None)


def joined(known: Iterable[Finding], found: Finding) -> Finding:
    """Return what is now known of a cause: the finding as it was found, or the known one with what is new in it.

    Decisions stand: what is acknowledged or expected stays so, until more than that is confirmed. A suspect that is
    confirmed becomes that; one of a cause that is known for sure adds nothing to it, for its figures are not measured
    in turns. What was resolved, or ended with its series, and is there again is open again, with what shows it now.
    """
    before = matching(known, found)
    if before is None:
        return found
    decided = before.state in (State.EXPECTED, State.ACKNOWLEDGED)
    if found.state is State.SUSPECT and (decided or before.state is State.CONFIRMED):
        return before
    narrowed = tuple(sha for sha in before.commits if sha in found.commits) or found.commits
    earlier = () if before.state is State.METHOD else before.affected  # those ended: nothing will show in them again
    affected = {item.identity: item for item in (*earlier, *found.affected)}
    kept = replace(
        before,
        commits=narrowed,
        anchor=found.anchor or before.anchor,
        how=found.how or before.how,
        ruled_out=tuple(dict.fromkeys((*before.ruled_out, *found.ruled_out))),
        affected=tuple(affected[identity] for identity in sorted(affected)),
    )
    open_yet = before.state in (State.NEW, State.SUSPECT)
    raised = found.state is State.CONFIRMED and (open_yet or (decided and _adds(found, before)))
    if raised or before.state in (State.RESOLVED, State.METHOD):
        return replace(kept, state=found.state, decisions=(*kept.decisions, *found.decisions))
    return kept


def _adds(found: Finding, before: Finding) -> bool:
    """Return whether a series shows a finding that did not before, or one shows clearly more of it."""
    known = {item.identity: item for item in before.affected}
    return any(item.identity not in known or item.exceeds(known[item.identity]) for item in found.affected)


def known_steps(findings: Iterable[Finding], order: Mapping[str, int]) -> tuple[Step, ...]:
    """Return the moves that findings explain, so that no night looks for their cause again.

    A suspect explains nothing. What was resolved counts only where a later improvement says by which commit: only
    then are both of its ends known.
    """
    explained = {State.CONFIRMED, State.EXPECTED, State.ACKNOWLEDGED, State.ENVIRONMENT, State.RESOLVED}
    items = [item for item in findings if item.state in explained and item.kind is not Kind.VANISHED]
    steps: list[Step] = []
    for item in items:
        place = _last_place(item, order)
        if item.commits and place is None:
            continue  # not on this line
        since = None if item.commits else item.found.timestamp()
        steps += [
            Step(identity=one.identity, effect=one.effect, place=place, since=since)
            for one in item.affected
            if item.state is not State.RESOLVED or _is_undone(one.identity, place, items, order)
        ]
    return tuple(steps)


def beside_notes(findings: Iterable[Finding], order: Mapping[str, int]) -> tuple[str, ...]:
    """Return a note of the findings that wait for somebody although none of their commits is on the line.

    Whoever takes a commit away (a rebase) leaves no later value that would show that its finding is over.
    """
    beside = [
        item.id for item in findings if item.state in OPEN and item.commits and order.keys().isdisjoint(item.commits)
    ]
    if not beside:
        return ()
    cure = "open until somebody decides, by `kv findings acknowledge`"
    return (f"of commits that are not on this line (rebased away?): {', '.join(sorted(beside))}; {cure}",)


def _last_place(item: Finding, order: Mapping[str, int]) -> int | None:
    return max((order[sha] for sha in item.commits if sha in order), default=None)


def _is_undone(identity: Identity, place: int | None, items: Iterable[Finding], order: Mapping[str, int]) -> bool:
    """Return whether an improvement after a place of the line names the series."""
    return any(
        (later := _last_place(item, order)) is not None
        and later > (place or 0)
        and any(one.identity == identity for one in item.affected)
        for item in items
        if item.kind is Kind.IMPROVEMENT
    )


def finding_href(finding: str) -> str:
    """Return the file name of the page of a finding (its id)."""
    return f"finding-{finding}.html"


@dataclass(frozen=True, kw_only=True)
class Step:
    """A move that is known already: from here on a series is expected at its new level."""

    identity: Identity
    effect: float  # of log values
    place: int | None = None  # of the commit that it began with; of an environment: None
    since: float | None = None  # Unix time that it began at, s; of a commit: None
