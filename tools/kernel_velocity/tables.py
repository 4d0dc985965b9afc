"""Tables of ready strings, as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernel_velocity.units import significant


@dataclass(frozen=True)
class Table:
    """A table ready to be printed: a title, a note on it, heads, rows of the same length."""

    title: str
    note: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def percent(fraction: float | None) -> str:
    """Return a fraction in percent with three significant digits, 100% only for 1; "-" for what is not known."""
    if fraction is not None and 0.9995 <= fraction < 1:
        return ">99.9%"
    return "-" if fraction is None else f"{significant(100 * fraction)}%"


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as aligned lines; the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


def aligned(table: Table) -> str:
    """Return a whole table as text: title and note, then its columns."""
    return f"{table.title}: {table.note}\n{columns([table.heads, *table.rows])}"
