"""Times of implementations with errors, their speed-ups with errors, and what samples look like. Pure. Seconds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from kernel_velocity.results.measurement import Interval, round_interval

CLEAR = 2.0  # errors that a speed-up must differ from 1 by to be called one


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The rounds of one implementation together, s per call."""

    seconds: float  # median of the rounds' estimates
    error: float | None  # standard error: standard deviation (n - 1) over the root of n; None below 2 rounds
    interval: Interval | None  # 95%, over the rounds, never over their samples; None below 3 rounds
    rounds: int

    @property
    def half_width(self) -> float | None:
        """The larger side of the interval, relative to the time. None without an interval."""
        if self.interval is None:
            return None
        return max(self.interval.high - self.seconds, self.seconds - self.interval.low) / self.seconds


@dataclass(frozen=True, kw_only=True)
class SpeedUp:
    """The speed-up of one implementation over another. Below 1, `faster` is the slower one."""

    faster: str  # the implementation whose time divides
    slower: str
    ratio: float  # time of `slower` over time of `faster`
    error: float | None  # standard error of the ratio; None if one of the two has none

    @property
    def clear(self) -> bool | None:
        """Whether the ratio differs from 1 by more than CLEAR errors. None without an error."""
        return None if self.error is None else abs(self.ratio - 1) > CLEAR * self.error


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Figures of samples, s. `deviation` (n - 1) is None for one sample."""

    mean: float
    deviation: float | None
    min: float
    max: float
    p50: float
    p99: float
    n: int


def timing(estimates: Sequence[float]) -> Timing:
    """Return the time of the estimates of rounds (one or more, s).

    Raises:
        ValueError: no estimates.
    """
    n = len(estimates)
    if n == 0:
        raise ValueError("the time of no rounds: wanted at least one estimate")
    error = statistics.stdev(estimates) / math.sqrt(n) if n > 1 else None
    return Timing(seconds=statistics.median(estimates), error=error, interval=round_interval(estimates), rounds=n)


def speed_up(faster: str, slower: str, times: Mapping[str, Timing]) -> SpeedUp:
    """Return the speed-up of one implementation over another, its error propagated to first order.

    For A/B with independent errors sA, sB: (A/B) sqrt((sA/A)^2 + (sB/B)^2). Interleaved rounds share the state of the
    machine, so that their errors are correlated, and this is an upper estimate.
    """
    a, b = times[slower], times[faster]
    ratio = a.seconds / b.seconds
    if a.error is None or b.error is None:
        return SpeedUp(faster=faster, slower=slower, ratio=ratio, error=None)
    relative = math.hypot(a.error / a.seconds, b.error / b.seconds)
    return SpeedUp(faster=faster, slower=slower, ratio=ratio, error=ratio * relative)


def pairwise(times: Mapping[str, Timing], reference: str | None = None) -> Iterator[SpeedUp]:
    """Yield the speed-up of every pair of implementations: those over `reference` first, else over the earlier one."""
    ahead = [reference] if reference in times else []
    names = [*ahead, *(name for name in times if name not in ahead)]
    for slower, faster in combinations(names, 2):
        yield speed_up(str(faster), str(slower), times)


def overhead(function: float | None, seconds: float) -> float | None:
    """Return the s per call of a whole function outside its kernel. None if the function was not measured.

    Both are measured, so that noise can make a small overhead negative.
    """
    return None if function is None else function - seconds


def spread(samples: Sequence[float]) -> Spread:
    """Return the figures of samples (one or more, s), percentiles linear between order statistics.

    Raises:
        ValueError: no samples.
    """
    if not samples:
        raise ValueError("the spread of no samples: wanted at least one")
    values = np.asarray(samples, dtype=np.float64)
    p50, p99 = (float(value) for value in np.percentile(values, (50, 99)))
    return Spread(
        mean=float(values.mean()),
        deviation=float(values.std(ddof=1)) if values.size > 1 else None,
        min=float(values.min()),
        max=float(values.max()),
        p50=p50,
        p99=p99,
        n=int(values.size),
    )


def histogram(samples: Sequence[float], bins: int) -> tuple[int, ...]:
    """Return the counts of samples in `bins` equal parts from the least to the 99th percentile.

    Samples above that percentile count in the last part. If all are equal, they are in the first.

    Raises:
        ValueError: no samples, or no bins.
    """
    if bins < 1:
        raise ValueError(f"a histogram of {bins} bins: wanted at least one")
    figures = spread(samples)
    width = (figures.p99 - figures.min) / bins
    counts = [0] * bins
    for sample in samples:
        counts[min(int((sample - figures.min) / width), bins - 1) if width > 0 else 0] += 1
    return tuple(counts)
