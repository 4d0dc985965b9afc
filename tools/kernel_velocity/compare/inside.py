"""Looking inside after a comparison: PyTorch's profiler, Nsight Compute.

Of each problem the last test case compared is looked into, with every implementation that has a time.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from kernel_velocity.compare import table
from kernel_velocity.compare.isolation import Journal
from kernel_velocity.compare.result import Comparison
from kernel_velocity.compare.subject import Bind
from kernel_velocity.compare.table import Row
from kernel_velocity.errors import UsageError
from kernel_velocity.harness.problem import Problem
from kernel_velocity.tables import aligned

TRACES = Path(".asv", "profiles")


@dataclass(frozen=True, kw_only=True)
class Inside:
    """What can be looked into: a problem as it was named, its implementations, and what was found of it."""

    what: str
    problem: Problem
    implementations: Mapping[str, Bind]
    solutions: Sequence[Path]
    found: Comparison

    def rows(self) -> list[Row]:
        """Return the rows of the last case that have a time."""
        last = table.rows_of(self.found.compared[-1]) if self.found.compared else []
        return [row for row in last if row.timing is not None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    inside = parser.add_argument_group("looking inside (the last test case of each problem)")
    inside.add_argument(
        "--profile", nargs="?", type=Path, const=TRACES, metavar="FOLDER", help=f"PyTorch's profiler ({TRACES})"
    )
    inside.add_argument("--ncu", nargs="?", const="", metavar="PATH", help="Nsight Compute's counters (where it is)")
    inside.add_argument("--set", choices=("full",), help="with --ncu: collect the full set of sections")


def check(args: argparse.Namespace) -> None:
    """Refuse what cannot be looked into, before anything is measured.

    Raises:
        UsageError: Nsight Compute is not installed, --set without --ncu, a profile in place of a file.
    """
    if args.set is not None and args.ncu is None:
        raise UsageError(f"--set {args.set}: belongs to --ncu")
    if args.profile is not None and args.profile.exists() and not args.profile.is_dir():
        raise UsageError(f"--profile {args.profile}: is a file; wanted a folder for traces")
    if args.ncu is not None:
        importlib.import_module("kernel_velocity.compare.nsight").find(args.ncu or None)


def look(inside: Sequence[Inside], args: argparse.Namespace, device: str, out: TextIO, journal: Journal) -> None:
    """Print what was asked for; inside `measuring_process.prepared`."""
    texts = _texts(inside, args, device, journal)
    for text in texts:
        out.write(f"\n{text}\n")
        out.flush()  # what comes next may end the process


def _texts(inside: Sequence[Inside], args: argparse.Namespace, device: str, journal: Journal) -> Iterator[str]:
    for each in inside:
        for row in each.rows():
            if args.profile is not None:
                with journal.running("profiled", row.timed.implementation, row.compared.case, again=False):
                    text = _profiled(each, row, args.profile)
                yield text
            if args.ncu is not None:
                yield _counted(each, row, args.ncu or None, full=args.set == "full")


def _profiled(inside: Inside, row: Row, folder: Path) -> str:
    name, case = row.timed.implementation, row.compared.case
    profiling = importlib.import_module("kernel_velocity.compare.profile")
    text: str = profiling.profile(inside.problem, name, case, folder, bind=inside.implementations[name]).text()
    return text


def _counted(inside: Inside, row: Row, path: str | None, *, full: bool) -> str:
    """Return Nsight Compute's table beside our own figures; a line on why there is none costs the others nothing."""
    nsight, child = (importlib.import_module(f"kernel_velocity.compare.{name}") for name in ("nsight", "profiled_call"))
    name, case = row.timed.implementation, row.compared.case
    command = child.command(inside.what, name, case, device=row.compared.device, solutions=tuple(inside.solutions))
    try:
        launches = nsight.ncu(command, path=path, full=full)
    except UsageError as error:
        return f"n/a: Nsight Compute on {name} {case}: {error}"
    assert row.timing is not None  # rows() has no others
    moved, roofline = row.compared.bytes, row.timed.roofline
    ours = nsight.Ours(
        seconds=row.timing.seconds,
        bandwidth=None if moved is None else moved / row.timing.seconds,
        efficiency=None if roofline is None else roofline.efficiency,
    )
    return f"{name} on {case}\n{aligned(nsight.table(launches, ours))}"
