"""The ceilings of a machine as rows, and as the table that `kv peaks` prints. Values in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel_velocity import units
from kernel_velocity.harness.device_figures import ID, PEAK, UNITS, Figure, doubts, figures
from kernel_velocity.roofline.roofs import CeilingSession, roof
from kernel_velocity.roofline.vendor import Vendor, vendor
from kernel_velocity.tables import Table, aligned


@dataclass(frozen=True, kw_only=True)
class Row:
    """One ceiling, base units; None: not known.

    Attributes:
        value: of the session shown. spread: of its samples, relative. roof: over the last sessions.
        reported: what the OS or the driver says. vendor: what the vendor says; `share` is the roof's share of it.
        why: why there is no value.
    """

    name: str
    unit: str
    value: float | None
    spread: float | None
    roof: float | None
    reported: float | None
    vendor: float | None
    share: float | None
    why: str


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The measurement that a table shows. `name` is the device's, "" where nobody says; sizes of caches in bytes."""

    device: str
    name: str
    figures: tuple[Figure, ...]
    reported: Mapping[str, int]
    warnings: tuple[str, ...]


def of_document(document: Mapping[str, Any]) -> Shown:
    """Return what was measured into a document (`ceilings.measure`)."""
    return Shown(
        device=document["device"],
        name=document["name"],
        figures=figures(document),
        reported=document["reported"].get("caches", {}),
        warnings=doubts(document),
    )


def of_session(session: CeilingSession, device: str, name: str) -> Shown:
    """Return what a recorded session measured; asv keeps neither spreads nor reasons."""
    found = (
        Figure(name=each, unit=unit, value=value, why="" if value is not None else "recorded without a value")
        for each, unit in UNITS[device].items()
        for value in [session.figures.get(each)]
    )
    return Shown(device=device, name=name, figures=tuple(found), reported=session.reported, warnings=session.warnings)


def rows(shown: Shown, sessions: Sequence[CeilingSession]) -> list[Row]:
    """Return a row for each ceiling shown, with the roof over the sessions that it is one of."""
    known = vendor(shown.name)
    said = {f"{name.lower()}_size": float(size) for name, size in shown.reported.items()}
    return [_row(figure, roof(sessions, figure.name), said, known) for figure in shown.figures if figure.name != ID]


def _row(figure: Figure, top: float | None, said: Mapping[str, float], known: Vendor | None) -> Row:
    claimed = None if known is None else known.figures.get(figure.name)
    is_rate = figure.unit in ("B/s", "FLOP/s")
    return Row(
        name=figure.name,
        unit=figure.unit,
        value=figure.value,
        spread=figure.spread,
        roof=top,
        reported=said.get(figure.name),
        vendor=claimed,
        share=top / claimed if is_rate and top is not None and claimed is not None else None,
        why=figure.why,
    )


def text(shown: Shown, sessions: Sequence[CeilingSession]) -> str:
    """Return the whole table, ready to be printed: title, columns, why figures are missing, warnings."""
    found, known = rows(shown, sessions), vendor(shown.name)
    heads = ["ceiling", "measured", "spread", "roof", "reported", "vendor", "share"]
    note = f"{shown.name or shown.device}; {_note(sessions)}"
    table = Table("Ceilings", note, heads, [_cells(row) for row in found])
    return "\n".join([aligned(table), "", *_notes(found, known), *(f"warning: {each}" for each in shown.warnings)])


def _note(sessions: Sequence[CeilingSession]) -> str:
    return f"the roof is the upper quartile of {units.count(len(sessions), 'session')}"


def _notes(found: Sequence[Row], known: Vendor | None) -> Iterator[str]:
    if known is not None:
        yield f"vendor: {known.source}"
    yield from (f"n/a: {title(row.name)}: {row.why}" for row in found if row.value is None)


def title(name: str) -> str:
    """Return a figure's name in words: "DRAM copy bandwidth", "L2 size", "peak float32"."""
    first, *rest = name.split("_")
    return " ".join([first.upper() if first in ("dram", "l1", "l2", "l3") else first, *rest])


def _cells(row: Row) -> list[str]:
    return [
        title(row.name),
        value(row.value, row.unit, row.name),
        "-" if row.spread is None else units.share(row.spread),
        value(row.roof, row.unit, row.name),
        value(row.reported, row.unit, row.name),
        value(row.vendor, row.unit, row.name),
        "-" if row.share is None else units.share(row.share),
    ]


def value(amount: float | None, unit: str, name: str) -> str:
    """Return an amount of the figure of that name, in base units, with the unit that people read; "-": not known."""
    if amount is None:
        return "-"
    if unit == "s":
        return units.seconds(amount)
    if unit == "B/s":
        return units.gigabytes(amount * 1e-9)
    if unit == "FLOP/s":
        return units.rate(amount * 1e-9, units.rate_unit(name.removeprefix(PEAK)))
    return size(amount) if unit == "B" else f"{amount:g}"


def size(amount: float) -> str:
    """Return a cache's size, bytes, as caches are sold: "32 KiB", "1 MiB"; 3 digits hold 999 KiB at most."""
    prefix, scale = ("MiB", 1 << 20) if amount >= 999.5 * (1 << 10) else ("KiB", 1 << 10)
    return f"{amount / scale:.3g} {prefix}"
