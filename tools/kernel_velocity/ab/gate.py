"""``kv gate BASE HEAD``: compare the speed of two commits, or of a commit and the working tree, in minutes.

Both are measured in turns, A B B A, in fresh processes. Each series gets one of three answers (stats/sequential.py),
and more rounds as long as it has none and the budget lasts. A series that is slower by no more than a `Perf-Expected:`
line of the commits in between allows is expected. A kernel with the same machine code on both sides is not measured.
After an interruption, the same command resumes with the rounds it has, within hours and on an unchanged machine.

Exit status: 0 no regression, 10 a regression confirmed, 11 a suspect (slower by the floor or more with a 95% interval
above 0, but not settled, or too few rounds for a look, or n/a at HEAD alone, or code that only a GPU runs, where there
is none, spills more registers), 20 a benchmark failed, 22 nothing was compared (a commit that does not build leaves
nothing), 2 usage. Of several the first in `statuses.Status` counts.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TextIO

from kernel_velocity import statuses
from kernel_velocity.ab import gate_report
from kernel_velocity.ab.confirm import confirm
from kernel_velocity.ab.gate_report import GateReport
from kernel_velocity.ab.session import AsvRunner
from kernel_velocity.errors import UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.findings import decisions
from kernel_velocity.findings.report import FORMATS
from kernel_velocity.names import CONTROLS
from kernel_velocity.results import git
from kernel_velocity.results.git import resolve
from kernel_velocity.runner import select
from kernel_velocity.runner.checks import add_measuring_arguments, measuring, seconds
from kernel_velocity.runner.host import device
from kernel_velocity.statuses import OF_GATES
from kernel_velocity.suite import config

WORKING_TREE = "."
GATE_MINUTES = 10.0  # minutes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = statuses.in_help(OF_GATES)
    parser.add_argument("base", metavar="BASE", help="the commit to compare with, such as `git merge-base main HEAD`")
    parser.add_argument(
        "head", metavar="HEAD", help="the commit to judge; `.`: the working tree (branch and index stay as they are)"
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
    is_tree = args.head == WORKING_TREE
    with measuring(args.root, err, wait=args.wait, lock_clocks=args.lock_clocks, worktree=is_tree):
        base = resolve(Path(), "BASE", args.base)
        head = git.working_tree(Path()) if is_tree else resolve(Path(), "HEAD", args.head)
        series = select.select(config.suite(Path()), device(), args.tier, args.bench).series
        if args.bench is None:  # no commit of ours changes PyTorch's
            series = tuple(key for key in series if key[1][0] not in CONTROLS)
        runner = AsvRunner(Path(), device=device(), err=err, again=args.again)
        comparisons = confirm(runner, base, head, series, budget)
        commits = git.read(Path(), [base, head]).commits
        announcing = git.announcing(Path(), f"{base}..{head}", saying=decisions.KEY)
        expectations, notes = decisions.expectations(announcing)
        kernels = dict.fromkeys(name.partition(".")[0] for name, _ in series)
        report = GateReport(
            base=commits[base],
            head=commits[head],
            comparisons=comparisons,
            budget=budget,
            measured=runner.measured,
            evidence=str(runner.folder(base, head)),
            expected=decisions.slower_as_expected(comparisons, expectations),
            code=gate_report.code_changes(runner.build_info(base), runner.build_info(head), kernels),
            device=runner.device,
            notes=notes,
        )
    print(gate_report.as_text(report), file=err if "-" in formats.values() else out, end="", flush=True)
    for name, path in formats.items():
        text = FORMATS[name](gate_report.as_report(report))
        if path == "-":
            out.write(text)
        else:
            replace_text(Path(path), text)
    return report.status


def _formats(args: argparse.Namespace) -> dict[str, str]:
    """Return the destination of each format, an absolute path or "-", before anything is measured.

    Raises:
        UsageError: two go to standard output, or one to a path that cannot be a file.
    """
    paths = {name: path for name in FORMATS if (path := getattr(args, name)) is not None}
    if list(paths.values()).count("-") > 1:
        raise UsageError("one format alone can go to standard output (`-`); give the others a file")
    for name, path in paths.items():
        if not path or Path(path).is_dir():
            raise UsageError(f"--{name} {path!r}: a file is wanted, or `-` for standard output")
    return {name: path if path == "-" else str(Path(path).absolute()) for name, path in paths.items()}
