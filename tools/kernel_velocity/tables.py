"""Format tables of strings for a terminal, and foreign text for Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kernel_velocity.units import significant

_BREAKS_A_SPAN = re.compile(r"[`|\\]")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 ]")


@dataclass(frozen=True)
class Table:
    """A table to print: a title, a note, heads, and rows of the same length."""

    title: str
    note: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def percent(fraction: float | None) -> str:
    """Return a fraction in percent with three significant digits, 100% only for 1. "-" for None."""
    if fraction is not None and 0.9995 <= fraction < 1:
        return ">99.9%"
    return "-" if fraction is None else f"{significant(100 * fraction)}%"


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines: the first column aligned to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


def aligned(table: Table) -> str:
    """Return a table as text: title and note, then its columns."""
    return f"{table.title}: {table.note}\n{columns([table.heads, *table.rows])}"


def plain(text: str) -> str:
    """Return foreign text on one line, without letters that control a terminal or that XML cannot hold."""
    return "".join(character for character in " ".join(text.split()) if character.isprintable())


def literal(text: str) -> str:
    """Return foreign text for Markdown as a code span on one line, where no name becomes a mention or a link.

    Text that would end the span or a table's cell becomes character references inside <code>.
    """
    line = plain(text)
    if not line:
        return "–"
    if _BREAKS_A_SPAN.search(line):
        return f"<code>{_NOT_PLAIN.sub(lambda match: f'&#{ord(match.group())};', line)}</code>"
    return f"`{line}`"
