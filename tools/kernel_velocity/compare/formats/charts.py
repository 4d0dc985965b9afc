"""The charts of a comparison's page: the samples of each implementation, and the roofline plot of all.

Axes carry their unit. A caption says in text what a chart shows in numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from kernel_velocity import units
from kernel_velocity.compare import text
from kernel_velocity.compare.result import Row, Timed
from kernel_velocity.roofline.model import Roofline, Roofs
from kernel_velocity.site.charts import roofline as roofline_plot
from kernel_velocity.site.charts import samples
from kernel_velocity.site.charts.plot import MARKS, Mark, Plot, around
from kernel_velocity.site.charts.roofline import GIGA
from kernel_velocity.site.charts.samples import Chart, Drawn, chart


def charts(timed: Timed, colour: str) -> list[Chart]:
    """Return every chart of the samples of an implementation, and of its power where that was recorded."""
    power = [chart("Power over time", *_power(timed, colour))] if timed.power else []
    return [*samples.charts(timed.rounds, timed.estimates, colour), *power]


def _power(timed: Timed, colour: str) -> Drawn:
    times, watts = (list(column) for column in zip(*timed.power, strict=True))
    plot = Plot(around("time since the start, s", times), around("power, W", watts, low=0))
    plot.line(timed.power, colour=colour)
    plot.dots(timed.power, colour, "large")
    return f"mean {np.mean(watts):.1f} W, highest {max(watts):.1f} W, as the driver reports it", plot


def roofline_chart(rows: Sequence[Row], roofs: Roofs | None, colours: Mapping[str, str]) -> Chart | None:
    """Return the plot of all rows that have a roofline, under the roofs that are known. None where no row has one."""
    placed = [(row, row.roofline) for row in rows if row.roofline is not None]
    if not placed:
        return None
    roofs = roofs or Roofs(levels=(), peaks={})
    dtypes = list(dict.fromkeys(roofline.dtype or row.compared.dtype for row, roofline in placed))
    peaks = {dtype: peak for dtype in dtypes if (peak := roofs.peaks.get(dtype)) is not None}
    marks = dict(zip(dict.fromkeys(row.compared.problem for row, _ in placed), itertools.cycle(MARKS), strict=False))
    dots = [
        Mark(
            x=roofline.intensity,
            y=roofline.achieved / GIGA,
            shape=marks[row.compared.problem],
            colour=colours[row.timed.implementation],
            title=_title(row, roofline),
        )
        for row, roofline in placed
    ]
    plot = roofline_plot.draw(dots, replace(roofs, peaks=peaks), dtypes)
    return chart("Roofline", _caption(roofs, peaks, marks), plot)


def _title(row: Row, roofline: Roofline) -> str:
    intensity = units.intensity(roofline.intensity, row.compared.dtype)
    figures = (text.rate(row), text.bandwidth(row), intensity, text.efficiency(row), f"bound by {text.bound(row)}")
    return f"{text.name(row)}: {', '.join(filter(None, figures))}"


def _caption(roofs: Roofs, peaks: Mapping[str, float], marks: Mapping[str, str]) -> str:
    unknown = [level.name for level in roofs.levels if level.bandwidth is None]
    parts = ["A point above DRAM's line took part of its data from a cache."]
    if len(marks) > 1:
        parts.append(f"Marks: {', '.join(f'{mark} {problem}' for problem, mark in marks.items())}.")
    if not peaks:
        parts.append("The peak rate was not measured: no level line.")
    if unknown:
        parts.append(f"Not measured: {', '.join(unknown)}.")
    return " ".join(parts)
