"""Compute the roofline of a timing: how far it is from the ceilings of the machine. Pure. Base units (s, B, FLOP).

The model is that of Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore
architectures", CACM 52(4), 2009, with a slope for each level of the memory hierarchy as in Yang, Kurth and Williams,
"Hierarchical Roofline analysis for GPUs", CCPE 32(20), 2020. A call takes at least

    max(FLOPs / peak, for each level: bytes that reach it / its bandwidth)

Of the `bytes` of a call that is repeated on a working set W, a cache of C bytes can spare the levels outside it at most
C, whatever it replaces: what it does not hold when the call begins has to be fetched (the argument of Hong and Kung,
"I/O complexity: the red-blue pebble game", STOC 1981). So bytes x (1 - C / W) reach the next level, and the innermost
level moves all. The limit grows without a jump where a working set outgrows a cache.

`of_limit`, the roofline efficiency, is that least time over the measured time. It is not capped: above 1 a ceiling was
measured too low. `cache_benefit` tells how far the caches lifted a call above DRAM's slope.

In a script, for a call that moves 120 MB and takes 7.5 ms (`kernel_velocity.runner.peaks.measure_roofs` measures the
roofs):

    >>> from kernel_velocity.roofline.model import MemoryLevel, Roofs, roofline
    >>> cache = MemoryLevel(name="L2", size=1 << 20, bandwidth=100e9)
    >>> dram = MemoryLevel(name="DRAM", size=None, bandwidth=20e9)
    >>> roofs = Roofs(levels=(cache, dram), peaks={"float32": 100e9})
    >>> found = roofline(flops=30e6, bytes=120e6, seconds=7.5e-3, roofs=roofs, dtype="float32")
    >>> f"{found.of_limit:.1%} of {found.limit}, bound by {found.bound}"
    '79.3% of DRAM, bound by memory'
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernel_velocity.machine.workloads import BEYOND

# Times the roof from which on a time is doubted: more than the error of measuring a ceiling on a quiet machine (warned
# of where that is over 5%). It keeps its value. A round is refused by more: machine/limits.py, MARGINS.
IMPOSSIBLE = 1.05
EXCELLENT = 0.9  # of the attainable rate, as in published suites
MEMORY = "DRAM"
ABOVE = "above 100%: the ceiling was measured lower than the machine can go, or a cache holds more than was measured"
_ASK = (
    "were the ceilings measured on a busy machine (kv peaks measures them again), are the FLOPs and bytes of the "
    "Problem right, and were the caches cold?"
)


@dataclass(frozen=True, kw_only=True)
class MemoryLevel:
    """A level of the memory hierarchy. `size` in bytes, None for DRAM. `bandwidth` in B/s, None: not measured."""

    name: str
    size: int | None
    bandwidth: float | None


@dataclass(frozen=True, kw_only=True)
class Roofs:
    """The ceilings of one device: levels innermost first, DRAM last. Peaks in FLOP/s by dtype."""

    levels: tuple[MemoryLevel, ...]
    peaks: Mapping[str, float | None]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """One timing against the roofs. Rates in FLOP/s and B/s. Ratios are fractions. None: the ceiling is unknown."""

    intensity: float  # FLOP/B
    ridge: float | None  # FLOP/B at which DRAM's slope meets the peak
    bound: str  # "memory" or "compute"
    attainable: float  # FLOP/s
    achieved: float  # FLOP/s
    bandwidth: float  # B/s
    of_limit: float  # least time / measured time: the roofline efficiency
    limit: str  # what binds: "DRAM", "L3", "float32 peak"
    cache_benefit: float  # DRAM-only prediction / measured time, at least 1
    level: str | None  # the innermost that holds the working set
    impossible: bool
    label: str
    warnings: tuple[str, ...] = ()
    dtype: str | None = None  # of the peak: "tf32" for float32 that was allowed to multiply in TF32


def roofline(
    *,
    flops: float | None,
    bytes: float | None,  # noqa: A002 - the word of `Problem.get_bytes`
    seconds: float,
    roofs: Roofs,
    dtype: str,
    working_set: float | None = None,
) -> Roofline | None:
    """Return one timing against the roofs. None without `bytes`, or where no roof that can bind is known.

    If DRAM's bandwidth or the dtype's peak is unknown, a warning says so. A call without FLOPs (0 or None: copies,
    uncounted integer work) has a roofline of bandwidth alone: it is bound by memory, and its intensity, achieved and
    attainable rates are 0 FLOP/s.

    Args:
        flops: floating-point operations of one call. bytes: its minimum memory traffic. seconds: per call.
        roofs: of the device. dtype: of the arithmetic, a key of `roofs.peaks`.
        working_set: bytes that a cache must hold to help. None: `bytes`.

    Raises:
        ValueError: the time is not positive and finite, or FLOPs or bytes are negative or not finite.
    """
    _check(flops, bytes, seconds)
    work, dram = flops or 0.0, dram_bandwidth(roofs)
    peak = roofs.peaks.get(dtype) if work else None
    footprint = bytes if working_set is None else working_set
    if not bytes or footprint is None:
        return None
    slopes = dict(_slopes(bytes, footprint, roofs))
    limits = slopes | ({f"{dtype} peak": work / peak} if peak else {})
    if not limits:
        return None
    limit = max(limits, key=lambda name: (limits[name], name not in slopes))
    least = limits[limit]
    peak_ratio = work / peak / seconds if peak else 0.0
    in_tf32 = _tf32_warning(dtype, work / seconds, peak_ratio, roofs)
    doubtful = least / seconds
    if in_tf32 is not None:
        doubtful = max(work / (roofs.peaks["tf32"] or math.inf), *slopes.values(), 0.0) / seconds
    beyond = is_beyond(footprint, roofs)
    return Roofline(
        intensity=work / bytes,
        ridge=None if dram is None or peak is None else peak / dram,
        bound="memory" if limit in slopes else "compute",
        attainable=work / least,
        achieved=work / seconds,
        bandwidth=bytes / seconds,
        of_limit=least / seconds,
        limit=limit,
        cache_benefit=1.0 if dram is None else max(1.0, bytes / dram / seconds),
        level=memory_of(footprint, roofs),
        impossible=doubtful > IMPOSSIBLE and beyond is True,
        label=label(least / seconds),
        warnings=(
            *_missing_roof(work, dram, peak, dtype),
            *(() if in_tf32 is None else (in_tf32,)),
            *_doubts(doubtful, peak_ratio if in_tf32 is None else 0.0, beyond),
        ),
        dtype=dtype,
    )


def _slopes(moved: float, footprint: float, roofs: Roofs) -> Iterator[tuple[str, float]]:
    """Yield each level of known bandwidth with the least time, s, that it takes for the bytes that reach it."""
    inside = 0  # bytes of the largest cache inside the level
    for level in roofs.levels:
        if level.bandwidth is not None and footprint > inside:
            yield level.name, moved * (1 - inside / footprint) / level.bandwidth
        inside = max(inside, level.size or 0)


def _tf32_warning(dtype: str, achieved: float, peak_ratio: float, roofs: Roofs) -> str | None:
    """Return a warning that a float32 call multiplies in TF32 if it exceeds float32's peak and not TF32's, else None.

    A library, or a convolution of PyTorch, may do so unasked.
    """
    peak = roofs.peaks.get("tf32")
    if dtype != "float32" or peak_ratio <= IMPOSSIBLE or not peak or achieved > IMPOSSIBLE * peak:
        return None
    return (
        f"{peak_ratio:.2f} times the peak in float32, {achieved / peak:.2f} of that in TF32; "
        "it seems to multiply in TF32: its errors are about 1e-3"
    )


def _check(flops: float | None, moved: float | None, seconds: float) -> None:
    if not (seconds > 0 and math.isfinite(seconds)):
        raise ValueError(f"a call of {seconds!r} s: wanted a positive, finite time")
    for what, amount in (("FLOPs", flops), ("bytes", moved)):
        if amount is not None and not (amount >= 0 and math.isfinite(amount)):
            raise ValueError(f"{amount!r} {what} of a call: wanted a number >= 0, or None")


def _missing_roof(work: float, dram: float | None, peak: float | None, dtype: str) -> tuple[str, ...]:
    if dram is None:
        return ("DRAM's bandwidth is not known: it is no roof here",)
    if work and peak is None:
        return (f"the peak in {dtype} is not known: it is no roof here",)
    return ()


def _doubts(ratio: float, peak_ratio: float, beyond: bool | None) -> tuple[str, ...]:
    """Return the warning of a ratio above IMPOSSIBLE that no cache explains, or may not explain."""
    if ratio > IMPOSSIBLE and beyond:
        return (f"impossible: {ratio:.2f} times the roof, beyond {BEYOND} last-level caches; {_ASK}",)
    if peak_ratio > IMPOSSIBLE:  # also left of DRAM's ridge
        return (f"{peak_ratio:.2f} times the peak, which no cache explains; {_ASK}",)
    if ratio > IMPOSSIBLE and beyond is None:
        return (f"{ratio:.2f} times DRAM's roof, and the sizes of the caches are not known; {_ASK}",)
    return ()


def remarks(line: Roofline) -> tuple[str, ...]:
    """Return the warnings of a roofline, and the reason of a share above 100% that they do not name."""
    return line.warnings or ((ABOVE,) if line.of_limit > 1 else ())


def label(ratio: float) -> str:
    """Return the label of a share of the limit: "100%" from 1 on, "excellent" from 0.9 to below 1, else "room".

    The figure is not rounded first: 99.96% is excellent, 89.96% leaves room.
    """
    if ratio >= 1:
        return "100%"
    return "excellent" if ratio >= EXCELLENT else "room"


def percent(share: float) -> str:
    """Return a share of the limit in percent with one decimal, rounded down: 99.96% is "99.9%", 89.96% is "89.9%".

    So the text reaches 100% or 90% only where its label does. A positive figure that rounds to 0 is "<0.1%".
    """
    tenths = math.floor(round(share * 1000, 9))  # 0.57 * 1000 is 569.9999999999999
    for edge in (1.0, EXCELLENT):  # where rounding to 9 places has just carried it over
        if share < edge:
            tenths = min(tenths, round(edge * 1000) - 1)
    return "<0.1%" if share > 0 and tenths == 0 else f"{tenths / 10:.1f}%"


def dram_bandwidth(roofs: Roofs) -> float | None:
    """Return DRAM's bandwidth, B/s. None where it was not measured."""
    return next((level.bandwidth for level in roofs.levels if level.name == MEMORY), None)


def last_level_cache(roofs: Roofs) -> int | None:
    """Return the size of the outermost cache, B. None where it is unknown."""
    caches = [level for level in roofs.levels if level.name != MEMORY]
    return caches[-1].size if caches else None


def is_beyond(working_set: float, roofs: Roofs) -> bool | None:
    """Return whether a working set, B, exceeds BEYOND last-level caches. None where their size is unknown."""
    size = last_level_cache(roofs)
    return None if size is None else working_set > BEYOND * size


def memory_of(working_set: float, roofs: Roofs) -> str | None:
    """Return the innermost level that holds a working set, B: "L1", "L2", "L3" or "DRAM".

    A cache of unknown size is skipped. None where the size of the outermost cache is unknown and no inner one fits.
    """
    caches = [level for level in roofs.levels if level.name != MEMORY]
    for level in caches:
        if level.size is not None and working_set <= level.size:
            return level.name
    if not caches or caches[-1].size is None:
        return None
    return next((level.name for level in roofs.levels if level.name == MEMORY), None)
