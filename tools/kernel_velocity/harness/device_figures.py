"""The figures by which a machine's ceilings are tracked: one number each, made from a whole document of ceilings.

Their names are those of the series `device.<Device>.track_<name>`: once recorded, never renamed (contract). Pure, and
without torch: `tools` reads them, too.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernel_velocity.harness import cache_sweep
from kernel_velocity.harness.ceilings import BEYOND, SPREAD, Ceiling, from_document, warnings
from kernel_velocity.harness.workloads import AROUND, MULTIPLY_ADDS

# Name -> unit, in the order in which they are shown; of the two devices that which both have stands first.
_MEMORY = {"dram_copy_bandwidth": "B/s", "dram_read_bandwidth": "B/s", "dram_triad_bandwidth": "B/s"}
PEAK = "peak_"  # and a dtype
_PEAKS = {f"{PEAK}{dtype}": "FLOP/s" for dtype in ("float64", "float32", "float16", "bfloat16")}
_COSTS = {"launch_overhead": "s", "timer_tick": "s", "threads": "threads"}
ID = "device_id"  # which device it was: asv stores numbers, so its name's
UNITS: Mapping[str, Mapping[str, str]] = {
    device: {
        **_MEMORY,
        **{f"{name.lower()}_bandwidth": "B/s" for name in names},
        **{f"{name.lower()}_size": "B" for name in names},
        **_PEAKS,
        **peaks,
        **_COSTS,
        ID: "CRC-32",
    }
    for device, names, peaks in (
        ("cpu", cache_sweep.NAMES["cpu"], {}),
        ("cuda", cache_sweep.NAMES["cuda"], {"peak_tf32": "FLOP/s", "peak_int8": "FLOP/s"}),
    )
}
# A cache's pace is taken of sets well within it, and well beyond the one before: how much of a set a cache holds near
# its edge is not known (associativity, other tenants).
INSIDE, OUTSIDE = 0.75, 2.0
# Of the figures; one that begins to mean something else gets a higher one of its own (asv then starts a new series).
FORMAT = "1"
# 2: the higher of torch's and the native library's, which writes around the caches, and computes in registers alone.
_FORMATS = {("cpu", name): "2" for name in ("dram_copy_bandwidth", "dram_triad_bandwidth", *_PEAKS)}
# In which a CPU computes with numbers of a dtype, too, once they are loaded.
_COMPUTED = {"float16": "float32", "bfloat16": "float32"}


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure. `value` is None where it could not be measured, and `why` then says why.

    `spread` is that of the samples (robust standard deviation over median), None where it has none.
    """

    name: str
    unit: str
    value: float | None
    spread: float | None = None
    why: str = ""


def figures(document: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Return the figures of a document that `ceilings.measure` made with `cache_sweep.measured`.

    Raises:
        ValueError: the document is of another format.
    """
    device, found = document["device"], from_document(document)
    reported: Mapping[str, int] = document["reported"].get("caches", {})
    points = [(c.bytes, c.value) for c in found if c.what == cache_sweep.WHAT and c.bytes and c.value]
    seen = cache_sweep.sizes_seen(points, device, reported)
    chosen = _memory(found, largest_cache(seen, reported), device) | _caches(found, seen, reported) | _sizes(seen)
    chosen |= {f"{PEAK}{c.dtype}": _peak(found, c.dtype, device) for c in found if c.what == "matmul" and c.dtype}
    chosen |= {"launch_overhead": _best(found, "launch"), "timer_tick": _best(found, "tick")}
    chosen["threads"] = Ceiling(what="threads", unit="threads", value=document["reported"]["threads"])
    chosen[ID] = Ceiling(what=ID, unit="CRC-32", value=device_id(document["name"]))
    absent = Ceiling(what="", unit="", value=None, why="it was not measured")
    return tuple(_figure(name, unit, chosen.get(name, absent)) for name, unit in UNITS[device].items())


def version(device: str, name: str) -> str:
    """Return the version, for asv, of the series of one figure of "cpu" or "cuda"."""
    return _FORMATS.get((device, name), FORMAT)


def device_id(name: str) -> int:
    """Return the number that stands for a device's name, its CRC-32: of two devices under one machine's name, which."""
    return zlib.crc32(name.encode())


def doubts(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the warnings of a document; those of samples that spread, on a busy machine dozens, as one."""
    found = from_document(document)
    of_spread = set(warnings(found)) - set(warnings([replace(each, spread=None) for each in found]))
    wide = sum(each.spread is not None and each.spread > SPREAD for each in found)
    kept = [warning for warning in document["warnings"] if warning not in of_spread]
    if wide:
        kept.append(
            f"the samples of {wide} of {len(found)} measurements spread by more than {SPREAD:.0%}: a busy machine"
        )
    return tuple(kept)


def _figure(name: str, unit: str, chosen: Ceiling) -> Figure:
    return Figure(name=name, unit=unit, value=chosen.value, spread=chosen.spread, why=chosen.why)


def _best(found: Iterable[Ceiling], *whats: str, low: float = 0.0, high: float = math.inf) -> Ceiling:
    """Return the highest measured of these, on sets from `low` to `high` bytes; else one that says why there is none.

    The highest: each is what the machine did undisturbed, and no more than it can.
    """
    of_kind = [each for each in found if each.what in whats and low <= (each.bytes or 0) <= high]
    measured = [each for each in of_kind if each.value is not None]
    if measured:
        return max(measured, key=lambda each: each.value or 0.0)
    why = next((each.why for each in of_kind if each.why), "no set of that size was measured")
    return Ceiling(what=whats[0], unit="", value=None, why=why)


def largest_cache(seen: Mapping[str, int | None], reported: Mapping[str, int]) -> int | None:
    """Return the larger of the last cache's sizes, as reported and as seen, bytes; None where neither is known."""
    name = list(seen)[-1]
    return max((size for size in (seen[name], reported.get(name)) if size), default=None)


def _memory(found: Sequence[Ceiling], cache: int | None, device: str) -> dict[str, Ceiling]:
    """Return memory's bandwidths, of sets BEYOND the last cache; where its size is not known, of the largest set.

    A CPU's document from before streams around the caches were measured has no copy and no triad: it would say less
    than the machine can.
    """
    kinds = {"copy": ("copy",), "read": ("read", cache_sweep.WHAT), "triad": ("triad",)}
    measured, chosen = {each.what for each in found}, {}
    for name, whats in kinds.items():
        around = [what for what in AROUND if device == "cpu" and what.startswith(name)]
        largest = max((each.bytes or 0 for each in found if each.what in (*whats, *around)), default=0)
        best = _best(found, *whats, *around, low=BEYOND * cache if cache else largest)
        if best.value is not None and not measured.issuperset(around):
            best = replace(best, value=None, spread=None, why="measured before streams around the caches were")
        chosen[f"dram_{name}_bandwidth"] = best
    return chosen


def _peak(found: Sequence[Ceiling], dtype: str, device: str) -> Ceiling:
    """Return the highest rate of arithmetic on numbers of a dtype.

    A CPU's document from before multiply-adds were measured has none: it would say less than the machine can.
    """
    computed = (dtype, _COMPUTED.get(dtype)) if device == "cpu" else (dtype,)
    adds = [each for each in found if each.what == MULTIPLY_ADDS and each.dtype in computed]
    best = _best(
        [*(each for each in found if each.what == "matmul" and each.dtype == dtype), *adds], "matmul", MULTIPLY_ADDS
    )
    if best.value is not None and not adds and device == "cpu":
        return replace(best, value=None, spread=None, why="measured before multiply-adds in registers were")
    return best


def _caches(
    found: Sequence[Ceiling], seen: Mapping[str, int | None], reported: Mapping[str, int]
) -> dict[str, Ceiling]:
    """Return the bandwidth of each cache, on sets that lie within it and not within the one before."""
    chosen, inner = {}, 0
    for name in seen:
        size = seen[name] or reported.get(name)
        key = f"{name.lower()}_bandwidth"
        if size is None:
            chosen[key] = Ceiling(what=name, unit="B/s", value=None, why=f"nobody says how large {name} is")
            continue
        chosen[key] = _best(found, cache_sweep.WHAT, "copy", low=OUTSIDE * inner, high=INSIDE * size)
        inner = size
    return chosen


def _sizes(seen: Mapping[str, int | None]) -> dict[str, Ceiling]:
    """Return the sizes of the caches as they were seen; what is reported is no measurement."""
    why = "the sweep shows no fall of the pace near its size"
    return {
        f"{name.lower()}_size": Ceiling(what=name, unit="B", value=size, why="" if size else why)
        for name, size in seen.items()
    }
