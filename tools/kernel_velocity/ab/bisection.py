"""Bisect: find the commit that made a series slower. Drives the sequential test through a `Runner`, opens no file.

Every tried commit is compared with GOOD, in turns. The floor of the test is half of the whole step (on the logarithms):
then "different" is the slow side and "same" the fast one, and of several steps in one direction the search finds that
by which more than half of the way is gone. This takes fewer rounds than a floor of 1%: eight tell a step of 10% from
none. The culprit is compared once more, with the commit before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from kernel_velocity.ab.confirm import Runner, confirm, layout
from kernel_velocity.ab.rounds import Terms
from kernel_velocity.findings.evidence import Tried
from kernel_velocity.results.asv_file import Series
from kernel_velocity.runner.backfill import from_middle
from kernel_velocity.stats import sequential
from kernel_velocity.stats.sequential import FLOOR, Answer, Comparison, Obstacle


@dataclass(frozen=True, kw_only=True)
class Bisection:
    """The result of a bisection. `left` is empty if there is nothing to search, and `reason` then says why."""

    series: Series
    tried: tuple[Tried, ...]  # in the order they were tried, BAD first
    left: tuple[str, ...] = ()  # the commits, oldest first, of which one is the culprit
    isolated: Comparison | None = None  # the culprit with the commit before it
    reason: str

    @property
    def whole(self) -> Comparison:
        """The comparison of BAD with GOOD."""
        return self.tried[0].comparison

    @property
    def culprit(self) -> str | None:
        """The one commit that is left."""
        return self.left[0] if len(self.left) == 1 else None


def bisect(
    runner: Runner,
    series: Series,
    good: str,
    bad: str,
    commits: Sequence[str],
    *,
    budget: float = math.inf,
    on_step: Callable[[Tried], None] = lambda step: None,
) -> Bisection:
    """Find the commit that made a series slower.

    Args:
        runner: measures. series: the one in question. good, bad: full SHAs, before and after.
        commits: those after GOOD up to BAD, oldest first, BAD the last.
        budget: s of measuring, for all of it.
        on_step: called with every commit that was tried, BAD first.
    """
    search = _Bisecting(runner, series, (good, *commits), runner.clock() + budget, on_step)
    whole = search.compare(good, bad)
    search.add(Tried(commit=bad, comparison=whole, slow=True if whole.slower else None))
    if not whole.slower or whole.ratio is None:
        return Bisection(series=series, tried=tuple(search.tried.values()), reason=_nothing_to_search(whole))
    low, high = search.narrow(max(FLOOR, math.sqrt(whole.ratio) - 1))
    left = search.line[low + 1 : high + 1]
    isolated = search.compare(search.line[low], search.line[high]) if len(left) == 1 else None
    tried = tuple(search.tried.values())
    return Bisection(series=series, tried=tried, left=left, isolated=isolated, reason=_reason(isolated, tried, left))


def _nothing_to_search(whole: Comparison) -> str:
    if whole.obstacle is not None:
        return f"GOOD and BAD cannot be compared: {whole.reason}"
    if whole.faster:
        return "BAD is faster than GOOD, not slower: swap them to look for what made it faster"
    if whole.answer is Answer.SAME:
        return f"BAD is as fast as GOOD: {whole.reason}"
    return f"whether BAD is slower than GOOD is not settled: {whole.reason}"


def _reason(isolated: Comparison | None, tried: Sequence[Tried], left: Sequence[str]) -> str:
    if isolated is None:
        reasons = dict.fromkeys(step.comparison.reason for step in tried if step.slow is None and step.commit in left)
        return f"one of {len(left)} commits: {'; '.join(reasons) or 'no time is left'}"
    if isolated.slower:
        return "compared with the commit before it, it is slower by itself"
    if isolated.answer is Answer.UNKNOWN:
        return f"whether it is slower than the commit before it is not settled: {isolated.reason}"
    return f"but it is no slower than the commit before it ({isolated.reason}): look at the commits around it"


@dataclass
class _Bisecting:
    """The state of a bisection over `line`: GOOD, then the commits, oldest first, BAD the last."""

    runner: Runner
    series: Series
    line: tuple[str, ...]
    deadline: float
    on_step: Callable[[Tried], None]
    tried: dict[str, Tried] = field(default_factory=dict)

    def add(self, step: Tried) -> None:
        self.tried[step.commit] = step
        self.on_step(step)

    def compare(self, before: str, after: str, floor: float = FLOOR) -> Comparison:
        budget = max(0.0, self.deadline - self.runner.clock())
        return confirm(self.runner, before, after, (self.series,), budget, terms={self.series: Terms(floor=floor)})[
            self.series
        ]

    def narrow(self, floor: float) -> tuple[int, int]:
        """Return the indices of the last fast and the first slow commit, with no commit between them left to settle."""
        low, high = 0, len(self.line) - 1
        while self.runner.clock() < self.deadline:
            index = next((index for index in from_middle(low, high) if self.line[index] not in self.tried), None)
            if index is None:
                break
            step = self._try(self.line[index], (self.line[low], self.line[high]), floor)
            self.add(step)
            low, high = (low, index) if step.slow else (index, high) if step.slow is False else (low, high)
        return low, high

    def _try(self, commit: str, ends: tuple[str, str], floor: float) -> Tried:
        """Build a commit and compare it with GOOD. One with the code of an end of the range is not measured."""
        if (reason := self.runner.prepare(commit)) is not None:
            return Tried(commit=commit, comparison=sequential.not_compared(Obstacle.NOT_BUILT, reason), slow=None)
        code = self.runner.code(commit, self.series)
        for end in ends if code is not None else ():
            if code == self.runner.code(end, self.series):
                return self._like(commit, end)
        comparison = self.compare(self.line[0], commit, floor)
        slow = True if comparison.slower else None if comparison.answer is Answer.UNKNOWN else False
        return Tried(commit=commit, comparison=comparison, slow=slow)

    def _like(self, commit: str, other: str) -> Tried:
        reason = f"the same machine code as {other[:10]}{layout(self.runner, other, commit)}"
        if other not in self.tried:  # GOOD
            return Tried(commit=commit, comparison=sequential.known_same(reason), slow=False)
        step = self.tried[other]
        return replace(step, commit=commit, comparison=replace(step.comparison, reason=reason))
