"""The detectors of a night: the screen of the newest values, and the look back over all values. Pure.

The screen of a long history is that of stats/changepoints/screen.py. A machine's first nights have few values: there
every move counts that stands out from them, or that exceeds the difference of any two sessions. A sensitive screen
costs re-runs in turns only, and these decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kernel_velocity.stats import two_samples
from kernel_velocity.stats.changepoints import detector
from kernel_velocity.stats.changepoints.drift import drift
from kernel_velocity.stats.changepoints.noise import difference_sigma
from kernel_velocity.stats.changepoints.screen import NEWEST, Z1, Z3, screen

LOOK_BACK = 8  # values of a short history that the newest is compared with
FEW = 3  # values before the newest that tell their scatter
Z_FEW = 2.0  # sigmas; of few values sigma is hardly known, and a re-run is cheap
LEAST = math.log1p(two_samples.LEAST)
# Log units; where there are not even FEW. Identical code differed by 1 to 3% between sessions on shared cores (README).
BETWEEN_SESSIONS = 0.015


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change in the log values of a series, oldest first."""

    effect: float  # new minus old
    good: int  # index of the last value that is surely from before
    bad: int  # index of the first value that is surely from after; of a drift: the newest


Detector = Callable[[Sequence[float]], Change | None]  # of log values, oldest first


def shift(values: Sequence[float]) -> Change | None:
    """Return the change of the newest log values, oldest first. None where they are at the level before them."""
    screening = screen(values)
    if screening.z1 is None or screening.z3 is None or screening.level is None:
        return _shift_of_few(values)
    if screening.alarm and abs(screening.z3) > Z3:
        return _newest(values, NEWEST, float(np.median(values[-NEWEST:])) - screening.level)
    return _newest(values, 1, values[-1] - screening.level) if screening.alarm and abs(screening.z1) > Z1 else None


def _shift_of_few(values: Sequence[float]) -> Change | None:
    before = np.asarray(values[-LOOK_BACK - 1 : -1])
    if not before.size:
        return None
    effect = values[-1] - float(np.median(before))
    limit = max(LEAST, Z_FEW * difference_sigma(before)) if before.size >= FEW else BETWEEN_SESSIONS
    return _newest(values, 1, effect) if abs(effect) > limit else None


def _newest(values: Sequence[float], count: int, effect: float) -> Change:
    return Change(effect=effect, good=len(values) - count - 1, bad=len(values) - 1)


def look_back(values: Sequence[float]) -> Change | None:
    """Return the newest change of log values, oldest first: a drift up to the newest, else the last step.

    A step is known to within a few values. It lies between the values that far to both sides: a bisection narrows it.
    """
    slow = drift(values)
    if slow.found and slow.ratio is not None and slow.first is not None and slow.last is not None:
        return Change(effect=math.log(slow.ratio), good=slow.first, bad=slow.last)
    points = detector.detect(values)
    if not points:
        return None
    newest, first = points[-1], points[-2].index if len(points) > 1 else 0
    good = max(newest.index - 1 - detector.MARGIN, first)
    bad = min(newest.index + detector.MARGIN, len(values) - 1)
    return Change(effect=newest.after - newest.before, good=good, bad=bad)
