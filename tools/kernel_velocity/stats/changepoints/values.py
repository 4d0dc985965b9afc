"""What every detector of change points takes and returns. Pure; log values in, frozen values out.

Values are natural logarithms (of adjusted seconds, say), one a commit, oldest first; None and NaN are missing: they
are skipped, and every index is one of the input. A detector is fed by `extend`, as often as new points come, and asked
by `detection`; how the points were dealt out makes no difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard

import numpy as np
from scipy import special

from kernel_velocity.harness.statistics import FloatArray

LEAST = math.log1p(0.01)  # a change of less than 1% is not worth a word, as in stats/two_samples.py
LEAST_SIGMA = 0.001  # a tenth of that: no benchmark repeats better between sessions, whatever a few points say
FEWEST_ALONE = 12  # points that have a scatter of their own; that of fewer is pooled, and a level of fewer is young
INTERVAL = 0.975  # quantile of a two-sided 95% interval

Values = Iterable[float | None]


@dataclass(frozen=True, kw_only=True)
class ChangePoint:
    """A step from one level to another. Levels are log values; the effect and its interval are ratios."""

    index: int  # of the first point of the new level, in the input
    before: float
    after: float
    low: float  # 95% interval of the ratio, for this place; that the place was searched for is not in it
    high: float
    p: float  # two-sided, of the detector's own test at this place
    detectors: tuple[str, ...]  # which found it
    warnings: tuple[str, ...] = ()

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
        """Return the t test of two means whose difference has a standard error, with its degrees of freedom."""
        before, after = means
        p = 2 * float(special.stdtr(freedom, -abs(after - before) / error))
        return cls(before=before, after=after, sizes=sizes, error=error, freedom=freedom, p=p)

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 95% interval of the ratio."""
        half = float(special.stdtrit(self.freedom, INTERVAL)) * self.error
        return _exp(self.after - self.before - half), _exp(self.after - self.before + half)


@dataclass(frozen=True, kw_only=True)
class Detection:
    """What a detector found in a series, oldest first, and what it could not look at."""

    points: tuple[ChangePoint, ...]
    warnings: tuple[str, ...] = ()


def _exp(difference: float) -> float:
    return math.exp(min(difference, 700.0))  # an interval of few points may be wider than floats are


class Detector(Protocol):
    """A detector that is fed and asked."""

    def extend(self, values: Values) -> None:
        """Take further points."""

    def detection(self) -> Detection:
        """Return what is found in all points so far."""


class Observed:
    """The points that are there, with their indices in the input; grows in amortised constant time a point."""

    def __init__(self, first: int = 0) -> None:
        """Begin with no point; the next value of the input is the one at index `first`."""
        self._logs = np.empty(64)
        self._indices = np.empty(64, dtype=np.int64)
        self._next = first
        self.size = 0

    @property
    def logs(self) -> FloatArray:
        """Return the (size,) log values; a view."""
        return self._logs[: self.size]

    def index(self, place: int) -> int:
        """Return the index in the input of the point at `place` among those that are there."""
        return int(self._indices[place])

    def place(self, index: int) -> int:
        """Return how many points are there before the one at `index` of the input."""
        return int(np.searchsorted(self._indices[: self.size], index))

    def extend(self, values: Values) -> None:
        """Take further points.

        Raises:
            ValueError: a value is infinite, which no logarithm of a measured time is; nothing of `values` is taken.
        """
        found = as_logs(values)
        indices, is_finite = np.arange(self._next, self._next + found.size), np.isfinite(found)
        if not is_finite.all():
            wrong = indices[np.isinf(found)]
            if wrong.size:
                raise ValueError(f"value {wrong[0]} is infinite; wanted the log of a positive number, or None")
            found, indices = found[is_finite], indices[is_finite]
        end = self.size + found.size
        self._reserve(end)
        self._logs[self.size : end], self._indices[self.size : end] = found, indices
        self.size, self._next = end, self._next + is_finite.size

    def _reserve(self, size: int) -> None:
        if size > self._logs.size:
            capacity = max(size, 2 * self._logs.size)
            self._logs = np.concatenate([self.logs, np.empty(capacity - self.size)])
            rest = np.empty(capacity - self.size, dtype=np.int64)
            self._indices = np.concatenate([self._indices[: self.size], rest])


def as_logs(values: Values) -> FloatArray:
    """Return values as an array, NaN for None; an array as it is."""
    return np.asarray(values if isinstance(values, np.ndarray) else list(values), dtype=np.float64)


def is_there(value: float | None) -> TypeGuard[float]:
    """Return whether there is a value: neither None nor NaN."""
    return value is not None and not math.isnan(value)


def tail(values: Sequence[float | None], count: int) -> Observed:
    """Return the last `count` points that are there, or as many as there are, without reading any before them."""
    begin, have = len(values), 0
    while begin and have < count:
        begin -= 1
        have += is_there(values[begin])
    observed = Observed(first=begin)
    observed.extend(values[begin:])
    return observed


def windows_of(values: FloatArray, size: int, step: int = 1) -> FloatArray:
    """Return all windows of `size` values, each `step` behind the one before: (windows, size), a view.

    As numpy's `sliding_window_view`, which takes longer than most of what is done with the windows.

    Args:
        values: float64, without gaps in memory.
        size: values of a window.
        step: values from one window to the next.
    """
    count, item = (values.size - size) // step + 1, values.itemsize
    return np.ndarray((max(count, 0), size), np.float64, values, 0, (step * item, item))


def found_in(detector: Detector, values: Values) -> Detection:
    """Return what a fresh detector finds in a whole series."""
    detector.extend(values)
    return detector.detection()


def too_few(wanted: int, what: str, have: int) -> tuple[str, ...]:
    """Return the warning that `what` needs more points; none where there are enough."""
    return () if have >= wanted else (f"need >= {wanted} points for {what}, have {have}",)


def point(index: int, step: Step, detector: str) -> ChangePoint:
    """Return a step at a place of the input as a detector's change point."""
    low, high = step.interval
    return ChangePoint(
        index=index,
        before=step.before,
        after=step.after,
        low=low,
        high=high,
        p=step.p,
        detectors=(detector,),
        warnings=too_few(FEWEST_ALONE, "the old level", step.sizes[0])
        + too_few(FEWEST_ALONE, "the new level", step.sizes[1]),
    )
