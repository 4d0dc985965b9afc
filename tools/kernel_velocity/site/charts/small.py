"""Small charts as the coordinates of an SVG, for a page that draws them without a script. Pure.

Small trends: a line of some 30 commits in a table's cell, as the path of an SVG. Pure.

Axes of the figures of findings: values to coordinates of a small SVG, and round numbers to mark them by. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kernel_velocity import units

WIDTH, HEIGHT, EDGE = 220, 48, 5  # in the SVG's own units
LEAST_SPAN = 0.1  # of the middle value: a chart that showed the noise of .1% as a mountain would lie

SPARK_WIDTH, SPARK_HEIGHT, SPARK_EDGE = 120, 28, 3  # in the SVG's own units
POINTS = 32  # the newest commits that are drawn; more are no wider, and a page has thousands of these

AXES_WIDTH, AXES_HEIGHT = 420, 230  # of a figure, in its own units: a phone shows it almost as large
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 34  # of what is around the axes
TICKS = 4  # about so many on an axis
PADDING = 0.08  # of an axis, beyond its values


@dataclass(frozen=True, kw_only=True)
class SmallChart:
    """A line over sessions, oldest at the left; the page says its range beside it."""

    width: int
    height: int
    lines: tuple[str, ...]  # "x,y x,y ..."; more than one where values are missing in between
    dots: tuple[tuple[str, str, bool], ...]  # x, y, whether it is marked
    level: str  # y of the horizontal line; "" for none
    label: str  # what it shows, for those who do not see it


def line(
    values: Sequence[float | None], *, marked: Sequence[bool], level: float | None, label: str
) -> SmallChart | None:
    """Return the chart of values in order; None where fewer than two are known.

    Args:
        values: None and what is not finite: missing. marked: which of them stand out. level: of a horizontal line.
        label: in words.
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    if len(known) < 2:
        return None
    low, high = _range([*known, *([] if level is None else [level])])
    step = (WIDTH - 2 * EDGE) / (len(values) - 1)

    def place(index: int, value: float) -> tuple[str, str]:
        return f"{EDGE + index * step:.1f}", _y(value, low, high)

    runs: list[list[str]] = [[]]
    dots = []
    for index, value in enumerate(values):
        if value is None or not math.isfinite(value):
            runs.append([])
            continue
        x, y = place(index, value)
        runs[-1].append(f"{x},{y}")
        dots.append((x, y, marked[index]))
    return SmallChart(
        width=WIDTH,
        height=HEIGHT,
        lines=tuple(" ".join(run) for run in runs if len(run) > 1),
        dots=tuple(dots),
        level="" if level is None else _y(level, low, high),
        label=label,
    )


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Return what the chart spans: all values, and LEAST_SPAN of their middle at least."""
    low, high = min(values), max(values)
    middle = low / 2 + high / 2
    half = max(high / 2 - low / 2, LEAST_SPAN / 2 * abs(middle)) or 1.0
    return middle - half, middle + half


def _y(value: float, low: float, high: float) -> str:
    return f"{HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * ((value - low) / (high - low)):.1f}"


@dataclass(frozen=True, kw_only=True)
class Sparkline:
    """A small trend in an SVG of WIDTH x HEIGHT; it starts from zero, newest at the right."""

    path: str  # "M3 14l114 -11"
    end: tuple[int, int]  # the newest point
    label: str  # what it shows, for those who do not see it


def sparkline(values: Sequence[float], unit: str, *, commits: int | None = None) -> Sparkline | None:
    """Return the small trend of rates in a unit, one a commit, oldest first; None for fewer than two.

    Args:
        commits: how many there are, where only the newest of them, POINTS at least, are in `values`; None: as many.
    """
    if len(values) < 2:
        return None
    shown = values[-POINTS:]
    points = _points(shown)
    first, last = (units.rate(value, unit) for value in (shown[0], shown[-1]))
    steps = [f"{x - left} {y - above}" for (left, above), (x, y) in pairwise(points)]
    many = _commits(len(shown), commits or len(values))
    return Sparkline(
        path=f"M{points[0][0]} {points[0][1]}l{' '.join(steps)}",
        end=points[-1],
        label=f"from {first} to {last} over {many}",
    )


def _points(values: Sequence[float]) -> list[tuple[int, int]]:
    """Return the coordinates: the highest value at the upper edge, zero at the lower one."""
    top = max(values)
    step = (SPARK_WIDTH - 2 * SPARK_EDGE) / (len(values) - 1)
    return [
        (
            round(SPARK_EDGE + index * step),
            round(SPARK_HEIGHT - SPARK_EDGE - (SPARK_HEIGHT - 2 * SPARK_EDGE) * value / top),
        )
        for index, value in enumerate(values)
    ]


def _commits(shown: int, all_of_them: int) -> str:
    return f"{shown} commits" if shown == all_of_them else f"the last {shown} of {all_of_them:,} commits"


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A mark of an axis."""

    at: str
    text: str


class Axis:
    """Maps values to coordinates."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high, self._start, self._end = low, high, start, end

    def __call__(self, value: float) -> str:
        """Return the coordinate of a value; one beyond the ends lies at the end."""
        inside = min(max(value, self.low), self.high)
        return f"{self._start + (inside - self.low) / (self.high - self.low) * (self._end - self._start):.1f}"


def vertical(values: Sequence[float], *, top: float = TOP, bottom: float = AXES_HEIGHT - BOTTOM) -> Axis:
    """Return a vertical axis on which all of some values lie, with room around them."""
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
