"""Bisecting: which commit made a series slower. Drives the sequential test through a `Runner`; opens no file.

Every commit tried is compared with GOOD, in turns, by the test of stats/sequential.py with half of the whole step (on
the logarithms) for a floor: "different" is then the slow side, "same" the fast one, and of several steps in one
direction the one is found by which more than half of the way is gone. That takes fewer rounds than a floor of 1%: a
step of 10% is told from none after eight. The commit found is compared once more, with the one before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from kernel_velocity.ab.confirm import Runner, confirm
from kernel_velocity.results.asv_file import Series
from kernel_velocity.stats import sequential
from kernel_velocity.stats.sequential import FLOOR, Answer, Comparison, Obstacle


@dataclass(frozen=True, kw_only=True)
class Step:
    """A commit that was tried."""

    commit: str
    comparison: Comparison  # with GOOD
    slow: bool | None  # whether it has the step; None: it cannot be told


@dataclass(frozen=True, kw_only=True)
class Bisection:
    """What was found. `left` is empty where GOOD and BAD leave nothing to look for; `reason` then says why."""

    series: Series
    whole: Comparison  # BAD with GOOD
    steps: tuple[Step, ...] = ()  # in the order they were tried
    left: tuple[str, ...] = ()  # the commits, oldest first, of which one is the culprit
    own: Comparison | None = None  # the culprit with the commit before it
    reason: str

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
    on_step: Callable[[Step], None] = lambda step: None,
) -> Bisection:
    """Return which commit made a series slower.

    Args:
        runner: measures. series: the one in question. good, bad: full SHAs, before and after.
        commits: those after GOOD up to BAD, oldest first, BAD the last.
        budget: s of measuring, for all of it.
        on_step: is told of every commit that was tried, BAD first.
    """
    deadline = runner.clock() + budget
    whole = confirm(runner, good, bad, (series,), budget)[series]
    on_step(Step(commit=bad, comparison=whole, slow=True if whole.slower else None))
    if not whole.slower or whole.ratio is None:
        return Bisection(series=series, whole=whole, reason=_nothing_to_look_for(whole))
    floor = max(FLOOR, math.sqrt(whole.ratio) - 1)
    search = _Search(runner, series, (good, *commits), floor, deadline, on_step)
    search.known[bad] = Step(commit=bad, comparison=whole, slow=True)
    low, high = search.narrow()
    left = search.line[low + 1 : high + 1]
    steps = tuple(step for commit, step in search.known.items() if commit != bad)
    own = search.own(low, high) if len(left) == 1 else None
    return Bisection(series=series, whole=whole, steps=steps, left=left, own=own, reason=_found(own, steps, left))


def _nothing_to_look_for(whole: Comparison) -> str:
    if whole.obstacle is not None:
        return f"GOOD and BAD cannot be compared: {whole.reason}"
    if whole.faster:
        return "BAD is faster than GOOD, not slower: swap them to look for what made it faster"
    if whole.answer is Answer.SAME:
        return f"BAD is as fast as GOOD: {whole.reason}"
    return f"whether BAD is slower than GOOD is not settled: {whole.reason}"


def _found(own: Comparison | None, steps: Sequence[Step], left: Sequence[str]) -> str:
    if own is None:
        untold = {step.commit: step.comparison.reason for step in steps if step.slow is None and step.commit in left}
        return f"one of {len(left)} commits: {'; '.join(dict.fromkeys(untold.values())) or 'no time is left'}"
    if own.slower:
        return "compared with the commit before it, it is slower by itself"
    if own.answer is Answer.UNKNOWN:
        return f"whether it is slower than the commit before it is not settled: {own.reason}"
    return f"but it is no slower than the commit before it ({own.reason}): look at the commits around it"


@dataclass
class _Search:
    """The state of a bisection over `line`: GOOD, then the commits, oldest first, then BAD."""

    runner: Runner
    series: Series
    line: tuple[str, ...]
    floor: float
    deadline: float
    on_step: Callable[[Step], None]
    known: dict[str, Step] = field(default_factory=dict)

    def narrow(self) -> tuple[int, int]:
        """Return the places of the last fast and the first slow commit between which nothing can be told."""
        low, high = 0, len(self.line) - 1
        while self.runner.clock() < self.deadline:
            middle = (low + high) / 2
            open_ = [place for place in range(low + 1, high) if self.line[place] not in self.known]
            if not open_:
                break
            place = min(open_, key=lambda place: abs(place - middle))
            step = self._try(self.line[place], self.line[low], self.line[high])
            self.known[step.commit] = step
            self.on_step(step)
            low, high = (low, place) if step.slow else (place, high) if step.slow is False else (low, high)
        return low, high

    def _try(self, commit: str, fast: str, slow: str) -> Step:
        """Return what is known of a commit after building it, and measuring it where its code is a new one."""
        if (reason := self.runner.prepare(commit)) is not None:
            return Step(commit=commit, comparison=sequential.not_compared(Obstacle.NOT_BUILT, reason), slow=None)
        code = self.runner.code(commit, self.series)
        for other in (fast, slow) if code is not None else ():
            if code == self.runner.code(other, self.series):
                return self._like(commit, other)
        found = self._compare(self.line[0], commit, self.floor)
        slow_ = True if found.slower else None if found.answer is Answer.UNKNOWN else False
        return Step(commit=commit, comparison=found, slow=slow_)

    def _like(self, commit: str, other: str) -> Step:
        """Return a commit with the code of one that is known, or of GOOD, without measuring it."""
        reason = f"the same machine code as {other[:10]}"
        if other not in self.known:
            return Step(commit=commit, comparison=sequential.known_same(reason), slow=False)
        step = self.known[other]
        return replace(step, commit=commit, comparison=replace(step.comparison, reason=reason))

    def _compare(self, before: str, after: str, floor: float) -> Comparison:
        budget = max(0.0, self.deadline - self.runner.clock())
        return confirm(self.runner, before, after, (self.series,), budget, floors={self.series: floor})[self.series]

    def own(self, low: int, high: int) -> Comparison:
        """Return what the commit at `high` differs by from the one before it."""
        return self._compare(self.line[low], self.line[high], FLOOR)
