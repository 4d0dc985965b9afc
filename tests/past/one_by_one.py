"""Trends made one measurement at a time: what the columns of the site, made all at once, are held against."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kernel_velocity.engine.telemetry import Round
from kernel_velocity.past import packing
from kernel_velocity.past.columns import TIMES, Columns, telling
from kernel_velocity.past.layout import duplicate_note, left_out_notes, unshowable
from kernel_velocity.past.reading import by_cause
from kernel_velocity.results import git, identity, reader
from kernel_velocity.results.measurement import (
    OUTCOMES,
    Adjusted,
    Interval,
    Measurement,
    Outcome,
    SeriesKey,
    round_interval,
)
from kernel_velocity.results.records import Benchmark, Machine, ResultsFile
from kernel_velocity.site.text import platforms
from kernel_velocity.stats.adjust_series import TimedSeries, fitted
from kernel_velocity.stats.changepoints import search
from kernel_velocity.verdict import change_points


def is_applicable(value: Measurement) -> bool:
    """Return whether there was something to measure: a time, or a failure."""
    return value.outcome is not Outcome.NOT_APPLICABLE


def build(measurements: Iterable[Measurement], order: Mapping[str, int]) -> dict[SeriesKey, list[Measurement]]:
    """Return the trend of every series: its measurements, oldest first.

    Args:
        measurements: of any number of series, in any order, at most one for a series and commit.
        order: commit -> its place in the history, older first. Measurements of other commits are left out.
    """
    grouped: dict[SeriesKey, list[Measurement]] = {}
    for value in measurements:
        if value.commit in order:
            grouped.setdefault(value.key, []).append(value)
    return {key: sorted(values, key=lambda value: order[value.commit]) for key, values in sorted(grouped.items())}


def applicable(trends: Mapping[SeriesKey, list[Measurement]]) -> dict[SeriesKey, list[Measurement]]:
    """Return the trends without those that were n/a at every commit and say nothing about an implementation.

    asv records a value for every combination of parameters. Test cases of another tier, or of a device that the machine
    lacks, are n/a for every implementation, and so is, for every test case, one that cannot exist on the device.
    """
    applied = {key for key, trend in trends.items() if any(is_applicable(value) for value in trend)}
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
            if (file := reader.read_file(path, notes)) is not None:
                files.append(file)
    benchmarks = reader.read_benchmarks(results / "benchmarks.json", notes) if files else {}
    return Recorded(benchmarks=benchmarks, machines=tuple(machines), files=tuple(files), notes=tuple(by_cause(notes)))


def measurements(recorded: Recorded) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """Return the measurement of every value that can be shown, and a note for each kind that cannot."""
    merged: dict[tuple[SeriesKey, str], Measurement] = {}
    rounds: dict[TimedSeries, dict[str, Sequence[Round]]] = {}
    code: dict[TimedSeries, dict[str, str]] = {}
    left_out: Counter[tuple[str, str]] = Counter()
    values = ((file, at, *series) for file in recorded.files for at, series in enumerate(file.series()))
    for file, at, row, pair in values:
        reason = unshowable(row.benchmark, row.version, recorded.benchmarks)
        value, counted = packing.measured(file, at, row, pair)
        value = described(value, (recorded.benchmarks or {}).get(row.benchmark))
        if reason is None and (value.key, value.commit) in merged:
            reason = duplicate_note(value.commit, value.key.machine)
        if reason is None:
            merged[value.key, value.commit] = value
            if value.method is not None:
                rounds.setdefault((value.key, value.method), {})[value.commit] = counted
                digest = packing.code_of(file, value.key, counted)
                code.setdefault((value.key, value.method), {}).update({} if digest is None else {file.commit: digest})
        else:
            left_out[row.benchmark, reason] += 1
    for (key, _), series in fitted(rounds, code).items():
        for commit, estimates in series.estimates.items():
            adjusted = replace(fair(estimates), fit=series.fit)
            merged[key, commit] = replace(merged[key, commit], adjusted=adjusted)
    return tuple(merged.values()), left_out_notes(left_out)


def described(value: Measurement, benchmark: Benchmark | None) -> Measurement:
    """Return a measurement with what benchmarks.json says of its benchmark."""
    if benchmark is None:
        return replace(value, unit=identity.unit(value.key.benchmark))
    return replace(
        value,
        key=replace(value.key, version=value.key.version or benchmark.version),
        flop=benchmark.flop.get(value.key.case),
        bytes_moved=benchmark.bytes_moved.get(value.key.case),
        unit=benchmark.unit,
    )


def fair(estimates: Sequence[float]) -> Adjusted:
    """Return the adjusted time of a commit from the adjusted estimates of its rounds, s."""
    return Adjusted(seconds=statistics.median(estimates), interval=round_interval(estimates))


@dataclass(frozen=True, kw_only=True)
class Everything:
    """What is recorded, as objects."""

    machines: tuple[Machine, ...]
    measurements: tuple[Measurement, ...]  # of commits that the repository has
    trends: Mapping[SeriesKey, list[Measurement]]
    problems: tuple[str, ...]  # what could not be read or shown

    @property
    def platforms(self):
        """The machines and environments that have measurements."""
        return platforms(self.machines, {(value.key.machine, value.key.environment) for value in self.measurements})


def everything(tree):
    """Return what is recorded in a tree."""
    stored = recorded(tree.results)
    past = git.read(tree.repository, (file.commit for file in stored.files))
    values, notes = measurements(stored)
    shown = tuple(value for value in values if value.commit in past.commits)
    trends = applicable(build(shown, {sha: position for position, sha in enumerate(past.line)}))
    problems = (*stored.notes, *notes)
    return Everything(machines=stored.machines, measurements=shown, trends=trends, problems=problems)


def columns_of(values: Sequence[Measurement], order: Mapping[str, int]) -> Columns:
    """Return the measurements of one series (>= 1), each of another commit, as columns.

    Args:
        items: in any order. Those of commits beside the first-parent line are left out.
        order: commit -> its place on the first-parent line.
    """
    ordered = sorted((value for value in values if value.commit in order), key=lambda value: order[value.commit])
    methods = tuple(dict.fromkeys(value.method for value in ordered if value.method is not None))
    rows = [_times(value) for value in ordered]
    numbers: dict[str, Any] = {name: np.array([row[name] for row in rows], dtype=np.float64) for name in TIMES}
    return Columns(
        key=values[0].key,
        position=np.array([order[value.commit] for value in ordered], dtype=np.int32),
        outcome=np.array([OUTCOMES.index(value.outcome) for value in ordered], dtype=np.int32),
        rounds=np.array([-1 if value.rounds is None else value.rounds for value in ordered], dtype=np.int32),
        method=np.array(
            [-1 if value.method is None else methods.index(value.method) for value in ordered], dtype=np.int32
        ),
        methods=methods,
        interval_methods={i: value.interval.method for i, value in enumerate(ordered) if value.interval is not None},
        reasons={i: value.reason for i, value in enumerate(ordered) if value.reason is not None},
        warnings={i: value.warnings for i, value in enumerate(ordered) if value.warnings},
        flop=values[0].flop,
        bytes_moved=values[0].bytes_moved,
        **numbers,
    )


def _times(value: Measurement) -> dict[str, float]:
    adjusted = value.adjusted
    low, high = _bounds(value.interval)
    adjusted_low, adjusted_high = _bounds(None if adjusted is None else adjusted.interval)
    return {
        "seconds": np.nan if value.seconds is None else value.seconds,
        "low": low,
        "high": high,
        "adjusted": np.nan if adjusted is None else adjusted.seconds,
        "adjusted_low": adjusted_low,
        "adjusted_high": adjusted_high,
    }


def _bounds(interval: Interval | None) -> tuple[float, float]:
    return (np.nan, np.nan) if interval is None else (interval.low, interval.high)


def change_points_of(columns):
    """Return the change points of one series."""
    return settled_of(columns).points


def settled_of(columns):
    """Return what the detector sees in one series, as `change_points.of_all` does of many."""
    parts = change_points.by_method(change_points.logs(columns)).values()
    return change_points.joined([search.detect_many([values], [None])[0] for values in parts])
