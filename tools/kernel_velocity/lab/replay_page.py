"""The page of a replay: its tables, and error against time as a chart."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from kernel_velocity import units
from kernel_velocity.files import replace_text
from kernel_velocity.lab import rules
from kernel_velocity.lab.rules import Result
from kernel_velocity.site.charts import palette
from kernel_velocity.site.charts.plot import SQUARE, Mark, Plot, around, key
from kernel_velocity.site.report import TEMPLATES, page_templates
from kernel_velocity.tables import Table, percent

MARKS = {"tuning": "circle", "held out": "square", "recorded": "triangle"}
COLOURS = dict(zip(MARKS, palette.COLOURS.values(), strict=False))
HEIGHT = 460  # px


def write(results: Sequence[Result], tables: Sequence[Table], footnotes: Sequence[str], folder: Path) -> Path:
    """Write the page and its style into `folder`, which is created if missing. Return the page."""
    legend = [(key(MARKS[result.title], COLOURS[result.title]), result.title) for result in results]
    page = {"tables": tables, "footnotes": footnotes, "chart": _chart(results), "legend": legend}
    (folder / "static").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(TEMPLATES / "static" / "style.css", folder / "static" / "style.css")
    replace_text(folder / "index.html", page_templates().get_template("replay.html").render(page=page))
    return folder / "index.html"


def _chart(results: Sequence[Result]) -> Markup:
    """Return error against time per trace, a mark for every rule and set, both axes logarithmic."""
    points = [
        (result.title, rule, sum(outcome.spent for outcome in outcomes) / len(outcomes), 100 * error, outcomes)
        for result in results
        for rule, outcomes in result.outcomes.items()
        if (error := rules.median(outcomes, "error"))  # 0 has no logarithm
    ]
    if not points:
        return Markup("")
    _, _, times, errors, _ = zip(*points, strict=True)
    plot = Plot(
        around("time per trace, s", times, is_log=True), around("median error, %", errors, is_log=True), height=HEIGHT
    )
    for title, rule, time, error, outcomes in points:
        figures = f"{units.seconds(time)}, median {percent(error / 100)}, p90 {percent(rules.p90(outcomes))}"
        words = f"{rule}, {title}: {figures}"
        plot.mark(Mark(x=time, y=error, shape=MARKS[title], colour=COLOURS[title], title=words))
        if title == "held out":  # the one that counts
            dx, anchor = (-9, "end") if plot.x.at(time) > SQUARE / 2 else (9, "start")
            plot.write(time, error, rule, dx=dx, dy=4, anchor=anchor, class_="name")
    return plot.svg("error against time for every rule; the tables below have the same data")
