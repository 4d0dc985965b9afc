"""The figures of a row as text, for every output, "" where unknown. Rounding never makes 0% or 1.00x of others."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernel_velocity import units
from kernel_velocity.compare.result import RIGHT, Row
from kernel_velocity.roofline import model
from kernel_velocity.stats.speedup import SpeedUp

MEGABYTE = 1e6  # bytes
# Counts of harness/accuracy.py, and what they count
NEVER_RIGHT = {"nan": "NaN", "infinite": "infinity", "missing": "no NaN or infinity where one belongs"}


def name(row: Row) -> str:
    """Return problem, test case and implementation: "add_mul_exp float32-1M native"."""
    return f"{row.compared.problem} {row.compared.case} {row.timed.implementation}"


def percent(fraction: float) -> str:
    """Return the fraction of an error in percent with two digits: "0.41%", "12%"."""
    value = 100 * fraction
    if value == 0:
        return "0%"
    digits = max(0, 1 - math.floor(math.log10(float(f"{value:.1e}"))))
    return f"{value:.{min(digits, 4)}f}%" if value >= 5e-5 else "<0.0001%"


def ratio(value: float) -> str:
    """Return a ratio with two decimals, or more digits where it is small: "2.35", "1.00+" just above 1."""
    text = f"{value:.2f}" if value >= 0.1 else units.significant(value)
    if value != 1 and float(text) == 1:
        return "1.00+" if value > 1 else "1.00-"
    return text


def speed_up(pair: SpeedUp) -> str:
    """Return "2.31× ±0.02", or "2.31×" where there are too few rounds for an error."""
    if pair.error is None:
        return f"{ratio(pair.ratio)}{units.MULTIPLE}"
    error = f"{pair.error:.2f}" if pair.error >= 0.005 else units.significant(pair.error)
    return f"{ratio(pair.ratio)}{units.MULTIPLE} ±{error}"


def time(row: Row) -> str:
    """Return "61.2 µs ±0.4%" with the larger side of the interval, "61.2 µs" where there is none."""
    if row.timing is None:
        return ""
    half = row.timing.half_width
    return units.seconds(row.timing.seconds) + ("" if half is None else f" ±{percent(half)}")


def mean(row: Row) -> str:
    """Return mean and standard deviation of all samples, as published tables have them: "61.5 µs ±1.20 µs"."""
    if row.spread is None:
        return ""
    deviation = row.spread.deviation
    return units.seconds(row.spread.mean) + ("" if deviation is None else f" ±{units.seconds(deviation)}")


def megabytes(row: Row) -> str:
    """Return the size of the largest tensor in MB (10^6 bytes)."""
    return units.significant(row.compared.tensor_bytes / MEGABYTE)


def rate(row: Row) -> str:
    """Return "12.3 GFLOPS"."""
    return "" if row.rate is None else units.rate(row.rate / 1e9, units.rate_unit(row.compared.dtype))


def bandwidth(row: Row) -> str:
    """Return "12.3 GB/s"."""
    return "" if row.bandwidth is None else units.bandwidth(row.bandwidth / 1e9)


def share(row: Row) -> str:
    """Return the share of its limit: "93.1%"."""
    return "" if row.roofline is None else model.percent(row.roofline.of_limit)


def efficiency(row: Row) -> str:
    """Return the share with the limit and the label: "93.1% of DRAM (excellent)"."""
    roofline = row.roofline
    if roofline is None:
        return ""
    word = "impossible" if roofline.impossible else "" if roofline.label == "100%" else roofline.label
    return f"{share(row)} of {roofline.limit}" + (f" ({word})" if word else "")


def bound(row: Row) -> str:
    """Return what binds, and the level whose roof it is: "memory, DRAM", "compute in TF32, L2"."""
    if row.roofline is None:
        return ""
    what = "compute in TF32" if (row.roofline.bound, row.roofline.dtype) == ("compute", "tf32") else row.roofline.bound
    return what if row.roofline.level is None else f"{what}, {row.roofline.level}"


def cache_benefit(row: Row) -> str:
    """Return how many times faster than from DRAM alone: "1.00x"."""
    return "" if row.roofline is None else f"{ratio(row.roofline.cache_benefit)}{units.MULTIPLE}"


def error(row: Row) -> str:
    """Return the largest absolute error over the outputs: "1.19e-07". NaN and infinities come first."""
    for name, what in NEVER_RIGHT.items():
        if elements := max((output.number(name) or 0 for output in row.timed.accuracy), default=0):
            return f"{what} in {units.count(int(elements), 'element')}"
    # `max_difference` is what public challenges report
    figures = [output.number("max_absolute_error", "max_difference") for output in row.timed.accuracy]
    errors = [error for error in figures if error is not None]
    if any(map(math.isnan, errors)):
        return "NaN"
    return f"{max(errors):.3g}" if errors else ""


def verdict(rows: Sequence[Row]) -> str:
    """Return how many results are verified and right, or which are wrong or failed."""
    bad = [f"{row.timed.implementation} on {row.compared.case}" for row in rows if row.timed.is_bad]
    if bad:
        return f"FAIL: {units.count(len(bad), 'result')} wrong or failed: {', '.join(bad)}"
    right = sum(row.timed.status == RIGHT for row in rows)
    return f"{right} of {units.count(sum(row.timing is not None for row in rows), 'result')} verified and right"
