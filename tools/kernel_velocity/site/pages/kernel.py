"""A kernel's page on a device: its trend over the commits as a chart, the same data as tables, its source.

One chart shows one test case of one machine in one cache state, in the quantity that the reader chooses; its series
are data files of their own, and what is marked on it is the data file `kernel-<kernel>-<Device>` (`kernel_data`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from kernel_velocity import units
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.series.columns import Columns
from kernel_velocity.site import text as pages
from kernel_velocity.site.charts import palette
from kernel_velocity.site.charts.documents import Document
from kernel_velocity.site.model import Site
from kernel_velocity.site.outputs import DataFile, Page, Part
from kernel_velocity.site.pages import kernel_chart, kernel_source, kernel_tables
from kernel_velocity.site.pages.kernel_chart import AXES, GFLOPS, Chart, Group
from kernel_velocity.site.pages.kernel_source import Version
from kernel_velocity.site.pages.kernel_tables import FigureRow, Table
from kernel_velocity.site.text import CommitLine, Footnotes, Place
from kernel_velocity.stats.changepoints.values import FEWEST_ALONE, too_few

RANGES = (("all", "all commits"), ("200", "newest 200"), ("50", "newest 50"))
SCALES = (("zero", "from zero"), ("close", "close up"))
HOT = "hot"  # the cache state that the page begins with: what a kernel meets within a program
PARTS = 128  # that the pages are made in, at most
MARKS = 200  # rows of the table of what is marked


@dataclass(frozen=True, kw_only=True)
class MarkRow:
    """One line of the table of what is marked on the chart."""

    commit: CommitLine
    kind: str
    text: str
    case: str  # that it is about; empty for all
    implementation: str  # likewise
    href: str  # of more; empty for none


@dataclass(frozen=True, kw_only=True)
class Section:
    """One machine, environment and cache state: the tables behind the chart."""

    place: Place
    anchor: str
    state: str
    tables: tuple[Table, ...]
    marks: tuple[MarkRow, ...]  # newest first
    further_marks: str  # how many it leaves out; empty for none
    footnotes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SourceVersion:
    """A version of the kernel's source that a reader can choose."""

    commit: str  # full SHA
    label: str


@dataclass(frozen=True, kw_only=True)
class Source:
    """The kernel's source at the newest measured commit, and its versions up to there."""

    data: str  # the data file of all versions
    files: tuple[tuple[str, str], ...]  # name, text
    versions: tuple[SourceVersion, ...]  # newest first


@dataclass(frozen=True, kw_only=True)
class KernelPage:
    """The page of a kernel on a device."""

    name: str  # file name
    kernel: str
    device: str
    data: str  # the data file of its marks
    places: tuple[Place, ...]
    states: tuple[str, ...]
    cases: tuple[str, ...]
    first_case: str
    quantities: tuple[tuple[str, str], ...]  # what it can be shown as, and the words for it
    ranges: tuple[tuple[str, str], ...]
    scales: tuple[tuple[str, str], ...]
    colours: tuple[tuple[str, str, str], ...]  # implementation, colour and dashes of its line
    sections: tuple[Section, ...]
    figures: tuple[FigureRow, ...]  # of the compiled code
    source: Source | None


def build(found: Site) -> Iterator[Page | DataFile]:
    """Yield the page of every kernel and device that has a trend, and its data."""
    for part in parts(found):
        yield from part(found)


def parts(found: Site) -> list[Part]:
    """Return what builds the pages of a few kernels each, together all that `build` yields."""
    kernels: dict[str, dict[str, list[SeriesKey]]] = {}
    for key in found.keys:
        kernel, device, _ = pages.parts(key.benchmark)
        kernels.setdefault(kernel, {}).setdefault(device, []).append(key)
    changed = kernel_source.changes(found.repository) if kernels else {}
    size = -(-len(kernels) // PARTS)
    each = iter(sorted(kernels.items()))
    return [partial(_build, kernels=some, changed=changed) for some in iter(lambda: list(islice(each, size)), [])]


def _build(
    found: Site,
    kernels: Iterable[tuple[str, Mapping[str, Sequence[SeriesKey]]]],
    changed: Mapping[str, Sequence[str]],
) -> Iterator[Page | DataFile]:
    """Yield the pages of some kernels, each with its series by device, and their data.

    Args:
        changed: kernel -> the commits that changed its source.
    """
    for kernel, devices in kernels:
        versions = kernel_source.versions(
            found.repository, kernel, changed.get(kernel, ()), found.measured, found.order
        )
        yield from kernel_source.files(kernel, versions)
        for device, keys in sorted(devices.items()):
            chart = kernel_chart.chart(found, kernel, device, keys)
            inputs = kernel_chart.inputs(found, chart)
            yield from kernel_chart.files(chart, inputs)
            yield Page(
                name=pages.kernel_href(kernel, device),
                template="kernel.html",
                context=partial(_context, found, chart, versions),
                inputs=repr((inputs, [version.commit.sha for version in versions])),
            )


def _context(found: Site, chart: Chart, versions: Sequence[Version]) -> dict[str, object]:
    document = found.documents.get("trend", chart.implementations, partial(_document, chart.implementations))
    return {"page": _page(found, chart, versions), "document": document}


def _document(implementations: tuple[str, ...]) -> Document:
    from kernel_velocity.site.charts import trend  # noqa: PLC0415 - Bokeh takes a second

    return trend.document(implementations)


def _page(found: Site, chart: Chart, versions: Sequence[Version]) -> KernelPage:
    sections = [_section(found, chart, group) for group in chart.groups]
    hues = palette.colours(chart.implementations)
    offered = {name for series in chart.series for name in series.conversions}
    axes = {**AXES, GFLOPS: units.rate_units(series.key.dtype for series in chart.series)}
    return KernelPage(
        name=pages.kernel_href(chart.kernel, chart.device),
        kernel=chart.kernel,
        device=chart.device,
        data=chart.name,
        places=tuple(dict.fromkeys(section.place for section in sections)),
        states=tuple(sorted({section.state for section in sections}, key=lambda state: state != HOT)),
        cases=tuple(dict.fromkeys(key.case for key in chart.columns)),
        first_case=_first_case(chart.columns),
        quantities=tuple((name, words) for name, words in axes.items() if name in offered),
        ranges=RANGES,
        scales=SCALES,
        colours=tuple((name, hues[name], dash) for name, dash in palette.dashes(chart.implementations).items()),
        sections=tuple(sections),
        figures=kernel_tables.rows(chart.figures, lambda sha: pages.commit_line(found.commits[sha])),
        source=_source(chart.kernel, versions),
    )


def _first_case(columns: Mapping[SeriesKey, Columns]) -> str:
    """Return the test case measured at most commits, the later of the axis where several are (larger sizes)."""
    lengths: dict[str, int] = {}
    for key, series in columns.items():
        lengths[key.case] = lengths.get(key.case, 0) + int(series.is_measured.sum())
    most = max(lengths.values())
    return [case for case, length in lengths.items() if length == most][-1]


def _section(found: Site, chart: Chart, group: Group) -> Section:
    cases = tuple(dict.fromkeys(key.case for key in group.columns))
    newest = group.shown[group.shown >= group.since][::-1].tolist()
    lines = {place: pages.commit_line(found.commits[found.line[place]]) for place in newest}
    notes = Footnotes()
    tables = []
    for case in cases:
        recent = {key.implementation: rows for key, rows in group.recent.items() if key.case == case}
        tables.append(kernel_tables.table(case, recent, lines, kernel_chart.total(chart, group, case), notes))
    notes.marks((*chart.warnings.get(group.place, ()), *_too_short(chart, group)))
    marks = sorted(_marks(found, chart, group), key=lambda pair: -pair[0])
    return Section(
        place=group.place,
        anchor=group.anchor,
        state=group.state,
        tables=tuple(tables),
        marks=tuple(row for _, row in marks[:MARKS]),
        further_marks=f"the newest {MARKS} of {len(marks):,}" if len(marks) > MARKS else "",
        footnotes=tuple(notes.texts),
    )


def _too_short(chart: Chart, group: Group) -> tuple[str, ...]:
    """Return the warning that no series is long enough for a change point; none where one is."""
    longest = max(int(chart.columns[key].is_measured.sum()) for key in group.columns)
    return too_few(FEWEST_ALONE + 1, "a change point", longest)


def _marks(found: Site, chart: Chart, group: Group) -> Iterator[tuple[int, MarkRow]]:
    """Yield what is marked on the chart of a group, each with its place on the line."""
    for finding in chart.findings:
        shown = [key for key in finding.series if key in group.columns]
        where = {"case": _only(key.case for key in shown), "implementation": _only(key.implementation for key in shown)}
        if shown:
            yield _mark(found, finding.commit, "finding", finding.text, href=finding.href, **where)
    for mark in (*chart.tags, *group.environment):
        yield _mark(found, mark.commit, mark.kind, mark.text)
    for key in group.columns:
        for change in chart.changes[key]:
            text = f"{change.text} ({change.detail})"
            where = {"case": key.case, "implementation": key.implementation}
            yield _mark(found, change.commit, "change point", text, **where)


def _only(names: Iterable[str]) -> str:
    """Return the one name; empty where there are several."""
    known = set(names)
    return known.pop() if len(known) == 1 else ""


def _mark(
    found: Site, commit: str, kind: str, text: str, *, case: str = "", implementation: str = "", href: str = ""
) -> tuple[int, MarkRow]:
    line = pages.commit_line(found.commits[commit])
    row = MarkRow(commit=line, kind=kind, text=text, case=case, implementation=implementation, href=href)
    return found.order[commit], row


def _source(kernel: str, versions: Sequence[Version]) -> Source | None:
    if not versions:
        return None
    lines = [pages.commit_line(version.commit) for version in reversed(versions)]
    labels = [f"{line.short} · {line.date} · {line.subject}" for line in lines]
    shas = [version.commit.sha for version in reversed(versions)]
    return Source(
        data=kernel_source.data_name(kernel),
        files=versions[-1].files,
        versions=tuple(SourceVersion(commit=sha, label=label) for sha, label in zip(shas, labels, strict=True)),
    )
