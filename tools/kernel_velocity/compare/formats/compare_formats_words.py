"""The figures of a row as text, with their units: what the Markdown tables and the page both show."""

from __future__ import annotations

import math

from kernel_velocity import units
from kernel_velocity.compare.formats.figures import MAXIMUM_KEYS, Figures, Row, half_width, reason, status, worst
from kernel_velocity.stats.speedup import SpeedUp

DASH = "–"
MEGABYTE = 1e6  # bytes
# Counts in the figures of harness/accuracy.py, and what they count
NEVER_RIGHT = {"nan": "NaN", "infinite": "infinity", "missing": "no NaN or infinity where one belongs"}


def time(found: Figures) -> str:
    """Return the value with its interval in percent: "61.2 µs ± 0.4%"; without it where there is none."""
    half = half_width(found)
    return units.seconds(found.seconds) if half is None else f"{units.seconds(found.seconds)} ± {_two(100 * half)}%"


def _two(value: float) -> str:
    """Return an error with two significant digits, as errors are given; of 100 and more, all before the point."""
    return f"{value:.2g}" if value < 99.5 else f"{value:,.0f}"


def mean(found: Figures) -> str:
    """Return mean and standard deviation of the samples: "61.5 µs, sd 1.20 µs"."""
    spread = "" if found.std is None else f", sd {units.seconds(found.std)}"
    return f"{units.seconds(found.mean)}{spread}"


def rate(row: Row) -> str:
    """Return the rate: "12.3 GFLOPS"; a dash where nothing was timed, or the problem does not say its FLOPs."""
    if row.figures is None or row.figures.rate is None:
        return DASH
    return units.rate(row.figures.rate / 1e9, units.rate_unit(row.compared.dtype))


def bandwidth(found: Figures) -> str:
    """Return the traffic over time: "12.3 GB/s"; a dash where the problem does not say its bytes."""
    return DASH if found.bandwidth is None else units.gigabytes(found.bandwidth / 1e9)


def efficiency(row: Row) -> str:
    """Return the share of what is attainable: "93.1% (excellent)"; a dash where the ceilings are not known."""
    roofline = row.timed.roofline
    if roofline is None or row.figures is None:
        return DASH
    share = units.share(roofline.efficiency)
    if roofline.impossible:
        return f"{share} (impossible: {roofline.roof_ratio:.2f} of the roof)"
    return share if roofline.label == "100%" else f"{share} ({roofline.label})"


def bound(row: Row) -> str:
    """Return what binds, and at which level's roof: "memory, DRAM"; a dash where the ceilings are not known."""
    roofline = row.timed.roofline
    if roofline is None or row.figures is None:
        return DASH
    what = "compute in TF32" if roofline.dtype == "tf32" and roofline.bound == "compute" else roofline.bound
    return what if roofline.level is None else f"{what}, {roofline.level}"


def cache_benefit(row: Row) -> str:
    """Return how many times faster than from DRAM alone: "1.00x"; a dash where the ceilings are not known."""
    roofline = row.timed.roofline
    return DASH if roofline is None or row.figures is None else f"{units.significant(roofline.cache_benefit)}x"


def function(row: Row) -> str:
    """Return the time in the whole function and what of it lies outside the call; a dash where it was not timed."""
    if row.timed.function is None or row.figures is None or row.figures.overhead is None:
        return DASH
    overhead = row.figures.overhead
    sign = "−" if overhead < 0 else "+"
    return f"{units.seconds(row.timed.function)} ({sign}{units.seconds(abs(overhead))})"


def size(row: Row) -> str:
    """Return the size of the largest tensor: "20.0 MB" (10^6 bytes)."""
    return f"{units.significant(row.compared.tensor_bytes / MEGABYTE)} MB"


def memory(row: Row) -> str:
    """Return where the working set lies: "DRAM"; a dash where the caches are not known."""
    return row.compared.memory or DASH


def result(row: Row) -> str:
    """Return the status, with the reason where there is one: "n/a: no CUDA device"."""
    why = reason(row.timed)
    return f"{status(row.timed)}: {why}" if why else status(row.timed)


def speed_up(found: SpeedUp) -> str:
    """Return a ratio with its error: "2.10x ± 0.02"; without it where there were too few rounds."""
    if found.error is None:
        return f"{units.significant(found.ratio)}x"
    return f"{units.significant(found.ratio)}x ± {_two(found.error)}"


def error(row: Row) -> str:
    """Return the largest absolute error over the outputs: "1.19e-07"; a dash where nothing was compared.

    Errors are of pairs of finite numbers: a NaN or an infinity that should not be there, or is missing, comes first.
    """
    for count, what in NEVER_RIGHT.items():
        elements = worst(row.timed.accuracy, (count,))
        if elements:
            return f"{what} in {units.count(int(elements), 'element')}"
    found = worst(row.timed.accuracy, MAXIMUM_KEYS)
    if found is None:
        return DASH
    return "NaN" if math.isnan(found) else f"{found:.3g}"
