"""PELT on squared deviations, and backward elimination of what a robust test does not confirm. Pure.

Killick, Fearnhead and Eckley, JASA 107(500), 2012: the cheapest cut of the series into levels, each cut costing
2 sigma^2 ln n. Spikes are clipped first, and every cut must then pass Yuen's test (tools/changepoints_elimination.py).

The noise and the penalty are taken from the first m points, m being the largest term up to n of a series that grows by
an eighth: so the work for a point more does not grow with n (each new estimate is paid for by the n/8 points before
it), and what is found does not depend on how the points were dealt out.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tools.changepoints_elimination import YuenTests
from tools.changepoints_noise import HALF_WIDTH, clipped, difference_sigma
from tools.changepoints_values import Detection, Observed, Values, found_in, point, too_few

NAME = "pelt"
P = 1e-4
FEWEST_A_SIDE = 3
FEWEST = 2 * FEWEST_A_SIDE
GROWTH = 8  # the noise is estimated anew when n has grown by 1/8
ALWAYS_ANEW = 16  # up to so many points it always is
FOR_EVER = np.iinfo(np.int64).max

Places = npt.NDArray[np.int64]


def detect(values: Values) -> Detection:
    """Return the change points of a whole series of log values."""
    return found_in(Pelt(), values)


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
        self.size = 0
        self._penalty, self._centre = penalty, centre
        self._cost, self._sums, self._squares = np.zeros(64), np.zeros(64), np.zeros(64)
        self._cost[0] = -penalty
        self._last = [0]
        self._open: Places = np.zeros(1, dtype=np.int64)  # cuts that may still be the last one
        self._until: Places = np.full(1, FOR_EVER)  # the size up to which each of them may

    def step(self, value: float) -> None:
        """Take a point more."""
        self.size = size = self.size + 1
        self._reserve(size + 1)
        value -= self._centre
        self._sums[size] = self._sums[size - 1] + value
        self._squares[size] = self._squares[size - 1] + value * value
        if size < FEWEST_A_SIDE:
            self._cost[size] = math.inf
            self._last.append(0)
            return
        keep = self._until >= size
        self._open, self._until = self._open[keep], self._until[keep]
        count = int(self._open.searchsorted(size - FEWEST_A_SIDE, side="right"))
        cuts = self._open[:count]
        sums = self._sums[size] - self._sums[cuts]
        costs = self._cost[cuts] + (self._squares[size] - self._squares[cuts]) - sums * sums / (size - cuts)
        best = int(costs.argmin())
        self._cost[size] = costs[best] + self._penalty
        self._last.append(int(cuts[best]))
        self._close(costs, size)

    def _close(self, costs: npt.NDArray[np.float64], size: int) -> None:
        """Note which cuts a cut here beats for ever: from FEWEST_A_SIDE points on, before that it is not allowed."""
        until = self._until.copy()
        beaten = np.where(costs > self._cost[size], size + FEWEST_A_SIDE - 1, FOR_EVER)
        until[: costs.size] = np.minimum(until[: costs.size], beaten)
        self._open, self._until = np.append(self._open, size), np.append(until, FOR_EVER)

    def cuts(self) -> list[int]:
        """Return the cheapest cuts, oldest first: each the number of points before it."""
        found, place = [], self._last[self.size]
        while place:
            found.append(place)
            place = self._last[place]
        return found[::-1]

    def mark(self) -> tuple[int, Places, Places]:
        """Return what `rewind` needs to forget the points that come after."""
        return self.size, self._open, self._until

    def rewind(self, mark: tuple[int, Places, Places]) -> None:
        """Forget the points since the mark."""
        self.size, self._open, self._until = mark
        del self._last[self.size + 1 :]

    def _reserve(self, size: int) -> None:
        if size > self._cost.size:
            more = np.zeros(self._cost.size)
            self._cost, self._sums, self._squares = (
                np.concatenate([each, more]) for each in (self._cost, self._sums, self._squares)
            )


def grown(size: int) -> int:
    """Return the largest term up to `size` of the series 16, 18, 20, 22, ... that grows by 1/8; below it `size`."""
    term = min(size, ALWAYS_ANEW)
    while term >= ALWAYS_ANEW and term + term // GROWTH <= size:
        term += term // GROWTH
    return term
