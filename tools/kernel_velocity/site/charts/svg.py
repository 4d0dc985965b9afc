"""Small SVG figures as part of a page: they need no script, and print as they are. Pure.

Figures of what is known when the page is written. plot.py draws charts with axes, uPlot those that a reader can zoom,
and static/measurement.js those of data that a page loads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from markupsafe import Markup, escape

from kernel_velocity import units

SPARK_WIDTH, SPARK_HEIGHT, SPARK_EDGE = 120, 28, 3
WIDE = 240  # a sparkline on a card
POINTS = 40  # the newest commits of a sparkline; more need more room, and a page has thousands of these
WIDTH, HEIGHT, EDGE = 220, 48, 5  # of a history
LEAST_SPAN = 0.1  # of a history, relative to its middle: noise of .1% must not look like a mountain
TICKS = 4  # about so many on an axis
PADDING = 0.08  # of an axis, beyond its values


def element(name: str, *children: str, **attributes: object) -> Markup:
    """Return an SVG element, without attributes that are empty.

    A name that Python reserves ends in "_". "_" within a name stands for "-".
    """
    # of plain strings: a page has thousands of these, and joining Markup takes three times as long
    pairs = [(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value != ""]
    head = "".join([f' {key}="{_escaped(value)}"' for key, value in pairs])
    return Markup(f"<{name}{head}>{''.join(map(_escaped, children))}</{name}>" if children else f"<{name}{head}/>")


def _escaped(value: object) -> str:
    return str(value) if isinstance(value, Markup | int | float) else str(escape(value))


def figure(css: str, width: int, height: int, label: str, shapes: Iterable[Markup], *, title: bool = True) -> Markup:
    """Return an SVG. `label` says what it shows to those who do not see it, as a title to those who point at it."""
    children = (element("title", escape(label)),) if title else ()
    box = f"0 0 {width} {height}"
    return element("svg", *children, *shapes, class_=css, viewBox=box, role="img", aria_label=label)


def sparkline(
    values: Sequence[float], unit: str, *, marked: int | None = None, tone: str = "", width: int = SPARK_WIDTH
) -> Markup:
    """Return the newest POINTS of some values, scaled to their range. Empty for fewer than two.

    Args:
        values: one per commit, oldest first. marked: the index of the first value after a step. tone: its class.
    """
    if len(values) < 2:
        return Markup("")
    shown = values[-POINTS:]
    low, high = min(shown), max(shown)
    middle = low / 2 + high / 2
    half = max(high / 2 - low / 2, LEAST_SPAN / 2 * abs(middle)) or 1.0
    step, room = (width - 2 * SPARK_EDGE) / (len(shown) - 1), SPARK_HEIGHT - 2 * SPARK_EDGE
    points = [
        (round(SPARK_EDGE + index * step), round(SPARK_EDGE + room * (0.5 - (value - middle) / half / 2)))
        for index, value in enumerate(shown)
    ]
    steps = " ".join(f"{x - left} {y - above}" for (left, above), (x, y) in pairwise(points))
    count = f"{len(values)} commits" if len(shown) == len(values) else f"the last {POINTS} of {len(values):,} commits"
    label = f"from {units.value(shown[0], unit)} to {units.value(shown[-1], unit)} over {count}"
    shapes = [element("path", d=f"M{points[0][0]} {points[0][1]}l{steps}")]
    at = -1 if marked is None else max(marked - len(values) + len(shown), 0)
    if marked is not None and 0 <= at < len(points):
        shapes.append(element("circle", class_=tone, cx=points[at][0], cy=points[at][1], r=3.5))
    shapes.append(element("circle", cx=points[-1][0], cy=points[-1][1], r=2.5))
    box = f"0 0 {width} {SPARK_HEIGHT}"
    return element("svg", element("title", escape(label)), *shapes, class_="sparkline", viewBox=box, role="img")


def history(values: Sequence[float | None], *, marked: Sequence[bool], level: float | None, label: str) -> Markup:
    """Return values over sessions, oldest at the left. Empty where fewer than two are known.

    Args:
        values: None or not finite: missing, which breaks the line. marked: which values stand out.
        level: of a horizontal line.
    """
    present = {index: value for index, value in enumerate(values) if value is not None and math.isfinite(value)}
    if len(present) < 2:
        return Markup("")
    low, high = min(present.values()), max(present.values())
    if level is not None:
        low, high = min(low, level), max(high, level)
    middle = low / 2 + high / 2
    half = max(high / 2 - low / 2, LEAST_SPAN / 2 * abs(middle)) or 1.0
    x = Axis(0, len(values) - 1, EDGE, WIDTH - EDGE)
    y = Axis(middle - half, middle + half, HEIGHT - EDGE, EDGE)
    shapes = [] if level is None else [element("line", class_="level", x1=0, x2=WIDTH, y1=y(level), y2=y(level))]
    shapes += [line((x(i), y(present[i])) for i in run) for run in runs(present) if len(run) > 1]
    for index, value in present.items():
        css, radius = ("moved", 4) if marked[index] else ("", 2.5)
        shapes.append(element("circle", class_=css, cx=x(index), cy=y(value), r=radius))
    return figure("history", WIDTH, HEIGHT, label, shapes)


class Axis:
    """Maps values to coordinates, by their logarithms on a logarithmic axis."""

    def __init__(self, low: float, high: float, start: float, end: float, *, is_log: bool = False) -> None:
        self.low, self.high, self._start, self._end, self._is_log = low, high, start, end, is_log

    def __call__(self, value: float) -> str:
        """Return the coordinate of a value. One beyond the ends lies at the end."""
        return f"{self.at(value):.1f}"

    def at(self, value: float) -> float:
        """Return the same coordinate as a number."""
        inside = min(max(value, self.low), self.high)
        scale = math.log if self._is_log else float
        low, high = scale(self.low), scale(self.high)
        return self._start + (scale(inside) - low) / (high - low) * (self._end - self._start)


def vertical(values: Sequence[float], *, top: float, bottom: float) -> Axis:
    """Return a vertical axis with all of some values on it, and room around them."""
    low, high = min(values), max(values)
    room = PADDING * (high - low) or abs(high) * 0.01 or 1.0  # all equal: a line in the middle
    return Axis(low - room, high + room, bottom, top)


def ticks(low: float, high: float) -> list[float]:
    """Return up to six round numbers between two (low < high): multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def runs(indices: Iterable[int]) -> Iterator[list[int]]:
    """Yield ascending indices in runs of consecutive ones."""
    run: list[int] = []
    for index in indices:
        if run and run[-1] != index - 1:
            yield run
            run = []
        run.append(index)
    if run:
        yield run


def line(points: Iterable[tuple[str, str]], css: str = "") -> Markup:
    """Return a line through points."""
    return element("polyline", class_=css, points=" ".join(f"{x},{y}" for x, y in points))


def band(points: Sequence[tuple[str, str, str]]) -> Markup:
    """Return the area between low and high along x."""
    outline = [*(f"{x},{high}" for x, _, high in points), *(f"{x},{low}" for x, low, _ in reversed(points))]
    return element("polygon", class_="band", points=" ".join(outline))
