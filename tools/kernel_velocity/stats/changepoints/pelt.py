"""PELT on squared deviations, and backward elimination of what a robust test does not confirm. Pure.

Killick, Fearnhead and Eckley, JASA 107(500), 2012: the cheapest cut of the series into levels, each cut costing 2
sigma^2 ln n. Spikes are clipped first, and every cut must then pass Yuen's test
(stats/changepoints/edivisive.py).

The noise and the penalty are taken from the first points (stats/growth.py): so the work for a point more does not grow
with n, and what is found does not depend on how the points were dealt out.

The dynamic programme takes one point after the other; in numpy, nearly all of that is calls. Here it takes a block of
points at a time, and holds against them only the cuts that may be the last one for any of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints.edivisive import Stretch, YuenTests
from kernel_velocity.stats.changepoints.noise import HALF_WIDTH, clipped, difference_sigma
from kernel_velocity.stats.changepoints.values import Detection, Observed, Step, Values, found_in, point, too_few
from kernel_velocity.stats.growth import grown

NAME = "pelt"
P = 1e-4
FEWEST_A_SIDE = 3
FEWEST = 2 * FEWEST_A_SIDE
PLACE, COST, SUM, SQUARE = range(4)  # rows of `Opened.cuts`
# Points from one look at the cuts to the next, and the most that are taken at a time: of fewer, more time goes into
# calling numpy; of more, into the cuts among them, each of which is held against each.
BLOCK = 96
# What rounding may do to the cost of a cut, in squares of all points so far and penalties, with much to spare: there
# are four operations, of 1.1e-16 each.
ROUNDING = 1e-11

IntArray = npt.NDArray[np.intp]


def detect(values: Values) -> Detection:
    """Return the change points of a whole series of log values."""
    return found_in(Pelt(), values)


class Opened(NamedTuple):
    """The cuts that may still be the last one, ascending, up to that behind the last point."""

    cuts: FloatArray  # (4, ...): place, least cost up to it, sum and sum of squares of the points up to it, centred
    used: int  # columns of it; what stands behind them is of no account
    looked: FloatArray  # what the first of those cost as the last cut, when they were last looked at


@dataclass(frozen=True, kw_only=True, eq=False)
class Reached:
    """How far the dynamic programme came in n points: enough to tell in what a point more can change."""

    basis: int
    sigma: float
    cuts: tuple[int, ...]  # the cheapest
    costs: FloatArray  # of the cuts at 0, ... n - HALF_WIDTH: the least of the points before, and the penalty
    tests: Mapping[Stretch, Step] = field(default_factory=dict)  # of the elimination


class Pelt:
    """PELT with elimination, fed and asked."""

    def __init__(self, observed: Observed | None = None, reached: Reached | None = None) -> None:
        """Begin: with no point, or with points and what is known to come out of all of them."""
        self._observed = Observed() if observed is None else observed
        self.reached = reached  # None where points came after `detection` was asked
        self._basis = 0  # points that noise and penalty were taken from
        self._program = Program(penalty=1.0)
        self._sigma = 1.0
        self._tests = YuenTests({} if reached is None else reached.tests)

    def extend(self, values: Values) -> None:
        """Take further log values."""
        self._observed.extend(values)
        self.reached = None

    def detection(self) -> Detection:
        """Return what is found in all points so far."""
        size = self._observed.size
        if size < FEWEST:
            return Detection(points=(), warnings=too_few(FEWEST, "change points by PELT", size))
        cuts = self._cuts() if self.reached is None else self.reached.cuts
        passed = self._tests.eliminate(cuts, self._observed.logs, lambda step: step.p < P)
        if self.reached is None:
            costs = np.array(self._program.costs)
            self.reached = Reached(basis=self._basis, sigma=self._sigma, cuts=tuple(cuts), costs=costs)
        self.reached = replace(self.reached, tests=self._tests.used)
        return Detection(points=tuple(point(self._observed.index(place), step, NAME) for place, step in passed))

    def _cuts(self) -> list[int]:
        """Bring the dynamic programme up to date and return its cuts; the last two clipped points are not final yet."""
        logs = self._observed.logs
        basis = grown(logs.size)
        if basis != self._basis:
            self._basis, self._sigma = basis, difference_sigma(logs[:basis])
            self._program = Program(penalty=penalty(self._sigma, basis), centre=float(logs[0]))
        done = self._program.size
        since = max(done - HALF_WIDTH, 0)
        fresh = clipped(logs[since:], self._sigma)[done - since :]
        self._program.extend(fresh)
        cuts = self._program.cuts()
        self._program.rewind(HALF_WIDTH)
        return cuts


class Program:
    """The dynamic programme: the least cost of the first t points for every t, and the last cut in it."""

    def __init__(self, *, penalty: float, centre: float = 0.0) -> None:
        """Begin with no point.

        Args:
            penalty: of a cut, squared log units.
            centre: a value near the points, so that the sums of squares stay exact.
        """
        self._penalty, self._centre = penalty, centre
        self._last = [0]
        self.costs = [-penalty]  # of the cut at each place: the least of the points before it, and the penalty
        cuts = np.zeros((4, 1 + BLOCK))
        cuts[COST, 0] = -penalty
        self._opened = self._before_look = Opened(cuts=cuts, used=1, looked=np.empty(0))

    @property
    def size(self) -> int:
        """Points so far."""
        return len(self._last) - 1

    def extend(self, values: FloatArray) -> None:
        """Take further points, many at a time; what comes out is, to the last bit, as of one after the other."""
        taken = 0
        while taken < values.size:
            since = self.size % BLOCK
            if self.size and not since:
                self._before_look, self._opened = self._opened, _looked_at(self._opened)
            self._take(values[taken : taken + BLOCK - since] - self._centre)
            taken += BLOCK - since

    def rewind(self, count: int) -> None:
        """Forget the last `count` points: no more than BLOCK, nor than `extend` took last."""
        done = self.size
        del self._last[done + 1 - count :], self.costs[done + 1 - count :]
        since = (done - 1) % BLOCK + 1  # points since the last look, or the beginning
        if since <= count < done:
            self._opened = self._before_look
            count -= since
        self._opened = self._opened._replace(used=self._opened.used - count)

    def cuts(self) -> list[int]:
        """Return the cheapest cuts, oldest first: each the number of points before it."""
        found, place = [], self._last[self.size]
        while place:
            found.append(place)
            place = self._last[place]
        return found[::-1]

    def _take(self, values: FloatArray) -> None:
        """Take points up to the next look."""
        cuts, count, looked = self._opened
        end = count + values.size
        cuts[PLACE, count:end] = np.arange(self.size + 1, self.size + values.size + 1)
        cuts[SUM, count:end], cuts[SQUARE, count:end] = values, values * values
        cuts[SUM:, count - 1 : end] = cuts[SUM:, count - 1 : end].cumsum(axis=1)
        points = cuts[:, count:end]
        slack = ROUNDING * (float(points[SQUARE, -1]) + self._penalty)
        rivals = cuts[:, _rivals(self._opened, points, slack)]
        least, last = _least(points, rivals)
        least, last = _with_cuts_among(points, least, last, self._penalty, slack)
        points[COST] = least + self._penalty
        self._last += last.astype(np.int64).tolist()
        self.costs += points[COST].tolist()
        self._opened = Opened(cuts=cuts, used=end, looked=looked)


def _looked_at(opened: Opened) -> Opened:
    """Look at the cuts, and drop those that at the last look a later cut, the one of then, had beaten for ever.

    Not before now, as that cut must be FEWEST_A_SIDE points away to be the last one. What is given stays as it is, but
    for columns that are of no account.
    """
    cuts, count, looked = opened
    staying = (looked <= cuts[COST, _column(looked)]).nonzero()[0]
    if staying.size < looked.size or cuts.shape[1] < count + BLOCK:
        columns = np.concatenate([staying, np.arange(looked.size, count)])
        count = columns.size
        cuts = np.concatenate([cuts[:, columns], np.empty((4, count + BLOCK))], axis=1)
    return Opened(cuts=cuts, used=count, looked=_costs(cuts[:, count - 1], cuts[:, : count - FEWEST_A_SIDE]))


def _column(looked: FloatArray) -> int:
    """Return the column of the cut behind the point at which cuts were looked at; those too near it have no cost."""
    return looked.size + FEWEST_A_SIDE - 1


def _costs(point: FloatArray, cuts: FloatArray) -> FloatArray:
    """Return what cuts cost as the last one before a point: (cuts, ...) of the (4, ...) both."""
    explained = point[SUM] - cuts[SUM]
    explained *= explained
    explained /= point[PLACE] - cuts[PLACE]
    found: FloatArray = cuts[COST] + (point[SQUARE] - cuts[SQUARE])
    found -= explained
    return found


def _rivals(opened: Opened, points: FloatArray, slack: float) -> IntArray:
    """Return the columns of the cuts that may be the last one before any of the points, without those among them.

    Let a cut have cost d more than the best one at the last look. The points since then add to its cost no less than
    they have about a mean of their own; to the best one's cost they add just so much, and what it takes to join the two
    means to one. So if d is more than that joining takes up to any of the points, the best one beats the cut at all of
    them. Within one level of the series it beats nearly all, though none for ever.
    """
    cuts, count, looked = opened
    near = np.arange(looked.size, count)
    if not looked.size:
        return near
    best = int(looked.argmin())
    (start, _, sum_before, _), (place, _, sum_then, _) = cuts[:, [best, _column(looked)]].T.tolist()
    before, after = place - start, points[PLACE] - place
    apart = (points[SUM] - sum_then) / after - (sum_then - sum_before) / before
    joining = (apart * apart * (after * before / (after + before))).max()
    return np.concatenate([(looked <= looked[best] + joining + slack).nonzero()[0], near])


def _least(points: FloatArray, cuts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least cost of (4, n) points by the (4, m) cuts before them, and the place of its last cut.

    Of equals it is the first one. The last cuts are those just before the points: too near for the first of these.
    """
    costs = _costs(points, cuts[..., None])
    for back in range(min(FEWEST_A_SIDE - 1, len(costs))):
        costs[-1 - back, : FEWEST_A_SIDE - 1 - back] = math.inf
    best = costs.argmin(axis=0)
    return costs[best, np.arange(best.size)], cuts[PLACE, best]


def _with_cuts_among(
    points: FloatArray, least: FloatArray, last: FloatArray, penalty: float, slack: float
) -> tuple[FloatArray, FloatArray]:
    """Return the least cost of (4, n) points and its last cut, given those without a cut among the points.

    Most often none among them is worth its penalty: whether one may be is found first, but for `slack`. If so, what
    such a cut costs follows from the least cost of the point before it, which may have one too: take the costs that
    come out until none changes. A cost is right once those of the points before it are, so then all are.
    """
    gaps, refused = (each[: least.size, : least.size] for each in _near(BLOCK))
    explained = points[SUM, :, None] - points[SUM]
    explained *= explained
    explained /= gaps
    saved = explained - refused
    saved -= least + penalty - points[SQUARE]
    if (saved.max(axis=1) <= points[SQUARE] - least - slack).all():
        return least, last
    spread = points[SQUARE, :, None] - points[SQUARE]
    spread += refused
    rows, found = np.arange(least.size), least
    while True:
        costs = found + penalty + spread
        costs -= explained
        best = costs.argmin(axis=1)
        among = costs[rows, best]
        found, before = np.minimum(least, among), found
        if (found == before).all():
            return found, np.where(among < least, points[PLACE, best], last)


@cache
def _near(count: int) -> tuple[FloatArray, FloatArray]:
    """Return the points between each of `count` points and the cuts at them, and which of those are refused.

    Returns:
        gaps: (points, cuts); 1 where a cut is too near or still to come.
        refused: (points, cuts); infinite there, 0 elsewhere.
    """
    gaps = np.subtract.outer(np.arange(count), np.arange(count)).astype(np.float64)
    near = gaps < FEWEST_A_SIDE
    return np.where(near, 1.0, gaps), np.where(near, math.inf, 0.0)


def penalty(sigma: float, basis: int) -> float:
    """Return what a cut costs, squared log units; both taken from the first `basis` points."""
    return 2 * sigma**2 * math.log(basis)
