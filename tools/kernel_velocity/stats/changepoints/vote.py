"""Find the change points of a series by the vote of three detectors, each weak where another is strong. Pure.

PELT localises well and needs few points, but is fooled by modes that a series sticks in. E-divisive sees the whole
distribution, but ignores correlation. The two windows are hard to fool and slow. Two of three must find the same step,
or E-divisive one far beyond the usual scatter, and it must not be a visit to a level that the series keeps visiting.

Beside the vote stand the screen (screen.py), which only calls for a second look, and the check for drift (drift.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints import edivisive, pelt, windows
from kernel_velocity.stats.changepoints.noise import restlessness, yuen
from kernel_velocity.stats.changepoints.values import (
    MIN_EFFECT,
    ChangePoint,
    Observed,
    Points,
    Values,
    observed,
)

VOTES = 2
P = 1e-3  # of Yuen's test, for two votes without PELT
REACH = 24  # points a side in it
# Times the scatter before it that a step of E-divisive alone must be, and p of its test. Chosen with the constants of
# visits below; at 2.5 correlated noise reaches 1 false alarm per 1000 commits.
LOUD, P_LOUD = 3.0, 1e-8
# Points: within it annotators of the Turing Change Point Dataset are taken to mean the same change, and it is what
# detectors may differ by on one step. Levels closer together have too few points for those that vote beside PELT.
MARGIN = 5

LOOK_BACK = 100  # points before a change in which visits are looked for, at most
PASSING = 8  # points: a longer stay was a level, not a visit
FEWEST_VISITS = 4  # fewer do not tell how long they last
# How many visits as long as the stay the history may be expected to hold: beyond, it is one of them. Chosen on the
# false alarms of two seeds, with the F1 on half of the annotated series (`score-detectors`), and reported on others.
EXPECTED = 0.03
PRIOR = 0.5  # Jeffreys', of leaving and of staying


@dataclass(frozen=True, kw_only=True, eq=False)
class Reached:
    """The state of the three detectors in a series, from which the next vote continues."""

    by_windows: Points | None = None  # None: to be searched anew
    by_edivisive: edivisive.Reached = field(default_factory=edivisive.Reached)
    by_pelt: pelt.Reached | None = None  # None: to be searched anew
    restless: Mapping[int, float | None] = field(default_factory=dict)  # scatter before each step, by index


def detect(values: Values) -> Points:
    """Return the change points of a series of log values, oldest first."""
    return search(observed(values))[0]


def search(series: Observed, known: Reached | None = None) -> tuple[Points, Reached]:
    """Return the change points and the state of the detectors, continued from a known state.

    A step has a vote if it is larger than the scatter of the points before it (`restlessness`), for which there must be
    12 of them. Two votes without PELT, which alone tests for correlation, need such a test too. E-divisive needs no
    other vote for a step of LOUD times that scatter.
    """
    known = known or Reached()
    restless = dict(known.restless)

    def loudness(point: ChangePoint) -> float:
        """Return how many times the scatter before it a step is. 0 if too few points are there to tell."""
        if point.index not in restless:
            restless[point.index] = restlessness(series.logs[: series.place(point.index)])
        scatter = restless[point.index]
        return 0.0 if scatter is None else abs(point.after - point.before) / scatter

    by_windows = windows.search(series) if known.by_windows is None else known.by_windows
    by_edivisive, edivisive_reached = edivisive.search(series, known.by_edivisive)
    by_pelt: Points = ()
    pelt_reached = known.by_pelt
    if any(loudness(point) >= 1 and _counts(point) for point in (*by_edivisive, *by_windows)):
        # Only then: else PELT has no majority, and it takes the longest
        by_pelt, pelt_reached = pelt.search(series, known.by_pelt)
    votes = [[point for point in points if loudness(point) >= 1] for points in (by_pelt, by_edivisive, by_windows)]
    agreed = [
        point
        for point, before, after in _levels(series, joined(votes))
        if pelt.NAME in point.detectors
        or (min(before.size, after.size) >= pelt.FEWEST_A_SIDE and yuen(before[-REACH:], after[:REACH]).p < P)
    ]
    loud = [
        point
        for point in votes[1]
        if all(abs(point.index - other.index) > MARGIN for other in agreed)
        and point.p < P_LOUD
        and loudness(point) >= LOUD
        and _counts(point)
    ]
    steps = _levels(series, sorted((*agreed, *loud), key=lambda point: point.index))
    points = tuple(point for point, before, after in steps if not is_visit(before, after, point))
    return points, Reached(
        by_windows=by_windows, by_edivisive=edivisive_reached, by_pelt=pelt_reached, restless=restless
    )


def _levels(series: Observed, points: Sequence[ChangePoint]) -> Iterator[tuple[ChangePoint, FloatArray, FloatArray]]:
    """Yield change points, ascending, with the values of the levels before and after each."""
    places = [0, *(series.place(point.index) for point in points), series.logs.size]
    for number, point in enumerate(points):
        start, place, end = places[number : number + 3]
        yield point, series.logs[start:place], series.logs[place:end]


def joined(found: Sequence[Sequence[ChangePoint]]) -> Points:
    """Return the change points that VOTES detectors agree on: within MARGIN points, and in direction.

    Changes of less than MIN_EFFECT have no vote. Place, levels and p are those of the detector named first.

    Args:
        found: change points by detector, the one that localises best first.
    """
    pools = [[point for point in points if _counts(point)] for points in found]
    agreed = []
    for rank, pool in enumerate(pools):
        others = pools[rank + 1 :]
        for candidate in pool:
            partners = [(other, partner) for other in others if (partner := _partner(candidate, other)) is not None]
            if 1 + len(partners) >= VOTES:
                for other, partner in partners:
                    other.remove(partner)  # it has voted
                voters = [candidate, *(partner for _, partner in partners)]
                agreed.append(replace(candidate, detectors=tuple(name for each in voters for name in each.detectors)))
    return tuple(sorted(agreed, key=lambda point: point.index))


def _counts(point: ChangePoint) -> bool:
    return abs(point.after - point.before) >= MIN_EFFECT


def _partner(candidate: ChangePoint, others: Sequence[ChangePoint]) -> ChangePoint | None:
    """Return the nearest of another detector's change points that may be the same one."""
    near = [each for each in others if abs(each.index - candidate.index) <= MARGIN and each.rises == candidate.rises]
    return min(near, key=lambda each: abs(each.index - candidate.index), default=None)


def is_visit(before: FloatArray, after: FloatArray, point: ChangePoint) -> bool:
    """Return whether a change is one more visit to a level that the series keeps visiting.

    A kernel that runs at two speeds, each for some commits, keeps one of them for a dozen commits now and then. No test
    of two stretches tells that from a change, but the length of earlier visits does.

    A point is on the new level's side if it lies beyond the middle of the two levels. The visits before give how often
    a point there was the last of its visit, and so the beta-binomial probability of leaving as seldom as the points
    after the change do. It is multiplied by the number of visits, as any of them could have lasted so long.

    Args:
        before: log values between the last change and this one.
        after: those up to the next one.
        point: the change.
    """
    middle, direction = (point.before + point.after) / 2, 1.0 if point.rises else -1.0
    within = np.concatenate([[False], direction * (before[-LOOK_BACK:] - middle) > 0, [False]])
    edges = (within[1:] != within[:-1]).nonzero()[0]
    lengths = edges[1::2] - edges[::2]
    visits = lengths[lengths <= PASSING]
    if visits.size < FEWEST_VISITS:
        return False
    there = direction * (after - middle) > 0
    chances, leaves = int(there[:-1].sum()), int((there[:-1] & ~there[1:]).sum())
    left = int(visits.size)
    stayed = int(visits.sum()) - left
    from scipy import stats  # noqa: PLC0415 - takes half a second, and most series never need it

    so_long = float(stats.betabinom.cdf(leaves, chances, left + PRIOR, stayed + PRIOR))
    return so_long * left >= EXPECTED
