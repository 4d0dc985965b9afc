"""A kernel's page: its trend over the commits as a chart, and the same data as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools import pages, units
from tools.measurements import Measurement, Outcome
from tools.pages import Cell, CommitLine, Footnotes, Place, SiteData
from tools.trends import Point, Trend

GFLOPS, GIGABYTES, MICROSECONDS = "GFLOPS", "GB/s", "µs"


@dataclass(frozen=True, kw_only=True)
class Dot:
    """One commit on a line of the chart; a value that is missing is None, and the line is broken there."""

    value: float | None
    low: float | None
    high: float | None
    shown: str  # value with unit, or "n/a", "failed"
    interval: str
    rounds: str
    change: str
    flags: str


@dataclass(frozen=True, kw_only=True)
class Line:
    """One implementation of one test case in one quantity; one dot for each commit of the chart."""

    quantity: str
    case: str
    implementation: str
    dots: tuple[Dot, ...]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """An interactive trend; every choice that a reader has is one of its lines."""

    quantities: tuple[str, ...]  # units of the value axis
    cases: tuple[str, ...]
    first_case: str  # the one shown first
    implementations: tuple[str, ...]
    commits: tuple[CommitLine, ...]  # oldest first: the horizontal axis
    lines: tuple[Line, ...]


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


@dataclass(frozen=True, kw_only=True)
class Section:
    """One machine, environment and cache state."""

    place: Place
    anchor: str
    state: str
    chart: Chart
    tables: tuple[Table, ...]
    footnotes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class KernelPage:
    """The page of a kernel on a device."""

    name: str  # file name
    kernel: str
    device: str
    sections: tuple[Section, ...]


def build(data: SiteData) -> tuple[KernelPage, ...]:
    """Return the page of every kernel and device that has a trend."""
    found: dict[tuple[str, str], list[Section]] = {}
    for place in data.places:
        for benchmark in data.benchmarks_at(place):
            kernel, device, state = pages.parts(benchmark)
            sections = found.setdefault((kernel, device), [])
            sections.append(_section(data, place, benchmark, state))
    return tuple(
        KernelPage(name=pages.kernel_href(kernel, device), kernel=kernel, device=device, sections=tuple(sections))
        for (kernel, device), sections in sorted(found.items())
    )


def _section(data: SiteData, place: Place, benchmark: str, state: str) -> Section:
    found = data.trends_of(place, benchmark)
    notes = Footnotes()
    asked = {point.measurement.commit for trend in found.values() for point in trend.points if point.is_applicable}
    newest_first = tuple(sha for sha in data.newest_first(place) if sha in asked)
    lines = {sha: pages.commit_line(data.history.commits[sha]) for sha in newest_first}
    points = {pair: {point.measurement.commit: point for point in trend.points} for pair, trend in found.items()}
    cases = tuple(dict.fromkeys(case for _, case in found))
    return Section(
        place=place,
        anchor=f"{place.anchor}-{state}",
        state=state,
        chart=_chart(found, points, tuple(lines[sha] for sha in reversed(newest_first)), newest_first[::-1]),
        tables=tuple(_table(case, points, lines, notes) for case in cases),
        footnotes=tuple(notes.texts),
    )


_Points = Mapping[tuple[str, str], Mapping[str, Point]]  # (implementation, case) -> commit -> point


def _table(case: str, points: _Points, lines: Mapping[str, CommitLine], notes: Footnotes) -> Table:
    implementations = tuple(name for name, other in points if other == case)
    rows = []
    for sha, line in lines.items():
        found = [points[name, case].get(sha) for name in implementations]
        if any(found):
            cells = tuple(pages.absent() if point is None else pages.cell(point, notes) for point in found)
            rows.append(TableRow(commit=line, cells=cells))
    return Table(case=case, implementations=implementations, rows=tuple(rows))


def _chart(
    found: Mapping[tuple[str, str], Trend], points: _Points, commits: tuple[CommitLine, ...], order: Sequence[str]
) -> Chart:
    quantities = _quantities(found)
    return Chart(
        quantities=quantities,
        cases=tuple(dict.fromkeys(case for _, case in found)),
        first_case=_first_case(found),
        implementations=tuple(dict.fromkeys(name for name, _ in found)),
        commits=commits,
        lines=tuple(
            Line(
                quantity=quantity,
                case=case,
                implementation=implementation,
                dots=tuple(dot(points[implementation, case].get(sha), quantity) for sha in order),
            )
            for quantity in quantities
            for implementation, case in found
        ),
    )


def _first_case(found: Mapping[tuple[str, str], Trend]) -> str:
    """Return the test case measured at most commits, the later of the axis where several are (larger sizes)."""
    lengths: dict[str, int] = {}
    for (_, case), trend in found.items():
        measured = sum(point.measurement.outcome is Outcome.MEASURED for point in trend.points)
        lengths[case] = lengths.get(case, 0) + measured
    most = max(lengths.values())
    return [case for case, length in lengths.items() if length == most][-1]


def _quantities(found: Mapping[tuple[str, str], Trend]) -> tuple[str, ...]:
    """Return the units that the values of these trends can be shown in; times only where there is no rate."""
    items = [point.measurement for trend in found.values() for point in trend.points]
    rates = (
        (GFLOPS, any(item.gflops is not None for item in items)),
        (GIGABYTES, any(item.gigabytes is not None for item in items)),
    )
    return tuple(unit for unit, known in rates if known) or (MICROSECONDS,)


def _figures(item: Measurement, quantity: str) -> tuple[float | None, tuple[float, float] | None]:
    if quantity == GFLOPS:
        return item.gflops, item.gflops_bounds
    if quantity == GIGABYTES:
        return item.gigabytes, item.gigabytes_bounds
    if item.seconds is None or item.interval is None:
        return None if item.seconds is None else item.seconds * 1e6, None
    return item.seconds * 1e6, (item.interval.low * 1e6, item.interval.high * 1e6)


def dot(point: Point | None, quantity: str) -> Dot:
    """Return a commit's place on a line, in a unit of `_quantities`; empty where nothing was measured."""
    if point is None:
        return Dot(value=None, low=None, high=None, shown="–", interval="", rounds="", change="", flags="")
    item = point.measurement
    value, bounds = _figures(item, quantity)
    low, high = bounds or (None, None)
    unknown = item.outcome.value if item.outcome is not Outcome.MEASURED else "unknown"
    return Dot(
        value=value,
        low=low,
        high=high,
        shown=unknown if value is None else f"{units.significant(value)} {quantity}",
        interval="unknown"
        if bounds is None
        else f"{units.significant(bounds[0])} to {units.significant(bounds[1])} {quantity}",
        rounds="unknown (no telemetry)" if item.rounds is None else str(item.rounds),
        change=pages.change(point.change) or "–",
        flags="; ".join(item.warnings if item.outcome is Outcome.MEASURED else (pages.why(item), *item.warnings))
        or "–",
    )
