"""The table of a machine's ceilings that `kv peaks` prints, with the figures of the vendors of well-known GPUs. Pure.

A measured ceiling far below the vendor's figure is a machine that was busy, capped or throttled, or a product that does
not reach the silicon's rate. One above it is an error. Figures that a vendor gives with 2:4 sparsity alone are halved,
which is how sparsity is defined. float16 and bfloat16 are with float32 accumulation, and float64 is that of the tensor
cores where there are any, because that is what `torch.matmul` runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel_velocity import units
from kernel_velocity.harness.device_figures import ID, PEAK, UNITS, Figure, doubts, figures
from kernel_velocity.roofline.roofs import CeilingSession, roof
from kernel_velocity.tables import Table, aligned

_T, _G, _MIB = 1e12, 1e9, 1 << 20
_A100 = "NVIDIA A100 Tensor Core GPU datasheet, 2021"
_H100 = "NVIDIA H100 Tensor Core GPU datasheet, 2023, sparse figures halved"
_H200 = "NVIDIA H200 Tensor Core GPU datasheet, 2024, sparse figures halved"
_L4 = "NVIDIA L4 Tensor Core GPU datasheet, 2023, sparse figures halved"
_ADA = "NVIDIA Ada GPU Architecture whitepaper, 2022, appendix A"


@dataclass(frozen=True, kw_only=True)
class Vendor:
    """A GPU's figures by the names of `device_figures.UNITS` (B/s, FLOP/s, B), and their source."""

    source: str
    figures: Mapping[str, float]


def _vendor_figures(bandwidth: float, peaks: Mapping[str, float], l2: int) -> dict[str, float]:
    return {
        **{f"dram_{kind}_bandwidth": bandwidth for kind in ("copy", "read", "triad")},
        **{f"peak_{dtype}": value for dtype, value in peaks.items()},
        "l2_size": l2 * _MIB,
    }


_A100_PEAKS = {
    "float64": 19.5 * _T,
    "float32": 19.5 * _T,
    "tf32": 156 * _T,
    "float16": 312 * _T,
    "bfloat16": 312 * _T,
    "int8": 624 * _T,
}
_HOPPER_SXM_PEAKS = {
    "float64": 67 * _T,
    "float32": 67 * _T,
    "tf32": 989 / 2 * _T,
    "float16": 1979 / 2 * _T,
    "bfloat16": 1979 / 2 * _T,
    "int8": 3958 / 2 * _T,
}
_H100_PCIE_PEAKS = {
    "float64": 51 * _T,
    "float32": 51 * _T,
    "tf32": 756 / 2 * _T,
    "float16": 1513 / 2 * _T,
    "bfloat16": 1513 / 2 * _T,
    "int8": 3026 / 2 * _T,
}
_L4_PEAKS = {
    "float32": 30.3 * _T,
    "tf32": 120 / 2 * _T,
    "float16": 242 / 2 * _T,
    "bfloat16": 242 / 2 * _T,
    "int8": 485 / 2 * _T,
}
_4090_PEAKS = {
    "float32": 82.6 * _T,
    "tf32": 82.6 * _T,
    "float16": 165.2 * _T,
    "bfloat16": 165.2 * _T,
    "int8": 660.6 * _T,
}

# A pattern of the driver's name of a GPU -> its figures; the first match counts. L2 sizes are of the architectures'
# whitepapers (A100 40 MB, H100 and H200 50 MB, L4 48 MB, RTX 4090 72 MB).
_KNOWN: tuple[tuple[str, Vendor], ...] = (
    (r"\bA100.*SXM.*80GB", Vendor(source=_A100, figures=_vendor_figures(2039 * _G, _A100_PEAKS, 40))),
    (
        r"\bA100.*80GB.*PCIe|\bA100.*PCIE?.*80GB",
        Vendor(source=_A100, figures=_vendor_figures(1935 * _G, _A100_PEAKS, 40)),
    ),
    (r"\bA100.*40GB", Vendor(source=_A100, figures=_vendor_figures(1555 * _G, _A100_PEAKS, 40))),
    (r"\bH100 PCIe", Vendor(source=_H100, figures=_vendor_figures(2000 * _G, _H100_PCIE_PEAKS, 50))),
    (r"\bH100 80GB HBM3|\bH100 SXM", Vendor(source=_H100, figures=_vendor_figures(3350 * _G, _HOPPER_SXM_PEAKS, 50))),
    (r"\bH200(?! NVL)", Vendor(source=_H200, figures=_vendor_figures(4800 * _G, _HOPPER_SXM_PEAKS, 50))),
    (r"\bL4\b", Vendor(source=_L4, figures=_vendor_figures(300 * _G, _L4_PEAKS, 48))),
    (r"RTX 4090(?! (?:D|Laptop))", Vendor(source=_ADA, figures=_vendor_figures(1008 * _G, _4090_PEAKS, 72))),
)


def vendor(name: str) -> Vendor | None:
    """Return the vendor's figures of a GPU by its driver's name, or None.

    A MIG instance has its GPU's name and a part of its resources, so it has no vendor figures.
    """
    if "MIG" in name:
        return None
    return next((figures for pattern, figures in _KNOWN if re.search(pattern, name)), None)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One ceiling, base units; None: not known.

    Attributes:
        value: of the newest session. spread: of its samples, relative. roof: over the last sessions.
        reported: by the OS or the driver. vendor: by the vendor. share: the roof over the vendor's figure.
        why: the reason of a missing value.
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
    """The session that a table shows. `name` is the device's, or ""; `reported` are sizes of caches, bytes."""

    device: str
    name: str
    figures: tuple[Figure, ...]
    reported: Mapping[str, int]
    warnings: tuple[str, ...]


def of_document(document: Mapping[str, Any]) -> Shown:
    """Return a measured document (`harness.ceilings.measure`) for display."""
    return Shown(
        device=document["device"],
        name=document["name"],
        figures=figures(document),
        reported=document["reported"].get("caches", {}),
        warnings=doubts(document),
    )


def of_session(session: CeilingSession, device: str, name: str) -> Shown:
    """Return a recorded session for display; asv stores neither spreads nor reasons."""
    figures = tuple(
        Figure(name=figure, unit=unit, value=value, why="" if value is not None else "recorded without a value")
        for figure, unit in UNITS[device].items()
        for value in [session.figures.get(figure)]
    )
    return Shown(device=device, name=name, figures=figures, reported=session.reported, warnings=session.warnings)


def rows(shown: Shown, sessions: Sequence[CeilingSession]) -> list[Row]:
    """Return a row for each ceiling of a session, with the roof over all `sessions`, which include it."""
    published = vendor(shown.name)
    reported = {f"{name.lower()}_size": float(size) for name, size in shown.reported.items()}
    rows = []
    for figure in shown.figures:
        if figure.name == ID:
            continue
        top = roof(sessions, figure.name)
        claimed = None if published is None else published.figures.get(figure.name)
        is_rate = figure.unit in ("B/s", "FLOP/s")
        row = Row(
            name=figure.name,
            unit=figure.unit,
            value=figure.value,
            spread=figure.spread,
            roof=top,
            reported=reported.get(figure.name),
            vendor=claimed,
            share=top / claimed if is_rate and top is not None and claimed is not None else None,
            why=figure.why,
        )
        rows.append(row)
    return rows


def text(shown: Shown, sessions: Sequence[CeilingSession]) -> str:
    """Return the printed table: title, columns, reasons of missing figures, warnings."""
    ceilings, published = rows(shown, sessions), vendor(shown.name)
    heads = ["ceiling", "measured", "spread", "roof", "reported", "vendor", "share"]
    note = f"{shown.name or shown.device}; the roof is the upper quartile of {units.count(len(sessions), 'session')}"
    notes = [
        *([] if published is None else [f"vendor: {published.source}"]),
        *(f"n/a: {title(row.name)}: {row.why}" for row in ceilings if row.value is None),
        *(f"warning: {warning}" for warning in shown.warnings),
    ]
    return "\n".join([aligned(Table("Ceilings", note, heads, [_cells(row) for row in ceilings])), "", *notes])


def title(name: str) -> str:
    """Return a figure's name as text: "DRAM copy bandwidth", "L2 size", "peak float32"."""
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
    """Return an amount of the figure `name`, in base units of `unit`, as text with a readable unit; "-" for None."""
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
    """Return a cache's size, bytes, with three digits: "32 KiB", "1 MiB" (from 999.5 KiB)."""
    prefix, scale = ("MiB", 1 << 20) if amount >= 999.5 * (1 << 10) else ("KiB", 1 << 10)
    return f"{amount / scale:.3g} {prefix}"
