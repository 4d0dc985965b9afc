"""The table of a machine's ceilings that `kv peaks` prints, and how a ceiling is written. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernel_velocity import units
from kernel_velocity.harness.device_figures import ID, PEAK, UNITS, figures
from kernel_velocity.roofline.roofs import CeilingSession, roof
from kernel_velocity.tables import Table, aligned

WEAK = """weak: a cache's bandwidth, as nobody knows for certain which level holds a set
a time above a roof is doubted; a round fails only beyond limits that rounds measure for themselves"""


def text(document: Mapping[str, Any], sessions: Sequence[CeilingSession]) -> str:
    """Return the printed table of a document that was measured now: columns, reasons of missing figures, warnings.

    Args:
        document: of `harness.ceilings.measure`. sessions: those that the roofs are over, this one included.
    """
    sizes = {f"{name.lower()}_size": size for name, size in document["reported"].get("caches", {}).items()}
    ceilings = {name: ceiling for name, ceiling in figures(document).items() if name != ID}
    units_of = UNITS[document["device"]]
    rows = [
        [
            title(name),
            value(ceiling.value, units_of[name], name),
            "-" if ceiling.spread is None else units.share(ceiling.spread),
            value(roof(sessions, name), units_of[name], name),
            value(sizes.get(name), units_of[name], name),
        ]
        for name, ceiling in ceilings.items()
    ]
    note = f"{document['name']}; the roof is the upper quartile of {units.count(len(sessions), 'session')}"
    notes = [
        WEAK,
        *(f"n/a: {title(name)}: {ceiling.why}" for name, ceiling in ceilings.items() if ceiling.value is None),
        *(f"warning: {warning}" for warning in document["warnings"]),
    ]
    heads = ["ceiling", "measured", "spread", "roof", "reported"]
    return "\n".join([aligned(Table("Ceilings", note, heads, rows)), "", *notes])


def title(name: str) -> str:
    """Return a figure's name as text: "DRAM copy bandwidth", "L2 size", "peak float32"."""
    first, *rest = name.split("_")
    return " ".join([first.upper() if first in ("dram", "l1", "l2", "l3") else first, *rest])


def value(amount: float | None, unit: str, name: str) -> str:
    """Return an amount of the figure `name`, in base units of `unit`, as text with a readable unit. "-" for None."""
    if amount is None:
        return "-"
    if unit == "s":
        return units.seconds(amount)
    if unit == "B/s":
        return units.bandwidth(amount * 1e-9)
    if unit == "FLOP/s":
        return units.rate(amount * 1e-9, units.rate_unit(name.removeprefix(PEAK)))
    return size(amount) if unit == "B" else f"{amount:g}"


def size(amount: float) -> str:
    """Return a cache's size, bytes, with three digits: "32 KiB", "1 MiB" (from 999.5 KiB)."""
    prefix, scale = ("MiB", 1 << 20) if amount >= 999.5 * (1 << 10) else ("KiB", 1 << 10)
    return f"{amount / scale:.3g} {prefix}"
