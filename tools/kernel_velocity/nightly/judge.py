"""Judge the values of a night: the suspicions before anything is measured again, and the findings afterwards. Pure.

The commits of a night are judged one after the other, oldest first, as if each had had a night of its own: so a
regression is found that a later commit of the same night took back.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from kernel_velocity.findings import decisions, finding
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.finding import Finding, Kind, State, Step
from kernel_velocity.findings.last_night import NOTHING, Memory, Noted
from kernel_velocity.nightly import cases
from kernel_velocity.nightly.agreement import Agreement
from kernel_velocity.nightly.cases import Case
from kernel_velocity.nightly.confirm import Outcome
from kernel_velocity.nightly.moves import Move, code_change, is_same_code, openness, prepared
from kernel_velocity.nightly.suspects import EnvironmentEvent, Suspicions, event_of, late_moves, screened
from kernel_velocity.results.identity import Identity, Slot
from kernel_velocity.series import silence
from kernel_velocity.series.history import Observation, SeriesHistory, threshold
from kernel_velocity.stats.sequential import Answer

WHO = "nightly"
STAYS = 2  # values after the one that was refuted: a mean of two has that one in it, and chance chose it


def suspicions(
    histories: Sequence[SeriesHistory],
    *,
    line: Sequence[str],
    since: float,
    known: Sequence[Step],
    again: str | None = None,
    memory: Memory = NOTHING,
) -> Suspicions:
    """Screen every commit of a night, oldest first, then look back. A move seen at one commit is known at the next.

    Of a series whose code changed, what no screen shows is suspected, too. A move that a re-run refuted is not measured
    again while the code is the same. If it stays, it is the machine's.

    Args:
        line: the commits of the first-parent line, oldest first. since: when the night began, Unix time, s.
        known: moves that earlier nights recorded.
        again: the commit that tonight measured although it had been measured before.
        memory: of the night before.
    """
    steps = list(known)
    moves: dict[tuple[Identity, str], Move] = {}
    events: list[EnvironmentEvent] = []
    judged: set[Identity] = set()
    notes: dict[str, None] = {}
    waiting: set[Identity] = set()
    refuted = {noted.identity: noted for noted in memory.refuted}
    start = {noted.identity: noted.commit for noted in memory.left}
    for place in _places(histories, since):
        until = [_until(history, place) for history in histories]
        commit = screened([history for history in until if history is not None], line=line, since=since, known=steps)
        judged |= commit.judged
        notes |= dict.fromkeys(commit.notes)
        dated = [_dated(event, histories, since) for event in commit.events]
        shown = [(move, items) for move in commit.suspects if (items := _since(move, refuted.get(move.identity)))]
        stay = [(move, items) for move, items in shown if len(items) > STAYS]
        waiting |= {move.identity for move, _ in shown} - {move.identity for move, _ in stay}
        suspects = [move for move in commit.suspects if all(move is not other for other, _ in shown)]
        confounded = [move for event in dated for move in event.confounded]
        confounded += [move for move, items in stay if not is_same_code(items[0], items[-1])]
        dated += [replace(event_of([move]), began=items[0].measured) for move, items in stay]
        events += dated
        for move in (*suspects, *confounded):
            change = code_change(move.history, line, since, again, start.get(move.identity))
            whole = move if change is None else replace(change, effect=move.effect, is_screened=True)
            moves.setdefault((whole.identity, whole.bad.commit), whole)
            start |= {} if change is None else {change.identity: change.bad.commit}
        for move in suspects:
            steps.append(Step(identity=move.identity, effect=move.effect, place=move.bad.place))
        for event in dated:
            steps += [Step(identity=move.identity, effect=move.effect, since=event.began) for move in event.moves]
    for move in late_moves(histories, line=line, since=since, known=steps):
        moves.setdefault((move.identity, move.bad.commit), move)
    levelled = (prepared(history, since, steps) for history in histories)
    changes = (code_change(history, line, since, again, start.get(history.identity)) for history in levelled)
    suspects = [*moves.values(), *(move for move in changes if move is not None)]
    return Suspicions(
        suspects=tuple(sorted(suspects, key=lambda move: (-openness(move), -abs(move.effect), move.identity))),
        events=tuple(events),
        judged=frozenset(judged),
        notes=tuple(notes),
        waiting=frozenset(waiting),
    )


def remembered(moves: Iterable[Move], outcome: Outcome, suspected: Suspicions, before: Memory) -> Memory:
    """Return what the next night has to know: of this one, and of series that it did not measure, of the one before."""

    def noted(earlier: Iterable[Noted], new: Iterable[tuple[Move, Observation]]) -> tuple[Noted, ...]:
        rest = (series for series in earlier if series.identity not in suspected.judged - suspected.waiting)
        notes = (Noted(identity=move.identity, commit=at.commit, ratio=math.exp(move.effect)) for move, at in new)
        return (*rest, *notes)

    refuted = [(move, move.bad) for move in moves if (move.identity, move.bad.commit) in outcome.refuted]
    left = [(move, move.good) for move in outcome.left]
    return Memory(refuted=noted(before.refuted, refuted), left=noted(before.left, left))


def _since(move: Move, noted: Noted | None) -> tuple[Observation, ...]:
    """Return the observations since a re-run refuted a move. None where it is another one, or grew by what counts."""
    if noted is None or not 0 < move.effect / noted.effect < 1 + threshold(move.history) / abs(noted.effect):
        return ()
    return tuple(itertools.dropwhile(lambda item: item.commit != noted.commit, move.history.observations))


def _places(histories: Iterable[SeriesHistory], since: float) -> list[int]:
    """Return the places of the commits that have a value of this night, older first."""
    observations = (item for history in histories for item in history.observations)
    return sorted({item.place for item in observations if item.measured is not None and item.measured >= since})


def _until(history: SeriesHistory, place: int) -> SeriesHistory | None:
    """Return a history as it was when a commit was its newest. None where it has no value of that commit."""
    observations = tuple(item for item in history.observations if item.place <= place)
    if not observations or observations[-1].place != place:
        return None
    return replace(history, observations=observations)


def _dated(event: EnvironmentEvent, histories: Iterable[SeriesHistory], since: float) -> EnvironmentEvent:
    """Return an event that begins with the first value of this night that was measured under the same facts.

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


def findings(
    outcome: Outcome,
    suspected: Suspicions,
    histories: Sequence[SeriesHistory],
    absent: Mapping[Slot, Sequence[str]],
    *,
    recorded: Iterable[Finding],
    expectations: Iterable[Expectation],
    order: Mapping[str, int],
    when: datetime,
) -> tuple[Finding, ...]:
    """Return every finding as it is after this night: new ones, and recorded ones joined, reopened or resolved.

    Confirmed cases go through a control of false discoveries first, among all that was measured again
    (`cases.discoveries`). Those that it leaves out stay suspects.

    Args:
        absent: slot of a series -> commits at which it did not apply.
        order: commit -> place on the first-parent line. when: the time of the night.
    """
    agreement = Agreement(histories, order)
    ranges = {rerun.identity: rerun.commits for rerun in outcome.reruns}
    others = [
        (test.p, agreement.weight(identity, ranges.get(identity, ()), rises=test.ratio > 1))
        for identity, test in outcome.comparisons
        if test.answer is not Answer.DIFFERENT and test.p is not None and test.ratio is not None
    ]
    weights = [agreement.weight(of.affected.identity, of.commits, rises=of.affected.ratio > 1) for of in outcome.cases]
    reported, doubtful = cases.discoveries(list(zip(outcome.cases, weights, strict=True)), others)
    new: list[Finding] = []
    for group, state in ((reported, State.CONFIRMED), ((*doubtful, *outcome.unsettled), State.SUSPECT)):
        new += cases.from_cases(group, state=state, order=order, when=when, who=WHO)
    events = (_without(event, outcome.cases) for event in suspected.events)
    new += [cases.of_environment(event, when=when, who=WHO) for event in events if event is not None]
    new += cases.of_vanished(silence.vanished(histories, absent, order), when=when, who=WHO)
    by_id = {item.id: item for item in recorded}
    for item in new:
        whole = agreement.counted(finding.joined(by_id.values(), item))
        by_id[whole.id] = whole
    steps = finding.known_steps([item for item in by_id.values() if item.kind is Kind.ENVIRONMENT], order)
    level = {history.identity: prepared(history, math.inf, steps) for history in histories}  # of the machine of today
    ended, expected = silence.superseded(histories), tuple(expectations)

    def today(item: Finding) -> Finding:
        item = _unless_refuted(item, outcome, when)
        item = decisions.refreshed(item, who=WHO, when=when)
        item = decisions.expected(item, expected, when=when)
        item = decisions.superseded(item, ended, who=WHO, when=when)
        if item.decisions and item.decisions[-1].when == when:
            return item  # reported tonight, also where a later commit of the night made up for it
        return decisions.resolved(item, level, order, who=WHO, when=when)

    return tuple(map(today, by_id.values()))


def _without(event: EnvironmentEvent, confirmed: Iterable[Case]) -> EnvironmentEvent | None:
    """Return an event without the part that turned out to be a commit's. None where nothing of it is left."""
    effects = {case.affected.identity: case.affected.effect for case in confirmed}
    rest = [replace(move, effect=move.effect - effects.get(move.identity, 0.0)) for move in event.moves]
    moves = tuple(move for move in rest if abs(move.effect) >= threshold(move.history))
    return replace(event, moves=moves, effect=statistics.median(move.effect for move in moves)) if moves else None


def _unless_refuted(item: Finding, outcome: Outcome, when: datetime) -> Finding:
    """Return a suspect as resolved where all of its series were measured again tonight, and showed nothing."""
    reasons = [
        next(
            (
                line
                for (identity, sha), line in outcome.refuted.items()
                if identity == series.identity and sha in item.commits
            ),
            "",
        )
        for series in item.affected
    ]
    return decisions.refuted(item, reason="; ".join(reasons), who=WHO, when=when) if reasons and all(reasons) else item
