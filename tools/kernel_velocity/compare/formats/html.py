"""What the page of a comparison is made of: ready strings and charts; the template computes nothing.

A comparison as one page that needs nothing else: style, script and Bokeh's own script stand in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import bokeh
from markupsafe import Markup

from kernel_velocity import units
from kernel_velocity.compare.formats import charts
from kernel_velocity.compare.formats import charts as roofline_plot
from kernel_velocity.compare.formats import figures as words
from kernel_velocity.compare.formats.charts import Chart
from kernel_velocity.compare.formats.figures import RIGHT, Row, by_problem, is_bad, reason, rows, speed_ups, status
from kernel_velocity.compare.result import Comparison
from kernel_velocity.roofline.model import Roofs
from kernel_velocity.site.charts import palette
from kernel_velocity.site.report import TEMPLATES, page_templates
from kernel_velocity.site.text import Cell

HEADS = ("result", "time ± 95%", "mean of samples", "p50", "rate", "efficiency", "cache benefit", "whole function")


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of the table: one implementation on one test case."""

    case: str
    where: str  # memory location, data size, elements
    span: int  # rows that share the test case; 0 where an earlier one has said it
    implementation: str
    colour: str
    anchor: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    """The rows of a problem on a device."""

    problem: str
    device: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, kw_only=True)
class Detail:
    """One implementation on one test case, with its charts."""

    anchor: str
    title: str
    implementation: str
    colour: str
    summary: str
    facts: tuple[tuple[str, str], ...]
    charts: tuple[Chart, ...]


@dataclass(frozen=True, kw_only=True)
class Page:
    """The whole page."""

    title: str
    verdict: str
    failed: bool
    when: str
    environment: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    heads: tuple[str, ...]
    tables: tuple[Table, ...]
    speeds: tuple[str, ...]
    roofline: Chart | None
    colours: tuple[tuple[str, str], ...]
    details: tuple[Detail, ...]


def build(comparison: Comparison, roofs: Roofs | None) -> Page:
    """Return the page of a comparison, with the roofs of its device where they are known."""
    found = list(rows(comparison))
    colours = palette.colours(tuple(dict.fromkeys(row.timed.implementation for row in found)))
    anchors = {id(row): f"row-{number}" for number, row in enumerate(found, start=1)}
    began = datetime.fromtimestamp(comparison.began, UTC)
    roof_warnings = () if roofs is None else roofs.warnings
    return Page(
        title=", ".join(dict.fromkeys(row.compared.problem for row in found)) or "nothing",
        verdict=verdict(found),
        failed=any(is_bad(row.timed) for row in found),
        when=f"{began:%Y-%m-%d %H:%M} UTC, {units.seconds(comparison.took)}",
        environment=tuple(comparison.environment.items()),
        settings=tuple(comparison.settings.items()),
        notes=(*comparison.warnings, *roof_warnings),
        heads=HEADS,
        tables=tuple(
            Table(problem=problem, device=device, lines=_lines(group, colours, anchors))
            for (problem, device), group in by_problem(found).items()
        ),
        speeds=tuple(_speeds(comparison)),
        roofline=roofline_plot.roofline_chart(found, roofs, colours),
        colours=tuple(colours.items()),
        details=tuple(
            _detail(row, colours[row.timed.implementation], anchors[id(row)]) for row in found if row.figures
        ),
    )


def verdict(found: Sequence[Row]) -> str:
    """Return the closing line on accuracy: how many results are right, and which are not."""
    bad = [f"{row.timed.implementation} on {row.compared.case}" for row in found if is_bad(row.timed)]
    if bad:
        return f"FAIL: {units.count(len(bad), 'result')} wrong or failed: {', '.join(bad)}"
    verified = [row for row in found if status(row.timed) == RIGHT]
    timed = [row for row in found if row.figures is not None]
    return f"{len(verified)} of {units.count(len(timed), 'result')} verified and right"


def _lines(group: Sequence[Row], colours: Mapping[str, str], anchors: Mapping[int, str]) -> tuple[Line, ...]:
    lines = []
    before = None
    for row in group:
        first = row.compared is not before
        before = row.compared
        lines.append(
            Line(
                case=row.compared.case,
                where=f"{words.memory(row)} · {words.size(row)} per tensor · {row.compared.elements:,} elements",
                span=len(row.compared.timed) if first else 0,
                implementation=row.timed.implementation,
                colour=colours[row.timed.implementation],
                anchor=anchors[id(row)] if row.figures else "",
                cells=_cells(row),
            )
        )
    return tuple(lines)


def _cells(row: Row) -> tuple[Cell, ...]:
    found = row.figures
    if found is None:
        return (_result(row), *[Cell(text=words.DASH, tone="absent")] * (len(HEADS) - 1))
    value, _, half = words.time(found).partition(" ± ")
    mean, _, spread = words.mean(found).partition(", ")
    whole, _, overhead = words.function(row).partition(" (")
    return (
        _result(row),
        Cell(text=value, detail=f"± {half}" if half else "no interval"),
        Cell(text=mean, detail=spread),
        Cell(text=units.seconds(found.p50), detail=f"p99 {units.seconds(found.p99)}"),
        Cell(text=words.rate(row), detail=words.bandwidth(found)),
        Cell(text=words.efficiency(row), detail=words.bound(row), tone=_efficiency_tone(row)),
        Cell(text=words.cache_benefit(row)),
        Cell(text=whole, detail=overhead.rstrip(")")),
    )


def _efficiency_tone(row: Row) -> str:
    return "failed" if row.timed.roofline is not None and row.timed.roofline.impossible else ""


def _result(row: Row) -> Cell:
    tone = "failed" if is_bad(row.timed) else "n/a" if row.timed.missing is not None else ""
    detail = reason(row.timed) or (f"maximum error {words.error(row)}" if row.timed.accuracy else "")
    return Cell(text=status(row.timed), detail=detail, tone=tone)


def _speeds(comparison: Comparison) -> list[str]:
    return [
        f"{compared.problem}, {compared.case}: "
        + "; ".join(f"{each.faster} over {each.slower} {words.speed_up(each)}" for each in found)
        for compared in comparison.compared
        if (found := speed_ups(compared, comparison.settings.get("reference")))
    ]


def _detail(row: Row, colour: str, anchor: str) -> Detail:
    timed = row.timed
    if row.figures is None:
        raise ValueError("a row without figures has no charts")
    counts = f"{units.count(len(timed.estimates), 'round')}, {units.count(row.figures.samples, 'sample')}"
    return Detail(
        anchor=anchor,
        title=f"{row.compared.problem} · {row.compared.case}",
        implementation=timed.implementation,
        colour=colour,
        summary=f"{words.time(row.figures)} · {counts}",
        facts=tuple(_facts(row)),
        charts=charts.charts(timed, colour),
    )


def _facts(row: Row) -> list[tuple[str, str]]:
    """Return what the table has no room for: stop reasons, flags, roofline warnings, every output's error figures."""
    timed, found = row.timed, []
    if timed.stops:
        found.append(("rounds stopped", _counted(timed.stops)))
    if timed.flags:
        found.append(("flags", ", ".join(timed.flags)))
    if timed.roofline is not None:
        found += [("roofline", text) for text in timed.roofline.warnings]
    for each in timed.accuracy:
        known = {name: value for name, value in each.details.items() if name != "right" and value is not None}
        figures = ", ".join(f"{name} {_figure(value)}" for name, value in known.items())
        found.append((f"output {each.output}", f"{'right' if each.right else 'WRONG'}: {figures}"))
    return found


def _counted(texts: Sequence[str]) -> str:
    return ", ".join(f"{texts.count(text)} x {text}" for text in dict.fromkeys(texts))


def _figure(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def as_html(comparison: Comparison, roofs: Roofs | None = None) -> str:
    """Return the page.

    Args:
        comparison: what was found.
        roofs: of the device it ran on; without them the plot has what the rows' rooflines say of the roofs.
    """
    page = build(comparison, roofs)
    text = (
        page_templates()
        .get_template("compare.html")
        .render(page=page, style=_static("style.css"), paint=_static("chart_paint.js"), bokeh=_bokeh())
    )
    # JSON can hold half of a surrogate pair, UTF-8 cannot: it becomes a question mark
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _static(name: str) -> Markup:
    """Return a file of our own, to stand in the page."""
    return Markup((TEMPLATES / "static" / name).read_text(encoding="utf-8"))


@cache
def _bokeh() -> Markup:
    """Return Bokeh's script (from the installed package: no CDN)."""
    path = Path(bokeh.__file__).parent / "server/static/js/bokeh.min.js"
    return Markup(within_script(path.read_text(encoding="utf-8")))


def within_script(text: str) -> str:
    """Return JavaScript that cannot end, or swallow the end of, the element it stands in.

    Neither sequence is JavaScript but in strings and regular expressions, where a backslash in them changes nothing.
    """
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")
