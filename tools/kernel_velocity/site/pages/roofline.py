"""The page of the rooflines: of every machine, environment and device the measured roofs, and its kernels below.

Every series of a device against its roofs: the newest value, and what places all its older ones in the plot.

For a series intensity, least time and bound are the same at every commit that was measured with as many threads; only
the measured time differs, so that the page places an older value by dividing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from kernel_velocity import units
from kernel_velocity.harness.cases import DEVICES, operation
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.roofline import model as roofline
from kernel_velocity.roofline.model import Roofline, Roofs
from kernel_velocity.roofline.roofs import Choice
from kernel_velocity.series.columns import Columns
from kernel_velocity.site import text as pages
from kernel_velocity.site.charts import palette
from kernel_velocity.site.charts.documents import FIRST, Document
from kernel_velocity.site.model import Site
from kernel_velocity.site.outputs import DataFile, Page, series_name
from kernel_velocity.site.text import Footnotes, Place

NAME = "roofline"
FORMAT = 1  # of the data files
GIGA = 1e9
MODELS = 1000  # of Bokeh's in a section, at most
DASH = "–"
_MULTIPLE = re.compile(r"^\d+\.\d\d times (?!the peak in)|(?<=^impossible: )\d+\.\d\d times ")
NO_AMOUNT = "its benchmark does not say the FLOPs and bytes of a call, so it has no place in the plot"
NO_ROOF = "neither DRAM's bandwidth nor the peak of its dtype was measured"

COLD = "cold"  # the cache state in which nothing lies in a cache


@dataclass(frozen=True, kw_only=True)
class Row:
    """A series in the table; empty or a dash where something is not known."""

    name: str  # of its data file
    kernel: str
    state: str
    benchmark: str
    href: str  # of the kernel's page
    implementation: str
    case: str
    commit: str
    commit_href: str
    intensity: str
    achieved: str
    attainable: str
    efficiency: str
    tone: str  # "excellent", "impossible", ""
    detail: str  # beside the efficiency
    bound: str
    level: str
    of_level: str  # the share of that level's roof
    marks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Section:
    """One machine, environment and device."""

    anchor: str
    place: Place
    device: str
    data: str  # name of its data file
    has_roofs: bool
    warnings: tuple[str, ...]
    benchmarks: tuple[tuple[str, str], ...]  # series name, and the kernel with its cache state
    implementations: tuple[tuple[str, str], ...]  # with their colours
    cases: tuple[str, ...]
    document: Markup  # of the plot, JSON
    rows: tuple[Row, ...]
    footnotes: tuple[str, ...]


def build(found: Site) -> Iterator[Page | DataFile]:
    """Yield the page, and for each of its sections what places series in the plot."""
    sections: list[Section] = []
    for number, place in enumerate(found.places):
        for device in DEVICES.values():
            roofs = found.roofs(place, device)
            items = tuple(placed(found, place, device))
            if items:
                document = _document(found, roofs, items, len(sections))
                section = _section(place, device, roofs, items, number=number, document=document)
                sections.append(section)
                yield DataFile(name=section.data, value=_data(section, items))
    yield Page(name=f"{NAME}.html", template=f"{NAME}.html", context={"sections": tuple(sections)})


def _document(found: Site, roofs: Roofs | None, items: Sequence[Placed], section: int) -> Markup:
    """Return the plot of a section, by its number; it follows from little, and is kept."""
    seen = [item for item in items if item.intensity is not None]
    intensities = [item.intensity for item in seen if item.intensity]
    rates = [item.flop / each for item in seen if item.flop for each in (item.slowest, item.fastest)]
    known = Roofs(levels=(), peaks={}) if roofs is None else roofs
    dtypes = sorted({item.key.dtype for item in seen})

    def make() -> Document:
        from kernel_velocity.site.charts import roofline as roofline_chart  # noqa: PLC0415 - Bokeh takes a second

        return roofline_chart.document(_extremes(intensities), _extremes(rates), known, dtypes)

    parameters = (_extremes(intensities), _extremes(rates), known.levels, list(known.peaks.items()), dtypes)
    return found.documents.get(NAME, parameters, make, first=FIRST + MODELS * section)


def _extremes(values: Sequence[float]) -> tuple[float, ...]:
    return (min(values), max(values)) if values else ()


def _section(
    place: Place, device: str, roofs: Roofs | None, items: Sequence[Placed], *, number: int, document: Markup
) -> Section:
    notes = Footnotes()
    implementations = tuple(dict.fromkeys(item.key.implementation for item in items))
    names = {item.key.benchmark: f"{item.kernel}, {item.state}" for item in items}
    return Section(
        anchor=f"{place.anchor}-{device}",
        place=place,
        device=device,
        data=f"{NAME}-{number}-{device}",
        has_roofs=roofs is not None,
        warnings=() if roofs is None else roofs.warnings,
        benchmarks=tuple(names.items()),
        implementations=tuple(palette.colours(implementations).items()),
        cases=tuple(dict.fromkeys(item.key.case for item in items)),
        document=document,
        rows=tuple(_row(item, has_roofs=roofs is not None, notes=notes) for item in items),
        footnotes=tuple(notes.texts),
    )


def _row(item: Placed, *, has_roofs: bool, notes: Footnotes) -> Row:
    found = item.roofline
    lacks = () if item.intensity is not None else (NO_AMOUNT,)
    unplaced = (item.choice.lacking or NO_ROOF,) if has_roofs and item.intensity is not None and found is None else ()
    return Row(
        name=series_name(item.key),
        kernel=item.kernel,
        state=item.state,
        benchmark=item.key.benchmark,
        href=pages.trend_href(item.key),
        implementation=item.key.implementation,
        case=item.key.case,
        commit=item.commit[:SHORT],
        commit_href=pages.commit_href(item.commit),
        intensity=DASH if item.intensity is None else units.intensity(item.intensity, item.key.dtype),
        achieved=_achieved(item),
        attainable=_attainable(found, item.key.rate_unit),
        efficiency=DASH if found is None else roofline.percent(found.efficiency),
        tone=_tone(found),
        detail=_detail(found),
        bound=DASH if found is None else found.bound,
        level=DASH if found is None or found.level is None else found.level,
        of_level=_of_level(found),
        marks=notes.marks((*lacks, *unplaced, *_doubts(found))),
    )


def _tone(found: Roofline | None) -> str:
    if found is None:
        return ""
    return "impossible" if found.impossible else found.label if found.label == "excellent" else ""


def _detail(found: Roofline | None) -> str:
    """Return how far above its roof a value lies, where that is more than an error; else its word, if it has one."""
    if found is not None and found.roof_ratio > roofline.IMPOSSIBLE:
        return f"{units.significant(found.roof_ratio)}x the roof"
    return _tone(found)


def _doubts(found: Roofline | None) -> tuple[str, ...]:
    """Return a value's warnings without how often it surpasses what, which its row says: one footnote for many rows."""
    warnings = () if found is None else found.warnings
    return tuple(_MULTIPLE.sub("more than ", text, count=1) for text in warnings)


def _achieved(item: Placed) -> str:
    """Return the rate: of a series without FLOPs its bandwidth, without bytes either its time."""
    if item.flop:
        return units.rate(item.flop / item.seconds / GIGA, item.key.rate_unit)
    if item.bytes_moved:
        return units.gigabytes(item.bytes_moved / item.seconds / GIGA)
    return units.seconds(item.seconds)


def _attainable(found: Roofline | None, unit: str) -> str:
    if found is None:
        return DASH
    if found.attainable:
        return units.rate(found.attainable / GIGA, unit)
    return units.gigabytes(found.bandwidth / found.roof_ratio / GIGA)


def _of_level(found: Roofline | None) -> str:
    if found is None or found.level is None or found.level_ratio is None:
        return ""
    return f"{roofline.percent(found.level_ratio)} of its roof"


def _data(section: Section, items: Sequence[Placed]) -> dict[str, Any]:
    """Return what the page draws: of every series the newest value, and what is the same at all its commits."""
    return {
        "format": FORMAT,
        "machine": section.place.machine,
        "environment": section.place.environment,
        "device": section.device,
        "series": [_entry(row, item) for row, item in zip(section.rows, items, strict=True)],
    }


def _entry(row: Row, item: Placed) -> dict[str, Any]:
    apart = {"apart": sorted(item.choice.apart)} if item.choice.apart else {}  # of other threads than `least`
    return apart | {
        "name": row.name,
        "benchmark": row.benchmark,
        "kernel": f"{row.kernel}, {row.state}",
        "implementation": row.implementation,
        "case": row.case,
        "commit": item.commit,
        "commits": item.measured,
        "seconds": item.seconds,
        "flop": item.flop or None,
        "operation": operation(item.key.dtype),
        "bytes": item.bytes_moved or None,
        "least": item.least,
        "bound": row.bound,
    }


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A series with its newest value."""

    key: SeriesKey
    kernel: str
    state: str
    commit: str  # full SHA of the newest value
    seconds: float  # the newest value, per call
    slowest: float  # of all its values
    fastest: float
    measured: int  # commits
    flop: float | None
    bytes_moved: float | None
    roofline: Roofline | None  # of the newest value; None: nothing can be said
    choice: Choice  # of that value's roofs

    @property
    def intensity(self) -> float | None:
        """FLOP/B; None where one of them is not known, or 0: such a series has no place on a logarithmic axis."""
        return self.flop / self.bytes_moved if self.flop and self.bytes_moved else None

    @property
    def least(self) -> float | None:
        """The s that a call takes at least under DRAM's slope and the peak; None where no roof is known."""
        return None if self.roofline is None else self.roofline.roof_ratio * self.seconds


def placed(found: Site, place: Place, device: str) -> Iterator[Placed]:
    """Yield every series of a device at a place that has a value; of several versions, the newest one's."""
    newest: dict[tuple[str, str, str], tuple[int, Placed]] = {}
    for key in found.keys_at(place):
        if pages.parts(key.benchmark)[1] != device:
            continue
        columns = found.series(key)
        measured = np.flatnonzero(columns.is_measured & np.isfinite(columns.seconds))
        asked = (key.benchmark, key.implementation, key.case)
        when = int(columns.place[measured[-1]]) if measured.size else -1
        if measured.size and (asked not in newest or newest[asked][0] <= when):
            choice = found.roof_choice(place, device, found.line[when])
            newest[asked] = when, _placed(columns, columns.seconds[measured], found.line[when], choice)
    for _, item in newest.values():
        yield item


def _placed(columns: Columns, seconds: FloatArray, commit: str, choice: Choice) -> Placed:
    """Return a series from its values in the order of the commits, the last of them of `commit`."""
    kernel, _, state = pages.parts(columns.key.benchmark)
    return Placed(
        key=columns.key,
        kernel=kernel,
        state=state,
        commit=commit,
        seconds=float(seconds[-1]),
        slowest=float(seconds.max()),
        fastest=float(seconds.min()),
        measured=int(seconds.size),
        flop=columns.flop,
        bytes_moved=columns.bytes_moved,
        roofline=None if choice.roofs is None else _against(columns, float(seconds[-1]), state, choice.roofs),
        choice=choice,
    )


def _against(columns: Columns, seconds: float, state: str, roofs: Roofs) -> Roofline | None:
    """Return a value against the roofs; results hold no footprint, so a hot call's is taken for what it moves."""
    return roofline.roofline(
        flops=columns.flop,
        bytes=columns.bytes_moved,
        seconds=seconds,
        roofs=roofs,
        dtype=columns.key.dtype,
        working_set=math.inf if state == COLD else None,
    )
