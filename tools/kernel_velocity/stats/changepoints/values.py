"""The values that detectors of change points take, and the change points that they return. Pure.

Values are natural logarithms (of adjusted seconds, say), one a commit, oldest first. None and NaN mean missing: they
are skipped. An index counts all values, a place only those that are present.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.stats.two_samples import LEAST_CHANGE

MIN_EFFECT = math.log1p(LEAST_CHANGE)  # of log values: a smaller change is never reported
MIN_SIGMA = 0.001  # a tenth of that: no benchmark repeats better between sessions, whatever a few points say
FEWEST_ALONE = 12  # points with a scatter of their own; the scatter of fewer is pooled, and a level of fewer is young
INTERVAL = 0.975  # quantile of a two-sided 95% interval

Values = Iterable[float | None]


@dataclass(frozen=True, kw_only=True)
class ChangePoint:
    """A step from one level to another. Levels are log values. The effect and its interval are ratios."""

    index: int  # of the first point of the new level, in the input
    before: float
    after: float
    low: float  # 95% interval of the ratio for this place; the search for the place is not accounted for
    high: float
    p: float  # two-sided, of the detector's own test at this place
    is_unsteady: bool = False  # whether the machine makes such steps: the warnings say what was seen
    is_same_code: bool = False  # whether the machine code is the same on both sides
    warnings: tuple[str, ...] = ()

    @property
    def is_blamed(self) -> bool:
        """Whether a commit can have caused the step."""
        return not (self.is_unsteady or self.is_same_code)

    @property
    def has_zero(self) -> bool:
        """Whether one of its levels is 0, which has no logarithm: it is minus infinity, and the ratio tells nothing."""
        return math.isinf(self.before) or math.isinf(self.after)

    @property
    def ratio(self) -> float:
        """Return the new level over the old one, as a ratio of the values behind the logarithms."""
        return math.exp(self.after - self.before)

    @property
    def rises(self) -> bool:
        """Return whether the values went up. Whether that is good, only the metric knows."""
        return self.after > self.before


@dataclass(frozen=True, kw_only=True)
class Step:
    """Two stretches compared, in log values."""

    before: float
    after: float
    sizes: tuple[int, int]
    error: float  # standard error of the difference
    freedom: float  # degrees of freedom of t
    p: float  # two-sided

    @classmethod
    def of(cls, *, means: Sequence[float], error: float, freedom: float, sizes: tuple[int, int]) -> Step:
        """Return the t test of two means, given the standard error of their difference and its degrees of freedom."""
        before, after = means
        p = 2 * float(special.stdtr(freedom, -abs(after - before) / error))
        return cls(before=before, after=after, sizes=sizes, error=error, freedom=freedom, p=p)

    def point(self, index: int) -> ChangePoint:
        """Return the change point at an index of the input."""
        half = float(special.stdtrit(self.freedom, INTERVAL)) * self.error
        # The interval of few points may be wider than floats are.
        low, high = (math.exp(min(self.after - self.before + side, 700.0)) for side in (-half, half))
        return ChangePoint(
            index=index,
            before=self.before,
            after=self.after,
            low=low,
            high=high,
            p=self.p,
        )


Points = tuple[ChangePoint, ...]


class Observed(NamedTuple):
    """The values of a series that are present."""

    logs: FloatArray  # (places,)
    indices: npt.NDArray[np.int64]  # (places,) where each is in the input


def observed(values: Values) -> Observed:
    """Return the values that are present.

    Raises:
        ValueError: a value is infinite, which no logarithm of a measured time is.
    """
    logs = np.asarray(values if isinstance(values, np.ndarray) else list(values), dtype=np.float64)
    infinite = np.flatnonzero(np.isinf(logs))
    if infinite.size:
        raise ValueError(f"value {infinite[0]} is infinite; wanted the log of a positive number, or None")
    indices = np.flatnonzero(~np.isnan(logs))
    return Observed(logs[indices], indices)


def rows_by_size(
    arrays: Sequence[FloatArray], fewest: int, kinds: Iterable[object] = ()
) -> Iterator[tuple[list[int], FloatArray]]:
    """Yield the arrays of each size from `fewest` on: which they are, and their values, (arrays, size).

    Args:
        arrays: (n,) each. fewest: of n. kinds: of each array, where those of another kind are apart.
    """
    numbers = defaultdict[tuple[int, object], list[int]](list)
    for number, (array, kind) in enumerate(zip_longest(arrays, kinds)):
        if array.size >= fewest:
            numbers[array.size, kind].append(number)
    yield from ((some, np.array([arrays[number] for number in some])) for some in numbers.values())


def too_few(wanted: int, what: str, have: int) -> tuple[str, ...]:
    """Return the warning that `what` needs more points. None if there are enough."""
    return () if have >= wanted else (f"need >= {wanted} points for {what}, have {have}",)
