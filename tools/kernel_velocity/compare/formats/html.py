"""A comparison as one page that needs nothing else: style, script and charts stand in it.

The template (compare.html) gets ready strings and charts, and computes nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from kernel_velocity import units
from kernel_velocity.compare import text
from kernel_velocity.compare.result import Comparison, Row
from kernel_velocity.roofline.model import Roofline, Roofs
from kernel_velocity.site.charts import samples
from kernel_velocity.site.charts.plot import MARKS, Mark, colours_of
from kernel_velocity.site.charts.plot import legend_mark as key
from kernel_velocity.site.charts.samples import Chart, chart
from kernel_velocity.site.pages import roofline as roofline_page
from kernel_velocity.site.pages.roofline import GIGA
from kernel_velocity.site.report import TEMPLATES, page_templates
from kernel_velocity.site.text import Cell

DASH = "–"
HEADS = (
    "result",
    "time ± 95%",
    "mean of samples",
    "p50",
    "rate",
    "roofline efficiency",
    "cache benefit",
    "whole function",
)


def as_html(comparison: Comparison) -> str:
    """Return the page, with the roofs of its device where they are known."""
    style = Markup((TEMPLATES / "static" / "style.css").read_text("utf-8"))
    page = page_templates().get_template("compare.html").render(page=build(comparison), style=style)
    # JSON can hold half of a surrogate pair, UTF-8 cannot: it becomes a question mark
    return page.encode("utf-8", errors="replace").decode("utf-8")


def build(comparison: Comparison) -> dict[str, Any]:
    """Return what the template shows, by the names that it uses."""
    rows = list(comparison.rows())
    colours = colours_of(tuple(dict.fromkeys(row.timed.implementation for row in rows)))
    anchors = {id(row.timed): f"row-{number}" for number, row in enumerate(rows, start=1) if row.timing is not None}
    return {
        "title": ", ".join(dict.fromkeys(row.compared.problem for row in rows)) or "nothing",
        "verdict": text.verdict(rows),
        "failed": any(row.timed.is_bad for row in rows),
        "when": f"{datetime.fromtimestamp(comparison.began, UTC):%Y-%m-%d %H:%M} UTC, {units.seconds(comparison.took)}",
        "environment": list(comparison.environment.items()),
        "settings": list(comparison.settings.items()),
        "notes": comparison.warnings,
        "heads": HEADS,
        "tables": [
            {"problem": problem, "device": device, "lines": _lines(group, colours, anchors)}
            for (problem, device), group in comparison.problems().items()
        ],
        "speeds": _speeds(comparison),
        "roofline": roofline_chart(rows, comparison.roofs, colours),
        "legend": [(key("circle", colour), name) for name, colour in colours.items()],
        "details": [_detail(row, colours, anchors) for row in rows if row.timing is not None],
    }


def _lines(rows: Sequence[Row], colours: Mapping[str, str], anchors: Mapping[int, str]) -> list[dict[str, Any]]:
    """Return the rows of a table: the first of each test case spans its `span` rows."""
    lines = []
    for number, row in enumerate(rows):
        size = f"{text.megabytes(row)} MB per tensor · {row.compared.elements:,} elements"
        repeats = number > 0 and rows[number - 1].compared is row.compared
        lines.append(
            {
                "case": row.compared.case,
                "where": f"{row.compared.memory or DASH} · {size}",
                "span": 0 if repeats else len(row.compared.timed),
                "implementation": row.timed.implementation,
                "colour": colours[row.timed.implementation],
                "anchor": anchors.get(id(row.timed), ""),
                "cells": _cells(row),
            }
        )
    return lines


def _cells(row: Row) -> list[Cell]:
    tone = "failed" if row.timed.is_bad else "n/a" if row.timed.missing is not None else ""
    error = f"maximum error {text.error(row) or DASH}" if row.timed.accuracy else ""
    result = Cell(text=row.timed.status, detail=row.timed.reason or error, tone=tone)
    if row.spread is None:
        return [result, *[Cell(text=DASH, tone="absent")] * (len(HEADS) - 1)]
    time, _, half = text.time(row).partition(" ±")
    mean, _, deviation = text.mean(row).partition(" ±")
    impossible = "failed" if row.roofline is not None and row.roofline.impossible else ""
    return [
        result,
        Cell(text=time, detail=f"± {half}" if half else "no interval"),
        Cell(text=mean, detail=f"sd {deviation}" if deviation else ""),
        Cell(text=units.seconds(row.spread.p50), detail=f"p99 {units.seconds(row.spread.p99)}"),
        Cell(text=text.rate(row) or DASH, detail=text.bandwidth(row) or DASH),
        Cell(text=text.efficiency(row) or DASH, detail=text.bound(row) or DASH, tone=impossible),
        Cell(text=text.cache_benefit(row) or DASH),
        _function(row),
    ]


def _function(row: Row) -> Cell:
    """Return the time of the whole function, and what of it lies outside the call."""
    if row.timed.function is None or row.overhead is None:
        return Cell(text=DASH)
    sign = "−" if row.overhead < 0 else "+"
    return Cell(text=units.seconds(row.timed.function), detail=f"{sign}{units.seconds(abs(row.overhead))}")


def _speeds(comparison: Comparison) -> list[str]:
    lines = []
    for compared in comparison.compared:
        pairs = compared.speed_ups(comparison.settings.get("reference"))
        words = "; ".join(f"{pair.faster} over {pair.slower} {text.speed_up(pair)}" for pair in pairs)
        lines += [f"{compared.problem}, {compared.case}: {words}"] if pairs else []
    return lines


def _detail(row: Row, colours: Mapping[str, str], anchors: Mapping[int, str]) -> dict[str, Any]:
    """Return an implementation on a test case, with its charts and what the table has no room for."""
    timed = row.timed
    counts = f"{units.count(len(timed.estimates), 'round')}, {units.count(len(timed.samples), 'sample')}"
    return {
        "anchor": anchors[id(timed)],
        "title": f"{row.compared.problem} · {row.compared.case}",
        "implementation": timed.implementation,
        "colour": colours[timed.implementation],
        "summary": f"{text.time(row)} · {counts}",
        "facts": _facts(row),
        "charts": samples.charts(timed.rounds, timed.estimates, colours[timed.implementation]),
    }


def _facts(row: Row) -> list[tuple[str, str]]:
    """Return stop reasons, flags, roofline warnings, and every output's error figures."""
    timed = row.timed
    stops = ", ".join(f"{timed.stops.count(stop)} x {stop}" for stop in dict.fromkeys(timed.stops))
    facts = [("rounds stopped", stops), ("flags", ", ".join(timed.flags))]
    facts += [("roofline", warning) for warning in timed.roofline.warnings] if timed.roofline is not None else []
    for output in timed.accuracy:
        figures = {name: value for name, value in output.details.items() if name != "right" and value is not None}
        words = ", ".join(f"{name} {_figure(value)}" for name, value in figures.items())
        facts.append((f"output {output.output}", f"{'right' if output.right else 'WRONG'}: {words}"))
    return [(name, value) for name, value in facts if value]


def _figure(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


# Charts ---------------------------------------------------------------------------------------------------------------


def roofline_chart(rows: Sequence[Row], roofs: Roofs | None, colours: Mapping[str, str]) -> Chart | None:
    """Return the plot of all rows that have a roofline, under the roofs that are known. None where no row has one."""
    placed = [(row, row.roofline) for row in rows if row.roofline is not None]
    if not placed:
        return None
    roofs = roofs or Roofs(levels=(), peaks={})
    dtypes = list(dict.fromkeys(roofline.dtype or row.compared.dtype for row, roofline in placed))
    peaks = {dtype: peak for dtype in dtypes if (peak := roofs.peaks.get(dtype)) is not None}
    marks = dict(zip(dict.fromkeys(row.compared.problem for row, _ in placed), itertools.cycle(MARKS), strict=False))
    dots = [
        Mark(
            x=roofline.intensity,
            y=roofline.achieved / GIGA,
            shape=marks[row.compared.problem],
            colour=colours[row.timed.implementation],
            title=_title(row, roofline),
        )
        for row, roofline in placed
    ]
    plot = roofline_page.draw(dots, replace(roofs, peaks=peaks), dtypes)
    return chart("Roofline", _caption(roofs, peaks, marks), plot)


def _title(row: Row, roofline: Roofline) -> str:
    intensity = units.intensity(roofline.intensity, row.compared.dtype)
    figures = (text.rate(row), text.bandwidth(row), intensity, text.efficiency(row), f"bound by {text.bound(row)}")
    return f"{text.name(row)}: {', '.join(filter(None, figures))}"


def _caption(roofs: Roofs, peaks: Mapping[str, float], marks: Mapping[str, str]) -> str:
    unknown = [level.name for level in roofs.levels if level.bandwidth is None]
    parts = ["A point above DRAM's line took part of its data from a cache."]
    if len(marks) > 1:
        parts.append(f"Marks: {', '.join(f'{mark} {problem}' for problem, mark in marks.items())}.")
    if not peaks:
        parts.append("The peak rate was not measured: no level line.")
    if unknown:
        parts.append(f"Not measured: {', '.join(unknown)}.")
    return " ".join(parts)
