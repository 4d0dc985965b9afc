"""What every output format says of a row of a comparison: the figures that follow from its samples. Pure.

Times in seconds per call, rates in FLOP/s and B/s; what cannot be known is None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernel_velocity.compare.result import Accuracy, Compared, Comparison, Timed
from kernel_velocity.results.measurement import INTERVAL_METHOD, Interval
from kernel_velocity.stats.speedup import SpeedUp, larger_side, overhead, pairwise, spread, timing

RIGHT, WRONG, FAILED, MISSING = "right", "WRONG", "FAILED", "n/a"
UNVERIFIED = "not verified"
MAXIMUM_KEYS = ("max_absolute_error", "max_difference")  # the second: what public challenges report
MEAN_KEYS = ("mean_absolute_error", "mean_difference")
RELATIVE_KEYS = ("max_relative_error",)
TOTAL_KEYS = ("total_error",)


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
