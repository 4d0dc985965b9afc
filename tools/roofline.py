"""The roofline: how far a timing is from what the machine can do. Pure; base units (s, B, FLOP)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Level:
    """A level of the memory hierarchy. `size` in bytes, None for DRAM; `bandwidth` in B/s, None: not measured."""

    name: str
    size: int | None
    bandwidth: float | None


@dataclass(frozen=True, kw_only=True)
class Roofs:
    """The ceilings of one device: levels innermost first, DRAM last; peaks in FLOP/s by dtype."""

    levels: tuple[Level, ...]
    peaks: Mapping[str, float | None]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """One timing against the roofs. Rates in FLOP/s and B/s; shares are fractions; None: the ceiling is not known."""

    intensity: float  # FLOP/B
    ridge: float | None  # FLOP/B at which DRAM's slope meets the peak
    bound: str  # "memory" or "compute"
    attainable: float
    achieved: float
    bandwidth: float
    efficiency: float  # achieved / attainable, capped at 1
    roof_ratio: float  # the same, not capped
    cache_benefit: float  # DRAM-only prediction / measured time, at least 1
    level: str | None  # whose roof binds for this working set
    level_ratio: float | None  # achieved against that level's roof
    impossible: bool
    label: str
    warnings: tuple[str, ...] = ()
