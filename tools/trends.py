"""From measurements to trends: the changes along a series and the averages over test cases.

Pure. A trend's order is the repository's first-parent order; a change is a ratio of speeds, new over old.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.harness import cases
from tools.measurements import Interval, Measurement, Outcome, SeriesKey


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


@dataclass(frozen=True, kw_only=True)
class Point:
    """One commit on a trend."""

    measurement: Measurement
    change: Change | None  # None: nothing measured before it that it can be compared with

    @property
    def is_applicable(self) -> bool:
        """Whether there was something to measure: a time, or a failure."""
        return self.measurement.outcome is not Outcome.NOT_APPLICABLE


@dataclass(frozen=True, kw_only=True)
class Trend:
    """A series over the commits that have a result of it, oldest first."""

    key: SeriesKey
    points: tuple[Point, ...]

    @property
    def latest(self) -> Point:
        """The newest point that is not n/a; the newest where all are."""
        return next((point for point in reversed(self.points) if point.is_applicable), self.points[-1])


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


def build(measurements: Iterable[Measurement], order: Mapping[str, int]) -> dict[SeriesKey, Trend]:
    """Return the trend of every series.

    Args:
        measurements: of any number of series, in any order, at most one for a series and commit.
        order: commit -> its place in the history, older first; measurements of other commits are left out.
    """
    grouped: dict[SeriesKey, list[Measurement]] = {}
    for item in measurements:
        if item.commit in order:
            grouped.setdefault(item.key, []).append(item)
    return {
        key: Trend(key=key, points=_points(sorted(items, key=lambda item: order[item.commit])))
        for key, items in sorted(grouped.items())
    }


def _points(ordered: Sequence[Measurement]) -> tuple[Point, ...]:
    return tuple(
        Point(measurement=item, change=newest_change(item, (ordered[at] for at in range(place - 1, -1, -1))))
        for place, item in enumerate(ordered)
    )


def applicable(trends: Mapping[SeriesKey, Trend]) -> dict[SeriesKey, Trend]:
    """Return the trends without those that were n/a at every commit and say nothing about an implementation.

    asv records a value for every combination of parameters. Test cases of another tier, or of a device that the machine
    lacks, are n/a for every implementation; and so is, for every test case, one that cannot exist on the device.
    """
    applied = {key for key, trend in trends.items() if any(point.is_applicable for point in trend.points)}
    return {key: trends[key] for key in telling(trends, applied)}


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
