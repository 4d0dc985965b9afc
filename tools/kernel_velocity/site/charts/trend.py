"""Bokeh's document of a kernel page's chart: axes and empty renderers, which kernel.js fills with the reader's choice.

The controls are the page's own HTML, because Bokeh's widgets live in a shadow DOM that the page's style cannot reach.
So is the tip of the commit under the pointer: a canvas of 100,000 points would be slow to draw anew. The page's script
also sets the colours of axes, for the reader's colour scheme.
"""

from __future__ import annotations

from typing import Any

from bokeh.embed import json_item
from bokeh.models import ColumnDataSource, FixedTicker, Range1d
from bokeh.plotting import figure

from kernel_velocity.site.charts import palette

# Implementations differ by the shapes of their dots, too: colour alone is not enough
_SHAPES = ("circle", "square", "triangle", "diamond", "hex", "inverted_triangle")
_HEIGHT = 440  # px
_SIZE = 7  # of a dot, px; the page's script makes dots smaller where many are in view
_UPWARDS = 1.5708  # radians


def document(implementations: tuple[str, ...]) -> dict[str, Any]:
    """Return axes and renderers without data, as Bokeh.embed.embed_item takes them.

    Renderers are named "<part>: <implementation>" with the parts band, bars, line and dots. Those of marks are named
    by their kind (tag, environment, finding, roof, changes), their labels "label: <kind>".
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
    interval = {"x0": "x", "y0": "low", "x1": "x", "y1": "high", "source": few, "name": f"bars: {name}"}
    plot.segment(**interval, line_color=colour, line_alpha=0.45, line_width=5)
    plot.line(x="x", y="y", source=source, line_color=colour, line_dash=dash, line_width=1.8, name=f"line: {name}")
    fill = colour if dash == palette.SOLID else None  # where dots hide the dashes, hollow dots tell the line apart
    dots = {"marker": shape, "size": _SIZE, "fill_color": fill, "line_color": colour, "name": f"dots: {name}"}
    plot.scatter(x="x", y="y", source=few, **dots)


def _draw_marks_behind(plot: figure) -> None:
    """Draw the lines of tags, changes of the environment, findings, and the roof."""
    small = {"text_font_size": "11px", "text_baseline": "bottom"}
    for kind, dash in (("tag", "dotted"), ("environment", "dashed")):
        source = _source(kind, "x", "y", "label")
        plot.vspan(x="x", source=source, line_width=1.2, line_alpha=0.6, line_dash=dash, name=kind)
        label = {"x": "x", "y": "y", "text": "label", "source": source, "name": f"label: {kind}"}
        plot.text(**label, angle=_UPWARDS, x_offset=-3, y_offset=-5, **small)
    plot.vspan(x="x", line_color="colour", source=_source("finding", "x", "colour"), line_width=1.2, name="finding")
    roof = _source("roof", "x", "y", "label")
    plot.hspan(y="y", source=roof, line_width=1.5, line_dash="dashdot", name="roof")
    plot.text(x="x", y="y", text="label", source=roof, x_offset=4, y_offset=-2, name="label: roof", **small)


def _draw_marks_above(plot: figure) -> None:
    """Draw change points at their values, and at the top the heads of findings, which a click opens."""
    changes = _source("changes", "x", "y", "marker", "label", "colour")
    at = {"x": "x", "y": "y", "source": changes}
    plot.scatter(**at, marker="marker", fill_color="colour", size=13, line_width=1.5, name="changes")
    bold = {"text_font_size": "12px", "text_font_style": "bold", "text_align": "center", "text_baseline": "bottom"}
    plot.text(**at, text="label", y_offset=-11, **bold, name="label: changes")
    heads = _source("heads", "x", "y", "colour", "label", "align", "offset", "page")
    at = {"x": "x", "y": "y", "source": heads}
    plot.scatter(**at, color="colour", marker="inverted_triangle", size=14, name="heads")
    label = {"text": "label", "text_color": "colour", "text_align": "align", "x_offset": "offset", "y_offset": 8}
    plot.text(**at, **label, text_font_size="12px", text_baseline="middle", name="label: heads")
