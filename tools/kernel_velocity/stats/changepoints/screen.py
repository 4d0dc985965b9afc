"""Screen the newest point of a series: does it look unlike those before it? Pure. Log values.

The screen is cheap and sensitive, and only calls for a second look. It reads the last 43 points that are present.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernel_velocity.stats.changepoints.noise import difference_sigma, iqr_sigma
from kernel_velocity.stats.changepoints.values import observed

REFERENCE = 40  # points before the newest ones
NEWEST = 3
FEWEST = 10  # points of a reference: the quartiles of fewer mean little
Z1 = 3.0  # sigmas of the newest point
Z3 = 2.5  # sigmas of the median of the newest three


@dataclass(frozen=True, kw_only=True)
class Screening:
    """The screen of the last point. All are None if it is missing, or has too few points before it."""

    level: float | None = None  # of the reference, log
    sigma: float | None = None  # of the reference
    z1: float | None = None  # sigmas of the last point from the level
    z3: float | None = None  # sigmas of the median of the last three

    @property
    def alarm(self) -> bool:
        """Return whether the point calls for a second look."""
        return self.z1 is not None and self.z3 is not None and (abs(self.z1) > Z1 or abs(self.z3) > Z3)

    @property
    def rises(self) -> bool | None:
        """Return whether the alarm is of values that went up. None without an alarm."""
        if not self.alarm or self.z1 is None or self.z3 is None:
            return None
        return (self.z1 if abs(self.z1) / Z1 > abs(self.z3) / Z3 else self.z3) > 0


def screen(values: Sequence[float | None]) -> Screening:
    """Compare the last point of a series, and the median of the last three, with the 40 points before them.

    Raises:
        ValueError: a value is infinite.
    """
    logs, indices = observed(values).last(REFERENCE + NEWEST)
    reference, newest = logs[:-NEWEST], logs[-NEWEST:]
    if reference.size < FEWEST or indices[-1] != len(values) - 1:
        return Screening()
    level, sigma = float(np.median(reference)), max(iqr_sigma(reference), difference_sigma(reference))
    z1, z3 = float(newest[-1] - level) / sigma, float(np.median(newest) - level) / sigma
    return Screening(level=level, sigma=sigma, z1=z1, z3=z3)
