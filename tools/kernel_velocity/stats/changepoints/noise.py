"""Estimate how noisy a series is, and test whether stretches of it have different levels. Pure. Log values.

Scales are robust: steps must not look like wide noise, nor a coarse timer like a series without noise.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.stats.changepoints.values import MIN_SIGMA, Step

MAD_SIGMA = 1 / NormalDist().inv_cdf(0.75)  # of a normal distribution, in median absolute deviations
TRIM = 0.2  # a side: Yuen, Biometrika 61(1), 1974
MAX_CORRELATION = 0.9  # beyond, a stretch of a few dozen points has no level to speak of
HALF_WIDTH = 2  # of the 5-point median that spikes are clipped to
CLIP = 3.0  # sigmas from it
SAME = 1e-9  # log units: two readings of one tick differ by less, from rounding


class TrimmedSide(NamedTuple):
    """A trimmed stretch."""

    mean: float
    squared: float  # sum of squared deviations, winsorised, at least what `least_sigma` implies
    points: int  # that the mean is taken of
    residuals: tuple[float, float]  # sums for `correlation`: of products of neighbours, and of squares, winsorised


def iqr_sigma(values: FloatArray) -> FloatArray:
    """Return the standard deviation that a normal distribution of the same interquartile range has.

    Args:
        values: (..., n), none of them NaN. The result has the shape (...). np.quantile takes longer for a few dozen.
    """
    ordered, last = np.sort(values, axis=-1), values.shape[-1] - 1
    low, high = (
        ordered[..., int(at)] + at % 1 * (ordered[..., math.ceil(at)] - ordered[..., int(at)])
        for at in (0.25 * last, 0.75 * last)
    )
    return np.asarray((high - low) * MAD_SIGMA / 2)


def difference_sigma(values: FloatArray) -> FloatArray:
    """Return the standard deviation from the median absolute difference of successive values: blind to steps.

    The shapes are those of `iqr_sigma`.
    """
    moves = medians(np.abs(values[..., 1:] - values[..., :-1]))
    return np.asarray(np.maximum(moves * MAD_SIGMA / math.sqrt(2), MIN_SIGMA))


def medians(values: FloatArray) -> FloatArray:
    """Return the medians along the last axis of values, none of them NaN. np.median takes longer for a few dozen."""
    ordered, size = np.sort(values, axis=-1), values.shape[-1]
    doubled: FloatArray = ordered[..., (size - 1) // 2] + ordered[..., size // 2]
    return doubled / 2


def median(values: FloatArray) -> float:
    """Return the median of values, none of them NaN. np.median takes three times as long for a few dozen."""
    ordered = np.sort(values)
    return float(ordered[(ordered.size - 1) // 2] + ordered[ordered.size // 2]) / 2


def least_sigma(values: FloatArray) -> FloatArray:
    """Return the least standard deviation to assume of values: MIN_SIGMA, or that of their tick, tick / sqrt(12).

    The tick is the smallest difference of two values: that of a coarse timer, and next to nothing without one. Three
    equal readings of such a timer do not prove a small scatter. The shapes are those of `iqr_sigma`.
    """
    ordered = np.sort(values, axis=-1)
    gaps = ordered[..., 1:] - ordered[..., :-1]
    tick = np.min(gaps, axis=-1, initial=math.inf, where=gaps > SAME)
    return np.where(tick < math.inf, np.maximum(MIN_SIGMA, tick / math.sqrt(12)), MIN_SIGMA)


def running_median(values: FloatArray, half: int) -> FloatArray:
    """Return the median of the values up to `half` places to both sides of each. Towards the ends, of fewer.

    Args:
        values: (..., n), as is the result.
    """
    beyond = np.full((*values.shape[:-1], half), math.inf)  # sorts behind every value
    windows = sliding_window_view(np.concatenate([beyond, values, beyond], axis=-1), 2 * half + 1, axis=-1)
    ordered = np.sort(windows, axis=-1)
    indices = np.arange(values.shape[-1])
    sizes = np.minimum(indices, half) + np.minimum(indices[::-1], half) + 1
    doubled: FloatArray = ordered[..., indices, (sizes - 1) // 2] + ordered[..., indices, sizes // 2]
    return doubled / 2


def clipped(values: FloatArray, sigma: FloatArray) -> FloatArray:
    """Return the values without spikes: each at most CLIP sigmas from the median of the five around it.

    Args:
        values: (..., n), as is the result. sigma: (...).
    """
    middle, most = running_median(values, HALF_WIDTH), CLIP * sigma[..., None]
    return np.minimum(np.maximum(values, middle - most), middle + most)


def correlation(lagged: float, squared: float, size: float) -> float:
    """Return the lag-1 autocorrelation of residuals, from 0 to MAX_CORRELATION.

    It is corrected for its bias of about -(1 + 3 phi)/n (Marriott and Pope, Biometrika 41, 1954, for a fitted mean).
    Uncorrected, short stretches of correlated noise look independent.

    Args:
        lagged: sum of the products of neighbouring residuals.
        squared: sum of the squared residuals.
        size: residuals that share one fitted mean.
    """
    if squared <= size * SAME**2:  # rounding errors correlate perfectly
        return 0.0
    raw = lagged / squared
    return min(max((raw * size + 1) / (size - 3) if size > 6 else raw, 0.0), MAX_CORRELATION)


def inflation(phi: float) -> float:
    """Return the factor by which AR(1) noise of correlation phi inflates the variance of a mean of many points."""
    return (1 + phi) / (1 - phi)


def squares_around_mean(values: FloatArray) -> float:
    """Return the summed squares of deviations from the mean."""
    rest = values - values.sum() / values.size
    return float(rest @ rest)


def is_slope(values: FloatArray, at: int) -> bool:
    """Return whether a straight line explains values better than two levels, of which the second begins at a place."""
    x = np.arange(values.size) - (values.size - 1) / 2
    by_line = float(x @ values) ** 2 / float(x @ x)  # what a line takes from the squares
    around_levels = squares_around_mean(values[:at]) + squares_around_mean(values[at:])
    return squares_around_mean(values) - by_line < around_levels


def yuen(first: FloatArray, second: FloatArray) -> Step:
    """Compare two stretches of at least two points each by Yuen's trimmed t, with AR(1) noise and a common variance.

    Correlation inflates the variance of a mean, and divides the number of independent points.
    """
    least = float(least_sigma(np.concatenate([first, second])))
    left, right = _trimmed(first, least), _trimmed(second, least)
    lagged, squared = map(sum, zip(left.residuals, right.residuals, strict=True))
    inflated = inflation(correlation(lagged, squared, (first.size + second.size) / 2))
    points = left.points + right.points
    variance = (left.squared + right.squared) / max(points - 2, 1) * inflated
    return Step.of(
        means=(left.mean, right.mean),
        error=math.sqrt(variance * (1 / left.points + 1 / right.points)),
        freedom=max(points / inflated - 2, 1.0),
        sizes=(first.size, second.size),
    )


def _trimmed(values: FloatArray, least: float) -> TrimmedSide:
    ordered = np.sort(values)
    cut = int(TRIM * values.size)
    left = values.size - 2 * cut
    rest = np.minimum(np.maximum(values, ordered[cut]), ordered[-cut - 1])
    rest = rest - rest.sum() / rest.size
    squared = float(rest @ rest)
    mean = float(ordered[cut : values.size - cut].sum()) / left
    return TrimmedSide(mean, max(squared, least**2 * (left - 1)), left, (float(rest[1:] @ rest[:-1]), squared))
