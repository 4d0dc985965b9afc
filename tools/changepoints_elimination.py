"""Backward elimination: drop the weakest of proposed change points until all stand against their neighbours. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.harness.statistics import FloatArray
from tools.changepoints_noise import Noise, before, yuen
from tools.changepoints_values import Step, neighbours

P = 1e-4
REACH = 100  # points a side that are compared: levels of long ago say little, and cost time

Stretch = tuple[int, int, int]


class Elimination:
    """Yuen's tests of places in a growing series; those that were made are remembered as long as they are wanted."""

    def __init__(self) -> None:
        self._known: dict[Stretch, Step] = {}
        self._histories: dict[int, Noise | None] = {}

    def passed(self, logs: FloatArray, places: Sequence[int]) -> list[tuple[int, Step]]:
        """Return the places whose step against the levels between their neighbours has p < P, with these steps.

        Args:
            logs: of the whole series so far, the same points as last time and further ones.
            places: proposed change points, ascending, each level of two points or more.
        """
        left, used = list(places), dict[Stretch, Step]()
        while True:
            stretches = [neighbours(left, number, logs.size) for number in range(len(left))]
            for stretch in stretches:
                if stretch not in used:
                    used[stretch] = self._known.get(stretch) or self._tested(logs, stretch)
            weakest = max(stretches, key=lambda each: used[each].p, default=None)
            if weakest is None or used[weakest].p < P:
                self._known = used
                return [(stretch[1], used[stretch]) for stretch in stretches]
            left.remove(weakest[1])

    def _tested(self, logs: FloatArray, stretch: Stretch) -> Step:
        start, place, end = stretch
        if place not in self._histories:
            self._histories[place] = before(logs[:place])
        first, second = logs[max(start, place - REACH) : place], logs[place : min(end, place + REACH)]
        return yuen(first, second, self._histories[place])
