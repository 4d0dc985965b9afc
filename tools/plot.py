"""`python -m tools plot`: the trend of some series as a picture, SVG or PNG, for a text or a slide."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from tools import site, trend_drawing, trend_panels
from tools.atomic import replace_bytes
from tools.columns import Columns
from tools.errors import UsageError
from tools.measurements import SeriesKey
from tools.site import Site
from tools.trend_panels import BASE, History, Unit

KINDS = (".svg", ".png")
MOST = 12  # panels: more of them are no picture


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the `plot` command."""
    parser.add_argument(
        "series",
        nargs="+",
        metavar="SERIES",
        help="a regular expression that series match, as asv writes them: matmul.Cpu.time_hot('native', 'CASE')",
    )
    for name, text in (
        ("implementation", "only this implementation (may be given several times)"),
        ("case", "only this test case (may be given several times)"),
        ("machine", "only this machine (may be given several times)"),
    ):
        parser.add_argument(f"--{name}", action="append", metavar="NAME", help=text)
    parser.add_argument("--out", type=Path, default=Path("trend.svg"), help="the file, .svg or .png (trend.svg)")
    parser.add_argument(
        "--unit",
        choices=[unit.value for unit in Unit],
        help=f"gflops, gbs (GB/s), us (µs a call), speedup (against {BASE}); default: gflops, us without FLOPs",
    )
    parser.add_argument("--range", type=int, metavar="N", help="only the newest N commits that have a result")
    parser.add_argument("--dark", action="store_true", help="for a dark ground")
    parser.add_argument("--results", type=Path, default=Path("results"), help="asv's results directory (results)")
    parser.add_argument("--repository", type=Path, default=Path(), help="a clone of the repository (.)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Draw the series; say where to."""
    kind = args.out.suffix.lower()
    if kind not in KINDS:
        raise UsageError(f"--out {args.out}: a file that ends in {' or '.join(KINDS)} is wanted")
    if args.range is not None and args.range < 1:
        raise UsageError(f"--range {args.range}: a number of commits, 1 or more, is wanted")
    found = site.read(args.results, args.repository)
    for note in found.notes:
        print(f"note: {note}", file=err)
    keys = choose(found, args)
    series = [columns for key in keys if (columns := found.series(key)).is_measured.any()]
    unit = _unit(args.unit, series, args.series)
    if unit is Unit.SPEEDUP:
        series = _beside_base(series)
    bases = _bases(found, series) if unit is Unit.SPEEDUP else []
    picture = trend_panels.picture(series, bases, unit, _history(found), args.range)
    _check(picture, series, unit)
    replace_bytes(args.out, trend_drawing.draw(picture, kind=kind[1:], dark=args.dark))
    lines = sum(len(panel.lines) for panel in picture.panels)
    print(f"{lines} series over {len(picture.commits)} commits: {args.out}", file=out)
    return 0


def spelled(key: SeriesKey) -> str:
    """Return a series as asv writes it: "matmul.Cpu.time_hot('native', 'float32-1024x1024x1024')"."""
    return f"{key.benchmark}({key.implementation!r}, {key.case!r})"


def choose(found: Site, args: argparse.Namespace) -> list[SeriesKey]:
    """Return the series that match one of the expressions and all the filters.

    Raises:
        UsageError: no regular expression, or nothing matches.
    """
    expressions = [_compiled(text) for text in args.series]
    wanted = {name: getattr(args, name) for name in ("implementation", "case", "machine")}
    kept = [
        key
        for key in found.keys
        if any(expression.search(spelled(key)) for expression in expressions)
        and all(names is None or getattr(key, name) in names for name, names in wanted.items())
    ]
    if kept:
        return kept
    asked = " ".join(
        [*map(repr, args.series), *(f"--{name} {text}" for name, names in wanted.items() for text in names or ())]
    )
    there = list(dict.fromkeys(key.benchmark for key in found.keys))
    if not there:
        raise UsageError(f"{args.results}: no series have times yet: run `make track`, or name another with --results")
    raise UsageError(f"{asked} matches no series; there are {', '.join(there)}, of implementations and test cases")


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"SERIES {text!r} is not a regular expression: {error}") from None


def _unit(asked: str | None, series: Sequence[Columns], expressions: Sequence[str]) -> Unit:
    if not series:
        raise UsageError(
            f"{' '.join(map(repr, expressions))}: nothing of it was measured: it is n/a or failed at every commit"
        )
    if asked is not None:
        return Unit(asked)
    return Unit.US if any(each.flop is None for each in series) else Unit.GFLOPS


def _beside_base(series: Sequence[Columns]) -> list[Columns]:
    kept = [each for each in series if each.key.implementation != BASE]
    if not kept:
        raise UsageError(
            f"--unit {Unit.SPEEDUP.value}: speed-ups are against {BASE}, and no other implementation is asked for"
        )
    return kept


def _bases(found: Site, series: Sequence[Columns]) -> list[Columns]:
    """Return the series of BASE beside these; one that is missing leaves its speed-up unknown."""
    beside = {(each.key.machine, each.key.environment, each.key.benchmark, each.key.case) for each in series}
    return [
        found.series(key)
        for key in found.keys
        if key.implementation == BASE and (key.machine, key.environment, key.benchmark, key.case) in beside
    ]


def _history(found: Site) -> History:
    return History(line=found.line, tags=found.tags, findings=found.findings)


def _check(picture: trend_panels.Picture, series: Sequence[Columns], unit: Unit) -> None:
    if len(picture.panels) > MOST:
        raise UsageError(
            f"{len(series)} series are {len(picture.panels)} panels, {MOST} at most make a picture: name fewer "
            "benchmarks or test cases, or use --machine, --case"
        )
    lines = [line for panel in picture.panels for line in panel.lines]
    if all(np.isnan(line.values).all() for line in lines):
        known = {
            Unit.GFLOPS: "FLOPs",
            Unit.GBS: "bytes of kernels that memory bounds",
            Unit.SPEEDUP: f"times of {BASE}",
        }
        missing = known.get(unit, "times")
        raise UsageError(
            f"--unit {unit.value}: no {missing} are known of these series at these commits; --unit us needs none"
        )
