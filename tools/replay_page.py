"""What a replay found, as text and as a page: figures become ready strings here, and nowhere else."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bokeh
import jinja2
from bokeh.embed import json_item
from bokeh.models import ColumnDataSource, HoverTool
from bokeh.plotting import figure

from tools.atomic import replace_text
from tools.replaying import Proof, Result, Summary
from tools.units import seconds, significant

TEMPLATES = Path(__file__).resolve().parent.parent / "html_templates"
COLUMNS = (
    "rule",
    "median error",
    "p90",
    "within .5%",
    "total time",
    "coverage",
    "of the mean",
    "lag 1",
    "kept",
    "stopped by",
)
FOOTNOTES = (
    "error: |estimate - truth| / truth, the estimate being the harness's (10% trimmed mean without the first fifth) of "
    "what the rule kept; of the mean: median error of the plain mean of the same samples",
    "coverage: share of traces whose within-run 95% interval holds the truth",
    "lag 1: median autocorrelation of a sample with the next, of all samples taken; kept: of those behind the estimate",
    "trace ended: the rule wanted more than the trace had; on recorded traces its error is then near 0 by construction",
)
MARKS = {"tuned on": "circle", "held out": "square", "recorded": "triangle"}
COLOURS = {"tuned on": "#8a63d2", "held out": "#1f8a5b", "recorded": "#c2651a"}


@dataclass(frozen=True)
class Table:
    """A table ready to be printed: a title, a line below it, heads, rows of the same length."""

    title: str
    note: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Page:
    """The page's data."""

    tables: Sequence[Table]
    footnotes: Sequence[str]
    chart: Mapping[str, Any]  # what Bokeh.embed.embed_item takes
    plot: str | None  # file name of the PNG


def percent(fraction: float | None) -> str:
    """Return a fraction in percent with three significant digits; "-" for what is not known."""
    return "-" if fraction is None else f"{significant(100 * fraction)}%"


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _row(found: Summary) -> tuple[str, ...]:
    reasons = ", ".join(f"{reason} {count}" for reason, count in found.reasons)
    return (
        found.rule,
        percent(found.median),
        percent(found.p90),
        percent(found.close),
        seconds(found.total),
        percent(found.coverage),
        percent(found.median_of_mean),
        _plain(found.correlation),
        _plain(found.correlation_kept),
        reasons,
    )


def _result(found: Result) -> Table:
    compared = "; ".join(
        f"{each.first} is worse in the median in {percent(each.worse_median)}, in p90 in {percent(each.worse_p90)}"
        for each in found.comparisons
    )
    note = f"{found.traces} traces; paired bootstrap over what was measured, with a fixed time that costs as much: "
    note += f"{compared} of resamples"
    rows = [_row(each) for each in sorted(found.summaries, key=lambda each: each.median)]
    return Table(found.title, note, COLUMNS, rows)


def tables(found: Proof) -> list[Table]:
    """Return every table of a replay, as ready strings."""
    rules = [each.rule for each in found.repeatabilities]
    families = [
        [rule, *(percent(errors[rule]) for errors in found.families.values())]
        for rule in sorted(rules, key=lambda rule: max(errors[rule] for errors in found.families.values()))
    ]
    repeated = [
        [each.rule, percent(each.deviation), seconds(each.seconds)]
        for each in sorted(found.repeatabilities, key=lambda each: each.deviation)
    ]
    return [
        *(_result(each) for each in found.results),
        Table("one family of noise at a time", "median error, held out", ["rule", *found.families], families),
        Table(
            "15 repetitions",
            "relative standard deviation of the estimates, and time of a repetition; medians over mixtures, held out",
            ["rule", "RSD", "run time"],
            repeated,
        ),
    ]


def text(found: Proof) -> str:
    """Return the tables as text, columns aligned."""
    parts = []
    for table in tables(found):
        cells = [list(table.heads), *(list(row) for row in table.rows)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(table.heads))]
        lines = [
            "  ".join(cell.ljust(width) if not column else cell.rjust(width) for column, (cell, width) in aligned)
            for aligned in (list(enumerate(zip(row, widths, strict=True))) for row in cells)
        ]
        parts.append("\n".join((f"{table.title} (seed {found.seed}): {table.note}", *lines)))
    return "\n\n".join((*parts, *FOOTNOTES)) + "\n"


def _chart(found: Proof) -> Mapping[str, Any]:
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
    for each in found.results:
        shown = [summary for summary in each.summaries if summary.median > 0]  # a logarithm has no place for 0
        source = ColumnDataSource(
            {
                "x": [summary.total / summary.traces for summary in shown],
                "y": [100 * summary.median for summary in shown],
                "rule": [summary.rule for summary in shown],
                "p90": [percent(summary.p90) for summary in shown],
            }
        )
        marks = {"size": 9, "color": COLOURS[each.title], "marker": MARKS[each.title], "legend_label": each.title}
        plot.scatter("x", "y", source=source, **marks)
    plot.legend.click_policy = "hide"
    plot.add_tools(HoverTool(tooltips=[("rule", "@rule"), ("time", "@x s"), ("median", "@y %"), ("p90", "@p90")]))
    return dict(json_item(plot))


def write(found: Proof, folder: Path, plot: Path | None) -> Path:
    """Write the page, its style and Bokeh's script below `folder`; return the page.

    Args:
        found: what the replay found.
        folder: made where it does not exist.
        plot: the PNG that lies in it already, None where there is none.
    """
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Bokeh's documents define a model where they first name it: sorted keys would name it before (jinja's default)
    templates.policies["json.dumps_kwargs"] = {"sort_keys": False}
    page = Page(tables(found), FOOTNOTES, _chart(found), plot.name if plot else None)
    (folder / "static").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(TEMPLATES / "static" / "style.css", folder / "static" / "style.css")
    script = Path(bokeh.__file__).parent / "server/static/js/bokeh.min.js"
    shutil.copyfile(script, folder / "static" / script.name)
    replace_text(folder / "index.html", templates.get_template("replay.html").render(page=page))
    return folder / "index.html"
