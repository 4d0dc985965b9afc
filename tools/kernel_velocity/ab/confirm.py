"""Confirming: two commits measured in turns, more and more rounds, until every series has its answer or time is over.

Drives the sequential test (stats/sequential.py) through a `Runner`: asv's (ab/session.py), or a simulated machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from kernel_velocity.ab.rounds import Pair, judge
from kernel_velocity.results.asv_file import Series
from kernel_velocity.stats import sequential
from kernel_velocity.stats.sequential import Answer, Comparison, Obstacle


class Runner(Protocol):
    """A machine that builds and measures commits (full SHAs)."""

    def prepare(self, commit: str) -> str | None:
        """Build a commit unless it is built; return why it cannot be, in one line, or None."""

    def code(self, commit: str, series: Series) -> str | None:
        """Return what identifies the code that a series of a built commit runs; None where that is not known."""

    def measure_pair(
        self, before: str, after: str, series: Sequence[Series], rounds: int, deadline: float
    ) -> Mapping[Series, Pair]:
        """Bring some series of two built commits to `rounds` rounds a side, in turns; return all rounds there are.

        Those of an earlier, interrupted session count; with 0 nothing is measured. At the deadline (of `clock`) it ends
        wherever it is, and keeps what was measured. It may return more series than these, to adjust them by.
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
    floors: Mapping[Series, float] | None = None,
    measure_unchanged: bool = False,
) -> dict[Series, Comparison]:
    """Return what two commits differ by, series by series.

    Args:
        runner: measures them. anchor, suspect: full SHAs, before and after.
        budget: s of measuring; building does not count. The most pressing series come first where it is short.
        floors: relative changes that count, where it is known that 1% is too little.
        measure_unchanged: measure what runs the same machine code on both sides, too.
    """
    for commit in (anchor, suspect):
        if (reason := runner.prepare(commit)) is not None:
            return dict.fromkeys(series, sequential.not_compared(Obstacle.NOT_BUILT, reason))
    known = {} if measure_unchanged else unchanged(runner, anchor, suspect, series)
    wanted = tuple(one for one in series if one not in known)
    if wanted:
        known |= _Session(runner, anchor, suspect, wanted, runner.clock() + budget, floors or {}).measure()
    return {one: known[one] for one in series}


def unchanged(runner: Runner, before: str, after: str, series: Sequence[Series]) -> dict[Series, Comparison]:
    """Return the series that run the same machine code at two built commits: the same, without a measurement."""
    if before == after:
        return dict.fromkeys(series, sequential.known_same("one and the same commit"))
    found = {}
    for one in series:
        code = runner.code(before, one)
        if code is not None and code == runner.code(after, one):
            found[one] = sequential.known_same("the machine code is unchanged")
    return found


@dataclass
class _Session:
    """The state of one confirmation."""

    runner: Runner
    before: str
    after: str
    series: tuple[Series, ...]
    deadline: float
    floors: Mapping[Series, float]
    stuck: set[Series] = field(default_factory=set)  # got no round more when they were measured last
    pairs: dict[Series, Pair] = field(default_factory=dict)
    cost: float = 0.0  # s of a round of one series on both sides; 0: nothing was measured yet

    def measure(self) -> dict[Series, Comparison]:
        """Measure until every series is settled, or no further look can be paid for."""
        self.pairs.update(self.runner.measure_pair(self.before, self.after, self.series, 0, self.deadline))
        while True:
            found = judge(self.pairs, self.series, self.floors)
            chosen, look = self._next(found)
            if not chosen:
                return {one: self._in_words(one, item) for one, item in found.items()}
            self._bring_to(look, chosen)

    def _bring_to(self, look: int, chosen: Sequence[Series]) -> None:
        began, had = self.runner.clock(), {one: self._rounds(one) for one in chosen}
        self.pairs.update(self.runner.measure_pair(self.before, self.after, chosen, look, self.deadline))
        gained = {one: self._rounds(one) - had[one] for one in chosen}
        self.stuck |= {one for one, rounds in gained.items() if rounds <= 0}
        if (rounds := sum(gained.values())) > 0:
            self.cost = (self.runner.clock() - began) / rounds

    def _rounds(self, one: Series) -> int:
        return self.pairs[one].rounds if one in self.pairs else 0

    def _next(self, found: Mapping[Series, Comparison]) -> tuple[list[Series], int]:
        """Return the series to measure and up to how many rounds; none where no look fits into the time left."""
        looks = {one: item.next_look for one, item in found.items() if item.next_look and one not in self.stuck}
        look = min(looks.values(), default=0)
        waiting = sorted((one for one in looks if looks[one] == look), key=lambda one: _least_pressing(found[one]))
        left = self.deadline - self.runner.clock()
        chosen: list[Series] = []
        for one in waiting:
            left -= self.cost * (look - self._rounds(one))
            if left > 0:
                chosen.append(one)
        return chosen, look

    def _in_words(self, one: Series, item: Comparison) -> Comparison:
        """Return an answer; of one that is not settled, its reason goes on with why no more was measured."""
        if item.answer is not Answer.UNKNOWN or item.obstacle is not None:
            return item
        if one in self.stuck:
            return replace(item, reason=f"{item.reason}; asv measured no round more")
        if item.next_look is None:
            return replace(item, reason=f"{item.reason}; more than {item.rounds} rounds are never measured")
        return replace(item, reason=f"{item.reason}; the budget ended before {item.next_look} rounds a side")


def _least_pressing(item: Comparison) -> float:
    """Return how little a series asks for more rounds: what looks most like a change comes first."""
    return math.inf if item.p is None else item.p
