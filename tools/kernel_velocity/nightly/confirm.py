"""Measure suspects and changed code again, in turns with an earlier commit, bisect what is slower, and make findings.

Opens no file. The outcome has the evidence: the rounds that an answer rests on, and the answer of the test look by
look.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np

from kernel_velocity import units
from kernel_velocity.ab.bisect import Bisection, bisect, other_code
from kernel_velocity.ab.confirm import Runner, confirm
from kernel_velocity.ab.rounds import Pair, Pairs, Terms, estimates
from kernel_velocity.direction import Better, is_worse
from kernel_velocity.engine.telemetry import Round
from kernel_velocity.findings import evidence
from kernel_velocity.findings.evidence import BisectionPath, Evidence, Look, Purpose, Rerun, Side
from kernel_velocity.findings.finding import Affected, Decision, Finding, Kind, State, slug
from kernel_velocity.names import UNITS_OF_FIGURES
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.identity import Identity
from kernel_velocity.results.records import name_parts
from kernel_velocity.results.sessions import Changes
from kernel_velocity.stats import sequential, two_samples
from kernel_velocity.stats.sequential import LOOKS, Answer, Comparison, Obstacle
from kernel_velocity.stats.two_samples import controlled
from kernel_velocity.verdict.history import SeriesHistory
from kernel_velocity.verdict.moves import Move
from kernel_velocity.verdict.silence import Vanished

# p of a difference: the least of 8 rounds a side is .00016. A night asks of many series, most of which did not change.
P_DIFFERENT = 2e-4
FALSE_DISCOVERIES = 0.05  # expected share among what one night reports (Benjamini and Hochberg, JRSS B 57(1), 1995)
# That ask whether a move is one. With their looks at P_DIFFERENT, chance says so in .3% of cases at most.
MOST_NIGHTS = 4
WHO = "nightly"  # decides first about each finding

EarlierSessions = Mapping[tuple[Identity, str, str], Sequence[tuple[Side, Side]]]  # of a series, before and after


@dataclass(frozen=True, kw_only=True)
class EnvironmentEvent:
    """Series of a machine's device that moved together, or with a change of the machine: no commit is to blame."""

    began: float | None  # Unix time of the first value that shows it, s
    moves: tuple[Move, ...]

    @property
    def changes(self) -> Changes:
        """What changed of the machine."""
        return {fact: change for move in self.moves for fact, change in move.changes.items()}

    @property
    def factor(self) -> float:
        """The factor of the values: the median over its times, or over its errors where no time moved."""
        times = [move.effect for move in self.moves if move.identity.is_timed]
        return math.exp(statistics.median(times or [move.effect for move in self.moves]))


@dataclass(frozen=True, kw_only=True)
class ExaminedSeries:
    """One series that a night examined, with the result."""

    affected: Affected
    better: Better  # which values of its series are
    commits: tuple[str, ...]  # possible causes, oldest first
    anchor: str
    bad: str  # the first commit measured in the history that surely shows it
    how: str
    ruled_out: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Remeasured:
    """What became of the suspicions."""

    cases: list[ExaminedSeries] = field(default_factory=list)  # a test called them different
    unsettled: list[ExaminedSeries] = field(default_factory=list)  # no test settled them
    left: list[Move] = field(default_factory=list)  # no screen shows them, and there was no time to settle them
    # Series and the commit that its move was to have begun with -> a line: the test called them the same
    refuted: dict[tuple[Identity, str], str] = field(default_factory=dict)
    comparisons: list[tuple[Identity, Comparison]] = field(default_factory=list)  # all of them
    reruns: list[Rerun] = field(default_factory=list)
    paths: list[BisectionPath] = field(default_factory=list)  # of the bisections

    @property
    def evidence(self) -> Evidence:
        """Everything that the answers rest on."""
        return Evidence(reruns=tuple(self.reruns), paths=tuple(self.paths))


def pending(
    findings: Iterable[Finding], histories: Iterable[SeriesHistory], already: Container[tuple[Identity, str]]
) -> Iterator[Move]:
    """Yield the moves of suspects that earlier nights left unsettled, if their commits have values.

    No screen fires at them any more: their values have become the level of the new ones.

    Args:
        already: series and first commits of moves that are measured again anyway.
    """
    by_identity = {history.identity: history for history in histories}
    for finding in findings:
        if finding.state not in (State.NEW, State.SUSPECT) or finding.anchor is None or not finding.commits:
            continue
        for series in finding.affected:
            history = by_identity.get(series.identity)
            at = {} if history is None else {observation.commit: observation for observation in history.observations}
            good, bad = at.get(finding.anchor), at.get(finding.bad or finding.commits[-1])
            if history is not None and good and bad and (series.identity, bad.commit) not in already:
                yield Move(history=history, effect=series.effect, good=good, bad=bad, candidates=finding.commits)


def sessions(reruns: Iterable[Rerun], until: float) -> EarlierSessions:
    """Return the sessions of earlier nights that re-runs rest on and that ended before a Unix time, s.

    Later rounds are still at hand where they were measured.
    """
    return {
        (rerun.identity, rerun.before, rerun.after): [sides for sides in rerun.sessions if max(sides[1].began) <= until]
        for rerun in reruns
        if rerun.purpose is Purpose.CONFIRM
    }


def look_again(
    moves: Sequence[Move],
    runner: Runner,
    *,
    budget: float,
    earlier: EarlierSessions | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Remeasured:
    """Measure moves again, both commits in turns, and bisect where several commits are possible.

    Args:
        moves: the most open first. Those of one pair of commits are measured together.
        budget: s of measuring for all of them.
        earlier: sessions of nights before. They count as well.
        say: called with each step.
    """
    pairs: dict[tuple[str, str], dict[Series, Move]] = defaultdict(dict)
    for move in moves:
        if move.identity.is_timed:
            pairs[move.good.commit, move.bad.commit][_series(move.identity)] = move
    again = _Again(runner, runner.clock() + budget, earlier or {})
    for (good, bad), series in pairs.items():
        say(f"looking again at {len(series)} series between {good[:SHORT]} and {bad[:SHORT]}")
        again.measure(good, bad, series)
    again.outcome.cases += [_computed(move) for move in moves if not move.identity.is_timed]
    return again.outcome


def _series(identity: Identity) -> Series:
    return identity.benchmark, (identity.implementation, identity.case)


@dataclass
class _Again:
    """The state of measuring again."""

    runner: Runner
    deadline: float
    earlier: EarlierSessions
    outcome: Remeasured = field(default_factory=Remeasured)
    undecided: dict[Series, str] = field(default_factory=dict)  # why a bisection named no commit

    def measure(self, good: str, bad: str, moves: Mapping[Series, Move]) -> None:
        """Confirm the moves between two commits, bisect the regressions, and sort them by their answers."""
        before = {key: self.earlier.get((move.identity, good, bad), ()) for key, move in moves.items()}
        terms = {key: Terms(level=P_DIFFERENT, earlier=evidence.strata(part)) for key, part in before.items()}
        answers = confirm(self.runner, good, bad, tuple(moves), self._left(), terms=terms)
        for key, nights in before.items():
            rest = f", with the rounds of {units.count(len(nights), 'night')} before" if nights else ""
            answers[key] = replace(answers[key], reason=answers[key].reason + rest)
        moves = {key: self._of_other_code(move) for key, move in moves.items()}
        narrowed = dict(moves)
        slower = {key: move for key, move in moves.items() if answers[key].slower and len(move.candidates) > 1}
        for kernel in dict.fromkeys(move.identity.kernel for move in slower.values()):
            narrowed |= self._bisected({key: m for key, m in slower.items() if m.identity.kernel == kernel}, answers)
        narrowed = {key: self._of_other_code(move) for key, move in narrowed.items()}  # a bisection builds more of them
        for key, move in moves.items():
            self._sort(move, answers[key], narrowed[key].candidates, len(before[key]))
        self._record((good, bad), narrowed, answers, Purpose.CONFIRM)

    def _of_other_code(self, move: Move) -> Move:
        """Return a move without the possible causes that are built and have the code of the commit before them."""
        if len(move.candidates) < 2:
            return move
        left = other_code(self.runner, _series(move.identity), (move.good.commit, *move.candidates))
        return replace(move, candidates=left or move.candidates)

    def _left(self) -> float:
        return max(0.0, self.deadline - self.runner.clock())

    def _bisected(self, moves: dict[Series, Move], answers: Mapping[Series, Comparison]) -> dict[Series, Move]:
        """Return the moves of a kernel with the commits that a bisection leaves.

        The series with the largest step is bisected. Whether its culprit explains the others is measured.
        """
        worst = max(moves, key=lambda key: answers[key].ratio or 0.0)
        move = moves[worst]
        good, bad = move.good.commit, move.bad.commit
        bisection = bisect(self.runner, worst, good, bad, move.candidates, budget=self._left())
        self.outcome.paths.append(
            BisectionPath(
                identity=move.identity,
                good=good,
                bad=bad,
                tried=bisection.tried,
                left=bisection.left,
                reason=bisection.reason,
            )
        )
        commits = _left_by(bisection, move)
        narrowed = {worst: replace(move, candidates=commits)}
        if len(commits) != 1 or bisection.pair is None:
            who = f"{bisection.culprit[:SHORT]}: " if bisection.culprit else ""
            self.undecided[worst] = f"; {who}{bisection.reason}"
            return narrowed
        others = {key: move for key, move in moves.items() if key != worst}
        tests = confirm(self.runner, *bisection.pair, tuple(others), self._left()) if others else {}
        for key, other in others.items():
            narrowed[key] = replace(other, candidates=_theirs(tests[key], other, commits))
        self._record(
            bisection.pair,
            narrowed,
            ({worst: bisection.isolated} if bisection.isolated else {}) | tests,
            Purpose.CULPRIT,
        )
        return narrowed

    def _record(
        self,
        commits: tuple[str, str],
        moves: Mapping[Series, Move],
        answers: Mapping[Series, Comparison],
        purpose: Purpose,
    ) -> None:
        """Record the evidence for answers about two commits. `moves` hold the possible causes of each series."""
        pairs = self.runner.measure_pair(*commits, tuple(answers), 0, -math.inf)  # the rounds at hand
        for key, answer in answers.items():
            is_built = answer.obstacle is not Obstacle.NOT_BUILT
            code = (self.runner.code(commits[0], key), self.runner.code(commits[1], key)) if is_built else (None, None)
            move = moves[key]
            earlier = self.earlier.get((move.identity, *commits), ())
            self.outcome.reruns.append(
                rerun(move.identity, purpose, commits, answer, pairs, left=move.candidates, code=code, earlier=earlier)
            )

    def _sort(self, move: Move, answer: Comparison, commits: tuple[str, ...], nights: int) -> None:
        self.outcome.comparisons.append((move.identity, answer))
        is_last = answer.answer is Answer.UNKNOWN and nights + (answer.rounds > 0) >= MOST_NIGHTS
        refuted = answer.reason if answer.answer is Answer.SAME or is_last else ""
        if answer.answer is Answer.DIFFERENT and answer.ratio is not None:
            case = _case(move, answer, commits)
            why = self.undecided.get(_series(move.identity), "") if len(commits) > 1 else ""
            self.outcome.cases.append(replace(case, how=case.how + why))
            if (answer.ratio - 1) * move.effect < 0:  # the opposite is confirmed, and the move refuted
                refuted = f"{answer.ratio - 1:+.1%}: {answer.reason}"
        elif answer.answer is Answer.UNKNOWN and not refuted and (move.is_shown or answer.suspect):
            self.outcome.unsettled.append(_case(move, answer, commits))
        elif answer.next_look is not None:
            self.outcome.left.append(move)
        if refuted and move.is_shown:
            change = f"{math.exp(move.effect) - 1:+.1%} in the history, but measured again in turns {refuted}"
            line = f"{move.identity} at {move.bad.commit[:SHORT]}: {change}"
            self.outcome.refuted[move.identity, move.bad.commit] = line


def _left_by(bisection: Bisection, move: Move) -> tuple[str, ...]:
    """Return the commits that a bisection leaves: all, if the comparison with the commit before cleared the culprit."""
    if not bisection.left or (bisection.culprit is not None and not (bisection.isolated and bisection.isolated.slower)):
        return move.candidates
    return bisection.left


def _theirs(answer: Comparison, move: Move, culprit: tuple[str, ...]) -> tuple[str, ...]:
    """Return the possible causes of a series' move, given the culprit of another series of its kernel."""
    rest = tuple(sha for sha in move.candidates if sha != culprit[0])
    is_cleared = answer.answer is Answer.SAME and rest
    return culprit if answer.slower else rest if is_cleared else move.candidates


def _case(move: Move, answer: Comparison, commits: tuple[str, ...]) -> ExaminedSeries:
    is_settled = answer.answer is Answer.DIFFERENT
    how = f"measured again in turns with {move.good.commit[:SHORT]}, {answer.rounds} rounds a side: {answer.reason}"
    ruled_out = ["the machine: both sides were measured in the same minutes"] if is_settled else []
    if cleared := len(move.candidates) - len(commits):
        how += f"; bisected over {len(move.candidates)} commits"
        ruled_out.append(f"{cleared} other commits of the range, by bisection")
    return ExaminedSeries(
        affected=Affected(
            identity=move.identity,
            ratio=math.exp(move.effect) if answer.ratio is None else answer.ratio,
            low=answer.low,
            high=answer.high,
            p=answer.p if is_settled else None,
            rounds=answer.rounds or None,
        ),
        better=move.history.better,
        commits=commits,
        anchor=move.good.commit,
        bad=move.bad.commit,
        how=how,
        ruled_out=tuple(ruled_out),
    )


def _computed(move: Move) -> ExaminedSeries:
    """Return the case of a computed value (an error of results, a figure of the code): no re-run would change it."""
    is_error = move.identity.is_error
    what = "an error of results is computed" if is_error else "the compiler's figure is read"
    return ExaminedSeries(
        affected=Affected(identity=move.identity, ratio=math.exp(move.effect), p=0.0),
        better=move.history.better,
        commits=move.candidates,
        anchor=move.good.commit,
        bad=move.bad.commit,
        how=f"{what}, not timed{_figures(move)}",
        ruled_out=("noise: the inputs are the same" if is_error else "noise: the compiler is the same",),
    )


def _figures(move: Move) -> str:
    """Return both values of a computed one: of a change from 0 the ratio tells nothing. "" where they are not known."""
    before, after = move.good.figure, move.bad.figure
    if math.isnan(before + after):
        return ""
    method = name_parts(move.identity.benchmark).state
    unit = "" if move.identity.is_error else f" {UNITS_OF_FIGURES[method.removeprefix('track_')]}"
    return f": {units.plain(before)} to {units.plain(after)}{unit}"


def rerun(
    identity: Identity,
    purpose: Purpose,
    commits: tuple[str, str],
    answer: Comparison,
    pairs: Pairs,
    *,
    left: tuple[str, ...],
    code: tuple[str | None, str | None],
    earlier: Sequence[tuple[Side, Side]] = (),
) -> Rerun:
    """Return the evidence of an answer.

    Args:
        identity: the series. commits: before and after, full SHAs. answer: of the test.
        pairs: all rounds of the two commits, those of the series that others are adjusted by as well.
        left: the possible commits, oldest first. code: what identifies the code that the series ran.
        earlier: sessions of nights before that the answer rests on.
    """
    key = _series(identity)
    before, after, is_adjusted = estimates(pairs, key, answer.rounds) if answer.rounds else ([], [], False)
    pair = pairs[key] if answer.rounds else Pair()
    return Rerun(
        identity=identity,
        purpose=purpose,
        before=commits[0],
        after=commits[1],
        commits=left,
        answer=answer.answer,
        reason=answer.reason,
        floor=answer.floor,
        level=answer.level,
        code=code,
        looks=tuple(_look(pairs, key, rounds, answer, earlier) for rounds in LOOKS if rounds <= answer.rounds),
        earlier=tuple(earlier),
        sides=(
            _side(pair.before[: answer.rounds], before if is_adjusted else ()),
            _side(pair.after[: answer.rounds], after if is_adjusted else ()),
        ),
    )


def _side(rounds: Sequence[Round], adjusted: Sequence[float]) -> Side:
    return Side(
        began=tuple(round_.time for round_ in rounds),
        seconds=tuple(round_.estimate for round_ in rounds),
        adjusted=tuple(math.exp(value) for value in adjusted),
        flags=tuple(" ".join(round_.flags) for round_ in rounds),
    )


def _look(pairs: Pairs, series: Series, rounds: int, answer: Comparison, earlier: Sequence[tuple[Side, Side]]) -> Look:
    """Return the answer of the test after so many rounds a side."""
    before, after, adjusted = estimates(pairs, series, rounds)
    terms = Terms(floor=answer.floor, level=answer.level, earlier=evidence.strata(earlier))
    test = sequential.compare(before, after, adjusted=adjusted, **vars(terms))
    values = [*terms.earlier, (np.asarray(before), np.asarray(after))]
    moved, least, most, _ = two_samples.stratified(values, 1 - answer.level)
    if test.low is None or test.high is None or test.p is None:
        raise ValueError(f"{series}: {rounds} rounds a side are compared without an interval")
    return Look(
        rounds=rounds,
        ratio=math.exp(moved),
        low=test.low,
        high=test.high,
        least=math.exp(least),
        most=math.exp(most),
        p=test.p,
        answer=test.answer,
    )


def discoveries(
    tests: Sequence[tuple[ExaminedSeries, float]], others: Sequence[tuple[float, float]] = ()
) -> tuple[tuple[ExaminedSeries, ...], tuple[ExaminedSeries, ...]]:
    """Return the cases that a night may report, and those that stay suspects.

    It is Benjamini and Hochberg's control with weights whose mean is 1, by which p is divided (Genovese, Roeder and
    Wasserman, Biometrika 93(3), 2006). A case without a test stays a suspect.

    Args:
        tests: cases, each confirmed by a test of its own, with how much its kernel's other series agree (judge.py).
        others: p of everything else that the night tested, with the same. They show the one of hundreds that chance
            confirmed.
    """
    tested = [case for case, _ in tests if case.affected.p is not None]
    weighted = [*((case.affected.p, agreed) for case, agreed in tests if case.affected.p is not None), *others]
    mean = statistics.fmean(agreed for _, agreed in weighted) if tested else 0.0
    adjusted = controlled([min(1.0, p * mean / agreed) for p, agreed in weighted])
    reported = tuple(case for case, p in zip(tested, adjusted, strict=False) if p <= FALSE_DISCOVERIES)
    return reported, tuple(case for case, _ in tests if case not in reported)


def from_cases(
    cases: Iterable[ExaminedSeries], *, state: State, order: Mapping[str, int], when: datetime
) -> tuple[Finding, ...]:
    """Return a finding for each cause. A case that is neither for the worse nor for the better is left out.

    One cause: the same kernel and direction, and ranges of commits with one in common, on whatever machines and with
    whatever parameters. The narrowest ranges come first, so that a wide one joins the range that explains it.

    Args:
        order: commit -> position on the first-parent line.
    """
    causes: dict[tuple[str, bool], list[tuple[list[ExaminedSeries], set[str]]]] = defaultdict(list)
    for case in sorted(cases, key=lambda case: (len(case.commits), [order[sha] for sha in case.commits])):
        if (worse := is_worse(case.better, case.affected.effect)) is None:
            continue
        groups = causes[case.affected.identity.kernel, worse]
        for members, commits in groups:
            if commits & set(case.commits):
                members.append(case)
                commits &= set(case.commits)
                break
        else:
            groups.append(([case], set(case.commits)))
    return tuple(
        _of_cause(members, tuple(sorted(commits, key=order.__getitem__)), state, when)
        for groups in causes.values()
        for members, commits in groups
    )


def _of_cause(cases: Sequence[ExaminedSeries], commits: tuple[str, ...], state: State, when: datetime) -> Finding:
    worst = max(cases, key=lambda case: abs(case.affected.effect))
    kind = Kind.REGRESSION if is_worse(worst.better, worst.affected.effect) else Kind.IMPROVEMENT
    kernel = worst.affected.identity.kernel
    reason = f"{worst.how}; {len(cases)} series" if worst.how else f"{len(cases)} series"
    return Finding(
        id=slug(kernel, kind.value, *(sha[:SHORT] for sha in dict.fromkeys((commits[0], commits[-1])))),
        kind=kind,
        state=state,
        subject=kernel,
        found=when,
        commits=commits,
        anchor=worst.anchor,
        bad=worst.bad,
        how=worst.how,
        ruled_out=tuple(dict.fromkeys(text for case in cases for text in case.ruled_out)),
        affected=tuple(sorted((case.affected for case in cases), key=lambda series: series.identity)),
        decisions=(Decision(when=when, who=WHO, state=state, reason=reason),),
    )


def of_environment(event: EnvironmentEvent, *, when: datetime) -> Finding:
    """Return the finding of an environment event. It names no commit."""
    began = when if event.began is None else datetime.fromtimestamp(event.began, UTC).replace(microsecond=0)
    identity = event.moves[0].identity
    changed = "; ".join(f"{name}: {before} -> {after}" for name, (before, after) in event.changes.items())
    reason = changed or "nothing of what is recorded of the machine changed"
    count = len(event.moves)
    many = "1 series moved" if count == 1 else f"{count} series moved at once, their median"
    return Finding(
        id=slug(identity.machine, identity.device, Kind.ENVIRONMENT.value, f"{began:%Y%m%d-%H%M%S}"),
        kind=Kind.ENVIRONMENT,
        state=State.ENVIRONMENT,
        subject=identity.machine,
        found=began,
        changes=event.changes or None,
        how=f"{many} by a factor of {event.factor:.4g}",
        affected=tuple(Affected(identity=move.identity, ratio=math.exp(move.effect)) for move in event.moves),
        decisions=(Decision(when=when, who=WHO, state=State.ENVIRONMENT, reason=reason),),
    )


def of_vanished(vanished: Iterable[Vanished], order: Mapping[str, int], *, when: datetime) -> tuple[Finding, ...]:
    """Return a finding for each kernel and commit at which series no longer apply.

    Args:
        order: commit -> position on the first-parent line.
    """
    line = sorted(order, key=order.__getitem__)
    causes: dict[tuple[str, str], list[Vanished]] = defaultdict(list)
    for series in vanished:
        causes[series.identity.kernel, series.commit].append(series)
    return tuple(
        Finding(
            id=slug(kernel, Kind.VANISHED.value, commit[:SHORT]),
            kind=Kind.VANISHED,
            state=State.NEW,
            subject=kernel,
            found=when,
            commits=tuple(line[max(order[series.last] for series in group) + 1 : order[commit] + 1]),
            anchor=max((series.last for series in group), key=order.__getitem__),
            bad=commit,
            how="does not apply there, and had a value before",
            affected=tuple(Affected(identity=identity, ratio=1.0) for identity in sorted(s.identity for s in group)),
            decisions=(Decision(when=when, who=WHO, state=State.NEW, reason=f"{len(group)} series have no value"),),
        )
        for (kernel, commit), group in causes.items()
    )
