"""roofline.html: for every machine, environment and device the measured roofs, and below them its series.

Of a series, intensity, least time and bound are the same at every commit that was measured with as many threads. Only
the measured time differs, so the page's script places older values by dividing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from kernel_velocity import units
from kernel_velocity.harness.cases import DEVICES, operation
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.results.records import name_parts
from kernel_velocity.roofline import model
from kernel_velocity.roofline.model import Roofline, Roofs
from kernel_velocity.roofline.roofs import Choice
from kernel_velocity.series.columns import Columns
from kernel_velocity.site import text
from kernel_velocity.site.charts import palette
from kernel_velocity.site.charts.documents import FIRST, Document
from kernel_velocity.site.model import Site, below
from kernel_velocity.site.text import DASH, Footnotes, Place
from kernel_velocity.site.writer import DataFile, Page, series_name

FORMAT = 1  # of the data files
GIGA = 1e9
MODELS = 1000  # of Bokeh's in a section, at most
COLD = "cold"  # the cache state in which nothing lies in a cache
NO_AMOUNT = "its benchmark states no FLOPs and bytes of a call, so the plot leaves it out"
NO_ROOF = "neither DRAM's bandwidth nor the peak of its dtype was measured"
_MULTIPLE = re.compile(r"^\d+\.\d\d times (?!the peak in)|(?<=^impossible: )\d+\.\d\d times ")


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A series with its newest value."""

    series: Columns
    commit: str  # full SHA of the newest value
    times: FloatArray  # all values, s per call
    roofline: Roofline | None  # of the newest value; None: nothing can be said
    choice: Choice  # of that value's roofs

    @property
    def key(self) -> SeriesKey:
        """Of the series."""
        return self.series.key

    @property
    def kernel(self) -> str:
        """The kernel's name and the cache state."""
        kernel, _, state = name_parts(self.key.benchmark)
        return f"{kernel}, {state}"

    @property
    def seconds(self) -> float:
        """The newest value, per call."""
        return float(self.times[-1])

    @property
    def intensity(self) -> float | None:
        """FLOP/B. None where one is unknown or 0: a logarithmic axis has no place for it."""
        series = self.series
        return series.flop / series.bytes_moved if series.flop and series.bytes_moved else None

    @property
    def least(self) -> float | None:
        """The s that a call takes at least under DRAM's slope and the peak. None where no roof is known."""
        return None if self.roofline is None else self.roofline.roof_ratio * self.seconds


def build(site: Site) -> Iterator[Page | DataFile]:
    """Yield the page, and for each of its sections the data that its script places points by."""
    sections: list[dict[str, Any]] = []
    for number, place in enumerate(site.places):
        for device in DEVICES.values():
            items = list(placed(site, place, device))
            if items:
                roofs = site.roofs(place, device)
                document = _document(site, roofs, items, len(sections))
                section = _section(place, device, roofs, items)
                sections.append(section | {"data": f"roofline-{number}-{device}", "document": document})
                yield DataFile(name=f"roofline-{number}-{device}", value=_data(place, device, items))
    yield Page(name="roofline.html", template="roofline.html", context={"sections": sections})


def placed(site: Site, place: Place, device: str) -> Iterator[Placed]:
    """Yield every series of a device at a place that has a value. Of several versions, the newest one."""
    newest: dict[tuple[str, str, str], tuple[int, Placed]] = {}
    for key in site.keys_at(place):
        _, of_device, state = name_parts(key.benchmark)
        series = site.series(key)
        measured = np.flatnonzero(series.is_measured & np.isfinite(series.seconds))
        if of_device != device or not measured.size:
            continue
        at, slot = int(series.place[measured[-1]]), (key.benchmark, key.implementation, key.case)
        if slot in newest and newest[slot][0] > at:
            continue
        times, choice = series.seconds[measured], site.roof_choice(place, device, site.line[at])
        # results hold no footprint: a hot call's is taken for the bytes that it moves
        roofline = below(series, float(times[-1]), choice.roofs, math.inf if state == COLD else None)
        item = Placed(series=series, commit=site.line[at], times=times, roofline=roofline, choice=choice)
        newest[slot] = (at, item)
    yield from (item for _, item in newest.values())


def _document(site: Site, roofs: Roofs | None, items: Sequence[Placed], section: int) -> Markup:
    """Return the plot of a section, by its number."""

    def extremes(values: Sequence[float]) -> tuple[float, ...]:
        return (min(values), max(values)) if values else ()

    drawn = [item for item in items if item.intensity is not None]
    intensities = extremes([item.intensity for item in drawn if item.intensity])
    ends = [(item.series.flop, (item.times.max(), item.times.min())) for item in drawn]
    rates = extremes([flop / float(time) for flop, times in ends if flop for time in times])
    known = Roofs(levels=(), peaks={}) if roofs is None else roofs
    dtypes = sorted({item.key.dtype for item in drawn})

    def make() -> Document:
        from kernel_velocity.site.charts import roofline as roofline_chart  # noqa: PLC0415 - Bokeh takes a second

        return roofline_chart.document(intensities, rates, known, dtypes)

    parameters = (intensities, rates, known.levels, list(known.peaks.items()), dtypes)
    return site.documents.get(f"roofline-{section}", parameters, make, first=FIRST + MODELS * section)


def _section(place: Place, device: str, roofs: Roofs | None, items: Sequence[Placed]) -> dict[str, Any]:
    """Return what the template shows of a machine, environment and device."""
    notes = Footnotes()
    implementations = tuple(dict.fromkeys(item.key.implementation for item in items))
    return {
        "anchor": f"{place.anchor}-{device}",
        "place": place,
        "device": device,
        "has_roofs": roofs is not None,
        "warnings": () if roofs is None else roofs.warnings,
        "benchmarks": {item.key.benchmark: item.kernel for item in items},
        "implementations": palette.colours(implementations),
        "cases": list(dict.fromkeys(item.key.case for item in items)),
        "rows": [_row(item, has_roofs=roofs is not None, notes=notes) for item in items],
        "footnotes": notes.texts,
    }


def _row(item: Placed, *, has_roofs: bool, notes: Footnotes) -> dict[str, Any]:
    """Return a series as a row. A dash where something is not known."""
    roofline, unit = item.roofline, item.key.rate_unit
    kernel, _, state = name_parts(item.key.benchmark)
    row = {
        "name": series_name(item.key),
        "kernel": kernel,
        "state": state,
        "href": text.trend_href(item.key),
        "implementation": item.key.implementation,
        "case": item.key.case,
        "commit": item.commit[:SHORT],
        "commit_href": text.commit_href(item.commit),
        "intensity": DASH if item.intensity is None else units.intensity(item.intensity, item.key.dtype),
        "achieved": _achieved(item),
    }
    if roofline is None:
        lacking = [NO_AMOUNT] if item.intensity is None else [item.choice.lacking or NO_ROOF] if has_roofs else []
        columns = dict.fromkeys(("attainable", "efficiency", "bound", "level"), DASH)
        columns |= dict.fromkeys(("tone", "detail", "of_level"), "")
        return row | columns | {"marks": notes.marks(lacking)}
    # without the multiple, which the row shows: one footnote for many rows
    doubts = [_MULTIPLE.sub("more than ", warning, count=1) for warning in roofline.warnings]
    tone = "impossible" if roofline.impossible else roofline.label if roofline.label == "excellent" else ""
    is_above = roofline.roof_ratio > model.IMPOSSIBLE
    of_level = roofline.level_ratio if roofline.level is not None else None
    return row | {
        "attainable": units.rate(roofline.attainable / GIGA, unit)
        if roofline.attainable
        else units.gigabytes(roofline.bandwidth / roofline.roof_ratio / GIGA),
        "efficiency": model.percent(roofline.efficiency),
        "tone": tone,
        "detail": f"{units.significant(roofline.roof_ratio)}x the roof" if is_above else tone,
        "bound": roofline.bound,
        "level": DASH if roofline.level is None else roofline.level,
        "of_level": "" if of_level is None else f"{model.percent(of_level)} of its roof",
        "marks": notes.marks([*([NO_AMOUNT] if item.intensity is None else []), *doubts]),
    }


def _achieved(item: Placed) -> str:
    """Return the rate. The bandwidth of a series without FLOPs. The time of one without bytes, too."""
    flop, bytes_moved = item.series.flop, item.series.bytes_moved
    if flop:
        return units.rate(flop / item.seconds / GIGA, item.key.rate_unit)
    if bytes_moved:
        return units.gigabytes(bytes_moved / item.seconds / GIGA)
    return units.seconds(item.seconds)


def _data(place: Place, device: str, items: Sequence[Placed]) -> dict[str, Any]:
    """Return the data file of a section: of every series the newest value, and what is the same at all its commits."""
    series = [
        # commits that were measured with other threads than `least`
        ({"apart": sorted(item.choice.apart)} if item.choice.apart else {})
        | {
            "name": series_name(item.key),
            "benchmark": item.key.benchmark,
            "kernel": item.kernel,
            "implementation": item.key.implementation,
            "case": item.key.case,
            "commit": item.commit,
            "commits": len(item.times),
            "seconds": item.seconds,
            "flop": item.series.flop or None,
            "operation": operation(item.key.dtype),
            "bytes": item.series.bytes_moved or None,
            "least": item.least,
            "bound": DASH if item.roofline is None else item.roofline.bound,
        }
        for item in items
    ]
    names = {"machine": place.machine, "environment": place.environment, "device": device}
    return {"format": FORMAT, **names, "series": series}
