"""Cut series into levels: optimal partitioning on squared deviations, many series at once. Pure. Log values.

Jackson et al., IEEE Signal Processing Letters 12(2), 2005. PELT prunes the search and finds the same cuts. Here no cut
is pruned: one numpy operation does a step of many series, which is faster for series of a few hundred points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kernel_velocity.harness.statistics import FloatArray

FEWEST_A_SIDE = 3  # points of a level
ROWS = 64  # series that are cut together: their sums stay in a core's cache


def cheapest(series: Sequence[FloatArray], prices: Sequence[float]) -> list[list[int]]:
    """Cut each series into levels at the least cost: squared deviations from the levels, and a price for each cut.

    Args:
        series: (n,) values of each, near 0, so that sums of squares stay exact.
        prices: of a cut, for each series.

    Returns:
        the cuts of each series, ascending, as the number of points before them.
    """
    return [
        cuts
        for start in range(0, len(series), ROWS)
        for cuts in _cheapest(series[start : start + ROWS], np.array(prices[start : start + ROWS], dtype=np.float64))
    ]


def _cheapest(series: Sequence[FloatArray], prices: FloatArray) -> Iterator[list[int]]:
    """Yield the cuts of each series. A shorter one has zeros at its end, which no cut before them depends on.

    The cost of points s to t as one level is the sum of their squares, less (their sum)^2 / (t - s). The squares of all
    points are part of every cost, and left out.
    """
    count, width = len(series), max(values.size for values in series)
    sums = np.zeros((count, width + 1))
    for row, values in zip(sums, series, strict=True):
        values.cumsum(out=row[1 : values.size + 1])
    costs = np.full((count, width + 1), np.inf)  # of the points before each place, and of a cut there
    costs[:, 0] = 0.0
    last = np.zeros((count, width + 1), np.int64)
    rows, inverse = np.arange(count), 1 / np.arange(float(width), 0, -1)  # descending: numpy is slow backwards
    for end in range(FEWEST_A_SIDE, width + 1):
        begins = end - FEWEST_A_SIDE + 1
        table = sums[:, end, None] - sums[:, :begins]
        table *= table
        table *= inverse[width - end : width - end + begins]
        np.subtract(costs[:, :begins], table, out=table)
        best = table.argmin(axis=1)
        last[:, end] = best
        costs[:, end] = table[rows, best] + prices
    for number, values in enumerate(series):
        cuts, index = list[int](), int(last[number, values.size])
        while index:
            cuts.append(index)
            index = int(last[number, index])
        yield cuts[::-1]
