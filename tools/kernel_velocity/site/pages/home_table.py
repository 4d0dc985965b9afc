"""The home page's table: a row for every test case of an implementation that commits can change, and its changes.

A row shows the newest time, how much of its own limit that reaches, how many times as fast it is as torch.compile, and
what it did over the last RECENT commits, 7 days, and since the last tag (verdict/verdicts.py). Days are counted between
commits, not by a clock, so pages that are made twice from the same results are the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from kernel_velocity import units
from kernel_velocity.findings.finding import OPEN, Finding, finding_href
from kernel_velocity.findings.today import is_told_by
from kernel_velocity.names import CONTROLS
from kernel_velocity.past.columns import Columns, comparable
from kernel_velocity.results import identity
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import OUTCOMES, Outcome, SeriesKey, round_counts
from kernel_velocity.results.records import Commit, name_parts
from kernel_velocity.roofline import model
from kernel_velocity.roofline.model import Roofline
from kernel_velocity.roofline.roofs import Choice
from kernel_velocity.site import text
from kernel_velocity.site.charts import plot
from kernel_velocity.site.model import Site, below
from kernel_velocity.site.text import Cell, CommitLine, Footnotes, Platform
from kernel_velocity.verdict import verdicts
from kernel_velocity.verdict.silence import DAY
from kernel_velocity.verdict.verdicts import Change, Verdict, Word, lasted

RECENT = 25  # measured commits of a machine that the headline is about
WEEK = 7  # days
NO_TAG = -1
FASTEST = "compile"  # the implementation of PyTorch that speed-ups are against
MOST_CASES = 3  # named on a card
NO_BYTES = "benchmarks.json has no bytes per call, or no ceiling for it was measured"
_FAILED, _NOT_APPLICABLE = OUTCOMES.index(Outcome.FAILED), OUTCOMES.index(Outcome.NOT_APPLICABLE)
_ORDER = (Word.SLOWER, Word.FASTER, Word.HIGHER, Word.LOWER, Word.UNDECIDED, Word.UNCHANGED)


class Stretch(NamedTuple):
    """A stretch of a machine's history, up to its newest commit."""

    name: str  # "last 25 commits", "7 days", "since v1.2"
    position: int  # on the first-parent line, that values are compared with; negative: nothing that old was measured


@dataclass(frozen=True, kw_only=True)
class Event:
    """A change of one series that a commit is blamed for, with its end where it has one."""

    key: SeriesKey
    change: Change
    verdict: Verdict  # of its first step alone
    position: int  # on the first-parent line, of the commit that shows it first
    end: int | None  # position of the commit that shows its end first; None: it lasts
    finding: Finding | None  # that names the series and the commit


@dataclass(frozen=True, kw_only=True)
class SeriesRow:
    """A series with its newest result."""

    key: SeriesKey
    columns: Columns
    entry: int | None  # of its newest time; None: it has none
    is_failed: bool  # whether the newest result is a failure
    verdicts: tuple[Verdict | None, ...]  # over the spans; None: nothing to compare with
    share: Roofline | None
    lacking: str  # why there is no share; "" where there is one, or nothing to have one of
    speedup: float | None  # over FASTEST: 2.0 is twice as fast

    @property
    def rank(self) -> tuple[bool, int, float]:
        """A sort key: failures, then what became slower, faster, undecided, unchanged, the largest change first."""
        verdict = next(iter(self.verdicts), None)
        if verdict is None:
            return not self.is_failed, len(_ORDER), 0.0
        return not self.is_failed, _ORDER.index(verdict.word), -abs(verdict.effect)


@dataclass(frozen=True)
class SeriesTable:
    """The rows of a machine and environment, worst first."""

    site: Site
    platform: Platform

    @cached_property
    def keys(self) -> tuple[SeriesKey, ...]:
        """The series that commits can change."""
        keys = self.site.keys_at(self.platform)
        return tuple(key for key in keys if key.implementation not in CONTROLS and self.site.series(key).has_answer)

    @cached_property
    def measured(self) -> list[int]:
        """The positions on the first-parent line at which a series applied, ascending."""
        positions = np.zeros(len(self.site.line), np.bool_)
        for key in self.keys:
            columns = self.site.series(key)
            positions[columns.position[columns.outcome != _NOT_APPLICABLE]] = True
        return [int(position) for position in np.flatnonzero(positions)]

    @cached_property
    def spans(self) -> tuple[Stretch, ...]:
        """What the columns of changes show."""
        measured = self.measured
        if not measured:
            return ()
        earlier, newest = measured[:-1], measured[-1]
        window = earlier[-RECENT:][:1]
        ago = self._committed(newest) - WEEK * DAY
        week = next((position for position in reversed(earlier) if self._committed(position) <= ago), NO_TAG)
        # a tag of the newest commit itself has nothing behind it
        tag = max((position for sha in self.site.tags if (position := self.site.order[sha]) < newest), default=NO_TAG)
        since = "since the first" if tag == NO_TAG else f"since {', '.join(self.site.tags[self.site.line[tag]])}"
        first = earlier[0] if len(earlier) > RECENT else NO_TAG  # else the first column says it
        count = min(len(earlier), RECENT)
        return (
            Stretch(
                f"last {units.count(count, 'commit')}" if count else "first commit", window[0] if window else NO_TAG
            ),
            Stretch(units.count(WEEK, "day"), week),
            Stretch(since, first if tag == NO_TAG else tag if earlier and tag >= earlier[0] else NO_TAG),
        )

    def _committed(self, position: int) -> float:
        """Return when the commit at a position on the line was committed, Unix time, s."""
        return self.site.commits[self.site.line[position]].committed.timestamp()

    @cached_property
    def rows(self) -> tuple[SeriesRow, ...]:
        """All rows, worst first."""
        return tuple(sorted(map(self.row, self.keys), key=lambda row: row.rank))

    def row(self, key: SeriesKey) -> SeriesRow:
        """Return the row of one of the series."""
        columns = self.site.series(key)
        measured = np.flatnonzero(columns.is_measured)
        applied = np.flatnonzero(columns.outcome != _NOT_APPLICABLE)
        entry = int(measured[-1]) if measured.size else None
        device = name_parts(key.benchmark).device
        commit = None if entry is None else self.site.line[columns.position[entry]]
        choice = self.site.roof_choice(self.platform, device, commit) if device else Choice(roofs=None)
        share = None if entry is None else below(columns, float(columns.seconds[entry]), choice.roofs)
        is_explained = share is not None or not device or entry is None
        return SeriesRow(
            key=key,
            columns=columns,
            entry=entry,
            is_failed=bool(applied.size and columns.outcome[applied[-1]] == _FAILED),
            verdicts=tuple(self._since(columns, entry, span) for span in self.spans),
            share=share,
            lacking=""
            if is_explained
            else f"{choice.lacking} (kv peaks measures them)"
            if choice.lacking
            else NO_BYTES,
            speedup=self._speedup(columns, entry),
        )

    def _since(self, columns: Columns, entry: int | None, span: Stretch) -> Verdict | None:
        if entry is None or span.position < 0:
            return None
        alike = np.flatnonzero(comparable(columns, int(columns.method[entry])))
        before = alike[columns.position[alike] <= span.position]
        if not before.size or before[-1] >= entry:
            return None
        base = int(before[-1])
        if min(columns.seconds[base], columns.seconds[entry]) < 0:  # of another suite: levels say nothing of it
            return verdicts.of_constants(columns, alike, base, entry)
        return self.site.levels[columns.key].between(base, entry)

    def _speedup(self, columns: Columns, entry: int | None) -> float | None:
        """Return how many times as fast a series is as FASTEST, of times of one commit. None where one has none."""
        key = columns.key
        other = self._controls.get((key.benchmark, key.case))
        if entry is None or other is None:
            return None
        beside = other.entry(int(columns.position[entry]))
        if beside is None or not other.is_measured[beside]:
            return None
        return float(other.seconds[beside] / columns.seconds[entry])

    @cached_property
    def _controls(self) -> Mapping[tuple[str, str], Columns]:
        keys = self.site.keys_at(self.platform)
        return {(key.benchmark, key.case): self.site.series(key) for key in keys if key.implementation == FASTEST}

    def others(self, row: SeriesRow) -> Iterator[tuple[SeriesKey, float]]:
        """Yield PyTorch's implementations of a row's test case with their newest times, s."""
        for key in self.site.keys_at(self.platform, row.key.benchmark):
            if key.case == row.key.case and key.implementation in CONTROLS:
                columns = self.site.series(key)
                measured = np.flatnonzero(columns.is_measured)
                if measured.size:
                    yield key, float(columns.seconds[measured[-1]])

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The changes that begin or end within the first span, by series."""
        since = self.spans[0].position if self.spans else 0
        return tuple(event for row in self.rows for event in self._events(row, since))

    def _events(self, row: SeriesRow, since: int) -> Iterator[Event]:
        for change in self.site.levels[row.key].changes:
            position = int(row.columns.position[change.point.index])
            end = None if change.end is None else int(row.columns.position[change.end.index])
            if max(position, end or 0) > since:
                findings = self._findings.get((identity.of(row.key, None).slot, change.point.rises), ())
                yield Event(
                    key=row.key,
                    change=change,
                    verdict=verdicts.of_step(change.point, row.columns.better),
                    position=position,
                    end=end,
                    finding=next((of for of in findings if is_told_by(of, change, self.site.line[position])), None),
                )

    @cached_property
    def _findings(self) -> Mapping[tuple[identity.Slot, bool], list[Finding]]:
        findings: dict[tuple[identity.Slot, bool], list[Finding]] = {}
        for finding in self.site.findings:
            for affected in finding.affected:
                findings.setdefault((affected.identity.slot, affected.effect > 0), []).append(finding)
        return findings


def grouped(events: Sequence[Event]) -> list[list[Event]]:
    """Return events in groups of the same commits, kernel and direction: lasting ones and slower ones first."""

    def same(event: Event) -> tuple[Any, ...]:
        kernel, device, state = name_parts(event.key.benchmark)
        where = (event.key.machine, event.key.environment, kernel, device, state, event.key.implementation)
        ends = (event.position, event.end or 0, event.change.is_back)
        return (event.end is not None, _ORDER.index(event.verdict.word), *where, *ends)

    groups = [
        list(group) for _, group in groupby(sorted(events, key=lambda event: (same(event), _size(event))), key=same)
    ]

    def urgency(event: Event) -> tuple[bool, int, float]:
        return event.end is not None, _ORDER.index(event.verdict.word), _size(event)

    return sorted(groups, key=lambda group: urgency(group[0]))


def _size(event: Event) -> float:
    """Return a sort key: the largest step first."""
    return -abs(event.verdict.effect)


def card(site: Site, group: Sequence[Event], commit: Commit, *, has_chart: bool) -> dict[str, Any]:
    """Return what the template shows of a group of events: its largest, and the others by name."""
    event = group[0]
    columns = site.series(event.key)
    kernel, device, state = name_parts(event.key.benchmark)
    point, unit = event.change.point, columns.unit
    change = text.verdict_cell(event.verdict, unit)
    before, after = (math.exp(level) for level in (point.before, point.after))
    finding = next((event.finding for event in group if event.finding is not None), None)
    return {
        "name": kernel if device else event.key.benchmark,
        "where": " · ".join(filter(None, (device, device and state, event.key.implementation, event.key.machine))),
        "case": event.key.case,
        "href": text.trend_href(event.key),
        "change": change.text,
        "tone": change.tone,
        "lasted": lasted(event.change, columns, site.line),
        "chart": sparkline(columns, point.index, change.tone, plot.SPARK_WIDE) if has_chart else "",
        "commit": site.cause(event.change.commits, text.causes_href(commit)),
        "back": _back(site, event),
        "narrow": site.narrowing(event.key, event.change.commits, rises=point.rises),
        "times": f"{units.value(before, unit)} → {units.value(after, unit)}",
        "margin": change.detail,
        "others": [
            f"{event.key.case} {text.verdict(event.verdict, unit)}"
            for event in group[1 : MOST_CASES + 1]
        ],
        "further": max(len(group) - 1 - MOST_CASES, 0),
        "finding": None if finding is None else (finding_href(finding.id), finding.state.value, finding.state in OPEN),
        "diff": site.cause_url(event.change.commits),
        "data": {
            "kernel": kernel, "device": device, "state": state, "implementation": event.key.implementation,
            "machine": event.key.machine, "environment": event.key.environment, "commit": commit.sha,
            "cases": {event.key.case: as_data(event.verdict) for event in group},
            "is_over": event.end is not None, "values": event.change.values, "end": _end(site, event),
            "finding": finding and finding.id,
            "good": event.change.commits.good, "bad": event.change.commits.bad,
            "candidates": event.change.commits.commits,
        },
    }  # fmt: skip


def _back(site: Site, event: Event) -> CommitLine | None:
    """Return what ended an event, where that is another commit than the one that shows it."""
    commits = event.change.end_commits
    if event.end is None or commits is None or commits.commits == (site.line[event.end],):
        return None
    return site.cause(commits, text.causes_href(site.commits[site.line[event.end]]))


def _end(site: Site, event: Event) -> dict[str, Any] | None:
    """Return the end of an event as data. None: it lasts."""
    commits = event.change.end_commits
    if event.end is None or commits is None:
        return None
    return {
        "commit": site.line[event.end],
        "is_back": event.change.is_back,
        "good": commits.good,
        "bad": commits.bad,
        "candidates": commits.commits,
    }


def sparkline(columns: Columns, marked: int | None = None, tone: str = "", width: int = plot.SPARK_WIDTH) -> Markup:
    """Return the small trend of a series' rates, of its values where it has no rates. An entry can be marked."""
    entries = np.flatnonzero(columns.is_measured)
    values = columns.seconds[entries] if columns.flop is None else columns.gflops[entries]
    at = None if marked is None else int(np.searchsorted(entries, marked))
    return plot.trend(values.tolist(), text.unit_of(columns), marked=at, tone=tone, width=width)


def headline(table: SeriesTable, row: SeriesRow) -> list[str]:
    """Return a row in words: time, rate, share of the limit, against FASTEST."""
    now = _time(table, row, Footnotes())
    return [
        *filter(None, (now.text, now.detail)),
        *([] if row.share is None else [f"{model.percent(row.share.of_limit)} of {row.share.limit}"]),
        *([] if row.speedup is None else [f"{units.significant(row.speedup)}{units.MULTIPLE} {FASTEST}"]),
    ]


def last_change(table: SeriesTable, row: SeriesRow) -> tuple[Cell, CommitLine] | None:
    """Return the newest event of a row that a commit is blamed for, in words, and its cause. None without one."""
    site, columns, changes = table.site, row.columns, table.site.levels[row.key].changes
    if not changes:
        return None
    change = max(changes, key=lambda change: (change.end or change.point).index)
    cell = text.verdict_cell(verdicts.of_step(change.point, columns.better), columns.unit)
    listed = text.causes_href(site.commits[site.line[columns.position[change.point.index]]])
    return replace(cell, change=lasted(change, columns, site.line)), site.cause(change.commits, listed)


def line(table: SeriesTable, row: SeriesRow, notes: Footnotes) -> dict[str, Any]:
    """Return what the template shows of a row."""
    key, columns = row.key, row.columns
    levels = table.site.levels[key]
    since = table.spans[0].position if table.spans else NO_TAG
    steps = [point for point in levels.points if point.is_blamed and columns.position[point.index] > since]
    step = max(steps, key=lambda point: abs(point.after - point.before), default=None)
    mark = () if step is None else (step.index, text.tone(verdicts.of_step(step, columns.better).word))
    names = text.names_of(key)
    return names | {
        "href": text.trend_href(key),
        "search": " ".join(names.values()).lower(),
        "time": _time(table, row, notes),
        "share": _share(row, notes),
        "lacking": row.lacking,
        "speedup": "" if row.speedup is None else f"{units.significant(row.speedup)}{units.MULTIPLE}",
        "changes": [text.verdict_cell(verdict, columns.unit) for verdict in row.verdicts],
        "sparkline": sparkline(columns, *mark),
        "others": [(other.implementation, units.value(seconds, columns.unit)) for other, seconds in table.others(row)],
        "order": " ".join(_order(row)),
        "data": _data(table, row),
    }


def _time(table: SeriesTable, row: SeriesRow, notes: Footnotes) -> Cell:
    columns, entry = row.columns, row.entry
    if row.is_failed or entry is None:
        outcome = Outcome.FAILED if row.is_failed else Outcome.NOT_APPLICABLE
        applied = np.flatnonzero(columns.outcome == OUTCOMES.index(outcome))
        why = text.why(outcome, columns.reasons.get(int(applied[-1])) if applied.size else None)
        return Cell(text=outcome.value, tone=outcome.value, marks=notes.marks([why]))
    rounds, position = int(columns.rounds[entry]), int(columns.position[entry])
    remarks = list(columns.warnings.get(entry, ()))
    if position != table.measured[-1]:
        remarks.append(f"measured last at {table.site.line[position][:SHORT]}")
    if rounds >= 0:
        remarks += round_counts(rounds, columns.measurement(entry, table.site.line).interval)
    seconds = float(columns.seconds[entry])
    rate = "" if columns.flop is None else units.rate(columns.flop / seconds / 1e9, columns.key.rate_unit)
    return Cell(text=units.value(seconds, columns.unit), detail=rate, marks=notes.marks(remarks))


def _share(row: SeriesRow, notes: Footnotes) -> tuple[int, str, str, tuple[int, ...]] | None:
    """Return the length of the bar (of 60), the share of the limit, its name, footnotes. None where it is unknown."""
    if row.share is None:
        return None
    share = row.share.of_limit
    return round(60 * min(share, 1.0)), model.percent(share), row.share.limit, notes.marks(model.remarks(row.share))


def _order(row: SeriesRow) -> Iterator[str]:
    """Yield the numbers by which the columns are sorted. An empty place in a table sorts last."""
    seconds = math.nan if row.entry is None else float(row.columns.seconds[row.entry])
    share = math.nan if row.share is None else row.share.of_limit
    logs = (math.nan if verdict is None else verdict.effect for verdict in row.verdicts)
    for number in (seconds, share, math.nan if row.speedup is None else row.speedup, *logs):
        yield f"{number:.6g}".replace("inf", "Infinity")


def _data(table: SeriesTable, row: SeriesRow) -> dict[str, Any]:
    """Return a row as data: times in s, shares as fractions, changes as ratios of times, new / old."""
    key, entry = row.key, row.entry
    return text.names_of(key) | {
        "commit": None if entry is None else table.site.line[row.columns.position[entry]],
        "value": None if entry is None else float(row.columns.seconds[entry]),
        "unit": row.columns.unit,
        "better": row.columns.better,
        "of_limit": None if row.share is None else row.share.of_limit,
        "limit": None if row.share is None else row.share.limit,
        "speedup": row.speedup,
        "changes": [
            None if verdict is None else {"since": span.name, **as_data(verdict)}
            for span, verdict in zip(table.spans, row.verdicts, strict=True)
        ],
    }


def as_data(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as data."""
    figures = {name: getattr(verdict, name) for name in ("ratio", "low", "high", "within")}
    ends = {} if verdict.ends is None else {"ends": verdict.ends}
    recorded = {name: value for name, value in figures.items() if not math.isnan(value)}
    return {"verdict": verdict.word.value, **recorded, **ends}
