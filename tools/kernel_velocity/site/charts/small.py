"""Small charts as the coordinates of an SVG, for a page that draws them without a script. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT, EDGE = 220, 48, 5  # in the SVG's own units
LEAST_SPAN = 0.1  # of the middle value: a chart that showed the noise of .1% as a mountain would lie


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
