"""Estimate how noisy a series is, and test whether stretches of it have different levels. Pure. Log values.

Scales are robust: steps must not look like wide noise, nor a coarse timer like a series without noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints.values import FEWEST_ALONE, MIN_SIGMA, Step, windows_of

MAD_SIGMA = 1 / NormalDist().inv_cdf(0.75)  # of a normal distribution, in median absolute deviations
TRIM = 0.2  # a side: Yuen, Biometrika 61(1), 1974
MAX_CORRELATION = 0.9  # beyond, a stretch of a few dozen points has no level to speak of
HISTORY = 60  # points before a place that show how the series varies without a step
PASSING = 12  # points: what lasted no longer is noise, not a level
HALF_WIDTH = 2  # of the 5-point median that spikes are clipped to
CLIP = 3.0  # sigmas from it
SAME = 1e-9  # log units: two readings of one tick differ by less, from rounding

Stretch = tuple[int, int, int]  # places where the level before a change begins, where it changes, where the next ends


@dataclass(frozen=True, kw_only=True)
class Side:
    """What a t test needs of a stretch."""

    mean: float
    squared: float  # sum of squared deviations, at least what `least_sigma` implies
    kept: int  # points that the mean is taken of
    size: int  # points


def plain(values: FloatArray, least: float) -> Side:
    """Return the side of a stretch by mean and variance, with a standard deviation of at least `least`."""
    mean = math.fsum(values.tolist()) / values.size
    rest = values - mean
    squared = max(float(rest @ rest), least**2 * (values.size - 1))
    return Side(mean=mean, squared=squared, kept=values.size, size=values.size)


def t_test(first: Side, second: Side, inflated: float = 1.0, *, pooled: bool = False) -> Step:
    """Compare two means by Welch's t, or by Student's, with a common variance.

    Args:
        first: before.
        second: after.
        inflated: factor of the variances from correlation, which divides the number of independent points.
        pooled: whether the two share one variance.
    """
    if pooled:
        kept = first.kept + second.kept
        variance = (first.squared + second.squared) / (kept - 2) * inflated
        error = math.sqrt(variance * (1 / first.kept + 1 / second.kept))
        freedom = kept / inflated - 2
    else:
        one, other = (side.squared * inflated / (side.kept * (side.kept - 1)) for side in (first, second))
        error = math.sqrt(one + other)
        freedoms = max(first.kept / inflated - 1, 1.0), max(second.kept / inflated - 1, 1.0)
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
    return max(middle * MAD_SIGMA / math.sqrt(2), MIN_SIGMA)


def least_sigma(*parts: FloatArray) -> float:
    """Return the least standard deviation to assume of these values: MIN_SIGMA, or that of their tick, tick / sqrt(12).

    The tick is the smallest difference of two values: that of a coarse timer, and next to nothing without one. Three
    equal readings of such a timer do not prove a small scatter.
    """
    ordered = np.concatenate(parts)
    ordered.sort()
    gaps = ordered[1:] - ordered[:-1]
    gaps = gaps[gaps > SAME]
    return max(MIN_SIGMA, float(gaps.min()) / math.sqrt(12)) if gaps.size else MIN_SIGMA


def running_median(values: FloatArray, half: int) -> FloatArray:
    """Return the median of the values up to `half` places to both sides of each. Towards the ends, of fewer."""
    beyond = np.full(half, math.inf)  # sorts behind every value
    ordered = np.sort(windows_of(np.concatenate([beyond, values, beyond]), 2 * half + 1), axis=1)
    places = np.arange(values.size)
    sizes = np.minimum(places, half) + np.minimum(places[::-1], half) + 1
    doubled: FloatArray = ordered[places, (sizes - 1) // 2] + ordered[places, sizes // 2]
    return doubled / 2


def clipped(values: FloatArray, sigma: float) -> FloatArray:
    """Return the values without spikes: each at most CLIP sigmas from the median of the five around it."""
    middle = running_median(values, HALF_WIDTH)
    return np.minimum(np.maximum(values, middle - CLIP * sigma), middle + CLIP * sigma)


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


def restlessness(logs: FloatArray) -> float | None:
    """Return the standard deviation of the last HISTORY points of a stretch around its level.

    The level is a running median that follows what lasted longer than PASSING points. What did not counts as noise: two
    modes that the series sticks in, a neighbour's visits. None for fewer than FEWEST_ALONE points.
    """
    recent = logs[-HISTORY:]
    if recent.size < FEWEST_ALONE:
        return None
    values = clipped(recent, difference_sigma(recent))
    rest = values - running_median(values, PASSING)
    return max(math.sqrt(float(rest @ rest) / (rest.size - 1)), MIN_SIGMA)


def yuen(first: FloatArray, second: FloatArray) -> Step:
    """Compare two stretches of at least two points each by Yuen's trimmed t, inflated for AR(1) noise."""
    least = least_sigma(first, second)
    (left, *left_sums), (right, *right_sums) = _trimmed(first, least), _trimmed(second, least)
    lagged, squared = (one + other for one, other in zip(left_sums, right_sums, strict=True))
    return t_test(left, right, inflation(correlation(lagged, squared, (first.size + second.size) / 2)))


def _trimmed(values: FloatArray, least: float) -> tuple[Side, float, float]:
    """Return a stretch trimmed, and the two sums for `correlation`, of its winsorised residuals."""
    ordered = np.sort(values)
    cut = int(TRIM * values.size)
    kept = values.size - 2 * cut
    rest = np.minimum(np.maximum(values, ordered[cut]), ordered[-cut - 1])
    rest = rest - rest.sum() / rest.size
    squared = float(rest @ rest)
    mean = float(ordered[cut : values.size - cut].sum()) / kept
    side = Side(mean=mean, squared=max(squared, least**2 * (kept - 1)), kept=kept, size=values.size)
    return side, float(rest[1:] @ rest[:-1]), squared


def eliminate(
    places: Sequence[int],
    size: int,
    test: Callable[[Stretch], Step],
    stands: Callable[[Step], bool],
    *,
    known: Mapping[Stretch, Step],
    reach: int | None = None,
) -> tuple[list[tuple[int, Step]], dict[Stretch, Step]]:
    """Drop the weakest of proposed change points until all stand against the levels between their neighbours.

    Args:
        places: proposed change points, ascending.
        size: of the series.
        test: compares the levels on both sides of a change.
        stands: whether a step is kept. Of those that are not, the one with the largest p goes first.
        known: tests that were made before, by stretch.
        reach: points a side that are compared, at most. None: whole levels.

    Returns:
        the places that stand, with their steps.
        All tests that were needed.
    """
    left, tests, reach = list(places), dict[Stretch, Step](), size if reach is None else reach
    while True:
        steps = []
        for start, place, end in zip([0, *left], left, [*left[1:], size], strict=False):
            stretch = max(start, place - reach), place, min(end, place + reach)
            if stretch not in tests:
                tests[stretch] = known.get(stretch) or test(stretch)
            steps.append(tests[stretch])
        failed = [(step.p, number) for number, step in enumerate(steps) if not stands(step)]
        if not failed:
            return list(zip(left, steps, strict=True)), tests
        del left[max(failed)[1]]
