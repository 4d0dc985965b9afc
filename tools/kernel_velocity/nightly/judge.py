"""What a night makes of its values: what is suspect, and what are findings once that was measured again. Pure.

The commits of a night are judged one after the other, oldest first, as if each had had a night of its own: a regression
that a later commit of the same night took back is found all the same.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kernel_velocity.findings import decisions, finding
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.finding import Finding, Kind, State, Step
from kernel_velocity.nightly import cases as finding_making
from kernel_velocity.nightly import suspects
from kernel_velocity.nightly.cases import Case
from kernel_velocity.nightly.confirm import Outcome
from kernel_velocity.nightly.moves import Move, Screen, prepared
from kernel_velocity.nightly.suspects import EnvironmentEvent, LookBack, late_moves
from kernel_velocity.results.identity import DEVICE, Identity, Slot
from kernel_velocity.series import silence
from kernel_velocity.series.history import SeriesHistory, threshold
from kernel_velocity.series.silence import Superseded
from kernel_velocity.stats.sequential import Answer

WHO = "nightly"


@dataclass(frozen=True, kw_only=True)
class Suspicions:
    """What the screen and the attribution leave of all commits of a night."""

    moves: tuple[Move, ...]  # each series' moves, by the commit that they began with; largest first
    events: tuple[EnvironmentEvent, ...]
    judged: frozenset[Identity]  # series with a value of this night
    notes: tuple[str, ...]

    @property
    def measured(self) -> int:
        """How many series of kernels that were run have a value of this night: ceilings alone are no night's work."""
        return sum(one.kernel != DEVICE and not one.is_figure for one in self.judged)


def suspicions(
    histories: Sequence[SeriesHistory],
    screen: Screen,
    look: LookBack,
    *,
    line: Sequence[str],
    since: float,
    known: Sequence[Step],
) -> Suspicions:
    """Screen every commit of a night, oldest first; a move that was seen at one is known at the next. Then look back.

    Args:
        screen: of the newest values. look: of all of them.
        line: the commits of the first-parent line, oldest first. since: when the night began, Unix time, s.
        known: moves that earlier nights recorded.
    """
    steps = list(known)
    moves: dict[tuple[Identity, str], Move] = {}
    events: list[EnvironmentEvent] = []
    judged: set[Identity] = set()
    notes: dict[str, None] = {}
    for place in _places(histories, since):
        at = [history for item in histories if (history := _until(item, place)) is not None]
        found = suspects.screened(at, screen, line=line, since=since, known=steps)
        judged |= set(found.judged)
        notes |= dict.fromkeys(found.notes)
        dated = [_dated(event, histories, since) for event in found.events]
        events += dated
        for move in (*found.suspects, *(move for event in dated for move in event.confounded)):
            moves.setdefault((move.identity, move.bad.commit), move)
        for move in found.suspects:
            steps.append(Step(identity=move.identity, effect=move.effect, place=move.bad.place))
        for event in dated:
            steps += [Step(identity=move.identity, effect=move.effect, since=event.began) for move in event.moves]
    for move in late_moves(histories, look, line=line, since=since, known=steps):
        moves.setdefault((move.identity, move.bad.commit), move)
    ordered = sorted(moves.values(), key=lambda move: (-abs(move.effect), move.identity))
    return Suspicions(moves=tuple(ordered), events=tuple(events), judged=frozenset(judged), notes=tuple(notes))


def _dated(event: EnvironmentEvent, histories: Iterable[SeriesHistory], since: float) -> EnvironmentEvent:
    """Return an event as having begun with the first value of this night that was measured under the same facts.

    Rounds of a night's commits are interleaved, and asv ends with the oldest: by its own newest value an event would
    begin after values that show it.
    """
    facts = event.moves[0].history.newest.facts
    times = [
        item.measured
        for history in histories
        if (history.identity.machine, history.identity.device) == (event.machine, event.device)
        for item in history.observations
        if item.measured is not None and item.measured >= since and item.facts == facts
    ]
    return replace(event, began=min(times, default=event.began))


def _places(histories: Iterable[SeriesHistory], since: float) -> list[int]:
    """Return the places of the commits that have a value of this night, older first."""
    observations = (item for history in histories for item in history.observations)
    return sorted({item.place for item in observations if item.measured is not None and item.measured >= since})


def _until(history: SeriesHistory, place: int) -> SeriesHistory | None:
    """Return what a history was when a commit was its newest; None where it has no value of that commit."""
    kept = tuple(item for item in history.observations if item.place <= place)
    return replace(history, observations=kept) if kept and kept[-1].place == place else None


@dataclass(frozen=True, kw_only=True)
class Before:
    """What a night knows besides its own values, and when it is."""

    known: tuple[Finding, ...]
    expectations: tuple[Expectation, ...]
    order: Mapping[str, int]  # commit -> place on the first-parent line, older first
    when: datetime


def findings(
    outcome: Outcome,
    suspected: Suspicions,
    histories: Sequence[SeriesHistory],
    absent: Mapping[Slot, Sequence[str]],
    before: Before,
) -> tuple[Finding, ...]:
    """Return every finding as it is after this night: the new ones, and the known ones joined, reopened or resolved.

    What is confirmed goes through Benjamini and Hochberg's control first, among all that was measured again; what that
    leaves out stays a suspect.
    """
    others = [one.p for _, one in outcome.comparisons if one.answer is not Answer.DIFFERENT and one.p is not None]
    reported, doubtful = suspects.discoveries(outcome.cases, others)
    new: list[Finding] = []
    for cases, state in ((reported, State.CONFIRMED), ((*doubtful, *outcome.unsettled), State.SUSPECT)):
        new += finding_making.from_cases(cases, state=state, order=before.order, when=before.when, who=WHO)
    events = (_without(event, outcome.cases) for event in suspected.events)
    new += [finding_making.of_environment(event, when=before.when, who=WHO) for event in events if event is not None]
    new += finding_making.of_vanished(silence.vanished(histories, absent, before.order), when=before.when, who=WHO)
    found = {item.id: item for item in before.known}
    for item in new:
        whole = finding.joined(found.values(), item)
        found[whole.id] = whole
    steps = finding.known_steps([item for item in found.values() if item.kind is Kind.ENVIRONMENT], before.order)
    level = {history.identity: prepared(history, math.inf, steps) for history in histories}
    ended = silence.superseded(histories)
    settled = (_unless_refuted(item, outcome, before.when) for item in found.values())
    return tuple(_as_of_today(item, level, ended, before) for item in settled)


def _without(event: EnvironmentEvent, cases: Iterable[Case]) -> EnvironmentEvent | None:
    """Return an event less what turned out to be a commit's; None where nothing of it is left."""
    own = {case.affected.identity: case.affected.effect for case in cases}
    rest = [replace(move, effect=move.effect - own.get(move.identity, 0.0)) for move in event.moves]
    moves = tuple(move for move in rest if abs(move.effect) >= threshold(move.history))
    return replace(event, moves=moves, effect=statistics.median(move.effect for move in moves)) if moves else None


def _unless_refuted(item: Finding, outcome: Outcome, when: datetime) -> Finding:
    """Return a suspect as resolved where all of its series were measured again tonight, and nothing was there."""
    said = [
        next((line for (identity, sha), line in outcome.refuted.items() if identity == one.identity and sha in own), "")
        for own in [set(item.commits)]
        for one in item.affected
    ]
    return decisions.refuted(item, reason="; ".join(said), who=WHO, when=when) if said and all(said) else item


def _as_of_today(
    item: Finding, level: Mapping[Identity, SeriesHistory], ended: Sequence[Superseded], before: Before
) -> Finding:
    """Return a finding as it is today.

    Args:
        level: the series, moved to where the machine is today. ended: those that go on as another.
    """
    item = decisions.refreshed(item, who=WHO, when=before.when)
    item = decisions.expected(item, before.expectations, when=before.when)
    item = decisions.superseded(item, ended, who=WHO, when=before.when)
    if item.decisions and item.decisions[-1].when == before.when:
        return item  # what tonight found is told tonight, also where a later commit of the night made up for it
    return decisions.resolved(item, level, before.order, who=WHO, when=before.when)
