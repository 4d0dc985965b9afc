"""Times of implementations with errors, their speed-ups with errors, and what samples look like. Pure. Seconds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from kernel_velocity.engine.statistics import FloatArray, Samples, constant, finite
from kernel_velocity.results.measurement import Interval, round_interval

CLEAR = 2.0  # errors that a speed-up must differ from 1 by to be called one
MIN_SAMPLES = 16  # of a round
MILD = 1.5  # quartile ranges beyond a quartile (Tukey, Exploratory Data Analysis, 1977)
ROUNDING = 1e-6  # of a bin: samples nearer to each other are one value; ticks so small do no harm to a histogram


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


def effective_sample_size(samples: Samples) -> float | None:
    """Return how many independent samples have as precise a mean: n over the autocorrelation time, at most n.

    The autocorrelation time 1 + 2 (r_1 + r_2 + ...) is summed over pairs of lags while they are positive, and made to
    fall: Geyer's initial monotone sequence (Practical Markov Chain Monte Carlo, Statistical Science 7, 1992). None of
    fewer than 16 samples, and of equal ones.

    Raises:
        ValueError: a sample is not finite.
    """
    values = finite(samples, "effective sample size")
    n = values.size
    if n < MIN_SAMPLES or constant(values):
        return None
    spectrum = np.fft.rfft(values - values.mean(), 2 * n)  # padded: a series does not follow on its own end
    covariances = np.fft.irfft(np.abs(spectrum) ** 2, 2 * n)[:n]
    pairs = (covariances[: n // 2 * 2] / covariances[0]).reshape(-1, 2).sum(axis=1)
    stop = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    return float(n / max(1.0, 2 * float(np.minimum.accumulate(pairs[:stop]).sum()) - 1))


@dataclass(frozen=True)
class Outliers:
    """How many samples are outliers, and their share of the summed squared deviations from the mean."""

    count: int
    variance_share: float


def outliers(samples: Samples) -> Outliers | None:
    """Return Tukey's outliers: beyond 1.5 quartile ranges of the nearer quartile. None of fewer than 4 samples.

    Quartiles are linear between order statistics. Where they are equal, any other value is an outlier.

    Raises:
        ValueError: a sample is not finite.
    """
    values = finite(samples, "outliers")
    if values.size < 4:
        return None
    first, third = np.percentile(values, (25, 75))
    fence = MILD * (third - first)
    outside = (values < first - fence) | (values > third + fence)
    squares = (values - values.mean()) ** 2
    share = 0.0 if constant(values) else float(squares[outside].sum() / squares.sum())
    return Outliers(int(outside.sum()), share)


def modality(samples: Samples) -> float | None:
    """Return the mvalue: a histogram's summed ups and downs over its highest bin. 2 for one mode, 4 for two alike.

    Brendan Gregg's (Frequency Trails: Modes and Modality, brendangregg.com/FrequencyTrails/modes.html), the largest
    over bin sizes from Freedman and Diaconis' (1981) doubled up to the range, without Tukey's outliers. None of fewer
    than 16 samples.

    Raises:
        ValueError: a sample is not finite.
    """
    values = finite(samples, "modality")
    if values.size < MIN_SAMPLES:
        return None
    first, third = np.percentile(values, (25, 75))
    fence = MILD * (1 + ROUNDING) * (third - first)  # a tick on the fence is inside, whichever way it was rounded
    ordered = np.sort(values[(values >= first - fence) & (values <= third + fence)])
    span = float(ordered[-1] - ordered[0])
    first, third = np.percentile(ordered, (25, 75))
    wanted = 2 * float(third - first) / ordered.size ** (1 / 3)
    gaps = np.diff(ordered)
    gaps = gaps[gaps > ROUNDING * (wanted or span)]
    if constant(ordered) or gaps.size == 0:
        return 2.0  # one value is left: one mode
    # Bins of whole ticks, with the ticks inside: else a clock's ticks fall into them unevenly and look like modes.
    tick = float(gaps.min())
    width, best = tick * max(1, math.ceil(wanted / tick)), 0.0
    while True:
        best = max(best, _ups_and_downs((ordered - ordered[0] + tick / 2) / width))
        if width > span:
            return best
        width *= 2


def _ups_and_downs(positions: FloatArray) -> float:
    """Return the summed steps between the heights of bins of width 1, empty ones included, over the highest."""
    # Only bins that hold something: where most samples are nearly equal, there may be endless empty ones.
    bins, heights = np.unique(np.floor(positions), return_counts=True)
    neighbours = np.diff(bins) == 1
    steps = np.where(neighbours, np.abs(np.diff(heights)), heights[:-1] + heights[1:])
    return float((heights[0] + steps.sum() + heights[-1]) / heights.max())
