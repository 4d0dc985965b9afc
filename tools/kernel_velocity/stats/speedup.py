"""From the rounds of implementations to times with errors, speed-ups with errors, figures of samples. Pure; seconds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from kernel_velocity.results.measurement import Interval, round_interval

FEWEST_FOR_ERROR = 2  # rounds: one has no spread
CLEAR = 2.0  # times its error that a speed-up must lie from 1 to be called one


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The rounds of one implementation together, s per call.

    Attributes:
        seconds: the median of the rounds' estimates.
        error: their standard error, standard deviation (n - 1) over the root of n; None below 2 rounds.
        interval: 95%, over the rounds, never over their samples; None below 3 rounds.
        rounds: how many.
    """

    seconds: float
    error: float | None
    interval: Interval | None
    rounds: int

    @property
    def half_width(self) -> float | None:
        """The larger side of the interval, relative to the time; None where there is no interval."""
        return larger_side(self.seconds, self.interval)


@dataclass(frozen=True, kw_only=True)
class SpeedUp:
    """How many times faster `faster` is than `slower`, as they are named: below 1 it is slower.

    Attributes:
        faster: the implementation whose time divides.
        slower: the one it is compared with.
        ratio: time of `slower` over time of `faster`.
        error: standard error of the ratio; None where one of the two has none.
    """

    faster: str
    slower: str
    ratio: float
    error: float | None

    @property
    def clear(self) -> bool | None:
        """Whether the ratio differs from 1 by more than CLEAR errors; None where the error is not known."""
        return None if self.error is None else abs(self.ratio - 1) > CLEAR * self.error


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Figures of samples, s; `deviation` (n - 1) is None for one sample."""

    mean: float
    deviation: float | None
    min: float
    max: float
    p50: float
    p99: float
    n: int


def larger_side(seconds: float, interval: Interval | None) -> float | None:
    """Return how far an interval (s) reaches from the value within it, relative to that; None where there is none."""
    return None if interval is None else max(interval.high - seconds, seconds - interval.low) / seconds


def timing(estimates: Sequence[float]) -> Timing:
    """Return the time that the estimates of rounds (one or more, s) stand for.

    Raises:
        ValueError: no estimates.
    """
    n = len(estimates)
    if n == 0:
        raise ValueError("the time of no rounds: wanted at least one estimate")
    error = statistics.stdev(estimates) / math.sqrt(n) if n >= FEWEST_FOR_ERROR else None
    return Timing(seconds=statistics.median(estimates), error=error, interval=round_interval(estimates), rounds=n)


def speed_up(faster: str, slower: str, times: Mapping[str, Timing]) -> SpeedUp:
    """Return the speed-up of one implementation over another, its error propagated to first order.

    For A/B with independent errors sA, sB: (A/B) sqrt((sA/A)^2 + (sB/B)^2). Interleaved rounds share what the machine
    does, so that errors are correlated, and this is an upper estimate for those that move together.
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
    """Return the s per call of a whole function that lie outside its kernel; None where the function is not known.

    Both are measured: where there is next to no overhead, noise can make the difference negative.
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
    """Return how many samples lie in each of `bins` equal parts from the least to the 99th percentile.

    What lies above that percentile is counted in the last part. All equal samples lie in the first.

    Raises:
        ValueError: no samples, or no bins.
    """
    if bins < 1:
        raise ValueError(f"a histogram of {bins} bins: wanted at least one")
    found = spread(samples)
    width = (found.p99 - found.min) / bins
    counts = [0] * bins
    for sample in samples:
        counts[min(int((sample - found.min) / width), bins - 1) if width > 0 else 0] += 1
    return tuple(counts)
