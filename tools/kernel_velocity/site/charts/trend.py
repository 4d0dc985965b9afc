"""Makes a kernel page's chart: Bokeh's document, empty; `trend.js` puts the data of the reader's choice into it.

The controls are the page's own HTML, because Bokeh's widgets live in a shadow DOM that the page's style cannot reach;
so is what is shown of the commit under the pointer, which a canvas of 100,000 points would be slow to draw anew.
Colours of axes are set by `trend.js` too, for the reader's light or dark scheme.
"""

from __future__ import annotations

from typing import Any

from bokeh.embed import json_item
from bokeh.models import ColumnDataSource, FixedTicker, Range1d
from bokeh.plotting import figure

from kernel_velocity.site.charts import palette

# A colour is not the only sign of an implementation: the shapes of its dots tell it too.
_SHAPES = ("circle", "square", "triangle", "diamond", "hex", "inverted_triangle")
_HEIGHT = 440  # px
_SIZE = 7  # of a dot, px; the page's script makes them smaller where many are in view
_UPWARDS = 1.5708  # radians


def document(implementations: tuple[str, ...]) -> dict[str, Any]:
    """Return what Bokeh.embed.embed_item takes: axes, and renderers without data.

    Renderers are named "<part>: <implementation>" with the parts band, bars, line and dots; those of marks by what
    they mark (tag, environment, finding, roof, changes), and "label: " and that.
    """
    plot = _axes()
    _draw_marks_behind(plot)
    shapes = {name: _SHAPES[index % len(_SHAPES)] for index, name in enumerate(implementations)}
    dashes = palette.dashes(implementations)
    for name, colour in palette.colours(implementations).items():
        _draw(plot, name, colour, shapes[name], dashes[name])
    _draw_marks_above(plot)
    return dict(json_item(plot))


def _axes() -> figure:
    """Return the empty figure: commits in order along x, the value along y."""
    plot = figure(
        height=_HEIGHT,
        sizing_mode="stretch_width",
        tools="xbox_zoom,xpan,reset,save",
        toolbar_location="above",
        active_drag=None,  # a finger that scrolls the page must not pan the chart
        active_scroll=None,
        x_range=Range1d(-0.5, 0.5),
        y_range=Range1d(0, 1),
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_color=None,
        x_axis_label="commit, in the order of the history",
        y_axis_label="",
        # A mark's label must not shift the frame, nor the axis when its numbers get longer
        min_border_left=64,
        output_backend="canvas",
    )
    plot.toolbar.logo = None
    plot.xaxis.ticker = FixedTicker(ticks=[])
    plot.xaxis.major_label_orientation = 0.9  # radians: eight digits do not fit side by side
    plot.xgrid.visible = False
    plot.yaxis.formatter.use_scientific = True
    return plot


def _source(name: str, *columns: str) -> ColumnDataSource:
    return ColumnDataSource(data={column: [] for column in columns}, name=name)


def _draw(plot: figure, name: str, colour: str, shape: str, dash: str) -> None:
    """Draw one implementation: intervals as a band and as bars, a line, a dot for each commit."""
    band = _source(f"band: {name}", "x", "y")
    source = _source(f"line: {name}", "x", "y")
    few = _source(f"few: {name}", "x", "y", "low", "high")  # of commits in view, where there is room for dots
    # Note: tried an area between two columns; Bokeh's run across a missing value as if it had been measured there. A
    # patch breaks at NaN. It shows nothing of a single commit: bars are drawn where there is room for them.
    plot.patch(x="x", y="y", source=band, fill_color=colour, fill_alpha=0.2, line_color=None, name=f"band: {name}")
    plot.segment(
        x0="x", y0="low", x1="x", y1="high", source=few, line_color=colour, line_alpha=0.45, line_width=5,
        name=f"bars: {name}",
    )  # fmt: skip
    plot.line(
        x="x", y="y", source=source, line_color=colour, line_dash=dash, line_width=1.8, name=f"line: {name}",
    )  # fmt: skip
    fill = colour if dash == palette.SOLID else None  # where dots hide the dashes, hollow ones tell the line apart
    plot.scatter(
        x="x", y="y", source=few, marker=shape, size=_SIZE, fill_color=fill, line_color=colour,
        name=f"dots: {name}",
    )  # fmt: skip


def _draw_marks_behind(plot: figure) -> None:
    """Draw the lines of tags, changes of the environment, findings, and the roof."""
    for kind, dash in (("tag", "dotted"), ("environment", "dashed")):
        source = _source(kind, "x", "y", "label")
        plot.vspan(x="x", source=source, line_width=1.2, line_alpha=0.6, line_dash=dash, name=kind)
        plot.text(
            x="x", y="y", text="label", source=source, angle=_UPWARDS, x_offset=-3, y_offset=-5,
            text_font_size="11px", text_baseline="bottom", name=f"label: {kind}",
        )  # fmt: skip
    plot.vspan(x="x", line_color="colour", source=_source("finding", "x", "colour"), line_width=1.2, name="finding")
    roof = _source("roof", "x", "y", "label")
    plot.hspan(y="y", source=roof, line_width=1.5, line_dash="dashdot", name="roof")
    plot.text(
        x="x", y="y", text="label", source=roof, text_font_size="11px", text_baseline="bottom", x_offset=4,
        y_offset=-2, name="label: roof",
    )  # fmt: skip


def _draw_marks_above(plot: figure) -> None:
    """Draw change points at their values, and at the top the heads of findings, which a click opens."""
    changes = _source("changes", "x", "y", "marker", "label", "colour")
    plot.scatter(
        x="x", y="y", marker="marker", fill_color="colour", source=changes, size=13, line_width=1.5, name="changes",
    )  # fmt: skip
    plot.text(
        x="x", y="y", text="label", source=changes, y_offset=-11, text_font_size="12px", text_font_style="bold",
        text_align="center", text_baseline="bottom", name="label: changes",
    )  # fmt: skip
    heads = _source("heads", "x", "y", "colour", "label", "align", "offset", "page")
    plot.scatter(x="x", y="y", color="colour", source=heads, marker="inverted_triangle", size=14, name="heads")
    plot.text(
        x="x", y="y", text="label", text_color="colour", source=heads, text_align="align", x_offset="offset",
        y_offset=8, text_font_size="12px", text_baseline="middle", name="label: heads",
    )  # fmt: skip
