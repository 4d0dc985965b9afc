"""Judge the values of a night: suspects before anything is measured again, findings afterwards. Pure.

The commits of a night are judged one after the other, oldest first, as if each had had a night of its own: so a
regression is found that a later commit of the same night took back. What moved, and whether the machine did it, is what
the pages say (verdict/moves.py). Every other move is measured again, and so is every series whose code changed.

Series of one kernel, device and implementation, on whatever machine, share a cause: their agreement raises a finding,
its lack lowers it.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from datetime import datetime
from statistics import NormalDist

import numpy as np

from kernel_velocity.findings import decisions, finding
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.finding import Finding, Kind, RecordedStep, State
from kernel_velocity.findings.store import NO_MEMORY, Memory, Noted
from kernel_velocity.nightly import confirm
from kernel_velocity.nightly.confirm import WHO, EnvironmentEvent, ExaminedSeries, Remeasured
from kernel_velocity.results import sessions
from kernel_velocity.results.identity import DEVICE, Identity, Slot
from kernel_velocity.stats.changepoints import search
from kernel_velocity.stats.changepoints.search import BLOCK, MARGIN
from kernel_velocity.stats.changepoints.values import MIN_EFFECT
from kernel_velocity.stats.sequential import Answer
from kernel_velocity.verdict import moves, silence
from kernel_velocity.verdict.history import Observation, SeriesHistory, floor_of, threshold
from kernel_velocity.verdict.moves import Move
from kernel_velocity.verdict.ranges import is_other_code, is_same_code, scatter

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
                before = [entry.value for entry in history.observations if entry.position < min(positions)]
                after = [entry.value for entry in history.observations if entry.position >= max(positions)]
                if before and after:
                    levels = before[-VALUES_OF_LEVEL:], after[:VALUES_OF_LEVEL]
                    shifts[history.identity] = statistics.median(levels[1]) - statistics.median(levels[0])
        return self._shifts[key]

    def weight(self, of: Identity, commits: tuple[str, ...], *, rises: bool) -> float:
        """Return the share of the other series that moved the same way by MIN_EFFECT, by Laplace's rule of succession.

        It follows from the histories. A test of a re-run, whose rounds are others, is independent of it.
        """
        others = [shift for identity, shift in self.shifts(of, commits).items() if identity != of]
        alike = sum((shift if rises else -shift) >= MIN_EFFECT for shift in others)
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


JUDGED = 3 * BLOCK  # newest values: the detector searches two blocks and the one that fills
STAYS = 2  # values after the one that was refuted: a mean of two has that one in it, and chance chose it
FEWEST_OF_EVENT = 2  # series that move together, where no change of the machine is known; and
SHARE_OF_EVENT = 0.1  # of the series of the device: with hundreds of them two move by chance in many a night


@dataclass(frozen=True, kw_only=True)
class Suspicions:
    """The result of judging the values of a night, before anything is measured again."""

    suspects: tuple[Move, ...]  # to be confirmed; the most open first
    events: tuple[EnvironmentEvent, ...]
    judged: frozenset[Identity]  # series with a value of this night
    waiting: frozenset[Identity] = frozenset()  # moved as a re-run of an earlier night refuted, and not for long yet

    @property
    def measured(self) -> int:
        """Series of kernels with a value of this night. Ceilings and figures alone are no night's work."""
        return sum(identity.kernel != DEVICE and not identity.is_figure for identity in self.judged)


@dataclass
class Night:
    """The values of a night, judged commit by commit, oldest first. A move at one commit is explained for the next.

    Of a series whose code changed, what does not move is suspected, too. A move that a re-run refuted is not measured
    again while the code is the same. If it stays, it is the machine's.
    """

    histories: Sequence[SeriesHistory]
    _: KW_ONLY
    line: Sequence[str]  # the commits of the first-parent line, oldest first
    idle: Collection[str] = ()  # those that touched nothing that a build depends on
    since: float  # when the night began, Unix time, s
    explained: InitVar[Iterable[RecordedStep]]  # moves that earlier nights recorded
    again: str | None = None  # the commit that tonight measured although it had been measured before
    memory: InitVar[Memory] = NO_MEMORY  # of the night before

    def __post_init__(self, explained: Iterable[RecordedStep], memory: Memory) -> None:
        self._steps = [*explained]
        self._moves: dict[tuple[Identity, str], Move] = {}  # to be measured again
        self._events: list[EnvironmentEvent] = []
        self._waiting: set[Identity] = set()
        self._refuted = {noted.identity: noted for noted in memory.refuted}
        self._start = {noted.identity: noted.commit for noted in memory.left}  # the code is examined from here on

    def suspicions(self) -> Suspicions:
        """Judge every commit of the night, and return the result."""
        measured = [
            (entry.position, history.identity)
            for history in self.histories
            for entry in history.observations
            if _is_of_tonight(entry, self.since)
        ]
        for position in sorted({position for position, _ in measured}):
            self._judge_commit(position)
        changes = (self._code_change(prepared(history, self.since, self._steps)) for history in self.histories)
        suspects = [*self._moves.values(), *(move for move in changes if move is not None)]
        return Suspicions(
            suspects=tuple(sorted(suspects, key=lambda move: (-openness(move), -abs(move.effect), move.identity))),
            events=tuple(self._events),
            judged=frozenset(identity for _, identity in measured),
            waiting=frozenset(self._waiting),
        )

    def _judge_commit(self, position: int) -> None:
        """Judge the values of the commit at a position on the line."""
        until = (_until(history, position) for history in self.histories)
        here = [
            prepared(history, self.since, self._steps)
            for history in until
            if history is not None and _is_of_tonight(history.newest, self.since)
        ]
        moved = self._new(here, [*moves.of_histories(here, self.line, self.idle)])
        for device, series in sorted(Counter(map(_device, here)).items()):
            self._judge_device([move for move in moved if _device(move.history) == device], series)

    def _new(self, here: Iterable[SeriesHistory], moved: Sequence[Move]) -> list[Move]:
        """Return the moves of the newest values, and those that earlier nights could not see in fewer values."""
        older = {move.identity for move in moved if not _is_of_newest(move)}
        earlier = [
            replace(history, observations=entries)
            for history in here
            if history.identity in older
            and (entries := tuple(entry for entry in history.observations if not _is_of_tonight(entry, self.since)))
        ]
        before = [*moves.of_histories(earlier, self.line, self.idle)]
        return [move for move in moved if _is_of_newest(move) or not any(_is_alike(move, other) for other in before)]

    def _judge_device(self, moved: Sequence[Move], series: int) -> None:
        """Take the moves of a machine's device, of so many series, as suspects, or as one event."""
        blamed = [move for move in moved if move.is_machines or _is_computed_anew(move)]
        suspects = [move for move in moved if move not in blamed and move.worse is not None]
        # A step of few values is also seen by chance. To record that would move what every later night expects
        least = max(FEWEST_OF_EVENT, SHARE_OF_EVENT * series)
        if any(move.changes for move in blamed) or len(blamed) >= least:
            self._record(blamed, self._first_shown(blamed[0].history))
            for move in blamed:
                if move.candidates and move.identity.is_timed:  # only a re-run tells the part of changed code
                    self._measure(move)
        for move in suspects:
            self._suspect(move)

    def _suspect(self, move: Move) -> None:
        """Have a move measured again. One that a re-run refuted waits, and is the machine's if it stays."""
        entries = _since(move, self._refuted.get(move.identity))
        if not entries:
            self._measure(move)
            self._steps.append(RecordedStep(identity=move.identity, effect=move.effect, position=move.bad.position))
        elif len(entries) <= STAYS:
            self._waiting.add(move.identity)
        else:
            self._waiting.discard(move.identity)
            self._record([move], entries[0].measured)
            if not is_same_code(entries[0].code, entries[-1].code):
                self._measure(move)

    def _measure(self, move: Move) -> None:
        """Have a move measured again, over tonight's change of the code where that can have caused it."""
        change = self._code_change(move.history)
        if change is not None and set(change.candidates) & set(move.candidates):
            self._start[change.identity] = change.bad.commit
            move = replace(change, effect=move.effect, point=move.point, is_shown=True)
        self._moves.setdefault((move.identity, move.bad.commit), move)

    def _record(self, moved: Sequence[Move], began: float | None) -> None:
        self._events.append(EnvironmentEvent(began=began, moves=tuple(sorted(moved, key=lambda move: move.identity))))
        self._steps += [RecordedStep(identity=move.identity, effect=move.effect, since=began) for move in moved]

    def _first_shown(self, of: SeriesHistory) -> float:
        """Return when the first value of tonight was measured under the same facts of the same machine, Unix time, s.

        Rounds of a night's commits are interleaved, and asv ends with the oldest: by its own newest value an event
        would begin after values that show it.
        """
        return min(
            observation.measured or math.inf
            for history in self.histories
            if _device(history) == _device(of)
            for observation in history.observations
            if _is_of_tonight(observation, self.since) and observation.facts == of.newest.facts
        )

    def _code_change(self, history: SeriesHistory) -> Move | None:
        start = self._start.get(history.identity)
        return code_change(history, self.line, self.since, self.again, start, idle=self.idle)


def _is_of_tonight(entry: Observation, since: float) -> bool:
    return entry.measured is not None and entry.measured >= since


def _is_of_newest(move: Move) -> bool:
    return move.point is None or move.point.index >= len(move.history.observations) - search.SHORTER


def _is_alike(move: Move, other: Move) -> bool:
    """Return whether two moves of one series are the same step, whose place is known to within MARGIN values."""
    if move.identity != other.identity or move.point is None or other.point is None:
        return False
    return move.effect * other.effect > 0 and abs(move.point.index - other.point.index) <= MARGIN


def _device(history: SeriesHistory) -> tuple[str, str]:
    return history.identity.machine, history.identity.device


def _is_computed_anew(move: Move) -> bool:
    """Return whether a computed value moved with what computes it: an error of results, or a figure of the code."""
    if move.identity.is_timed:
        return False
    return bool((sessions.NUMERICS if move.identity.is_error else sessions.COMPILERS) & move.changes.keys())


def prepared(history: SeriesHistory, since: float, explained: Sequence[RecordedStep] = ()) -> SeriesHistory:
    """Return a series as a night judges it: moved by its explained steps, with the floor of earlier sessions."""
    steps = [step for step in explained if step.identity == history.identity]
    observations = tuple(
        _moved(entry, [step for step in steps if _is_before(entry, step)]) for entry in history.observations
    )
    earlier = [entry for entry in observations if not _is_of_tonight(entry, since)]
    floor = floor_of(history.identity, earlier) if history.floor is None else history.floor
    return replace(history, observations=observations, floor=floor)


def _moved(entry: Observation, steps: Sequence[RecordedStep]) -> Observation:
    """Return an observation at the level after some steps. Those of no commit were the machine's."""
    machine = sum(step.effect for step in steps if step.position is None)
    whole = machine + sum(step.effect for step in steps if step.position is not None)
    return replace(entry, value=entry.value + whole, machine=entry.machine + machine) if steps else entry


def _is_before(entry: Observation, step: RecordedStep) -> bool:
    if step.position is not None:
        return entry.position < step.position
    return step.since is not None and entry.measured is not None and entry.measured < step.since


def code_change(
    history: SeriesHistory,
    line: Sequence[str],
    since: float,
    again: str | None = None,
    left: str | None = None,
    *,
    idle: Collection[str] = (),
) -> Move | None:
    """Return the change of a series' code tonight, whether or not its values show it. None where it has none.

    Args:
        line: the commits of the first-parent line, oldest first. since: when the night began, Unix time, s.
        again: the commit that tonight measured although it had been measured before.
        left: the commit since which an earlier night had no time to examine its code.
        idle: commits of the line that no build depends on.
    """
    entries = history.observations
    tonight = [entry.commit != again and _is_of_tonight(entry, since) for entry in entries]
    start = next((number for number, entry in enumerate(entries) if entry.commit == left), None)
    if history.identity.is_control or not history.identity.is_timed or (start is None and not any(tonight)):
        return None
    good = tonight.index(True) - 1 if start is None else start
    bad = max((number for number, is_tonights in enumerate(tonight) if is_tonights), default=len(entries) - 1)
    if good < 0 or not is_other_code(entries[good].code, entries[bad].code):
        return None
    candidates = moves.candidates_of(history.identity, entries[good : bad + 1], line, idle)
    if not candidates:
        return None
    level = statistics.median(entry.value for entry in entries[max(0, good - VALUES_OF_LEVEL) : good + 1])
    return Move(
        history=history,
        effect=entries[bad].value - level,
        good=entries[good],
        bad=entries[bad],
        candidates=candidates,
        is_shown=False,
    )


def openness(move: Move) -> float:
    """Return the probability that a move is relevant, from its values. Certain and doubtful moves are open.

    The newest value is off its level by as much as sessions scatter. What is surely less than MIN_EFFECT is settled.
    """
    logs = np.array([entry.value for entry in move.history.observations[:-1]])
    noise = NormalDist(abs(move.effect), scatter(logs))
    return 1 - noise.cdf(MIN_EFFECT) + noise.cdf(-MIN_EFFECT)


def remembered(measured: Iterable[Move], outcome: Remeasured, suspected: Suspicions, before: Memory) -> Memory:
    """Return what the next night continues from: this night's state, and older state of series not measured tonight."""

    def noted(earlier: Iterable[Noted], new: Iterable[tuple[Move, Observation]]) -> tuple[Noted, ...]:
        rest = (series for series in earlier if series.identity not in suspected.judged - suspected.waiting)
        notes = (Noted(identity=move.identity, commit=at.commit, ratio=math.exp(move.effect)) for move, at in new)
        return (*rest, *notes)

    refuted = [(move, move.bad) for move in measured if (move.identity, move.bad.commit) in outcome.refuted]
    left = [(move, move.good) for move in outcome.left]
    return Memory(refuted=noted(before.refuted, refuted), left=noted(before.left, left))


def _since(move: Move, noted: Noted | None) -> tuple[Observation, ...]:
    """Return the observations since a re-run refuted this move. None if the move differs, or grew enough."""
    if noted is None or not 0 < move.effect / noted.effect < 1 + threshold(move.history) / abs(noted.effect):
        return ()
    return tuple(itertools.dropwhile(lambda observation: observation.commit != noted.commit, move.history.observations))


def _until(history: SeriesHistory, position: int) -> SeriesHistory | None:
    """Return the newest values of a history up to the commit at a position. None if that commit has no value."""
    observations = tuple(entry for entry in history.observations if entry.position <= position)[-JUDGED:]
    if not observations or observations[-1].position != position:
        return None
    return replace(history, observations=observations)


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
    events = [_without(event, outcome.cases) for event in suspected.events]
    reported, doubtful = confirm.discoveries(list(zip(outcome.cases, weights, strict=True)), others)
    new: list[Finding] = []
    for group, state in ((reported, State.CONFIRMED), ((*doubtful, *outcome.unsettled), State.SUSPECT)):
        new += confirm.from_cases(group, state=state, order=order, when=when)
    new += [confirm.of_environment(event, when=when) for event in events if event is not None]
    new += confirm.of_vanished(silence.vanished(histories, absent, order), order, when=when)
    by_id = {record.id: record for record in recorded}
    for record in new:
        whole = agreement.counted(finding.joined(by_id.values(), record))
        by_id[whole.id] = whole
    steps = finding.known_steps([record for record in by_id.values() if record.kind is Kind.ENVIRONMENT], order)
    level = {history.identity: prepared(history, math.inf, steps) for history in histories}  # of the machine of today
    ended, expected = silence.superseded(histories), tuple(expectations)

    def today(record: Finding) -> Finding:
        record = decisions.refuted(record, outcome.refuted, who=WHO, when=when)
        record = decisions.refreshed(record, who=WHO, when=when)
        record = decisions.expected(record, expected, when=when)
        record = decisions.superseded(record, ended, who=WHO, when=when)
        if record.decisions and record.decisions[-1].when == when:
            return record  # reported tonight, also where a later commit of the night made up for it
        return decisions.resolved(record, level, order, who=WHO, when=when)

    return tuple(decisions.taken_back(map(today, by_id.values()), order, who=WHO, when=when))


def _without(event: EnvironmentEvent, confirmed: Iterable[ExaminedSeries]) -> EnvironmentEvent | None:
    """Return an event without the series that a commit explains. None if no series is left."""
    effects = {case.affected.identity: case.affected.effect for case in confirmed}
    rest = [replace(move, effect=move.effect - effects.get(move.identity, 0.0)) for move in event.moves]
    left = tuple(move for move in rest if abs(move.effect) >= threshold(move.history))
    return replace(event, moves=left) if left else None
