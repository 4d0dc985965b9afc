"""A comparison as Markdown tables, ready for the comment of a pull request.

Whatever is not ours (names, environment, reasons) stands in code spans (`markdown_text.literal`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kernel_velocity import units
from kernel_velocity.compare.formats import figures
from kernel_velocity.compare.formats.figures import MISSING, RIGHT, Row, by_problem, is_bad, rows, speed_ups, status
from kernel_velocity.compare.result import Compared, Comparison
from kernel_velocity.stats.speedup import SpeedUp
from kernel_velocity.tables import literal


def as_markdown(comparison: Comparison) -> str:
    """Return the comparison as GitHub-flavoured Markdown: verdict, a table per problem, speed-ups, environment."""
    parts = [_verdict(comparison)]
    for group in by_problem(rows(comparison)).values():
        parts += _problem(group, comparison.settings.get("reference"))
    if comparison.warnings:
        parts.append("\n".join(f"- note: {literal(text)}" for text in comparison.warnings))
    parts += [_facts("Environment", comparison.environment), _facts("Settings", comparison.settings)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _verdict(comparison: Comparison) -> str:
    """Return the first line: whether every implementation is right, and which is not."""
    bad = [row for row in rows(comparison) if is_bad(row.timed)]
    if not bad:
        checked = [status(row.timed) for row in rows(comparison) if status(row.timed) != MISSING]
        right = sum(each == RIGHT for each in checked)
        return f"**{right} of {units.count(len(checked), 'result')} verified and right.**"
    names = ", ".join(f"{literal(row.timed.implementation)} on {literal(row.compared.case)}" for row in bad)
    return f"**FAIL: {units.count(len(bad), 'result')} wrong or failed: {names}**"


def _problem(found: Sequence[Row], reference: str | None) -> list[str]:
    first = found[0].compared
    compared = list({id(row.compared): row.compared for row in found}.values())
    ratios = [_ratios(each, reference) for each in compared]
    lines = [line for line in ratios if line]
    speeds = ["Times faster, ± one standard error over rounds:", "\n".join(lines)]
    return [
        f"### {literal(first.problem)} on {literal(first.device)}",
        _table(list(_COLUMNS), [[of(row) for of in _COLUMNS.values()] for row in found]),
        *(speeds if lines else []),
    ]


def _ratios(compared: Compared, reference: str | None) -> str:
    found = speed_ups(compared, reference)
    return f"- {literal(compared.case)}: {'; '.join(map(_pair, found))}" if found else ""


def _pair(found: SpeedUp) -> str:
    return f"{literal(found.faster)} over {literal(found.slower)} {figures.speed_up(found)}"


def _facts(title: str, facts: Mapping[str, str]) -> str:
    if not facts:
        return ""
    lines = [f"- {literal(name)}: {literal(text)}" for name, text in facts.items()]
    return "\n".join([f"<details><summary>{title}</summary>", "", *lines, "", "</details>"])


def _table(heads: Sequence[str], cells: Iterable[Sequence[str]]) -> str:
    rule = ["---"] * 2 + ["---:"] * (len(heads) - 3) + ["---"]  # names to the left, numbers to the right
    lines = [heads, rule, *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _timed(of: Callable[[Row], str]) -> Callable[[Row], str]:
    """Return a column that is a dash where there is no time."""
    return lambda row: figures.DASH if row.figures is None else of(row)


def _result(row: Row) -> str:
    text = figures.result(row)
    head, _, why = text.partition(": ")
    shown = f"**{head}**" if is_bad(row.timed) else head
    return f"{shown}: {literal(why)}" if why else shown


_COLUMNS: Mapping[str, Callable[[Row], str]] = {
    "test case": lambda row: literal(row.compared.case),
    "implementation": lambda row: literal(row.timed.implementation),
    "memory": lambda row: literal(figures.memory(row)),
    "per tensor": figures.size,
    "elements": lambda row: f"{row.compared.elements:,}",
    "time ± 95%": _timed(lambda row: figures.time(row.figures) if row.figures else figures.DASH),
    "mean, sd": _timed(lambda row: figures.mean(row.figures) if row.figures else figures.DASH),
    "rate": _timed(figures.rate),
    "bandwidth": _timed(lambda row: figures.bandwidth(row.figures) if row.figures else figures.DASH),
    "efficiency": figures.efficiency,
    "bound": figures.bound,
    "cache benefit": figures.cache_benefit,
    "max error": figures.error,
    "result": _result,
}
