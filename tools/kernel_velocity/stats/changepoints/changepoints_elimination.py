"""Backward elimination: drop the weakest of proposed change points until all stand against their neighbours. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints.noise import yuen
from kernel_velocity.stats.changepoints.values import Step

REACH = 100  # points a side that are compared: levels of long ago say little, and cost time

Stretch = tuple[int, int, int]  # where the level before a change begins, the change, and where its level ends
Test = Callable[[Stretch], Step]


def eliminate(places: Sequence[int], size: int, test: Test, stands: Callable[[Step], bool]) -> list[tuple[int, Step]]:
    """Return the places that stand against the levels between their neighbours, with their steps.

    Args:
        places: proposed change points, ascending.
        size: of the series.
        test: compares the levels on both sides of a change.
        stands: whether a step is to be kept; of those that are not, the one with the largest p goes first.
    """
    left = list(places)
    while True:
        steps = [test(stretch) for stretch in zip([0, *left], left, [*left[1:], size], strict=False)]
        falling = [(step.p, number) for number, step in enumerate(steps) if not stands(step)]
        if not falling:
            return list(zip(left, steps, strict=True))
        del left[max(falling)[1]]


class YuenTests:
    """Yuen's tests in a growing series; those of the last elimination are remembered, for the next one."""

    def __init__(self, known: Mapping[Stretch, Step] = MappingProxyType({})) -> None:
        """Begin with the tests that are known of the series."""
        self._known: Mapping[Stretch, Step] = known
        self.used = dict(known)  # of the last elimination, by what is compared: up to REACH points a side

    def eliminate(
        self, places: Sequence[int], logs: FloatArray, stands: Callable[[Step], bool]
    ) -> list[tuple[int, Step]]:
        """Return the places that stand, with their steps.

        Args:
            places: proposed change points, ascending, each level of two points or more.
            logs: the whole series: the points of last time, and further ones.
            stands: as for the function of this name.
        """
        self._known, self.used = self.used, {}
        return eliminate(places, logs.size, lambda stretch: self._test(logs, stretch), stands)

    def _test(self, logs: FloatArray, stretch: Stretch) -> Step:
        start, place, end = max(stretch[0], stretch[1] - REACH), stretch[1], min(stretch[2], stretch[1] + REACH)
        found = self.used.get((start, place, end)) or self._known.get((start, place, end))
        if found is None:
            found = yuen(logs[start:place], logs[place:end])
        self.used[start, place, end] = found
        return found
