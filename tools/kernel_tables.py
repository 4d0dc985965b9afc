"""The tables of a kernel's page: the newest commits of each test case, as text. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tools import changes_along, pages, result_texts
from tools.columns import OUTCOMES, Columns, IntArray
from tools.measurements import Outcome
from tools.pages import Cell, CommitLine, Footnotes
from tools.result_texts import Figures

NEWEST = 200  # commits of a table
# Rows of all tables of a page: with several machines, states and test cases a page of 200 each would be megabytes, and
# a site of 25 kernels spend most of its time on them (with 500 a third). A button adds the others from the data.
ROWS = 200
FEWEST = 20

_NA = OUTCOMES.index(Outcome.NOT_APPLICABLE)


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """One commit of a test case's table."""

    commit: CommitLine
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    """The data of one test case, newest commit first."""

    case: str
    implementations: tuple[str, ...]
    rows: tuple[TableRow, ...]
    further: str  # how many commits it leaves out; empty for none


def limit(tables: int) -> int:
    """Return how many commits each of a page's tables holds."""
    return min(NEWEST, max(FEWEST, ROWS // max(tables, 1)))


def asked(series: Sequence[Columns]) -> IntArray:
    """Return the places on the line of the commits at which any of some series was more than n/a, ascending."""
    found = [columns.place[columns.outcome != _NA] for columns in series]
    return np.unique(np.concatenate(found)) if found else np.array([], dtype=np.int32)


@dataclass(frozen=True, kw_only=True)
class Recent:
    """The newest results of a series, oldest first; all lists have the same length."""

    places: list[int]  # on the first-parent line
    cells: list[tuple[str, str, str, str]]  # text, detail, change and tone of a `Cell`
    remarks: list[tuple[str, ...]]  # its footnotes


def recent(columns: Columns, since: int) -> Recent:
    """Return the results of a series from a place on the first-parent line on, each against the one measured before."""
    first = int(np.searchsorted(columns.place, since))
    changes = changes_along.against(columns, changes_along.before(columns))
    figures = Figures(
        outcome=columns.outcome[first:],
        seconds=columns.seconds[first:],
        low=columns.low[first:],
        high=columns.high[first:],
        flop=np.full(len(columns) - first, np.nan if columns.flop is None else columns.flop),
        ratio=changes.ratio[first:],
        distinct=changes.distinct[first:],
    )
    outcomes = enumerate(figures.outcome.tolist(), start=first)
    cells = zip(result_texts.cells(figures), changes.adjusted[first:].tolist(), strict=True)
    return Recent(
        places=columns.place[first:].tolist(),
        cells=[
            (text, detail, _marked(change, is_adjusted), tone) for (text, detail, change, tone), is_adjusted in cells
        ],
        remarks=[_remarks(columns, entry, OUTCOMES[outcome]) for entry, outcome in outcomes],
    )


def _marked(change: str, is_adjusted: bool) -> str:
    """Return a change that says where it is not one of the rates beside it, but of adjusted values."""
    return f"{change}, adjusted" if change and is_adjusted else change


def _remarks(columns: Columns, entry: int, outcome: Outcome) -> tuple[str, ...]:
    reason = None if outcome is Outcome.MEASURED else columns.reasons.get(entry)
    return pages.remarks(outcome, reason, columns.warnings.get(entry, ()))


def table(
    case: str, series: Mapping[str, Recent], lines: Mapping[int, CommitLine], total: int, notes: Footnotes
) -> Table:
    """Return the newest commits of a test case.

    Args:
        series: implementation -> its newest results. lines: the commits to show by place on the line, newest first.
        total: commits that the test case has. notes: gets the section's footnotes.
    """
    found = [({place: row for row, place in enumerate(each.places)}, each) for each in series.values()]
    rows = []
    for place, line in lines.items():
        shown = [(each, rows_of.get(place)) for rows_of, each in found]
        if any(row is not None for _, row in shown):
            rows.append(TableRow(commit=line, cells=tuple(_cell(each, row, notes) for each, row in shown)))
    return Table(
        case=case,
        implementations=tuple(series),
        rows=tuple(rows),
        further=f"the newest {len(rows):,} of {total:,} commits" if len(rows) < total else "",
    )


def _cell(series: Recent, row: int | None, notes: Footnotes) -> Cell:
    if row is None:
        return pages.absent()
    text, detail, change, tone = series.cells[row]
    return Cell(text=text, detail=detail, change=change, tone=tone, marks=notes.marks(series.remarks[row]))
