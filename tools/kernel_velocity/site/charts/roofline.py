"""Bokeh's roofline plots: rates over arithmetic intensity, both logarithmic, below the roofs of a device.

A slope is a memory's bandwidth, a level line a dtype's peak (Williams, Waterman and Patterson, Roofline: An Insightful
Visual Performance Model, CACM 52(4), 2009). The pages' scripts fill in the points, and colour the labels for the
reader's colour scheme.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Any

from bokeh.embed import json_item
from bokeh.models import ColumnDataSource, CustomJS, HoverTool, Label, Scatter, TapTool
from bokeh.plotting import figure

from kernel_velocity import units
from kernel_velocity.roofline.model import MEMORY, Roofs
from kernel_velocity.site.charts.palette import NEUTRAL

HEIGHT = 440  # px
GIGA = 1e9
ROOM = 4.0  # times: how far the intensities go beyond the points and ridges
MARGIN = 2.0  # times: likewise the rates; labels stand there
FONT = "12px"
APART = 1.5  # times: labels of lines that lie closer would cover each other, and are merged

COLUMNS = (
    *("x", "y", "alpha", "size", "colour", "mark", "kernel", "case", "implementation", "commit", "subject"),
    *("intensity", "rate", "bandwidth", "efficiency", "bound", "time", "page"),
)
# plain @column, never {safe}: names are data, and Bokeh sets these as text
TOOLTIPS = [
    *(("commit", "@commit"), ("message", "@subject"), ("kernel", "@kernel"), ("test case", "@case")),
    *(("implementation", "@implementation"), ("rate", "@rate"), ("efficiency", "@efficiency")),
    *(("bound by", "@bound"), ("intensity", "@intensity"), ("bandwidth", "@bandwidth"), ("time", "@time")),
]
OPEN_NEAREST = """
  const { geometries, source } = cb_data;
  const { x, y } = source.data;
  const away = (index) => Math.hypot(Math.log(x[index] / geometries.x), Math.log(y[index] / geometries.y));
  const [nearest] = [...source.selected.indices].sort((a, b) => away(a) - away(b));
  window.location.href = source.data.page[nearest];
"""  # among the points under the pointer; Bokeh's OpenURL would open the pages of all


def axes(
    intensities: Iterable[float],
    rates: Iterable[float],
    roofs: Roofs,
    peaks: Mapping[str, float],
    dtypes: Collection[str],
) -> figure:
    """Return an empty plot whose axes hold some points (FLOP/B and FLOP/s) and the roofs.

    Args:
        peaks: FLOP/s by dtype. dtypes: of the points. The ridges of other dtypes may lie outside.
    """
    slopes = [bandwidth for _, bandwidth in _slopes(roofs)]
    xs = [intensity for intensity in intensities if intensity > 0]
    xs += [peak / slope for slope in slopes for dtype, peak in peaks.items() if dtype in dtypes]
    low, high = min(xs, default=1.0) / ROOM, max(xs, default=1.0) * ROOM
    ys = [rate / GIGA for rate in rates if rate > 0] + [peak / GIGA for peak in peaks.values()]
    ys += [slope * low / GIGA for slope in slopes]
    plot = figure(
        height=HEIGHT,
        sizing_mode="stretch_width",
        x_axis_type="log",
        y_axis_type="log",
        x_range=(low, high),
        y_range=(min(ys, default=1.0) / MARGIN, max(ys, default=1.0) * MARGIN),
        x_axis_label=f"arithmetic intensity, {units.intensity_units({*peaks, *dtypes})}",
        y_axis_label=f"rate, {units.rate_units({*peaks, *dtypes})}",
        tools="box_zoom,reset,save",
        toolbar_location="above",
        active_drag=None,
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_color=None,
    )
    plot.toolbar.logo = None
    return plot


def draw_roofs(plot: figure, roofs: Roofs, peaks: Mapping[str, float], dtypes: Container[str]) -> None:
    """Draw the slope of every measured bandwidth up to the highest peak, and a level line for every peak.

    Args:
        peaks: FLOP/s by dtype. dtypes: of the points. The level lines of other dtypes are fainter.
    """
    left, right = plot.x_range.start, plot.x_range.end
    highest, slopes = max(peaks.values(), default=None), _slopes(roofs)
    for name, slope in slopes:
        end = right if highest is None else min(right, highest / slope)
        ends = [slope * x / GIGA for x in (left, end)]
        dash = "solid" if name == MEMORY else "dashed"
        plot.line([left, end], ends, line_color=NEUTRAL, line_width=2, line_dash=dash)
    _name_slopes(plot, slopes)
    for dtype, peak in peaks.items():
        start = min((peak / slope for _, slope in slopes), default=left)
        width, dash = (2, "solid") if dtype in dtypes else (1, "dotted")
        plot.line([start, right], [peak / GIGA] * 2, line_color=NEUTRAL, line_width=width, line_dash=dash)
    _name_peaks(plot, sorted(peaks.items(), key=lambda pair: -pair[1]))


def _name_slopes(plot: figure, slopes: Sequence[tuple[str, float]]) -> None:
    """Write DRAM's label below its line, which rises away from it, and the labels of all caches in the upper corner.

    The lines of caches lie too close for labels of their own, and a machine has no points in that corner.
    """
    left, top = plot.x_range.start, plot.y_range.end
    caches = [f"{name} {units.gigabytes(slope / GIGA)}" for name, slope in slopes if name != MEMORY]
    if caches:
        text = "\n".join(["dashed, from above:" if len(caches) > 1 else "dashed:", *caches])
        plot.add_layout(Label(x=left, y=top, text=text, text_baseline="top", text_font_size=FONT, x_offset=8))
    for name, slope in slopes:
        if name == MEMORY:
            text = f"{name} {units.gigabytes(slope / GIGA)}"
            _write(plot, left, slope * left / GIGA, text, text_align="left", x_offset=14, y_offset=-16)


def _name_peaks(plot: figure, peaks: Sequence[tuple[str, float]]) -> None:
    """Write the labels of the level lines, highest first. Lines that lie close share one.

    "float32, float16 247 GFLOPS, tf32 300 GFLOPS": a phone has no room to repeat a rate.
    """
    groups: list[list[tuple[str, float]]] = []
    for peak in peaks:
        if groups and groups[-1][0][1] < APART * peak[1]:
            groups[-1].append(peak)
        else:
            groups.append([peak])
    for group in groups:
        rates = [(dtype, units.rate(peak / GIGA, units.rate_unit(dtype))) for dtype, peak in group]
        equal = itertools.groupby(rates, key=lambda pair: pair[1])
        text = ", ".join(f"{', '.join(dtype for dtype, _ in pairs)} {rate}" for rate, pairs in equal)
        _write(plot, plot.x_range.end, group[0][1] / GIGA, text, text_align="right", x_offset=-4, y_offset=6)


def _write(plot: figure, x: float, y: float, text: str, **where: Any) -> None:
    plot.add_layout(Label(x=x, y=y, text=text, text_font_size=FONT, **where))


def _slopes(roofs: Roofs) -> list[tuple[str, float]]:
    """Return name and B/s of the levels whose bandwidth is known, innermost first."""
    return [(level.name, level.bandwidth) for level in roofs.levels if level.bandwidth is not None]


def document(
    intensities: tuple[float, ...], rates: tuple[float, ...], roofs: Roofs, dtypes: Collection[str]
) -> dict[str, Any]:
    """Return a plot with its roofs and without points, as Bokeh.embed.embed_item takes it.

    Sources are named: "paths" joins each series' values, "points" are the values, "names" stands at the newest.

    Args:
        intensities: FLOP/B, least and most of the points, or empty. rates: FLOP/s, likewise.
        roofs: of the device. dtypes: of the points.
    """
    peaks = {dtype: peak for dtype, peak in roofs.peaks.items() if peak is not None}
    plot = axes(intensities, rates, roofs, peaks, dtypes)
    draw_roofs(plot, roofs, peaks, dtypes)
    paths = ColumnDataSource({"xs": [], "ys": [], "colour": []}, name="paths")
    plot.multi_line("xs", "ys", source=paths, line_color="colour", line_alpha=0.5, line_width=1.5)
    points = ColumnDataSource({name: [] for name in COLUMNS}, name="points")
    style = {"size": "size", "fill_color": "colour", "line_color": "colour", "marker": "mark"}
    dots = plot.scatter("x", "y", source=points, fill_alpha="alpha", line_alpha="alpha", **style)
    same = Scatter(x="x", y="y", fill_alpha="alpha", line_alpha="alpha", **style)
    dots.nonselection_glyph, dots.selection_glyph = same, same  # a click opens a page; it must not fade the rest
    names = ColumnDataSource({name: [] for name in ("x", "y", "text", "right", "down", "align")}, name="names")
    where = {"x_offset": "right", "y_offset": "down", "text_align": {"field": "align"}}
    plot.text("x", "y", "text", source=names, **where, text_font_size="12px", name="names")
    plot.add_tools(
        HoverTool(renderers=[dots], tooltips=TOOLTIPS),
        TapTool(renderers=[dots], visible=False, callback=CustomJS(code=OPEN_NEAREST)),
    )
    return dict(json_item(plot))
