"""``kv lab score-detectors``: how often detectors of change points cry wolf, and what they miss.

Ours beside asv's step detection and Perfherder's rule, on synthetic noise and on the noise of real series, re-evaluated
at every commit as a nightly run does; and against people's annotations, where a file has some.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TextIO

from kernel_velocity.errors import UsageError
from kernel_velocity.lab import detector_data as score_data
from kernel_velocity.lab import detector_jobs as score_jobs
from kernel_velocity.lab import score_tables
from kernel_velocity.lab.detector_jobs import Plan
from kernel_velocity.progress import ProgressBar

SERIES, FULL_SERIES = 20, 200  # histories a family in which nothing happens
PLANTED, FULL_PLANTED = 20, 100  # histories a family and size of step
COMMITS = 150  # of each history in which nothing happens


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "data", metavar="DATA", nargs="*", type=Path, help="real series, annotated or not: JSON, gzipped or not"
    )
    parser.add_argument(
        "--full", action="store_true", help=f"{FULL_SERIES} histories a family, {FULL_PLANTED} steps of each size"
    )
    parser.add_argument("--seed", type=int, default=0, help="of all histories (default 0)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Score, and print the tables."""
    if args.seed < 0:
        raise UsageError(f"--seed {args.seed}: wanted a number from 0 on")
    sets = score_data.read(args.data)
    names = [each.name for each in sets]
    if len(set(names)) < len(names):
        raise UsageError(f"two files of one name among {', '.join(names)}: their rows could not be told apart")
    bar = ProgressBar(err, shown=err.isatty())
    found = score_jobs.score(plan(args.seed, full=args.full), sets, bar.part(0, 1))
    bar.clear()
    out.write(score_tables.text(found))
    return 0


def plan(seed: int, *, full: bool) -> Plan:
    """Return how much is played."""
    series, planted = (FULL_SERIES, FULL_PLANTED) if full else (SERIES, PLANTED)
    return Plan(seed=seed, series=series, commits=COMMITS, planted=planted)
