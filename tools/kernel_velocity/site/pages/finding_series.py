"""The series that show a finding, each with its change, its test, and its trend around the commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kernel_velocity import units
from kernel_velocity.findings import text
from kernel_velocity.findings.finding import Affected, Finding, Kind
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results.identity import Identity, environment_of
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.series.columns import Columns
from kernel_velocity.site import text as pages
from kernel_velocity.site.model import Site
from kernel_velocity.site.pages import finding_figures
from kernel_velocity.site.pages.finding_figures import Trend

MOST = 40  # series in the table
AROUND = 20  # measured commits on either side of a trend
_MIDDLE_OF = 5  # values on either side that the words under a trend are the median of


@dataclass(frozen=True, kw_only=True)
class Series:
    """A series that shows a finding."""

    name: str
    href: str  # of the kernel's page; "" where there is none
    machine: str
    effect: str
    tone: str
    test: str
    trend: Trend | None


def by_slot(found: Site) -> dict[tuple[str, ...], SeriesKey]:
    """Return the series of a site as findings name them; of several torches that are no identity, the last measured."""
    return {_slot(key): key for key in sorted(found.keys, key=lambda key: found.last_measured(key) or 0.0)}


def shown(found: Site, item: Finding, keys: Mapping[tuple[str, ...], SeriesKey]) -> tuple[tuple[Series, ...], str]:
    """Return the series of a finding, the largest change first, and how many are left out; "" for none."""
    ordered = sorted(item.affected, key=lambda one: (-abs(one.effect), one.identity))
    places = _places(found, item)
    rows = tuple(
        _series(found, item, one, keys.get((*one.identity.slot, one.identity.version)), places)
        for one in ordered[:MOST]
    )
    left = len(ordered) - MOST
    return rows, f"and {left} more: `kv findings show {item.id}` lists them" if left > 0 else ""


def _slot(key: SeriesKey) -> tuple[str, ...]:
    environment = environment_of(key.environment, key.implementation)
    return key.machine, environment, key.benchmark, key.implementation, key.case, key.version


def _places(found: Site, item: Finding) -> tuple[int, int] | None:
    """Return the places on the line of the first and the last commit that can have done it; None without any."""
    places = [found.order[sha] for sha in item.commits if sha in found.order]
    return (min(places), max(places)) if places else None


def _series(found: Site, item: Finding, one: Affected, key: SeriesKey | None, places: tuple[int, int] | None) -> Series:
    is_timed = item.kind is not Kind.VANISHED
    tone = {True: "slower", False: "faster", None: ""}[one.worse] if is_timed else ""
    return Series(
        name=str(one.identity),
        href="" if key is None else pages.trend_href(key),
        machine=one.identity.machine,
        effect=text.effect(one) if is_timed else "no value any more",
        tone=tone,
        test=text.tested(one),
        trend=None if key is None else trend(found.series(key), places, one.identity),
    )


def trend(series: Columns, places: tuple[int, int] | None, identity: Identity) -> Trend | None:
    """Return a series around the places of the commits that can have moved it; of an environment, its last values.

    None where it has no value there.
    """
    first, last = (len(series), len(series)) if places is None else np.searchsorted(series.place, places).tolist()
    window = slice(max(0, first - AROUND), last + AROUND + 1)
    work = 1.0 if series.flop is None else series.flop  # without FLOP, calls per second
    rates, low, high = (work / times[window] for times in (series.seconds, series.high, series.low))
    values = [None if np.isnan(value) else float(value) for value in rates]
    if all(value is None for value in values):
        return None
    bounds = [
        None if np.isnan(one) or np.isnan(other) else (float(one), float(other))
        for one, other in zip(low, high, strict=True)
    ]
    moved = None if places is None else range(first - 1 - window.start, last - window.start)
    return finding_figures.trend(values, bounds, moved, _words(series.seconds, first, last, identity))


def _words(seconds: FloatArray, first: int, last: int, identity: Identity) -> str:
    """Return what a trend shows, for those who do not see it."""
    before, after = seconds[max(0, first - _MIDDLE_OF) : first], seconds[last : last + _MIDDLE_OF]
    sides = [
        units.seconds(float(np.nanmedian(side))) if np.isfinite(side).any() else "unknown" for side in (before, after)
    ]
    return f"the trend of {identity}: {sides[0]} before, {sides[1]} after"
