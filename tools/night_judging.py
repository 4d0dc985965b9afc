"""What a night makes of its values: screened, attributed, confirmed by re-runs in turns, bisected. Opens no file.

The commits of a night are judged one after the other, oldest first, as if each had had a night of its own: a regression
that a later commit of the same night took back is found all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from tools import absences, decisions, finding, regressions
from tools.ab_test import Answer, Comparison
from tools.attribution import EnvironmentEvent
from tools.bisecting import Bisection, bisect
from tools.confirming import Runner, confirm
from tools.decisions import Expectation
from tools.finding import SHORT, Affected, Case, Finding, State
from tools.histories import SeriesHistory
from tools.moves import Move, Screen, Step
from tools.series_identity import Identity, Slot
from tools.stored_file import Series
from tools.verdict import SeriesComparison

WHO = "nightly"


@dataclass(frozen=True, kw_only=True)
class Suspicions:
    """What the screen and the attribution leave of all commits of a night."""

    moves: tuple[Move, ...]  # each series' moves, by the commit that they began with; largest first
    events: tuple[EnvironmentEvent, ...]
    judged: frozenset[Identity]  # series with a value of this night
    notes: tuple[str, ...]


@dataclass(kw_only=True)
class Outcome:
    """What became of the suspicions."""

    cases: list[Case] = field(default_factory=list)  # a test called them different
    unsettled: list[Case] = field(default_factory=list)  # no test settled them
    refuted: dict[Identity, str] = field(default_factory=dict)  # looked at again, and nothing was there: a line each
    comparisons: list[SeriesComparison] = field(default_factory=list)  # whatever they said


def suspicions(
    histories: Sequence[SeriesHistory], screen: Screen, *, line: Sequence[str], since: float, known: Sequence[Step]
) -> Suspicions:
    """Screen every commit of a night, oldest first; a move that was seen at one is known at the next.

    Args:
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
        found = regressions.screened(at, screen, line=line, since=since, known=steps)
        judged |= set(found.judged)
        notes |= dict.fromkeys(found.notes)
        events += found.events
        for move in (*found.suspects, *(move for event in found.events for move in event.confounded)):
            moves.setdefault((move.identity, move.bad.commit), move)
        for move in found.suspects:
            steps.append(Step(identity=move.identity, effect=move.effect, place=move.bad.place))
        for event in found.events:
            steps += [Step(identity=move.identity, effect=move.effect, since=event.began) for move in event.moves]
    ordered = sorted(moves.values(), key=lambda move: (-abs(move.effect), move.identity))
    return Suspicions(moves=tuple(ordered), events=tuple(events), judged=frozenset(judged), notes=tuple(notes))


def _places(histories: Iterable[SeriesHistory], since: float) -> list[int]:
    """Return the places of the commits that have a value of this night, older first."""
    observations = (item for history in histories for item in history.observations)
    return sorted({item.place for item in observations if item.measured is not None and item.measured >= since})


def _until(history: SeriesHistory, place: int) -> SeriesHistory | None:
    """Return what a history was when a commit was its newest; None where it has no value of that commit."""
    kept = tuple(item for item in history.observations if item.place <= place)
    return replace(history, observations=kept) if kept and kept[-1].place == place else None


def look_again(
    moves: Sequence[Move], runner: Runner, *, budget: float, say: Callable[[str], None] = lambda text: None
) -> Outcome:
    """Measure what moved again, before and after in turns, and bisect what several commits can have done.

    Args:
        moves: largest first; those of one pair of commits are measured together.
        budget: s of measuring for all of them.
        say: is told what is being done.
    """
    found = Outcome()
    deadline = runner.clock() + budget
    for (good, bad), group in _pairs(move for move in moves if not move.identity.is_error).items():
        series = {_series(move.identity): move for move in group}
        say(f"looking again at {len(series)} series between {good[:SHORT]} and {bad[:SHORT]}")
        answers = confirm(runner, good, bad, tuple(series), max(0.0, deadline - runner.clock()))
        bisected = _bisected(series, answers, runner, deadline)
        for one, move in series.items():
            _sort_in(found, move, answers[one], bisected)
    found.cases += [_computed(move) for move in moves if move.identity.is_error]
    return found


def _pairs(moves: Iterable[Move]) -> dict[tuple[str, str], list[Move]]:
    found: dict[tuple[str, str], list[Move]] = {}
    for move in moves:
        found.setdefault((move.good.commit, move.bad.commit), []).append(move)
    return found


def _series(identity: Identity) -> Series:
    return identity.benchmark, (identity.implementation, identity.case)


def _bisected(
    series: Mapping[Series, Move], answers: Mapping[Series, Comparison], runner: Runner, deadline: float
) -> dict[str, Bisection]:
    """Return, by kernel, which of several commits made it slower: of the series in which that shows most."""
    worst: dict[str, Series] = {}
    for one, answer in sorted(answers.items(), key=lambda pair: -(pair[1].ratio or 0.0)):
        if answer.slower and len(series[one].candidates) > 1:
            worst.setdefault(series[one].identity.kernel, one)
    found = {}
    for kernel, one in worst.items():
        move = series[one]
        budget = max(0.0, deadline - runner.clock())
        commits = move.candidates
        found[kernel] = bisect(runner, one, move.good.commit, commits[-1], commits, budget=budget)
    return found


def _sort_in(found: Outcome, move: Move, answer: Comparison, bisected: Mapping[str, Bisection]) -> None:
    found.comparisons.append(
        SeriesComparison(
            identity=move.identity,
            answer=answer.answer,
            ratio=answer.ratio,
            low=answer.low,
            high=answer.high,
            p=answer.p,
            rounds=answer.rounds or None,
        )
    )
    if answer.answer is Answer.DIFFERENT and answer.ratio is not None:
        narrowed = bisected.get(move.identity.kernel) if answer.slower else None
        found.cases.append(_case(move, answer, narrowed))
    elif answer.answer is Answer.SAME:
        said = f"{math.exp(move.effect) - 1:+.1%} in the history, but measured again in turns {answer.reason}"
        found.refuted[move.identity] = f"{move.identity} at {move.bad.commit[:SHORT]}: {said}"
    else:
        found.unsettled.append(_case(move, answer, None))


def _case(move: Move, answer: Comparison, narrowed: Bisection | None) -> Case:
    commits = narrowed.left if narrowed is not None and narrowed.left else move.candidates
    settled = answer.answer is Answer.DIFFERENT
    how = f"measured again in turns with {move.good.commit[:SHORT]}, {answer.rounds} rounds a side: {answer.reason}"
    ruled_out = ["the machine: both sides were measured in the same minutes"] if settled else []
    if narrowed is not None and len(narrowed.left) == 1:
        how += f"; bisected over {len(move.candidates)} commits: {narrowed.reason}"
        ruled_out.append(f"{len(move.candidates) - 1} other commits of the range, by bisection")
    return Case(
        affected=Affected(
            identity=move.identity,
            ratio=math.exp(move.effect) if answer.ratio is None else answer.ratio,
            low=answer.low,
            high=answer.high,
            p=answer.p if settled else None,
            rounds=answer.rounds or None,
        ),
        commits=commits,
        anchor=move.good.commit,
        how=how,
        ruled_out=tuple(ruled_out),
    )


def _computed(move: Move) -> Case:
    """Return the case of an error of results: it is computed and not timed, so that no re-run would say more."""
    return Case(
        affected=Affected(identity=move.identity, ratio=math.exp(move.effect), p=0.0),
        commits=move.candidates,
        anchor=move.good.commit,
        how="an error of results is computed, not timed",
        ruled_out=("noise: the inputs are the same",),
    )


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

    What is confirmed goes through Benjamini and Hochberg's control first; what that leaves out stays a suspect.
    """
    reported, doubtful = regressions.discoveries(outcome.cases)
    new: list[Finding] = []
    for cases, state in ((reported, State.CONFIRMED), ((*doubtful, *outcome.unsettled), State.SUSPECT)):
        new += finding.from_cases(cases, state=state, order=before.order, when=before.when, who=WHO)
    new += [finding.of_environment(event, when=before.when, who=WHO) for event in suspected.events]
    new += finding.of_vanished(absences.vanished(histories, absent, before.order), when=before.when, who=WHO)
    found = {item.id: item for item in before.known}
    for item in new:
        whole = finding.joined(found.values(), item)
        found[whole.id] = whole
    settled = (_unless_refuted(item, outcome, before.when) for item in found.values())
    return tuple(_as_of_today(item, histories, before) for item in settled)


def _unless_refuted(item: Finding, outcome: Outcome, when: datetime) -> Finding:
    """Return a suspect as resolved where all of its series were measured again tonight, and nothing was there."""
    said = [outcome.refuted.get(one.identity) for one in item.affected]
    reasons = [reason for reason in said if reason is not None]
    if not reasons or len(reasons) < len(said):
        return item
    return decisions.refuted(item, reason="; ".join(reasons), who=WHO, when=when)


def _as_of_today(item: Finding, histories: Sequence[SeriesHistory], before: Before) -> Finding:
    by_identity = {history.identity: history for history in histories}
    item = decisions.refreshed(item, who=WHO, when=before.when)
    item = decisions.expected(item, before.expectations, when=before.when)
    item = decisions.superseded(item, absences.superseded(histories), who=WHO, when=before.when)
    if item.decisions and item.decisions[-1].when == before.when:
        return item  # what tonight found is told tonight, also where a later commit of the night made up for it
    return decisions.resolved(item, by_identity, before.order, who=WHO, when=before.when)
