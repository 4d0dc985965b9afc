"""Axes of the figures of findings: values to coordinates of a small SVG, and round numbers to mark them by. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 420, 230  # of a figure, in its own units: a phone shows it almost as large
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 34  # of what is around the axes
TICKS = 4  # about so many on an axis
PADDING = 0.08  # of an axis, beyond its values


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


def vertical(values: Sequence[float], *, top: float = TOP, bottom: float = HEIGHT - BOTTOM) -> Axis:
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
