"""What every output format says of a row of a comparison: the figures that follow from its samples. Pure.

Times in seconds per call, rates in FLOP/s and B/s; what cannot be known is None.

The figures of a row as text, with their units: what the Markdown tables and the page both show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernel_velocity import units
from kernel_velocity.compare.result import Accuracy, Compared, Comparison, Timed
from kernel_velocity.results.measurement import INTERVAL_METHOD, Interval
from kernel_velocity.stats.speedup import SpeedUp, larger_side, overhead, pairwise, spread, timing

RIGHT, WRONG, FAILED, MISSING = "right", "WRONG", "FAILED", "n/a"
UNVERIFIED = "not verified"
MAXIMUM_KEYS = ("max_absolute_error", "max_difference")  # the second: what public challenges report

DASH = "–"
MEGABYTE = 1e6  # bytes
# Counts in the figures of harness/accuracy.py, and what they count
NEVER_RIGHT = {"nan": "NaN", "infinite": "infinity", "missing": "no NaN or infinity where one belongs"}


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What the samples of one implementation on one test case say.

    Attributes:
        seconds: the value: the median of the round estimates.
        interval: 95% over rounds; None with fewer than 3 of them.
        mean, std: of all samples of all rounds, as published tables have them; std is None of a single sample.
        minimum, p50, p99, maximum: of all samples; percentiles are linear between order statistics.
        samples: how many there are.
        rate, bandwidth: at `seconds`; None where the problem does not say its FLOPs, or its bytes.
        overhead: of the whole function over the call alone; None where the function was not timed.
    """

    seconds: float
    interval: Interval | None
    mean: float
    std: float | None
    minimum: float
    p50: float
    p99: float
    maximum: float
    samples: int
    rate: float | None
    bandwidth: float | None
    overhead: float | None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One implementation on one test case, with its figures; None of them where there is no time of any worth."""

    compared: Compared
    timed: Timed
    figures: Figures | None
    number: int  # of its test case within the problem, from 1


def rows(comparison: Comparison) -> Iterator[Row]:
    """Return every implementation on every test case, in the comparison's order."""
    seen: dict[tuple[str, str], int] = {}
    for compared in comparison.compared:
        group = (compared.problem, compared.device)
        seen[group] = seen.get(group, 0) + 1
        for timed in compared.timed:
            yield Row(compared=compared, timed=timed, figures=figures(compared, timed), number=seen[group])


def figures(compared: Compared, timed: Timed) -> Figures | None:
    """Return the figures of a row; None where it is n/a, failed or was not timed."""
    if timed.missing is not None or timed.failed is not None or not timed.estimates:
        return None
    value = timing(timed.estimates)
    samples = spread([sample for one in timed.rounds for sample in one] or timed.estimates)
    return Figures(
        seconds=value.seconds,
        interval=value.interval,
        mean=samples.mean,
        std=samples.deviation,
        minimum=samples.min,
        p50=samples.p50,
        p99=samples.p99,
        maximum=samples.max,
        samples=samples.n,
        rate=None if compared.flops is None else compared.flops / value.seconds,
        bandwidth=None if compared.bytes is None else compared.bytes / value.seconds,
        overhead=overhead(timed.function, value.seconds),
    )


def speed_ups(compared: Compared, reference: str | None) -> tuple[SpeedUp, ...]:
    """Return every pair's ratio of times, those over `reference` first; a wrong implementation is in no pair."""
    measured = [timed for timed in compared.timed if not is_bad(timed) and figures(compared, timed) is not None]
    return tuple(pairwise({timed.implementation: timing(timed.estimates) for timed in measured}, reference))


def interval_method(found: Figures) -> str | None:
    """Return how the interval was made; None where there is none."""
    return None if found.interval is None else INTERVAL_METHOD


def half_width(found: Figures) -> float | None:
    """Return the larger side of the interval, relative to the value; None where there is none."""
    return larger_side(found.seconds, found.interval)


def status(timed: Timed) -> str:
    """Return "right", "WRONG" (timed, but an output is not right), "FAILED", "n/a" or "not verified"."""
    if timed.missing is not None:
        return MISSING
    if any(not each.right for each in timed.accuracy):
        return WRONG
    if timed.failed is not None:
        return FAILED
    return RIGHT if timed.accuracy else UNVERIFIED


def is_bad(timed: Timed) -> bool:
    """Return whether an implementation is wrong or broke: what ends the command with status 1."""
    return status(timed) in (WRONG, FAILED)


def reason(timed: Timed) -> str:
    """Return why there is no value, or none of worth; empty where there is one."""
    return timed.missing or timed.failed or ""


def figure_of(details: Mapping[str, object], names: Sequence[str]) -> float | None:
    """Return the first of the named figures that the details have as a number; None where they have none."""
    for name in names:
        value = details.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def worst(accuracy: Sequence[Accuracy], names: Sequence[str]) -> float | None:
    """Return the largest of a figure over the outputs; NaN if one is NaN, None where no output has it."""
    found = [value for each in accuracy if (value := figure_of(each.details, names)) is not None]
    if any(math.isnan(value) for value in found):
        return math.nan
    return max(found, default=None)


def by_problem(found: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return the rows by problem and device, in order of first mention."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        groups.setdefault((row.compared.problem, row.compared.device), []).append(row)
    return groups


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
