"""Slow drift: many small steps, none of which a detector of steps sees, that add up. Pure.

A straight line through the last points, or those since a place that the caller names (the last release): it counts
where its slope stands against correlated noise, where it is worth a word, and where no single step explains the same
points better. It looks at its window only: a point more costs the same, however many there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints.noise import clipped, correlation, difference_sigma, inflation, least_sigma
from kernel_velocity.stats.changepoints.values import LEAST, Observed, Step, tail, too_few

WINDOW = 60  # points
FEWEST = 20
P = 1e-4


@dataclass(frozen=True, kw_only=True)
class Drift:
    """The line through a window. The effect is the ratio of its end to its beginning."""

    first: int | None  # index in the input of the window's first point; None: there is no point
    last: int | None
    ratio: float | None = None  # None with what follows: too little to say
    low: float | None = None  # 95% interval of the ratio
    high: float | None = None
    p: float | None = None
    stepwise: bool | None = None  # whether one step explains the points better than the line
    warnings: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        """Return whether the level drifted."""
        if self.p is None or self.ratio is None:
            return False
        return self.p < P and abs(math.log(self.ratio)) >= LEAST and not self.stepwise


def drift(values: Sequence[float | None], since: int | None = None) -> Drift:
    """Fit a line to the last WINDOW points of a series of log values, or to those from index `since` on.

    Raises:
        ValueError: a value that is read is infinite, or `since` is no index of the series.
    """
    if since is not None and not 0 <= since < len(values):
        raise ValueError(f"since {since}: wanted an index of a series of {len(values)} values")
    if since is None:
        observed = tail(values, WINDOW)
    else:
        observed = Observed(first=since)
        observed.extend(values[since:])
    if observed.size == 0:
        return Drift(first=None, last=None, warnings=too_few(FEWEST, "a drift", 0))
    first, last = observed.index(0), observed.index(observed.size - 1)
    if observed.size < FEWEST:
        return Drift(first=first, last=last, warnings=too_few(FEWEST, "a drift", observed.size))
    places = np.array([observed.index(place) for place in range(observed.size)], dtype=np.float64)
    logs = clipped(observed.logs, difference_sigma(observed.logs))
    step, line = _line(places, logs)
    low, high = step.interval
    return Drift(
        first=first,
        last=last,
        ratio=math.exp(step.after - step.before),
        low=low,
        high=high,
        p=step.p,
        stepwise=_best_step(logs) < line,
    )


def _line(places: FloatArray, logs: FloatArray) -> tuple[Step, float]:
    """Return the fitted line's two ends as a step, with AR(1) errors, and its squared residuals."""
    x = places - places.mean()
    slope = float(x @ logs) / float(x @ x)
    rest = logs - logs.mean() - slope * x
    squared = float(rest @ rest)
    grown = inflation(correlation(float(rest[1:] @ rest[:-1]), squared, logs.size))
    span = float(places[-1] - places[0])
    variance = max(squared / (logs.size - 2), least_sigma(logs) ** 2) * grown
    middle, half = float(logs.mean()), slope * span / 2
    step = Step.of(
        means=(middle - half, middle + half),
        error=span * math.sqrt(variance / float(x @ x)),
        freedom=max(logs.size / grown - 2, 1.0),
        sizes=(logs.size, logs.size),
    )
    return step, squared


def _best_step(logs: FloatArray) -> float:
    """Return the squared residuals of the one step that explains the points best."""
    sums, squares = np.cumsum(logs - logs[0]), float(((logs - logs[0]) ** 2).sum())
    left = np.arange(1, logs.size)
    explained = sums[:-1] ** 2 / left + (sums[-1] - sums[:-1]) ** 2 / (logs.size - left)
    return squares - float(explained.max())
