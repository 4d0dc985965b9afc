"""The home page's grid: every kernel, device, cache state and implementation on a machine, in one row.

What a row says is a mean over the test cases that its newest commit measured; what is missing or old has a footnote.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernel_velocity import units
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import OUTCOMES, WANTED_ROUNDS, Outcome, SeriesKey
from kernel_velocity.series import trends
from kernel_velocity.series.columns import Columns
from kernel_velocity.series.trends import Change
from kernel_velocity.site import text as pages
from kernel_velocity.site.charts import sparklines
from kernel_velocity.site.charts.sparklines import Sparkline, sparkline
from kernel_velocity.site.model import Site
from kernel_velocity.site.pages import home_roof, home_spans
from kernel_velocity.site.pages.home_roof import DASH, GridCell
from kernel_velocity.site.pages.home_spans import Span
from kernel_velocity.site.text import CommitLine, Footnotes, Place

NO_RATE = "no rate: benchmarks.json does not say how many operations a call has"
_NOT_APPLICABLE, _FAILED = (OUTCOMES.index(outcome) for outcome in (Outcome.NOT_APPLICABLE, Outcome.FAILED))


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
    too_young: str  # which spans have nothing to compare with; empty for none
    rows: tuple[GridRow, ...]
    roof: str  # how far its kernels are from the roof, in a line; empty where nobody knows
    footnotes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Current:
    """A series that a row's newest commit has a time of, and that commit's entry."""

    series: Columns
    entry: int


def build(found: Site) -> tuple[Grid, ...]:
    """Return the grid of every machine and environment that has a trend."""
    when = home_spans.dates(found)
    grids = [_grid(found, place, when) for place in found.places]
    return tuple(grid for grid in grids if grid.rows)


def _grid(found: Site, place: Place, when: FloatArray) -> Grid:
    keys = found.keys_at(place)
    rows: dict[tuple[str, str], list[Columns]] = {}
    for key in keys:
        rows.setdefault((key.benchmark, key.implementation), []).append(found.series(key))
    cases = Counter(benchmark for benchmark, _ in {(key.benchmark, key.case) for key in keys})
    every = [series for group in rows.values() for series in group]
    newest = _newest(every)
    maker = _RowMaker(
        found=found,
        newest=newest,
        spans=() if newest is None else home_spans.spans(found, when, newest, every),
        place=place,
        notes=Footnotes(),
    )
    current = {name: _current(group, _newest(group)) for name, group in rows.items()}
    values = [(item.series.key, item.entry) for items in current.values() for item in items]
    changes = iter(home_spans.changes(found, when, maker.spans, values))
    made = tuple(
        maker.row(name, group, current[name], list(itertools.islice(changes, len(current[name]))), cases[name[0]])
        for name, group in rows.items()
    )
    shares = [(row, share) for row in made if isinstance(share := row.figures["efficiency"], float)]
    return Grid(
        place=place,
        newest=None if newest is None else pages.commit_line(found.commits[found.line[newest]]),
        spans=maker.spans,
        too_young=home_spans.too_young(maker.spans),
        rows=made,
        roof=home_roof.lead([(f"{row.kernel} {row.device} {row.state}", row.implementation, x) for row, x in shares]),
        footnotes=tuple(maker.notes.texts),
    )


def _newest(group: Sequence[Columns]) -> int | None:
    """Return the newest place of the line where any of these series applies."""
    return max((place for series in group if (place := _newest_of(series)) is not None), default=None)


def _newest_of(series: Columns) -> int | None:
    if len(series) and series.outcome[-1] != _NOT_APPLICABLE:  # as of most
        return int(series.place[-1])
    places = series.place[series.outcome != _NOT_APPLICABLE]
    return int(places[-1]) if len(places) else None


@dataclass(frozen=True, kw_only=True)
class _RowMaker:
    """Makes the rows of one machine and environment, whose footnotes are numbered together."""

    found: Site
    newest: int | None  # place of its newest commit on the line
    spans: tuple[Span, ...]
    place: Place
    notes: Footnotes

    def row(
        self,
        name: tuple[str, str],
        group: Sequence[Columns],
        current: Sequence[Current],
        told: Sequence[tuple[Change | None, ...]],
        wanted: int,
    ) -> GridRow:
        """Return the row of a benchmark and implementation from its test cases' series.

        Args:
            current: of the series. told: how each of those changed over the spans.
            wanted: how many test cases the benchmark has here, whoever measures them.
        """
        kernel, device, state = pages.parts(name[0])
        at = _newest(group)
        commit = None if at is None else self.found.line[at]
        roofs = self.found.roofs(self.place, device, commit)
        lacking = "" if roofs else self.found.roof_choice(self.place, device, commit).lacking
        shares = [home_roof.placed(item.series, item.entry, roofs) for item in current]
        changes = [[one for each in told if (one := each[at_span]) is not None] for at_span in range(len(self.spans))]
        rate = _mean_rate(current)
        return GridRow(
            kernel=kernel,
            device=device,
            state=state,
            implementation=name[1],
            href=pages.kernel_href(
                kernel, device, state=state, machine=group[0].key.machine, environment=group[0].key.environment
            ),
            sparkline=_trend([item.series for item in current]),
            rate=self._rate(group, current, at, wanted) if current else self._without_time(group, at),
            efficiency=home_roof.cell(shares, lacking, self.notes),
            changes=tuple(self._change(*pair, len(current)) for pair in zip(self.spans, changes, strict=True)),
            figures={
                "commit": None if at is None or not current else self.found.line[at],
                "gflops": rate,
                "efficiency": home_roof.mean(shares),
                "changes": [trends.mean_change(items) for items in changes],
            },
        )

    def _rate(self, group: Sequence[Columns], current: Sequence[Current], at: int | None, wanted: int) -> GridCell:
        """Return the mean rate of the test cases that the newest commit measured, and what to know about it."""
        rate, keys = _mean_rate(current), [item.series.key for item in current]
        of_rate = [NO_RATE] if rate is None else _of_integers(keys)
        notes = [*self._age(at), *self._others(group, at), *_thin(current), *of_rate]
        return GridCell(
            text=DASH if rate is None else units.rate(rate, _rate_unit(keys)),
            detail="" if len(current) == wanted else f"of {len(current)} of {units.count(wanted, 'test case')}",
            marks=self.notes.marks(notes),
        )

    def _without_time(self, group: Sequence[Columns], at: int | None) -> GridCell:
        """Return the cell of a row whose newest commit has no time: every test case failed, or none ever applied."""
        outcome = Outcome.NOT_APPLICABLE if at is None else Outcome.FAILED
        reasons = dict.fromkeys(_reason(series, at, outcome) for series in group)
        return GridCell(
            text=outcome.value, tone=outcome.value, marks=self.notes.marks([*self._age(at), *filter(None, reasons)])
        )

    def _age(self, at: int | None) -> list[str]:
        return [] if at is None or at == self.newest else [f"measured last at {self._short(at)}"]

    def _others(self, group: Sequence[Columns], at: int | None) -> list[str]:
        """Return what became of the test cases that the row's newest commit has no time of."""
        said = []
        for series in group:
            entry = None if at is None else series.entry(at)
            if entry is not None and series.outcome[entry] == _FAILED:
                said.append(f"{series.key.case}: {_reason(series, at, Outcome.FAILED)}")
            elif (entry is None or not series.is_measured[entry]) and series.is_measured.any():
                last = int(series.place[series.is_measured][-1])
                said.append(f"{series.key.case}: measured last at {self._short(last)}")
        return said

    def _short(self, at: int) -> str:
        return self.found.line[at][:SHORT]

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


def _current(group: Sequence[Columns], at: int | None) -> list[Current]:
    entries = [(series, None if at is None else series.entry(at)) for series in group]
    return [
        Current(series=series, entry=entry)
        for series, entry in entries
        if entry is not None and series.is_measured[entry]
    ]


def _reason(series: Columns, at: int | None, outcome: Outcome) -> str:
    """Return why a series has no time at a place of the line, None: at its newest; "" where it has no result there."""
    entry = len(series) - 1 if at is None else series.entry(at)
    if entry is None:
        return ""
    known = series.reasons.get(entry)
    return pages.REASONS[outcome] if known is None else f"{outcome.value}: {known}"


def _rate_unit(keys: Iterable[SeriesKey]) -> str:
    """Return what the mean rate of some series is given in."""
    return units.rate_unit(*(key.dtype for key in keys))


def _of_integers(keys: Sequence[SeriesKey]) -> list[str]:
    """Return which of the test cases in a mean rate are of integers, where not all of them are."""
    cases = [key.case for key in keys if key.rate_unit == _rate_unit(keys)]
    return [] if len(cases) == len(keys) else [f"operations of integers: {', '.join(cases)}"]


def _mean_rate(current: Sequence[Current]) -> float | None:
    """Return the arithmetic mean of the rates, 10^9 operations per second; None where one is not known."""
    rates = [float(_rates(item.series, np.array([item.entry]))[0]) for item in current]
    return statistics.fmean(rates) if rates and all(map(math.isfinite, rates)) else None


def _thin(current: Sequence[Current]) -> list[str]:
    """Return what is to be known of values that rest on little."""
    rounds = [int(item.series.rounds[item.entry]) for item in current]
    few = [count for count in rounds if 0 <= count < WANTED_ROUNDS]
    said = [f"need {WANTED_ROUNDS} rounds, have {min(few)}"] if few else []
    return [*said, "no telemetry: asv's stored value"] if min(rounds) < 0 else said


def _trend(group: Sequence[Columns]) -> Sparkline | None:
    """Return the small trend of the mean rate, over the commits that measured every one of these series."""
    if not group or any(series.flop is None for series in group):
        return None
    measured = np.bincount(np.concatenate([series.place[series.is_measured] for series in group]))
    places = np.flatnonzero(measured == len(group))
    shown = places[-sparklines.POINTS :]
    rates = [_rates(series, np.searchsorted(series.place, shown)) for series in group]
    unit = _rate_unit(series.key for series in group)
    return sparkline(np.mean(rates, axis=0).tolist(), unit, commits=len(places))


def _rates(series: Columns, entries: NDArray[np.int64]) -> FloatArray:
    """Return the rates of some entries, 10^9 operations per second; NaN where unknown."""
    return np.asarray((np.nan if series.flop is None else series.flop) / series.seconds[entries] / 1e9)
