"""The home page's grid: every kernel, device, cache state and implementation on a machine, in one row.

What a row says is a mean over the test cases that its newest commit measured; what is missing or old has a footnote.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from benchmarks.harness.statistics import FloatArray
from tools import home_spans, pages, trends, units
from tools.changes_along import NONE
from tools.columns import OUTCOMES, Columns
from tools.home_spans import Span
from tools.measurements import WANTED_ROUNDS, Outcome
from tools.pages import SHORT, CommitLine, Footnotes, Place
from tools.roofline import Roofline, Roofs, percent, roofline
from tools.site import Site
from tools.sparklines import Sparkline, sparkline
from tools.trends import Change

DASH = "–"
LISTED_ROOFS = 6  # kernels named in the line about the roof
NO_RATE = "no GFLOPS: benchmarks.json does not say how many FLOPs a call has"


@dataclass(frozen=True, kw_only=True)
class GridCell:
    """One value of the grid."""

    text: str
    tone: str = ""  # as of pages.Cell
    detail: str = ""
    marks: tuple[int, ...] = ()  # numbers of its footnotes


@dataclass(frozen=True, kw_only=True)
class GridRow:
    """One implementation of a kernel on a device in one cache state."""

    kernel: str
    device: str
    state: str
    implementation: str
    href: str  # of the kernel's page
    sparkline: Sparkline | None
    rate: GridCell
    efficiency: GridCell
    changes: tuple[GridCell, ...]  # one for each span
    figures: Mapping[str, object]  # the same as numbers, for other programs


@dataclass(frozen=True, kw_only=True)
class Grid:
    """One machine and environment."""

    place: Place
    newest: CommitLine | None  # None: nothing of it is on the first-parent line
    spans: tuple[Span, ...]
    rows: tuple[GridRow, ...]
    roof: str  # how far its kernels are from the roof, in a line; empty where nobody knows
    footnotes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Case:
    """One test case of a row: its series and the entry of the row's newest commit; None: not measured there."""

    series: Columns
    entry: int | None


def build(found: Site) -> tuple[Grid, ...]:
    """Return the grid of every machine and environment that has a trend."""
    when = home_spans.dates(found)
    grids = [_grid(found, place, when) for place in found.places]
    return tuple(grid for grid in grids if grid.rows)


def _grid(found: Site, place: Place, when: FloatArray) -> Grid:
    rows: dict[tuple[str, str], list[Columns]] = {}
    for key in found.keys_at(place):
        rows.setdefault((key.benchmark, key.implementation), []).append(found.series(key))
    cases = Counter(benchmark for benchmark, case in {(key.benchmark, key.case) for key in found.keys_at(place)})
    newest = max((at for group in rows.values() if (at := _newest(group)) is not None), default=None)
    every = [series for group in rows.values() for series in group]
    spans = () if newest is None else home_spans.spans(found, when, newest, every)
    devices = {pages.parts(benchmark)[1] for benchmark, _ in rows}
    maker = _RowMaker(
        found=found,
        when=when,
        newest=newest,
        spans=spans,
        roofs={device: found.roofs(place, device) for device in devices},
        notes=Footnotes(),
    )
    made = tuple(maker.row(name, group, cases[name[0]]) for name, group in rows.items())
    return Grid(
        place=place,
        newest=None if newest is None else pages.commit_line(found.commits[found.line[newest]]),
        spans=spans,
        rows=made,
        roof=_roof(made),
        footnotes=tuple(maker.notes.texts),
    )


def _newest(group: Sequence[Columns]) -> int | None:
    """Return the newest place of the line where any of these series applies."""
    places = [series.place[series.outcome != OUTCOMES.index(Outcome.NOT_APPLICABLE)] for series in group]
    return max((int(found[-1]) for found in places if len(found)), default=None)


@dataclass(frozen=True, kw_only=True)
class _RowMaker:
    """Makes the rows of one machine and environment, whose footnotes are numbered together."""

    found: Site
    when: FloatArray  # of home_spans.dates
    newest: int | None  # place of its newest commit on the line
    spans: tuple[Span, ...]
    roofs: Mapping[str, Roofs | None]  # by device
    notes: Footnotes

    def row(self, name: tuple[str, str], group: Sequence[Columns], wanted: int) -> GridRow:
        """Return the row of a benchmark and implementation from its test cases' series.

        Args:
            wanted: how many test cases the benchmark has here, whoever measures them.
        """
        kernel, device, state = pages.parts(name[0])
        at = _newest(group)
        cases = [_Case(series=series, entry=_measured_at(series, at)) for series in group]
        current = [case for case in cases if case.entry is not None]
        roofs = self.roofs[device]
        shares = [None if roofs is None else _placed(case, roofs) for case in current]
        changes = [(span, self._changes(current, span)) for span in self.spans]
        rate = _mean_rate(current)
        return GridRow(
            kernel=kernel,
            device=device,
            state=state,
            implementation=name[1],
            href=pages.kernel_href(kernel, device),
            sparkline=_trend([case.series for case in current]),
            rate=self._rate(cases, at, rate, wanted),
            efficiency=self._efficiency(shares, current, device),
            changes=tuple(self._change(span, items, len(current)) for span, items in changes),
            figures={
                "commit": None if at is None or not current else self.found.line[at],
                "gflops": rate,
                "efficiency": _mean([item.efficiency for item in shares if item is not None]),
                "changes": {span.name: trends.mean_change(items) for span, items in changes},
            },
        )

    def _rate(self, cases: Sequence[_Case], at: int | None, rate: float | None, wanted: int) -> GridCell:
        """Return the mean GFLOPS of the test cases that the newest commit measured, and what to know about it."""
        current = [case for case in cases if case.entry is not None]
        if not current:
            return self._without_time(cases, at)
        notes = [*self._age(at), *self._others(cases, at), *_thin(current)]
        if rate is None:
            notes.append(NO_RATE)
        return GridCell(
            text=DASH if rate is None else units.gflops(rate),
            detail="" if len(current) == wanted else f"of {len(current)} of {units.count(wanted, 'test case')}",
            marks=self.notes.marks(notes),
        )

    def _without_time(self, cases: Sequence[_Case], at: int | None) -> GridCell:
        """Return the cell of a row whose newest commit has no time: every test case failed, or none applies."""
        outcome = Outcome.NOT_APPLICABLE if at is None else Outcome.FAILED
        reasons = [_reason(case.series, case.series.entry(at) if at is not None else None, outcome) for case in cases]
        marks = self.notes.marks([*self._age(at), *(text for text in reasons if text)])
        return GridCell(text=outcome.value, tone=outcome.value, marks=marks)

    def _age(self, at: int | None) -> list[str]:
        return [] if at is None or at == self.newest else [f"measured last at {self._short(at)}"]

    def _others(self, cases: Sequence[_Case], at: int | None) -> list[str]:
        """Return what became of the test cases that the row's newest commit has no time of."""
        said = []
        for case in cases:
            entry = None if at is None else case.series.entry(at)
            name = case.series.key.case
            if case.entry is None and entry is not None and _outcome(case.series, entry) is Outcome.FAILED:
                said.append(f"{name}: {_reason(case.series, entry, Outcome.FAILED)}")
            elif case.entry is None and case.series.is_measured.any():
                last = int(case.series.place[case.series.is_measured][-1])
                said.append(f"{name}: measured last at {self._short(last)}")
        return said

    def _short(self, at: int) -> str:
        return self.found.line[at][:SHORT]

    def _efficiency(self, shares: Sequence[Roofline | None], current: Sequence[_Case], device: str) -> GridCell:
        """Return the mean efficiency of the test cases, or the reason why nobody knows it."""
        known = [item for item in shares if item is not None]
        if not current:
            return GridCell(text=DASH, tone="absent")
        if self.roofs[device] is None:
            why = f"no efficiency: no ceilings of its {device} are recorded (`make track` measures them)"
            return GridCell(text=DASH, tone="absent", marks=self.notes.marks([why]))
        if not known:
            why = "no efficiency: benchmarks.json does not say how many bytes a call moves, or no roof of it is known"
            return GridCell(text=DASH, tone="absent", marks=self.notes.marks([why]))
        marks = self.notes.marks([text for item in known for text in item.warnings])
        detail = "" if len(known) == len(current) else f"of {len(known)} of {units.count(len(current), 'test case')}"
        return GridCell(text=percent(statistics.fmean(item.efficiency for item in known)), detail=detail, marks=marks)

    def _changes(self, current: Sequence[_Case], span: Span) -> list[Change]:
        return [
            change
            for case in current
            if case.entry is not None
            and (change := home_spans.change(self.found, self.when, case.series, case.entry, span))
        ]

    def _change(self, span: Span, items: Sequence[Change], wanted: int) -> GridCell:
        """Return the mean change over a span; what it is against has a footnote where other rows have another."""
        ratio = trends.mean_change(items)
        if ratio is None:
            return GridCell(text=DASH, tone="absent")
        others = sorted({item.against for item in items} - {span.base}, key=self.found.order.__getitem__)
        notes = [f"{span.name}: against {', '.join(sha[:SHORT] for sha in others)}"] if others else []
        notes += [f"change of {len(items)} of {units.count(wanted, 'test case')}"] if len(items) < wanted else []
        mean = Change(ratio=ratio, against="", overlapping=not all(item.is_distinct for item in items))
        return GridCell(text=pages.change(mean), tone=pages.tone(mean), marks=self.notes.marks(notes))


def _measured_at(series: Columns, at: int | None) -> int | None:
    entry = None if at is None else series.entry(at)
    return entry if entry is not None and series.is_measured[entry] else None


def _outcome(series: Columns, entry: int) -> Outcome:
    return OUTCOMES[series.outcome[entry]]


def _reason(series: Columns, entry: int | None, outcome: Outcome) -> str:
    """Return why a series has no time at an entry; None: at its newest one."""
    at = entry if entry is not None else len(series) - 1
    known = series.reasons.get(at)
    return pages.REASONS[outcome] if known is None else f"{outcome.value}: {known}"


def _mean_rate(current: Sequence[_Case]) -> float | None:
    rates = [float(case.series.gflops[case.entry]) for case in current if case.entry is not None]
    return statistics.fmean(rates) if rates and all(map(math.isfinite, rates)) else None


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _thin(current: Sequence[_Case]) -> list[str]:
    """Return what is to be known of values that rest on little."""
    rounds = [int(case.series.rounds[case.entry]) for case in current if case.entry is not None]
    said = []
    if few := [count for count in rounds if 0 <= count < WANTED_ROUNDS]:
        said.append(f"need {WANTED_ROUNDS} rounds, have {min(few)}")
    if NONE in rounds:
        said.append("no telemetry: asv's stored value")
    return said


def _placed(case: _Case, roofs: Roofs) -> Roofline | None:
    """Return a test case's place below the roofs; what is computed in is the first part of its name (contract)."""
    series, entry = case.series, case.entry
    if entry is None:
        return None
    return roofline(
        flops=series.flop,
        bytes=series.bytes_moved,
        seconds=float(series.seconds[entry]),
        roofs=roofs,
        dtype=series.key.case.partition("-")[0],
    )


def _trend(group: Sequence[Columns]) -> Sparkline | None:
    """Return the small trend of the mean GFLOPS, over the commits that measured every one of these series."""
    if not group or any(series.flop is None for series in group):
        return None
    places = reduce(np.intersect1d, [series.place[series.is_measured] for series in group])
    if not len(places):
        return None
    rates = np.mean([series.gflops[np.searchsorted(series.place, places)] for series in group], axis=0)
    return sparkline([float(rate) for rate in rates])


def _roof(rows: Iterable[GridRow]) -> str:
    """Return how far the kernels are from the roof: the best implementation of each, the furthest first."""
    best: dict[str, tuple[float, str]] = {}
    for row in rows:
        share = row.figures["efficiency"]
        if isinstance(share, float):
            name = f"{row.kernel} {row.device} {row.state}"
            best[name] = max(best.get(name, (0.0, "")), (share, row.implementation))
    ordered = sorted(best.items(), key=lambda pair: pair[1][0])
    shown = [f"{name} {percent(share)} ({who})" for name, (share, who) in ordered[:LISTED_ROOFS]]
    more = len(ordered) - len(shown)
    return ", ".join(shown) + (f" and {more} nearer to it" if more > 0 else "")
