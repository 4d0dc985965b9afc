"""Small SVG figures as part of a page: they need no script, and print as they are. Pure.

Figures of what is known when the page is written. plot.py draws charts with axes, uPlot those that a reader can zoom,
and static/measurement.js those of data that a page loads.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from markupsafe import Markup, escape

from kernel_velocity import units

WIDTH, WIDE = 120, 240  # of a sparkline, and of one on a card
HEIGHT, EDGE = 28, 3
POINTS = 40  # the newest commits of a trend; more need more room, and a page has thousands of these
LEAST_SPAN = 0.1  # relative to the middle: noise of .1% must not look like a mountain
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
    return str(value) if isinstance(value, Markup | int | float) else html.escape(str(value))


def trend(
    values: Sequence[float], unit: str, *, marked: int | None = None, tone: str = "", width: int = WIDTH
) -> Markup:
    """Return a sparkline of the newest POINTS of some values, which says where it begins and ends.

    Args:
        values: one per commit, oldest first. marked: the index of the first value after a step. tone: its class.
    """
    shown = values[-POINTS:]
    count = f"{len(values)} commits" if len(shown) == len(values) else f"the last {POINTS} of {len(values):,} commits"
    label = f"from {units.value(shown[0], unit)} to {units.value(shown[-1], unit)} over {count}" if len(shown) else ""
    at = [] if marked is None else [max(marked - len(values) + len(shown), 0)]
    return sparkline(shown, label, marked=at, tone=tone, width=width)


def sparkline(
    values: Sequence[float | None],
    label: str,
    *,
    marked: Iterable[int] = (),
    tone: str = "",
    level: float | None = None,
    width: int = WIDTH,
) -> Markup:
    """Return values scaled to their range, oldest at the left. Empty where fewer than two are known.

    Args:
        values: None or not finite: missing, which breaks the line. marked: the indices of dots of the class `tone`.
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
    step = (width - 2 * EDGE) / (len(values) - 1)

    def up(value: float) -> int:
        return round(EDGE + (HEIGHT - 2 * EDGE) * (0.5 - (value - middle) / half / 2))

    points = {index: (round(EDGE + index * step), up(value)) for index, value in present.items()}
    path = "".join(_path([points[index] for index in run]) for run in runs(points))
    shapes = [] if level is None else [element("line", class_="level", x2=width, y1=up(level), y2=up(level))]
    shapes.append(element("path", d=path))
    dots = [(points[index], tone, 3.5) for index in marked if index in points]
    shapes += [
        element("circle", class_=css, cx=x, cy=y, r=r) for (x, y), css, r in [*dots, (points[max(points)], "", 2.5)]
    ]
    box = f"0 0 {width} {HEIGHT}"
    return element("svg", element("title", escape(label)), *shapes, class_="sparkline", viewBox=box, role="img")


def _path(points: Sequence[tuple[int, int]]) -> str:
    """Return a line through points, of one a dot."""
    steps = " ".join(f"{x - left} {y - above}" for (left, above), (x, y) in pairwise(points))
    return f"M{points[0][0]} {points[0][1]}{f'l{steps}' if steps else 'h0'}"


class Axis:
    """Maps values to coordinates, by their logarithms on a logarithmic axis."""

    def __init__(self, low: float, high: float, start: float, end: float, *, is_log: bool = False) -> None:
        self.low, self.high, self._start, self._end, self._is_log = low, high, start, end, is_log

    def at(self, value: float) -> float:
        """Return the coordinate of a value. One beyond the ends lies at the end."""
        inside = min(max(value, self.low), self.high)
        scale = math.log if self._is_log else float
        low, high = scale(self.low), scale(self.high)
        return self._start + (scale(inside) - low) / (high - low) * (self._end - self._start)


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
