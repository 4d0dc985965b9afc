"""``kv lab score-detectors``: how often detectors of change points cry wolf, and what they miss.

Ours beside asv's step detection and Perfherder's rule, on synthetic noise and on the noise of real series, re-evaluated
at every commit as a nightly run does; and against people's annotations, where a file has some.

What scoring detectors found, as text: figures become ready strings here, and nowhere else.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from kernel_velocity.errors import UsageError
from kernel_velocity.lab import detector_data, detector_jobs
from kernel_velocity.lab.contenders import ANCHOR, ASV, CONFIRMED, CONTENDERS
from kernel_velocity.lab.detector_jobs import (
    AFTER,
    BEFORE,
    CREEPING,
    NOTHING,
    SAME_CHANGE,
    SOON,
    STEPS,
    Found,
    Plan,
    Scores,
)
from kernel_velocity.progress import ProgressBar
from kernel_velocity.tables import Table, aligned
from kernel_velocity.units import significant

SERIES, FULL_SERIES = 20, 200  # histories a family in which nothing happens
PLANTED, FULL_PLANTED = 20, 100  # histories a family and size of step
COMMITS = 150  # of each history in which nothing happens

BOUND = 0.95  # of what zero alarms leave possible
FOOTNOTES = (
    "real: residuals of the given series around a running median of 11 points, resampled in blocks of 5; the others "
    "are synthetic, about 1% wide",
    f"{CREEPING}: the level rises by 3% in 60 commits; a report is no false alarm there, and a detector of steps that "
    "reports one names an arbitrary commit",
    f"{CONFIRMED}: the re-runs are modelled, 8 and then 16 a side, against the commit {ANCHOR} before the suspect, in "
    "the noise of the history",
    f"{ASV}: asked at every {CONTENDERS[ASV].stride}th commit in the table of false alarms, for its time",
)


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
    sets = detector_data.read(args.data)
    names = [each.name for each in sets]
    if len(set(names)) < len(names):
        raise UsageError(f"two files of one name among {', '.join(names)}: their rows could not be told apart")
    bar = ProgressBar(err, shown=err.isatty())
    found = detector_jobs.score(plan(args.seed, full=args.full), sets, bar.part(0, 1))
    bar.clear()
    out.write(text(found))
    return 0


def plan(seed: int, *, full: bool) -> Plan:
    """Return how much is played."""
    series, planted = (FULL_SERIES, FULL_PLANTED) if full else (SERIES, PLANTED)
    return Plan(seed=seed, series=series, commits=COMMITS, planted=planted)


def text(found: Scores) -> str:
    """Return the tables as text, columns aligned."""
    return "\n\n".join((*(aligned(table) for table in tables(found)), *FOOTNOTES)) + "\n"


def tables(found: Scores) -> Iterator[Table]:
    """Yield every table of a score, as ready strings."""
    yield _false_alarms(found)
    yield _reruns(found)
    for family in dict.fromkeys(family for _, family, _ in found.found):
        yield _power(found, family)
    yield _localisation(found)
    for name in dict.fromkeys(name for _, name in found.f_measures):
        yield _f_measures(name, {who: of for (who, each), of in found.f_measures.items() if each == name})


def _false_alarms(found: Scores) -> Table:
    commits = found.plan.series * found.plan.commits
    families = (*found.families, CREEPING)
    least = 1000 * -math.log(1 - BOUND) / commits
    rows = [
        [name, *(_rate(found.silences[name, family].alarms, commits) for family in families)] for name in CONTENDERS
    ]
    note = (
        f"per 1000 benchmark-commits, looked at after every commit; {commits:,} commits a family in series of "
        f"{found.plan.commits}, so that 0 leaves up to {significant(least)} possible (95%)"
    )
    return Table("false alarms", note, ["detector", *families], rows)


def _reruns(found: Scores) -> Table:
    families = (*found.families, CREEPING)
    commits = found.plan.series * found.plan.commits
    cells = [_rate(found.silences[CONFIRMED, family].reruns or 0, commits) for family in families]
    note = "rounds re-measured per 1000 benchmark-commits in which nothing happens, both sides together"
    return Table("re-runs", note, ["detector", *families], [[CONFIRMED, *cells]])


def _rate(number: int, commits: int) -> str:
    return significant(1000 * number / commits)


def _power(found: Scores, family: str) -> Table:
    rows = [[name, *(_power_cell(found.found[name, family, step]) for step in STEPS)] for name in CONTENDERS]
    note = (
        f"share found within {SOON} commits / median delay in commits; {found.plan.planted} steps upwards of each "
        f"size, after {BEFORE} commits; -: most are not found in {AFTER}"
    )
    return Table(f"power, {family}", note, _heads(), rows)


def _heads() -> list[str]:
    return ["detector", *(f"{step:.0%}" for step in STEPS)]


def _power_cell(found: Sequence[Found]) -> str:
    delays = [math.inf if each.delay is None else each.delay for each in found]
    middle = statistics.median(delays)
    soon = sum(delay <= SOON for delay in delays) / len(delays)
    return f"{soon:.2f} / {middle:g}" if math.isfinite(middle) else f"{soon:.2f} / -"


def _localisation(found: Scores) -> Table:
    names = [name for name, contender in CONTENDERS.items() if contender.localises]
    rows = [[name, *(_place_cell(_errors(found, name, step)) for step in STEPS)] for name in names]
    note = (
        f"share of the steps reported in the end that are named to the commit / 90th percentile of the error in "
        f"commits; {AFTER} commits after the step, all families of the power tables, errors up to {SAME_CHANGE}"
    )
    return Table("localisation", note, _heads(), rows)


def _errors(found: Scores, name: str, step: float) -> list[int]:
    return [
        each.error
        for (who, _, size), parts in found.found.items()
        if (who, size) == (name, step)
        for each in parts
        if each.error is not None
    ]


def _place_cell(errors: Sequence[int]) -> str:
    if not errors:
        return "-"
    return f"{errors.count(0) / len(errors):.2f} / {float(np.quantile(errors, 0.9, method='higher')):g}"


def _f_measures(name: str, found: Mapping[str, Mapping[str, float]]) -> Table:
    halves = half_of(next(iter(found.values())))
    sizes = [list(halves.values()).count(number) for number in (0, 1)]
    rows = [
        [
            who,
            _mean(list(found[who].values())),
            *(_mean([value for series, value in found[who].items() if halves[series] == half]) for half in (0, 1)),
        ]
        for who in (*CONTENDERS, NOTHING)
        if who in found
    ]
    note = (
        f"F1 against the annotators, margin {SAME_CHANGE}; {len(halves)} series, and the two halves of their ids in "
        f"turn ({sizes[0]} and {sizes[1]})"
    )
    return Table(f"annotated, {name}", note, ["detector", "all", "first half", "second half"], rows)


def _mean(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values):.3f}" if values else "-"


def half_of(names: Mapping[str, float]) -> dict[str, int]:
    """Return 0 or 1 for every series: the numbers in their names, in order, belong to the halves in turn."""
    ids = {name: _id(name) for name in names}
    order = {each: rank for rank, each in enumerate(sorted(set(ids.values())))}
    return {name: order[each] % 2 for name, each in ids.items()}


def _id(name: str) -> tuple[int, str]:
    """Return what series that were cut from one have in common: their name's first number, else the name."""
    number = re.search(r"\d+", name)
    return (int(number[0]), "") if number else (0, name)
