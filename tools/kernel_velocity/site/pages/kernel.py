"""kernel-<kernel>-<Device>.html: the trend over the commits as a chart, the same data as tables, the kernel's source.

One chart shows one test case of one machine in one cache state, in the quantity that the reader chooses. The series
are data files of their own. What is marked on the chart is the data file of kernel_chart. `data/source-<kernel>` holds
the source at the measured commits, which config.Project names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from kernel_velocity.names import CONTROLS
from kernel_velocity.past.columns import NONE, Columns, comparable_before
from kernel_velocity.results import git
from kernel_velocity.results.git import SourceVersion
from kernel_velocity.results.measurement import OUTCOMES, SeriesKey
from kernel_velocity.results.records import name_parts
from kernel_velocity.site import text
from kernel_velocity.site.charts import plot
from kernel_velocity.site.model import Site
from kernel_velocity.site.pages import home_table, kernel_chart, kernel_sizes
from kernel_velocity.site.pages.kernel_chart import AXES, Chart, Group, Mark
from kernel_velocity.site.series_data import newest_name
from kernel_velocity.site.text import Cell, CommitLine, Footnotes, PageTable
from kernel_velocity.site.writer import DataFile, Page, series_name
from kernel_velocity.stats.changepoints.values import FEWEST_ALONE, too_few
from kernel_velocity.verdict.verdicts import Levels, Verdict, Verdicts, Word

SOURCE_FORMAT = 1  # of the data file of sources
RANGES = {"all": "all commits", "200": "newest 200", "50": "newest 50"}
SCALES = {"zero": "from zero", "close": "close up", "log": "logarithmic", "percent": "% against a commit"}
HOT = "hot"  # the cache state that the page begins with: what a kernel meets within a program
PARTS = 128  # that the pages are made in, at most
MARKS = 50  # rows of the table of marks; the chart has all
NEWEST = 50  # commits of a table
VALUES = 200  # in all tables of a page: of 500 they took a fifth of the time that the page needs of its thread
FEWEST = 5  # rows of a table
FIGURES = {
    "track_code_bytes": "code",
    "track_registers": "registers of a thread",
    "track_shared_bytes": "shared memory of a block",
    "track_spill_bytes": "spilled",
}

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
            heads = headlines(chart, tables)
            yield Page(
                name=text.kernel_href(kernel, device),
                template="kernel.html",
                context=partial(_context, site, chart, versions, heads),
                inputs=repr((inputs, [version.commit.sha for version in versions], heads)),
            )


class Headline(NamedTuple):
    """What the first test case of the page does now on a machine."""

    name: str
    words: Sequence[str]  # the overview's row, the time first
    change: tuple[Cell, CommitLine] | None  # the last one, and the commit to blame


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
            heads.append(Headline(name, home_table.headline(table, row), home_table.last_change(table, row)))
    return heads


def _context(site: Site, chart: Chart, versions: Sequence[SourceVersion], heads: Sequence[Headline]) -> dict[str, Any]:
    """Return what the template is filled with."""
    return {"page": _page(site, chart, versions) | {"headlines": heads}}


def _page(site: Site, chart: Chart, versions: Sequence[SourceVersion]) -> dict[str, Any]:
    hues, dashes = plot.colours_of(chart.implementations), plot.dashes_of(chart.implementations)
    offered = {name for series in chart.series.values() for name in series["quantities"]}
    cases = [key.case for key in chart.columns]
    states = sorted(
        {group.state for group in chart.groups}, key=lambda state: (state != HOT, not state.startswith("time"))
    )
    count = limit(len(chart.columns))
    return {
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
        "source": _source(chart.kernel, versions) if versions else None,
    }


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
    results = dict(zip(group.columns, recent(group.columns, site.levels, newest[-1]), strict=True))
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
        "sizes": kernel_sizes.figures(chart, group),
        "footnotes": notes.texts,
        "remarks": (*chart.warnings.get(group.platform, ()), *few),
    }


def recent(series: Mapping[SeriesKey, Columns], verdicts: Verdicts, since: int) -> list[Recent]:
    """Return the results of some series from a position on the line on, each against the one measured before.

    Their texts are made together: a call for five results costs most.
    """
    firsts = [int(np.searchsorted(columns.position, since)) for columns in series.values()]

    def joined(values: Callable[[Columns], Any]) -> Any:
        return np.concatenate([values(columns)[first:] for columns, first in zip(series.values(), firsts, strict=True)])

    cells = text.cells(
        outcome=joined(lambda columns: columns.outcome),
        seconds=joined(lambda columns: columns.seconds),
        low=joined(lambda columns: columns.low),
        high=joined(lambda columns: columns.high),
        flop=joined(lambda columns: np.full(len(columns), np.nan if columns.flop is None else columns.flop)),
        unit=joined(lambda columns: np.full(len(columns), text.unit_of(columns))),
    )

    def result(columns: Columns, change: Verdict | None, entry: int) -> Result:
        words, detail, tone = next(cells)
        outcome = OUTCOMES[columns.outcome[entry]]
        remarks = text.remarks(outcome, columns.reasons.get(entry), columns.warnings.get(entry, ()))
        if change is None or change.word is Word.UNCHANGED:
            return (words, detail, "", tone), remarks
        return (words, detail, text.verdict(change, columns.unit), text.verdict_tone(change, columns.unit)), remarks

    return [
        {
            int(columns.position[entry]): result(columns, change, entry)
            for entry, change in enumerate(_changes(columns, verdicts[key], first), start=first)
        }
        for (key, columns), first in zip(series.items(), firsts, strict=True)
    ]


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

    def only(names: Iterable[str]) -> str:
        distinct = set(names)
        return distinct.pop() if len(distinct) == 1 else ""

    rows = [
        (
            text.commit_line(site.commits[mark["commit"]]),
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

    def value(figure: Mapping[str, Any], step: int) -> str:
        unit = " bytes" if figure["unit"].startswith("bytes") else ""
        return f"{figure['value'][step]:,}{unit}" if len(figure["value"]) >= -step else ""

    rows = [
        (
            Cell(
                text=f"{FIGURES[figure['benchmark'].rpartition('.')[2]]}, {figure['target']}", detail=figure["machine"]
            ),
            value(figure, -1),
            value(figure, -2),
            text.commit_line(site.commits[figure["commit"][-1]]),
        )
        for figure in chart.figures
    ]
    return PageTable(
        f"compiled code of {chart.kernel}", {"figure": "of", "now": "value", "before": "value", "since": "commit"}, rows
    )


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
        yield DataFile(name=f"source-{kernel}", value=value)


def _source(kernel: str, versions: Sequence[SourceVersion]) -> dict[str, Any]:
    """Return the source at the newest measured commit, and the versions that a reader can choose, newest first."""
    lines = [(version.commit.sha, text.commit_line(version.commit)) for version in reversed(versions)]
    labels = [(sha, f"{line.short} · {line.date} · {line.subject}") for sha, line in lines]
    return {"data": f"source-{kernel}", "files": versions[-1].files, "versions": labels}
