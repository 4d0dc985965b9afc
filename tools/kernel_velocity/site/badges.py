"""A badge for every kernel and device: a picture for a README with its newest rate, and how near that is to the roof.

`badge-<kernel>-<Device>.svg`, from the newest commit that has a time of an implementation of our own.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from kernel_velocity.findings.text import plain
from kernel_velocity.harness.cases import CONTROLS
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import Measurement
from kernel_velocity.roofline import model
from kernel_velocity.series import changes
from kernel_velocity.site import text as pages
from kernel_velocity.site.model import Site
from kernel_velocity.site.outputs import Page
from kernel_velocity.site.text import Place

STATE = "hot"
SIZE = 11  # px, of the letters
EDGE = 6  # px beside them
MOST = 32  # letters of a name; the title has them all
GREY = "#3d444b"  # behind the name; white on every one of these has a contrast of 4.5:1
GROUNDS = {"faster": "#14713f", "slower": "#b3261e"}  # by what became of it
GROUND = "#0b5cad"  # of what stayed as it was
# Widths of the letters from " " to "~" in DejaVu Sans, thousandths of its size.
WIDTHS = (
    *(318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337),
    *(636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531),
    *(1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787),
    *(603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500),
    *(500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612),
    *(635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838),
)
SIGNS = {"·": 318, "≈": 838, "…": 1000, "µ": 636}  # what the pages write besides
WIDE, OTHER = 1000, 636  # of letters from East Asia and pictures; of all others


@dataclass(frozen=True, kw_only=True)
class Part:
    """One half of a badge; px."""

    text: str
    start: int
    width: int
    middle: str  # of its letters
    length: str  # that they are set to, whatever font there is


@dataclass(frozen=True, kw_only=True)
class Badge:
    """What the template shows."""

    title: str
    width: int
    name: Part
    figure: Part
    ground: str
    grey: str = GREY


def build(found: Site) -> Iterator[Page]:
    """Yield the badge of every kernel and device that has a time of an implementation of our own."""
    benchmarks = dict.fromkeys(key.benchmark for key in found.keys)
    for benchmark in benchmarks:
        kernel, device, state = pages.parts(benchmark)
        shown = _newest(found, benchmark) if state == STATE else None
        if shown is not None:
            name = f"badge-{kernel}-{device}.svg"
            yield Page(name=name, template="badge.svg", context={"badge": badge(found, *shown)})


def _newest(found: Site, benchmark: str) -> tuple[Place, Measurement, Measurement | None] | None:
    """Return the best of our implementations at the newest commit that has one, and what it was before.

    Of the machines the one that measured the newest commit, of its test cases the last one, which is the largest; the
    fastest where these are several.
    """
    known: list[tuple[tuple[int, int, float], Place, Measurement, Measurement | None]] = []
    for place in found.places:
        keys = found.keys_at(place, benchmark)
        cases = list(dict.fromkeys(key.case for key in keys))
        for key in keys:
            series = found.series(key)
            times = [int(index) for index in series.is_measured.nonzero()[0]]
            if key.implementation in CONTROLS or not times:
                continue
            now, base = series.measurement(times[-1], found.line), int(changes.before(series)[times[-1]])
            before = None if base == changes.NONE else series.measurement(base, found.line)
            rank = (int(series.place[times[-1]]), cases.index(key.case), -(now.seconds or 0.0))
            known.append((rank, place, now, before))
    best = max(known, key=lambda item: item[0], default=None)
    return None if best is None else best[1:]


def badge(found: Site, place: Place, item: Measurement, before: Measurement | None) -> Badge:
    """Return the badge of a measured value."""
    kernel, device, _ = pages.parts(item.key.benchmark)
    change = None if before is None else changes.compare(item, before)
    share = _efficiency(found, place, device, item)
    beside = (f"{share} of the roof",) if share else (pages.change(change),) if change is not None else ()
    figure = " · ".join((pages.rate(item), *beside))
    name = _part(f"{_shortened(kernel)} {device}", 0)
    shown = _part(figure, name.width)
    key = item.key
    return Badge(
        title=plain(
            f"{kernel} on {device}: {figure} ({key.implementation}, {key.case}, {key.machine}, commit "
            f"{item.commit[:SHORT]})"
        ),
        width=name.width + shown.width,
        name=name,
        figure=shown,
        ground=GROUNDS.get(pages.tone(change), GROUND),
    )


def _efficiency(found: Site, place: Place, device: str, item: Measurement) -> str:
    """Return the share of what the machine allows; "" where its ceilings or the work are not known."""
    roofs = found.roofs(place, device, item.commit)
    if roofs is None or item.seconds is None:
        return ""
    placed = model.roofline(
        flops=item.flop, bytes=item.bytes_moved, seconds=item.seconds, roofs=roofs, dtype=item.key.dtype
    )
    return "" if placed is None else model.percent(placed.efficiency)


def _shortened(text: str) -> str:
    return text if len(text) <= MOST else f"{text[: MOST - 1]}…"


def _part(text: str, start: int) -> Part:
    length = width(text) * SIZE / 1000
    whole = round(length) + 2 * EDGE
    return Part(text=text, start=start, width=whole, middle=f"{start + whole / 2:g}", length=f"{length:.1f}")


def width(text: str) -> int:
    """Return how wide a text is, in thousandths of its size."""
    return sum(_width(letter) for letter in text)


def _width(letter: str) -> int:
    if " " <= letter <= "~":
        return WIDTHS[ord(letter) - ord(" ")]
    if letter in SIGNS or unicodedata.combining(letter):
        return SIGNS.get(letter, 0)
    return WIDE if unicodedata.east_asian_width(letter) in "WF" else OTHER
