"""Compute what samples look like: autocorrelation by lag, effective size, outliers, modes. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernel_velocity.harness import statistics
from kernel_velocity.harness.statistics import FloatArray, Samples, constant, finite

LAGS = 40
MIN_SAMPLES = 16  # of a round
MILD = 1.5  # quartile ranges beyond a quartile (Tukey, Exploratory Data Analysis, 1977)
ROUNDING = 1e-6  # of a bin: samples nearer to each other are one value; ticks so small do no harm to a histogram


def correlogram(rounds: Sequence[FloatArray]) -> tuple[list[int], list[float]]:
    """Return lags from 1 and the rounds' mean autocorrelation at each. Empty if no round has enough samples."""
    long = [samples for samples in rounds if samples.size >= MIN_SAMPLES]
    means: dict[int, float] = {}
    for lag in range(1, min([LAGS, *(samples.size // 4 for samples in long)]) + 1):
        values = [value for samples in long if (value := statistics.autocorrelation(samples, lag)) is not None]
        if values:
            means[lag] = float(np.mean(values))
    return list(means), list(means.values())


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
