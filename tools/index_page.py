"""The index: every kernel's latest GFLOPS by implementation and test case, their mean, change and small trend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools import pages, trends, units
from tools.measurements import Outcome
from tools.pages import Cell, CommitLine, Footnotes, Place, SiteData
from tools.trends import Point, Trend

RECENT = 30  # commits listed on the index; each kernel's page lists all
_WIDTH, _HEIGHT, _EDGE = 120, 28, 3  # of a sparkline, in its own units


@dataclass(frozen=True, kw_only=True)
class Sparkline:
    """A small trend as coordinates of an SVG of `width` x `height`; it starts from zero, newest at the right."""

    width: int
    height: int
    points: str  # "x,y x,y ..."
    area: str  # the same, closed along zero
    end: tuple[str, str]  # x and y of the newest point
    label: str  # what it shows, for those who do not see it


@dataclass(frozen=True, kw_only=True)
class Row:
    """One implementation of a kernel."""

    implementation: str
    cells: tuple[Cell, ...]  # one for each test case of the table
    mean: Cell
    sparkline: Sparkline | None


@dataclass(frozen=True, kw_only=True)
class Table:
    """One benchmark: a kernel on a device in one cache state."""

    kernel: str
    device: str
    state: str
    href: str
    newest: CommitLine
    cases: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True)
class Section:
    """One machine and environment."""

    place: Place
    tables: tuple[Table, ...]
    footnotes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class IndexPage:
    """The index."""

    sections: tuple[Section, ...]
    commits: tuple[CommitLine, ...]  # newest first
    further: str  # how many commits are not listed; empty for none
    notes: tuple[str, ...]


def build(data: SiteData) -> IndexPage:
    """Return the index of the site."""
    shown = {sha for place in data.places for sha in data.newest_first(place)}
    newest = sorted(shown, key=lambda sha: -data.order[sha])
    sections = [_section(data, place) for place in data.places]
    hidden = len(newest) - RECENT
    return IndexPage(
        sections=tuple(section for section in sections if section.tables),
        commits=tuple(pages.commit_line(data.history.commits[sha]) for sha in newest[:RECENT]),
        further=f"{units.count(hidden, 'older commit')} on the kernels' pages" if hidden > 0 else "",
        notes=data.notes,
    )


def _section(data: SiteData, place: Place) -> Section:
    notes = Footnotes()
    tables = tuple(_table(data, place, name, notes) for name in data.benchmarks_at(place))
    return Section(place=place, tables=tables, footnotes=tuple(notes.texts))


def _table(data: SiteData, place: Place, benchmark: str, notes: Footnotes) -> Table:
    found = data.trends_of(place, benchmark)
    kernel, device, state = pages.parts(benchmark)
    cases = tuple(dict.fromkeys(case for _, case in found))
    newest = max(
        (trend.latest.measurement.commit for trend in found.values() if trend.latest.is_applicable),
        key=data.order.__getitem__,
    )
    rows = []
    for implementation in dict.fromkeys(name for name, _ in found):
        by_case = {case: found[implementation, case] for case in cases if (implementation, case) in found}
        rows.append(_row(implementation, [by_case.get(case) for case in cases], newest, notes))
    return Table(
        kernel=kernel,
        device=device,
        state=state,
        href=pages.kernel_href(kernel, device),
        newest=pages.commit_line(data.history.commits[newest]),
        cases=cases,
        rows=tuple(rows),
    )


def _row(implementation: str, by_case: Sequence[Trend | None], newest: str, notes: Footnotes) -> Row:
    cells = tuple(pages.absent() if trend is None else _latest(trend, newest, notes) for trend in by_case)
    current = [trend for trend in by_case if trend is not None and _is_current(trend.latest, newest)]
    return Row(
        implementation=implementation,
        cells=cells,
        mean=_mean(current, len(by_case)),
        sparkline=sparkline(trends.mean_trend(current)),
    )


def _is_current(point: Point, newest: str) -> bool:
    return point.measurement.commit == newest and point.measurement.outcome is Outcome.MEASURED


def _latest(trend: Trend, newest: str, notes: Footnotes) -> Cell:
    commit = trend.latest.measurement.commit
    older = () if commit == newest or not trend.latest.is_applicable else (f"measured last at {commit[: pages.SHORT]}",)
    return pages.cell(trend.latest, notes, more=older)


def _mean(current: Sequence[Trend], wanted: int) -> Cell:
    """Return the mean over the test cases that the newest commit measured, and says of how many."""
    value = trends.mean_gflops([trend.latest.measurement for trend in current])
    if value is None:
        return pages.absent()
    changes = [trend.latest.change for trend in current if trend.latest.change is not None]
    ratio = trends.mean_change(changes) if len(changes) == len(current) else None
    overlapping = not all(change.is_distinct for change in changes)
    mean = None if ratio is None else trends.Change(ratio=ratio, against="", overlapping=overlapping)
    return Cell(
        text=units.gflops(value),
        detail="" if len(current) == wanted else f"of {len(current)} of {units.count(wanted, 'test case')}",
        change=pages.change(mean),
        tone=pages.tone(mean),
    )


def sparkline(values: Sequence[tuple[str, float]]) -> Sparkline | None:
    """Return the small trend of (commit, GFLOPS) pairs, oldest first; None for fewer than two."""
    if len(values) < 2:
        return None
    top = max(value for _, value in values)
    step = (_WIDTH - 2 * _EDGE) / (len(values) - 1)
    marks = [
        (f"{_EDGE + index * step:.1f}", f"{_HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * value / top:.1f}")
        for index, (_, value) in enumerate(values)
    ]
    points = " ".join(f"{x},{y}" for x, y in marks)
    zero = _HEIGHT - _EDGE
    return Sparkline(
        width=_WIDTH,
        height=_HEIGHT,
        points=points,
        area=f"{marks[0][0]},{zero} {points} {marks[-1][0]},{zero}",
        end=marks[-1],
        label=f"from {units.gflops(values[0][1])} to {units.gflops(values[-1][1])} over {len(values)} commits",
    )
