"""The screen of a night: what is worth measuring again. And its look back: what only many values show. Pure.

Against a history it is the screen of stats/changepoints/screen.py. A machine's first nights have no history to speak
of: there every move counts that stands out of the few values before it, and beyond what any two sessions differ by
where there are not even those. It costs a re-run in turns, which is what tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kernel_velocity.nightly.moves import Shift
from kernel_velocity.nightly.suspects import Change
from kernel_velocity.stats import two_samples
from kernel_velocity.stats.changepoints import vote
from kernel_velocity.stats.changepoints.drift import drift
from kernel_velocity.stats.changepoints.noise import difference_sigma
from kernel_velocity.stats.changepoints.screen import NEWEST, Z1, Z3, Screening, screen

LOOK_BACK = 8  # values of a short history that the newest is held against
FEW = 3  # values before the newest that say something of their scatter
Z_FEW = 2.0  # sigmas; of few values sigma is hardly known, and a re-run is cheap
LEAST = math.log1p(two_samples.LEAST)
# Log units; where there are not even FEW. Identical code differed by 1 to 3% between sessions on shared cores (README).
BETWEEN_SESSIONS = 0.015


def shift(values: Sequence[float], /) -> Shift | None:
    """Return how the newest of log values, oldest first, left those before them; None: they are where they were."""
    found = screen(values)
    if found.z1 is None or found.z3 is None or found.level is None:
        return _of_few(values)
    return _of_many(values, found, found.level, found.z1, found.z3)


def _of_many(values: Sequence[float], found: Screening, level: float, z1: float, z3: float) -> Shift | None:
    if not found.alarm:
        return None
    if abs(z3) > Z3:
        return Shift(effect=float(np.median(values[-NEWEST:])) - level, count=NEWEST)
    return Shift(effect=values[-1] - level, count=1) if abs(z1) > Z1 else None


def _of_few(values: Sequence[float]) -> Shift | None:
    before = np.asarray(values[-LOOK_BACK - 1 : -1])
    if not before.size:
        return None
    moved = values[-1] - float(np.median(before))
    limit = max(LEAST, Z_FEW * difference_sigma(before)) if before.size >= FEW else BETWEEN_SESSIONS
    return Shift(effect=moved, count=1) if abs(moved) > limit else None


def look_back(values: Sequence[float], /) -> Change | None:
    """Return the newest change of log values, oldest first: a drift to the newest, else the last step of the vote.

    A step is placed to within a few values: it lies between those that far to both sides, which a bisection narrows.
    """
    slow = drift(values)
    if slow.found and slow.ratio is not None and slow.first is not None and slow.last is not None:
        return Change(effect=math.log(slow.ratio), good=slow.first, bad=slow.last)
    points = vote.detect(values)
    if not points:
        return None
    newest, first = points[-1], points[-2].index if len(points) > 1 else 0
    good = max(newest.index - 1 - vote.MARGIN, first)
    bad = min(newest.index + vote.MARGIN, len(values) - 1)
    return Change(effect=newest.after - newest.before, good=good, bad=bad)
