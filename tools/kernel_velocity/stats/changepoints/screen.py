"""The screen: does the newest point look unlike those before it? Cheap and sensitive: it asks for a second look. Pure.

It reads the last 43 points, so a point more costs the same, however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernel_velocity.stats.changepoints.noise import difference_sigma, iqr_sigma
from kernel_velocity.stats.changepoints.values import is_there, tail, too_few

REFERENCE = 40  # points before the newest ones
NEWEST = 3
FEWEST = 10  # points of a reference: their quartiles are hardly worth the name
Z1 = 3.0  # sigmas of the newest point
Z3 = 2.5  # sigmas of the median of the newest three


@dataclass(frozen=True, kw_only=True)
class Screening:
    """What the screen says of the last point of a series. Levels are log values, z in standard deviations."""

    index: int | None  # of the last point in the input; None: it is missing
    level: float | None = None  # of the reference; None with z1 and z3: too little to say
    sigma: float | None = None
    z1: float | None = None
    z3: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def alarm(self) -> bool:
        """Return whether the point wants a second look."""
        return self.z1 is not None and self.z3 is not None and (abs(self.z1) > Z1 or abs(self.z3) > Z3)

    @property
    def rises(self) -> bool | None:
        """Return whether the alarm is of values that went up; None without an alarm."""
        if not self.alarm or self.z1 is None or self.z3 is None:
            return None
        return (self.z1 if abs(self.z1) / Z1 > abs(self.z3) / Z3 else self.z3) > 0


def screen(values: Sequence[float | None]) -> Screening:
    """Hold the last point of a series of log values, and the median of the last three, against the 40 before them.

    Raises:
        ValueError: a value that is read is infinite.
    """
    if not values or not is_there(values[-1]):
        return Screening(index=None, warnings=("no value at the last point",))
    last, observed = len(values) - 1, tail(values, REFERENCE + NEWEST)
    reference, newest = observed.logs[:-NEWEST], observed.logs[-NEWEST:]
    if reference.size < FEWEST:
        return Screening(index=last, warnings=too_few(FEWEST + NEWEST, "the screen", observed.size))
    level, sigma = float(np.median(reference)), max(iqr_sigma(reference), difference_sigma(reference))
    return Screening(
        index=last,
        level=level,
        sigma=sigma,
        z1=float(newest[-1] - level) / sigma,
        z3=float(np.median(newest) - level) / sigma,
        warnings=too_few(REFERENCE + NEWEST, "a full reference", observed.size),
    )
