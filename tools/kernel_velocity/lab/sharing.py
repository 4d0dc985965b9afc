"""``kv lab sharing``: whether a series reads the same in a process that measured others, and what that saves.

With KV_ISOLATE=0 the series of a round share one process (harness/server.py). This compares them with series in
processes of their own, of the working tree, in turns (harness/sharing.py).
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from kernel_velocity import lock
from kernel_velocity.errors import UsageError
from kernel_velocity.harness import documents
from kernel_velocity.harness.sharing import KINDS
from kernel_velocity.harness.statistics import t_975
from kernel_velocity.runner import host, live
from kernel_velocity.tables import Table, aligned

PASSES, FEWEST_PASSES = 8, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    live.add_bench(parser)
    text = f"passes, each with fresh processes (default {PASSES})"
    parser.add_argument("--passes", type=int, default=PASSES, help=text)


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure, then print the table. Return the exit status."""
    if args.passes < FEWEST_PASSES:
        raise UsageError(f"--passes {args.passes}: wanted at least {FEWEST_PASSES}, for an interval")
    with lock.held(Path()), tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sharing.json")
        options = [f"--device={host.device()}", *live.options_given(args, ("passes", "bench"))]
        status = live.run("sharing", [str(path), *options], err, err)
        if status == 0:
            print(aligned(table(documents.read_checked(path)["rows"])), file=out)
    return status


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return how much longer each series reads in a shared process. A row is a `sharing.Comparison`."""
    by_series: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_series.setdefault(row["series"], []).append(row)
    longer = {series: [_longer(row["seconds"]) for row in passes] for series, passes in by_series.items()}
    cells, apart = [], 0
    for series, values in longer.items():
        mean, half = _interval(values)
        apart += abs(mean) > half
        isolated = statistics.median(value for row in by_series[series] for value in row["seconds"]["isolated"])
        setup = [statistics.fmean(row["setup"][kind] for row in by_series[series]) for kind in KINDS]
        cells.append(
            [series, f"{isolated * 1e3:.3f} ms", *_percents(mean, half), *(f"{value:.3f} s" for value in setup)]
        )
    overall = [statistics.median(values) for values in zip(*longer.values(), strict=True)]
    setup = [statistics.fmean(row["setup"][kind] for row in rows) for kind in KINDS]
    cells.append(["median, and mean", "", *_percents(*_interval(overall)), *(f"{value:.3f} s" for value in setup)])
    note = f"{len(overall)} passes; of {len(longer)} intervals (95%) {apart} do not hold 0, where chance makes 5%"
    heads = ["series", "isolated", "longer", "+-", *(f"warm, {kind}" for kind in KINDS)]
    return Table("in a shared process", note, heads, cells)


def _longer(seconds: dict[str, list[float]]) -> float:
    """Return the median over the turns of log(shared / isolated)."""
    return statistics.median(
        math.log(shared / isolated) for isolated, shared in zip(*(seconds[kind] for kind in KINDS), strict=True)
    )


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and 95% half-width (Student's t)."""
    return statistics.fmean(values), t_975(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def _percents(mean: float, half: float) -> tuple[str, str]:
    return f"{math.expm1(mean):+.2%}", f"{half:.2%}"
