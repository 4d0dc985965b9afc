"""``kv bisect BENCH GOOD BAD``: find the commit that made a benchmark slower.

Searches the first-parent commits after GOOD up to BAD, without those that no build depends on. Commits that do not
build are passed over. Those with the machine code of a tried commit are not measured, and those with the machine code
of the commit before them are no candidates. After an interruption, the same command resumes with the wheels and rounds
it has.

Every tried commit is compared with GOOD, in turns. The floor of the test is half of the whole step (on the logarithms):
then "different" is the slow side and "same" the fast one, and of several steps in one direction the search finds that
by which more than half of the way is gone. This takes fewer rounds than a floor of 1%: eight tell a step of 10% from
none. The culprit is compared once more, with the commit before it. Where one of these two has the code of a tried
commit, that one's rounds count: the same two builds are not measured anew.

Exit status: 0 the commit was found, 11 it is one of several, or whether BAD is slower is not settled, 20 the benchmark
fails at GOOD or BAD, 21 one of those does not build, 22 too few rounds to compare them, 2 there is nothing to search
for, or usage.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from kernel_velocity.ab import gate_report
from kernel_velocity.ab.confirm import GOES_ON, Runner, confirm, layout
from kernel_velocity.ab.rounds import Terms
from kernel_velocity.ab.session import AsvRunner
from kernel_velocity.errors import BenchmarkFailed, BuildFailed, UsageError
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.evidence import Tried
from kernel_velocity.findings.report import commit_line
from kernel_velocity.names import DEVICES
from kernel_velocity.results import git
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.git import between, resolve
from kernel_velocity.results.records import Commit
from kernel_velocity.runner import select
from kernel_velocity.runner.backfill import from_middle
from kernel_velocity.runner.checks import add_measuring_arguments, measuring, seconds
from kernel_velocity.runner.host import device
from kernel_velocity.stats import sequential
from kernel_velocity.stats.sequential import FLOOR, Answer, Comparison, Obstacle
from kernel_velocity.statuses import Status
from kernel_velocity.suite import config
from kernel_velocity.verdict.ranges import Value, commits_between, is_same_code

BISECT_MINUTES = 60.0  # minutes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "bench", metavar="BENCH", help="a benchmark, such as matmul.Cpu.time_hot, or a regular expression"
    )
    parser.add_argument("good", metavar="GOOD", help="an older commit, at which it was fast")
    parser.add_argument("bad", metavar="BAD", help="a newer commit, at which it is slow")
    parser.add_argument("--case", help="the test case, such as float32-1M; needed if BENCH has several")
    parser.add_argument("--implementation", default="native", help="the implementation (default native)")
    add_measuring_arguments(parser, BISECT_MINUTES)


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Bisect, print the path and the culprit, write the evidence. Return the exit status."""
    budget = seconds(args.budget)
    with measuring(args.root, err, wait=args.wait, lock_clocks=args.lock_clocks):
        good, bad = (resolve(Path(), role, text) for role, text in (("GOOD", args.good), ("BAD", args.bad)))
        line = between(Path(), good, bad)
        idle = git.idle(Path(), f"{good}..{bad}")
        line = tuple(sha for sha in line if sha not in idle) or tuple(line)
        series = _series(args)
        commits = git.read(Path(), [good, *line, bad]).commits
        print(
            f"{gate_report.name(series)}: {len(line)} commits\nGOOD {commit_line(commits[good])}", file=out, flush=True
        )
        runner = AsvRunner(Path(), device=device(), err=err, again=args.again)

        def show(step: Tried) -> None:
            role, word = "BAD " if step.commit == bad else "    ", {True: "slow", False: "fast", None: "-"}[step.slow]
            print(
                f"{role} {commit_line(commits[step.commit])}: {word}, {_figures(step.comparison)}", file=out, flush=True
            )

        bisection = bisect(runner, series, good, bad, line, budget=budget, on_step=show)
        _refuse(bisection)
        left = [commits[sha] for sha in bisection.left]
    print(_conclusion(bisection, left, good, bad), file=out)
    print(f"rounds: {runner.folder(good, bad).parent}", file=out, flush=True)
    if bisection.whole.unseen:
        return Status.NOTHING
    return Status.CLEAN if bisection.isolated is not None and bisection.isolated.slower else Status.SUSPECT


def _series(args: argparse.Namespace) -> Series:
    """Return the series that the arguments name. A kernel's name means its time with warm caches.

    Raises:
        UsageError: there is none, or more than one.
    """
    where = device()
    chosen = select.select(config.suite(Path()), where, "full", args.bench).series
    names = (args.bench, f"{args.bench}.{DEVICES[where]}{select.HOT}")
    named = [series for series in chosen if series[0] in names] or list(chosen)
    fits = [series for series in named if series[1][0] == args.implementation and args.case in (None, series[1][1])]
    if len(fits) == 1:
        return fits[0]
    if not fits:
        there = ", ".join(dict.fromkeys(" ".join(series[1]) for series in named))
        raise UsageError(f"no series {args.bench} {args.implementation} {args.case or ''}; there are {there}")
    benchmarks = dict.fromkeys(series[0] for series in fits)
    if len(benchmarks) > 1:
        raise UsageError(f"BENCH={args.bench!r} matches several benchmarks: {', '.join(benchmarks)}; name one")
    cases = ", ".join(series[1][1] for series in fits)
    raise UsageError(f"{fits[0][0]} has several test cases: {cases}; name one by --case")


def _figures(comparison: Comparison) -> str:
    """Return a comparison with GOOD in one line."""
    if comparison.ratio is None or comparison.low is None or comparison.high is None:
        return comparison.reason
    low, ratio, high = map(finding_text.change, (comparison.low, comparison.ratio, comparison.high))
    answer = f"{comparison.rounds} rounds a side: {comparison.answer.value}, {comparison.reason}"
    return f"{ratio} ({low} to {high}), {answer}"


def _refuse(bisection: Bisection) -> None:
    """Raise the reason why there is nothing to search between GOOD and BAD. Where more rounds can tell, there is.

    Raises:
        UsageError, BenchmarkFailed, BuildFailed: in one line.
    """
    if bisection.left or (bisection.whole.answer is Answer.UNKNOWN and bisection.whole.obstacle is None):
        return
    if bisection.whole.obstacle is Obstacle.NOT_BUILT:
        raise BuildFailed(bisection.reason)
    if bisection.whole.obstacle in (Obstacle.FAILED, Obstacle.MENDED):
        raise BenchmarkFailed(bisection.reason)
    raise UsageError(bisection.reason)


def _conclusion(bisection: Bisection, left: Sequence[Commit], good: str, bad: str) -> str:
    benchmark, (implementation, case) = bisection.series
    command = finding_text.bisection(benchmark, implementation, case, good, bad)
    reason = f"{bisection.reason}; {GOES_ON}: {command}" if bisection.goes_on else bisection.reason
    if not left:
        return reason
    if bisection.culprit is None:
        lines = [f"one of these {len(left)} commits made it slower:", *(f"  {commit_line(commit)}" for commit in left)]
        return "\n".join([*lines, f"  ({reason})"])
    isolated = "" if bisection.isolated is None else f"\n  against the commit before it: {_figures(bisection.isolated)}"
    return f"culprit: {commit_line(left[0])}{isolated}\n  {reason}"


# ---- the search: measures through a `Runner`, opens no file ----


@dataclass(frozen=True, kw_only=True)
class Bisection:
    """The result of a bisection. `left` is empty if there is nothing to search, and `reason` then says why."""

    series: Series
    tried: tuple[Tried, ...]  # in the order they were tried, BAD first
    left: tuple[str, ...] = ()  # the commits, oldest first, of which one is the culprit
    isolated: Comparison | None = None  # the culprit with the commit before it
    pair: tuple[str, str] | None = None  # whose rounds that is: tried commits with the code of those two
    reason: str

    @property
    def whole(self) -> Comparison:
        """The comparison of BAD with GOOD."""
        return self.tried[0].comparison

    @property
    def goes_on(self) -> bool:
        """Whether more time can tell more."""
        if self.isolated is not None:
            return self.isolated.next_look is not None
        unsettled = [step.comparison for step in self.tried if step.slow is None and step.commit in self.left]
        return any(comparison.next_look for comparison in unsettled or [self.whole]) or (
            len(self.left) > 1 and not unsettled
        )

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
        commits: those after GOOD up to BAD that can be the culprit, oldest first. After the last one nothing changed.
        budget: s of measuring, for all of it.
        on_step: called with every commit that was tried, BAD first.
    """
    search = _CulpritSearch(runner, series, (good, *commits), runner.clock() + budget, on_step)
    whole = search.compare(good, bad)
    search.add(Tried(commit=bad, comparison=whole, slow=True if whole.slower else None))
    if not whole.slower or whole.ratio is None:
        return Bisection(series=series, tried=tuple(search.tried.values()), reason=_nothing_to_search(whole))
    low, high = search.narrow(max(FLOOR, math.sqrt(whole.ratio) - 1))
    left = other_code(runner, series, search.line[low : high + 1])
    tried = tuple(search.tried.values())
    if len(left) > 1:
        reasons = dict.fromkeys(step.comparison.reason for step in tried if step.slow is None and step.commit in left)
        undecided = f"one of {len(left)} commits: {'; '.join(reasons) or 'no time is left'}"
        return Bisection(series=series, tried=tried, left=left, reason=undecided)
    runner.prepare(search.line[high])  # which is not tried where it is the last of several with the build of BAD
    pair = search.first_alike(search.line[low]), search.first_alike(search.line[high])
    isolated = search.compare(*pair)
    return Bisection(series=series, tried=tried, left=left, isolated=isolated, pair=pair, reason=_reason(isolated))


def other_code(runner: Runner, series: Series, line: Sequence[str]) -> tuple[str, ...]:
    """Return the commits of a line, after its first, that can have moved a series.

    Those between two builds of equal code cannot. Of a commit that is not built, nothing is known.
    """
    codes = [runner.code(commit, series) for commit in line]
    ends = (0, len(line) - 1)
    built = [Value(position, code) for position, code in enumerate(codes) if code is not None or position in ends]
    return commits_between(built, line)


def _nothing_to_search(whole: Comparison) -> str:
    if whole.obstacle is not None:
        return f"GOOD and BAD cannot be compared: {whole.reason}"
    if whole.faster:
        return "BAD is faster than GOOD, not slower: swap them to look for what made it faster"
    if whole.answer is Answer.SAME:
        return f"BAD is as fast as GOOD: {whole.reason}"
    return f"whether BAD is slower than GOOD is not settled: {whole.reason}"


def _reason(isolated: Comparison) -> str:
    if isolated.answer is Answer.UNKNOWN:
        return f"whether it is slower than the commit before it is not settled: {isolated.reason}"
    if isolated.slower:
        return "compared with the commit before it, it is slower by itself"
    return f"but it is no slower than the commit before it ({isolated.reason}): look at the commits around it"


@dataclass
class _CulpritSearch:
    """The state of a bisection over `line`: GOOD, then the commits, oldest first."""

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
            step = self._try(self.line[index], floor)
            self.add(step)
            low, high = (low, index) if step.slow else (index, high) if step.slow is False else (low, high)
        return low, high

    def first_alike(self, commit: str) -> str:
        """Return GOOD or the first tried commit that has a commit's code. The commit itself, where none has."""
        code = self.runner.code(commit, self.series)
        alike = (
            other for other in (self.line[0], *self.tried) if is_same_code(self.runner.code(other, self.series), code)
        )
        return next(alike, commit)

    def _try(self, commit: str, floor: float) -> Tried:
        """Build a commit and compare it with GOOD. One with the code of a tried commit is not measured."""
        if (reason := self.runner.prepare(commit)) is not None:
            return Tried(commit=commit, comparison=sequential.not_compared(Obstacle.NOT_BUILT, reason), slow=None)
        if (other := self.first_alike(commit)) != commit:
            return self._like(commit, other)
        comparison = self.compare(self.line[0], commit, floor)
        slow = True if comparison.slower else None if comparison.answer is Answer.UNKNOWN else False
        return Tried(commit=commit, comparison=comparison, slow=slow)

    def _like(self, commit: str, other: str) -> Tried:
        reason = f"the same machine code as {other[:10]}{layout(self.runner, other, commit)}"
        if other not in self.tried:  # GOOD
            return Tried(commit=commit, comparison=sequential.known_same(reason), slow=False)
        step = self.tried[other]
        return replace(step, commit=commit, comparison=replace(step.comparison, reason=reason))
