"""Find slow drift: many small steps that add up, none of which a detector of steps sees. Pure. Log values.

A straight line is fitted to the last points. It is a drift if its slope is significant against correlated noise, if the
change is 1% or more, and if no single step explains the same points better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints.noise import clipped, correlation, difference_sigma, inflation, least_sigma
from kernel_velocity.stats.changepoints.values import MIN_EFFECT, Step, observed

WINDOW = 60  # points
FEWEST = 20
P = 1e-4


@dataclass(frozen=True, kw_only=True)
class Drift:
    """The line through the last points. None for what too few points cannot tell."""

    first: int | None  # index in the input of the window's first point; None: there is no point
    last: int | None
    ratio: float | None = None  # of the line's end to its beginning
    p: float | None = None
    stepwise: bool | None = None  # whether one step explains the points better than the line

    @property
    def is_drift(self) -> bool:
        """Return whether the level drifted."""
        if self.p is None or self.ratio is None:
            return False
        return self.p < P and abs(math.log(self.ratio)) >= MIN_EFFECT and not self.stepwise


def drift(values: Sequence[float | None]) -> Drift:
    """Fit a line to the last WINDOW points of a series.

    Raises:
        ValueError: a value is infinite.
    """
    logs, indices = observed(values).last(WINDOW)
    if logs.size == 0:
        return Drift(first=None, last=None)
    first, last = int(indices[0]), int(indices[-1])
    if logs.size < FEWEST:
        return Drift(first=first, last=last)
    logs = clipped(logs, difference_sigma(logs))
    step, squared = _line(indices.astype(np.float64), logs)
    stepwise = _best_step(logs) < squared
    return Drift(first=first, last=last, ratio=math.exp(step.after - step.before), p=step.p, stepwise=stepwise)


def _line(positions: FloatArray, logs: FloatArray) -> tuple[Step, float]:
    """Return the fitted line's two ends as a step, with AR(1) errors, and its sum of squared residuals."""
    x = positions - positions.mean()
    slope = float(x @ logs) / float(x @ x)
    rest = logs - logs.mean() - slope * x
    squared = float(rest @ rest)
    inflated = inflation(correlation(float(rest[1:] @ rest[:-1]), squared, logs.size))
    span = float(positions[-1] - positions[0])
    variance = max(squared / (logs.size - 2), float(least_sigma(logs)) ** 2) * inflated
    middle, half = float(logs.mean()), slope * span / 2
    step = Step.of(
        means=(middle - half, middle + half),
        error=span * math.sqrt(variance / float(x @ x)),
        freedom=max(logs.size / inflated - 2, 1.0),
        sizes=(logs.size, logs.size),
    )
    return step, squared


def _best_step(logs: FloatArray) -> float:
    """Return the sum of squared residuals of the one step that explains the points best."""
    sums, squares = np.cumsum(logs - logs[0]), float(((logs - logs[0]) ** 2).sum())
    left = np.arange(1, logs.size)
    explained = sums[:-1] ** 2 / left + (sums[-1] - sums[:-1]) ** 2 / (logs.size - left)
    return squares - float(explained.max())
