"""Compute two charts of samples: autocorrelation by lag, and batches for a least-squares line. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernel_velocity.harness import statistics
from kernel_velocity.harness.statistics import FloatArray

LAGS = 40
MIN_SAMPLES = 16  # of a round
BATCHES = 40  # of growing length


def correlogram(rounds: Sequence[FloatArray]) -> tuple[list[int], list[float]]:
    """Return lags from 1 and the rounds' mean autocorrelation at each; empty if no round has enough samples."""
    long = [samples for samples in rounds if samples.size >= MIN_SAMPLES]
    means: dict[int, float] = {}
    for lag in range(1, min([LAGS, *(samples.size // 4 for samples in long)]) + 1):
        values = [value for samples in long if (value := statistics.autocorrelation(samples, lag)) is not None]
        if values:
            means[lag] = float(np.mean(values))
    return list(means), list(means.values())


def batches(values: FloatArray) -> tuple[list[int], list[float]]:
    """Return the lengths and the total times of batches of k, 2k, 3k, ... successive samples, at most BATCHES of them.

    No sample is in two batches, so that their times are as independent as the samples are. k is chosen so that BATCHES
    of them use up the samples. The slope of time over length is what Haskell's criterion reports.
    """
    step = max(1, -(-2 * values.size // (BATCHES * (BATCHES + 1))))
    counts: list[int] = []
    totals: list[float] = []
    begin, length = 0, step
    while begin + length <= values.size and len(counts) < BATCHES:
        counts.append(length)
        totals.append(float(values[begin : begin + length].sum()))
        begin, length = begin + length, length + step
    return counts, totals
