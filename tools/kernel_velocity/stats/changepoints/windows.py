"""Compare two windows side by side: Welch's t of the points behind a place against those before it. Pure.

The rule of Mozilla's Perfherder (12 to 24 points back, 12 ahead) without its linear weights and with its own threshold:
t > 6 and a change of 1%. All places are estimated at once, within rounding, and the exact test is made only of those
that can have the largest t among their neighbours.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints.noise import SAME, least_sigma, plain, t_test
from kernel_velocity.stats.changepoints.values import (
    MIN_EFFECT,
    MIN_SIGMA,
    Observed,
    Points,
    Step,
    Values,
    observed,
    windows_of,
)

NAME = "two-window"
BACK = (12, 24)  # points, fewest and most
AHEAD = 12
T = 6.0


def detect(values: Values) -> Points:
    """Return the change points of a series of log values, oldest first."""
    return search(observed(values))


def search(series: Observed) -> Points:
    """Return the steps that have no stronger one less than AHEAD places away."""
    logs = series.logs
    inexact = inexactness(np.abs(logs).max(initial=0.0))
    places = _candidates(logs)
    estimates = _estimates(logs, places)
    order = np.argsort(-estimates, kind="stable")
    left = [(int(place), t) for place, t in zip(places[order], estimates[order], strict=True) if t > T * (1 - inexact)]
    steps: dict[int, Step] = {}
    while left:
        near = [place for place, t in left if t >= (1 - 2 * inexact) * left[0][1]]  # any may have the largest t
        passing = {place: step for place in near if is_step(step := step_at(logs, place))}
        if passing:
            strongest = min(passing, key=lambda place: (-passing[place].strength, place))
            steps[strongest] = passing[strongest]
            left = [(place, t) for place, t in left if abs(place - strongest) >= AHEAD]
        else:
            left = left[len(near) :]
    return series.points(sorted(steps.items()), NAME)


def step_at(logs: FloatArray, place: int) -> Step:
    """Return the exact test of one place."""
    back, ahead = logs[max(place - BACK[1], 0) : place], logs[place : place + AHEAD]
    least = least_sigma(back, ahead)
    return t_test(plain(back, least), plain(ahead, least))


def is_step(step: Step) -> bool:
    """Return whether a test passes."""
    return step.strength > T and abs(step.after - step.before) >= MIN_EFFECT


def _candidates(logs: FloatArray) -> npt.NDArray[np.int64]:
    """Return the places where the means differ by MIN_EFFECT, and maybe some more.

    The means come from running sums, with a margin for their rounding.
    """
    places: npt.NDArray[np.int64] = np.arange(BACK[0], max(logs.size - AHEAD + 1, BACK[0]))
    if not places.size:
        return places
    sums = np.concatenate(([0.0], np.cumsum(logs - logs[0])))
    since = np.maximum(places - BACK[1], 0)
    back = (sums[places] - sums[since]) / (places - since)
    ahead = (sums[places + AHEAD] - sums[places]) / AHEAD
    rounding = 4 * sums.size * np.finfo(np.float64).eps * (1 + np.abs(sums).max() + np.abs(logs[0]))
    return np.asarray(places[np.abs(ahead - back) >= MIN_EFFECT - rounding])


def _estimates(logs: FloatArray, places: npt.NDArray[np.int64]) -> FloatArray:
    """Return |t| at places, within a share of `inexactness`."""
    padding = BACK[1] - BACK[0]  # for places near the start
    padded = np.concatenate([np.full(padding, math.nan), logs])
    return strengths(windows_of(padded, BACK[1] + AHEAD)[places + padding - BACK[1]])[1]


def strengths(both: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the difference of the means of two windows and |t|, both (w,), within `inexactness`.

    Args:
        both: (w, BACK[1] + AHEAD) log values, NaN before the series' first.
    """
    ordered = np.sort(both, axis=1)  # NaN last
    gaps = ordered[:, 1:] - ordered[:, :-1]
    ticks = np.where(gaps > SAME, gaps, math.inf).min(axis=1) / math.sqrt(12)
    least = np.where(ticks < math.inf, np.maximum(ticks, MIN_SIGMA), MIN_SIGMA)  # as `least_sigma`
    (before, one), (after, other) = _sides(both[:, : BACK[1]], least), _sides(both[:, BACK[1] :], least)
    moved = np.abs(after - before)
    return moved, moved / np.sqrt(one + other)


def _sides(values: FloatArray, least: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the means of (w, n) sides and their squared standard errors, with (w,) `least` as for `plain`."""
    present = ~np.isnan(values)
    sizes = present.sum(axis=1)
    means = np.where(present, values, 0.0).sum(axis=1) / sizes
    rest = np.where(present, values - means[:, None], 0.0)
    squared = np.maximum((rest * rest).sum(axis=1), least * least * (sizes - 1))
    return means, squared / (sizes * (sizes - 1))


def inexactness(largest: FloatArray) -> FloatArray:
    """Return the share of |t| that rounding may take or add in `strengths`, with a wide margin.

    It moves means by some 10 units in the last place of the largest value. Standard deviations are MIN_SIGMA or more.

    Args:
        largest: largest absolute value of the series.
    """
    return 1e-9 + 1000 * (np.finfo(np.float64).eps * largest) / MIN_SIGMA
