"""What is marked on a kernel's chart: change points, findings, tags, changes of the environment. Pure.

A mark names the measured commit that it stands at: the first one, along the first-parent line, that is not before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernel_velocity import units
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.finding import OPEN, Finding, Kind
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.identity import Slot, environment_of
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.series.columns import Columns
from kernel_velocity.stats.changepoints.values import ChangePoint

SHORT = 28  # letters of a label on the chart


@dataclass(frozen=True, kw_only=True)
class ChangeMark:
    """A change point of one series."""

    commit: str
    text: str  # "3.2% faster"
    faster: bool
    detail: str  # interval, detectors, what is doubtful


@dataclass(frozen=True, kw_only=True)
class LineMark:
    """A labelled vertical line: a tag, or what changed of a machine."""

    commit: str
    kind: str  # "tag" or "environment"
    label: str  # on the chart
    text: str  # all of it


@dataclass(frozen=True, kw_only=True)
class FindingMark:
    """A finding at a place of the line."""

    commit: str
    id: str
    kind: str
    state: str
    is_open: bool
    text: str
    href: str
    series: tuple[SeriesKey, ...]  # of the page, that show it


@dataclass(frozen=True, kw_only=True)
class Line:
    """Where marks can stand: the measured commits of the first-parent line, oldest first."""

    commits: tuple[str, ...]
    places: tuple[int, ...]  # on the first-parent line

    def at(self, place: int) -> str | None:
        """Return the first measured commit that is not before a place; None past the newest."""
        index = bisect_left(self.places, place)
        return self.commits[index] if index < len(self.commits) else None


def measured_line(commits: Iterable[str], order: Mapping[str, int]) -> Line:
    """Return where marks can stand; commits beside the first-parent line are left out."""
    kept = tuple(sorted((sha for sha in commits if sha in order), key=order.__getitem__))
    return Line(commits=kept, places=tuple(order[sha] for sha in kept))


def changes(columns: Columns, points: Sequence[ChangePoint], line: Sequence[str]) -> tuple[ChangeMark, ...]:
    """Return the change points of a series; `line` is the first-parent line."""
    return tuple(
        ChangeMark(
            commit=line[columns.place[point.index]],
            text=units.change(1 / point.ratio),  # of speeds
            faster=not point.rises,
            detail="; ".join(
                (
                    f"95% interval {units.change(1 / point.high)} to {units.change(1 / point.low)}",
                    f"found by {', '.join(point.detectors)}",
                    *point.warnings,
                )
            ),
        )
        for point in points
    )


def tags(named: Mapping[str, Sequence[str]], order: Mapping[str, int], line: Line) -> tuple[LineMark, ...]:
    """Return the tags, oldest first, each at the first measured commit that has it behind it."""
    found = sorted((order[sha], name) for sha, names in named.items() if sha in order for name in names)
    return tuple(
        LineMark(commit=commit, kind="tag", label=shortened(name), text=f"tag {name}")
        for place, name in found
        if (commit := line.at(place)) is not None
    )


def shortened(text: str) -> str:
    """Return a label that is no longer than a chart has room for."""
    return text if len(text) <= SHORT else text[: SHORT - 1] + "…"


def environment(sessions: Sequence[tuple[str, SessionFacts]], order: Mapping[str, int]) -> tuple[LineMark, ...]:
    """Return where what is recorded of a machine changed from one measured commit to the next along the line.

    Args:
        sessions: commit and session, of one machine and environment. order: commit -> place on the first-parent line.
    """
    newest = {sha: session for sha, session in sorted(sessions, key=lambda pair: pair[1].began) if sha in order}
    marks, before = [], None
    for sha in sorted(newest, key=order.__getitem__):
        facts = newest[sha].facts
        if changed := session_facts.changes(before, facts):
            said = [f"{name}: {old} → {new}" for name, (old, new) in changed.items()]
            more = f" +{len(said) - 1}" if len(said) > 1 else ""
            name, (_, now) = next(iter(changed.items()))
            label = shortened(f"{name} {now}") + more
            marks.append(LineMark(commit=sha, kind="environment", label=label, text="; ".join(said)))
        before = facts
    return tuple(marks)


def findings(
    known: Iterable[Finding],
    keys: Sequence[SeriesKey],
    places: Mapping[tuple[str, str], Sequence[tuple[str, SessionFacts]]],
    order: Mapping[str, int],
    line: Line,
) -> tuple[FindingMark, ...]:
    """Return the findings that series of a page show, oldest place first.

    Args:
        known: every finding. keys: the page's series.
        places: (machine, environment) -> its sessions, which say when a commit was measured.
        order: commit -> its place on the first-parent line. line: where marks can stand.
    """
    marks = []
    by_slot: dict[Slot, list[SeriesKey]] = defaultdict(list)
    for key in keys:
        by_slot[_slot(key)].append(key)
    for item in known:
        slots = dict.fromkeys(one.identity.slot for one in item.affected)
        shown = tuple(key for slot in slots for key in by_slot.get(slot, ()))
        commit = _commit_of(item, shown, places, order, line) if shown else None
        if commit is not None:
            marks.append(_finding(item, shown, commit))
    return tuple(sorted(marks, key=lambda mark: (order[mark.commit], mark.id)))


def _slot(key: SeriesKey) -> Slot:
    environment = environment_of(key.environment, key.implementation)
    return key.machine, environment, key.benchmark, key.implementation, key.case


def _commit_of(
    item: Finding,
    shown: Sequence[SeriesKey],
    places: Mapping[tuple[str, str], Sequence[tuple[str, SessionFacts]]],
    order: Mapping[str, int],
    line: Line,
) -> str | None:
    """Return where a finding stands: at its newest candidate; of an environment, at what was measured first in it."""
    candidates = [order[sha] for sha in item.commits if sha in order]
    if candidates:
        return line.at(max(candidates))
    if item.commits:
        return None  # on another line
    here = {(key.machine, key.environment) for key in shown}
    return _measured_at(item.found.timestamp(), [pair for place in here for pair in places.get(place, ())], order)


def _measured_at(when: float, sessions: Iterable[tuple[str, SessionFacts]], order: Mapping[str, int]) -> str | None:
    """Return the oldest commit of the session that ran at a Unix time, s; None where no session had begun."""
    first: dict[str, float] = {}
    for sha, session in sessions:
        if sha in order:
            first[sha] = min(session.began, first.get(sha, session.began))
    begun = [began for began in first.values() if began < when + 1]  # a finding's time has whole seconds
    if not begun:
        return None
    return min((sha for sha, began in first.items() if began == max(begun)), key=order.__getitem__)


def _finding(item: Finding, shown: tuple[SeriesKey, ...], commit: str) -> FindingMark:
    blamed = "" if item.kind is Kind.ENVIRONMENT else f" by {finding_text.blamed(item)}"
    return FindingMark(
        commit=commit,
        id=item.id,
        kind=item.kind.value,
        state=item.state.value,
        is_open=item.state in OPEN,
        text=f"{item.kind.value}, {item.state.value}: {finding_text.headline(item)}{blamed}",
        href=f"finding-{item.id}.html",
        series=shown,
    )
