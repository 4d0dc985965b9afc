"""The tables of a commit's page as ready strings: what is sure or distinct first, the rest folded by benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlencode

from tools import commit_values, finding_text, pages, series_identity, units
from tools.commit_values import Value
from tools.finding import Affected, Finding, State
from tools.measurements import Outcome
from tools.pages import Cell, Footnotes
from tools.recorded import Commit
from tools.series_identity import Slot
from tools.trends import Change, Point

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

    def is_first(self, item: Value) -> bool:
        """Return whether a row stands in the table of what changed."""
        return item.is_changed or self._found(item) is not None

    def rank(self, item: Value) -> tuple[int, float]:
        """Return a sort key: what a finding says first, the surest of them; then the largest change."""
        found = self._found(item)
        if found is None:
            return len(_SURE) + 1, -commit_values.effect(item)
        state = found[0].state
        return _SURE.index(state) if state in _SURE else len(_SURE), -abs(found[1].effect)

    def _found(self, item: Value) -> tuple[Finding, Affected] | None:
        return self.findings.get(series_identity.of(item.key, None).slot) if self.findings else None

    def row(self, item: Value) -> Row:
        """Return the row of a series."""
        measured, key = item.measurement, item.measurement.key
        kernel, device, state = pages.parts(key.benchmark)
        found = self._found(item)
        return Row(
            machine=key.machine,
            kernel=kernel,
            device=device,
            state=state,
            href=self._href(kernel, device, pages.trend_href(key)),
            implementation=key.implementation,
            case=key.case,
            evidence=self._evidence(item),
            cell=pages.cell(Point(measurement=measured, change=item.before), self.notes, more=self._away(item.before)),
            adjusted=pages.adjusted(measured),
            tag=_change(item.tag),
            best=_change(item.best),
            finding="" if found is None else f"{found[0].state.value}: {finding_text.effect(found[1])}",
            finding_href="" if found is None else pages.finding_href(found[0].id),
        )

    def _href(self, kernel: str, device: str, href: str) -> str:
        """Return an address on a kernel's page; "" where there is no such page."""
        return href if pages.kernel_href(kernel, device) in self.known else ""

    def _evidence(self, item: Value) -> str:
        if item.outcome is Outcome.NOT_APPLICABLE:
            return ""
        return f"measurement.html#commit={self.commit.sha}&series={item.name}"

    def _away(self, change: Change | None) -> Sequence[str]:
        """Return a footnote where a change is not against the parent."""
        if change is None or change.against in self.commit.parents[:1]:
            return ()
        return (f"against {change.against[: pages.SHORT]}: its parent has no time of it",)

    def folds(self, items: Sequence[Value], *, on_line: bool) -> tuple[Fold, ...]:
        """Return rows by benchmark, in the order given; more than HELD_UP_TO only of a commit beside the line."""
        grouped: dict[str, list[Value]] = {}
        for item in items:
            grouped.setdefault(item.key.benchmark, []).append(item)
        is_open, is_held = len(items) <= OPEN_UP_TO, len(items) <= HELD_UP_TO or not on_line
        return tuple(
            self._fold(benchmark, group, is_open=is_open, is_held=is_held) for benchmark, group in grouped.items()
        )

    def _fold(self, benchmark: str, items: Sequence[Value], *, is_open: bool, is_held: bool) -> Fold:
        kernel, device, state = pages.parts(benchmark)
        group = items[0].key
        place = {"machine": group.machine, "environment": group.environment}
        return Fold(
            kernel=kernel,
            device=device,
            state=state,
            href=self._href(kernel, device, pages.kernel_href(kernel, device, state=state, **place)),
            count=len(items),
            rows=tuple(self._quiet(item) for item in items) if is_held else (),
            values="" if is_held else self._compared(items[0], kernel, device),
            is_open=is_open,
        )

    def _compared(self, item: Value, kernel: str, device: str) -> str:
        """Return where a kernel's values are compared with those before, as html_templates/static/versus_choice.js."""
        before = {} if item.against is None else {"a": item.against[:LINK_DIGITS]}
        place = {"am": item.key.machine, "ae": item.key.environment}
        said = {"kernel": f"{kernel} {device}", **before, **place, "b": self.commit.sha[:LINK_DIGITS]}
        return f"compare.html#{urlencode(said, errors='replace')}"

    def _quiet(self, item: Value) -> Quiet:
        seconds, before = item.seconds, item.before
        if seconds is None:
            measured = item.measurement
            speed, notes = measured.outcome.value, (pages.why(measured), *measured.warnings)
        else:
            speed = units.seconds(seconds) if item.flop is None else units.gflops(item.flop / seconds / 1e9)
            notes = (*item.warnings, *self._away(before))
        return Quiet(
            implementation=item.key.implementation,
            case=item.key.case,
            evidence=self._evidence(item),
            speed=speed,
            before=pages.change(before),
            tag=pages.change(item.tag),
            best=pages.change(item.best),
            marks=self.notes.marks(notes) if notes else (),
        )


def _change(change: Change | None) -> Cell:
    """Return a change against a commit that is named in it."""
    if change is None:
        return pages.absent()
    return Cell(text=pages.change(change), detail=change.against[: pages.SHORT], tone=pages.tone(change))
