"""The detectors of a night: the screen of the newest values, and the look back over all values. Pure.

The screen compares the newest value, the mean of the newest two, and the median of the newest three with the values
before them. A machine's first nights have few values: there every move counts that stands out from them, or that
exceeds the difference of any two sessions. A sensitive screen costs re-runs in turns only, and these decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernel_velocity.stats import two_samples
from kernel_velocity.stats.changepoints import detector
from kernel_velocity.stats.changepoints.drift import drift
from kernel_velocity.stats.changepoints.noise import difference_sigma, iqr_sigma

REFERENCE = 40  # values before the newest ones
NEWEST = 3
FEWEST = 10  # values of a reference: the quartiles of fewer mean little
Z1 = 3.0  # sigmas of the newest value
Z3 = 2.5  # sigmas of the median of the newest three
# Sigmas of the mean of the newest two. Simulated at a noise of .7%, a screen fires at 2.5% of quiet values (without it
# at .7%), and within two commits of a step of 2% in .98 of cases (.77). The larger of two sigmas is often too large.
Z2 = 2.1 / math.sqrt(2)
SHOWN = 0.5  # of the effect, by the newest value: after an outlier the mean and the median show one that is over
# Probability that a move began after `good`, and that it did by `bad`. Of such steps `good` is from before the step in
# .99 of the cases, the value beside the first that fires in .5.
SURE = 0.999
RECENT = 40  # newest values among which it can have begun
LOOK_BACK = 8  # values of a short history that the newest is compared with
FEW = 3  # values before the newest that tell their scatter
Z_FEW = 2.0  # sigmas; of few values sigma is hardly known, and a re-run is cheap
LEAST = math.log1p(two_samples.LEAST)
# Log units; where there are not even FEW. Identical code differed by 1 to 3% between sessions (docs: false alarms).
BETWEEN_SESSIONS = 0.015


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change in the log values of a series, oldest first."""

    effect: float  # new minus old
    good: int  # index of the last value that is surely from before
    bad: int  # index of the first value that is surely from after; of a drift: the newest


def shift(values: Sequence[float]) -> Change | None:
    """Return the change of the newest log values, oldest first. None where they are at the level before them."""
    reference = np.asarray(values[-REFERENCE - NEWEST : -NEWEST])
    if reference.size < FEWEST:
        return _shift_of_few(values)
    level, sigma = float(np.median(reference)), float(max(iqr_sigma(reference), difference_sigma(reference)))
    newest = np.asarray(values[-NEWEST:]) - level
    for effect, limit in ((np.median(newest), Z3), (newest[-1], Z1), (newest[-2:].mean(), Z2)):
        if abs(effect) > limit * sigma and newest[-1] / effect > SHOWN:
            return _began(values, level, float(effect), sigma)
    return None


def _shift_of_few(values: Sequence[float]) -> Change | None:
    before = values[-LOOK_BACK - 1 : -1]
    if not before:
        return None
    level, sigma = float(np.median(before)), scatter(values)
    limit = max(LEAST, Z_FEW * sigma)
    effect = values[-1] - level
    return _began(values, level, effect, limit / Z_FEW) if abs(effect) > limit else None


def scatter(values: Sequence[float]) -> float:
    """Return the sigma of the log values before the newest, or what is assumed where there are too few."""
    before = np.asarray(values[-RECENT - 1 : -1])
    return float(difference_sigma(before)) if before.size >= FEW else BETWEEN_SESSIONS / Z_FEW


def _began(values: Sequence[float], level: float, effect: float, sigma: float) -> Change:
    """Return a change that surely began between its two values.

    The newest value is from after the change. Every beginning before it has the probability that the values give it,
    each from its level or `effect` away from it, an outlier as if it lay at the nearer of both.
    """
    first = max(1, len(values) - RECENT)
    moved = np.clip((np.asarray(values[first:]) - level) / effect, 0.0, 1.0)
    evidence = np.cumsum(((moved - 0.5) * (effect / sigma) ** 2)[::-1])[::-1]  # that all from here on have moved
    begun = np.cumsum(np.exp(evidence - evidence.max()))  # by here, but for a factor
    after, bad = np.searchsorted(begun, begun[-1] * np.array([1 - SURE, SURE])).tolist()
    return Change(effect=effect, good=first + after - 1, bad=first + bad)


def look_back(values: Sequence[float]) -> Change | None:
    """Return the newest change of log values, oldest first: a drift up to the newest, else the last step.

    A step is known to within a few values. It lies between the values that far to both sides: a bisection narrows it.
    """
    slow = drift(values)
    if slow.is_drift and slow.ratio is not None and slow.first is not None and slow.last is not None:
        return Change(effect=math.log(slow.ratio), good=slow.first, bad=slow.last)
    points = detector.detect(values)
    if not points:
        return None
    newest, first = points[-1], points[-2].index if len(points) > 1 else 0
    good = max(newest.index - 1 - detector.MARGIN, first)
    bad = min(newest.index + detector.MARGIN, len(values) - 1)
    return Change(effect=newest.after - newest.before, good=good, bad=bad)
