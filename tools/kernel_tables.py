"""The tables of a kernel's page: the newest commits of each test case, as text. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tools import changes_along, pages
from tools.columns import OUTCOMES, Columns, IntArray
from tools.measurements import Outcome
from tools.pages import Cell, CommitLine, Footnotes
from tools.trends import Point

NEWEST = 200  # commits of a table
# Rows of all tables of a page: with several machines, states and test cases a page of 200 each would be megabytes, and
# a site of 25 kernels spend most of its time on them. The chart and its data have every commit.
ROWS = 500
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


def points(columns: Columns, line: Sequence[str], since: int) -> tuple[Point, ...]:
    """Return the entries of a series from a place on the line on, each with its change against the one measured before.

    Args:
        columns: the series. line: the first-parent line. since: a place on it.
    """
    first = int(np.searchsorted(columns.place, since))
    changes = changes_along.against(columns, changes_along.before(columns))
    commits = [line[place] for place in columns.place.tolist()]
    return tuple(
        Point(measurement=columns.measurement(index, line), change=changes.at(index, commits))
        for index in range(first, len(columns))
    )


def table(
    case: str, recent: Mapping[str, Sequence[Point]], lines: Mapping[str, CommitLine], total: int, notes: Footnotes
) -> Table:
    """Return the newest commits of a test case.

    Args:
        recent: implementation -> its points. lines: the commits to show, newest first.
        total: commits that the test case has. notes: gets the section's footnotes.
    """
    by_commit = {name: {point.measurement.commit: point for point in found} for name, found in recent.items()}
    rows = []
    for sha, line in lines.items():
        found = [by_commit[name].get(sha) for name in recent]
        if any(found):
            cells = tuple(pages.absent() if point is None else pages.cell(point, notes) for point in found)
            rows.append(TableRow(commit=line, cells=cells))
    return Table(
        case=case,
        implementations=tuple(recent),
        rows=tuple(rows),
        further=f"the newest {len(rows):,} of {total:,} commits" if len(rows) < total else "",
    )
