"""``kv gate BASE HEAD``: compare the speed of two commits, or of a commit and the working tree, in minutes.

Both are measured in turns, A B B A, in fresh processes. Each series gets one of three answers (stats/sequential.py),
and more rounds as long as it has none and the budget lasts. A series that is slower by no more than a `Perf-Expected:`
line of the commits in between allows is expected. A kernel with the same machine code on both sides is not measured.
After an interruption, the same command resumes with the rounds it has, within hours and on an unchanged machine.

Exit status: 0 no regression, 10 a regression confirmed, 11 a suspect (slower by the floor or more with a 95% interval
above 0, but not settled, or too few rounds for a look, or n/a at HEAD alone), 20 a benchmark failed, 22 nothing was
compared (a commit that does not build leaves nothing), 2 usage. Of several the first in `statuses.Status` counts.

With --counts nothing is timed (`count_gate`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from kernel_velocity import statuses, units
from kernel_velocity.ab import count_gate, gate_report
from kernel_velocity.ab.confirm import confirm
from kernel_velocity.ab.gate_report import GateReport
from kernel_velocity.ab.rounds import Terms
from kernel_velocity.ab.session import AsvRunner
from kernel_velocity.counts import compiled
from kernel_velocity.errors import NothingMeasured, UsageError
from kernel_velocity.files import check_report, replace_text
from kernel_velocity.findings import decisions
from kernel_velocity.findings.report import FORMATS, Report
from kernel_velocity.names import CONTROLS
from kernel_velocity.results import git
from kernel_velocity.results.git import resolve
from kernel_velocity.runner import select
from kernel_velocity.runner.checks import add_measuring_arguments, measuring, seconds
from kernel_velocity.runner.environment import CommitNotBuilt
from kernel_velocity.runner.host import device
from kernel_velocity.stats.sequential import EARLY_LOOKS
from kernel_velocity.statuses import OF_GATES
from kernel_velocity.suite import config
from kernel_velocity.suite.suite import Suite
from kernel_velocity.verdict.ranges import is_same_code

WORKING_TREE = "."
GATE_MINUTES = 10.0  # minutes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = statuses.in_help(OF_GATES)
    parser.add_argument("base", metavar="BASE", help="the commit to compare with, such as `git merge-base main HEAD`")
    parser.add_argument(
        "head", metavar="HEAD", help="the commit to judge; `.`: the working tree (branch and index stay as they are)"
    )
    parser.add_argument(
        "--counts",
        action="store_true",
        help="compare no times, but what the code is made of and what calls execute: exact, in seconds, without a lock",
    )
    parser.add_argument("--tier", default="core", help="core (default: two test cases of every kernel) or full (all)")
    add_measuring_arguments(parser, GATE_MINUTES)
    parser.add_argument(
        "--bench", help="compare only series that match this regular expression (default: all but PyTorch's)"
    )
    for name in FORMATS:
        parser.add_argument(f"--{name}", metavar="FILE", help=f"write the report as {name}; `-`: to standard output")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Compare, print and write the report. Return the exit status."""
    budget, formats = seconds(args.budget), _formats(args)
    if args.counts:
        if args.lock_clocks is not None:
            raise UsageError("--lock-clocks: counts need no clock; give one of --counts and --lock-clocks")
        counted = count_gate.compare(args, err)
        _write(count_gate.as_text(counted), count_gate.as_report(counted), formats, out, err)
        return counted.status
    is_tree = args.head == WORKING_TREE
    with measuring(args.root, err, wait=args.wait, lock_clocks=args.lock_clocks, worktree=is_tree):
        base = resolve(Path(), "BASE", args.base)
        head = git.working_tree(Path()) if is_tree else resolve(Path(), "HEAD", args.head)
        names = ("BASE", "the unchanged working tree" if is_tree else "HEAD")
        git.check_two(Path(), names, base, head, NothingMeasured)
        suite = config.suite(Path())
        series = select.select(suite, device(), args.tier, args.bench).series
        if args.bench is None:  # no commit of ours changes PyTorch's
            series = tuple(key for key in series if key[1][0] not in CONTROLS)
        if not series:
            raise NothingMeasured(
                f"the suite times {' and '.join(CONTROLS)} alone here: --bench compares PyTorch's own"
            )
        runner = AsvRunner(Path(), device=device(), err=err, again=args.again)
        terms = dict.fromkeys(series, Terms(looks=EARLY_LOOKS))
        comparisons = confirm(
            runner, base, head, series, budget, terms=terms, on_look=lambda line: print(line, file=err, flush=True)
        )
        commits = git.read(Path(), [base, head]).commits
        announcing = git.announcing(Path(), f"{base}..{head}", saying=decisions.KEY)
        expectations, notes = decisions.expectations(announcing)
        kernels = dict.fromkeys(name.partition(".")[0] for name, _ in series)
        unbuilt = ""
        try:
            builds: Sequence[Mapping[str, Any]] = runner.read_builds(base, head)
        except CommitNotBuilt as error:
            unbuilt, builds = f"its CUDA code was not compiled: {error}", ({}, {})
        on_gpu = _on_gpu(suite, builds[1]) & (kernels.keys() if args.bench else set(suite.modules()))
        notes += (*_of_suite(suite, base, head), *_of_gpu(runner, sorted(on_gpu), (base, head), builds))
        report = GateReport(
            base=commits[base],
            head=commits[head],
            comparisons=comparisons,
            budget=budget,
            measured=runner.measured,
            evidence=str(runner.folder(base, head)),
            expected=decisions.slower_as_expected(comparisons, expectations),
            unbuilt=unbuilt,
            notes=notes,
            commits=_candidates(base, head),
        )
    _write(gate_report.as_text(report), gate_report.as_report(report), formats, out, err)
    return report.status


def _write(text: str, report: Report, formats: Mapping[str, str], out: TextIO, err: TextIO) -> None:
    """Print the text of a report, and write it in the formats that are asked for."""
    print(text, file=err if "-" in formats.values() else out, end="", flush=True)
    for name, path in formats.items():
        written = FORMATS[name](report)
        if path == "-":
            out.write(written)
        else:
            replace_text(Path(path), written)


def _candidates(base: str, head: str) -> tuple[str, ...]:
    """Return the commits after BASE up to HEAD that can have changed a build. None where HEAD does not have BASE."""
    if base == head or not git.is_ancestor(Path(), base, head):
        return ()
    idle = git.idle(Path(), f"{base}..{head}")
    return tuple(sha for sha in git.between(Path(), base, head) if sha not in idle)


def _of_suite(suite: Suite, base: str, head: str) -> Iterator[str]:
    """Yield a note on benchmarks that the commits in between change: both sides run those of the working tree."""
    if changed := git.changed_files(Path(), base, head, suite.folder):
        yield f"not compared, because both sides run the benchmarks that lie here: changes of {units.listed(changed)}"


def _on_gpu(suite: Suite, build: Mapping[str, Any]) -> set[str]:
    """Return the kernels with an implementation for a GPU alone, or with CUDA code in a build."""
    return {
        str(problem.kernel)
        for problem in suite.problems("cuda")
        if any(getattr(function, "device", None) == "cuda" for function in problem.functions.values())
    } | compiled.ptxas_of(build).keys()


def _of_gpu(
    runner: AsvRunner, kernels: Iterable[str], commits: Sequence[str], builds: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield a note on kernels for a GPU whose code may have changed, where there is no GPU."""

    def is_same(kernel: str) -> bool:
        timed = (runner.code(commit, (kernel, ())) for commit in commits)
        return is_same_code(*timed) and is_same_code(*(compiled.code_hash(build, kernel) for build in builds))

    changed = [kernel for kernel in kernels if not is_same(kernel)]
    if changed and runner.device == "cpu":
        yield f"not compared, because there is no GPU here: the CUDA code of {units.listed(changed, len(changed))}"


def _formats(args: argparse.Namespace) -> dict[str, str]:
    """Return the destination of each format, an absolute path or "-", before anything is measured.

    Raises:
        UsageError: two go to standard output, or one to a path that cannot be a file.
    """
    paths = {name: path for name in FORMATS if (path := getattr(args, name)) is not None}
    if list(paths.values()).count("-") > 1:
        raise UsageError("one format alone can go to standard output (`-`); give the others a file")
    for name, path in paths.items():
        if path != "-":
            check_report(f"--{name}", Path(path))
    return {name: path if path == "-" else str(Path(path).absolute()) for name, path in paths.items()}
