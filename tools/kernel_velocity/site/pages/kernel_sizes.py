"""The newest rates by size, a line for each implementation, below the roof of each size: static charts.

Test cases belong together whose names differ in a number alone. Where the work of a call is unknown, as in other
suites, the values themselves are drawn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from markupsafe import Markup

from kernel_velocity import units
from kernel_velocity.past.columns import Columns
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.site.charts import plot
from kernel_velocity.site.charts.plot import Mark, Plot, Span
from kernel_velocity.site.pages import kernel_chart
from kernel_velocity.site.pages.kernel_chart import Chart, Group

GIGA = 1e9
PEAK = "peak"  # ends the limit of what computes more than it moves: "float32 peak"
WIDE = 10.0  # times: values further apart have a logarithmic axis
APART = 1.5  # times: how far ticks lie apart
ROOM = 1.15  # times: how far the axis of sizes goes beyond the points
MOST = 6  # charts of a part of the page
# A number in a test case's name, or several: "5M", "1024x1024x64". Of "float32" or "1.5" it is none.
_SIZE = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:x\d+)*)([kMG]?)(?![\w.])")
_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
_LEFT = "\u2026"  # in place of the size


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A chart of test cases whose names differ in a size."""

    title: str
    legend: Sequence[tuple[Markup, str]]
    svg: Markup
    has_roof: bool


@dataclass(frozen=True, kw_only=True)
class _Point:
    """The newest value of a series: a rate, 10^9 per second, or what was measured."""

    key: SeriesKey
    size: float
    value: float
    seconds: float
    commit: str
    roof: Mapping[str, Any] | None  # the least time of a call and its limit (kernel_chart.roof)


@dataclass(frozen=True, kw_only=True)
class _Quantity:
    """What a chart shows."""

    title: str
    unit: str
    is_rate: bool = True

    def words(self, value: float) -> str:
        """Return a value as text."""
        return units.rate(value, self.unit) if self.is_rate else units.value(value, self.unit)

    def scale(self, value: float) -> tuple[str, float]:
        """Return the unit of an axis up to a value, and how many of the values' own unit it is."""
        if not self.is_rate:
            return kernel_chart.scale_of(self.unit, value)
        prefix, scale = units.prefix(value)
        return f"{prefix}{self.unit[1:]}", scale


def figures(chart: Chart, group: Group) -> list[Figure]:
    """Return a chart for each set of test cases that differ in a size alone and have values of two sizes."""
    alike: dict[str, dict[SeriesKey, tuple[int, ...]]] = {}
    sizes = sizes_of(dict.fromkeys(key.case for key in group.columns))
    for key in group.columns:
        if key.case in sizes:
            title, dims = sizes[key.case]
            alike.setdefault(title, {})[key] = dims
    made = (_figure(chart, group.columns, title, dims) for title, dims in alike.items())
    return [figure for figure in made if figure is not None][:MOST]


def sizes_of(cases: Iterable[str]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the rest of a test case's name and its size, by test case. Names without a number are left out.

    Of several numbers the size is the one that has most values in names of the same form.
    """
    forms: dict[str, dict[str, list[re.Match[str]]]] = {}
    for case in cases:
        numbers = [*_SIZE.finditer(case)]
        if numbers:
            forms.setdefault(_SIZE.sub(_LEFT, case), {})[case] = numbers
    sizes = {}
    for form in forms.values():
        counts = [len({match[0] for match in matches}) for matches in zip(*form.values(), strict=True)]
        for case, numbers in form.items():
            size = numbers[counts.index(max(counts))]
            rest = f"{case[: size.start()]}{_LEFT}{case[size.end() :]}".strip(f"-_,:= {_LEFT}")
            sizes[case] = rest, tuple(int(extent) * _FACTORS[size[2]] for extent in size[1].split("x"))
    return sizes


def _figure(
    chart: Chart, columns: Mapping[SeriesKey, Columns], rest: str, dims: Mapping[SeriesKey, tuple[int, ...]]
) -> Figure | None:
    are_cubes = all(len(extents) > 1 and len(set(extents)) == 1 for extents in dims.values())
    sizes = {key: extents[0] if are_cubes else math.prod(extents) for key, extents in dims.items()}
    limits = [roof["text"] for key in dims if (roof := chart.series[key]["roof"]) is not None]
    is_moving = bool(limits) and not any(limit.endswith(PEAK) for limit in limits)
    quantity, points = _points(chart, columns, sizes, is_moving=is_moving)
    if len({point.size for point in points}) < 2:
        return None
    points.sort(key=lambda point: point.size)
    frame = _frame(points, "n, of n x n x n" if are_cubes else "size", quantity)
    _draw_roof(frame, points)
    hues, shapes = plot.colours_of(chart.implementations), list(plot.MARKS)
    looks = {name: (shapes[number % len(shapes)], hues[name]) for number, name in enumerate(chart.implementations)}
    shown = [name for name in looks if any(point.key.implementation == name for point in points)]
    for name in shown:
        line = [point for point in points if point.key.implementation == name]
        shape, colour = looks[name]
        frame.line([(point.size, point.value) for point in line], colour=colour)
        for point in line:
            frame.mark(Mark(x=point.size, y=point.value, shape=shape, colour=colour, title=_title(point, quantity)))
    title = ", ".join(filter(None, (f"{quantity.title} by size", rest)))
    legend = [(plot.legend_mark(*looks[name]), name) for name in shown if name]
    return Figure(title=title, legend=legend, svg=frame.svg(title), has_roof=bool(limits))


def _points(
    chart: Chart, columns: Mapping[SeriesKey, Columns], sizes: Mapping[SeriesKey, float], *, is_moving: bool
) -> tuple[_Quantity, list[_Point]]:
    """Return the newest rates of some series, bandwidths where bytes bind, values where no work is known."""
    first = columns[next(iter(sizes))]
    flop, moved = {key: columns[key].flop for key in sizes}, {key: columns[key].bytes_moved for key in sizes}
    if any(flop.values()) and not is_moving:
        quantity, work = _Quantity(title="rate", unit=first.key.rate_unit), flop
    elif any(moved.values()):
        quantity, work = _Quantity(title="bandwidth", unit="GB/s"), moved
    else:
        quantity = _Quantity(title=kernel_chart.quantity_of(first.unit), unit=first.unit, is_rate=False)
        work = dict.fromkeys(sizes)
    points = []
    for key, size in sizes.items():
        measured, done = np.flatnonzero(columns[key].is_measured), work[key]
        if measured.size and size and (done or not quantity.is_rate):
            seconds = float(columns[key].seconds[measured[-1]])
            points.append(
                _Point(
                    key=key,
                    size=size,
                    value=done / seconds / GIGA if done else seconds,
                    seconds=seconds,
                    commit=chart.site.line[columns[key].position[measured[-1]]],
                    roof=chart.series[key]["roof"],
                )
            )
    return quantity, points


def _frame(points: Sequence[_Point], size: str, quantity: _Quantity) -> Plot:
    """Return an empty chart that all points and their roofs fit in."""
    values = [point.value for point in points] + [roof for _, roof, _ in _roofs(points)]
    least, most = min(values), max(values)
    name, scale = quantity.scale(max(map(abs, values)))
    is_log = least > 0 and most > WIDE * least
    sizes = [point.size for point in points]
    span = plot.around(name, values, low=None if is_log or least < 0 else 0.0, is_log=is_log)
    return Plot(
        Span(
            title=size,
            low=min(sizes) / ROOM,
            high=max(sizes) * ROOM,
            is_log=True,
            words=_count,
            at=tuple(_apart(sizes)),
        ),
        replace(span, words=lambda value: f"{value / scale:,.4g}"),
    )


def _apart(sizes: Iterable[float]) -> Iterator[float]:
    """Yield sizes of which each is APART times the one before, or more, so that their texts have room."""
    before = 0.0
    for size in sorted(sizes):
        if size >= APART * before:
            yield size
            before = size


def _count(size: float) -> str:
    """Return a size as the test cases name it: "500k", "1M"."""
    for factor, prefix in ((1e6, "M"), (1e3, "k")):
        if size >= factor and (size / factor).is_integer():
            return f"{size / factor:,g}{prefix}"
    return f"{size:,g}"


def _roofs(points: Iterable[_Point]) -> list[tuple[float, float, str]]:
    """Return size, rate and limit of each size's roof, by size."""
    roofs = {
        point.size: (point.value * point.seconds / point.roof["seconds"], point.roof["text"])
        for point in points
        if point.roof is not None
    }
    return [(size, *roof) for size, roof in roofs.items()]


def _draw_roof(frame: Plot, points: Sequence[_Point]) -> None:
    """Draw the roofs that are known, and name the limit where it is another one than at the size before."""
    roofs = _roofs(points)
    if roofs:
        frame.line([(size, rate) for size, rate, _ in roofs], "roof dashed")
    before = ""
    for size, rate, limit in roofs:
        if limit != before:
            frame.write(size, rate, limit, dx=4, dy=-7, class_="name")
        before = limit


def _title(point: _Point, quantity: _Quantity) -> str:
    roof, name = point.roof, ", ".join(filter(None, (point.key.implementation, point.key.case)))
    share = "" if roof is None else f", {units.share(roof['seconds'] / point.seconds)} of {roof['text']}"
    return f"{name}: {quantity.words(point.value)}{share} ({point.commit[:SHORT]})"
