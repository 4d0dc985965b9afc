"""Reduce a document of ceilings to the figures by which a machine is tracked, one number each.

Their names are those of the series `device.<Device>.track_<name>`: once recorded, never renamed (contract). Sizes of
caches are read off the sweep, never assumed: the pace at which working sets of growing size are read again falls
wherever a set outgrows a cache, and is level in between. Pure, and without torch: other rooms read figures, too.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from kernel_velocity.machine.ceilings import REREAD, Ceiling, from_document
from kernel_velocity.machine.workloads import AROUND, BEYOND, MULTIPLY_ADDS

CACHES: Mapping[str, tuple[str, ...]] = {"cpu": ("L1", "L2", "L3"), "cuda": ("L2",)}  # innermost first
# Name -> unit, in the order in which they are shown; of the two devices that which both have stands first.
_MEMORY = {"dram_copy_bandwidth": "B/s", "dram_read_bandwidth": "B/s", "dram_triad_bandwidth": "B/s"}
PEAK = "peak_"  # and a dtype
_PEAKS = {f"{PEAK}{dtype}": "FLOP/s" for dtype in ("float64", "float32", "float16", "bfloat16")}
_COSTS = {"launch_overhead": "s", "timer_tick": "s", "threads": "threads"}
ID = "device_id"  # which device it was: asv stores numbers, so its name's
UNITS: Mapping[str, Mapping[str, str]] = {
    device: {
        **_MEMORY,
        **{f"{name.lower()}_bandwidth": "B/s" for name in CACHES[device]},
        **{f"{name.lower()}_size": "B" for name in CACHES[device]},
        **_PEAKS,
        **peaks,
        **_COSTS,
        ID: "CRC-32",
    }
    for device, peaks in (("cpu", {}), ("cuda", {"peak_tf32": "FLOP/s", "peak_int8": "FLOP/s"}))
}
# A cache's pace is taken of sets well within it, and well beyond the one before: how much of a set a cache holds near
# its edge is not known (associativity, other tenants).
INSIDE, OUTSIDE = 0.75, 2.0
# Of the figures; one that begins to mean something else gets a higher one of its own (asv then starts a new series).
FIGURES_FORMAT = "1"
# 2: the higher of torch's and the native library's, which writes around the caches, and computes in registers alone.
_FORMATS = {("cpu", name): "2" for name in ("dram_copy_bandwidth", "dram_triad_bandwidth", *_PEAKS)}
# In which a CPU computes with numbers of a dtype, too, once they are loaded.
_COMPUTED = {"float16": "float32", "bfloat16": "float32"}


def figures(document: Mapping[str, Any]) -> dict[str, Ceiling]:
    """Return the figures of a document that `ceilings.measure` made with a sweep of the caches, by name, as ceilings.

    Raises:
        ValueError: the document is of another format.
    """
    device, ceilings = document["device"], from_document(document)
    reported: Mapping[str, int] = document["reported"].get("caches", {})
    points = [(c.bytes, c.value) for c in ceilings if c.what == REREAD and c.bytes and c.value]
    sizes = sizes_seen(points, device, reported)
    chosen = _memory(ceilings, largest_cache(sizes, reported), device) | _caches(ceilings, sizes, reported)
    chosen |= {f"{PEAK}{c.dtype}": _peak(ceilings, c.dtype, device) for c in ceilings if c.what == "matmul" and c.dtype}
    chosen |= {"launch_overhead": _best(ceilings, "launch"), "timer_tick": _best(ceilings, "tick")}
    chosen["threads"] = Ceiling(what="threads", unit="threads", value=document["reported"]["threads"])
    chosen[ID] = Ceiling(what=ID, unit="CRC-32", value=device_id(document["name"]))
    absent = Ceiling(what="", unit="", value=None, why="it was not measured")
    return {name: chosen.get(name, absent) for name in UNITS[device]}


def version(device: str, name: str) -> str:
    """Return the version, for asv, of the series of one figure of "cpu" or "cuda"."""
    return _FORMATS.get((device, name), FIGURES_FORMAT)


def device_id(name: str) -> int:
    """Return the CRC-32 of a device's name: the number that tells two devices of one machine apart."""
    return zlib.crc32(name.encode())


def _best(ceilings: Iterable[Ceiling], *whats: str, low: float = 0.0, high: float = math.inf) -> Ceiling:
    """Return the highest measured of these, on sets from `low` to `high` bytes. Else one with the reason for none.

    The highest, because each is what the machine did undisturbed, and no more than it can.
    """
    of_kind = [ceiling for ceiling in ceilings if ceiling.what in whats and low <= (ceiling.bytes or 0) <= high]
    measured = [ceiling for ceiling in of_kind if ceiling.value is not None]
    if measured:
        return max(measured, key=lambda ceiling: ceiling.value or 0.0)
    why = next((ceiling.why for ceiling in of_kind if ceiling.why), "no set of that size was measured")
    return Ceiling(what=whats[0], unit="", value=None, why=why)


def largest_cache(measured: Mapping[str, int | None], reported: Mapping[str, int]) -> int | None:
    """Return the larger of the last cache's sizes, as reported and as seen, bytes. None where neither is known."""
    name = list(measured)[-1]
    return max((size for size in (measured[name], reported.get(name)) if size), default=None)


def _memory(ceilings: Sequence[Ceiling], cache: int | None, device: str) -> dict[str, Ceiling]:
    """Return memory's bandwidths, of sets BEYOND the last cache. Where its size is not known, of the largest set."""
    chosen = {}
    for name in ("copy", "read", "triad"):
        around = [what for what in AROUND if device == "cpu" and what.startswith(name)]
        whats = (name, *around, *([REREAD] if name == "read" else []))
        largest = max((ceiling.bytes or 0 for ceiling in ceilings if ceiling.what in whats), default=0)
        chosen[f"dram_{name}_bandwidth"] = _best(ceilings, *whats, low=BEYOND * cache if cache else largest)
    return chosen


def _peak(ceilings: Sequence[Ceiling], dtype: str, device: str) -> Ceiling:
    """Return the highest rate of arithmetic on numbers of a dtype."""
    computed = (dtype, _COMPUTED.get(dtype)) if device == "cpu" else (dtype,)
    products = [ceiling for ceiling in ceilings if ceiling.what == "matmul" and ceiling.dtype == dtype]
    adds = [ceiling for ceiling in ceilings if ceiling.what == MULTIPLY_ADDS and ceiling.dtype in computed]
    return _best([*products, *adds], "matmul", MULTIPLY_ADDS)


def _caches(
    ceilings: Sequence[Ceiling], measured: Mapping[str, int | None], reported: Mapping[str, int]
) -> dict[str, Ceiling]:
    """Return size and bandwidth of each cache. The size is the measured one, as a reported one is no measurement.

    The bandwidth is that of sets that lie within the cache and not within the one before.
    """
    chosen, inner = {}, 0
    for name in measured:
        size = measured[name] or reported.get(name)
        if size is None:
            best = Ceiling(what=name, unit="B/s", value=None, why=f"no source reports the size of {name}")
        else:
            best = _best(ceilings, REREAD, "copy", low=OUTSIDE * inner, high=INSIDE * size)
            inner = size
        why = "" if measured[name] else "the sweep shows no fall of the pace near its size"
        chosen[f"{name.lower()}_bandwidth"] = best
        chosen[f"{name.lower()}_size"] = Ceiling(what=name, unit="B", value=measured[name], why=why)
    return chosen


# Sizes of caches, off the sweep ---------------------------------------------------------------------------------------

Points = Sequence[tuple[int, float]]  # working set in bytes and B/s, by size
STRETCH = 3  # points of a level stretch, at two per doubling: fewer are the way down between two
FALL = 1.2  # times that the pace must fall from one level to the next: noise between points is a few percent
NEAR = 4.0  # times that a seen size may differ from the reported one (a share of it, or of a neighbour's)


@dataclass(frozen=True, kw_only=True)
class Plateau:
    """A level stretch of the sweep: its working sets, bytes, first and last, and the pace there, B/s."""

    first: int
    last: int
    pace: float


def levels(points: Points, most: int) -> list[Plateau]:
    """Return the level stretches of a sweep, innermost first: as many as the points tell apart, `most` at most.

    `most` is the number of caches and memory together. The logarithms of the pace are cut into stretches so that they
    differ least from each stretch's median (the sum of absolute differences: one disturbed point moves no cut). Of the
    numbers of stretches the largest whose every fall is at least FALL.
    """
    paces = [math.log2(pace) for _, pace in points]
    for count in range(min(most, len(points) // STRETCH), 1, -1):
        stretches = [_stretch(points[first:last]) for first, last in pairwise(_cuts(paces, count))]
        if all(inner.pace >= FALL * outer.pace for inner, outer in pairwise(stretches)):
            return stretches
    return [_stretch(points)] if points else []


def _stretch(points: Points) -> Plateau:
    return Plateau(first=points[0][0], last=points[-1][0], pace=sorted(pace for _, pace in points)[len(points) // 2])


def _cuts(values: Sequence[float], count: int) -> list[int]:
    """Return the edges of the best `count` stretches of at least STRETCH values (dynamic programming over the ends)."""
    ends = range(STRETCH, len(values) + 1)
    best = {end: (_misfit(values[:end]), [0, end]) for end in ends}
    for _ in range(count - 1):
        best = {
            end: min(
                (best[cut][0] + _misfit(values[cut:end]), [*best[cut][1], end]) for cut in best if cut <= end - STRETCH
            )
            for end in ends
            if any(cut <= end - STRETCH for cut in best)
        }
    return best[len(values)][1]


def _misfit(values: Sequence[float]) -> float:
    middle = sorted(values)[len(values) // 2]
    return sum(abs(value - middle) for value in values)


def falls(points: Points, most: int) -> list[int]:
    """Return the working sets after which the pace falls, bytes: the last that is nearer to the pace before.

    Nearer in ratio: the pace is above the geometric mean of those on both sides. Where disturbed points are on the
    wrong side, the cut counts that leaves the fewest of them there.
    """
    sizes = []
    for inner, outer in pairwise(levels(points, most)):
        middle = math.sqrt(inner.pace * outer.pace)
        joint = [(size, pace >= middle) for size, pace in points if inner.first <= size <= outer.last]
        wrong = [
            sum(not above for _, above in joint[:cut]) + sum(above for _, above in joint[cut:])
            for cut in range(1, len(joint))
        ]
        sizes.append(joint[wrong.index(min(wrong))][0])
    return sizes


def sizes_seen(points: Points, device: str, reported: Mapping[str, int]) -> dict[str, int | None]:
    """Return the size of each of a device's caches as the sweep shows it, bytes. None for one that does not show.

    A fall belongs to the reported cache nearest in size, if it is within NEAR times of it. Of two falls for one cache
    the nearer counts. Where no sizes are reported, falls are taken in order if there is one for each cache. Of fewer,
    only the last is known to be the last cache's.
    """
    names = CACHES[device]
    sizes: dict[str, int | None] = dict.fromkeys(names)
    falls_at = falls(points, len(names) + 1)
    known_names = [name for name in names if name in reported]
    if not known_names:
        pairs = (
            zip(names, falls_at, strict=True)
            if len(falls_at) == len(names)
            else zip(names[-1:], falls_at[-1:], strict=False)
        )
        return sizes | dict(pairs)
    for size in falls_at:
        distances = {name: abs(math.log2(size / reported[name])) for name in known_names}  # in doublings
        name = min(known_names, key=distances.__getitem__)
        before = sizes[name]
        nearer = before is None or distances[name] < abs(math.log2(before / reported[name]))
        if distances[name] <= math.log2(NEAR) and nearer:
            sizes[name] = size
    return sizes
