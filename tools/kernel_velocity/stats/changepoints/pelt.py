"""PELT on squared deviations, and backward elimination of what a robust test does not confirm. Pure.

Killick, Fearnhead and Eckley, JASA 107(500), 2012: the cheapest cut of the series into levels, each cut costing 2
sigma^2 ln n. Spikes are clipped first, and every cut must then pass Yuen's test.

Noise and penalty are taken from the first points (stats/growth.py), so that few new points change old answers.

The dynamic programme takes blocks of points, and compares them only with the cuts that may be the last one for any of
them: one point after the other, nearly all of the time goes into calling numpy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints.noise import HALF_WIDTH, Stretch, clipped, difference_sigma, eliminate, yuen
from kernel_velocity.stats.changepoints.values import Observed, Points, Step, Values, observed
from kernel_velocity.stats.growth import grown

NAME = "pelt"
P = 1e-4
FEWEST_A_SIDE = 3
FEWEST = 2 * FEWEST_A_SIDE
REACH = 100  # points a side in Yuen's test: levels of long ago say little, and cost time
BLOCK = 96  # points: in smaller blocks more time goes into calling numpy, in larger ones into the cuts among them
# Margin for rounding in the cost of a cut, in squares of all points so far and penalties: four operations of 1.1e-16.
ROUNDING = 1e-11

PLACE, SUM, SQUARE = range(3)  # rows of arrays of cuts: points before each, their sum, and their sum of squares
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Reached:
    """The state of the search in n points, from which many.py tells what further points can change."""

    basis: int  # points that noise and penalty were taken from
    sigma: float
    cuts: tuple[int, ...]  # the cheapest
    costs: FloatArray  # of the cuts at 0, ... n - HALF_WIDTH: the least cost of the points before, and the penalty
    tests: Mapping[Stretch, Step] = field(default_factory=dict)  # of the elimination


def detect(values: Values) -> Points:
    """Return the change points of a series of log values, oldest first."""
    return search(observed(values))[0]


def search(series: Observed, known: Reached | None = None) -> tuple[Points, Reached | None]:
    """Return the change points and the state of the search.

    Args:
        series: the series.
        known: its state, where the cuts are known (many.py). Its tests are reused.
    """
    logs = series.logs
    if logs.size < FEWEST:
        return (), None
    if known is None:
        basis = grown(logs.size)
        sigma = difference_sigma(logs[:basis])
        cuts, costs = cheapest(clipped(logs, sigma) - logs[0], penalty(sigma, basis))
        known = Reached(basis=basis, sigma=sigma, cuts=tuple(cuts), costs=costs[:-HALF_WIDTH])
    steps, tests = eliminate(
        known.cuts,
        logs.size,
        lambda stretch: yuen(logs[stretch[0] : stretch[1]], logs[stretch[1] : stretch[2]]),
        lambda step: step.p < P,
        known=known.tests,
        reach=REACH,
    )
    return series.points(steps, NAME), replace(known, tests=tests)


def penalty(sigma: float, basis: int) -> float:
    """Return the cost of a cut, squared log units, of noise taken from the first `basis` points."""
    return 2 * sigma**2 * math.log(basis)


def cheapest(values: FloatArray, price: float) -> tuple[list[int], FloatArray]:
    """Cut values into levels at the least cost: squared deviations from the levels, and a price for each cut.

    Args:
        values: (n,), near 0, so that sums of squares stay exact.
        price: of a cut.

    Returns:
        the cuts, ascending, each as the number of points before it.
        (n + 1,) the cost of a last cut at each place: the least cost of the points before it, and its price.
    """
    size = values.size
    cuts = np.zeros((3, size + 1))
    cuts[PLACE], cuts[SUM, 1:], cuts[SQUARE, 1:] = np.arange(size + 1), values.cumsum(), (values * values).cumsum()
    costs, last = np.full(size + 1, -price), np.zeros(size + 1, np.int64)
    older, cost_then = np.zeros(0, np.int64), np.zeros(0)  # cuts before the block, and the cost of each as the last one
    for begin in range(0, size, BLOCK):
        if begin:
            # A cut that a later one, at the last block's begin, has beaten is beaten for ever: the later one is now
            # FEWEST_A_SIDE points away, so that it can be the last one.
            older = older[cost_then <= costs[begin - BLOCK]]
            older = np.concatenate([older, np.arange(max(begin - BLOCK - 2, 0), begin - 2)])
            cost_then = _costs(cuts[:, begin], costs[older], cuts[:, older])
        points = cuts[:, begin + 1 : begin + BLOCK + 1]
        slack = ROUNDING * (float(points[SQUARE, -1]) + price)
        near = np.arange(max(begin - 2, 0), begin + 1)
        rivals = np.concatenate([older[_may_be_last(cuts, older, cost_then, points, slack)], near])
        least, before = _least(points, costs[rivals], cuts[:, rivals])
        least, before = _with_cuts_among(points, least, before, price, slack)
        costs[begin + 1 : begin + BLOCK + 1] = least + price
        last[begin + 1 : begin + BLOCK + 1] = before
    found, place = [], int(last[size])
    while place:
        found.append(place)
        place = int(last[place])
    return found[::-1], costs


def _costs(points: FloatArray, costs: FloatArray, cuts: FloatArray) -> FloatArray:
    """Return the cost of points if each of some cuts is the last one: rows PLACE, SUM, SQUARE of both, broadcast."""
    explained = points[SUM] - cuts[SUM]
    explained *= explained
    explained /= points[PLACE] - cuts[PLACE]
    result: FloatArray = costs + (points[SQUARE] - cuts[SQUARE])
    result -= explained
    return result


def _may_be_last(
    cuts: FloatArray, older: IntArray, cost_then: FloatArray, points: FloatArray, slack: float
) -> npt.NDArray[np.bool_]:
    """Return which older cuts may be the last one before any point of a block.

    Suppose that at the begin of the block a cut cost d more than the best one. The points of the block add to its cost
    at least their deviations from a mean of their own. To the best one's cost they add that, and the price of joining
    the two means to one. So if d exceeds the price of joining up to any of the points, the best one beats the cut at
    all of them. Within one level of the series it beats nearly all.
    """
    if not older.size:
        return np.zeros(0, np.bool_)
    best = int(cost_then.argmin())
    (start, sum_before, _), (place, sum_then, _) = cuts[:, [older[best], int(points[PLACE, 0]) - 1]].T.tolist()
    before, after = place - start, points[PLACE] - place
    apart = (points[SUM] - sum_then) / after - (sum_then - sum_before) / before
    joining = (apart * apart * (after * before / (after + before))).max()
    return np.asarray(cost_then <= cost_then[best] + joining + slack)


def _least(points: FloatArray, costs: FloatArray, cuts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least cost of the points by the cuts before them, and the place of the last cut. The first of equals.

    The last cuts are those just before the points, and too near for the first of these.
    """
    table = _costs(points, costs[:, None], cuts[..., None])
    for back in range(min(FEWEST_A_SIDE - 1, len(table))):
        table[-1 - back, : FEWEST_A_SIDE - 1 - back] = math.inf
    best = table.argmin(axis=0)
    return table[best, np.arange(best.size)], cuts[PLACE, best]


def _with_cuts_among(
    points: FloatArray, least: FloatArray, last: FloatArray, price: float, slack: float
) -> tuple[FloatArray, FloatArray]:
    """Return the least costs and last cuts of points, given those without a cut among the points.

    A quick bound, with a margin of `slack`, shows that most often no cut among them is worth its price. Else the cost
    of such a cut follows from the least cost of the point before it, which may have one too: the costs are recomputed
    until none changes. A cost is right once those of the points before it are, so that then all are.
    """
    gaps, refused = (part[: least.size, : least.size] for part in _near(BLOCK))
    explained = points[SUM, :, None] - points[SUM]
    explained *= explained
    explained /= gaps
    saved = explained - refused
    saved -= least + price - points[SQUARE]
    if (saved.max(axis=1) <= points[SQUARE] - least - slack).all():
        return least, last
    spread = points[SQUARE, :, None] - points[SQUARE]
    spread += refused
    rows, found = np.arange(least.size), least
    while True:
        costs = found + price + spread
        costs -= explained
        best = costs.argmin(axis=1)
        among = costs[rows, best]
        found, before = np.minimum(least, among), found
        if (found == before).all():
            return found, np.where(among < least, points[PLACE, best], last)


@cache
def _near(count: int) -> tuple[FloatArray, FloatArray]:
    """Return (points, cuts): points from each of `count` cuts to each of `count` points, and inf for those too near.

    The first is 1 where a cut is too near or still to come. The second is 0 elsewhere.
    """
    gaps = np.subtract.outer(np.arange(count), np.arange(count)).astype(np.float64)
    near = gaps < FEWEST_A_SIDE
    return np.where(near, 1.0, gaps), np.where(near, math.inf, 0.0)
