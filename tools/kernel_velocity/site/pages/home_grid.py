"""The home page's grid: every kernel, device, cache state and implementation on a machine, in one row.

What a row says is a mean over the test cases that its newest commit measured; what is missing or old has a footnote.

The home page's efficiency: how far from the roof a row's test cases are, and a machine's kernels in one line.

What the home page's changes are over: 1, 7 and 30 days, and since the last tag.

A series' newest value is compared with the newest one that is at least that old, counted from when commits were
committed, not written: 40 days of a branch are none of the history's. No clock is read, so that pages made twice from
the same results are the same.
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernel_velocity import units
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import OUTCOMES, WANTED_ROUNDS, Outcome, SeriesKey
from kernel_velocity.results.records import Commit
from kernel_velocity.roofline import model
from kernel_velocity.roofline.model import IMPOSSIBLE, Roofline, Roofs
from kernel_velocity.series import changes as changes_along
from kernel_velocity.series import layout as series_blocks
from kernel_velocity.series.changes import NONE, Change, Indices
from kernel_velocity.series.columns import Columns
from kernel_velocity.series.layout import Block
from kernel_velocity.series.silence import DAY
from kernel_velocity.site import text as pages
from kernel_velocity.site.charts import small
from kernel_velocity.site.charts.small import Sparkline, sparkline
from kernel_velocity.site.model import Site
from kernel_velocity.site.text import CommitLine, Footnotes, Place, commit_line

NO_RATE = "no rate: benchmarks.json does not say how many operations a call has"
_NOT_APPLICABLE, _FAILED = (OUTCOMES.index(outcome) for outcome in (Outcome.NOT_APPLICABLE, Outcome.FAILED))

DASH = "–"
_TIMES = re.compile(r"\b\d+\.\d\d times\b")
LISTED = 6  # kernels named in the line about the roof
NO_BYTES = "no efficiency: benchmarks.json does not say how many bytes a call moves, or no roof for it was measured"

DAYS = (1, 7, 30)
NO_TAG = -1


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
    when = dates(found)
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
        spans=() if newest is None else spans(found, when, newest, every),
        place=place,
        notes=Footnotes(),
    )
    current = {name: _current(group, _newest(group)) for name, group in rows.items()}
    values = [(item.series.key, item.entry) for items in current.values() for item in items]
    changes = iter(changes_over(found, when, maker.spans, values))
    made = tuple(
        maker.row(name, group, current[name], list(itertools.islice(changes, len(current[name]))), cases[name[0]])
        for name, group in rows.items()
    )
    shares = [(row, share) for row in made if isinstance(share := row.figures["efficiency"], float)]
    return Grid(
        place=place,
        newest=None if newest is None else pages.commit_line(found.commits[found.line[newest]]),
        spans=maker.spans,
        too_young=too_young(maker.spans),
        rows=made,
        roof=lead([(f"{row.kernel} {row.device} {row.state}", row.implementation, x) for row, x in shares]),
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
        shares = [placed(item.series, item.entry, roofs) for item in current]
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
            efficiency=cell(shares, lacking, self.notes),
            changes=tuple(self._change(*pair, len(current)) for pair in zip(self.spans, changes, strict=True)),
            figures={
                "commit": None if at is None or not current else self.found.line[at],
                "gflops": rate,
                "efficiency": mean(shares),
                "changes": [changes_along.mean_change(items) for items in changes],
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
        ratio = changes_along.mean_change(items)
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
    shown = places[-small.POINTS :]
    rates = [_rates(series, np.searchsorted(series.place, shown)) for series in group]
    unit = _rate_unit(series.key for series in group)
    return sparkline(np.mean(rates, axis=0).tolist(), unit, commits=len(places))


def _rates(series: Columns, entries: NDArray[np.int64]) -> FloatArray:
    """Return the rates of some entries, 10^9 operations per second; NaN where unknown."""
    return np.asarray((np.nan if series.flop is None else series.flop) / series.seconds[entries] / 1e9)


@dataclass(frozen=True, kw_only=True)
class GridCell:
    """One value of the grid."""

    text: str
    tone: str = ""  # as of pages.Cell
    detail: str = ""
    marks: tuple[int, ...] = ()  # numbers of its footnotes


def placed(series: Columns, entry: int, roofs: Roofs | None) -> Roofline | None:
    """Return a value's place below the roofs; what is computed in is the first part of its test case (contract)."""
    if roofs is None:
        return None
    return model.roofline(
        flops=series.flop,
        bytes=series.bytes_moved,
        seconds=float(series.seconds[entry]),
        roofs=roofs,
        dtype=series.key.dtype,
    )


def mean(shares: Iterable[Roofline | None]) -> float | None:
    """Return the arithmetic mean of the known efficiencies; None where none is known."""
    known = [item.efficiency for item in shares if item is not None]
    return statistics.fmean(known) if known else None


def cell(shares: Sequence[Roofline | None], lacking: str, notes: Footnotes) -> GridCell:
    """Return the mean efficiency of a row's current test cases, or the reason why nobody knows it.

    Args:
        lacking: why there are no roofs for them; "" where there are.
    """
    if not shares:
        return GridCell(text=DASH, tone="absent")
    efficiency = mean(shares)
    if efficiency is None:
        text = f"no efficiency: {lacking} (`make track` measures them)" if lacking else NO_BYTES
        return GridCell(text=DASH, tone="absent", marks=notes.marks([text]))
    known = [item for item in shares if item is not None]
    return GridCell(
        text=model.percent(efficiency),
        detail="" if len(known) == len(shares) else f"of {len(known)} of {units.count(len(shares), 'test case')}",
        marks=notes.marks([_without_figure(text) for item in known for text in item.warnings]),
    )


def _without_figure(warning: str) -> str:
    """Return a doubt about a test case as one that other test cases share, so that they share a footnote."""
    return _TIMES.sub(f"over {IMPOSSIBLE} times", warning)


def lead(shares: Iterable[tuple[str, str, float]]) -> str:
    """Return how far kernels are from the roof, in a line: the best implementation of each, the furthest first.

    Args:
        shares: kernel with device and cache state, implementation, efficiency.
    """
    best: dict[str, tuple[float, str]] = {}
    for name, implementation, share in shares:
        best[name] = max(best.get(name, (0.0, "")), (share, implementation))
    ordered = sorted(best.items(), key=lambda pair: pair[1][0])
    shown = [f"{name} {model.percent(share)} ({who})" for name, (share, who) in ordered[:LISTED]]
    more = len(ordered) - len(shown)
    return ", ".join(shown) + (f", and {more} nearer to it" if more > 0 else "")


@dataclass(frozen=True, kw_only=True)
class Span:
    """A stretch of history that changes are told over, and the commit that most series are compared with."""

    name: str  # "7 days", "since v1.2"
    days: int | None  # None: since a tag
    tag: int  # place of the tag on the first-parent line; NO_TAG for days, and where there is no tag
    base: str  # full SHA; "" where nothing that old was measured
    short: str
    href: str
    date: str


def dates(found: Site) -> FloatArray:
    """Return when the commits of the first-parent line got there, Unix time, s; NaN for those without a result."""
    known = (found.commits.get(sha) for sha in found.line)
    return np.array([np.nan if commit is None else commit.committed.timestamp() for commit in known])


def spans(found: Site, when: FloatArray, newest: int, every: Sequence[Columns]) -> tuple[Span, ...]:
    """Return the spans of a machine.

    Args:
        when: of `dates`. newest: place of the machine's newest commit on the line. every: all its series (>= 1).
    """
    is_measured = np.zeros(len(found.line), np.bool_)
    for series in every:
        is_measured[series.place[series.is_measured]] = True
    earlier = np.flatnonzero(is_measured[:newest])
    tag = _last_tag(found, newest)
    since = "since a tag" if tag == NO_TAG else f"since {', '.join(found.tags[found.line[tag]])}"
    asked = (*((units.count(days, "day"), days, NO_TAG) for days in DAYS), (since, None, tag))
    made = []
    for name, days, at in asked:
        fits = earlier[_fits(when, newest, earlier, days, at)]
        made.append(_span(name, days, at, found.commits[found.line[int(fits[-1])]] if len(fits) else None))
    return tuple(made)


def _span(name: str, days: int | None, tag: int, base: Commit | None) -> Span:
    if base is None:
        return Span(name=name, days=days, tag=tag, base="", short="", href="", date="")
    line = commit_line(base)
    return Span(
        name=name,
        days=days,
        tag=tag,
        base=base.sha,
        short=line.short,
        href=line.href,
        date=f"{base.committed:%Y-%m-%d}",
    )


def _last_tag(found: Site, newest: int) -> int:
    """Return the place of the newest tag before a place; a tag of the newest commit itself tells nothing."""
    return max((place for sha in found.tags if (place := found.order[sha]) < newest), default=NO_TAG)


def _fits(when: FloatArray, newest: int, earlier: Indices, days: int | None, tag: int) -> np.ndarray:
    """Return which places of the line, all before `newest`, are old enough; an unknown date is not."""
    if days is None:
        return np.asarray(earlier <= tag)
    return np.asarray(when[earlier] <= when[newest] - days * DAY)


def too_young(every: Sequence[Span]) -> str:
    """Return which spans have nothing to compare with, in a sentence; empty for none."""
    names = [span.name for span in every if not span.base]
    return f"Nothing measured is old enough for: {', '.join(names)}." if names else ""


def changes_over(
    found: Site, when: FloatArray, spans: Sequence[Span], values: Sequence[tuple[SeriesKey, int]]
) -> list[tuple[Change | None, ...]]:
    """Return the changes of values over spans; None where nothing comparable is that old.

    Nor has a value of before a tag, or of the tagged commit, changed since: a series can have ended there.

    Args:
        when: of `dates`. values: times, each of another of the site's series, and its entry there.
    """
    layout = found.past.layout
    numbers = np.array([layout.numbers[key] for key, _ in values], np.int64)
    slots = layout.start[numbers] + np.array([entry for _, entry in values], np.int64)
    old = np.full((len(values), len(spans)), NONE, np.int64)
    for block in series_blocks.blocks(layout, numbers):
        old[block.rows] = _old(block, slots[block.rows], when, spans)
    new = np.repeat(slots[:, np.newaxis], len(spans), axis=1)
    made = changes_along.compared(series_blocks.timed(layout, new), series_blocks.timed(layout, old))
    known = made.both & (old != NONE)
    against = layout.place[old]
    columns = [column.tolist() for column in (known, made.ratio, against, made.unknown, made.overlapping)]
    return [tuple(_told(found.line, zip(*row, strict=True))) for row in zip(*columns, strict=True)]


def _told(line: Sequence[str], row: Iterable[tuple[bool, float, int, bool, bool]]) -> Iterator[Change | None]:
    for known, ratio, against, unknown, overlapping in row:
        if known:
            yield Change(ratio=ratio, against=line[against], overlapping=None if unknown else overlapping)
        else:
            yield None


def _old(block: Block, slots: Indices, when: FloatArray, spans: Sequence[Span]) -> Indices:
    """Return where in the layout the values lie that a block's are compared with, (series, spans); NONE for none.

    Args:
        slots: where those lie that are compared, one a series.
    """
    found = np.full((len(slots), len(spans)), NONE, np.int64)
    places, methods = block.layout.place[slots], block.layout.columns["method"][slots]
    for place, method in sorted({*zip(places.tolist(), methods.tolist(), strict=True)}):
        rows = np.flatnonzero((places == place) & (methods == method))
        earlier = block.places[: np.searchsorted(block.places, place)]
        alike = block.alike(method)[rows]
        for at, span in enumerate(spans):
            fits = np.flatnonzero(_fits(when, place, earlier, span.days, span.tag))
            if len(fits) and (span.days is not None or place > span.tag):
                own = alike[:, fits[::-1]]  # the newest first
                last = fits[::-1][own.argmax(axis=1)]
                found[rows, at] = np.where(own.any(axis=1), block.slots[rows, last], NONE)
    return found
