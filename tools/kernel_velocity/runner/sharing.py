"""The table of `harness/sharing.py`: how much longer each series reads in a process that measured others. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from kernel_velocity import units
from kernel_velocity.harness.sharing import KINDS
from kernel_velocity.harness.statistics import t_975
from kernel_velocity.tables import Table

FEWEST_PASSES = 3  # for an interval


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
        cells.append([series, units.seconds(isolated), *_percents(mean, half), *(f"{value:.3f} s" for value in setup)])
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
