"""The page of a replay: its tables, and error against time as a chart."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import bokeh
from bokeh.embed import json_item
from bokeh.models import ColumnDataSource, HoverTool
from bokeh.plotting import figure

from kernel_velocity.files import replace_text
from kernel_velocity.lab import rules
from kernel_velocity.lab.replay import FOOTNOTES, Result
from kernel_velocity.site.charts import palette
from kernel_velocity.site.report import TEMPLATES, page_templates
from kernel_velocity.tables import Table, percent

MARKS = {"tuning": "circle", "held out": "square", "recorded": "triangle"}
COLOURS = dict(zip(MARKS, palette.COLOURS.values(), strict=False))


def write(results: Sequence[Result], tables: Sequence[Table], folder: Path) -> Path:
    """Write the page, its style and Bokeh's script into `folder`, which is created if missing. Return the page."""
    page = {"tables": tables, "footnotes": FOOTNOTES, "chart": _chart(results)}
    (folder / "static").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(TEMPLATES / "static" / "style.css", folder / "static" / "style.css")
    script = Path(bokeh.__file__).parent / "server/static/js/bokeh.min.js"
    shutil.copyfile(script, folder / "static" / script.name)
    replace_text(folder / "index.html", page_templates().get_template("replay.html").render(page=page))
    return folder / "index.html"


def _chart(results: Sequence[Result]) -> Mapping[str, Any]:
    """Return error against time per trace, a mark for every rule and set, both axes logarithmic."""
    plot = figure(
        height=460,
        sizing_mode="stretch_width",
        x_axis_type="log",
        y_axis_type="log",
        x_axis_label="time per trace, s",
        y_axis_label="median error, %",
        tools="box_zoom,reset,save",
        active_drag=None,
    )
    plot.toolbar.logo = None
    for result in results:
        medians = {name: rules.median(each, "error") for name, each in result.outcomes.items()}
        shown = {name: median for name, median in medians.items() if median}  # 0 has no logarithm
        outcomes = [result.outcomes[name] for name in shown]
        source = ColumnDataSource(
            {
                "x": [sum(outcome.spent for outcome in each) / len(each) for each in outcomes],
                "y": [100 * median for median in shown.values()],
                "rule": [*shown],
                "p90": [percent(rules.p90(each)) for each in outcomes],
            }
        )
        marks = {"size": 9, "color": COLOURS[result.title], "marker": MARKS[result.title]}
        plot.scatter("x", "y", source=source, legend_label=result.title, **marks)
    plot.legend.click_policy = "hide"
    plot.add_tools(HoverTool(tooltips=[("rule", "@rule"), ("time", "@x s"), ("median", "@y %"), ("p90", "@p90")]))
    return dict(json_item(plot))
