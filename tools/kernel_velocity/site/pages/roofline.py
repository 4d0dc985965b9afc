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
from kernel_velocity.site.text import DASH, Footnotes, Platform
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
    for number, platform in enumerate(site.platforms):
        for device in DEVICES.values():
            entries = list(placed(site, platform, device))
            if entries:
                sections.append(_section(site, platform, device, entries))
                series += entries
                yield DataFile(name=f"roofline-{number}-{device}", value=_data(platform, device, entries))
    context = {"sections": sections, "choices": _choices(series)}
    yield Page(name="roofline.html", template="roofline.html", context=context)


def _choices(entries: Sequence[Placed]) -> list[tuple[str, str, dict[str, str]]]:
    """Return what a reader can narrow the page by: name, word, and the texts of its values. Of one value nothing."""
    keys = [entry.key for entry in entries]
    devices = {name_parts(key.benchmark).device for key in keys}
    several = len(devices) > 1
    kernels = {
        key.benchmark: f"{entry.kernel}, {name_parts(key.benchmark).device}" if several else entry.kernel
        for key, entry in zip(keys, entries, strict=True)
    }
    choices = [
        ("machine", "machine", {key.machine: key.machine for key in keys}),
        ("environment", "environment", {key.environment: key.environment for key in keys}),
        ("device", "device", {device: device for device in sorted(devices)}),
        ("benchmark", "kernel", kernels),
        ("case", "test case", {key.case: key.case for key in keys}),
        ("implementation", "implementation", {key.implementation: key.implementation for key in keys}),
    ]
    return [(name, word, {"": "all"} | values) for name, word, values in choices if len(values) > 1]


def placed(site: Site, platform: Platform, device: str) -> Iterator[Placed]:
    """Yield every series of a device at a platform that has a value. Of several versions, the newest one."""
    newest: dict[tuple[str, str, str], tuple[int, Placed]] = {}
    for key in site.keys_at(platform):
        of_device = name_parts(key.benchmark).device
        series = site.series(key)
        measured = np.flatnonzero(series.is_measured & np.isfinite(series.seconds))
        if of_device != device or not measured.size:
            continue
        at, slot = int(series.position[measured[-1]]), (key.benchmark, key.implementation, key.case)
        if slot in newest and newest[slot][0] > at:
            continue
        times, choice = series.seconds[measured], site.roof_choice(platform, device, site.line[at])
        roofline = below(series, float(times[-1]), choice.roofs)
        entry = Placed(series=series, commit=site.line[at], times=times, roofline=roofline, choice=choice)
        newest[slot] = (at, entry)
    yield from (entry for _, entry in newest.values())


def _section(site: Site, platform: Platform, device: str, entries: Sequence[Placed]) -> dict[str, Any]:
    """Return what the template shows of a machine, environment and device."""
    notes, roofs = Footnotes(), site.roofs(platform, device)
    colours = palette.colours(tuple(dict.fromkeys(entry.key.implementation for entry in entries)))
    drawn = [entry for entry in entries if entry.intensity is not None]
    kernels = {entry.key.benchmark: entry.kernel for entry in drawn}
    has_marks = 1 < len(kernels) <= len(MARKS)  # marks that mean two kernels mean none
    marks = dict(zip(kernels, MARKS if has_marks else itertools.repeat("circle"), strict=False))
    dots = [
        dot
        for entry in drawn
        for dot in _dots(site, entry, marks[entry.key.benchmark], colours[entry.key.implementation])
    ]
    dots.sort(key=lambda dot: dot.to is None)  # no older one lies over a newest one
    drawn_roofs = roofs or Roofs(levels=(), peaks={})
    dtypes = {entry.key.dtype for entry in drawn}
    label = f"roofline of {platform.machine}, {device}: rate over arithmetic intensity; the table below has the same"
    return {
        "anchor": f"{platform.anchor}-{device}",
        "place": platform,
        "device": device,
        "has_roofs": roofs is not None,
        "warnings": drawn_roofs.warnings,
        "chart": chart.draw(dots, drawn_roofs, dtypes, _names(drawn)).svg(label),
        "legend": [
            *((plot.key("circle", colour), name) for name, colour in colours.items()),
            *((plot.key(marks[name], "currentcolor"), kernel) for name, kernel in kernels.items() if has_marks),
        ],
        "rows": [_row(entry, has_roofs=roofs is not None, notes=notes) for entry in entries],
        "footnotes": notes.texts,
    }


def _dots(site: Site, entry: Placed, shape: str, colour: str) -> Iterator[Mark]:
    """Yield the dots of a series with an intensity: the levels that it left, oldest first, then the newest value."""
    series, flop = entry.series, (entry.series.flop or 0.0) / GIGA
    name = f"{entry.kernel} · {entry.key.case} · {entry.key.implementation}"
    names = {f"data_{name}": getattr(entry.key, name) for name in NARROWED}
    mark = partial(Mark, x=entry.intensity or 0.0, shape=shape, colour=colour, attributes=names)

    def commit(sha: str) -> str:
        recorded = site.commit(sha)
        return sha[:SHORT] if recorded is None else f"{sha[:SHORT]} {recorded.subject}"

    for point in site.levels[entry.key].points:
        if point.is_blamed:
            sha, rate = site.line[series.position[point.index]], flop / math.exp(point.before)
            change = text.verdict(of_step(point), series.unit)
            title = f"{name}: {units.rate(rate, entry.key.rate_unit)} until {commit(sha)}: {change}"
            yield mark(y=rate, title=title, href=text.commit_href(sha), to=flop / entry.seconds)
    figures = [_achieved(entry), units.intensity(entry.intensity or 0.0, entry.key.dtype), units.seconds(entry.seconds)]
    if entry.roofline is not None:
        figures += [f"{model.percent(entry.roofline.of_limit)} of {entry.roofline.limit}"]
    title = f"{name}: {', '.join(figures)}; {commit(entry.commit)}"
    yield mark(y=flop / entry.seconds, title=title, href=text.commit_href(entry.commit))


def _names(entries: Sequence[Placed]) -> Iterator[Name]:
    """Yield a name for the dots of each intensity: the test case where it is one, else the kernels."""
    columns: dict[float, list[SeriesKey]] = {}
    for entry in entries:
        columns.setdefault(entry.intensity or 0.0, []).append(entry.key)
    for intensity, keys in columns.items():
        kernels = list(dict.fromkeys(name_parts(key.benchmark).kernel for key in keys))
        cases = {key.case for key in keys}
        words = f"{kernels[0]} {cases.pop().partition('-')[2]}" if len(cases) == len(kernels) == 1 else None
        attributes = {f"data_{name}": "\n".join(dict.fromkeys(getattr(key, name) for key in keys)) for name in NARROWED}
        yield Name(intensity=intensity, text=words or text.names(kernels, 2), attributes=attributes)


def _row(entry: Placed, *, has_roofs: bool, notes: Footnotes) -> dict[str, Any]:
    """Return a series as a row. A dash where something is not known."""
    roofline, unit = entry.roofline, entry.key.rate_unit
    row = text.names_of(entry.key) | {
        "name": series_name(entry.key),
        "benchmark": entry.key.benchmark,
        "href": text.trend_href(entry.key),
        "commit": entry.commit[:SHORT],
        "commit_href": text.commit_href(entry.commit),
        "intensity": DASH if entry.intensity is None else units.intensity(entry.intensity, entry.key.dtype),
        "achieved": _achieved(entry),
    }
    if roofline is None:
        lacking = [NO_AMOUNT] if entry.intensity is None else [entry.choice.lacking or NO_ROOF] if has_roofs else []
        columns = dict.fromkeys(("attainable", "efficiency", "bound", "level"), DASH)
        columns |= dict.fromkeys(("tone", "detail"), "")
        return row | columns | {"marks": notes.marks(lacking)}
    # without the multiple, which the row shows: one footnote for many rows
    doubts = [_MULTIPLE.sub("more than ", warning, count=1) for warning in model.remarks(roofline)]
    tone = "impossible" if roofline.impossible else roofline.label if roofline.label == "excellent" else ""
    return row | {
        "attainable": units.rate(roofline.attainable / GIGA, unit)
        if roofline.attainable
        else units.bandwidth(roofline.bandwidth / roofline.of_limit / GIGA),
        "efficiency": model.percent(roofline.of_limit),
        "tone": tone,
        "detail": f"of {roofline.limit}",
        "bound": roofline.bound,
        "level": DASH if roofline.level is None else roofline.level,
        "marks": notes.marks([*([NO_AMOUNT] if entry.intensity is None else []), *doubts]),
    }


def _achieved(entry: Placed) -> str:
    """Return the rate. The bandwidth of a series without FLOPs. The time of one without bytes, too."""
    flop, bytes_moved = entry.series.flop, entry.series.bytes_moved
    if flop:
        return units.rate(flop / entry.seconds / GIGA, entry.key.rate_unit)
    if bytes_moved:
        return units.bandwidth(bytes_moved / entry.seconds / GIGA)
    return units.seconds(entry.seconds)


def _data(platform: Platform, device: str, entries: Sequence[Placed]) -> dict[str, Any]:
    """Return the data file of a section: of every series the newest value, and what is the same at all its commits."""
    series = [
        # commits that were measured with other threads than `least`
        ({"apart": sorted(entry.choice.apart)} if entry.choice.apart else {})
        | {
            "name": series_name(entry.key),
            "benchmark": entry.key.benchmark,
            "kernel": entry.kernel,
            "implementation": entry.key.implementation,
            "case": entry.key.case,
            "commit": entry.commit,
            "commits": len(entry.times),
            "seconds": entry.seconds,
            "flop": entry.series.flop or None,
            "operation": operation(entry.key.dtype),
            "bytes": entry.series.bytes_moved or None,
            "least": entry.least,
            "bound": DASH if entry.roofline is None else entry.roofline.bound,
        }
        for entry in entries
    ]
    names = {"machine": platform.machine, "environment": platform.environment, "device": device}
    return {"format": FORMAT, **names, "series": series}
