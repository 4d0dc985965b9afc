"""The figures of one implementation on one test case as text, one function for each column of the table. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernel_velocity import units
from kernel_velocity.compare.compare_columns import bars
from kernel_velocity.compare.result import Accuracy, Compared, Timed
from kernel_velocity.roofline.model import percent as roofs_percent
from kernel_velocity.stats import speedup as speed_ups
from kernel_velocity.stats.speedup import Spread, Timing

NONE = "-"
BINS = 8  # of the histogram in a row
MEGABYTE = 1e6
CONSTANT = "all equal"


@dataclass(frozen=True, kw_only=True)
class Row:
    """An implementation on a case; `timing` and `spread` are None where no time counts."""

    compared: Compared
    timed: Timed
    timing: Timing | None
    spread: Spread | None

    @property
    def samples(self) -> list[float]:
        """All samples of all rounds, s."""
        return [sample for each in self.timed.rounds for sample in each]


def rows(compared: Compared) -> list[Row]:
    """Return the rows of a case."""
    return [row(compared, timed) for timed in compared.timed]


def row(compared: Compared, timed: Timed) -> Row:
    """Return one row: a wrong implementation has no time, whatever was measured before it was found wrong."""
    counts = timed.failed is None and timed.missing is None and bool(timed.estimates)
    samples = [sample for each in timed.rounds for sample in each]
    return Row(
        compared=compared,
        timed=timed,
        timing=speed_ups.timing(timed.estimates) if counts else None,
        spread=speed_ups.spread(samples) if counts and samples else None,
    )


def time(found: Row) -> str:
    """Return "61.2 µs ±0.4%", "61.2 µs" where too few rounds give an interval, FAIL, or n/a."""
    if found.timing is None:
        return "FAIL" if found.timed.failed is not None else "n/a"
    half = found.timing.half_width
    said = units.seconds(found.timing.seconds)
    return said if half is None else f"{said} ±{percent(half)}"


def percent(fraction: float) -> str:
    """Return an error's fraction in percent with two digits: "0.41%", "12%"; never 0% unless it is 0."""
    value = 100 * fraction
    if value == 0:
        return "0%"
    digits = max(0, 1 - math.floor(math.log10(float(f"{value:.1e}"))))
    return f"{value:.{min(digits, 4)}f}%" if value >= 5e-5 else "<0.0001%"


def p50(found: Row) -> str:
    """Return the median of all samples."""
    return NONE if found.spread is None else units.seconds(found.spread.p50)


def p99(found: Row) -> str:
    """Return the 99th percentile of all samples."""
    return NONE if found.spread is None else units.seconds(found.spread.p99)


def mean(found: Row) -> str:
    """Return mean and standard deviation of all samples, as published tables have them."""
    if found.spread is None:
        return NONE
    said = units.seconds(found.spread.mean)
    return said if found.spread.deviation is None else f"{said} ±{units.seconds(found.spread.deviation)}"


def rate(found: Row) -> str:
    """Return 10^9 operations per second."""
    return _per_second(found.compared.flops, found.timing)


def bandwidth(found: Row) -> str:
    """Return GB/s (10^9 B/s)."""
    return _per_second(found.compared.bytes, found.timing)


def _per_second(amount: int | None, timing: Timing | None) -> str:
    return NONE if amount is None or timing is None else units.significant(amount / timing.seconds / 1e9)


def efficiency(found: Row) -> str:
    """Return the share of the attainable rate, capped at 100%; with "!" where the roofline warns of it."""
    roofline = found.timed.roofline
    if roofline is None or found.timing is None:
        return NONE
    return roofs_percent(roofline.efficiency) + ("!" if roofline.impossible or roofline.warnings else "")


def bound(found: Row) -> str:
    """Return what binds: "memory", "compute"; "tf32" where it is TF32's peak that does."""
    roofline = found.timed.roofline
    if roofline is None or found.timing is None:
        return NONE
    return roofline.dtype if roofline.dtype == "tf32" and roofline.bound == "compute" else roofline.bound


def cache_benefit(found: Row) -> str:
    """Return how many times faster than DRAM alone would allow: "1.00x"."""
    roofline = found.timed.roofline
    return NONE if roofline is None or found.timing is None else f"{times(roofline.cache_benefit)}x"


def times(ratio: float) -> str:
    """Return a ratio with two decimals, or more digits where it is small; never 1 unless it is 1, never 0."""
    said = f"{ratio:.2f}" if ratio >= 0.1 else units.significant(ratio)
    if ratio != 1 and float(said) == 1:
        return "1.00+" if ratio > 1 else "1.00-"
    return said


def histogram(found: Row) -> str:
    """Return the samples from the fastest to the 99th percentile as blocks; what is slower counts in the last."""
    if found.spread is None:
        return NONE
    if found.spread.min == found.spread.p99:
        return CONSTANT
    return bars(speed_ups.histogram(found.samples, BINS))


def function(found: Row) -> str:
    """Return the time in the whole function."""
    return NONE if found.timed.function is None or found.timing is None else units.seconds(found.timed.function)


def overhead(found: Row) -> str:
    """Return what of the whole function lies outside the kernel; "within noise" where it is negative."""
    if found.timing is None:
        return NONE
    outside = speed_ups.overhead(found.timed.function, found.timing.seconds)
    if outside is None or outside == 0:  # 0: the call is the function, and was timed once
        return NONE
    return "within noise" if outside < 0 else units.seconds(outside)


def figure(accuracy: Accuracy, name: str) -> str:
    """Return an error figure of an output."""
    return number(accuracy.details, name)


def number(details: Mapping[str, object], name: str) -> str:
    """Return a figure of details with three digits, "-" where there is none."""
    value = details.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NONE
    if isinstance(value, int):
        return f"{value:,}"
    return "0" if value == 0 else f"{value:.3g}"


def size(compared: Compared) -> str:
    """Return the MB (10^6 bytes) of the largest tensor."""
    return units.significant(compared.tensor_bytes / MEGABYTE)


def blank_repeats(cells: Sequence[str]) -> list[str]:
    """Return cells with those left blank that say what the one above said."""
    return ["" if number and cell == cells[number - 1] else cell for number, cell in enumerate(cells)]


def one_line(found: Row) -> str:
    """Return "61us (RSD 0.124; min -41%; max +182%)": mean, standard deviation and extremes relative to it."""
    if found.spread is None:
        return f"FAIL: {found.timed.failed}" if found.timed.failed is not None else f"n/a: {found.timed.missing}"
    spread, micro = found.spread, found.spread.mean * 1e6
    mean_text = f"{micro:,.0f}us" if micro >= 10 else f"{units.significant(micro)}us"
    if spread.deviation is None:
        return f"{mean_text} (one sample)"
    deviation = spread.deviation / spread.mean
    rsd = "<0.001" if 0 < deviation < 0.0005 else f"{deviation:.3f}"
    return f"{mean_text} (RSD {rsd}; min {_signed(spread.min / spread.mean)}; max {_signed(spread.max / spread.mean)})"


def _signed(ratio: float) -> str:
    """Return a ratio's distance from 1 with its sign: "-41%", "+0.3%"; 0% only for 1."""
    distance = abs(ratio - 1)
    if distance == 0:
        return "0%"
    shown = f"{100 * distance:.0f}%" if distance >= 0.01 else f"{100 * distance:.1f}%"
    return ("-" if ratio < 1 else "+") + ("<0.1%" if shown == "0.0%" else shown)
