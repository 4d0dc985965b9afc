"""Trends made one measurement at a time: what the columns of the site, made all at once, are held against."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernel_velocity.results import git, reader
from kernel_velocity.results.measurement import Measurement, Outcome, SeriesKey
from kernel_velocity.results.records import History, Machine
from kernel_velocity.series import measured
from kernel_velocity.series.changes import Change, newest_change, telling
from kernel_velocity.site.text import places


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


@dataclass(frozen=True, kw_only=True)
class Everything:
    """What is recorded, as objects."""

    history: History
    machines: tuple[Machine, ...]
    measurements: tuple[Measurement, ...]  # of commits that the repository has
    trends: Mapping[SeriesKey, Trend]
    notes: tuple[str, ...]

    @property
    def places(self):
        """The machines and environments that have measurements."""
        return places(self.machines, {(item.key.machine, item.key.environment) for item in self.measurements})

    @property
    def points(self):
        """The points of all trends by series and commit."""
        return {(key, point.measurement.commit): point for key, trend in self.trends.items() for point in trend.points}


def everything(tree):
    """Return what is recorded in a tree."""
    stored = reader.read(tree.results)
    past = git.read(tree.repository, (file.commit for file in stored.files))
    items, notes = measured.read(tree.results, tree.repository)
    trends = applicable(build(items, {sha: place for place, sha in enumerate(past.line)}))
    return Everything(history=past, machines=stored.machines, measurements=items, trends=trends, notes=notes)
