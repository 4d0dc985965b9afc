"""roofline.html: for every machine, environment and device the measured roofs, and below them its series.

A series has a dot for its newest time, and a fainter one for each level that it left at a change point.

The plot has rates over arithmetic intensity, both logarithmic. A slope is a memory's bandwidth, a level line a dtype's
peak (Williams, Waterman and Patterson, Roofline: An Insightful Visual Performance Model, CACM 52(4), 2009).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from kernel_velocity import units
from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.names import COUNTED_ON, DEVICES, dtype_of
from kernel_velocity.past.columns import Columns
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.results.records import Commit, name_parts
from kernel_velocity.roofline import model
from kernel_velocity.roofline.model import MEMORY, Roofline, Roofs
from kernel_velocity.roofline.roofs import Choice
from kernel_velocity.site import text
from kernel_velocity.site.charts.plot import MARKS, SQUARE, Mark, Plot, Span, colours_of, legend_mark
from kernel_velocity.site.model import Site, below
from kernel_velocity.site.text import DASH, Footnotes, PageTable, Platform
from kernel_velocity.site.writer import Page, series_name
from kernel_velocity.verdict.verdicts import of_step

TRAFFIC = {  # columns of a table: head -> CSS class
    "counted call": "of",
    "bytes of the model": "value",
    "simulated traffic": "value",
    "intensity of the model": "value",
    "intensity of the traffic": "value",
}
MISSES, CACHE_LINE = "track_ll_misses", 64  # a series, and bytes of what it counts (counts/callgrind.py)
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


def build(site: Site) -> Iterator[Page]:
    """Yield the page."""
    sections: list[dict[str, Any]] = []
    series: list[Placed] = []
    for platform in site.platforms:
        for device in DEVICES.values():
            entries = list(placed(site, platform, device))
            if entries:
                sections.append(_section(site, platform, device, entries))
                series += entries
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
    notes, roofs = Footnotes(), site.roof_choice(platform, device).roofs
    colours = colours_of(tuple(dict.fromkeys(entry.key.implementation for entry in entries)))
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
        "chart": draw(dots, drawn_roofs, dtypes, _names(drawn)).svg(label),
        "legend": [
            *((legend_mark("circle", colour), name) for name, colour in colours.items()),
            *((legend_mark(marks[name], "currentcolor"), kernel) for name, kernel in kernels.items() if has_marks),
        ],
        "rows": [
            _row(entry, site.commits[entry.commit], has_roofs=roofs is not None, notes=notes) for entry in entries
        ],
        "footnotes": notes.texts,
        "traffic": PageTable(f"simulated traffic of {platform.machine}", TRAFFIC, [*_traffic(site, platform, device)]),
    }


def _traffic(site: Site, platform: Platform, device: str) -> Iterator[tuple[str, ...]]:
    """Yield what the newest counted call of each series moves, beside what the model says."""
    newest: dict[tuple[str, str, str], tuple[int, float]] = {}
    for key, series in site.tracked.items():
        kernel, of_device, method = name_parts(key.benchmark)
        if (key.machine, key.environment, of_device, method) == (
            platform.machine,
            platform.environment,
            device,
            MISSES,
        ):
            slot, value = (kernel, key.case, key.implementation), (int(series.position[-1]), float(series.value[-1]))
            newest[slot] = max(value, newest.get(slot, value))
    for (kernel, counted, implementation), (_, lines) in newest.items():
        timed = site.past.benchmarks.get(f"{kernel}.{device}.time_hot")
        case = counted.removesuffix(f"-{COUNTED_ON}")
        if timed is None or not timed.bytes_moved.get(case) or not lines:
            continue
        expected, moved, flop = timed.bytes_moved[case], lines * CACHE_LINE, timed.flop.get(case)
        intensities = [units.intensity(flop / size, dtype_of(case)) if flop else DASH for size in (expected, moved)]
        times = f"{moved:,.0f} B, {moved / expected:.2f} times"
        yield f"{kernel}, {case}, {implementation}", f"{expected:,.0f} B", times, *intensities


def _dots(site: Site, entry: Placed, shape: str, colour: str) -> Iterator[Mark]:
    """Yield the dots of a series with an intensity: the levels that it left, oldest first, then the newest value."""
    series, flop = entry.series, (entry.series.flop or 0.0) / GIGA
    name = f"{entry.kernel} · {entry.key.case} · {entry.key.implementation}"
    names = {f"data_{name}": getattr(entry.key, name) for name in NARROWED}
    mark = partial(Mark, x=entry.intensity or 0.0, shape=shape, colour=colour, attributes=names)

    def commit(sha: str) -> str:
        recorded = site.commit(sha)
        return sha[:SHORT] if recorded is None else f"{sha[:SHORT]} {recorded.subject}"

    levels = site.levels[entry.key]
    for point, commits in zip(levels.points, levels.ranges, strict=True):
        if point.is_blamed:
            sha, rate = site.line[series.position[point.index]], flop / math.exp(point.before)
            change = text.verdict(of_step(point, series.better), series.unit)
            cause = commit(commits.culprit) if commits.culprit else str(commits)
            title = f"{name}: {units.rate(rate, entry.key.rate_unit)} until {cause}: {change}"
            yield mark(y=rate, title=title, href=text.commit_href(site.commits[sha]), to=flop / entry.seconds)
    figures = [_achieved(entry), units.intensity(entry.intensity or 0.0, entry.key.dtype), units.seconds(entry.seconds)]
    if entry.roofline is not None:
        figures += [f"{model.percent(entry.roofline.of_limit)} of {entry.roofline.limit}"]
    title = f"{name}: {', '.join(figures)}; {commit(entry.commit)}"
    yield mark(y=flop / entry.seconds, title=title, href=text.commit_href(site.commits[entry.commit]))


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
        yield Name(intensity=intensity, text=words or units.listed(kernels, 2), attributes=attributes)


def _row(entry: Placed, commit: Commit, *, has_roofs: bool, notes: Footnotes) -> dict[str, Any]:
    """Return a series as a row. A dash where something is not known."""
    roofline, unit = entry.roofline, entry.key.rate_unit
    row = text.names_of(entry.key) | {
        "name": series_name(entry.key),
        "benchmark": entry.key.benchmark,
        "href": text.trend_href(entry.key),
        "commit": commit.short,
        "commit_href": text.commit_href(commit),
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


# ---- the plot ----------------------------------------------------------------------------------------------------

HEIGHT = 420  # px
DESK = 640  # px of the frame's width, at least; a phone shows no names of dots
GIGA = 1e9
ROOM = 4.0  # times: how far the intensities go beyond the points and ridges
MARGIN = 2.0  # times: likewise the rates; labels stand there
LINE, LETTER = 15, 6.6  # px of a line of text, and of a letter in it
ANCHORS = {"start": 0.0, "middle": 0.5, "end": 1.0}
DOT = 7  # px from the middle of a point to its end
APART = 1.5  # times: labels of lines that lie closer would cover each other, and are merged
STEPS = 10  # parts of half a line, at which its label may begin or end

Anchor = tuple[float, float, int, int]  # FLOP/B, GFLOPS, px to the right and downwards


@dataclass(frozen=True, kw_only=True)
class Name:
    """A text above or below the dots of an intensity, FLOP/B."""

    intensity: float
    text: str
    attributes: Mapping[str, str]  # as `element` takes them


def draw(dots: Sequence[Mark], roofs: Roofs, dtypes: Collection[str], names: Iterable[Name] = ()) -> Plot:
    """Return a plot of dots below the roofs of a device.

    Args:
        dots: x in FLOP/B, y in GFLOPS, the lowest layer first. dtypes: of the dots.
        names: written where there is room for them.
    """
    peaks = {dtype: peak for dtype, peak in roofs.peaks.items() if peak is not None}
    slopes = [(level.name, level.bandwidth) for level in roofs.levels if level.bandwidth is not None]
    plot = _axes(dots, slopes, peaks, dtypes)
    writer = _Writer(plot, dots)
    _draw_roofs(plot, slopes, peaks, dtypes)
    _name_peaks(writer, peaks)
    _name_slopes(writer, slopes)
    for name in names:
        _name_dots(writer, name, [dot.y for dot in dots if dot.x == name.intensity])
    for dot in dots:
        plot.mark(dot)
    return plot


def _axes(
    dots: Sequence[Mark], slopes: Sequence[tuple[str, float]], peaks: Mapping[str, float], dtypes: Collection[str]
) -> Plot:
    """Return an empty plot whose axes hold the dots and the roofs. The ridges of other dtypes may lie outside."""
    xs = [dot.x for dot in dots]
    xs += [peak / slope for _, slope in slopes for dtype, peak in peaks.items() if dtype in dtypes]
    low, high = min(xs, default=1.0) / ROOM, max(xs, default=1.0) * ROOM
    ys = [dot.y for dot in dots] + [rate / GIGA for rate in (*peaks.values(), *(slope * low for _, slope in slopes))]
    names = {*peaks, *dtypes}
    return Plot(
        Span(title=f"arithmetic intensity, {units.intensity_units(names)}", low=low, high=high, is_log=True),
        Span(
            title=f"rate, {units.rate_units(names)}",
            low=min(ys, default=1.0) / MARGIN,
            high=max(ys, default=1.0) * MARGIN,
            is_log=True,
            words=_tick,
        ),
        height=HEIGHT,
    )


def _tick(rate: float) -> str:
    """Return a round rate, 10^9 a second, for an axis: "200 G", "1 T"."""
    prefix, scale = units.prefix(rate)
    return f"{rate / scale:,g} {prefix}"


def _draw_roofs(
    plot: Plot, slopes: Sequence[tuple[str, float]], peaks: Mapping[str, float], dtypes: Collection[str]
) -> None:
    """Draw the slope of every measured bandwidth up to the highest peak, and a level line for every peak.

    The lines of dtypes that have no dot are fainter.
    """
    left, right = plot.x.low, plot.x.high
    highest = max(peaks.values(), default=plot.y.high * GIGA)
    for name, slope in slopes:
        end = min(right, highest / slope)
        points = [(x, slope * x / GIGA) for x in (left, end)]
        plot.line(points, "roof" if name == MEMORY else "roof dashed")
    for dtype, peak in peaks.items():
        start = max(left, min((peak / slope for _, slope in slopes), default=left))
        plot.line([(start, peak / GIGA), (right, peak / GIGA)], "roof" if dtype in dtypes else "roof faint")


class _Writer:
    """Writes texts where they cover neither dots nor each other in a frame as wide as a DESK's."""

    def __init__(self, plot: Plot, dots: Iterable[Mark]) -> None:
        self.plot = plot
        dots_at = {self._pixel(dot.x, dot.y) for dot in dots}
        self._covered = [(x - DOT, x + DOT, y - DOT, y + DOT) for x, y in dots_at]

    def _pixel(self, x: float, y: float) -> tuple[int, int]:
        plot = self.plot
        return round(plot.x.at(x) / SQUARE * DESK), round(plot.y.at(y) / SQUARE * plot.height)

    def write(
        self, text: str, anchors: Sequence[Anchor], anchor: str, *, is_needed: bool = True, **attributes: str
    ) -> None:
        """Write a text at the first of some places where it covers nothing. If there is none, at the first if needed.

        Args:
            anchor: "start", "middle" or "end" of the text, which lies at the place.
        """
        width = round(LETTER * len(text))
        for x, y, dx, dy in anchors:
            left, top = self._pixel(x, y)
            left += dx - round(width * ANCHORS[anchor])
            right, top, bottom = left + width, top + dy - LINE + 3, top + dy + 3
            is_inside = left >= 0 and right <= DESK and top >= 0 and bottom <= self.plot.height
            if is_inside and not any(
                left < end and start < right and top < low and high < bottom for start, end, high, low in self._covered
            ):
                self._covered.append((left, right, top, bottom))
                break
        else:
            if not is_needed:
                return
            x, y, dx, dy = anchors[0]
        self.plot.write(x, y, text, dx=dx, dy=dy, anchor=anchor, **attributes)


def _name_slopes(writer: _Writer, slopes: Sequence[tuple[str, float]]) -> None:
    """Write DRAM's label below its line, which rises away from it, and the labels of all caches in the upper corner.

    The lines of caches lie too close for labels of their own, and a machine has no points in that corner. DRAM's label
    moves up the slope to where no point is.
    """
    left, right, top = writer.plot.x.low, writer.plot.x.high, writer.plot.y.high
    caches = [f"{name} {units.bandwidth(slope / GIGA)}" for name, slope in slopes if name != MEMORY]
    lines = ["dashed, from above:" if len(caches) > 1 else "dashed:", *caches] if caches else []
    for number, line in enumerate(lines, start=1):
        writer.write(line, [(left, top, 8, LINE * number)], "start", class_="caches")
    for name, slope in slopes:
        if name == MEMORY:
            starts = [left * (right / left) ** (step / (2 * STEPS)) for step in range(STEPS)]
            anchors = [(x, slope * x / GIGA, 14, 16) for x in starts]
            writer.write(f"{name} {units.bandwidth(slope / GIGA)}", anchors, "start")


def _name_peaks(writer: _Writer, peaks: Mapping[str, float]) -> None:
    """Write the labels of the level lines, highest first. Lines that lie close share one.

    "float32, float16 247 GFLOPS, tf32 300 GFLOPS": a phone has no room to repeat a rate.
    """
    left, right = writer.plot.x.low, writer.plot.x.high
    groups: list[list[tuple[str, float]]] = []
    for peak in sorted(peaks.items(), key=lambda pair: -pair[1]):
        if groups and groups[-1][0][1] < APART * peak[1]:
            groups[-1].append(peak)
        else:
            groups.append([peak])
    for group in groups:
        rates = [(dtype, units.rate(peak / GIGA, units.rate_unit(dtype))) for dtype, peak in group]
        equal = itertools.groupby(rates, key=lambda pair: pair[1])
        text = ", ".join(f"{', '.join(dtype for dtype, _ in pairs)} {rate}" for rate, pairs in equal)
        ends = [right * (left / right) ** (step / (2 * STEPS)) for step in range(STEPS)]
        writer.write(text, [(x, group[0][1] / GIGA, -4, -6) for x in ends], "end")


def _name_dots(writer: _Writer, name: Name, rates: Sequence[float]) -> None:
    """Write a name above or below the dots of some rates, GFLOPS, where there is room for it."""
    above = [(name.intensity, max(rates), 0, -12 - LINE * line) for line in range(3)]
    below = [(name.intensity, min(rates), 0, 22 + LINE * line) for line in range(3)]
    writer.write(name.text, [*above, *below], "middle", is_needed=False, class_="name", **name.attributes)
