"""Charts as SVG, as part of a page: they need no script, and print as they are. Pure.

`Plot` has two axes, linear or logarithmic, and on them lines, bars, dots, and marks with titles. It fits every width:
lines lie in a square that is stretched over the frame, texts and marks keep their size. `sparkline` is a small one
without axes. What has no colour of an implementation has the page's, light or dark (.frame in style.css).

These show what is known when a page is written. uPlot draws those that a reader can zoom, and static/measurement.js
those of data that a page loads.
"""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from markupsafe import Markup, escape

from kernel_velocity import units

# Four hues that keep a contrast of 3:1 on white and on near-black alike (WCAG's bound for graphics) and that people who
# see no red or no green tell apart (tests/site/test_charts.py; found by a search over what the contrast leaves: 40 of
# CIELAB at least, where violet and blue of one lightness were 1 apart). A further implementation starts over.
COLOURS = {"eager": "#c87418", "compile": "#5a57f2", "native": "#2f846c", "triton": "#2f90cc"}
_OTHERS = ("#d8245f", "#9c6c30", "#80849a")
SOLID = "solid"
# Of the first line of a colour, the second and so on; style.css has the same for swatches
_DASHES = (SOLID, "dashed", "dotted", "dotdash")


def colours_of(implementations: tuple[str, ...]) -> dict[str, str]:
    """Return the colour of every implementation, known ones first. A known one has the same colour on every page."""
    others = [name for name in implementations if name not in COLOURS]
    usual = {name: colour for name, colour in COLOURS.items() if name in implementations}
    return usual | {name: _OTHERS[index % len(_OTHERS)] for index, name in enumerate(others)}


def dashes_of(implementations: tuple[str, ...]) -> dict[str, str]:
    """Return the dashes of every implementation's line: no two lines of one colour have the same."""
    used: Counter[str] = Counter()
    patterns = {}
    for name, colour in colours_of(implementations).items():
        patterns[name] = _DASHES[used[colour] % len(_DASHES)]
        used[colour] += 1
    return patterns


SPARK_WIDTH, SPARK_WIDE = 120, 240  # of a sparkline, and of one on a card
SPARK_HEIGHT, SPARK_EDGE = 28, 3
SPARK_POINTS = 40  # the newest commits of a trend; more need more room, and a page has thousands of these
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


_escape = lru_cache(1024)(html.escape)  # most attributes of a dot are those of the one before


def _escaped(value: object) -> str:
    return str(value) if isinstance(value, Markup | int | float) else _escape(str(value))


def trend(
    values: Sequence[float], unit: str, *, marked: int | None = None, tone: str = "", width: int = SPARK_WIDTH
) -> Markup:
    """Return a sparkline of the newest SPARK_POINTS of some values, which says where it begins and ends.

    Args:
        values: one per commit, oldest first. marked: the index of the first value after a step. tone: its class.
    """
    shown = values[-SPARK_POINTS:]
    count = (
        f"{len(values)} commits" if len(shown) == len(values) else f"the last {SPARK_POINTS} of {len(values):,} commits"
    )
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
    width: int = SPARK_WIDTH,
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
    step = (width - 2 * SPARK_EDGE) / (len(values) - 1)

    def up(value: float) -> int:
        return round(SPARK_EDGE + (SPARK_HEIGHT - 2 * SPARK_EDGE) * (0.5 - (value - middle) / half / 2))

    points = {index: (round(SPARK_EDGE + index * step), up(value)) for index, value in present.items()}
    path = "".join(_path([points[index] for index in run]) for run in runs(points))
    shapes = [] if level is None else [element("line", class_="level", x2=width, y1=up(level), y2=up(level))]
    shapes.append(element("path", d=path))
    dots = [(points[index], tone, 3.5) for index in marked if index in points]
    shapes += [
        element("circle", class_=css, cx=x, cy=y, r=r) for (x, y), css, r in [*dots, (points[max(points)], "", 2.5)]
    ]
    box = f"0 0 {width} {SPARK_HEIGHT}"
    return element("svg", element("title", escape(label)), *shapes, class_="sparkline", viewBox=box, role="img")


def _path(points: Sequence[tuple[int, int]]) -> str:
    """Return a line through points, of one a dot."""
    steps = " ".join(f"{x - left} {y - above}" for (left, above), (x, y) in pairwise(points))
    return f"M{points[0][0]} {points[0][1]}{f'l{steps}' if steps else 'h0'}"


class Axis:
    """Maps values to coordinates, by their logarithms on a logarithmic axis."""

    def __init__(self, low: float, high: float, start: float, end: float, *, is_log: bool = False) -> None:
        self.low, self.high, self._start, self._end = low, high, start, end
        self._scale: Callable[[float], float] = math.log if is_log else float
        self._ends = self._scale(low), self._scale(high)

    def at(self, value: float) -> float:
        """Return the coordinate of a value. One beyond the ends lies at the end."""
        inside = min(max(value, self.low), self.high)
        low, high = self._ends
        return self._start + (self._scale(inside) - low) / (high - low) * (self._end - self._start)


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
    attributes: Mapping[str, str] = field(default_factory=dict)  # others, as `element` takes them


def around(title: str, values: Sequence[float], *, low: float | None = None, is_log: bool = False) -> Span:
    """Return an axis with all of some values (at least one) on it, and room around them. `low`: its lower end."""
    least, most = min(values), max(values)
    if is_log:
        room = max((most / least) ** PADDING, 1.2)
        return Span(title=title, low=least / room, high=most * room, is_log=True)
    room = PADDING * (most - least) or abs(most) * 0.01 or 1.0
    return Span(title=title, low=least - room if low is None else low, high=most + room)


def legend_mark(shape: str, colour: str) -> Markup:
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

    def line(self, points: Iterable[tuple[float, float]], css: str = "", colour: str = "") -> None:
        """Add a line through points. Without a colour it has that of its class."""
        path = "L".join(f"{self.x.at(x):.0f} {self.y.at(y):.0f}" for x, y in points)
        self._lines.append(element("path", class_=f"line {css}".rstrip(), d=f"M{path}", stroke=colour))

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
