"""A commit's page: what it measured, against its parent, with its message, author and date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools import pages, trends, units
from tools.measurements import Measurement, Outcome, SeriesKey
from tools.pages import Cell, Footnotes, Place, SiteData
from tools.recorded import Commit
from tools.trends import Point


@dataclass(frozen=True, kw_only=True)
class Row:
    """One implementation and test case."""

    implementation: str
    case: str
    time: str  # with unit; empty where there is none
    adjusted: str  # rate freed of what the machine did in the same rounds; empty where that is not known
    gigabytes: str  # GB/s; empty for a kernel that memory does not bound
    rounds: str
    cell: Cell


@dataclass(frozen=True, kw_only=True)
class Table:
    """One benchmark."""

    kernel: str
    device: str
    state: str
    href: str  # empty where no trend shows the kernel
    left_out: str  # the test cases without a value of any implementation; empty for none
    has_adjusted: bool
    has_gigabytes: bool
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True)
class Section:
    """One machine and environment."""

    place: Place
    lead: str  # what the section's changes are against, or why there are none
    tables: tuple[Table, ...]
    footnotes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CommitPage:
    """The page of a commit."""

    name: str  # file name
    sha: str
    short: str
    subject: str
    body: str  # the rest of the message
    author: str
    date: str
    parents: tuple[tuple[str, str], ...]  # short hash, and its page, empty where it has none
    older: tuple[str, str] | None  # short hash and page of the neighbours that were measured
    newer: tuple[str, str] | None
    sections: tuple[Section, ...]


def build(data: SiteData) -> tuple[CommitPage, ...]:
    """Return the page of every commit that has a measurement and that the repository has."""
    by_commit: dict[str, list[Measurement]] = {}
    for item in data.measurements:
        by_commit.setdefault(item.commit, []).append(item)
    line = sorted(by_commit.keys() & data.order.keys(), key=data.order.__getitem__)
    neighbours = {
        sha: (line[index - 1] if index else None, line[index + 1] if index + 1 < len(line) else None)
        for index, sha in enumerate(line)
    }
    index = {(item.key, item.commit): item for item in data.measurements}
    pages_found = []
    for sha, items in by_commit.items():
        commit = data.history.commits[sha]
        older, newer = neighbours.get(sha, (None, None))
        sections = [_section(data, commit, place, items, index) for place in data.places]
        pages_found.append(_page(commit, by_commit, older, newer, [part for part in sections if part.tables]))
    return tuple(sorted(pages_found, key=lambda page: page.name))


def _page(
    commit: Commit, measured: Mapping[str, object], older: str | None, newer: str | None, sections: Sequence[Section]
) -> CommitPage:
    line = pages.commit_line(commit)
    return CommitPage(
        name=line.href,
        sha=commit.sha,
        short=line.short,
        subject=line.subject,
        body=commit.message.strip().partition("\n")[2].strip("\n"),
        author=commit.author,
        date=f"{commit.date:%Y-%m-%d %H:%M %z}",
        parents=tuple(
            (sha[: pages.SHORT], pages.commit_href(sha) if sha in measured else "") for sha in commit.parents
        ),
        older=_link(older),
        newer=_link(newer),
        sections=tuple(sections),
    )


def _link(sha: str | None) -> tuple[str, str] | None:
    return None if sha is None else (sha[: pages.SHORT], pages.commit_href(sha))


def _section(
    data: SiteData,
    commit: Commit,
    place: Place,
    items: Sequence[Measurement],
    index: Mapping[tuple[SeriesKey, str], Measurement],
) -> Section:
    here = [item for item in items if (item.key.machine, item.key.environment) == (place.machine, place.environment)]
    notes = Footnotes()
    asked = {(item.key.benchmark, item.key.case) for item in here if item.outcome is not Outcome.NOT_APPLICABLE}
    points = [_point(data, commit, item, index) for item in here if (item.key.benchmark, item.key.case) in asked]
    points.sort(key=lambda point: data.place_on_axes(point.measurement.key))
    unasked = sorted(
        (item.key for item in here if (item.key.benchmark, item.key.case) not in asked), key=data.place_on_axes
    )
    tables = []
    for benchmark in sorted({benchmark for benchmark, _ in asked}):
        rows = [point for point in points if point.measurement.key.benchmark == benchmark]
        left_out = dict.fromkeys(key.case for key in unasked if key.benchmark == benchmark)
        tables.append(_table(rows, tuple(left_out), commit, notes, data.kernel_pages))
    return Section(
        place=place,
        lead=_lead(data, commit, points),
        tables=tuple(tables),
        footnotes=tuple(notes.texts),
    )


def _point(
    data: SiteData, commit: Commit, item: Measurement, index: Mapping[tuple[SeriesKey, str], Measurement]
) -> Point:
    """Return a measurement with its change: along the trend, or against its parent for a commit beside the trend."""
    if item.commit in data.order:
        return data.points[item.key, item.commit]
    parent = index.get((item.key, commit.parents[0])) if commit.parents else None
    return Point(measurement=item, change=None if parent is None else trends.compare(item, parent))


def _lead(data: SiteData, commit: Commit, points: Sequence[Point]) -> str:
    beside = "" if commit.sha in data.order else "It is not on the first-parent line of HEAD, so no trend shows it. "
    if points and all(point.measurement.outcome is Outcome.FAILED for point in points):
        return beside + "Nothing could be measured: the commit did not build, or every benchmark failed."
    against = {point.change.against for point in points if point.change is not None}
    if not against:
        return beside + "Nothing was measured before it that it could be compared with."
    if commit.parents and against == {commit.parents[0]}:
        return beside + f"Changes are against its parent {commit.parents[0][: pages.SHORT]}."
    return beside + "Changes are against the commit measured before it, which is not always its parent (footnotes)."


def _table(
    points: Sequence[Point], left_out: Sequence[str], commit: Commit, notes: Footnotes, known: frozenset[str]
) -> Table:
    kernel, device, state = pages.parts(points[0].measurement.key.benchmark)
    href = pages.kernel_href(kernel, device)
    return Table(
        kernel=kernel,
        device=device,
        state=state,
        href=href if href in known else "",
        left_out=f"not measured: {', '.join(left_out)}" if left_out else "",
        has_adjusted=any(point.measurement.adjusted is not None for point in points),
        has_gigabytes=any(point.measurement.gigabytes is not None for point in points),
        rows=tuple(_row(point, commit, notes) for point in points),
    )


def _row(point: Point, commit: Commit, notes: Footnotes) -> Row:
    item = point.measurement
    away = point.change is not None and point.change.against not in commit.parents[:1]
    more = (
        (f"against {point.change.against[: pages.SHORT]}: its parent has no time of it",)
        if point.change and away
        else ()
    )
    return Row(
        implementation=item.key.implementation,
        case=item.key.case,
        time="" if item.seconds is None else units.seconds(item.seconds),
        adjusted=pages.adjusted(item),
        gigabytes="" if item.gigabytes is None else units.gigabytes(item.gigabytes),
        rounds="" if item.rounds is None else str(item.rounds),
        cell=pages.cell(point, notes, more=more, with_time=False),
    )
