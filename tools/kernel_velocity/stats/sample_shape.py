"""What two charts of a comparison's page draw: autocorrelation by lag, and batches of samples for a least-squares line.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernel_velocity.harness import statistics
from kernel_velocity.harness.statistics import FloatArray

LAGS = 40
BATCHES = 40  # of growing length


def correlogram(rounds: Sequence[FloatArray]) -> tuple[list[int], list[float]]:
    """Return lags from 1 and the rounds' mean autocorrelation at each; empty where no round has enough samples."""
    long = [one for one in rounds if one.size >= 16]
    if not long:
        return [], []
    found: dict[int, float] = {}
    for lag in range(1, min(LAGS, min(one.size for one in long) // 4) + 1):
        values = [value for one in long if (value := statistics.autocorrelation(one, lag)) is not None]
        if values:
            found[lag] = float(np.mean(values))
    return list(found), list(found.values())


def batches(values: FloatArray) -> tuple[list[int], list[float]]:
    """Return the lengths and the total times of batches of k, 2k, 3k, ... samples in a row, at most BATCHES of them.

    No sample is in two batches, so that their times are as independent as the samples are; k lets BATCHES of them use
    the samples up. The slope of time over length is what Haskell's criterion reports.
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
