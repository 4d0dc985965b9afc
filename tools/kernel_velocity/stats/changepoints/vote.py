"""Change points of a series: the vote of three detectors, each weak where another is strong. Pure, no commits known.

PELT localises well and needs few points, but is fooled by modes that a series sticks in; E-divisive sees the whole
distribution, but knows nothing of correlation; the two windows are hard to fool and slow. Two of three must find the
same step, or E-divisive one that is far beyond what the series does anyway; and it must be no visit to a level that
the series keeps visiting (stats/changepoints/visits.py). Beside the vote stand the screen
(stats/changepoints/screen.py), which is cheap and sensitive and only asks for a second look, and the check for slow
drift (stats/changepoints/drift.py), which no detector of steps sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType

from kernel_velocity.stats.changepoints import edivisive, windows
from kernel_velocity.stats.changepoints import pelt as changepoints_pelt
from kernel_velocity.stats.changepoints.noise import restlessness, yuen
from kernel_velocity.stats.changepoints.values import (
    LEAST,
    ChangePoint,
    Detection,
    Detector,
    Observed,
    Values,
    as_logs,
    found_in,
)
from kernel_velocity.stats.changepoints.visits import is_visit

VOTES = 2
P = 1e-3  # of Yuen's test, for two voices without PELT
REACH = 24  # points a side that it looks at
EDIVISIVE = 1  # its place among the detectors
# Times the scatter before it that a step of E-divisive alone must be, and p of its test. Chosen with the constants of
# stats/changepoints/visits.py; at 2.5 correlated noise reaches 1 false alarm per 1000 commits.
LOUD, P_LOUD = 3.0, 1e-8
# Points: within it annotators of the Turing Change Point Dataset are taken to mean the same change, and it is what
# detectors may differ by on one step. Levels closer together have too few points for those that vote beside PELT.
MARGIN = 5


def detect(values: Values) -> Detection:
    """Return the change points of a whole series of log values."""
    return found_in(Vote(), values)


class Vote:
    """The three detectors and their vote, fed and asked."""

    def __init__(
        self,
        observed: Observed | None = None,
        detectors: tuple[Detector, ...] | None = None,
        restless: Mapping[int, float | None] = MappingProxyType({}),
    ) -> None:
        """Begin: with no point, or with points, detectors that took them, and what is known of their restlessness."""
        self._observed = Observed() if observed is None else observed
        self.detectors = detectors or (
            changepoints_pelt.Pelt(),
            edivisive.EDivisive(),
            windows.TwoWindow(),
        )
        self.restless = dict(restless)  # by index
        # Of the last `detection`: what the detectors said that were asked, and what they agreed on, visits too
        self.found: list[Detection] = []
        self.agreed: list[ChangePoint] = []

    def extend(self, values: Values) -> None:
        """Take further log values."""
        taken = as_logs(values)
        self._observed.extend(taken)
        for detector in self.detectors:
            detector.extend(taken)

    def detection(self) -> Detection:
        """Return what two of three find in all points so far, where it stands out against what the series does anyway.

        A step counts if it is larger than the scatter of the points before it (`restlessness`), for which there must be
        12 of them. Two voices without PELT, whose test alone knows of correlation, need one that does; E-divisive needs
        no other voice for a step of LOUD times that scatter. A visit to a level is no step.
        """
        found = [detector.detection() for detector in self.detectors[1:]]
        standing = [self._standing(each) for each in found]
        pelt, size = self.detectors[0], self._observed.size
        if any(map(_is_worth_a_word, chain(*standing))) or size < changepoints_pelt.FEWEST:
            found.insert(0, pelt.detection())
            standing.insert(0, self._standing(found[0]))
        else:  # PELT alone has no majority, and takes the longest
            standing.insert(0, [])
        self.found = found
        warnings = tuple(warning for each in found for warning in each.warnings)
        agreed = list(self._seconded(joined(standing)))
        self.agreed = sorted((*agreed, *self._loud(standing[EDIVISIVE], agreed)), key=lambda point: point.index)
        return Detection(points=tuple(self._lasting(self.agreed)), warnings=warnings)

    def _standing(self, found: Detection) -> list[ChangePoint]:
        return [point for point in found.points if self._loudness(point) >= 1]

    def _loudness(self, point: ChangePoint) -> float:
        """Return how many times the scatter before it a step is; 0 where too few points are there to tell."""
        if point.index not in self.restless:
            self.restless[point.index] = restlessness(self._observed.logs[: self._observed.place(point.index)])
        scatter = self.restless[point.index]
        return 0.0 if scatter is None else abs(point.after - point.before) / scatter

    def _loud(self, points: Iterable[ChangePoint], agreed: Sequence[ChangePoint]) -> Iterator[ChangePoint]:
        for point in points:
            is_new = all(abs(point.index - other.index) > MARGIN for other in agreed)
            if is_new and point.p < P_LOUD and self._loudness(point) >= LOUD and _is_worth_a_word(point):
                yield point

    def _lasting(self, points: Sequence[ChangePoint]) -> Iterator[ChangePoint]:
        places = [self._observed.place(point.index) for point in points]
        logs = self._observed.logs
        for point, start, place, end in zip(points, [0, *places], places, [*places[1:], logs.size], strict=False):
            if not is_visit(logs[start:place], logs[place:end], point):
                yield point

    def _seconded(self, points: Sequence[ChangePoint]) -> Iterator[ChangePoint]:
        places = [self._observed.place(point.index) for point in points]
        logs = self._observed.logs
        for point, start, place, end in zip(points, [0, *places], places, [*places[1:], logs.size], strict=False):
            before, after = logs[max(start, place - REACH) : place], logs[place : min(end, place + REACH)]
            if changepoints_pelt.NAME in point.detectors or (
                min(before.size, after.size) >= changepoints_pelt.FEWEST_A_SIDE and yuen(before, after).p < P
            ):
                yield point


def joined(found: Sequence[Sequence[ChangePoint]]) -> tuple[ChangePoint, ...]:
    """Return the change points that VOTES detectors agree on: within MARGIN points, and in direction.

    Changes of less than LEAST have no vote. Place, levels and p are those of the detector named first.

    Args:
        found: change points by detector, the one that localises best first.
    """
    pools = [[point for point in points if _is_worth_a_word(point)] for points in found]
    agreed = []
    for rank, pool in enumerate(pools):
        others = pools[rank + 1 :]
        for candidate in pool:
            partners = [_partner(candidate, other) for other in others]
            voters = [candidate, *(partner for partner in partners if partner is not None)]
            if len(voters) < VOTES:
                continue
            for other, partner in zip(others, partners, strict=True):
                if partner is not None:
                    other.remove(partner)  # it has voted
            agreed.append(replace(candidate, detectors=tuple(name for each in voters for name in each.detectors)))
    return tuple(sorted(agreed, key=lambda point: point.index))


def _is_worth_a_word(point: ChangePoint) -> bool:
    return abs(point.after - point.before) >= LEAST


def _partner(candidate: ChangePoint, others: Sequence[ChangePoint]) -> ChangePoint | None:
    """Return the nearest of another detector's change points that may be the same one."""
    near = [each for each in others if abs(each.index - candidate.index) <= MARGIN and each.rises == candidate.rises]
    return min(near, key=lambda each: abs(each.index - candidate.index), default=None)
