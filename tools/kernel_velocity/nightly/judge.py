"""Judge the values of a night: suspects before anything is measured again, findings afterwards. Pure.

The commits of a night are judged one after the other, oldest first, as if each had had a night of its own: so a
regression is found that a later commit of the same night took back. Series of one kernel, device and implementation,
on whatever machine, share a cause: their agreement raises a finding, its lack lowers it.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from kernel_velocity.findings import decisions, finding
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.finding import Finding, Kind, State, Step
from kernel_velocity.findings.store import NO_MEMORY, Memory, Noted
from kernel_velocity.nightly import confirm
from kernel_velocity.nightly.confirm import ExaminedSeries, Remeasured
from kernel_velocity.nightly.moves import Move, code_change, is_same_code, openness, prepared
from kernel_velocity.nightly.suspects import EnvironmentEvent, Suspicions, event_of, late_moves, screened
from kernel_velocity.results.identity import Identity, Slot
from kernel_velocity.series import silence
from kernel_velocity.series.history import LEAST, Observation, SeriesHistory, threshold
from kernel_velocity.stats.sequential import Answer

VALUES_OF_LEVEL = 20  # values a side of the commits that tell a level, at most
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
                ][-VALUES_OF_LEVEL:]
                after = [
                    observation.value for observation in history.observations if observation.position >= max(positions)
                ][:VALUES_OF_LEVEL]
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


WHO = "nightly"
STAYS = 2  # values after the one that was refuted: a mean of two has that one in it, and chance chose it


def suspicions(
    histories: Sequence[SeriesHistory],
    *,
    line: Sequence[str],
    since: float,
    explained: Sequence[Step],
    again: str | None = None,
    memory: Memory = NO_MEMORY,
) -> Suspicions:
    """Screen every commit of a night, oldest first, then look back. A move at one commit is explained for the next.

    Of a series whose code changed, what no screen shows is suspected, too. A move that a re-run refuted is not measured
    again while the code is the same. If it stays, it is the machine's.

    Args:
        line: the commits of the first-parent line, oldest first. since: when the night began, Unix time, s.
        explained: moves that earlier nights recorded.
        again: the commit that tonight measured although it had been measured before.
        memory: of the night before.
    """
    steps = list(explained)
    moves: dict[tuple[Identity, str], Move] = {}
    events: list[EnvironmentEvent] = []
    judged: set[Identity] = set()
    notes: dict[str, None] = {}
    waiting: set[Identity] = set()
    refuted = {noted.identity: noted for noted in memory.refuted}
    start = {noted.identity: noted.commit for noted in memory.left}
    for position in _positions(histories, since):
        until = [_until(history, position) for history in histories]
        commit = screened([history for history in until if history is not None], line=line, since=since, steps=steps)
        judged |= commit.judged
        notes |= dict.fromkeys(commit.notes)
        dated = [_dated(event, histories, since) for event in commit.events]
        shown = [
            (move, observations)
            for move in commit.suspects
            if (observations := _since(move, refuted.get(move.identity)))
        ]
        stay = [(move, observations) for move, observations in shown if len(observations) > STAYS]
        waiting |= {move.identity for move, _ in shown} - {move.identity for move, _ in stay}
        suspects = [move for move in commit.suspects if all(move is not other for other, _ in shown)]
        confounded = [move for event in dated for move in event.confounded]
        confounded += [move for move, observations in stay if not is_same_code(observations[0], observations[-1])]
        dated += [replace(event_of([move]), began=observations[0].measured) for move, observations in stay]
        events += dated
        for move in (*suspects, *confounded):
            change = code_change(move.history, line, since, again, start.get(move.identity))
            whole = move if change is None else replace(change, effect=move.effect, is_screened=True)
            moves.setdefault((whole.identity, whole.bad.commit), whole)
            start |= {} if change is None else {change.identity: change.bad.commit}
        for move in suspects:
            steps.append(Step(identity=move.identity, effect=move.effect, position=move.bad.position))
        for event in dated:
            steps += [Step(identity=move.identity, effect=move.effect, since=event.began) for move in event.moves]
    for move in late_moves(histories, line=line, since=since, steps=steps):
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


def remembered(moves: Iterable[Move], outcome: Remeasured, suspected: Suspicions, before: Memory) -> Memory:
    """Return what the next night continues from: this night's state, and older state of series not measured tonight."""

    def noted(earlier: Iterable[Noted], new: Iterable[tuple[Move, Observation]]) -> tuple[Noted, ...]:
        rest = (series for series in earlier if series.identity not in suspected.judged - suspected.waiting)
        notes = (Noted(identity=move.identity, commit=at.commit, ratio=math.exp(move.effect)) for move, at in new)
        return (*rest, *notes)

    refuted = [(move, move.bad) for move in moves if (move.identity, move.bad.commit) in outcome.refuted]
    left = [(move, move.good) for move in outcome.left]
    return Memory(refuted=noted(before.refuted, refuted), left=noted(before.left, left))


def _since(move: Move, noted: Noted | None) -> tuple[Observation, ...]:
    """Return the observations since a re-run refuted this move. None if the move differs, or grew enough."""
    if noted is None or not 0 < move.effect / noted.effect < 1 + threshold(move.history) / abs(noted.effect):
        return ()
    return tuple(itertools.dropwhile(lambda observation: observation.commit != noted.commit, move.history.observations))


def _positions(histories: Iterable[SeriesHistory], since: float) -> list[int]:
    """Return the positions on the line of commits with a value of this night, oldest first."""
    observations = (observation for history in histories for observation in history.observations)
    return sorted(
        {
            observation.position
            for observation in observations
            if observation.measured is not None and observation.measured >= since
        }
    )


def _until(history: SeriesHistory, position: int) -> SeriesHistory | None:
    """Return a history up to the commit at a position. None if that commit has no value."""
    observations = tuple(observation for observation in history.observations if observation.position <= position)
    if not observations or observations[-1].position != position:
        return None
    return replace(history, observations=observations)


def _dated(event: EnvironmentEvent, histories: Iterable[SeriesHistory], since: float) -> EnvironmentEvent:
    """Return an event that begins at this night's first value measured under the same machine facts.

    Rounds of a night's commits are interleaved, and asv ends with the oldest: by its own newest value an event would
    begin after values that show it.
    """
    facts = event.moves[0].history.newest.facts
    times = [
        observation.measured
        for history in histories
        if (history.identity.machine, history.identity.device) == (event.machine, event.device)
        for observation in history.observations
        if observation.measured is not None and observation.measured >= since and observation.facts == facts
    ]
    return replace(event, began=min(times, default=event.began))


def findings(
    outcome: Remeasured,
    suspected: Suspicions,
    histories: Sequence[SeriesHistory],
    absent: Mapping[Slot, Sequence[str]],
    *,
    recorded: Iterable[Finding],
    expectations: Iterable[Expectation],
    order: Mapping[str, int],
    when: datetime,
) -> tuple[Finding, ...]:
    """Return every finding after this night: new ones, and recorded ones joined, reopened or resolved.

    Confirmed cases go through a control of false discoveries first, among all that was measured again
    (`confirm.discoveries`). Those that it leaves out stay suspects.

    Args:
        absent: slot of a series -> commits at which it did not apply.
        order: commit -> position on the first-parent line. when: the time of the night.
    """
    agreement = Agreement(histories, order)
    ranges = {rerun.identity: rerun.commits for rerun in outcome.reruns}
    others = [
        (test.p, agreement.weight(identity, ranges.get(identity, ()), rises=test.ratio > 1))
        for identity, test in outcome.comparisons
        if test.answer is not Answer.DIFFERENT and test.p is not None and test.ratio is not None
    ]
    weights = [agreement.weight(of.affected.identity, of.commits, rises=of.affected.ratio > 1) for of in outcome.cases]
    reported, doubtful = confirm.discoveries(list(zip(outcome.cases, weights, strict=True)), others)
    new: list[Finding] = []
    for group, state in ((reported, State.CONFIRMED), ((*doubtful, *outcome.unsettled), State.SUSPECT)):
        new += confirm.from_cases(group, state=state, order=order, when=when, who=WHO)
    events = (_without(event, outcome.cases) for event in suspected.events)
    new += [confirm.of_environment(event, when=when, who=WHO) for event in events if event is not None]
    new += confirm.of_vanished(silence.vanished(histories, absent, order), when=when, who=WHO)
    by_id = {record.id: record for record in recorded}
    for record in new:
        whole = agreement.counted(finding.joined(by_id.values(), record))
        by_id[whole.id] = whole
    steps = finding.known_steps([record for record in by_id.values() if record.kind is Kind.ENVIRONMENT], order)
    level = {history.identity: prepared(history, math.inf, steps) for history in histories}  # of the machine of today
    ended, expected = silence.superseded(histories), tuple(expectations)

    def today(record: Finding) -> Finding:
        record = _unless_refuted(record, outcome, when)
        record = decisions.refreshed(record, who=WHO, when=when)
        record = decisions.expected(record, expected, when=when)
        record = decisions.superseded(record, ended, who=WHO, when=when)
        if record.decisions and record.decisions[-1].when == when:
            return record  # reported tonight, also where a later commit of the night made up for it
        return decisions.resolved(record, level, order, who=WHO, when=when)

    return tuple(map(today, by_id.values()))


def _without(event: EnvironmentEvent, confirmed: Iterable[ExaminedSeries]) -> EnvironmentEvent | None:
    """Return an event without the series that a commit explains. None if no series is left."""
    effects = {case.affected.identity: case.affected.effect for case in confirmed}
    rest = [replace(move, effect=move.effect - effects.get(move.identity, 0.0)) for move in event.moves]
    moves = tuple(move for move in rest if abs(move.effect) >= threshold(move.history))
    return replace(event, moves=moves, effect=statistics.median(move.effect for move in moves)) if moves else None


def _unless_refuted(record: Finding, outcome: Remeasured, when: datetime) -> Finding:
    """Return a suspect as resolved if re-runs of all of its series showed no change tonight."""
    reasons = [
        next(
            (
                line
                for (identity, sha), line in outcome.refuted.items()
                if identity == series.identity and sha in record.commits
            ),
            "",
        )
        for series in record.affected
    ]
    return (
        decisions.refuted(record, reason="; ".join(reasons), who=WHO, when=when) if reasons and all(reasons) else record
    )
