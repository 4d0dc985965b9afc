"""The newest rates of a kernel by size, a line for each implementation, below the roof of each size: static charts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from kernel_velocity import units
from kernel_velocity.harness import cases
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.series.columns import Columns
from kernel_velocity.site.charts import palette, plot
from kernel_velocity.site.charts.plot import Mark, Plot, Span
from kernel_velocity.site.pages.kernel_chart import Chart, Group

GIGA = 1e9
PEAK = "peak"  # ends the limit of what computes more than it moves: "float32 peak"
WIDE = 10.0  # times: rates further apart have a logarithmic axis
APART = 1.5  # times: how far ticks lie apart
ROOM = 1.15  # times: how far the axes go beyond the points


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A chart of the test cases of a dtype."""

    title: str
    legend: Sequence[tuple[Markup, str]]
    svg: Markup
    has_roof: bool


@dataclass(frozen=True, kw_only=True)
class _Point:
    """The newest time of a series."""

    key: SeriesKey
    size: float
    work: float  # of a call: operations, or bytes
    seconds: float
    commit: str
    roof: Mapping[str, Any] | None  # the least time of a call and its limit (kernel_chart.roof)

    @property
    def rate(self) -> float:
        """The rate, 10^9 per second."""
        return self.work / self.seconds / GIGA


def figures(chart: Chart, group: Group) -> list[Figure]:
    """Return a chart for each dtype that has times of two sizes."""
    dims = {key: dims for key in group.columns if (dims := _dims_of(key.case))}
    made = [
        _figure(chart, {key: group.columns[key] for key in dims if key.dtype == dtype}, dims)
        for dtype in dict.fromkeys(key.dtype for key in dims)
    ]
    return [figure for figure in made if figure is not None]


def _dims_of(case: str) -> tuple[int, ...]:
    """Return the sizes in a test case's name. Empty where it has none."""
    try:
        return cases.dims_of(case)
    except ValueError:
        return ()


def _figure(
    chart: Chart, series: Mapping[SeriesKey, Columns], dims: Mapping[SeriesKey, tuple[int, ...]]
) -> Figure | None:
    are_cubes = all(len(dims[key]) > 1 and len(set(dims[key])) == 1 for key in series)
    limits = [roof["text"] for key in series if (roof := chart.series[key]["roof"]) is not None]
    is_moving = bool(limits) and not any(limit.endswith(PEAK) for limit in limits)
    points = []
    for key, columns in series.items():
        work, measured = columns.bytes_moved if is_moving else columns.flop, np.flatnonzero(columns.is_measured)
        if work is not None and measured.size:
            newest = int(measured[-1])
            points.append(
                _Point(
                    key=key,
                    size=dims[key][0] if are_cubes else math.prod(dims[key]),
                    work=work,
                    seconds=float(columns.seconds[newest]),
                    commit=chart.site.line[columns.position[newest]],
                    roof=chart.series[key]["roof"],
                )
            )
    if len({point.size for point in points}) < 2:
        return None
    points.sort(key=lambda point: point.size)
    dtype = points[0].key.dtype
    unit = "GB/s" if is_moving else points[0].key.rate_unit
    frame = _frame(points, "n, of n x n x n" if are_cubes else "elements", unit)
    _draw_roof(frame, points)
    hues, shapes = palette.colours(chart.implementations), list(plot.MARKS)
    looks = {name: (shapes[number % len(shapes)], hues[name]) for number, name in enumerate(chart.implementations)}
    shown = [name for name in looks if any(point.key.implementation == name for point in points)]
    for name in shown:
        line = [point for point in points if point.key.implementation == name]
        shape, colour = looks[name]
        frame.line([(point.size, point.rate) for point in line], colour=colour)
        for point in line:
            frame.mark(Mark(x=point.size, y=point.rate, shape=shape, colour=colour, title=_title(point, unit)))
    title = f"{'bandwidth' if is_moving else 'rate'} by size, {dtype}"
    legend = [(plot.key(*looks[name]), name) for name in shown]
    return Figure(title=title, legend=legend, svg=frame.svg(title), has_roof=bool(limits))


def _frame(points: Sequence[_Point], size: str, unit: str) -> Plot:
    """Return an empty chart that all points and their roofs fit in."""
    rates = [point.rate for point in points] + [roof for _, roof, _ in _roofs(points)]
    is_log = max(rates) > WIDE * min(rates)
    prefix, scale = units.prefix(max(rates))
    sizes = [point.size for point in points]
    return Plot(
        Span(
            title=size,
            low=min(sizes) / ROOM,
            high=max(sizes) * ROOM,
            is_log=True,
            words=_count,
            at=tuple(_apart(sizes)),
        ),
        Span(
            title=f"{prefix}{unit[1:]}",
            low=min(rates) / ROOM if is_log else 0.0,
            high=max(rates) * ROOM,
            is_log=is_log,
            words=lambda rate: f"{rate / scale:,.4g}",
        ),
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
    roofs = {point.size: point for point in points if point.roof is not None}
    return [
        (size, point.work / point.roof["seconds"] / GIGA, point.roof["text"])
        for size, point in roofs.items()
        if point.roof
    ]


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


def _title(point: _Point, unit: str) -> str:
    share = (
        "" if point.roof is None else f", {units.share(point.roof['seconds'] / point.seconds)} of {point.roof['text']}"
    )
    return (
        f"{point.key.implementation}, {point.key.case}: {units.rate(point.rate, unit)}{share} ({point.commit[:SHORT]})"
    )
