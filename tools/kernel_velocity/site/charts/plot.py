"""A chart as SVG: two axes, linear or logarithmic, and on them lines, bars, dots, and marks with titles. Pure.

It needs no script and fits every width: lines lie in a square that is stretched over the frame, texts and marks keep
their size. What has no colour of an implementation has the page's, light or dark (.frame in style.css).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from kernel_velocity.site.charts.svg import PADDING, Axis, element, ticks

HEIGHT = 210  # px
SQUARE = 1000  # units that the frame is wide, and high
MARKS = {  # outlines of marks around their place, px
    "circle": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
    "square": "M-4.5-4.5h9v9h-9z",
    "triangle": "M0-6l6 10.5h-12z",
    "diamond": "M0-6.5l6 6.5l-6 6.5l-6-6.5z",
    "inverted triangle": "M0 6l6-10.5h-12z",
    "cross": "M-2-6h4v4h4v4h-4v4h-4v-4h-4v-4h4z",
}
FEW_DECADES = 2  # of a logarithmic axis, up to which it has ticks at 2 and 5, too


@dataclass(frozen=True, kw_only=True)
class Span:
    """What an axis shows: its title and its ends, low < high. Both are > 0 where it is logarithmic."""

    title: str
    low: float
    high: float
    is_log: bool = False
    words: Callable[[float], str] = "{:,.7g}".format  # of a tick
    at: tuple[float, ...] = ()  # its ticks; none: round numbers

    def ticks(self) -> list[float]:
        """Return where the ticks are, between the ends."""
        if self.at:
            return list(self.at)
        if not self.is_log or self.high < 10 * self.low:
            return ticks(self.low, self.high)
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        factors = (1, 2, 5) if last - first <= FEW_DECADES else (1,)
        marks = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
        return [mark for mark in marks if self.low <= mark <= self.high]


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A dot with a title, for those who point at it or listen."""

    x: float
    y: float
    shape: str  # of MARKS
    colour: str
    title: str
    href: str = ""
    is_hollow: bool = False
    to: float | None = None  # of an older value: the newest one, to which a line leads
    attributes: Mapping[str, str] = field(default_factory=dict)  # others, as `svg.element` takes them


def around(title: str, values: Sequence[float], *, low: float | None = None, is_log: bool = False) -> Span:
    """Return an axis with all of some values (at least one) on it, and room around them. `low`: its lower end."""
    least, most = min(values), max(values)
    if is_log:
        room = max((most / least) ** PADDING, 1.2)
        return Span(title=title, low=least / room, high=most * room, is_log=True)
    room = PADDING * (most - least) or abs(most) * 0.01 or 1.0
    return Span(title=title, low=least - room if low is None else low, high=most + room)


def key(shape: str, colour: str) -> Markup:
    """Return a mark for a legend."""
    return element("svg", element("path", d=MARKS[shape], fill=colour), class_="key", viewBox="-8 -8 16 16")


class Plot:
    """A frame with two axes. What is added later lies above what was added before, marks and texts above all lines."""

    def __init__(self, x: Span, y: Span, *, height: int = HEIGHT) -> None:
        self.x = Axis(x.low, x.high, 0, SQUARE, is_log=x.is_log)
        self.y = Axis(y.low, y.high, SQUARE, 0, is_log=y.is_log)
        self.height = height
        self._lines: list[Markup] = []
        self._marks: list[Markup] = []
        self._has_links = False
        for value in y.ticks():
            self.line([(x.low, value), (x.high, value)], "grid")
            self.write(x.low, value, y.words(value), dx=-8, dy=4, anchor="end")
        self.line([(x.low, y.low), (x.high, y.low)], "grid")
        for value in x.ticks():
            self.write(value, y.low, x.words(value), dy=18, anchor="middle")
        self._marks.append(element("text", escape(x.title), x="50%", y="100%", dy=37, text_anchor="middle"))
        turned = f"translate(-62 {height / 2:g}) rotate(-90)"
        self._marks.append(element("text", escape(y.title), transform=turned, text_anchor="middle"))

    def pixel(self, x: float, y: float) -> tuple[str, str]:
        """Return where a point lies, in percent of the frame from its upper left corner."""
        return f"{self.x.at(x) * 100 / SQUARE:.2f}%", f"{self.y.at(y) * 100 / SQUARE:.2f}%"

    def _point(self, x: float, y: float) -> str:
        return f"{self.x.at(x):.0f} {self.y.at(y):.0f}"

    def line(self, points: Iterable[tuple[float, float]], css: str = "", colour: str = "") -> None:
        """Add a line through points. Without a colour it has that of its class."""
        path = "L".join(self._point(x, y) for x, y in points)
        self._lines.append(element("path", class_=f"line {css}".rstrip(), d=f"M{path}", stroke=colour))

    def rule(self, css: str, *, x: float | None = None, y: float | None = None) -> None:
        """Add a line across the frame, upright at `x` or level at `y`."""
        ends = [(self.x.low, y), (self.x.high, y)] if x is None else [(x, self.y.low), (x, self.y.high)]
        self.line([(a, b) for a, b in ends if a is not None and b is not None], css)

    def area(self, ends: Sequence[tuple[float, float, float]], colour: str) -> None:
        """Add the area between low and high ends: x, low and high."""
        outline = [*((x, high) for x, _, high in ends), *((x, low) for x, low, _ in reversed(ends))]
        path = "L".join(self._point(x, y) for x, y in outline)
        if path:
            self._lines.append(element("path", class_="area", d=f"M{path}z", fill=colour))

    def bars(self, bars: Iterable[tuple[float, float, float]], colour: str) -> None:
        """Add bars from 0: left and right end, and height."""
        floor = self.y.at(0.0)
        corners = ((self.x.at(left), self.y.at(top), self.x.at(right)) for left, right, top in bars)
        path = "".join(f"M{left:.0f} {floor:.0f}V{top:.0f}H{right:.0f}V{floor:.0f}z" for left, top, right in corners)
        self._lines.append(element("path", class_="bars", d=path, fill=colour))

    def dots(self, points: Iterable[tuple[float, float]], colour: str, css: str = "") -> None:
        """Add small dots, thousands of them in a few kB: each is a line without a length whose ends are round."""
        path = "".join(f"M{self._point(x, y)}h0" for x, y in points)
        self._lines.append(element("path", class_=f"dots {css}".rstrip(), d=path, stroke=colour))

    def mark(self, mark: Mark) -> None:
        """Add a mark."""
        left, top = self.pixel(mark.x, mark.y)
        parts = [element("title", escape(mark.title))]
        if mark.to is not None:
            parts.append(
                element("line", x1=left, x2=left, y1=top, y2=self.pixel(mark.x, mark.to)[1], stroke=mark.colour)
            )
        moved = f"transform: translate({left}, {top})"
        colours = {"fill": mark.colour, "color": mark.colour if mark.is_hollow else ""}
        parts.append(element("path", d=MARKS[mark.shape], **colours, style=moved))
        self._has_links = self._has_links or bool(mark.href)
        css = "mark older" if mark.to is not None else "mark hollow" if mark.is_hollow else "mark"
        self._marks.append(element("a" if mark.href else "g", *parts, class_=css, href=mark.href, **mark.attributes))

    def write(
        self, x: float, y: float, words: str, *, dx: float = 0, dy: float = 0, anchor: str = "start", **attributes: str
    ) -> None:
        """Add a text `dx` and `dy` px from a point, where it begins, ends, or has its middle."""
        left, top = self.pixel(x, y)
        where = {"x": left, "y": top, "dx": dx or "", "dy": dy or "", "text_anchor": anchor}
        self._marks.append(element("text", escape(words), **where, **attributes))

    def svg(self, label: str) -> Markup:
        """Return the chart. `label` says what it shows to those who do not see it."""
        box = {"viewBox": f"0 0 {SQUARE} {SQUARE}", "preserveAspectRatio": "none"}
        lines = element("svg", *self._lines, class_="lines", width="100%", height="100%", **box)
        role = "group" if self._has_links else "img"  # the parts of an image cannot be reached
        return element("svg", lines, *self._marks, class_="frame", height=self.height, role=role, aria_label=label)
