"""How noisy a series is, and whether two stretches of it have different levels. Pure; log values.

Scales are robust: a series with steps must not be taken for one with wide noise, nor one with a tick for one without.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints.values import FEWEST_ALONE, LEAST_SIGMA, Step, windows_of

MAD_SIGMA = 1 / NormalDist().inv_cdf(0.75)  # of a normal distribution, in median absolute deviations
TRIM = 0.2  # a side: Yuen, Biometrika 61(1), 1974
MOST_CORRELATED = 0.9  # beyond, a stretch of a few dozen points has no level to speak of
HISTORY = 60  # points before a place that show what the series does anyway
PASSING = 12  # points: what lasted no longer was passing, not a level
HALF_WIDTH = 2  # of the 5-point median that spikes are clipped to
CLIP = 3.0  # sigmas from it
SAME = 1e-9  # log units: two readings of one tick, but for rounding


@dataclass(frozen=True, kw_only=True)
class Side:
    """What a t test needs of a stretch."""

    mean: float
    squared: float  # sum of squared deviations, at least what `least_sigma` leaves
    kept: int  # points that carry the mean
    size: int


def plain(values: FloatArray, least: float) -> Side:
    """Return the side of a stretch by mean and variance; no scatter counts as less than `least`."""
    mean = math.fsum(values.tolist()) / values.size
    rest = values - mean
    return Side(
        mean=mean,
        squared=max(float(rest @ rest), least**2 * (values.size - 1)),
        kept=values.size,
        size=values.size,
    )


def t_test(first: Side, second: Side, grown: float = 1.0, *, pooled: bool = False) -> Step:
    """Compare two means by Welch's t, or by Student's, with a common variance.

    Args:
        first: before.
        second: after.
        grown: inflation of the variances by correlation; as many times fewer are the independent points.
        pooled: whether the variance is taken for a common one.
    """
    if pooled:
        kept = first.kept + second.kept
        variance = (first.squared + second.squared) / (kept - 2) * grown
        error = math.sqrt(variance * (1 / first.kept + 1 / second.kept))
        freedom = kept / grown - 2
    else:
        one, other = (side.squared * grown / (side.kept * (side.kept - 1)) for side in (first, second))
        error = math.sqrt(one + other)
        freedoms = max(first.kept / grown - 1, 1.0), max(second.kept / grown - 1, 1.0)
        freedom = (one + other) ** 2 / (one**2 / freedoms[0] + other**2 / freedoms[1])
    means, sizes = (first.mean, second.mean), (first.size, second.size)
    return Step.of(means=means, error=error, freedom=max(freedom, 1.0), sizes=sizes)


def iqr_sigma(values: FloatArray) -> float:
    """Return the standard deviation that a normal distribution of the same interquartile range has."""
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low) * MAD_SIGMA / 2


def difference_sigma(values: FloatArray) -> float:
    """Return the standard deviation from the median absolute difference of successive values: blind to steps."""
    ordered = np.abs(values[1:] - values[:-1])
    ordered.sort()
    middle = float(ordered[(ordered.size - 1) // 2] + ordered[ordered.size // 2]) / 2
    return max(middle * MAD_SIGMA / math.sqrt(2), LEAST_SIGMA)


def least_sigma(*parts: FloatArray) -> float:
    """Return below what no scatter of these values counts: LEAST_SIGMA, or their tick's own, tick / sqrt(12).

    The tick is the smallest difference of two values: that of a coarse timer, and next to nothing without one. Three
    equal readings of such a timer are no proof of a small scatter.
    """
    ordered = np.concatenate(parts)
    ordered.sort()
    gaps = ordered[1:] - ordered[:-1]
    gaps = gaps[gaps > SAME]
    return max(LEAST_SIGMA, float(gaps.min()) / math.sqrt(12)) if gaps.size else LEAST_SIGMA


def running_median(values: FloatArray, half: int) -> FloatArray:
    """Return the median of the values up to `half` places to both sides of each; towards the ends, of fewer."""
    beyond = np.full(half, math.inf)  # sorts behind every value
    ordered = np.sort(windows_of(np.concatenate([beyond, values, beyond]), 2 * half + 1), axis=1)
    places = np.arange(values.size)
    sizes = np.minimum(places, half) + np.minimum(places[::-1], half) + 1
    found: FloatArray = ordered[places, (sizes - 1) // 2] + ordered[places, sizes // 2]
    return found / 2


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
    if squared <= size * SAME**2:  # rounding correlates perfectly with itself
        return 0.0
    raw = lagged / squared
    return min(max((raw * size + 1) / (size - 3) if size > 6 else raw, 0.0), MOST_CORRELATED)


def inflation(phi: float) -> float:
    """Return by how much AR(1) noise of correlation phi inflates the variance of a mean, n being large."""
    return (1 + phi) / (1 - phi)


def restlessness(logs: FloatArray) -> float | None:
    """Return the standard deviation of the last HISTORY points of a stretch around a level that ignores what passes.

    The level is a running median that follows what lasted longer than PASSING points. What did not counts as noise: two
    modes that the series sticks in, a neighbour's visits. None for fewer than FEWEST_ALONE points.
    """
    recent = logs[-HISTORY:]
    if recent.size < FEWEST_ALONE:
        return None
    values = clipped(recent, difference_sigma(recent))
    rest = values - running_median(values, PASSING)
    return max(math.sqrt(float(rest @ rest) / (rest.size - 1)), LEAST_SIGMA)


def yuen(first: FloatArray, second: FloatArray) -> Step:
    """Compare two stretches of at least two points each by Yuen's trimmed t, inflated for AR(1) noise."""
    least = least_sigma(first, second)
    (left, *left_sums), (right, *right_sums) = _trimmed(first, least), _trimmed(second, least)
    lagged, squared = (one + other for one, other in zip(left_sums, right_sums, strict=True))
    return t_test(left, right, inflation(correlation(lagged, squared, (first.size + second.size) / 2)))


def _trimmed(values: FloatArray, least: float) -> tuple[Side, float, float]:
    """Return a stretch trimmed, and the sums that `correlation` takes of its winsorised residuals."""
    ordered = np.sort(values)
    cut = int(TRIM * values.size)
    kept = values.size - 2 * cut
    rest = np.minimum(np.maximum(values, ordered[cut]), ordered[-cut - 1])
    rest = rest - rest.sum() / rest.size
    squared = float(rest @ rest)
    mean = float(ordered[cut : values.size - cut].sum()) / kept
    side = Side(mean=mean, squared=max(squared, least**2 * (kept - 1)), kept=kept, size=values.size)
    return side, float(rest[1:] @ rest[:-1]), squared
