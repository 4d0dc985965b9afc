"""``kv lab score-detectors``: how often detectors of change points raise false alarms, and what they miss.

Ours beside asv's step detection and Perfherder's rule, on synthetic noise and on the noise of real series, re-evaluated
at every commit as a nightly run does, and against people's annotations, where a file has some.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np

from kernel_velocity.errors import UsageError
from kernel_velocity.lab import histories, scoring, true_night
from kernel_velocity.lab.contenders import ANCHOR, ASV, CONFIRMED, CONTENDERS
from kernel_velocity.lab.scoring import AFTER, BEFORE, CREEPING, MARGIN, NOTHING, STEPS, Found, Plan, Scores
from kernel_velocity.progress import ProgressBar
from kernel_velocity.tables import Table, aligned
from kernel_velocity.units import significant

SERIES, FULL_SERIES = 20, 200  # histories a family without a step
PLANTED, FULL_PLANTED = 20, 100  # histories a family and size of step
COMMITS = 150  # of each history without a step
SOON = 10  # commits

BOUND = 0.95  # of the rate that zero alarms leave possible
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
    parser.add_argument("--night", action="store_true", help="play the true night alone")
    parser.add_argument("--seed", type=int, default=0, help="of all histories (default 0)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Score, and print the tables."""
    if args.seed < 0:
        raise UsageError(f"--seed {args.seed}: wanted a number from 0 on")
    sets = histories.read(args.data)
    bar = ProgressBar(err, shown=err.isatty())
    if args.night:
        worlds = 25 if args.full else 2
        tasks = {key: partial(true_night.deeds, key, worlds, args.seed) for key in true_night.SCENARIOS}
        results = scoring.played(tasks, bar.part(0, 1))
        bar.clear()
        out.write("\n\n".join(map(aligned, true_night.tables(results, worlds))) + "\n")
        return 0
    scores = scoring.score(plan(args.seed, full=args.full), sets, bar.part(0, 1))
    bar.clear()
    out.write(text(scores))
    return 0


def plan(seed: int, *, full: bool) -> Plan:
    """Return how much is played."""
    series, planted = (FULL_SERIES, FULL_PLANTED) if full else (SERIES, PLANTED)
    return Plan(seed=seed, series=series, commits=COMMITS, planted=planted)


def text(scores: Scores) -> str:
    """Return the tables as text, columns aligned."""
    return "\n\n".join((*map(aligned, tables(scores)), *FOOTNOTES)) + "\n"


def tables(scores: Scores) -> Iterator[Table]:
    """Yield every table."""
    families = (*scores.families, CREEPING)
    commits = scores.plan.series * scores.plan.commits
    possible = significant(1000 * -math.log(1 - BOUND) / commits)
    note = (
        f"per 1000 benchmark-commits, looked at after every commit; {commits:,} commits a family in series of "
        f"{scores.plan.commits}, so that 0 leaves up to {possible} possible (95%)"
    )
    rows = {
        name: [significant(1000 * scores.silences[name, family].alarms / commits) for family in families]
        for name in CONTENDERS
    }
    yield _table("false alarms", note, families, rows)
    note = "rounds re-measured per 1000 benchmark-commits in which nothing happens, both sides together"
    reruns = [scores.silences[CONFIRMED, family].reruns or 0 for family in families]
    yield _table("re-runs", note, families, {CONFIRMED: [significant(1000 * each / commits) for each in reruns]})
    heads = [f"{step:.0%}" for step in STEPS]
    note = (
        f"share found within {SOON} commits / median delay in commits; {scores.plan.planted} steps upwards of each "
        f"size, after {BEFORE} commits; -: most are not found in {AFTER}"
    )
    for family in dict.fromkeys(family for _, family, _ in scores.found):
        rows = {name: [_power(scores.found[name, family, step]) for step in STEPS] for name in CONTENDERS}
        yield _table(f"power, {family}", note, heads, rows)
    note = (
        f"share of the steps reported in the end that are named to the commit / 90th percentile of the error in "
        f"commits; {AFTER} commits after the step, all families of the power tables, errors up to {MARGIN}"
    )
    localising = [name for name, contender in CONTENDERS.items() if contender.localises]
    rows = {name: [_localisation(scores, name, step) for step in STEPS] for name in localising}
    yield _table("localisation", note, heads, rows)
    for name in dict.fromkeys(name for _, name in scores.f_measures):
        yield _f_measures(name, {who: of for (who, part), of in scores.f_measures.items() if part == name})


def _table(title: str, note: str, heads: Iterable[str], rows: Mapping[str, Sequence[str]]) -> Table:
    return Table(title, note, ["detector", *heads], [[name, *cells] for name, cells in rows.items()])


def _power(found: Sequence[Found]) -> str:
    delays = [math.inf if each.delay is None else each.delay for each in found]
    median = statistics.median(delays)
    soon = sum(delay <= SOON for delay in delays) / len(delays)
    return f"{soon:.2f} / {median:g}" if math.isfinite(median) else f"{soon:.2f} / -"


def _localisation(scores: Scores, name: str, step: float) -> str:
    errors = [
        each.error
        for (who, _, size), parts in scores.found.items()
        if (who, size) == (name, step)
        for each in parts
        if each.error is not None
    ]
    if not errors:
        return "-"
    return f"{errors.count(0) / len(errors):.2f} / {float(np.quantile(errors, 0.9, method='higher')):g}"


def _f_measures(name: str, found: Mapping[str, Mapping[str, float]]) -> Table:
    halves = half_of(next(iter(found.values())))
    sizes = [list(halves.values()).count(number) for number in (0, 1)]
    note = (
        f"F1 against the annotators, margin {MARGIN}; {len(halves)} series, and the two halves of their ids in "
        f"turn ({sizes[0]} and {sizes[1]})"
    )
    rows = {
        who: [
            _mean([value for series, value in found[who].items() if halves[series] in wanted])
            for wanted in ((0, 1), (0,), (1,))
        ]
        for who in (*CONTENDERS, NOTHING)
        if who in found
    }
    return _table(f"annotated, {name}", note, ["all", "first half", "second half"], rows)


def _mean(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values):.3f}" if values else "-"


def half_of(names: Iterable[str]) -> dict[str, int]:
    """Return 0 or 1 for every series: the numbers in their names, in order, belong to the halves in turn.

    Series that were cut from one have the same first number in their names, so that they are in one half.
    """
    ids = {}
    for name in names:
        number = re.search(r"\d+", name)
        ids[name] = (int(number[0]), "") if number else (0, name)
    order = {each: rank for rank, each in enumerate(sorted(set(ids.values())))}
    return {name: order[each] % 2 for name, each in ids.items()}
