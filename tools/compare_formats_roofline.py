"""The roofline plot of a comparison: FLOP/s over arithmetic intensity, both logarithmic, under the measured roofs.

A slope is a memory's bandwidth, a level line a dtype's peak (Williams, Waterman and Patterson, Roofline: An Insightful
Visual Performance Model, CACM 52(4), 2009). Where no roofs are handed over, DRAM's slope and the peaks follow from what
the rows' rooflines say of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bokeh.embed import json_item
from bokeh.models import ColumnDataSource, HoverTool, Label
from bokeh.plotting import figure

from tools import compare_formats_words as words
from tools import units
from tools.compare_formats_charts import NEUTRAL, Chart
from tools.compare_formats_figures import Row
from tools.roofline import Level, Roofline, Roofs

HEIGHT = 440  # px
MARKS = ("circle", "square", "triangle", "diamond", "inverted_triangle", "star")  # one per problem, then from the start
GIGA = 1e9
DRAM = "DRAM"
ROOM = 4.0  # times: how far the intensities go beyond the points and ridges
MARGIN = 2.0  # times: likewise the rates; labels stand there


def chart(found: Sequence[Row], roofs: Roofs | None, colours: Mapping[str, str]) -> Chart | None:
    """Return the plot of all rows that have a roofline; None where none has."""
    placed = [(row, row.timed.roofline) for row in found if row.figures is not None and row.timed.roofline is not None]
    if not placed:
        return None
    roofs = roofs or roofs_of({_dtype(row, roofline): roofline for row, roofline in placed})
    dtypes = list(dict.fromkeys(_dtype(row, roofline) for row, roofline in placed))
    peaks = {dtype: peak for dtype in dtypes if (peak := roofs.peaks.get(dtype)) is not None}
    plot = _axes([roofline for _, roofline in placed], roofs, peaks)
    _draw_roofs(plot, roofs, peaks)
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


def _axes(placed: Sequence[Roofline], roofs: Roofs, peaks: Mapping[str, float]) -> figure:
    ridges = [peak / level.bandwidth for level in roofs.levels if level.bandwidth for peak in peaks.values()]
    xs = [each.intensity for each in placed if each.intensity > 0] + ridges
    low, high = min(xs) / ROOM, max(xs) * ROOM
    ys = [each.achieved / GIGA for each in placed] + [peak / GIGA for peak in peaks.values()]
    ys += [level.bandwidth * low / GIGA for level in roofs.levels if level.bandwidth]
    return _figure((low, high), (min(ys) / MARGIN, max(ys) * MARGIN))


def _figure(xs: tuple[float, float], ys: tuple[float, float]) -> figure:
    plot = figure(
        height=HEIGHT,
        sizing_mode="stretch_width",
        x_axis_type="log",
        y_axis_type="log",
        x_range=xs,
        y_range=ys,
        x_axis_label="arithmetic intensity, FLOP per byte",
        y_axis_label="rate, GFLOPS",
        tools="box_zoom,reset,save",
        toolbar_location="above",
        active_drag=None,
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_color=None,
    )
    plot.toolbar.logo = None
    return plot


def _draw_roofs(plot: figure, roofs: Roofs, peaks: Mapping[str, float]) -> None:
    left, right = plot.x_range.start, plot.x_range.end
    highest = max(peaks.values(), default=None)
    begin = right
    for level in roofs.levels:
        if level.bandwidth is None:
            continue
        end = right if highest is None else min(right, highest / level.bandwidth)
        begin = min(begin, end)
        style: dict[str, Any] = {"line_dash": "solid" if level.name == DRAM else "dashed"}
        ends = [level.bandwidth * x / GIGA for x in (left, end)]
        plot.line([left, end], ends, line_color=NEUTRAL, line_width=2, **style)
        text = f"{level.name} {units.gigabytes(level.bandwidth / GIGA)}"
        _write(plot, left, level.bandwidth * left / GIGA, text, "left")  # below the slope, which rises away from it
    for dtype, peak in peaks.items():
        start = min((peak / level.bandwidth for level in roofs.levels if level.bandwidth), default=left)
        plot.line([start, right], [peak / GIGA] * 2, line_color=NEUTRAL, line_width=2)
        _write(plot, right, peak / GIGA, f"{dtype} {units.gflops(peak / GIGA)}", "right")


def _write(plot: figure, x: float, y: float, text: str, align: str) -> None:
    x_offset, y_offset = (14, -16) if align == "left" else (-4, 6)
    label = Label(x=x, y=y, text=text, text_align=align, text_font_size="12px", x_offset=x_offset, y_offset=y_offset)
    plot.add_layout(label)


def _draw_point(plot: figure, row: Row, roofline: Roofline, colour: str, mark: str) -> None:
    source = ColumnDataSource(
        {
            "x": [roofline.intensity],
            "y": [roofline.achieved / GIGA],
            "problem": [row.compared.problem],
            "case": [row.compared.case],
            "implementation": [row.timed.implementation],
            "rate": [units.gflops(roofline.achieved / GIGA)],
            "bandwidth": [units.gigabytes(roofline.bandwidth / GIGA)],
            "intensity": [f"{units.significant(roofline.intensity)} FLOP/B"],
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
