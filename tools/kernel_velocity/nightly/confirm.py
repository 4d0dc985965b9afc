"""What moved in a night, measured again: in turns with the commit before, and bisected. Opens no file.

Makes the evidence of a night: the rounds that an answer rests on, and what the test said look by look. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kernel_velocity.ab.bisection import Bisection, Step, bisect
from kernel_velocity.ab.confirm import Runner, confirm
from kernel_velocity.ab.rounds import Pairs, estimates
from kernel_velocity.findings.evidence import Evidence, Look, Path, Purpose, Rerun, Side, Tried
from kernel_velocity.findings.finding import Affected, Finding, State
from kernel_velocity.harness.telemetry import Round
from kernel_velocity.nightly.cases import Case
from kernel_velocity.nightly.moves import Move
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.identity import Identity
from kernel_velocity.series.history import SeriesHistory
from kernel_velocity.stats import sequential, two_samples
from kernel_velocity.stats.sequential import LOOKS, Answer, Comparison, Obstacle


@dataclass(kw_only=True)
class Outcome:
    """What became of the suspicions."""

    cases: list[Case] = field(default_factory=list)  # a test called them different
    unsettled: list[Case] = field(default_factory=list)  # no test settled them
    # Looked at again, and nothing was there, by series and the commit it was to have begun with: a line each.
    refuted: dict[tuple[Identity, str], str] = field(default_factory=dict)
    comparisons: list[tuple[Identity, Comparison]] = field(default_factory=list)  # whatever they said
    reruns: list[Rerun] = field(default_factory=list)  # what they rest on
    paths: list[Path] = field(default_factory=list)  # of the bisections

    @property
    def evidence(self) -> Evidence:
        """Everything that was kept."""
        return Evidence(reruns=tuple(self.reruns), paths=tuple(self.paths))


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
    for (good, bad), group in _pairs(move for move in moves if move.identity.is_timed).items():
        series = {_series(move.identity): move for move in group}
        say(f"looking again at {len(series)} series between {good[:SHORT]} and {bad[:SHORT]}")
        answers = confirm(runner, good, bad, tuple(series), max(0.0, deadline - runner.clock()))
        bisected = series | _bisected(found, series, answers, runner, deadline)
        for one, move in series.items():
            _sort_in(found, move, answers[one], bisected[one].candidates)
        found.reruns += _reruns(runner, (good, bad), bisected, answers, Purpose.CONFIRM)
    found.cases += [_computed(move) for move in moves if not move.identity.is_timed]
    return found


def pending(
    known: Iterable[Finding], histories: Iterable[SeriesHistory], taken: Container[tuple[Identity, str]]
) -> Iterator[Move]:
    """Return the moves of suspects that earlier nights had no time to settle, as far as their commits have values.

    No screen fires at them any more: what they show has become the level that new values are held against.

    Args:
        taken: series and first commits of moves that are looked at anyway.
    """
    by_identity = {history.identity: history for history in histories}
    for item in known:
        if item.state not in (State.NEW, State.SUSPECT) or item.anchor is None or not item.commits:
            continue
        for one in item.affected:
            history = by_identity.get(one.identity)
            at = {} if history is None else {each.commit: each for each in history.observations}
            good, bad = at.get(item.anchor), at.get(item.commits[-1])
            if history is not None and good and bad and (one.identity, bad.commit) not in taken:
                yield Move(history=history, effect=one.effect, good=good, bad=bad, candidates=item.commits)


def _pairs(moves: Iterable[Move]) -> dict[tuple[str, str], list[Move]]:
    found: dict[tuple[str, str], list[Move]] = {}
    for move in moves:
        found.setdefault((move.good.commit, move.bad.commit), []).append(move)
    return found


def _series(identity: Identity) -> Series:
    return identity.benchmark, (identity.implementation, identity.case)


def _reruns(
    runner: Runner,
    commits: tuple[str, str],
    moves: Mapping[Series, Move],
    answers: Mapping[Series, Comparison],
    purpose: Purpose,
) -> Iterator[Rerun]:
    """Yield what answers about two commits rest on; `moves` name the commits that are left for each series."""
    pairs = runner.measure_pair(*commits, tuple(answers), 0, -math.inf)  # those that there are; nothing is measured
    for one, answer in answers.items():
        built = answer.obstacle is not Obstacle.NOT_BUILT
        yield rerun(
            moves[one].identity,
            purpose,
            commits,
            answer,
            pairs,
            left=moves[one].candidates,
            code=(runner.code(commits[0], one), runner.code(commits[1], one)) if built else (None, None),
        )


def _bisected(
    found: Outcome, series: Mapping[Series, Move], answers: Mapping[Series, Comparison], runner: Runner, deadline: float
) -> dict[Series, Move]:
    """Return the moves of what several commits can have made slower, with the commits that are left of these.

    Of each kernel the series is bisected in which the step shows most. Whether its culprit explains the others is
    measured; where it does not, it is not theirs.
    """
    several = {one: move for one, move in series.items() if answers[one].slower and len(move.candidates) > 1}
    left: dict[Series, Move] = {}
    for kernel in dict.fromkeys(move.identity.kernel for move in several.values()):
        own = {one: move for one, move in several.items() if move.identity.kernel == kernel}
        worst = max(own, key=lambda one: answers[one].ratio or 0.0)
        move = own.pop(worst)
        line = (move.good.commit, *move.candidates)
        budget = max(0.0, deadline - runner.clock())
        narrowed = bisect(runner, worst, line[0], line[-1], move.candidates, budget=budget)
        commits = _left(narrowed, move)
        left[worst] = replace(move, candidates=commits)
        found.paths.append(path(move.identity, line[0], line[-1], narrowed))
        if len(commits) != 1:
            continue
        pair = line[line.index(commits[0]) - 1], commits[0]
        shown = {} if narrowed.own is None else {worst: narrowed.own}
        if own:
            budget = max(0.0, deadline - runner.clock())
            shown |= confirm(runner, *pair, tuple(own), budget)
        left |= {one: replace(move, candidates=_theirs(shown[one], move, commits)) for one, move in own.items()}
        found.reruns += _reruns(runner, pair, left, shown, Purpose.CULPRIT)
    return left


def _theirs(answer: Comparison, move: Move, culprit: tuple[str, ...]) -> tuple[str, ...]:
    """Return the commits that are left for a series, from what the culprit of another one did to it."""
    rest = tuple(sha for sha in move.candidates if sha != culprit[0])
    is_out = answer.answer is Answer.SAME and rest
    return culprit if answer.slower else rest if is_out else move.candidates


def _left(narrowed: Bisection, move: Move) -> tuple[str, ...]:
    """Return the commits that a bisection leaves; all of them where its own check cleared the one that it found."""
    if not narrowed.left or (narrowed.culprit is not None and not (narrowed.own and narrowed.own.slower)):
        return move.candidates
    return narrowed.left


def _sort_in(found: Outcome, move: Move, answer: Comparison, commits: tuple[str, ...]) -> None:
    found.comparisons.append((move.identity, answer))
    if answer.answer is Answer.DIFFERENT and answer.ratio is not None:
        found.cases.append(_case(move, answer, commits))
        if (answer.ratio - 1) * move.effect < 0:  # it is told as what it is, and what the history showed is none
            _refute(found, move, f"{answer.ratio - 1:+.1%}: {answer.reason}")
    elif answer.answer is Answer.SAME:
        _refute(found, move, answer.reason)
    else:
        found.unsettled.append(_case(move, answer, move.candidates))


def _refute(found: Outcome, move: Move, why: str) -> None:
    said = f"{math.exp(move.effect) - 1:+.1%} in the history, but measured again in turns {why}"
    found.refuted[move.identity, move.bad.commit] = f"{move.identity} at {move.bad.commit[:SHORT]}: {said}"


def _case(move: Move, answer: Comparison, commits: tuple[str, ...]) -> Case:
    settled = answer.answer is Answer.DIFFERENT
    how = f"measured again in turns with {move.good.commit[:SHORT]}, {answer.rounds} rounds a side: {answer.reason}"
    ruled_out = ["the machine: both sides were measured in the same minutes"] if settled else []
    cleared = len(move.candidates) - len(commits)
    if cleared:
        how += f"; bisected over {len(move.candidates)} commits"
        ruled_out.append(f"{cleared} other commits of the range, by bisection")
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
    """Return the case of an error of results or a figure of the code: not timed, so that no re-run would say more."""
    is_error = move.identity.is_error
    return Case(
        affected=Affected(identity=move.identity, ratio=math.exp(move.effect), p=0.0),
        commits=move.candidates,
        anchor=move.good.commit,
        how="an error of results is computed, not timed" if is_error else "the compiler's figure is read, not timed",
        ruled_out=("noise: the inputs are the same" if is_error else "noise: the compiler is the same",),
    )


def rerun(
    identity: Identity,
    purpose: Purpose,
    commits: tuple[str, str],
    answer: Comparison,
    pairs: Pairs,
    *,
    left: tuple[str, ...],
    code: tuple[str | None, str | None] = (None, None),
) -> Rerun:
    """Return the evidence of an answer.

    Args:
        identity: the series. commits: before and after, full SHAs. answer: what the test said of them.
        pairs: all rounds that there are of the two commits, those of the series that others are adjusted by as well.
        left: the commits that can have done it, oldest first. code: what identifies what the series ran.
    """
    series = (identity.benchmark, (identity.implementation, identity.case))
    return Rerun(
        identity=identity,
        purpose=purpose,
        before=commits[0],
        after=commits[1],
        commits=left,
        answer=answer.answer,
        reason=answer.reason,
        floor=answer.floor,
        sides=_sides(pairs, series, answer.rounds),
        looks=tuple(_look(pairs, series, rounds, answer.floor) for rounds in LOOKS if rounds <= answer.rounds),
        code=code,
    )


def _sides(pairs: Pairs, series: Series, rounds: int) -> tuple[Side, Side]:
    """Return the rounds that an answer rests on, as the test compared them."""
    if not rounds:
        return Side(began=(), seconds=(), flags=()), Side(began=(), seconds=(), flags=())
    before, after, is_adjusted = estimates(pairs, series, rounds)
    pair = pairs[series]
    return (
        _side(pair.before[:rounds], before if is_adjusted else ()),
        _side(pair.after[:rounds], after if is_adjusted else ()),
    )


def _side(rounds: Sequence[Round], adjusted: Sequence[float]) -> Side:
    return Side(
        began=tuple(item.time for item in rounds),
        seconds=tuple(item.estimate for item in rounds),
        flags=tuple(" ".join(item.flags) for item in rounds),
        adjusted=tuple(math.exp(value) for value in adjusted),
    )


def _look(pairs: Pairs, series: Series, rounds: int, floor: float) -> Look:
    """Return what the test said after so many rounds a side, of which it had no more then."""
    before, after, adjusted = estimates(pairs, series, rounds)
    said = sequential.compare(before, after, floor=floor, adjusted=adjusted)
    moved, least, most = two_samples.shift(np.asarray(before), np.asarray(after), 1 - two_samples.P)
    if said.low is None or said.high is None or said.p is None:
        raise ValueError(f"{series}: {rounds} rounds a side are compared without an interval")
    return Look(
        rounds=rounds,
        ratio=math.exp(moved),
        low=said.low,
        high=said.high,
        least=math.exp(least),
        most=math.exp(most),
        p=said.p,
        answer=said.answer,
    )


def path(identity: Identity, good: str, bad: str, found: Bisection) -> Path:
    """Return the path of a bisection, BAD with GOOD first."""
    whole = Step(commit=bad, comparison=found.whole, slow=True if found.whole.slower else None)
    return Path(
        identity=identity,
        good=good,
        bad=bad,
        tried=tuple(_tried(step) for step in (whole, *found.steps)),
        left=found.left,
        reason=found.reason,
    )


def _tried(step: Step) -> Tried:
    said = step.comparison
    return Tried(
        commit=step.commit,
        slow=step.slow,
        answer=said.answer,
        reason=said.reason,
        rounds=said.rounds,
        ratio=said.ratio,
        low=said.low,
        high=said.high,
        p=said.p,
    )
