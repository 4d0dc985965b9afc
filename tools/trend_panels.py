"""What a picture of trends shows: a panel for every benchmark and test case, a line for every implementation. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.harness.statistics import FloatArray
from tools import finding_text, pages, series_changes, units
from tools.columns import OUTCOMES, Columns, IntArray
from tools.finding import Affected, Finding, Kind
from tools.measurements import MEMORY_BOUND, Outcome, SeriesKey
from tools.series_identity import environment_of

BASE = "eager"  # what a speed-up is against


class Unit(enum.Enum):
    """What the value axis shows; more is better but for times."""

    GFLOPS = "gflops"
    GBS = "gbs"
    US = "us"
    SPEEDUP = "speedup"


LABELS = {Unit.GBS: "GB/s", Unit.US: "µs per call", Unit.SPEEDUP: f"times faster than {BASE}"}


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A commit at which a line changed its level, or at which a finding lies."""

    place: int  # of the commit in `Picture.commits`
    text: str
    better: bool | None  # None: neither way


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """One implementation; arrays have shape (commits of the picture,), NaN where there is no value."""

    name: str
    values: FloatArray
    low: FloatArray
    high: FloatArray
    failed: tuple[int, ...]  # places
    steps: tuple[Mark, ...]  # change points


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """One benchmark and test case on one machine."""

    title: str
    subtitle: str
    lines: tuple[Line, ...]
    findings: tuple[Mark, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Picture:
    """All panels have the same commits."""

    unit: str  # with which the value axis is labelled
    commits: tuple[str, ...]  # short hashes, oldest first
    tags: Mapping[int, str]  # place -> names
    panels: tuple[Panel, ...]


@dataclass(frozen=True, kw_only=True)
class History:
    """What panels need to know of the repository and the findings."""

    line: Sequence[str]  # first-parent line, oldest first
    tags: Mapping[str, tuple[str, ...]]
    findings: tuple[Finding, ...] = ()


def picture(
    series: Sequence[Columns], bases: Sequence[Columns], unit: Unit, history: History, most: int | None
) -> Picture:
    """Return the picture of some series.

    Args:
        series: what to draw, in order. bases: series of BASE that a speed-up is against.
        most: commits, the newest; None: all that have a time or failed.
    """
    applies = [each.place[each.outcome != OUTCOMES.index(Outcome.NOT_APPLICABLE)] for each in series]
    asked = sorted({int(place) for found in applies for place in found})
    places = asked[-most:] if most is not None else asked
    where = {place: index for index, place in enumerate(places)}
    groups: dict[tuple[str, ...], list[Columns]] = {}
    for each in series:
        groups.setdefault(_group(each.key), []).append(each)
    of_base = {_group(each.key): each for each in bases}
    commits = [history.line[place] for place in places]
    return Picture(
        unit=units.rate_units(each.key.dtype for each in series) if unit is Unit.GFLOPS else LABELS[unit],
        commits=tuple(sha[: pages.SHORT] for sha in commits),
        tags={index: ", ".join(names) for index, sha in enumerate(commits) if (names := history.tags.get(sha))},
        panels=tuple(
            _panel(group, of_base.get(key), unit, where, findings=history.findings, commits=commits)
            for key, group in groups.items()
        ),
    )


def _group(key: SeriesKey) -> tuple[str, ...]:
    return key.machine, key.environment, key.benchmark, key.case


def _panel(
    group: Sequence[Columns],
    base: Columns | None,
    unit: Unit,
    where: Mapping[int, int],
    *,
    findings: Iterable[Finding],
    commits: Sequence[str],
) -> Panel:
    key = group[0].key
    kernel, device, state = pages.parts(key.benchmark)
    return Panel(
        title=f"{kernel} on {device}, {state}: {key.case}",
        subtitle=f"{key.machine}, {key.environment}",
        lines=tuple(_line(each, base, unit, where) for each in group),
        findings=tuple(_found([each.key for each in group], findings, commits)),
    )


def _line(series: Columns, base: Columns | None, unit: Unit, where: Mapping[int, int]) -> Line:
    columns = {name: np.full(len(where), np.nan) for name in ("values", "low", "high")}
    kept = [(index, where[int(place)]) for index, place in enumerate(series.place) if int(place) in where]
    for name, found in zip(columns, _values(series, base, unit), strict=True):
        for index, place in kept:
            columns[name][place] = found[index]
    failed = OUTCOMES.index(Outcome.FAILED)
    return Line(
        name=series.key.implementation,
        failed=tuple(place for index, place in kept if series.outcome[index] == failed),
        steps=tuple(_steps(series, where)),
        **columns,
    )


def _values(series: Columns, base: Columns | None, unit: Unit) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return values with the bounds of their 95% intervals, in the unit; shape (entries of the series,)."""
    times = (series.seconds, series.low, series.high)
    if unit is Unit.US:
        return times[0] * 1e6, times[1] * 1e6, times[2] * 1e6
    if unit is Unit.SPEEDUP:
        return _speedup(times, base, series.place)
    work = series.flop if unit is Unit.GFLOPS else _bounding_bytes(series)
    rate = (np.nan if work is None else work) / 1e9
    return rate / times[0], rate / times[2], rate / times[1]


def _bounding_bytes(series: Columns) -> float | None:
    """Return the bytes that a call has to move; None where memory does not bound it, as `Measurement.gigabytes`."""
    flop, moved = series.flop, series.bytes_moved
    return None if flop is None or moved is None or flop > MEMORY_BOUND * moved else moved


def _speedup(
    times: tuple[FloatArray, FloatArray, FloatArray], base: Columns | None, places: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return base time over time; the logarithms' half widths add in squares, for their rounds are independent."""
    entries = [None if base is None else base.entry(int(place)) for place in places]
    none = np.full(len(entries), np.nan)
    if base is None:
        return none, none, none
    of_base = [
        np.array([np.nan if entry is None else column[entry] for entry in entries])
        for column in (base.seconds, base.low, base.high)
    ]
    ratio = of_base[0] / times[0]
    below = np.hypot(np.log(of_base[0] / of_base[1]), np.log(times[2] / times[0]))
    above = np.hypot(np.log(of_base[2] / of_base[0]), np.log(times[0] / times[1]))
    return ratio, ratio * np.exp(-below), ratio * np.exp(above)


def _steps(series: Columns, where: Mapping[int, int]) -> Iterable[Mark]:
    """Yield the change points, as the pages have them."""
    for point in series_changes.of(series):
        place = where.get(int(series.place[point.index]))
        if place is not None:
            yield Mark(place=place, text=units.change(1 / point.ratio), better=not point.rises)


def _found(keys: Sequence[SeriesKey], findings: Iterable[Finding], commits: Sequence[str]) -> Iterable[Mark]:
    """Yield a mark for every regression and improvement of one known commit that these series show."""
    for item in findings:
        if item.culprit not in commits or item.kind not in (Kind.REGRESSION, Kind.IMPROVEMENT):
            continue
        shown = [one for one in item.affected if any(_is_of(one, key) for key in keys)]
        if shown:
            worst = max(shown, key=lambda one: abs(one.effect))
            text = f"{finding_text.change(worst.ratio)} time, {item.state.value}"
            yield Mark(place=commits.index(item.culprit), text=text, better=item.kind is Kind.IMPROVEMENT)


def _is_of(one: Affected, key: SeriesKey) -> bool:
    environment = environment_of(key.environment, key.implementation)
    asked = (key.machine, environment, key.benchmark, key.implementation, key.case)
    return one.identity.slot == asked
