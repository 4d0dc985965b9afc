"""Roofline plots: rates over arithmetic intensity, both logarithmic, below the roofs of a device. Pure.

A slope is a memory's bandwidth, a level line a dtype's peak (Williams, Waterman and Patterson, Roofline: An Insightful
Visual Performance Model, CACM 52(4), 2009).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernel_velocity import units
from kernel_velocity.roofline.model import MEMORY, Roofs
from kernel_velocity.site.charts.plot import SQUARE, Mark, Plot, Span

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
    attributes: Mapping[str, str]  # as `svg.element` takes them


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
