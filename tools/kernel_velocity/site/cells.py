"""What tables say of many results at once: rates, intervals, times, changes. Pure.

From columns: a site shows 100,000 results. Arrays have shape (results,); times are in seconds per call, FLOP are per
call, unknown is NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan

import numpy as np
from numpy.typing import NDArray

from kernel_velocity import units
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results.measurement import OUTCOMES, IntArray, Outcome
from kernel_velocity.site import text

Truth = NDArray[np.bool_]
Texts = NDArray[np.str_]
_MEASURED = OUTCOMES.index(Outcome.MEASURED)


@dataclass(frozen=True, kw_only=True, eq=False)
class Figures:
    """What some results are, and their changes against others."""

    outcome: IntArray  # places in OUTCOMES
    seconds: FloatArray
    low: FloatArray  # of the interval
    high: FloatArray
    flop: FloatArray
    unit: Texts  # of the rates
    ratio: FloatArray  # of speeds, new over old; NaN where there is nothing to compare with
    distinct: Truth  # whether the two intervals are known and apart


def cells(found: Figures) -> Iterator[tuple[str, str, str, str]]:
    """Yield text, detail, change and tone of each result's `pages.Cell`: rate with interval, time and change."""
    columns = (details(found), changes(found.ratio, found.distinct), tones(found.ratio, found.distinct))
    rows = zip(found.outcome.tolist(), rates(found.seconds, found.flop, found.unit), *columns, strict=True)
    for outcome, rate, detail, change, tone in rows:
        if outcome == _MEASURED:
            yield rate, detail, change, tone
        else:
            without_time = OUTCOMES[outcome].value
            yield without_time, "", "", without_time


def rates(seconds: FloatArray, flop: FloatArray, unit: Texts) -> list[str]:
    """Return rates with their units, or the time where the FLOPs are unknown; "" where there is no time."""
    rows = zip(seconds.tolist(), _gflops(seconds, flop), unit.tolist(), strict=True)
    return [_seconds(time) if isnan(rate) else units.rate(rate, name) for time, rate, name in rows]


def _gflops(seconds: FloatArray, flop: FloatArray) -> list[float]:
    rates: list[float] = (flop / seconds / 1e9).tolist()
    return rates


def _seconds(time: float) -> str:
    return "" if isnan(time) else units.seconds(time)


def details(found: Figures) -> list[str]:
    """Return what stands below a rate: "11.9 to 12.4 GFLOPS · 1.02 ms", as far as it is known."""
    slowest, fastest = _gflops(found.high, found.flop), _gflops(found.low, found.flop)
    bounds = zip(slowest, fastest, found.low.tolist(), found.high.tolist(), found.unit.tolist(), strict=True)
    times = zip(found.seconds.tolist(), np.isnan(found.flop).tolist(), strict=True)
    rows = zip((_interval(*each) for each in bounds), times, strict=True)
    return [_beside(interval, "" if is_shown else _seconds(time)) for interval, (time, is_shown) in rows]


def _beside(interval: str, time: str) -> str:
    return f"{interval} · {time}" if interval and time else interval or time


def _interval(slowest: float, fastest: float, low: float, high: float, unit: str) -> str:
    if isnan(low) or isnan(high):
        return ""
    if isnan(slowest):
        return f"{units.seconds(low)} to {units.seconds(high)}"
    return f"{units.significant(slowest)} to {units.rate(fastest, unit)}"


def changes(ratio: FloatArray, distinct: Truth) -> list[str]:
    """Return changes in words; "" where there is nothing to compare with."""
    pairs = zip(ratio.tolist(), distinct.tolist(), strict=True)
    return ["" if isnan(one) else text.change_text(one, sure) for one, sure in pairs]


def tones(ratio: FloatArray, distinct: Truth) -> list[str]:
    """Return how changes are to be coloured; "" where there is nothing to compare with."""
    pairs = zip(ratio.tolist(), distinct.tolist(), strict=True)
    return ["" if isnan(one) else text.tone_of(one, sure) for one, sure in pairs]
