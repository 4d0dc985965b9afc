"""The roofline: how far a timing is from what the machine can do. Pure; base units (s, B, FLOP).

The model is that of Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore
architectures", CACM 52(4), 2009: attainable = min(peak, intensity x bandwidth). One slope per level of the memory
hierarchy makes it hierarchical: which of them can bind depends on where the working set lies.

`efficiency` is against DRAM's slope and the peak, and is capped: a cache can lift a call above DRAM's slope, which is
`cache_benefit`, and no efficiency. `roof_ratio` is the same figure without the cap; `level_ratio` is against the slope
of the level that holds the working set.

In a script of your own, of a call that moves 120 MB and takes 7.5 ms (`kernel_velocity.runner.peaks.measure_roofs`
measures the roofs):

    >>> from kernel_velocity.roofline.model import Level, Roofs, memory_traffic, roofline
    >>> cache, dram = Level(name="L2", size=1 << 20, bandwidth=100e9), Level(name="DRAM", size=None, bandwidth=20e9)
    >>> roofs = Roofs(levels=(cache, dram), peaks={"float32": 100e9})
    >>> found = roofline(flops=30e6, bytes=120e6, seconds=7.5e-3, roofs=roofs, dtype="float32")
    >>> found.efficiency, found.bound, found.cache_benefit
    (0.8, 'memory', 1.0)

and what it saves against three operations in a row that move 280 MB:

    >>> traffic = memory_traffic(120e6, 7.5e-3, unfused_bytes=280e6)
    >>> f"{traffic.bandwidth / 1e9:.0f} GB/s, {traffic.reduction:.0%} less"
    '16 GB/s, 57% less'

What caches gave a call: how many times faster it was than memory alone could have been. Pure; base units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

IMPOSSIBLE = 1.05  # times the roof: more than the error of measuring a ceiling (warned of where that is over 5%)
BEYOND = 4  # last-level caches: what they hold of such a working set is a quarter at most
EXCELLENT = 0.9  # of the attainable, as published suites call it
MEMORY = "DRAM"
_ASK = (
    "were the ceilings measured on a busy machine (`kv peaks`), are the FLOPs and bytes of the Problem "
    "right, and were the caches cold?"
)


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
    dtype: str | None = None  # whose peak is the roof: "tf32" for float32 that is multiplied in TF32


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Memory traffic of one call. B and B/s; `reduction` is the share that fusing saved, None: not known."""

    bytes: float
    bandwidth: float
    unfused_bytes: float | None
    reduction: float | None


def roofline(
    *,
    flops: float | None,
    bytes: float | None,  # noqa: A002 - the word of `Problem.get_bytes`
    seconds: float,
    roofs: Roofs,
    dtype: str,
    working_set: float | None = None,
) -> Roofline | None:
    """Return one timing against the roofs; None where nothing can be said.

    Nothing can be said without the bytes of a call, and where neither DRAM's bandwidth nor the dtype's peak is known.
    Where one of the two is not, the other is the roof, and a warning says so. A call without FLOPs (0 or None: copies,
    integer work that nobody counts) has a roofline of bandwidth alone: bound by memory, intensity, achieved and
    attainable 0 FLOP/s, and its ratios are those of bytes per second, which is what they tend to as FLOPs vanish.

    Args:
        flops: floating-point operations of one call. bytes: its least memory traffic. seconds: per call.
        roofs: of the device. dtype: in which it computes, a key of `roofs.peaks`.
        working_set: the footprint, bytes that must lie in a cache for the cache to help; None: as many as are moved.

    Raises:
        ValueError: a time that is not positive and finite, negative FLOPs or bytes.
    """
    _check(flops, bytes, seconds)
    work, dram = flops or 0.0, dram_bandwidth(roofs)
    peak = roofs.peaks.get(dtype) if work else None
    if not bytes or (dram is None and peak is None):
        return None
    held = bytes if working_set is None else working_set
    least = _least_seconds(bytes, work, dram, peak)
    ratio = least / seconds
    of_peak = work / peak / seconds if peak else 0.0
    in_tf32 = _in_tf32(dtype, work / seconds, of_peak, roofs)
    doubtful = ratio if in_tf32 is None else _least_seconds(bytes, work, dram, roofs.peaks["tf32"]) / seconds
    bound = _bound(bytes, work, dram, peak)
    level = _level(held, roofs)
    return Roofline(
        intensity=work / bytes,
        ridge=None if dram is None or peak is None else peak / dram,
        bound=bound,
        attainable=work / least,
        achieved=work / seconds,
        bandwidth=bytes / seconds,
        efficiency=min(ratio, 1.0),
        roof_ratio=ratio,
        cache_benefit=1.0 if dram is None else cache_benefit(bytes, seconds, dram),
        level=None if level is None else level.name,
        level_ratio=_level_ratio(level, bytes, work, peak, seconds),
        impossible=doubtful > IMPOSSIBLE and is_beyond(held, roofs) is True,
        label=label(ratio),
        warnings=(
            *_unknown(work, dram, peak, dtype),
            *(() if in_tf32 is None else (in_tf32,)),
            *_doubts(doubtful, of_peak if in_tf32 is None else 0.0, is_beyond(held, roofs)),
        ),
        dtype=dtype,
    )


def _in_tf32(dtype: str, achieved: float, of_peak: float, roofs: Roofs) -> str | None:
    """Return what speaks for products in TF32, where float32's peak is surpassed and TF32's is not; else None.

    A library, or a convolution of PyTorch's, need not ask anybody before it takes them in TF32.
    """
    peak = roofs.peaks.get("tf32")
    if dtype != "float32" or of_peak <= IMPOSSIBLE or not peak or achieved > IMPOSSIBLE * peak:
        return None
    return (
        f"{of_peak:.2f} times the peak in float32, {achieved / peak:.2f} of that in TF32; "
        "it seems to multiply in TF32: its errors are about 1e-3"
    )


def _check(flops: float | None, moved: float | None, seconds: float) -> None:
    if not (seconds > 0 and math.isfinite(seconds)):
        raise ValueError(f"a call of {seconds!r} s: wanted a positive, finite time")
    for what, amount in (("FLOPs", flops), ("bytes", moved)):
        if amount is not None and not (amount >= 0 and math.isfinite(amount)):
            raise ValueError(f"{amount!r} {what} of a call: wanted a number >= 0, or None")


def _least_seconds(moved: float, work: float, bandwidth: float | None, peak: float | None) -> float:
    """Return the s that a call takes at least under the roofs that are known (one of them is)."""
    return max(moved / bandwidth if bandwidth else 0.0, work / peak if peak else 0.0)


def _bound(moved: float, work: float, dram: float | None, peak: float | None) -> str:
    """Return which roof is the lower one; at the ridge itself arithmetic is full, too: "compute"."""
    if peak is None:
        return "memory"
    return "compute" if dram is None or work / peak >= moved / dram else "memory"


def _level_ratio(level: Level | None, moved: float, work: float, peak: float | None, seconds: float) -> float | None:
    if level is None or level.bandwidth is None:
        return None
    return _least_seconds(moved, work, level.bandwidth, peak) / seconds


def _unknown(work: float, dram: float | None, peak: float | None, dtype: str) -> tuple[str, ...]:
    if dram is None:
        return ("DRAM's bandwidth is not known: only the peak is a roof here",)
    if work and peak is None:
        return (f"the peak in {dtype} is not known: only DRAM's bandwidth is a roof here",)
    return ()


def _doubts(ratio: float, of_peak: float, beyond: bool | None) -> tuple[str, ...]:
    """Return what speaks against a ratio above IMPOSSIBLE that no cache explains, or may not explain."""
    if ratio > IMPOSSIBLE and beyond:
        return (f"impossible: {ratio:.2f} times the roof, beyond {BEYOND} last-level caches; {_ASK}",)
    if of_peak > IMPOSSIBLE:  # also left of DRAM's ridge
        return (f"{of_peak:.2f} times the peak, which no cache explains; {_ASK}",)
    if ratio > IMPOSSIBLE and beyond is None:
        return (f"{ratio:.2f} times DRAM's roof, and the sizes of the caches are not known; {_ASK}",)
    return ()


def label(ratio: float) -> str:
    """Return an efficiency's word: "100%" only from the roof on, "excellent" from 90% to below it, else "room".

    It is decided by the figure itself, never by a rounded one: 99.96% is excellent, 89.96% leaves room.
    """
    if ratio >= 1:
        return "100%"
    return "excellent" if ratio >= EXCELLENT else "room"


def percent(efficiency: float) -> str:
    """Return an efficiency in percent with one decimal, rounded down: 99.96% is "99.9%", 89.96% is "89.9%".

    So a figure never says 100%, nor 90%, where its label does not; what is above 0 and rounds to it is "<0.1%".
    """
    tenths = math.floor(round(efficiency * 1000, 9))  # 0.57 * 1000 is 569.9999999999999
    for edge in (1.0, EXCELLENT):  # where rounding to 9 places has just carried it over
        if efficiency < edge:
            tenths = min(tenths, round(edge * 1000) - 1)
    return "<0.1%" if efficiency > 0 and tenths == 0 else f"{tenths / 10:.1f}%"


def dram_bandwidth(roofs: Roofs) -> float | None:
    """Return memory's bandwidth, B/s; None where it was not measured."""
    return next((level.bandwidth for level in roofs.levels if level.name == MEMORY), None)


def last_level_cache(roofs: Roofs) -> int | None:
    """Return the size of the outermost cache, B; None where it is not known (a smaller one's says nothing)."""
    caches = [level for level in roofs.levels if level.name != MEMORY]
    return caches[-1].size if caches else None


def is_beyond(working_set: float, roofs: Roofs) -> bool | None:
    """Return whether a working set is past BEYOND last-level caches; None where their size is not known."""
    size = last_level_cache(roofs)
    return None if size is None else working_set > BEYOND * size


def memory_of(working_set: float, roofs: Roofs) -> str | None:
    """Return the innermost level that holds a working set of so many bytes: "L1", "L2", "L3", "DRAM".

    None where the caches' sizes are not known. A set that one of unknown size may hold, and no smaller one does, lies
    in the next one that surely does.
    """
    level = _level(working_set, roofs)
    return None if level is None else level.name


def _level(working_set: float, roofs: Roofs) -> Level | None:
    caches = [level for level in roofs.levels if level.name != MEMORY]
    for level in caches:
        if level.size is not None and working_set <= level.size:
            return level
    if not caches or caches[-1].size is None:
        return None
    return next((level for level in roofs.levels if level.name == MEMORY), None)


def memory_traffic(bytes_moved: float, seconds: float, unfused_bytes: float | None = None) -> Traffic:
    """Return the traffic of one call, and what it saves against the unfused sequence of operations.

    Args:
        bytes_moved: least memory traffic of one call, B. seconds: of one call.
        unfused_bytes: least traffic of the sequence, every intermediate result written and read again; None: unknown.

    Raises:
        ValueError: an amount or a time that makes no sense.
    """
    _check(None, bytes_moved, seconds)
    if unfused_bytes is not None and not unfused_bytes > 0:
        raise ValueError(f"{unfused_bytes!r} bytes of the unfused sequence: wanted a positive number, or None")
    reduction = None if unfused_bytes is None else 1 - bytes_moved / unfused_bytes
    return Traffic(bytes=bytes_moved, bandwidth=bytes_moved / seconds, unfused_bytes=unfused_bytes, reduction=reduction)


def dram_seconds(bytes_moved: float, bandwidth: float) -> float:
    """Return the s that a call takes at least whose every byte comes from memory.

    Args:
        bytes_moved: least memory traffic of one call, B. bandwidth: of memory, B/s.

    Raises:
        ValueError: a negative amount, or a bandwidth that is not positive.
    """
    if not bytes_moved >= 0 or not bandwidth > 0:
        raise ValueError(f"memory's time of {bytes_moved!r} B at {bandwidth!r} B/s: wanted >= 0 B and > 0 B/s")
    return bytes_moved / bandwidth


def cache_benefit(bytes_moved: float, seconds: float, bandwidth: float) -> float:
    """Return the DRAM-bound prediction over the measured time, at least 1: 1 where caches gave nothing.

    Arithmetic is left out of the prediction on purpose: caches make no arithmetic faster.

    Args:
        bytes_moved: least memory traffic of one call, B. seconds: of one call. bandwidth: of memory, B/s.

    Raises:
        ValueError: an amount or a time that makes no sense.
    """
    if not seconds > 0:
        raise ValueError(f"a call of {seconds!r} s: wanted a positive time")
    return max(1.0, dram_seconds(bytes_moved, bandwidth) / seconds)
