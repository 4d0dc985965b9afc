"""Levels that a series has visited before: a longer stay than usual on one of them is no change. Pure.

A kernel that runs at two speeds, each kept for some commits, stays on one of them for a dozen commits now and then. No
test of two stretches knows that; how long it stayed before does.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints.values import ChangePoint

LOOK_BACK = 100  # points before a change that are looked at, at most
PASSING = 8  # points: a longer stay was a level, not a visit
FEWEST = 4  # visits: fewer say nothing of how long they last
# How many visits as long as the stay the history may be expected to hold: beyond, it is one of them. Chosen on the
# false alarms of two seeds, with the F1 on half of the annotated series (`score-detectors`), and reported on others.
EXPECTED = 0.03
PRIOR = 0.5  # Jeffreys', of leaving and of staying

Sides = npt.NDArray[np.bool_]


def is_visit(before: FloatArray, after: FloatArray, point: ChangePoint) -> bool:
    """Return whether what follows a change point can be one more visit to a level that the points before it visited.

    A point is on the new level's side if it lies beyond the middle of the two levels. From the visits before, how often
    a point there was the last of its visit: the beta-binomial probability of leaving as seldom as the points after it
    do, times the number of visits, for any of them could have been so long.

    Args:
        before: log values between the last change and this one. after: those up to the next one.
    """
    direction = 1.0 if point.rises else -1.0
    middle = (point.before + point.after) / 2
    visits = visits_before(before, point)
    if len(visits) < FEWEST:
        return False
    there = direction * (after - middle) > 0
    chances = int(there[:-1].sum())
    leaves = int((there[:-1] & ~there[1:]).sum())
    left, stayed = len(visits), sum(visits) - len(visits)
    from scipy import stats  # noqa: PLC0415 - takes half a second, and most series never ask

    so_long = float(stats.betabinom.cdf(leaves, chances, left + PRIOR, stayed + PRIOR))
    return so_long * len(visits) >= EXPECTED


def visits_before(before: FloatArray, point: ChangePoint) -> list[int]:
    """Return how long each visit to a new level lasted before it, points; with fewer than FEWEST, none follows."""
    direction = 1.0 if point.rises else -1.0
    middle = (point.before + point.after) / 2
    return _visits(direction * (before[-LOOK_BACK:] - middle) > 0)


def _visits(there: Sides) -> list[int]:
    """Return how long each visit lasted that passed, points."""
    within = np.zeros(there.size + 2, np.bool_)
    within[1:-1] = there
    edges = (within[1:] != within[:-1]).nonzero()[0]
    lengths = edges[1::2] - edges[::2]
    found: list[int] = lengths[lengths <= PASSING].tolist()
    return found
