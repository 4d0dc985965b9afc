"""The tables of a kernel's page: the newest commits of each test case, as text. Pure.

What the compilers made of a kernel over the commits: the figures of its code, and what changed them last. Pure.

Of all devices' code, whichever device a page is about: a machine without a GPU compiles for one, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_velocity.harness import cases
from kernel_velocity.results.identity import FIGURES
from kernel_velocity.results.measurement import OUTCOMES, IntArray, Outcome, SeriesKey
from kernel_velocity.series import changes as changes_along
from kernel_velocity.series.changes import Changes
from kernel_velocity.series.columns import Columns
from kernel_velocity.series.past import Tracked
from kernel_velocity.site import cells as result_texts
from kernel_velocity.site import text as pages
from kernel_velocity.site.cells import Figures
from kernel_velocity.site.text import Cell, CommitLine, Footnotes

NEWEST = 50  # commits of a table
# Rows of all tables of a page, which is made again with every commit; its script adds the others from the data.
ROWS = 50
FEWEST = 5
_BEFORE = 16  # entries among which the one is looked for first that the oldest one shown is compared with

_NA = OUTCOMES.index(Outcome.NOT_APPLICABLE)

_WORDS = {
    "code_bytes": "code",
    "registers": "registers of a thread",
    "shared_bytes": "shared memory of a block",
    "spill_bytes": "spilled",
}


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
    return recent_of([columns], since)[0]


def recent_of(series: Sequence[Columns], since: int) -> list[Recent]:
    """Return `recent` of several series; their texts are made together, as a call for five results costs most."""
    found = [_nearby(columns, since) for columns in series]
    cells = result_texts.cells(_figures(found))
    return [_said(*each, cells) for each in found]


def _nearby(columns: Columns, since: int) -> tuple[Columns, int, Changes]:
    """Return a series from somewhere on, which of its entries is the first from a place on, and all its changes."""
    first = int(np.searchsorted(columns.place, since))
    part = max(first - _BEFORE, 0)
    nearby = columns.between(part)
    base = changes_along.before(nearby)
    if part and (nearby.is_measured & (base == changes_along.NONE))[first - part :].any():  # it may be further back
        part, nearby, base = 0, columns, changes_along.before(columns)
    return nearby, first - part, changes_along.against(nearby, base)


def _figures(found: Sequence[tuple[Columns, int, Changes]]) -> Figures:
    """Return the shown entries of several series, one series after the other."""

    def joined(values: Callable[[Columns, Changes], NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([values(columns, changes)[first:] for columns, first, changes in found])

    return Figures(
        outcome=joined(lambda columns, _: columns.outcome),
        seconds=joined(lambda columns, _: columns.seconds),
        low=joined(lambda columns, _: columns.low),
        high=joined(lambda columns, _: columns.high),
        flop=joined(lambda columns, _: np.full(len(columns), np.nan if columns.flop is None else columns.flop)),
        unit=joined(lambda columns, _: np.full(len(columns), columns.key.rate_unit)),
        ratio=joined(lambda _, changes: changes.ratio),
        distinct=joined(lambda _, changes: changes.distinct),
    )


def _said(columns: Columns, first: int, changes: Changes, cells: Iterator[tuple[str, str, str, str]]) -> Recent:
    """Return the results of a series from an entry on; takes as many of the cells."""
    outcomes = columns.outcome[first:].tolist()
    own = zip(islice(cells, len(outcomes)), changes.adjusted[first:].tolist(), strict=True)
    return Recent(
        places=columns.place[first:].tolist(),
        cells=[(text, detail, _marked(change, is_adjusted), tone) for (text, detail, change, tone), is_adjusted in own],
        remarks=[_remarks(columns, entry, OUTCOMES[outcome]) for entry, outcome in enumerate(outcomes, start=first)],
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


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a kernel's code for one target, as built on one machine."""

    key: SeriesKey  # its case is the target: "avx512", "sm_90"
    name: str  # "registers"
    unit: str
    steps: tuple[tuple[str, int], ...]  # full SHA and value: of the first commit that has one, then where it changed


@dataclass(frozen=True, kw_only=True)
class FigureRow:
    """A figure as a page shows it."""

    machine: str
    environment: str
    target: str
    name: str  # "code"
    now: str
    before: str  # what it was before the commit; empty where it never was another
    commit: CommitLine  # that made it what it is


def figures(tracked: Iterable[Tracked], kernel: str, line: Sequence[str]) -> tuple[Figure, ...]:
    """Return a kernel's figures among tracked series; `line` is the first-parent line."""
    found = []
    for item in tracked:
        owner, device, method = item.key.benchmark.split(".")
        if owner != kernel or method not in FIGURES:
            continue
        values = [(line[place], int(value)) for place, value in zip(item.place.tolist(), item.value, strict=True)]
        steps = (values[0], *(after for before, after in pairwise(values) if before[1] != after[1]))
        name = method.removeprefix("track_")
        units = next(cases.FIGURES[each] for each, class_name in cases.DEVICES.items() if class_name == device)
        found.append(Figure(key=item.key, name=name, unit=units[name], steps=steps))
    return tuple(found)


def rows(found: Iterable[Figure], commit: Callable[[str], CommitLine]) -> tuple[FigureRow, ...]:
    """Return figures as a page shows them; `commit` returns the line of a full SHA."""
    return tuple(
        FigureRow(
            machine=each.key.machine,
            environment=each.key.environment,
            target=each.key.case,
            name=_WORDS[each.name],
            now=_with_unit(each, -1),
            before=_with_unit(each, -2) if len(each.steps) > 1 else "",
            commit=commit(each.steps[-1][0]),
        )
        for each in found
    )


def _with_unit(figure: Figure, step: int) -> str:
    return f"{figure.steps[step][1]:,}{' bytes' if figure.unit.startswith('bytes') else ''}"


def as_data(figure: Figure) -> dict[str, Any]:
    """Return a figure for a data file: its values, and the commits from which on it had them."""
    commits, values = zip(*figure.steps, strict=True)
    return {
        "machine": figure.key.machine,
        "environment": figure.key.environment,
        "benchmark": figure.key.benchmark,
        "target": figure.key.case,
        "unit": figure.unit,
        "commit": list(commits),
        "value": list(values),
    }
