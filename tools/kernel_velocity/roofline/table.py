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
from kernel_velocity.harness.device_figures import ID, PEAK, Figure, doubts, figures
from kernel_velocity.roofline.roofs import CeilingSession, roof
from kernel_velocity.tables import Table, aligned

_A100 = "NVIDIA A100 Tensor Core GPU datasheet, 2021"
_H100 = "NVIDIA H100 Tensor Core GPU datasheet, 2023, sparse figures halved"
_H200 = "NVIDIA H200 Tensor Core GPU datasheet, 2024, sparse figures halved"
_L4 = "NVIDIA L4 Tensor Core GPU datasheet, 2023, sparse figures halved"
_ADA = "NVIDIA Ada GPU Architecture whitepaper, 2022, appendix A"

# Dense peaks, TFLOP/s (int8: TOP/s); None: the vendor gives none.
_DTYPES = ("float64", "float32", "tf32", "float16", "bfloat16", "int8")
_A100_PEAKS = (19.5, 19.5, 156, 312, 312, 624)
_HOPPER_SXM_PEAKS = (67, 67, 989 / 2, 1979 / 2, 1979 / 2, 3958 / 2)
_H100_PCIE_PEAKS = (51, 51, 756 / 2, 1513 / 2, 1513 / 2, 3026 / 2)
_L4_PEAKS = (None, 30.3, 120 / 2, 242 / 2, 242 / 2, 485 / 2)
_4090_PEAKS = (None, 82.6, 82.6, 165.2, 165.2, 660.6)

# Pattern of the driver's name of a GPU (the first match counts), source, DRAM's GB/s, L2's MiB, peaks. L2 sizes are of
# the architectures' whitepapers.
_GPUS: tuple[tuple[str, str, int, int, tuple[float | None, ...]], ...] = (
    (r"\bA100.*SXM.*80GB", _A100, 2039, 40, _A100_PEAKS),
    (r"\bA100.*80GB.*PCIe|\bA100.*PCIE?.*80GB", _A100, 1935, 40, _A100_PEAKS),
    (r"\bA100.*40GB", _A100, 1555, 40, _A100_PEAKS),
    (r"\bH100 PCIe", _H100, 2000, 50, _H100_PCIE_PEAKS),
    (r"\bH100 80GB HBM3|\bH100 SXM", _H100, 3350, 50, _HOPPER_SXM_PEAKS),
    (r"\bH200(?! NVL)", _H200, 4800, 50, _HOPPER_SXM_PEAKS),
    (r"\bL4\b", _L4, 300, 48, _L4_PEAKS),
    (r"RTX 4090(?! (?:D|Laptop))", _ADA, 1008, 72, _4090_PEAKS),
)


@dataclass(frozen=True, kw_only=True)
class Vendor:
    """A GPU's figures by the names of `device_figures.UNITS` (B/s, FLOP/s, B), and their source."""

    source: str
    figures: Mapping[str, float]


def vendor(name: str) -> Vendor | None:
    """Return the vendor's figures of a GPU by its driver's name, or None.

    A MIG instance has its GPU's name and a part of its resources, so it has no vendor figures.
    """
    if "MIG" in name:
        return None
    for pattern, source, bandwidth, l2, peaks in _GPUS:
        if re.search(pattern, name):
            figures = {f"dram_{kind}_bandwidth": bandwidth * 1e9 for kind in ("copy", "read", "triad")}
            figures["l2_size"] = float(l2 << 20)
            figures |= {f"peak_{dtype}": peak * 1e12 for dtype, peak in zip(_DTYPES, peaks, strict=True) if peak}
            return Vendor(source=source, figures=figures)
    return None


WEAK = """weak: a cache's bandwidth, as nobody knows for certain which level holds a set
a time above a roof is doubted; a round fails only beyond limits that rounds measure for themselves"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One ceiling, base units. None: not known.

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
    """The session that a table shows. `name` is the device's, or "". `reported` are sizes of caches, bytes."""

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
        WEAK,
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
