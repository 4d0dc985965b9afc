"""``python -m lab detectors``: count false alarms and misses of detectors of change points, and of whole nights.

Ours beside those of asv, Otava and Perfherder, on histories of noise, looked at as they grow, and against people's
annotations, where a file has some. Then the true night (true_night.py). It prints a page in Markdown.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import re
import statistics
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from kernel_velocity.errors import UsageError
from kernel_velocity.progress import ProgressBar
from kernel_velocity.tables import Table, columns
from kernel_velocity.units import significant
from lab import histories, platforms, scoring, true_night
from lab.contenders import CONTENDERS, LOOKS, OTAVA, SILENCE
from lab.histories import STEADY, UNSTEADY, RealSeries
from lab.scoring import AFTER, BEFORE, MARGIN, NEAR, POSITIONS, SHORT, AnnotationScore, Delay

COMMITS = 150  # of each history without a step
STEPS = (0.01, 0.02, 0.05, 0.10)
SEARCHED = ("normal", "heavy tails")  # synthetic families that steps are planted in, beside the real ones
SOON = 10  # commits
PAGE_SIZES = (5, 8, 20)  # commits of pages without a change
JUDGES = 3  # annotators of a series at which people are compared with each other
BOUND = 0.95  # of the rate that zero alarms leave possible
WIDTH = 118  # letters of a line of prose
ACTIVE = [name for name in CONTENDERS if name != SILENCE]
INTRODUCTION = """
Ours: change points of the pages and nights. Others: asv's step detection, Apache Otava, and the t test of Mozilla's
Perfherder. The families of noise are described in `tools/lab/histories.py`, their histories are seeded. The
true night plays the judging code of `kv nightly`, not a model of it.
"""
PEOPLE = "people: the one left out"
Sets = Mapping[str, Sequence[RealSeries]]
Results = Mapping[Any, Any]  # by what is scored, contender and the rest of the task's key


class ScoringPlan(NamedTuple):
    """How much is played."""

    seed: int = 0
    series: int = 20  # histories of a family without a step
    planted: int = 20  # histories of a family and size of step
    short: int = 50  # histories of a shape of short levels
    worlds: int = 2  # machines of a scenario of the true night
    platforms: int = 2  # of a scenario of the pages


FULL = ScoringPlan(series=200, planted=100, short=500, worlds=25, platforms=25)
QUIET = 10  # times as many platforms without a change, because false changes are rare
RARELY = 4  # times fewer platforms whose levels wander: each is looked at again and again
DENIED = 4  # times as many with changes at random, to count what pages deny


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs="*",
        type=Path,
        help="files of real series, with or without annotations: JSON, or gzipped JSON",
    )
    parser.add_argument("--full", action="store_true", help=f"simulate {FULL.series} histories of each family")
    parser.add_argument("--night", action="store_true", help="simulate nightly runs only")
    parser.add_argument("--seed", type=int, default=0, help="the seed of all histories (default 0)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Score, and print the page."""
    if args.seed < 0:
        raise UsageError(f"--seed {args.seed}: wanted a number from 0 on")
    plan = (FULL if args.full else ScoringPlan())._replace(seed=args.seed)
    sets = histories.read(args.data)
    bar = ProgressBar(err, shown=err.isatty())
    nights = {("night", key): partial(true_night.tally, key, plan.worlds, plan.seed) for key in true_night.SCENARIOS}
    results = scoring.played(nights if args.night else tasks(plan, sets) | nights, bar.show)
    bar.clear()
    options = [f" --{name}" for name in ("full", "night") if getattr(args, name)]
    options += [f" --seed {args.seed}"] if args.seed else []
    command = "".join(("python -m lab detectors", *options, *(f" {path.name}" for path in args.data)))
    out.write(f"# Detectors of change points\n{INTRODUCTION}\n")
    out.write(f"Printed by `{command}`\non {datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} cores.\n")
    history = [] if args.night else [*tables(results, plan, sets), *people(results, sets)]
    night = true_night.tables({key: results["night", key] for key in true_night.SCENARIOS}, plan.worlds)
    out.writelines(map(section, (*history, *night)))
    return 0


def section(table: Table) -> str:
    """Return a table as a section of a page in Markdown, readable in a terminal."""
    note = textwrap.fill(table.note, WIDTH, break_long_words=False, break_on_hyphens=False)
    return f"\n## {table.title}\n\n{note}\n\n```text\n{columns([table.heads, *table.rows])}\n```\n"


def tasks(plan: ScoringPlan, sets: Sets) -> dict[Any, Callable[[], Any]]:
    """Return everything that is scored on histories, by its key."""
    steady = histories.families(sets)
    planted = {name: family for name, family in steady.items() if name in SEARCHED or name not in STEADY}
    todo: dict[Any, Callable[[], Any]] = {
        ("reports", name, part, member.name): partial(scoring.indices, name, member.logs)
        for part, series in sets.items()
        for member in series
        if member.annotations is not None
        for name in CONTENDERS
    }
    for name in ACTIVE:
        for family, draw in {**steady, **UNSTEADY}.items():
            todo["alarms", name, family] = partial(scoring.false_alarms, name, draw, plan.seed, plan.series, COMMITS)
        for family, draw in planted.items():
            for step in STEPS:
                todo["delays", name, family, step] = partial(scoring.delays, name, draw, step, plan.seed, plan.planted)
        for shape in SHORT:
            todo["short", name, shape] = partial(scoring.short_levels, name, shape, plan.seed, plan.short)
    for title in platforms.SHAPES:
        todo["planted", title] = partial(platforms.named, title, plan.seed, plan.platforms)
    for family, size in itertools.product(platforms.FAMILIES, PAGE_SIZES):
        todo["pages", family, size] = partial(platforms.false_pages, family, plan.seed, QUIET * plan.platforms, size)
    for family, draw in UNSTEADY.items():
        todo["wandering", family] = partial(platforms.wandering, draw, plan.seed, -(-plan.platforms // RARELY))
    todo["denied",] = partial(platforms.denied, plan.seed, DENIED * plan.platforms)
    return todo


def tables(results: Results, plan: ScoringPlan, sets: Sets) -> Iterator[Table]:
    """Yield the tables of false alarms, power and short levels."""
    steady, commits = list(histories.families(sets)), plan.series * COMMITS

    def rates(title: str, note: str, families: Sequence[str]) -> Table:
        alarms = {name: [results["alarms", name, family] for family in families] for name in ACTIVE}
        rows = {name: [significant(1000 * number / commits) for number in row] for name, row in alarms.items()}
        return _table(title, note, families, rows)

    possible = significant(1000 * -math.log(1 - BOUND) / commits)
    absent = "" if OTAVA in CONTENDERS else " Otava has no row: pip install --no-deps apache-otava."
    note = (
        f"Reports per 1000 commits in which nothing happens, looked at as the history grows: ours after every commit, "
        f"the others after every {LOOKS}th. {commits:,} commits a family in series of {COMMITS}: 0 leaves up to "
        f"{possible} possible (95%). Real: residuals of the given series around a running median.{absent}"
    )
    yield rates("False alarms, steady noise", note, steady)
    note = "The same where the level wanders without a change of the code: only a re-run in turns can tell."
    yield rates("False alarms, unsteady noise", note, list(UNSTEADY))
    note = (
        f"Share reported within {SOON} commits / median delay in commits / share placed at the commit in the end; "
        f"{plan.planted} steps upwards of each size after {BEFORE} commits; -: most are not reported in {AFTER}."
    )
    for family in dict.fromkeys(key[2] for key in results if key[0] == "delays"):
        rows = {name: [_power(results["delays", name, family, step]) for step in STEPS] for name in ACTIVE}
        yield _table(f"Power, {family}", note, [f"{step:.0%}" for step in STEPS], rows)
    note = (
        f"Share of the changes that are reported, to within {NEAR} commits, in {plan.short} whole histories. The first "
        f"column is the worst of {POSITIONS} successive places of the second."
    )
    rows = {}
    for name in ACTIVE:
        shares = [results["short", name, shape] for shape in SHORT]
        by_place = [statistics.fmean(shares[0][offset::POSITIONS]) for offset in range(POSITIONS)]
        rows[name] = [f"{share:.2f}" for share in (min(by_place), *map(statistics.fmean, shares))]
    yield _table("Short levels", note, ["worst place", *SHORT], rows)
    yield from pages(results, plan)


def pages(results: Results, plan: ScoringPlan) -> Iterator[Table]:
    """Yield the tables of what pages say of planted changes, and of none."""
    denied: platforms.Denied = results["denied",]
    note = (
        f"{plan.platforms} platforms of {platforms.NATIVES} native series and {platforms.OF_CONTROLS} controls. Named: "
        "share of the planted changes that pages name, at their commits. Quiet: of the other series without one. True: "
        "share of the rows of the newest commit across a change that do not deny it. On histories with changes of "
        f"1 to 8% at random commits, {denied.newest:.4f} of such rows deny it, and {denied.neighbours:.4f} of the rows "
        "of a change's commit with the one before."
    )
    rows = [
        [title, *(f"{share:.{digits}f}" for share, digits in zip(results["planted", title], (2, 3, 3), strict=True))]
        for title in platforms.SHAPES
    ]
    yield Table("Pages: planted changes", note, ["change", *platforms.Named._fields], rows)
    note = (
        f"Share of {QUIET * plan.platforms} pages with a false change. A page has "
        f"{platforms.NATIVES + platforms.OF_CONTROLS} series of so many commits, a quarter of them controls."
    )
    rows = [
        [family, *(f"{results['pages', family, size]:.3f}" for size in PAGE_SIZES)] for family in platforms.FAMILIES
    ]
    yield Table("Pages: false changes", note, ["noise", *(f"{size} commits" for size in PAGE_SIZES)], rows)
    note = (
        f"Changes that pages name in 1000 values of native series whose levels wander without a change of the code, on "
        f"{-(-plan.platforms // RARELY)} platforms of {platforms.WANDERING} commits: ever, looked at after every "
        f"{platforms.EVERY}th, and in the end. Unsteady: steps that they show as unsteady in the end."
    )
    rows = [[family, *map(significant, results["wandering", family])] for family in UNSTEADY]
    yield Table("Pages: unsteady noise", note, ["noise", "ever a change", "a change", "unsteady"], rows)


def people(results: Results, sets: Sets) -> Iterator[Table]:
    """Yield the tables of annotated series: agreement with all annotators, and with all but one."""
    left_out = f"all annotators but one, on average over the one, of series that {JUDGES} or more annotated"
    kinds: tuple[tuple[str, str, int, Callable[..., AnnotationScore]], ...] = (
        ("Annotated", "all annotators", 1, scoring.agreement),
        ("Among people", left_out, JUDGES, scoring.among_people),
    )
    for (part, series), (title, whom, least, judge) in itertools.product(sets.items(), kinds):
        marks = {
            member.name: member.annotations
            for member in series
            if member.annotations and len(member.annotations) >= least
        }
        halves = half_of(marks)
        agreed = {
            who: {member: judge(marks[member], results["reports", who, part, member]) for member in marks}
            for who in CONTENDERS
        }
        if judge is scoring.among_people:
            agreed = {PEOPLE: {member: scoring.among_people(marks[member], None) for member in marks}} | agreed
        rows = {
            who: [*_shares(agreements.values()), *(_half(agreements, halves, k) for k in (0, 1))]
            for who, agreements in agreed.items()
        }
        note = (
            f"Agreement with {whom}; margin {MARGIN} commits; {len(marks)} series, and the F1 of either half of their "
            f"ids ({' and '.join(str(list(halves.values()).count(k)) for k in (0, 1))})."
        )
        if marks:
            yield _table(f"{title}: {part}", note, [*AnnotationScore._fields, "first half", "second half"], rows)


def _half(agreed: Mapping[str, AnnotationScore], halves: Mapping[str, int], half: int) -> str:
    return _shares(part for name, part in agreed.items() if halves[name] == half)[0]


def _table(title: str, note: str, heads: Iterable[str], rows: Mapping[str, Sequence[str]]) -> Table:
    return Table(title, note, ["detector", *heads], [[name, *cells] for name, cells in rows.items()])


def _power(parts: Sequence[Delay]) -> str:
    median = statistics.median(part.commits for part in parts)
    soon = statistics.fmean(part.commits <= SOON for part in parts)
    exact = statistics.fmean(part.error == 0 for part in parts)
    return f"{soon:.2f} / {f'{median:g}' if math.isfinite(median) else '-'} / {exact:.2f}"


def _shares(parts: Iterable[AnnotationScore]) -> list[str]:
    parts = list(parts)
    return [f"{share:.3f}" for share in scoring.mean(parts)] if parts else ["-"] * len(AnnotationScore._fields)


def half_of(names: Iterable[str]) -> dict[str, int]:
    """Return 0 or 1 for every series: the numbers in their names, in order, belong to the halves in turn.

    Series that were cut from one have the same first number in their names, so that they are in one half.
    """
    ids = {}
    for name in names:
        number = re.search(r"\d+", name)
        ids[name] = (int(number[0]), "") if number else (0, name)
    order = {key: rank for rank, key in enumerate(sorted(set(ids.values())))}
    return {name: order[key] % 2 for name, key in ids.items()}
