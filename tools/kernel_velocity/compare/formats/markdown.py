"""A comparison as Markdown tables, ready for the comment of a pull request.

Foreign text (names, environment, reasons) stands in code spans (`tables.literal`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kernel_velocity.compare import text
from kernel_velocity.compare.result import Comparison, Row
from kernel_velocity.tables import literal

DASH = "–"


def as_markdown(comparison: Comparison) -> str:
    """Return the comparison as GitHub-flavoured Markdown: verdict, a table per problem, speed-ups, environment."""
    parts = [f"**{text.verdict(list(comparison.rows()), literal)}**"]
    for (problem, device), rows in comparison.problems().items():
        parts += [f"### {literal(problem)} on {literal(device)}", _table(rows)]
        parts.append(_speed_ups(rows, comparison.settings.get("reference")))
    parts.append("\n".join(f"- note: {literal(warning)}" for warning in comparison.warnings))
    parts += [_facts("Environment", comparison.environment), _facts("Settings", comparison.settings)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(rows: Sequence[Row]) -> str:
    rule = ["---"] * 2 + ["---:"] * (len(COLUMNS) - 3) + ["---"]  # names to the left, numbers to the right
    lines = [list(COLUMNS), rule, *([cell(row) or DASH for cell in COLUMNS.values()] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _result(row: Row) -> str:
    status = f"**{row.timed.status}**" if row.timed.is_bad else row.timed.status
    return f"{status}: {literal(row.timed.reason)}" if row.timed.reason else status


COLUMNS: Mapping[str, Callable[[Row], str]] = {
    "test case": lambda row: literal(row.compared.case),
    "implementation": lambda row: literal(row.timed.implementation),
    "memory": lambda row: literal(row.compared.memory or DASH),
    "per tensor": lambda row: f"{text.megabytes(row)} MB",
    "elements": lambda row: f"{row.compared.elements:,}",
    "time ±95%": text.time,
    "mean ±std": text.mean,
    "rate": text.rate,
    "bandwidth": text.bandwidth,
    "roofline efficiency": text.efficiency,
    "bound": text.bound,
    "cache benefit": text.cache_benefit,
    "max error": text.error,
    "result": _result,
}


def _speed_ups(rows: Sequence[Row], reference: str | None) -> str:
    lines = []
    for compared in {id(row.compared): row.compared for row in rows}.values():
        pairs = [
            f"{literal(pair.faster)} over {literal(pair.slower)} {text.speed_up(pair)}"
            for pair in compared.speed_ups(reference)
        ]
        lines += [f"- {literal(compared.case)}: {'; '.join(pairs)}"] if pairs else []
    return "\n".join(["Times faster, ± one standard error over rounds:", "", *lines]) if lines else ""


def _facts(title: str, facts: Mapping[str, str]) -> str:
    if not facts:
        return ""
    lines = [f"- {literal(name)}: {literal(value)}" for name, value in facts.items()]
    return "\n".join([f"<details><summary>{title}</summary>", "", *lines, "", "</details>"])
