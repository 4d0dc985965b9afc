"""Trends made one measurement at a time: what the columns of the site, made all at once, are held against."""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results import combine, git, reader
from kernel_velocity.results.measurement import (
    OUTCOMES,
    Adjusted,
    Interval,
    Measurement,
    Outcome,
    SeriesKey,
    round_interval,
)
from kernel_velocity.results.records import Benchmark, History, Machine, RecordedRow, ResultsFile
from kernel_velocity.series import change_points, packing
from kernel_velocity.series.changes import telling
from kernel_velocity.series.columns import TIMES, Columns
from kernel_velocity.series.layout import duplicate_note, left_out_notes, unshowable
from kernel_velocity.series.reading import by_cause
from kernel_velocity.site.text import places
from kernel_velocity.stats.adjust_series import TimedSeries, fitted
from kernel_velocity.stats.changepoints import detector


@dataclass(frozen=True, kw_only=True)
class Point:
    """One commit on a trend."""

    measurement: Measurement

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
        """The newest point that is not n/a. The newest where all are."""
        return next((point for point in reversed(self.points) if point.is_applicable), self.points[-1])


def build(measurements: Iterable[Measurement], order: Mapping[str, int]) -> dict[SeriesKey, Trend]:
    """Return the trend of every series.

    Args:
        measurements: of any number of series, in any order, at most one for a series and commit.
        order: commit -> its place in the history, older first. Measurements of other commits are left out.
    """
    grouped: dict[SeriesKey, list[Measurement]] = {}
    for item in measurements:
        if item.commit in order:
            grouped.setdefault(item.key, []).append(item)
    return {
        key: Trend(
            key=key,
            points=tuple(Point(measurement=item) for item in sorted(items, key=lambda item: order[item.commit])),
        )
        for key, items in sorted(grouped.items())
    }


def applicable(trends: Mapping[SeriesKey, Trend]) -> dict[SeriesKey, Trend]:
    """Return the trends without those that were n/a at every commit and say nothing about an implementation.

    asv records a value for every combination of parameters. Test cases of another tier, or of a device that the machine
    lacks, are n/a for every implementation, and so is, for every test case, one that cannot exist on the device.
    """
    applied = {key for key, trend in trends.items() if any(point.is_applicable for point in trend.points)}
    return {key: trends[key] for key in telling(trends, applied)}


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Everything that a results directory says."""

    benchmarks: Mapping[str, Benchmark] | None  # None: benchmarks.json cannot be read
    machines: tuple[Machine, ...]
    files: tuple[ResultsFile, ...]
    notes: tuple[str, ...]


def recorded(results: Path) -> Recorded:
    """Return what `results` holds. What cannot be read is named in the notes.

    Raises:
        ResultsError: `results` is not a directory.
    """
    notes: list[str] = []
    machines, files = [], []
    for folder, paths in reader.folders(results):
        machines.append(reader.read_machine(folder, notes))
        for path in paths:
            if (found := reader.read_file(path, notes)) is not None:
                files.append(found)
                packing.pack(found, packing.Names(), notes)  # which notes telemetry of another run
    benchmarks = reader.read_benchmarks(results / "benchmarks.json", notes) if files else {}
    return Recorded(benchmarks=benchmarks, machines=tuple(machines), files=tuple(files), notes=tuple(by_cause(notes)))


def measurements(recorded: Recorded) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """Return the measurement of every value that can be shown, and a note for each kind that cannot."""
    found: dict[tuple[SeriesKey, str], Measurement] = {}
    rounds: dict[TimedSeries, dict[str, Sequence[Round]]] = {}
    code: dict[TimedSeries, dict[str, str]] = {}
    left_out: Counter[tuple[str, str]] = Counter()
    for file, row, index in _values(recorded.files):
        reason = unshowable(row.benchmark, row.version, recorded.benchmarks)
        item = combine.measurement(file, row, index, recorded.benchmarks or {})
        if reason is None and (item.key, item.commit) in found:
            reason = duplicate_note(item.commit, item.key.machine)
        if reason is None:
            found[item.key, item.commit] = item
            if item.method is not None:
                own = combine.rounds_of(file, item)
                rounds.setdefault((item.key, item.method), {})[item.commit] = own
                known = combine.code_of(file, item.key, own)
                code.setdefault((item.key, item.method), {}).update({} if known is None else {file.commit: known})
        else:
            left_out[row.benchmark, reason] += 1
    for (key, _), series in fitted(rounds, code).items():
        for commit, estimates in series.estimates.items():
            adjusted = replace(fair(estimates), fit=series.fit)
            found[key, commit] = replace(found[key, commit], adjusted=adjusted)
    return tuple(found.values()), left_out_notes(left_out)


def fair(estimates: Sequence[float]) -> Adjusted:
    """Return the adjusted time of a commit from the adjusted estimates of its rounds, s."""
    return Adjusted(seconds=statistics.median(estimates), interval=round_interval(estimates))


def _values(files: Iterable[ResultsFile]) -> Iterator[tuple[ResultsFile, RecordedRow, int]]:
    for file in files:
        for row in file.rows:
            yield from ((file, row, index) for index in range(len(row.pairs)))


@dataclass(frozen=True, kw_only=True)
class Everything:
    """What is recorded, as objects."""

    history: History
    machines: tuple[Machine, ...]
    measurements: tuple[Measurement, ...]  # of commits that the repository has
    trends: Mapping[SeriesKey, Trend]
    problems: tuple[str, ...]  # what could not be read or shown

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
    stored = recorded(tree.results)
    past = git.read(tree.repository, (file.commit for file in stored.files))
    items, notes = measurements(stored)
    shown = tuple(item for item in items if item.commit in past.commits)
    trends = applicable(build(shown, {sha: place for place, sha in enumerate(past.line)}))
    problems = (*stored.notes, *notes)
    return Everything(history=past, machines=stored.machines, measurements=shown, trends=trends, problems=problems)


def columns_of(items: Sequence[Measurement], order: Mapping[str, int]) -> Columns:
    """Return the measurements of one series (>= 1), each of another commit, as columns.

    Args:
        items: in any order. Those of commits beside the first-parent line are left out.
        order: commit -> its place on the first-parent line.
    """
    kept = sorted((item for item in items if item.commit in order), key=lambda item: order[item.commit])
    methods = tuple(dict.fromkeys(item.method for item in kept if item.method is not None))
    rows = [_times(item) for item in kept]
    numbers: dict[str, Any] = {name: np.array([row[name] for row in rows], dtype=np.float64) for name in TIMES}
    return Columns(
        key=items[0].key,
        place=np.array([order[item.commit] for item in kept], dtype=np.int32),
        outcome=np.array([OUTCOMES.index(item.outcome) for item in kept], dtype=np.int32),
        rounds=np.array([-1 if item.rounds is None else item.rounds for item in kept], dtype=np.int32),
        method=np.array([-1 if item.method is None else methods.index(item.method) for item in kept], dtype=np.int32),
        methods=methods,
        interval_methods={i: item.interval.method for i, item in enumerate(kept) if item.interval is not None},
        reasons={i: item.reason for i, item in enumerate(kept) if item.reason is not None},
        warnings={i: item.warnings for i, item in enumerate(kept) if item.warnings},
        flop=items[0].flop,
        bytes_moved=items[0].bytes_moved,
        **numbers,
    )


def _times(item: Measurement) -> dict[str, float]:
    adjusted = item.adjusted
    low, high = _bounds(item.interval)
    adjusted_low, adjusted_high = _bounds(None if adjusted is None else adjusted.interval)
    return {
        "seconds": np.nan if item.seconds is None else item.seconds,
        "low": low,
        "high": high,
        "adjusted": np.nan if adjusted is None else adjusted.seconds,
        "adjusted_low": adjusted_low,
        "adjusted_high": adjusted_high,
    }


def _bounds(interval: Interval | None) -> tuple[float, float]:
    return (np.nan, np.nan) if interval is None else (interval.low, interval.high)


def change_points_of(columns):
    """Return the change points of one series, as `change_points.of_all` does of many."""
    parts = change_points.by_method(change_points.logs(columns)).values()
    return change_points.joined(detector.detect(values) for values in parts)
