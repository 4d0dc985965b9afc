"""Draws the plot of a section of the roofline page: Bokeh's document, whose points its script fills in."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from bokeh.embed import json_item
from bokeh.models import ColumnDataSource, CustomJS, HoverTool, Scatter, TapTool
from bokeh.plotting import figure

from kernel_velocity.roofline.model import Roofs
from kernel_velocity.site.charts import roofline as roofline_plot

COLUMNS = (
    *("x", "y", "alpha", "size", "colour", "mark", "kernel", "case", "implementation", "commit", "subject"),
    *("intensity", "rate", "bandwidth", "efficiency", "bound", "time", "page"),
)
TOOLTIPS = [
    ("commit", "@commit"),
    ("message", "@subject"),
    ("kernel", "@kernel"),
    ("test case", "@case"),
    ("implementation", "@implementation"),
    ("rate", "@rate"),
    ("efficiency", "@efficiency"),
    ("bound by", "@bound"),
    ("intensity", "@intensity"),
    ("bandwidth", "@bandwidth"),
    ("time", "@time"),
]  # plain @column, never {safe}: names are data, and Bokeh sets these as text
OPEN_NEAREST = """
  const { geometries, source } = cb_data;
  const { x, y } = source.data;
  const away = (index) => Math.hypot(Math.log(x[index] / geometries.x), Math.log(y[index] / geometries.y));
  const [nearest] = [...source.selected.indices].sort((a, b) => away(a) - away(b));
  window.location.href = source.data.page[nearest];
"""  # of the points under the pointer; Bokeh's OpenURL would open them all, one over the other


def document(
    intensities: tuple[float, ...], rates: tuple[float, ...], roofs: Roofs, dtypes: Collection[str]
) -> dict[str, Any]:
    """Return what Bokeh.embed.embed_item takes.

    Args:
        intensities: FLOP/B, the least and the most of the points; none where there are none.
        rates: FLOP/s, likewise. roofs: of the device. dtypes: of the points.
    """
    return dict(json_item(plot(intensities, rates, roofs, dtypes)))


def plot(intensities: tuple[float, ...], rates: tuple[float, ...], roofs: Roofs, dtypes: Collection[str]) -> figure:
    """Return the plot with its roofs; its points and paths are the page's script's to fill in."""
    peaks = {dtype: peak for dtype, peak in roofs.peaks.items() if peak is not None}
    drawn = roofline_plot.axes(intensities, rates, roofs, peaks, dtypes)
    roofline_plot.draw_roofs(drawn, roofs, peaks, dtypes)
    _draw_points(drawn)
    return drawn


def _draw_points(drawn: figure) -> None:
    """Draw empty sources: "paths" joins each series' values, "points" are the values, "names" stands at the newest."""
    paths = ColumnDataSource({"xs": [], "ys": [], "colour": []}, name="paths")
    drawn.multi_line("xs", "ys", source=paths, line_color="colour", line_alpha=0.5, line_width=1.5)
    points = ColumnDataSource({name: [] for name in COLUMNS}, name="points")
    style = {"size": "size", "fill_color": "colour", "line_color": "colour", "marker": "mark"}
    dots = drawn.scatter("x", "y", source=points, fill_alpha="alpha", line_alpha="alpha", **style)
    same = Scatter(x="x", y="y", fill_alpha="alpha", line_alpha="alpha", **style)
    dots.nonselection_glyph, dots.selection_glyph = same, same  # a click opens a page; it must not fade the rest
    names = ColumnDataSource({name: [] for name in ("x", "y", "text", "right", "down", "align")}, name="names")
    where = {"x_offset": "right", "y_offset": "down", "text_align": {"field": "align"}}
    drawn.text("x", "y", "text", source=names, **where, text_font_size="12px", name="names")
    drawn.add_tools(
        HoverTool(renderers=[dots], tooltips=TOOLTIPS),
        TapTool(renderers=[dots], visible=False, callback=CustomJS(code=OPEN_NEAREST)),
    )
