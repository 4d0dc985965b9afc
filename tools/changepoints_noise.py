"""How noisy a series is, and whether two stretches of it have different levels. Pure; log values.

Scales are robust: a series with steps must not be taken for one with wide noise, nor one with a tick for one without.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from benchmarks.harness.statistics import FloatArray
from tools.changepoints_values import FEWEST_ALONE, LEAST_SIGMA, Step

MAD_SIGMA = 1 / NormalDist().inv_cdf(0.75)  # of a normal distribution, in median absolute deviations
TRIM = 0.2  # a side: Yuen, Biometrika 61(1), 1974
MOST_CORRELATED = 0.9  # beyond, a stretch of a few dozen points has no level to speak of
HISTORY = 60  # points before a place that show what the series does anyway
PASSING = 12  # points: what lasted no longer was passing, not a level
HALF_WIDTH = 2  # of the 5-point median that spikes are clipped to
SAME = 1e-9  # log units: two readings of one tick, but for rounding
CLIP = 3.0  # sigmas from it


@dataclass(frozen=True, kw_only=True)
class Noise:
    """How a stretch scatters around its level."""

    sigma: float
    inflation: float  # of the variance of a mean, by correlation: (1 + phi)/(1 - phi)
    size: int


def welch(means: Sequence[float], variances: Sequence[float], freedom: Sequence[float], sizes: tuple[int, int]) -> Step:
    """Return the t test of two means with unequal variances, by Welch and Satterthwaite.

    Args:
        means: of both stretches.
        variances: of these means.
        freedom: degrees of freedom behind each of the variances.
        sizes: points behind each of the means.
    """
    total = sum(variances)
    joint = total**2 / sum(variance**2 / each for variance, each in zip(variances, freedom, strict=True))
    return Step.of(means=means, error=math.sqrt(total), freedom=joint, sizes=sizes)


def iqr_sigma(values: FloatArray) -> float:
    """Return the standard deviation that a normal distribution of the same interquartile range has."""
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low) * MAD_SIGMA / 2


def difference_sigma(values: FloatArray) -> float:
    """Return the standard deviation from the median absolute difference of successive values: blind to steps."""
    return max(float(np.median(np.abs(np.diff(values)))) * MAD_SIGMA / math.sqrt(2), LEAST_SIGMA)


def least_sigma(*parts: FloatArray) -> float:
    """Return below what no scatter of these values counts: LEAST_SIGMA, or their tick's own, tick / sqrt(12).

    The tick is the smallest difference of two values: that of a coarse timer, and next to nothing without one. Three
    equal readings of such a timer are no proof of a small scatter.
    """
    gaps = np.diff(np.sort(np.concatenate(parts)))
    gaps = gaps[gaps > SAME]
    return max(LEAST_SIGMA, float(gaps.min()) / math.sqrt(12)) if gaps.size else LEAST_SIGMA


def running_median(values: FloatArray, half: int) -> FloatArray:
    """Return the median of the values up to `half` places to both sides of each; towards the ends, of fewer."""
    plain = values.tolist()
    window: list[float] = sorted(plain[:half])
    found = []
    for place in range(len(plain)):
        if place + half < len(plain):
            insort(window, plain[place + half])
        if place > half:
            del window[bisect_left(window, plain[place - half - 1])]
        middle = len(window) // 2
        found.append(window[middle] if len(window) % 2 else (window[middle - 1] + window[middle]) / 2)
    return np.asarray(found)


def clipped(values: FloatArray, sigma: float) -> FloatArray:
    """Return the values, each no further than CLIP sigmas from the median of the five around it: without spikes."""
    middle = running_median(values, HALF_WIDTH)
    return np.minimum(np.maximum(values, middle - CLIP * sigma), middle + CLIP * sigma)


def correlation(lagged: float, squared: float, size: float) -> float:
    """Return the lag-1 autocorrelation of residuals, from 0 to MOST_CORRELATED.

    Freed of its bias of about -(1 + 3 phi)/n (Marriott and Pope, Biometrika 41, 1954; for a fitted mean), without which
    short stretches of correlated noise look independent.

    Args:
        lagged: sum of the products of neighbouring residuals.
        squared: sum of the squared residuals.
        size: residuals that share one fitted mean.
    """
    if squared <= 0:
        return 0.0
    raw = lagged / squared
    return min(max((raw * size + 1) / (size - 3) if size > 6 else raw, 0.0), MOST_CORRELATED)


def inflation(phi: float) -> float:
    """Return by how much AR(1) noise of correlation phi inflates the variance of a mean, n being large."""
    return (1 + phi) / (1 - phi)


def before(logs: FloatArray) -> Noise | None:
    """Return how the last HISTORY points of a stretch scatter around a level that ignores what passes.

    The level is a running median that follows what lasted longer than PASSING points. What did not counts as noise: two
    modes that the series sticks in, a neighbour's visits. A new level must stand out against these too. None for fewer
    than FEWEST_ALONE points.
    """
    recent = logs[-HISTORY:]
    if recent.size < FEWEST_ALONE:
        return None
    values = clipped(recent, difference_sigma(recent))
    rest = values - running_median(values, PASSING)
    squared = float(rest @ rest)
    phi = correlation(float(rest[1:] @ rest[:-1]), squared, rest.size)
    return Noise(sigma=max(math.sqrt(squared / (rest.size - 1)), LEAST_SIGMA), inflation=inflation(phi), size=rest.size)


def yuen(first: FloatArray, second: FloatArray, history: Noise | None = None) -> Step:
    """Compare two stretches of at least two points each by Yuen's trimmed t, inflated for AR(1) noise.

    With fewer than FEWEST_ALONE points on a side the variance is the pooled one. If a history is given, the means must
    differ by its noise too: of both tests the weaker one is returned.
    """
    least = least_sigma(first, second)
    sides = [_trimmed(part, least) for part in (first, second)]
    means, kept, squares = [side[0] for side in sides], [side[1] for side in sides], [side[2] for side in sides]
    size = (first.size + second.size) / 2
    grown = inflation(correlation(sum(side[3] for side in sides), sum(side[4] for side in sides), size))
    sizes = (first.size, second.size)
    if min(sizes) < FEWEST_ALONE:
        pooled = sum(squares) / (sum(kept) - 2)
        error = math.sqrt(pooled * grown * sum(1 / count for count in kept))
        found = Step.of(means=means, error=error, freedom=max(sum(kept) / grown - 2, 1.0), sizes=sizes)
    else:
        variances = [square * grown / (count * (count - 1)) for square, count in zip(squares, kept, strict=True)]
        found = welch(means, variances, [max(count / grown - 1, 1.0) for count in kept], sizes)
    if history is None:
        return found
    error = math.sqrt(history.sigma**2 * history.inflation * sum(1 / count for count in kept))
    freedom = max(history.size / history.inflation - 1, 1.0)
    wider = Step.of(means=means, error=error, freedom=freedom, sizes=sizes)
    return max(found, wider, key=lambda each: each.p)


def _trimmed(values: FloatArray, least: float) -> tuple[float, int, float, float, float]:
    """Return trimmed mean, points in it, winsorised squares, and the sums that `correlation` takes."""
    ordered = np.sort(values)
    cut = int(TRIM * values.size)
    kept = values.size - 2 * cut
    rest = np.minimum(np.maximum(values, ordered[cut]), ordered[-cut - 1])
    rest = rest - rest.sum() / rest.size
    squared = float(rest @ rest)
    mean = float(ordered[cut : values.size - cut].sum()) / kept
    return mean, kept, max(squared, least**2 * (kept - 1)), float(rest[1:] @ rest[:-1]), squared
