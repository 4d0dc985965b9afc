"""``kv bisect BENCH GOOD BAD``: find the commit that made a benchmark slower.

Searches the first-parent commits after GOOD up to BAD (ab/bisection.py). Commits that do not build are passed over,
those with the machine code of a measured commit are not measured. After an interruption, the same command resumes with
the wheels and rounds it has.

Exit status: 0 the commit was found, 11 it is one of several, 20 the benchmark fails at GOOD or BAD, 21 one of those
does not build, 2 there is nothing to search for, or usage.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from kernel_velocity import config
from kernel_velocity.ab import gate_report
from kernel_velocity.ab.bisection import Bisection, bisect
from kernel_velocity.ab.session import AsvRunner
from kernel_velocity.errors import BenchmarkFailed, BuildFailed, UsageError
from kernel_velocity.findings.evidence import Tried
from kernel_velocity.findings.report import commit_line
from kernel_velocity.findings.text import change
from kernel_velocity.harness.cases import DEVICES
from kernel_velocity.results import git
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.git import between, resolve
from kernel_velocity.results.records import Commit
from kernel_velocity.runner import select
from kernel_velocity.runner.checks import add_measuring_arguments, measuring, seconds
from kernel_velocity.runner.host import device
from kernel_velocity.stats.sequential import Comparison, Obstacle
from kernel_velocity.statuses import Status

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
        series = _series(args)
        commits = git.read(Path(), [good, *line]).commits
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
    print(_conclusion(bisection, left), file=out)
    print(f"rounds: {runner.folder(good, bad).parent}", file=out, flush=True)
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
    interval = f"{change(comparison.low)} to {change(comparison.high)}"
    answer = f"{comparison.rounds} rounds a side: {comparison.answer.value}, {comparison.reason}"
    return f"{change(comparison.ratio)} ({interval}), {answer}"


def _refuse(bisection: Bisection) -> None:
    """Raise the reason why there is nothing to search between GOOD and BAD.

    Raises:
        UsageError, BenchmarkFailed, BuildFailed: in one line.
    """
    if bisection.left:
        return
    if bisection.whole.obstacle is Obstacle.NOT_BUILT:
        raise BuildFailed(bisection.reason)
    if bisection.whole.obstacle in (Obstacle.FAILED, Obstacle.MENDED):
        raise BenchmarkFailed(bisection.reason)
    raise UsageError(bisection.reason)


def _conclusion(bisection: Bisection, left: Sequence[Commit]) -> str:
    if bisection.culprit is None:
        lines = [f"one of these {len(left)} commits made it slower:", *(f"  {commit_line(commit)}" for commit in left)]
        return "\n".join([*lines, f"  ({bisection.reason})"])
    isolated = "" if bisection.isolated is None else f"\n  against the commit before it: {_figures(bisection.isolated)}"
    return f"culprit: {commit_line(left[0])}{isolated}\n  {bisection.reason}"
