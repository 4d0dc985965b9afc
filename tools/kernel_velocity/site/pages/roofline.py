"""roofline.html: for every machine, environment and device the measured roofs, and below them its series.

A series has a dot for its newest time, and a fainter one for each level that it left at a change point.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

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
from kernel_velocity.series.verdicts import of_step
from kernel_velocity.site import text
from kernel_velocity.site.charts import palette, plot
from kernel_velocity.site.charts import roofline as chart
from kernel_velocity.site.charts.plot import MARKS, Mark
from kernel_velocity.site.charts.roofline import Name
from kernel_velocity.site.model import Site, below
from kernel_velocity.site.text import DASH, Footnotes, Place
from kernel_velocity.site.writer import DataFile, Page, series_name

FORMAT = 1  # of the data files
GIGA = 1e9
NARROWED = ("benchmark", "case", "implementation")  # what a reader can choose of a series
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
        """The s that a call takes at least. None where no roof is known."""
        return None if self.roofline is None else self.roofline.of_limit * self.seconds


def build(site: Site) -> Iterator[Page | DataFile]:
    """Yield the page, and a data file for each of its sections."""
    sections: list[dict[str, Any]] = []
    series: list[Placed] = []
    for number, place in enumerate(site.places):
        for device in DEVICES.values():
            items = list(placed(site, place, device))
            if items:
                sections.append(_section(site, place, device, items))
                series += items
                yield DataFile(name=f"roofline-{number}-{device}", value=_data(place, device, items))
    context = {"sections": sections, "choices": _choices(series)}
    yield Page(name="roofline.html", template="roofline.html", context=context)


def _choices(items: Sequence[Placed]) -> list[tuple[str, str, dict[str, str]]]:
    """Return what a reader can narrow the page by: name, word, and the texts of its values. Of one value nothing."""
    keys = [item.key for item in items]
    devices = {name_parts(key.benchmark).device for key in keys}
    several = len(devices) > 1
    kernels = {
        key.benchmark: f"{item.kernel}, {name_parts(key.benchmark).device}" if several else item.kernel
        for key, item in zip(keys, items, strict=True)
    }
    choices = [
        ("machine", "machine", {key.machine: key.machine for key in keys}),
        ("environment", "environment", {key.environment: key.environment for key in keys}),
        ("device", "device", {device: device for device in sorted(devices)}),
        ("benchmark", "kernel", kernels),
        ("case", "test case", {key.case: key.case for key in keys}),
        ("implementation", "implementation", {key.implementation: key.implementation for key in keys}),
    ]
    return [choice for choice in choices if len(choice[2]) > 1]


def placed(site: Site, place: Place, device: str) -> Iterator[Placed]:
    """Yield every series of a device at a place that has a value. Of several versions, the newest one."""
    newest: dict[tuple[str, str, str], tuple[int, Placed]] = {}
    for key in site.keys_at(place):
        of_device = name_parts(key.benchmark).device
        series = site.series(key)
        measured = np.flatnonzero(series.is_measured & np.isfinite(series.seconds))
        if of_device != device or not measured.size:
            continue
        at, slot = int(series.place[measured[-1]]), (key.benchmark, key.implementation, key.case)
        if slot in newest and newest[slot][0] > at:
            continue
        times, choice = series.seconds[measured], site.roof_choice(place, device, site.line[at])
        roofline = below(series, float(times[-1]), choice.roofs)
        item = Placed(series=series, commit=site.line[at], times=times, roofline=roofline, choice=choice)
        newest[slot] = (at, item)
    yield from (item for _, item in newest.values())


def _section(site: Site, place: Place, device: str, items: Sequence[Placed]) -> dict[str, Any]:
    """Return what the template shows of a machine, environment and device."""
    notes, roofs = Footnotes(), site.roofs(place, device)
    colours = palette.colours(tuple(dict.fromkeys(item.key.implementation for item in items)))
    drawn = [item for item in items if item.intensity is not None]
    kernels = {item.key.benchmark: item.kernel for item in drawn}
    has_marks = 1 < len(kernels) <= len(MARKS)  # marks that mean two kernels mean none
    marks = dict(zip(kernels, MARKS if has_marks else itertools.repeat("circle"), strict=False))
    dots = [
        dot for item in drawn for dot in _dots(site, item, marks[item.key.benchmark], colours[item.key.implementation])
    ]
    dots.sort(key=lambda dot: dot.to is None)  # no older one lies over a newest one
    known = Roofs(levels=(), peaks={}) if roofs is None else roofs
    dtypes = {item.key.dtype for item in drawn}
    label = f"roofline of {place.machine}, {device}: rate over arithmetic intensity; the table below has the same"
    return {
        "anchor": f"{place.anchor}-{device}",
        "place": place,
        "device": device,
        "has_roofs": roofs is not None,
        "warnings": known.warnings,
        "chart": chart.draw(dots, known, dtypes, _names(drawn)).svg(label),
        "legend": [
            *((plot.key("circle", colour), name) for name, colour in colours.items()),
            *((plot.key(marks[name], "currentcolor"), kernel) for name, kernel in kernels.items() if has_marks),
        ],
        "rows": [_row(item, has_roofs=roofs is not None, notes=notes) for item in items],
        "footnotes": notes.texts,
    }


def _dots(site: Site, item: Placed, shape: str, colour: str) -> Iterator[Mark]:
    """Yield the dots of a series with an intensity: the levels that it left, oldest first, then the newest value."""
    series, flop = item.series, (item.series.flop or 0.0) / GIGA
    name = f"{item.kernel} · {item.key.case} · {item.key.implementation}"
    names = {f"data_{name}": getattr(item.key, name) for name in NARROWED}
    mark = partial(Mark, x=item.intensity or 0.0, shape=shape, colour=colour, attributes=names)

    def commit(sha: str) -> str:
        known = site.commit(sha)
        return sha[:SHORT] if known is None else f"{sha[:SHORT]} {known.subject}"

    for point in site.past.verdicts[item.key].points:
        if point.is_blamed:
            sha, rate = site.line[series.place[point.index]], flop / math.exp(point.before)
            change = text.verdict(of_step(point), series.unit)
            title = f"{name}: {units.rate(rate, item.key.rate_unit)} until {commit(sha)}: {change}"
            yield mark(y=rate, title=title, href=text.commit_href(sha), to=flop / item.seconds)
    figures = [_achieved(item), units.intensity(item.intensity or 0.0, item.key.dtype), units.seconds(item.seconds)]
    if item.roofline is not None:
        figures += [f"{model.percent(item.roofline.of_limit)} of {item.roofline.limit}"]
    title = f"{name}: {', '.join(figures)}; {commit(item.commit)}"
    yield mark(y=flop / item.seconds, title=title, href=text.commit_href(item.commit))


def _names(items: Sequence[Placed]) -> Iterator[Name]:
    """Yield a name for the dots of each intensity: the test case where it is one, else the kernels."""
    columns: dict[float, list[SeriesKey]] = {}
    for item in items:
        columns.setdefault(item.intensity or 0.0, []).append(item.key)
    for intensity, keys in columns.items():
        kernels = list(dict.fromkeys(name_parts(key.benchmark).kernel for key in keys))
        cases = {key.case for key in keys}
        words = f"{kernels[0]} {cases.pop().partition('-')[2]}" if len(cases) == len(kernels) == 1 else None
        attributes = {f"data_{name}": "\n".join(dict.fromkeys(getattr(key, name) for key in keys)) for name in NARROWED}
        yield Name(intensity=intensity, text=words or text.names(kernels, 2), attributes=attributes)


def _row(item: Placed, *, has_roofs: bool, notes: Footnotes) -> dict[str, Any]:
    """Return a series as a row. A dash where something is not known."""
    roofline, unit = item.roofline, item.key.rate_unit
    kernel, _, state = name_parts(item.key.benchmark)
    row = {
        "name": series_name(item.key),
        "benchmark": item.key.benchmark,
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
        columns |= dict.fromkeys(("tone", "detail"), "")
        return row | columns | {"marks": notes.marks(lacking)}
    # without the multiple, which the row shows: one footnote for many rows
    doubts = [_MULTIPLE.sub("more than ", warning, count=1) for warning in model.remarks(roofline)]
    tone = "impossible" if roofline.impossible else roofline.label if roofline.label == "excellent" else ""
    return row | {
        "attainable": units.rate(roofline.attainable / GIGA, unit)
        if roofline.attainable
        else units.gigabytes(roofline.bandwidth / roofline.of_limit / GIGA),
        "efficiency": model.percent(roofline.of_limit),
        "tone": tone,
        "detail": f"of {roofline.limit}",
        "bound": roofline.bound,
        "level": DASH if roofline.level is None else roofline.level,
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
