"""Makes a kernel page's chart: Bokeh's document for its axes, and the data of every choice a reader has.

The document holds one choice (unit and test case); `trend.js` puts another one's data into the same sources. The
controls are the page's own HTML, because Bokeh's widgets live in a shadow DOM that the page's style cannot reach.
Colours of axes are set by `trend.js` too, for the reader's light or dark scheme.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bokeh.embed import json_item
from bokeh.models import (
    ColumnDataSource,
    DataRange1d,
    FixedTicker,
    GlyphRenderer,
    HoverTool,
    OpenURL,
    Scatter,
    TapTool,
)
from bokeh.plotting import figure

from tools.kernel_page import Chart, Line

# Four hues that keep a contrast of 3:1 on white and on near-black alike (WCAG's bound for graphics) and that people who
# see no red or no green tell apart (tests/tools/test_colours.py; found by a search over what the contrast leaves: 40 of
# CIELAB at least, where violet and blue of one lightness were 1 apart). A further implementation starts over.
COLOURS = {"eager": "#c87418", "compile": "#5a57f2", "native": "#2f846c", "triton": "#2f90cc"}
_OTHERS = ("#d8245f", "#9c6c30", "#80849a")
_NAN = float("nan")
_HEIGHT = 420  # px
_CROWDED = 40  # more commits than this, and the dots are drawn smaller
_LABELS = 24  # more commits than this, and the axis labels only some of them


@dataclass(frozen=True, kw_only=True)
class EmbeddedChart:
    """A chart as the page embeds it."""

    colours: tuple[tuple[str, str], ...]  # implementation, colour
    document: dict[str, Any]  # what Bokeh.embed.embed_item takes
    choices: dict[str, dict[str, dict[str, dict[str, list[Any]]]]]  # unit -> case -> implementation -> columns


def colours(implementations: tuple[str, ...]) -> dict[str, str]:
    """Return the colour of every implementation; a known one has the same colour on every page."""
    others = [name for name in implementations if name not in COLOURS]
    further = {name: _OTHERS[index % len(_OTHERS)] for index, name in enumerate(others)}
    return {name: COLOURS.get(name) or further[name] for name in implementations}


def embed(chart: Chart) -> EmbeddedChart:
    """Return a chart ready to be embedded."""
    choices: dict[str, dict[str, dict[str, dict[str, list[Any]]]]] = {}
    for line in chart.lines:
        by_case = choices.setdefault(line.quantity, {})
        by_case.setdefault(line.case, {})[line.implementation] = columns(chart, line)
    hues = colours(chart.implementations)
    plot = _axes(chart)
    dots = [
        _draw(plot, name, hues[name], choices[chart.quantities[0]][chart.first_case][name])
        for name in chart.implementations
        if name in choices[chart.quantities[0]][chart.first_case]
    ]
    plot.y_range.renderers = dots  # intervals from few rounds can be so wide that they would hide every step
    plot.add_tools(*_tools(dots))
    return EmbeddedChart(colours=tuple(hues.items()), document=json_item(plot), choices=choices)


def columns(chart: Chart, line: Line) -> dict[str, list[Any]]:
    """Return a line as columns, one entry for each commit; a missing value is None."""
    dots = line.dots
    return {
        "x": list(range(len(dots))),
        "y": [dot.value for dot in dots],
        "low": [dot.low for dot in dots],
        "high": [dot.high for dot in dots],
        "implementation": [line.implementation] * len(dots),
        "shown": [dot.shown for dot in dots],
        "interval": [dot.interval for dot in dots],
        "rounds": [dot.rounds for dot in dots],
        "change": [dot.change for dot in dots],
        "flags": [dot.flags for dot in dots],
        "commit": [commit.short for commit in chart.commits],
        "subject": [commit.subject for commit in chart.commits],
        "author": [commit.author for commit in chart.commits],
        "date": [commit.date for commit in chart.commits],
        "page": [commit.href for commit in chart.commits],
    }


def _axes(chart: Chart) -> figure:
    """Return the empty figure: commits in order along x, the value from zero along y."""
    plot = figure(
        height=_HEIGHT,
        sizing_mode="stretch_width",
        tools="box_zoom,xpan,reset,save",
        toolbar_location="above",
        active_drag=None,  # a finger that scrolls the page must not pan the chart
        active_scroll=None,
        x_range=(-0.5, len(chart.commits) - 0.5),
        # only_visible: an implementation switched off no longer squeezes the others
        y_range=DataRange1d(start=0, only_visible=True, range_padding=0.15),
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_color=None,
        y_axis_label=chart.quantities[0],
        x_axis_label="commit, in the order of the history",
    )
    plot.toolbar.logo = None
    stride = -(-len(chart.commits) // _LABELS)
    plot.xaxis.ticker = FixedTicker(ticks=list(range(0, len(chart.commits), stride)))
    plot.xaxis.major_label_overrides = {index: commit.short for index, commit in enumerate(chart.commits)}
    plot.xaxis.major_label_orientation = 0.9  # radians: eight digits do not fit side by side
    plot.xgrid.visible = False
    plot.yaxis.formatter.use_scientific = False
    return plot


def _draw(plot: figure, name: str, colour: str, data: dict[str, list[Any]]) -> GlyphRenderer:
    """Draw one implementation: interval, line, a dot for each commit; return the dots."""
    numbers = {key: [_NAN if item is None else item for item in column] for key, column in data.items()}
    source = ColumnDataSource(data=numbers, name=name)  # a NaN breaks the line where a value is missing
    size = 9 if len(data["x"]) <= _CROWDED else 5
    # Note: tried an area; Bokeh's run across a missing value as if it had been measured there.
    plot.segment(x0="x", y0="low", x1="x", y1="high", source=source, line_color=colour, line_alpha=0.3, line_width=size)
    plot.line(x="x", y="y", source=source, line_color=colour, line_width=2)
    dots: GlyphRenderer = plot.scatter(x="x", y="y", source=source, size=size, fill_color=colour, line_color=colour)
    same = Scatter(x="x", y="y", size=size, fill_color=colour, line_color=colour)
    dots.nonselection_glyph = same  # a click opens a page; it must not fade the rest
    dots.selection_glyph = same
    return dots


def _tools(dots: list[GlyphRenderer]) -> tuple[HoverTool, TapTool]:
    # Plain @column, never {safe}: messages and names are data, and Bokeh sets these as text.
    rows = (
        ("commit", "@commit"),
        ("message", "@subject"),
        ("author", "@author"),
        ("date", "@date"),
        ("implementation", "@implementation"),
        ("value", "@shown"),
        ("interval", "@interval"),
        ("rounds", "@rounds"),
        ("change", "@change"),
        ("flags", "@flags"),
    )
    return (
        HoverTool(renderers=dots, tooltips=list(rows), point_policy="snap_to_data"),
        TapTool(renderers=dots, visible=False, callback=OpenURL(url="@page", same_tab=True)),
    )
