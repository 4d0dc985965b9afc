"""The roofline plot of a comparison: FLOP/s over arithmetic intensity, both logarithmic, under the measured roofs.

Where no roofs are handed over, DRAM's slope and the peaks follow from what the rows' rooflines say of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bokeh.embed import json_item
from bokeh.models import ColumnDataSource, HoverTool
from bokeh.plotting import figure

from kernel_velocity import units
from kernel_velocity.compare.formats import compare_formats_words as words
from kernel_velocity.compare.formats.charts import Chart
from kernel_velocity.compare.formats.figures import Row
from kernel_velocity.roofline.model import Level, Roofline, Roofs
from kernel_velocity.site.charts import roofline as roofline_plot
from kernel_velocity.site.charts.roofline import GIGA

MARKS = ("circle", "square", "triangle", "diamond", "inverted_triangle", "star")  # one per problem, then from the start
DRAM = "DRAM"


def chart(found: Sequence[Row], roofs: Roofs | None, colours: Mapping[str, str]) -> Chart | None:
    """Return the plot of all rows that have a roofline; None where none has."""
    placed = [(row, row.timed.roofline) for row in found if row.figures is not None and row.timed.roofline is not None]
    if not placed:
        return None
    roofs = roofs or roofs_of({_dtype(row, roofline): roofline for row, roofline in placed})
    dtypes = list(dict.fromkeys(_dtype(row, roofline) for row, roofline in placed))
    peaks = {dtype: peak for dtype in dtypes if (peak := roofs.peaks.get(dtype)) is not None}
    intensities, rates = zip(*((roofline.intensity, roofline.achieved) for _, roofline in placed), strict=True)
    plot = roofline_plot.axes(intensities, rates, roofs, peaks, dtypes)
    roofline_plot.draw_roofs(plot, roofs, peaks, dtypes)
    problems = list(dict.fromkeys(row.compared.problem for row, _ in placed))
    for row, roofline in placed:
        mark = MARKS[problems.index(row.compared.problem) % len(MARKS)]
        _draw_point(plot, row, roofline, colours[row.timed.implementation], mark)
    plot.add_tools(HoverTool(renderers=[each for each in plot.renderers if each.name == "point"], tooltips=_TOOLTIPS))
    return Chart(title="Roofline", caption=_caption(roofs, peaks, problems), document=dict(json_item(plot)))


def _dtype(row: Row, roofline: Roofline) -> str:
    """Return the dtype whose peak a row lies below."""
    return roofline.dtype or row.compared.dtype


def roofs_of(rooflines: Mapping[str, Roofline]) -> Roofs:
    """Return DRAM's slope and the dtypes' peaks as rooflines by dtype say them.

    What is attainable is the smaller of peak and slope * intensity; at the ridge they are equal.
    """
    bandwidth: float | None = None
    peaks: dict[str, float | None] = {}
    for dtype, each in rooflines.items():
        if each.bound == "memory" and each.intensity > 0:
            slope: float | None = each.attainable / each.intensity
        else:
            slope = None if not each.ridge else each.attainable / each.ridge
        bandwidth = bandwidth or slope
        peaks[dtype] = each.attainable if each.bound == "compute" else _product(each.ridge, slope)
    return Roofs(levels=(Level(name=DRAM, size=None, bandwidth=bandwidth),), peaks=peaks)


def _product(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one * other


_TOOLTIPS = [
    ("problem", "@problem"),
    ("test case", "@case"),
    ("implementation", "@implementation"),
    ("rate", "@rate"),
    ("bandwidth", "@bandwidth"),
    ("intensity", "@intensity"),
    ("efficiency", "@efficiency"),
    ("bound", "@bound"),
    ("memory", "@memory"),
]  # plain @column, never {safe}: names are data, and Bokeh sets these as text


def _draw_point(plot: figure, row: Row, roofline: Roofline, colour: str, mark: str) -> None:
    source = ColumnDataSource(
        {
            "x": [roofline.intensity],
            "y": [roofline.achieved / GIGA],
            "problem": [row.compared.problem],
            "case": [row.compared.case],
            "implementation": [row.timed.implementation],
            "rate": [words.rate(row)],
            "bandwidth": [units.gigabytes(roofline.bandwidth / GIGA)],
            "intensity": [units.intensity(roofline.intensity, row.compared.dtype)],
            "efficiency": [words.efficiency(row)],
            "bound": [words.bound(row)],
            "memory": [words.memory(row)],
        }
    )
    style = {"fill_color": colour, "line_color": colour, "fill_alpha": 0.75}
    plot.scatter("x", "y", source=source, size=10, marker=mark, name="point", **style)


def _caption(roofs: Roofs, peaks: Mapping[str, float], problems: Sequence[str]) -> str:
    unknown = [level.name for level in roofs.levels if level.bandwidth is None]
    parts = ["A point above DRAM's line took part of its data from a cache."]
    if len(problems) > 1:
        marks = (f"{MARKS[index % len(MARKS)].replace('_', ' ')} {name}" for index, name in enumerate(problems))
        parts.append(f"Marks: {', '.join(marks)}.")
    if not peaks:
        parts.append("The peak rate was not measured: no level line.")
    if unknown:
        parts.append(f"Not measured: {', '.join(unknown)}.")
    return " ".join(parts)
