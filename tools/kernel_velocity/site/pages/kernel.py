"""kernel-<kernel>-<Device>.html: the trend over the commits as a chart, the same data as tables, the kernel's source.

One chart shows one test case of one machine in one cache state, in the quantity that the reader chooses. The series
are data files of their own. What is marked on the chart is the data file of kernel_chart. `data/source-<kernel>` holds
the source at the measured commits, which config.Project names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from kernel_velocity import units
from kernel_velocity.names import CONTROLS
from kernel_velocity.past.columns import NONE, Columns, comparable_before
from kernel_velocity.results import git
from kernel_velocity.results.git import SHORT, SourceVersion
from kernel_velocity.results.measurement import OUTCOMES, SeriesKey
from kernel_velocity.results.records import name_parts
from kernel_velocity.site import text
from kernel_velocity.site.charts import plot
from kernel_velocity.site.charts.plot import Plot, Span
from kernel_velocity.site.model import Site
from kernel_velocity.site.pages import home_table, kernel_chart
from kernel_velocity.site.pages.kernel_chart import AXES, Chart, Group, Mark
from kernel_velocity.site.series_data import newest_name
from kernel_velocity.site.text import Cell, CommitLine, Footnotes, PageTable
from kernel_velocity.site.writer import DataFile, Page, series_name
from kernel_velocity.stats.changepoints.values import FEWEST_ALONE, too_few
from kernel_velocity.verdict.ranges import CommitRange, Value
from kernel_velocity.verdict.verdicts import Levels, Verdict, Word

SOURCE_FORMAT = 1  # of the data file of sources
RANGES = {"all": "all commits", "200": "newest 200", "50": "newest 50"}
SCALES = {"zero": "from zero", "close": "close up", "log": "logarithmic", "percent": "% against a commit"}
HOT = "hot"  # the cache state that the page begins with: what a kernel meets within a program
PARTS = 128  # that the pages are made in, at most
MARKS = 50  # rows of the table of marks; the chart has all
NEWEST = 50  # commits of a table
VALUES = 200  # in all tables of a page: of 500 they took a fifth of the time that the page needs of its thread
FEWEST = 5  # rows of a table
INSTRUCTIONS, SAME_COUNT = "track_instructions", "as many instructions"
STEP_POINTS = 60  # of the line of a figure

VALUE = "value"  # heads the values of another suite, which has no implementations

Result = tuple[tuple[str, str, str, str], tuple[str, ...]]  # text, detail, change, tone of a `Cell`; its footnotes
Recent = Mapping[int, Result]  # by position on the first-parent line


def parts(site: Site) -> list[Callable[[Site], Iterator[Page | DataFile]]]:
    """Return what makes the pages and data of a few kernels each, and all together."""
    kernels: dict[str, dict[str, list[SeriesKey]]] = {}
    for key in site.keys:
        kernel, device, _ = name_parts(key.benchmark)
        kernels.setdefault(kernel, {}).setdefault(device, []).append(key)
    size = -(-len(kernels) // PARTS)
    rest = iter(sorted(kernels.items()))
    tables = [home_table.SeriesTable(site, platform) for platform in site.platforms]
    return [partial(_build, kernels=some, tables=tables) for some in iter(lambda: list(islice(rest, size)), [])]


def _build(
    site: Site,
    kernels: Iterable[tuple[str, Mapping[str, Sequence[SeriesKey]]]],
    tables: Sequence[home_table.SeriesTable],
) -> Iterator[Page | DataFile]:
    """Yield the pages of some kernels, each with its series by device, and their data.

    Args:
        tables: of the site's machines.
    """
    measured = [site.order[sha] for sha in site.along]
    for kernel, devices in kernels:
        names = site.project.sources_of(kernel)
        versions = git.source_versions(
            site.repository, names, site.source_changes.get(kernel, ()), measured, site.order
        )
        yield from source_files(kernel, versions)
        for device, keys in sorted(devices.items()):
            chart = kernel_chart.chart(site, kernel, device, keys)
            inputs = kernel_chart.inputs(chart)
            yield from kernel_chart.files(chart, inputs)
            heads, moved = headlines(chart, tables), _traffic(site, chart)
            yield Page(
                name=text.kernel_href(kernel, device),
                template="kernel.html",
                context=partial(_page, site, chart, versions, heads, moved),
                inputs=repr((inputs, [version.commit.sha for version in versions], heads, moved)),
            )


class Headline(NamedTuple):
    """What the first test case of the page does now on a machine."""

    name: str
    words: Sequence[str]  # the overview's row, the time first
    change: tuple[Cell, CommitLine] | None  # the last one, and the commit to blame
    counted: str = ""  # what counts of a call say of the newest commit, where its time says nothing


def headlines(chart: Chart, tables: Iterable[home_table.SeriesTable]) -> list[Headline]:
    """Return a headline for each machine."""
    first = _first_case(chart.columns)
    heads = []
    for table in tables:
        here = [key for group in chart.groups if group.platform == table.platform for key in group.columns]
        keys = [key for key in here if key.case == first and key.implementation not in CONTROLS]
        if keys:
            key = min(keys, key=lambda key: name_parts(key.benchmark).state != HOT)
            machine = "" if len(table.site.platforms) == 1 else key.machine
            name = " · ".join(filter(None, (key.implementation, first, name_parts(key.benchmark).state, machine)))
            row = table.row(key)
            last = home_table.last_change(table, row)
            heads.append(Headline(name, home_table.headline(table, row), last, counted(chart, key)))
    return heads


def counted(chart: Chart, key: SeriesKey) -> str:
    """Return what the instructions of a call say of the newest commit of a series. "": its time changed, or no counts.

    The commit before is the one that its time is compared with.
    """
    columns, site = chart.columns[key], chart.site
    figures = [
        figure
        for figure in chart.figures
        if figure["machine"] == key.machine and name_parts(figure["benchmark"]).state == INSTRUCTIONS
    ]
    measured = np.flatnonzero(columns.is_measured)
    if not figures or not measured.size:
        return ""
    newest = int(measured[-1])
    base = int(comparable_before(columns, newest)[0])
    change = None if base == NONE else site.levels[key].between(base, newest)
    if change is None or change.is_change:
        return ""
    before, since = int(columns.position[base]), site.line[columns.position[base]][:SHORT]
    rises = [
        (figure["value"][-1] / figure["value"][-2] - 1, figure["target"])
        for figure in figures
        if len(figure["value"]) > 1 and site.order[figure["commit"][-1]] > before
    ]
    rise, case = max(rises, key=lambda pair: abs(pair[0]), default=(0.0, ""))
    words = f"{units.share(abs(rise))} {'more' if rise > 0 else 'fewer'} instructions ({case})" if case else SAME_COUNT
    time = " ".join(filter(None, (text.verdict(change), text.verdict_detail(change))))
    return f"Since {since}: time {time}; {words}"


def _page(
    site: Site, chart: Chart, versions: Sequence[SourceVersion], heads: Sequence[Headline], moved: PageTable
) -> dict[str, Any]:
    """Return what the template is filled with."""
    hues, dashes = plot.colours_of(chart.implementations), plot.dashes_of(chart.implementations)
    offered = {name for series in chart.series.values() for name in series["quantities"]}
    cases = [key.case for key in chart.columns]
    states = sorted(
        {group.state for group in chart.groups}, key=lambda state: (state != HOT, not state.startswith("time"))
    )
    count = limit(len(chart.columns))
    page = {
        "headlines": heads,
        "kernel": chart.kernel,
        "device": chart.device,
        "data": chart.name,
        "first_data": ["commits", chart.name, *_first_series(chart, states[0])],
        "places": list(dict.fromkeys(group.platform for group in chart.groups)),
        "states": {state: state for state in states},
        "cases": list(dict.fromkeys(cases)),
        "first_case": _first_case(chart.columns),
        "quantities": {name: words for name, words in AXES.items() if name in offered},
        "title": f"{chart.kernel} on {chart.device}" if chart.device else chart.kernel,
        "ranges": RANGES,
        "scales": SCALES,
        "colours": [(name, hues[name], dash) for name, dash in dashes.items()],
        "sections": [_section(site, chart, group, count) for group in chart.groups],
        "figures": _figures(site, chart),
        "traffic": moved,
        "source": _source(chart.kernel, versions) if versions else None,
    }
    return {"page": page}


def limit(series: int) -> int:
    """Return how many commits each of the tables of a page with so many series holds."""
    return min(NEWEST, max(FEWEST, VALUES // series))


def _first_case(columns: Mapping[SeriesKey, Columns]) -> str:
    """Return the test case measured at most commits. Of several, the last one of the axis, which is larger."""
    counts: dict[str, int] = {}
    for key, series in columns.items():
        counts[key.case] = counts.get(key.case, 0) + int(series.is_measured.sum())
    return max(reversed(counts), key=counts.__getitem__)


def _first_series(chart: Chart, state: str) -> list[str]:
    """Return the data files of the series that the page begins with, so that it loads them at once."""
    case, group = _first_case(chart.columns), next(group for group in chart.groups if group.state == state)
    keys = [key for key in group.columns if key.case == case]
    return [*dict.fromkeys(map(newest_name, keys)), *map(series_name, keys)]


def _section(site: Site, chart: Chart, group: Group, count: int) -> dict[str, Any]:
    """Return the tables of one machine, environment and cache state, of the newest `count` commits."""
    newest = group.shown[-count:][::-1].tolist()
    lines = {position: text.commit_line(site.commits[site.line[position]]) for position in newest}
    results = {key: recent(columns, site.levels[key], newest[-1]) for key, columns in group.columns.items()}
    notes = Footnotes()
    tables = []
    for case in dict.fromkeys(key.case for key in group.columns):
        of_case = {key.implementation: values for key, values in results.items() if key.case == case}
        label = f"{case}: {group.platform.machine}, {group.platform.environment}, {group.state}"
        tables.append((case, table(label, of_case, lines, group.commits_of(case), notes)))
    longest = max(int(columns.is_measured.sum()) for columns in group.columns.values())
    few = too_few(FEWEST_ALONE + 1, "a change point by the series' own noise", longest)
    return {
        "place": group.platform,
        "anchor": group.anchor,
        "state": group.state,
        "tables": tables,
        "marks": _marks(site, chart, group),
        "sizes": size_charts(chart, group),
        "footnotes": notes.texts,
        "remarks": (*chart.warnings.get(group.platform, ()), *few),
    }


def recent(columns: Columns, levels: Levels, since: int) -> Recent:
    """Return the results of a series from a position on the line on, each against the one measured before."""
    first, unit = int(np.searchsorted(columns.position, since)), text.unit_of(columns)
    fields = (columns.position, columns.outcome, columns.seconds, columns.low, columns.high)
    rows = zip(*(values[first:].tolist() for values in fields), _changes(columns, levels, first), strict=True)
    results: dict[int, Result] = {}
    for entry, (position, index, *times, change) in enumerate(rows, start=first):
        outcome, words = OUTCOMES[index], ""
        value, detail, tone = text.cell(outcome, *times, flop=columns.flop, unit=unit)
        if change is not None and change.word is not Word.UNCHANGED:
            words, tone = text.verdict(change, columns.unit), text.tone(change.word)
        remarks = text.remarks(outcome, columns.reasons.get(entry), columns.warnings.get(entry, ()))
        results[position] = (value, detail, words, tone), remarks
    return results


def _changes(columns: Columns, levels: Levels, first: int) -> Iterator[Verdict | None]:
    """Yield what a series did from the entry measured before each, from an entry on. None where nothing compares."""
    for entry, base in enumerate(comparable_before(columns, first).tolist(), start=first):
        is_comparable = columns.is_measured[entry] and base != NONE
        yield levels.between(base, entry) if is_comparable else None


def table(
    label: str, series: Mapping[str, Recent], lines: Mapping[int, CommitLine], total: int, notes: Footnotes
) -> PageTable:
    """Return the newest commits of a test case.

    Args:
        series: implementation -> its newest results. lines: the commits to show by position on the line, newest first.
        total: commits that the test case has. notes: takes the footnotes.
    """

    def cell(result: Result | None) -> Cell:
        if result is None:
            return text.absent()
        (words, detail, change, tone), remarks = result
        return Cell(text=words, detail=detail, change=change, tone=tone, marks=notes.marks(remarks))

    rows: list[Sequence[str | Cell | CommitLine]] = [
        (line, *(cell(results.get(position)) for results in series.values()))
        for position, line in lines.items()
        if any(position in results for results in series.values())
    ]
    further = f"the newest {len(rows):,} of {total:,} commits; the chart has all." if len(rows) < total else ""
    return PageTable(label, {"commit": "commit"} | {name or VALUE: "value" for name in series}, rows, further)


def _marks(site: Site, chart: Chart, group: Group) -> PageTable:
    """Return what is marked on the chart of a group, newest first."""
    keys = {series_name(key): key for key in group.columns}
    # each with its kind, and the series that it is about: none means all
    marks: list[tuple[Mark, str, list[SeriesKey]]] = []
    for finding in chart.findings:
        shown = [keys[name] for name in finding["series"] if name in keys]
        if shown:
            marks.append((finding, "finding", shown))
    marks += [(mark, "", []) for mark in chart.tags] + [(mark, "environment", []) for mark in group.environment]
    marks += [(mark, "change point", [key]) for key in group.columns for mark in chart.changes[key]]
    marks.sort(key=lambda mark: -site.order[mark[0]["commit"]])

    def event(mark: Mark, kind: str) -> Cell:
        detail = ", ".join(filter(None, (kind, mark.get("detail"))))
        return Cell(text=mark["text"], href=mark.get("page", ""), detail=detail)

    def cause(mark: Mark) -> CommitLine:
        if "candidates" not in mark:
            return text.commit_line(site.commits[mark["commit"]])
        commits = CommitRange(good=mark["good"], bad=mark["bad"], commits=mark["candidates"])
        return site.cause(commits, text.causes_href(site.commits[mark["commit"]]))

    def only(names: Iterable[str]) -> str:
        distinct = set(names)
        return distinct.pop() if len(distinct) == 1 else ""

    rows = [
        (
            cause(mark),
            event(mark, kind),
            Cell(text=only(key.case for key in about), detail=only(key.implementation for key in about)),
        )
        for mark, kind, about in marks[:MARKS]
    ]
    label = f"events: {group.platform.machine}, {group.platform.environment}, {group.state}"
    columns = {"commit": "commit", "event": "event", "test case": "of"}
    return PageTable(label, columns, rows, f"the newest {MARKS} of {len(marks):,}" if len(marks) > MARKS else "")


def _figures(site: Site, chart: Chart) -> PageTable:
    """Return the figures of the compiled code as a table."""

    def method(figure: Mapping[str, Any]) -> str:
        return name_parts(figure["benchmark"]).state

    def value(figure: Mapping[str, Any], step: int) -> str:
        unit = " bytes" if figure["unit"].startswith("bytes") else ""
        return f"{figure['value'][step]:,}{unit}" if len(figure["value"]) >= -step else ""

    def since(before: str | None, sha: str) -> CommitLine:
        if before is None:
            return text.commit_line(site.commits[sha])
        ends = [Value(site.order[end], None) for end in (before, sha)]
        return site.cause(site.levels.line.between(ends), text.commit_href(site.commits[sha]))

    rows = [
        (
            Cell(text=f"{text.FIGURES[method(figure)]}, {figure['target']}", detail=figure["machine"]),
            value(figure, -1),
            value(figure, -2),
            since(figure["before"][-1], figure["commit"][-1]),
            _steps_of(site, figure),
        )
        for figure in chart.figures
    ]
    columns = {"figure": "of", "now": "value", "before": "value", "since": "commit", "over the commits": ""}
    return PageTable(f"compiled code of {chart.kernel}", columns, rows)


def _steps_of(site: Site, figure: Mapping[str, Any]) -> Markup:
    """Return a figure over the commits as a line with a dot at each step, from 0 to 1 of its range. Of no step: empty.

    A count is exact, so that its smallest step is as visible as any.
    """
    starts, values = [site.order[commit] for commit in figure["commit"]], figure["value"]
    if len(values) < 2:
        return Markup("")
    along = np.linspace(starts[0], site.order[site.along[-1]], STEP_POINTS).tolist()
    index = (np.searchsorted(starts, along, side="right") - 1).tolist()
    dots = [at for at, (before, after) in enumerate(pairwise(index), start=1) if before != after]
    low, high = min(values), max(values)
    label = f"{len(values) - 1:,} {'step' if len(values) == 2 else 'steps'}, from {values[0]:,} to {values[-1]:,}"
    return plot.sparkline([(values[number] - low) / (high - low) for number in index], label, marked=dots, tone="step")


def _traffic(site: Site, chart: Chart) -> PageTable:
    """Return the least traffic of one kernel and that of its reference's operations, where these move more."""
    rows: dict[str, tuple[str, ...]] = {}
    for key in chart.columns:
        benchmark = site.past.benchmarks.get(key.benchmark)
        fused, unfused = (
            (0, 0)
            if benchmark is None
            else (benchmark.bytes_moved.get(key.case, 0), benchmark.unfused_bytes.get(key.case, 0))
        )
        if 0 < fused < unfused:
            amounts = (units.value(amount, units.BYTES) for amount in (fused, unfused))
            rows[key.case] = (key.case, *amounts, f"{units.significant(unfused / fused)}{units.MULTIPLE}")
    columns = {"test case": "of", "one kernel": "value", "the operations": "value", "ratio": "value"}
    return PageTable(f"memory traffic of {chart.kernel}", columns, list(rows.values()))


def source_files(kernel: str, versions: Sequence[SourceVersion]) -> Iterator[DataFile]:
    """Yield the data file of a kernel's versions, oldest first, each text once. None without a version."""
    texts: dict[str, int] = {}
    listed = [
        {
            "commit": version.commit.sha,
            "files": {name: texts.setdefault(content, len(texts)) for name, content in version.files},
        }
        for version in versions
    ]
    if listed:
        value = {"format": SOURCE_FORMAT, "texts": list(texts), "versions": listed}
        yield DataFile(name=f"source-{text.in_file_name(kernel)}", value=value)


def _source(kernel: str, versions: Sequence[SourceVersion]) -> dict[str, Any]:
    """Return the source at the newest measured commit, and the versions that a reader can choose, newest first."""
    lines = [(version.commit.sha, text.commit_line(version.commit)) for version in reversed(versions)]
    labels = [(sha, f"{line.short} · {line.date} · {line.subject}") for sha, line in lines]
    return {"data": f"source-{text.in_file_name(kernel)}", "files": versions[-1].files, "versions": labels}


# ---- the newest rates by size ------------------------------------------------------------------------------------
#
# A line for each implementation, below the roof of each size. Test cases belong together whose names differ in a number
# alone. Where the work of a call is unknown, as in other suites, the values themselves are drawn.

GIGA = 1e9
PEAK = "peak"  # ends the limit of what computes more than it moves: "float32 peak"
WIDE = 10.0  # times: values further apart have a logarithmic axis
SIZES_APART = 1.5  # times: how far ticks lie apart
SIZE_ROOM = 1.15  # times: how far the axis of sizes goes beyond the points
MOST_SIZES = 6  # charts of a part of the page
# A number in a test case's name, or several: "5M", "1024x1024x64". Of "float32" or "1.5" it is none.
_SIZE = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:x\d+)*)([kMG]?)(?![\w.])")
_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
_LEFT = "\u2026"  # in place of the size


@dataclass(frozen=True, kw_only=True)
class SizeChart:
    """A chart of test cases whose names differ in a size."""

    title: str
    legend: Sequence[tuple[Markup, str]]
    svg: Markup
    has_roof: bool


@dataclass(frozen=True, kw_only=True)
class _Point:
    """The newest value of a series: a rate, 10^9 per second, or what was measured."""

    key: SeriesKey
    size: float
    value: float
    seconds: float
    commit: str
    roof: Mapping[str, Any] | None  # the least time of a call and its limit (kernel_chart.roof)


@dataclass(frozen=True, kw_only=True)
class _Quantity:
    """What a chart shows."""

    title: str
    unit: str
    is_rate: bool = True

    def words(self, value: float) -> str:
        """Return a value as text."""
        return units.rate(value, self.unit) if self.is_rate else units.value(value, self.unit)

    def scale(self, value: float) -> tuple[str, float]:
        """Return the unit of an axis up to a value, and how many of the values' own unit it is."""
        if not self.is_rate:
            return kernel_chart.scale_of(self.unit, value)
        prefix, scale = units.prefix(value)
        return f"{prefix}{self.unit[1:]}", scale


def size_charts(chart: Chart, group: Group) -> list[SizeChart]:
    """Return a chart for each set of test cases that differ in a size alone and have values of two sizes."""
    alike: dict[str, dict[SeriesKey, tuple[int, ...]]] = {}
    sizes = sizes_of(dict.fromkeys(key.case for key in group.columns))
    for key in group.columns:
        if key.case in sizes:
            title, dims = sizes[key.case]
            alike.setdefault(title, {})[key] = dims
    made = (_size_chart(chart, group.columns, title, dims) for title, dims in alike.items())
    return [figure for figure in made if figure is not None][:MOST_SIZES]


def sizes_of(cases: Iterable[str]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the rest of a test case's name and its size, by test case. Names without a number are left out.

    Of several numbers the size is the one that has most values in names of the same form.
    """
    forms: dict[str, dict[str, list[re.Match[str]]]] = {}
    for case in cases:
        numbers = [*_SIZE.finditer(case)]
        if numbers:
            forms.setdefault(_SIZE.sub(_LEFT, case), {})[case] = numbers
    sizes = {}
    for form in forms.values():
        counts = [len({match[0] for match in matches}) for matches in zip(*form.values(), strict=True)]
        for case, numbers in form.items():
            size = numbers[counts.index(max(counts))]
            rest = f"{case[: size.start()]}{_LEFT}{case[size.end() :]}".strip(f"-_,:= {_LEFT}")
            sizes[case] = rest, tuple(int(extent) * _FACTORS[size[2]] for extent in size[1].split("x"))
    return sizes


def _size_chart(
    chart: Chart, columns: Mapping[SeriesKey, Columns], rest: str, dims: Mapping[SeriesKey, tuple[int, ...]]
) -> SizeChart | None:
    are_cubes = all(len(extents) > 1 and len(set(extents)) == 1 for extents in dims.values())
    sizes = {key: extents[0] if are_cubes else math.prod(extents) for key, extents in dims.items()}
    limits = [roof["text"] for key in dims if (roof := chart.series[key]["roof"]) is not None]
    is_moving = bool(limits) and not any(limit.endswith(PEAK) for limit in limits)
    quantity, points = _points(chart, columns, sizes, is_moving=is_moving)
    if len({point.size for point in points}) < 2:
        return None
    points.sort(key=lambda point: point.size)
    frame = _frame(points, "n, of n x n x n" if are_cubes else "size", quantity)
    _draw_roof(frame, points)
    hues, shapes = plot.colours_of(chart.implementations), list(plot.MARKS)
    looks = {name: (shapes[number % len(shapes)], hues[name]) for number, name in enumerate(chart.implementations)}
    shown = [name for name in looks if any(point.key.implementation == name for point in points)]
    for name in shown:
        line = [point for point in points if point.key.implementation == name]
        shape, colour = looks[name]
        frame.line([(point.size, point.value) for point in line], colour=colour)
        for point in line:
            frame.mark(
                plot.Mark(x=point.size, y=point.value, shape=shape, colour=colour, title=_title(point, quantity))
            )
    title = ", ".join(filter(None, (f"{quantity.title} by size", rest)))
    legend = [(plot.legend_mark(*looks[name]), name) for name in shown if name]
    return SizeChart(title=title, legend=legend, svg=frame.svg(title), has_roof=bool(limits))


def _points(
    chart: Chart, columns: Mapping[SeriesKey, Columns], sizes: Mapping[SeriesKey, float], *, is_moving: bool
) -> tuple[_Quantity, list[_Point]]:
    """Return the newest rates of some series, bandwidths where bytes bind, values where no work is known."""
    first = columns[next(iter(sizes))]
    flop, moved = {key: columns[key].flop for key in sizes}, {key: columns[key].bytes_moved for key in sizes}
    if any(flop.values()) and not is_moving:
        quantity, work = _Quantity(title="rate", unit=first.key.rate_unit), flop
    elif any(moved.values()):
        quantity, work = _Quantity(title="bandwidth", unit="GB/s"), moved
    else:
        quantity = _Quantity(title=kernel_chart.quantity_of(first.unit), unit=first.unit, is_rate=False)
        work = dict.fromkeys(sizes)
    points = []
    for key, size in sizes.items():
        measured, done = np.flatnonzero(columns[key].is_measured), work[key]
        if measured.size and size and (done or not quantity.is_rate):
            seconds = float(columns[key].seconds[measured[-1]])
            points.append(
                _Point(
                    key=key,
                    size=size,
                    value=done / seconds / GIGA if done else seconds,
                    seconds=seconds,
                    commit=chart.site.line[columns[key].position[measured[-1]]],
                    roof=chart.series[key]["roof"],
                )
            )
    return quantity, points


def _frame(points: Sequence[_Point], size: str, quantity: _Quantity) -> Plot:
    """Return an empty chart that all points and their roofs fit in."""
    values = [point.value for point in points] + [roof for _, roof, _ in _roofs(points)]
    least, most = min(values), max(values)
    name, scale = quantity.scale(max(map(abs, values)))
    is_log = least > 0 and most > WIDE * least
    sizes = [point.size for point in points]
    span = plot.around(name, values, low=None if is_log or least < 0 else 0.0, is_log=is_log)
    return Plot(
        Span(
            title=size,
            low=min(sizes) / SIZE_ROOM,
            high=max(sizes) * SIZE_ROOM,
            is_log=True,
            words=_count,
            at=tuple(_apart(sizes)),
        ),
        replace(span, words=lambda value: f"{value / scale:,.4g}"),
    )


def _apart(sizes: Iterable[float]) -> Iterator[float]:
    """Yield sizes of which each is SIZES_APART times the one before, or more, so that their texts have room."""
    before = 0.0
    for size in sorted(sizes):
        if size >= SIZES_APART * before:
            yield size
            before = size


def _count(size: float) -> str:
    """Return a size as the test cases name it: "500k", "1M"."""
    for factor, prefix in ((1e6, "M"), (1e3, "k")):
        if size >= factor and (size / factor).is_integer():
            return f"{size / factor:,g}{prefix}"
    return f"{size:,g}"


def _roofs(points: Iterable[_Point]) -> list[tuple[float, float, str]]:
    """Return size, rate and limit of each size's roof, by size."""
    roofs = {
        point.size: (point.value * point.seconds / point.roof["seconds"], point.roof["text"])
        for point in points
        if point.roof is not None
    }
    return [(size, *roof) for size, roof in roofs.items()]


def _draw_roof(frame: Plot, points: Sequence[_Point]) -> None:
    """Draw the roofs that are known, and name the limit where it is another one than at the size before."""
    roofs = _roofs(points)
    if roofs:
        frame.line([(size, rate) for size, rate, _ in roofs], "roof dashed")
    before = ""
    for size, rate, limit in roofs:
        if limit != before:
            frame.write(size, rate, limit, dx=4, dy=-7, class_="name")
        before = limit


def _title(point: _Point, quantity: _Quantity) -> str:
    roof, name = point.roof, ", ".join(filter(None, (point.key.implementation, point.key.case)))
    share = "" if roof is None else f", {units.share(roof['seconds'] / point.seconds)} of {roof['text']}"
    return f"{name}: {quantity.words(point.value)}{share} ({point.commit[:SHORT]})"
