"""PELT on squared deviations, and backward elimination of what a robust test does not confirm. Pure.

Killick, Fearnhead and Eckley, JASA 107(500), 2012: the cheapest cut of the series into levels, each cut costing
2 sigma^2 ln n. Spikes are clipped first, and every cut must then pass Yuen's test (tools/changepoints_elimination.py).

The noise and the penalty are taken from the first m points, m being the largest term up to n of a series that grows by
an eighth: so the work for a point more does not grow with n (each new estimate is paid for by the n/8 points before
it), and what is found does not depend on how the points were dealt out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.harness.statistics import FloatArray
from tools.changepoints_elimination import YuenTests
from tools.changepoints_noise import HALF_WIDTH, clipped, difference_sigma
from tools.changepoints_values import Detection, Observed, Values, found_in, point, too_few

NAME = "pelt"
P = 1e-4
FEWEST_A_SIDE = 3
FEWEST = 2 * FEWEST_A_SIDE
GROWTH = 8  # the noise is estimated anew when n has grown by 1/8
ALWAYS_ANEW = 16  # up to so many points it always is
COST = 1  # row of `Mark.opened`
# Points from one look for cuts that can no longer be the last one to the next. A look costs as much as a step, and a
# cut that stays too long next to nothing.
PRUNED = 32


def detect(values: Values) -> Detection:
    """Return the change points of a whole series of log values."""
    return found_in(Pelt(), values)


class Mark(NamedTuple):
    """Where the dynamic programme is after some points."""

    size: int
    sum: float  # of the points, from the centre
    square: float  # of their squares
    opened: FloatArray  # cuts that may still be the last one, ascending: rows place, cost, sum, square up to it
    used: int  # columns of it; what stands behind them is of no account
    # Of the first of those, which a later cut beats for ever from FEWEST_A_SIDE points on: before, that is not allowed
    beaten: npt.NDArray[np.bool_] | None


class Pelt:
    """PELT with elimination, fed and asked."""

    def __init__(self) -> None:
        self._observed = Observed()
        self._basis = 0  # points that noise and penalty were taken from
        self._program = Program(penalty=1.0)
        self._sigma = 1.0
        self._tests = YuenTests()

    def extend(self, values: Values) -> None:
        """Take further log values."""
        self._observed.extend(values)

    def detection(self) -> Detection:
        """Return what is found in all points so far."""
        size = self._observed.size
        if size < FEWEST:
            return Detection(points=(), warnings=too_few(FEWEST, "change points by PELT", size))
        passed = self._tests.eliminate(self._cuts(), self._observed.logs, lambda step: step.p < P)
        return Detection(points=tuple(point(self._observed.index(place), step, NAME) for place, step in passed))

    def _cuts(self) -> list[int]:
        """Bring the dynamic programme up to date and return its cuts; the last two clipped points are not final yet."""
        logs = self._observed.logs
        basis = grown(logs.size)
        if basis != self._basis:
            self._basis, self._sigma = basis, difference_sigma(logs[:basis])
            self._program = Program(penalty=2 * self._sigma**2 * math.log(basis), centre=float(logs[0]))
        done = self._program.size
        since = max(done - HALF_WIDTH, 0)
        fresh = clipped(logs[since:], self._sigma)[done - since :].tolist()
        for value in fresh[:-HALF_WIDTH]:
            self._program.step(value)
        mark = self._program.mark()
        for value in fresh[-HALF_WIDTH:]:
            self._program.step(value)
        cuts = self._program.cuts()
        self._program.rewind(mark)
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
        opened = np.zeros((4, 64))
        opened[COST, 0] = -penalty
        self._now = Mark(size=0, sum=0.0, square=0.0, opened=opened, used=1, beaten=None)

    @property
    def size(self) -> int:
        """Points so far."""
        return self._now.size

    def step(self, value: float) -> None:
        """Take a point more."""
        now = self._now
        value -= self._centre
        size, total, square = now.size + 1, now.sum + value, now.square + value * value
        opened, count, beaten = now.opened, now.used, now.beaten
        if beaten is not None and size % PRUNED == FEWEST_A_SIDE:
            opened, count = _without(opened, count, beaten)
            beaten = None
        if size < FEWEST_A_SIDE:
            cost, last = math.inf, 0
        else:
            places, before, sums, squares = opened[:, : count + 1 - FEWEST_A_SIDE]  # the others are too near
            rest = total - sums
            costs = before + (square - squares) - rest * rest / (size - places)
            best = int(costs.argmin())
            cost, last = float(costs[best]) + self._penalty, int(places[best])
            if size % PRUNED == 0:
                beaten = costs > cost
        if count == opened.shape[1]:
            opened = np.concatenate([opened, np.zeros_like(opened)], axis=1)
        opened[:, count] = size, cost, total, square
        self._last.append(last)
        self._now = Mark(size=size, sum=total, square=square, opened=opened, used=count + 1, beaten=beaten)

    def cuts(self) -> list[int]:
        """Return the cheapest cuts, oldest first: each the number of points before it."""
        found, place = [], self._last[self.size]
        while place:
            found.append(place)
            place = self._last[place]
        return found[::-1]

    def mark(self) -> Mark:
        """Return what `rewind` needs to forget the points that come after."""
        return self._now

    def rewind(self, mark: Mark) -> None:
        """Forget the points since the mark."""
        self._now = mark
        del self._last[self.size + 1 :]


def _without(opened: FloatArray, count: int, beaten: npt.NDArray[np.bool_]) -> tuple[FloatArray, int]:
    """Return the cuts without those that are beaten, and their number; what a mark holds stays as it is."""
    left = np.concatenate([opened[:, : beaten.size][:, ~beaten], opened[:, beaten.size : count]], axis=1)
    return np.concatenate([left, np.zeros((4, 64))], axis=1), left.shape[1]


def grown(size: int) -> int:
    """Return the largest term up to `size` of the series 16, 18, 20, 22, ... that grows by 1/8; below it `size`."""
    term = min(size, ALWAYS_ANEW)
    while term >= ALWAYS_ANEW and term + term // GROWTH <= size:
        term += term // GROWTH
    return term
