"""From measurements to trends: the changes along a series and the averages over test cases.

Pure. A trend's order is the repository's first-parent order; a change is a ratio of speeds, new over old.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kernel_velocity.harness import cases
from kernel_velocity.results.measurement import Interval, Measurement, SeriesKey


@dataclass(frozen=True, kw_only=True)
class Change:
    """A measurement's speed against the one measured before it in the same series."""

    ratio: float  # new rate / old rate: 2.0 is twice as fast
    against: str  # the other commit, full SHA
    overlapping: bool | None  # whether the two intervals overlap; None where one is unknown

    @property
    def is_distinct(self) -> bool:
        """Whether the two intervals are known and apart: a change that noise alone hardly makes."""
        return self.overlapping is False


def compare(new: Measurement, old: Measurement) -> Change | None:
    """Return the change from `old` to `new`; None unless both have a time taken by one and the same method.

    Of the adjusted times where both have one. A method that is unknown (a time without telemetry) is no ground to
    refuse.
    """
    if new.seconds is None or old.seconds is None:
        return None
    if new.method is not None and old.method is not None and new.method != old.method:
        return None
    if new.adjusted is not None and old.adjusted is not None:
        ratio = old.adjusted.seconds / new.adjusted.seconds
        overlapping = _overlap(new.adjusted.interval, old.adjusted.interval)
    else:
        ratio, overlapping = old.seconds / new.seconds, _overlap(new.interval, old.interval)
    return Change(ratio=ratio, against=old.commit, overlapping=overlapping)


def newest_change(new: Measurement, earlier: Iterable[Measurement]) -> Change | None:
    """Return the change against the first of `earlier`, newest first, that can be compared with; None without one."""
    return next((change for old in earlier if (change := compare(new, old)) is not None), None)


def _overlap(new: Interval | None, old: Interval | None) -> bool | None:
    return None if new is None or old is None else new.low <= old.high and old.low <= new.high


def telling(keys: Iterable[SeriesKey], applied: Container[SeriesKey]) -> Iterator[SeriesKey]:
    """Yield the series that say something, where those of `applied` were more than n/a at some commit."""
    every = tuple(keys)
    known = {test_case(key) for key in every if key in applied}
    return (key for key in every if key in applied or (test_case(key) in known and _can_exist(key)))


def _can_exist(key: SeriesKey) -> bool:
    """Return whether an implementation can exist on the device of its series."""
    return key.implementation not in cases.ON_CUDA_ALONE or f".{cases.DEVICES['cuda']}." in key.benchmark


def test_case(key: SeriesKey) -> tuple[str, ...]:
    """Return what the implementations of one test case share."""
    return key.machine, key.environment, key.benchmark, key.case


def mean_change(changes: Sequence[Change]) -> float | None:
    """Return the geometric mean of the speed ratios; None for none.

    Geometric, so that twice as fast on one test case and half as fast on another cancel.
    """
    return None if not changes else math.exp(statistics.fmean(math.log(change.ratio) for change in changes))
