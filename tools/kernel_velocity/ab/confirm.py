"""Confirm a difference: two commits measured in turns, with more and more rounds until every series has an answer.

Drives the sequential test (stats/sequential.py) through a `Runner`: asv's (ab/session.py), or a simulated machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from kernel_velocity.ab.rounds import Pair, Terms, judge
from kernel_velocity.results.asv_file import Series
from kernel_velocity.stats import sequential
from kernel_velocity.stats.sequential import Answer, Comparison, Obstacle
from kernel_velocity.verdict.ranges import is_same_code

GOES_ON = "the same command goes on from here"  # where a budget ended
FIRST = 8  # series of a first look, until it is known what a round takes: more may not fit into the budget


class Runner(Protocol):
    """A machine that builds and measures commits (full SHAs)."""

    def prepare(self, commit: str) -> str | None:
        """Build a commit unless it is built. Return why it cannot be, in one line, or None."""

    def code(self, commit: str, series: Series) -> str | None:
        """Return what identifies the code that a series of a built commit runs. None where that is unknown."""

    def placement(self, commit: str) -> str | None:
        """Return what identifies the place of all machine code in the libraries of a built commit. None: unknown."""

    def measure_pair(
        self, before: str, after: str, series: Sequence[Series], rounds: int, deadline: float
    ) -> Mapping[Series, Pair]:
        """Measure series of two built commits in turns, up to `rounds` rounds a side, and return all rounds.

        Rounds of an earlier, interrupted session count. With 0 nothing is measured. It ends at the deadline (of
        `clock`) with the rounds that it has. It may return more series than these, to adjust them by.
        """

    def clock(self) -> float:
        """Return the time, s."""


def confirm(
    runner: Runner,
    anchor: str,
    suspect: str,
    series: Sequence[Series],
    budget: float,
    *,
    terms: Mapping[Series, Terms] | None = None,
    on_look: Callable[[str], object] = lambda line: None,
) -> dict[Series, Comparison]:
    """Return the difference of two commits, series by series. One with the same machine code is not measured.

    Args:
        runner: measures them. anchor, suspect: full SHAs, before and after.
        series: those to compare first come first.
        budget: s of measuring, builds apart. Where it is short, the smallest p comes first.
        terms: of the tests, where they are not the usual ones.
        on_look: gets a line after each look that leaves series without an answer.
    """
    for commit in (anchor, suspect):
        if (reason := runner.prepare(commit)) is not None:
            return dict.fromkeys(series, sequential.not_compared(Obstacle.NOT_BUILT, reason))
    answers = unchanged(runner, anchor, suspect, series)
    rest = tuple(key for key in series if key not in answers)
    if rest:
        answers |= _Session(runner, anchor, suspect, rest, runner.clock() + budget, terms or {}, on_look).measure()
    return {key: answers[key] for key in series}


def unchanged(runner: Runner, before: str, after: str, series: Sequence[Series]) -> dict[Series, Comparison]:
    """Return the series that run the same machine code at two built commits as the same, without measuring them."""
    return {
        key: sequential.known_same(f"the machine code is unchanged{layout(runner, before, after)}")
        for key in series
        if is_same_code(runner.code(before, key), runner.code(after, key))
    }


def layout(runner: Runner, before: str, after: str) -> str:
    """Return in words whether shared code of two builds lies at the same addresses. "" if unknown."""
    layouts = runner.placement(before), runner.placement(after)
    if None in layouts:
        return ""
    return ", in the same place" if layouts[0] == layouts[1] else ": only its place in the library can differ"


def so_far(answers: Mapping[Series, Comparison]) -> str:
    """Return what a look showed, and how large a change of the other series could still be. "" before the first."""
    looked = [answer for answer in answers.values() if answer.low is not None and answer.high is not None]
    open_ = [answer for answer in looked if answer.answer is Answer.UNKNOWN]
    if not open_:
        return ""
    words = {
        "slower": sum(answer.slower for answer in looked),
        "faster": sum(answer.faster for answer in looked),
        "the same": sum(answer.answer is Answer.SAME for answer in looked),
    }
    widest = max(max(answer.high or 1.0, 1 / (answer.low or 1.0)) - 1 for answer in open_)
    rounds = max(answer.rounds for answer in looked)
    settled = ", ".join(f"{count} {word}" for word, count in words.items())
    return f"after {rounds} rounds a side: {settled}; the intervals of {len(open_)} more reach {100 * widest:.2g}%"


@dataclass
class _Session:
    """The state of one confirmation."""

    runner: Runner
    before: str
    after: str
    series: tuple[Series, ...]
    deadline: float
    terms: Mapping[Series, Terms]
    on_look: Callable[[str], object]
    stuck: set[Series] = field(default_factory=set)  # got no further round when they were measured last, in time
    pairs: dict[Series, Pair] = field(default_factory=dict)
    cost: float = 0.0  # s of a round of one series on both sides; 0 before the first measurement

    def measure(self) -> dict[Series, Comparison]:
        """Measure until every series is settled, or the budget allows no further look."""
        self.pairs.update(self.runner.measure_pair(self.before, self.after, self.series, 0, self.deadline))
        while True:
            answers = judge(self.pairs, self.series, self.terms)
            chosen, look = self._next(answers)
            if not chosen:
                return {key: self._explained(key, answer) for key, answer in answers.items()}
            if line := so_far(answers):
                self.on_look(line)
            self._bring_to(look, chosen)

    def _bring_to(self, look: int, chosen: Sequence[Series]) -> None:
        began, earlier = self.runner.clock(), {key: self._rounds(key) for key in chosen}
        self.pairs.update(self.runner.measure_pair(self.before, self.after, chosen, look, self.deadline))
        gained = {key: self._rounds(key) - earlier[key] for key in chosen}
        if self.runner.clock() < self.deadline:
            self.stuck |= {key for key, rounds in gained.items() if rounds <= 0}
        if (rounds := sum(gained.values())) > 0:
            self.cost = (self.runner.clock() - began) / rounds

    def _rounds(self, key: Series) -> int:
        return self.pairs[key].rounds if key in self.pairs else 0

    def _next(self, answers: Mapping[Series, Comparison]) -> tuple[list[Series], int]:
        """Return the series to measure and up to how many rounds. None where no look fits into the time left."""
        looks = {key: answer.next_look for key, answer in answers.items() if answer.next_look and key not in self.stuck}
        look = min(looks.values(), default=0)
        p = {key: math.inf if (p := answers[key].p) is None else p for key in looks if looks[key] == look}
        left = self.deadline - self.runner.clock()
        chosen: list[Series] = []
        for key in sorted(p, key=p.__getitem__)[: None if self.cost else FIRST]:
            left -= self.cost * (look - self._rounds(key))
            if left > 0:
                chosen.append(key)
        return chosen, look

    def _explained(self, key: Series, answer: Comparison) -> Comparison:
        """Return an answer. An unsettled one says, too, why no more was measured."""
        if answer.answer is not Answer.UNKNOWN or answer.obstacle is not None:
            return answer
        why = f"more than {answer.rounds} rounds are never measured"
        if answer.next_look is not None:
            missing = self.cost * (answer.next_look - self._rounds(key)) / 60
            amount = f", about {missing:.1f} minutes more" if missing else ""
            why = f"the budget ended before {answer.next_look} rounds a side{amount}"
        if key in self.stuck:
            why = "asv measured no round more"
        return replace(answer, reason=f"{answer.reason}; {why}")
