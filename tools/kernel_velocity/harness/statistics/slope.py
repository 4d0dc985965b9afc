"""Seconds per call as a slope: batches of growing length separate the calls from what a batch costs once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kernel_velocity.harness.statistics.primitives import FloatArray, Samples, finite
from kernel_velocity.harness.statistics.values import need

# Below it something other than the calls moves the time: what Haskell's criterion calls screwy in its tutorial.
STRAIGHT = 0.99
FEWEST_LENGTHS = 3  # different batch lengths: two always lie on a straight line


@dataclass(frozen=True, kw_only=True)
class Slope:
    """The least-squares line through time against calls per batch. Seconds; None where unknown."""

    seconds_per_call: float | None
    error: float | None  # standard error of seconds_per_call, of independent batches with the same spread
    seconds_per_batch: float | None  # the intercept: what a batch costs however many calls it has
    r_squared: float | None
    n: int  # batches
    warnings: tuple[str, ...] = ()


def seconds_per_call(calls: Samples, seconds: Samples) -> Slope:
    """Return the slope of each batch's seconds over its number of calls, by ordinary least squares.

    Args:
        calls: calls in each batch, at least one.
        seconds: the whole batch's time, not the time per call.

    Raises:
        ValueError: lists of different length, a number that is not finite, or a batch of less than one call.
    """
    x, y = finite(calls, "calls per batch"), finite(seconds, "seconds of a batch")
    if x.size != y.size:
        raise ValueError(f"slope: {x.size} batch lengths and {y.size} times; wanted one time for each batch")
    if x.size and x.min() < 1:
        raise ValueError(f"slope: batch {int(x.argmin())} of {x.size} has {x.min():g} calls; wanted at least 1")
    lengths = np.unique(x).size
    few = need(FEWEST_LENGTHS, "a slope whose fit says anything: batches of different length", lengths)
    if lengths < 2:
        return Slope(seconds_per_call=None, error=None, seconds_per_batch=None, r_squared=None, n=x.size, warnings=few)
    return _fitted(x, y, few)


def _fitted(x: FloatArray, y: FloatArray, warnings: tuple[str, ...]) -> Slope:
    dx, dy = x - x.mean(), y - y.mean()
    xx, xy, yy = float(dx @ dx), float(dx @ dy), float(dy @ dy)
    slope = xy / xx
    residuals = dy - slope * dx
    left = float(residuals @ residuals)
    fit = 1 - left / yy if yy > 0 else None
    error = math.sqrt(left / (x.size - 2) / xx) if x.size > 2 else None
    return Slope(
        seconds_per_call=slope,
        error=error,
        seconds_per_batch=float(y.mean() - slope * x.mean()),
        r_squared=fit,
        n=x.size,
        warnings=warnings + _warn_fit(slope, fit),
    )


def _warn_fit(slope: float, fit: float | None) -> tuple[str, ...]:
    if slope <= 0 or fit is None:
        return ("longer batches take no more time: the calls were not timed, or not made",)
    return () if fit >= STRAIGHT else (f"R^2 {fit:.3f} is under {STRAIGHT}: more than the calls moves the time",)
