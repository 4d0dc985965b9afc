"""The tables of a commit's page as ready strings: what is sure or distinct first, the rest folded by benchmark."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple
from urllib.parse import quote_plus

import numpy as np

from kernel_velocity.findings import finding as findings_finding
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.finding import Affected, Finding, State
from kernel_velocity.results import identity
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.identity import Slot
from kernel_velocity.results.measurement import OUTCOMES, IntArray, SeriesKey
from kernel_velocity.results.records import Commit
from kernel_velocity.series.changes import NONE, Truth
from kernel_velocity.site import cells as result_texts
from kernel_velocity.site import text as pages
from kernel_velocity.site.cells import Figures
from kernel_velocity.site.outputs import series_name
from kernel_velocity.site.pages.commit_values import MEASURED, NOT_APPLICABLE, Against, Group, Values
from kernel_velocity.site.text import Cell, Footnotes

OPEN_UP_TO = 20  # rows: a fold of no more is open from the start
# Rows without a distinct change that a page of a commit on the line holds. With more, it names their numbers, and
# links to where the reader's machine compares them: a site of 500 commits by 1000 series would hold half a million.
HELD_UP_TO = 100
LINK_DIGITS = 12  # of a hash in a link to the page that compares two commits
_SURE = (State.CONFIRMED, State.EXPECTED, State.ACKNOWLEDGED, State.SUSPECT, State.NEW)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One series."""

    machine: str
    kernel: str
    device: str
    state: str
    href: str  # of the kernel's page; empty where no trend shows it
    implementation: str
    case: str
    evidence: str  # the page of how this number came to be; empty where there is none
    cell: Cell  # speed, and its change against the commit before
    adjusted: str  # rate freed of what the machine did in the same rounds; empty where that is not known
    tag: Cell  # change against the last tag before it
    best: Cell  # change against the fastest value before it
    finding: str  # what was found of it: "confirmed: time +3.00%"; empty for nothing
    finding_href: str


class Quiet(NamedTuple):
    """One series that did not change: a page has thousands of these."""

    implementation: str
    case: str
    evidence: str  # as of a Row
    speed: str  # or "n/a", "failed"
    before: str
    tag: str
    best: str
    marks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Fold:
    """The rows of a benchmark that did not change."""

    kernel: str
    device: str
    state: str
    href: str  # of the kernel's page; empty where no trend shows it
    count: int
    said: str  # "3 without a distinct change, 2 n/a"
    rows: tuple[Quiet, ...]  # none where the page would hold too many
    values: str  # where they are compared instead; empty where the rows are here
    is_open: bool


@dataclass(frozen=True, kw_only=True)
class RowMaker:
    """Makes the rows of one commit's page, whose footnotes are numbered together."""

    commit: Commit
    findings: Mapping[Slot, tuple[Finding, Affected]]  # that name the commit, by the series that show them
    known: frozenset[str]  # the kernels' pages
    notes: Footnotes = field(default_factory=Footnotes)

    def is_first(self, values: Values) -> Truth:
        """Return which rows stand in the table of what changed."""
        if not self.findings:
            return values.changed
        return values.changed | np.array([self._found(key) is not None for key in values.keys], np.bool_)

    def _found(self, key: SeriesKey) -> tuple[Finding, Affected] | None:
        return self.findings.get(identity.of(key, None).slot) if self.findings else None

    def finding_of(self, key: SeriesKey) -> str | None:
        """Return the id of the finding that a series shows; None for none."""
        found = self._found(key)
        return None if found is None else found[0].id

    def ordered(self, values: Values) -> Values:
        """Return what changed in order: what a finding says first, the surest of them; then the largest change."""
        ranks = [
            self._rank(*each)
            for each in zip(
                values.keys,
                values.outcome.tolist(),
                values.changed.tolist(),
                values.before.ratio.tolist(),
                strict=True,
            )
        ]
        return values[np.array(sorted(range(len(values)), key=ranks.__getitem__), np.intp)]

    def rows(self, values: Values) -> tuple[Row, ...]:
        """Return the rows of what changed, in order."""
        shown = self.ordered(values)
        cells = self._cells(shown)
        adjusted = _rates(shown, "adjusted")
        changes = zip(_changes(shown, shown.tag), _changes(shown, shown.best), strict=True)
        told = zip(shown.keys, self._evidence(shown), cells, adjusted, changes, strict=True)
        return tuple(self._row(*each) for each in told)

    def _rank(self, key: SeriesKey, outcome: int, changed: bool, ratio: float) -> tuple[int, float]:
        """Return a sort key; what is gone changed most."""
        found = self._found(key)
        if found is not None:
            state = found[0].state
            return _SURE.index(state) if state in _SURE else len(_SURE), -abs(found[1].effect)
        if outcome != MEASURED:
            return len(_SURE) + 1, -math.inf if changed else 0.0
        return len(_SURE) + 1, 0.0 if math.isnan(ratio) else -abs(math.log(ratio))

    def _row(self, key: SeriesKey, evidence: str, cell: Cell, adjusted: str, changes: tuple[Cell, Cell]) -> Row:
        kernel, device, state = pages.parts(key.benchmark)
        found = self._found(key)
        return Row(
            machine=key.machine,
            kernel=kernel,
            device=device,
            state=state,
            href=self._href(kernel, device, pages.trend_href(key)),
            implementation=key.implementation,
            case=key.case,
            evidence=evidence,
            cell=cell,
            adjusted=adjusted,
            tag=changes[0],
            best=changes[1],
            finding="" if found is None else f"{found[0].state.value}: {finding_text.effect(found[1])}",
            finding_href="" if found is None else findings_finding.finding_href(found[0].id),
        )

    def _cells(self, values: Values) -> Iterator[Cell]:
        """Yield speeds with their changes against the commit before."""
        for texts, marks in zip(result_texts.cells(_figures(values)), self._marks(values), strict=True):
            text, detail, change, tone = texts
            yield Cell(text=text, detail=detail, change=change, tone=tone, marks=marks)

    def _marks(self, values: Values) -> Iterator[tuple[int, ...]]:
        """Yield the numbers of the footnotes: of remarks, and where a change is not against the parent."""
        rows = zip(values.outcome.tolist(), values.remarks, values.before.other.tolist(), strict=True)
        for outcome, (reason, warnings), other in rows:
            remarks = pages.remarks(OUTCOMES[outcome], reason, warnings)
            if other != NONE and values.others[other] not in self.commit.parents[:1]:
                remarks += (f"against {values.others[other][:SHORT]}: its parent has no time of it",)
            yield self.notes.marks(remarks)

    def _href(self, kernel: str, device: str, href: str) -> str:
        """Return an address on a kernel's page; "" where there is no such page."""
        return href if pages.kernel_href(kernel, device) in self.known else ""

    def _evidence(self, values: Values) -> list[str]:
        """Return where it is told how each number came to be; "" for n/a."""
        start = f"measurement.html#commit={self.commit.sha}&series="
        pairs = zip(values.keys, values.outcome.tolist(), strict=True)
        return ["" if outcome == NOT_APPLICABLE else start + series_name(key) for key, outcome in pairs]

    def folds(self, values: Values, *, on_line: bool) -> tuple[Fold, ...]:
        """Return rows by benchmark, in the series' order; more than HELD_UP_TO only of a commit beside the line."""
        values = values[np.argsort(values.series.group[values.which], kind="stable")]
        group = values.series.group[values.which]
        found = np.unique(group, return_index=True, return_counts=True)
        is_open, is_held = len(values) <= OPEN_UP_TO, len(values) <= HELD_UP_TO or not on_line
        rows = tuple(self._quiet(values)) if is_held else ()
        return tuple(
            self._fold(
                values.series.groups[place],
                _told(values.outcome[start : start + count], values.before.is_known[start : start + count]),
                rows[start : start + count],
                "" if is_held else self._compared(values, start),
                is_open=is_open,
            )
            for place, start, count in zip(*(each.tolist() for each in found), strict=True)
        )

    def _fold(
        self, group: Group, told: tuple[int, str], rows: tuple[Quiet, ...], values: str, *, is_open: bool
    ) -> Fold:
        kernel, device, state = pages.parts(group.benchmark)
        place = {"machine": group.machine, "environment": group.environment}
        return Fold(
            kernel=kernel,
            device=device,
            state=state,
            href=self._href(kernel, device, pages.kernel_href(kernel, device, state=state, **place)),
            count=told[0],
            said=told[1],
            rows=rows,
            values=values,
            is_open=is_open,
        )

    def _compared(self, values: Values, row: int) -> str:
        """Return where a kernel's values are compared with those before, as html_templates/static/versus_choice.js."""
        group, other = values.series.groups[values.series.group[values.which[row]]], values.before.other[row]
        kernel, device, _ = pages.parts(group.benchmark)
        before = "" if other == NONE else f"&a={values.others[other][:LINK_DIGITS]}"
        place = f"&am={_quoted(group.machine)}&ae={_quoted(group.environment)}"
        return f"compare.html#kernel={_quoted(f'{kernel} {device}')}{before}{place}&b={self.commit.sha[:LINK_DIGITS]}"

    def _quiet(self, values: Values) -> Iterator[Quiet]:
        """Yield the rows of what did not change."""
        speeds = _rates(values, "seconds")
        columns = [result_texts.changes(each.ratio, each.distinct) for each in (values.before, values.tag, values.best)]
        told = zip(values.keys, self._evidence(values), values.outcome.tolist(), speeds, strict=True)
        for each, marks, before, tag, best in zip(told, self._marks(values), *columns, strict=True):
            key, evidence, outcome, speed = each
            said = speed if outcome == MEASURED else OUTCOMES[outcome].value
            yield Quiet(key.implementation, key.case, evidence, said, before, tag, best, marks)


def _told(outcome: IntArray, compared: Truth) -> tuple[int, str]:
    """Return how many values there are, and in words how many of them did not change: n/a is no value."""
    measured, absent = outcome == MEASURED, outcome == NOT_APPLICABLE
    ways = {
        "without a distinct change": measured & compared,
        "with nothing to compare with": measured & ~compared,
        "failed": ~measured & ~absent,
        "n/a": absent,
    }
    counts = {way: int(np.count_nonzero(those)) for way, those in ways.items()}
    return len(outcome), ", ".join(f"{count:,} {way}" for way, count in counts.items() if count)


@cache
def _quoted(text: str) -> str:
    """Return a name as part of an address: of a site's few, each of its pages has all."""
    return quote_plus(text, errors="replace")


def _rates(values: Values, name: str) -> list[str]:
    """Return the rates by the times of a name, one of those of `Values.figure`."""
    series = values.series
    return result_texts.rates(values.figure(name), series.flop[values.which], series.rate_unit[values.which])


def _figures(values: Values) -> Figures:
    """Return values with their changes against the commit before."""
    return Figures(
        outcome=values.outcome,
        seconds=values.figure("seconds"),
        low=values.figure("low"),
        high=values.figure("high"),
        flop=values.series.flop[values.which],
        unit=values.series.rate_unit[values.which],
        ratio=values.before.ratio,
        distinct=values.before.distinct,
    )


def _changes(values: Values, against: Against) -> Iterator[Cell]:
    """Yield changes against commits that are named in them."""
    texts = result_texts.changes(against.ratio, against.distinct)
    tones = result_texts.tones(against.ratio, against.distinct)
    for text, tone, other in zip(texts, tones, against.other.tolist(), strict=True):
        if other == NONE:
            yield pages.absent()
        else:
            yield Cell(text=text, detail=values.others[other][:SHORT], tone=tone)
