"""The home page's efficiency: how far from the roof a row's test cases are, and a machine's kernels in one line."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernel_velocity import units
from kernel_velocity.roofline import model as roofline
from kernel_velocity.roofline.model import IMPOSSIBLE, Roofline, Roofs
from kernel_velocity.series.columns import Columns
from kernel_velocity.site.text import Footnotes

DASH = "–"
_TIMES = re.compile(r"\b\d+\.\d\d times\b")
LISTED = 6  # kernels named in the line about the roof
NO_BYTES = "no efficiency: benchmarks.json does not say how many bytes a call moves, or no roof for it was measured"


@dataclass(frozen=True, kw_only=True)
class GridCell:
    """One value of the grid."""

    text: str
    tone: str = ""  # as of pages.Cell
    detail: str = ""
    marks: tuple[int, ...] = ()  # numbers of its footnotes


def placed(series: Columns, entry: int, roofs: Roofs | None) -> Roofline | None:
    """Return a value's place below the roofs; what is computed in is the first part of its test case (contract)."""
    if roofs is None:
        return None
    return roofline.roofline(
        flops=series.flop,
        bytes=series.bytes_moved,
        seconds=float(series.seconds[entry]),
        roofs=roofs,
        dtype=series.key.dtype,
    )


def mean(shares: Iterable[Roofline | None]) -> float | None:
    """Return the arithmetic mean of the known efficiencies; None where none is known."""
    known = [item.efficiency for item in shares if item is not None]
    return statistics.fmean(known) if known else None


def cell(shares: Sequence[Roofline | None], lacking: str, notes: Footnotes) -> GridCell:
    """Return the mean efficiency of a row's current test cases, or the reason why nobody knows it.

    Args:
        lacking: why there are no roofs for them; "" where there are.
    """
    if not shares:
        return GridCell(text=DASH, tone="absent")
    efficiency = mean(shares)
    if efficiency is None:
        text = f"no efficiency: {lacking} (`make track` measures them)" if lacking else NO_BYTES
        return GridCell(text=DASH, tone="absent", marks=notes.marks([text]))
    known = [item for item in shares if item is not None]
    return GridCell(
        text=roofline.percent(efficiency),
        detail="" if len(known) == len(shares) else f"of {len(known)} of {units.count(len(shares), 'test case')}",
        marks=notes.marks([_without_figure(text) for item in known for text in item.warnings]),
    )


def _without_figure(warning: str) -> str:
    """Return a doubt about a test case as one that other test cases share, so that they share a footnote."""
    return _TIMES.sub(f"over {IMPOSSIBLE} times", warning)


def lead(shares: Iterable[tuple[str, str, float]]) -> str:
    """Return how far kernels are from the roof, in a line: the best implementation of each, the furthest first.

    Args:
        shares: kernel with device and cache state, implementation, efficiency.
    """
    best: dict[str, tuple[float, str]] = {}
    for name, implementation, share in shares:
        best[name] = max(best.get(name, (0.0, "")), (share, implementation))
    ordered = sorted(best.items(), key=lambda pair: pair[1][0])
    shown = [f"{name} {roofline.percent(share)} ({who})" for name, (share, who) in ordered[:LISTED]]
    more = len(ordered) - len(shown)
    return ", ".join(shown) + (f", and {more} nearer to it" if more > 0 else "")
