"""What a kernel's chart is made from, and the data file that the page's script reads beside the series' own.

`data/kernel-<kernel>-<Device>` says of every series how its times become what a reader can choose (`kernel_quantities`)
and what is marked on it (`kernel_marks`); `data/error-<16 hex>` holds the errors of one series. Marks name the
commits that they stand at; unknown is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from kernel_velocity.results.measurement import IntArray, SeriesKey
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.roofline.roof_choice import Choice
from kernel_velocity.series import tracked as tracked_series
from kernel_velocity.series.columns import Columns
from kernel_velocity.series.tracked import Tracked
from kernel_velocity.site import text as pages
from kernel_velocity.site.model import Site
from kernel_velocity.site.outputs import DataFile, series_name
from kernel_velocity.site.pages import kernel_figures, kernel_marks, kernel_quantities, kernel_tables
from kernel_velocity.site.pages.kernel_figures import Figure
from kernel_velocity.site.pages.kernel_marks import ChangeMark, FindingMark, LineMark
from kernel_velocity.site.pages.kernel_quantities import ERROR, Conversion, Roof
from kernel_velocity.site.pages.kernel_tables import Recent
from kernel_velocity.site.text import Place
from kernel_velocity.stats.changepoints.values import ChangePoint

FORMAT = 2  # of both files; it changes when a reader of the old ones would go wrong


@dataclass(frozen=True, kw_only=True)
class Group:
    """The series of one machine, environment and cache state."""

    place: Place
    benchmark: str
    state: str
    columns: Mapping[SeriesKey, Columns]
    shown: IntArray  # places on the line of the commits that have more than n/a, ascending
    since: int  # the oldest place that the tables show
    environment: tuple[LineMark, ...]  # what changed of the machine

    @property
    def anchor(self) -> str:
        """Of its part of the page."""
        return f"{self.place.anchor}-{self.state}"

    @cached_property
    def recent(self) -> Mapping[SeriesKey, Recent]:
        """The newest results of each series."""
        return dict(zip(self.columns, kernel_tables.recent_of(list(self.columns.values()), self.since), strict=True))


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line that the chart can show."""

    key: SeriesKey
    name: str  # of its data file
    conversions: Mapping[str, Conversion]  # by quantity
    roof: Roof | None
    errors: Tracked | None


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Everything that a kernel's page on a device shows; what takes time is made when it is asked for."""

    kernel: str
    device: str
    line: Sequence[str]  # the first-parent line
    change_points: Callable[[Sequence[SeriesKey]], Mapping[SeriesKey, Sequence[ChangePoint]]]
    columns: Mapping[SeriesKey, Columns]
    groups: tuple[Group, ...]
    series: tuple[Series, ...]
    findings: tuple[FindingMark, ...]
    tags: tuple[LineMark, ...]
    warnings: Mapping[Place, tuple[str, ...]]  # of the roofs
    figures: tuple[Figure, ...]  # of the compiled code

    @property
    def name(self) -> str:
        """The name of its data file."""
        return f"kernel-{self.kernel}-{self.device}"

    @property
    def implementations(self) -> tuple[str, ...]:
        """In the order of the axis."""
        return tuple(dict.fromkeys(key.implementation for key in self.columns))

    @cached_property
    def changes(self) -> Mapping[SeriesKey, tuple[ChangeMark, ...]]:
        """The change points of each series."""
        points = self.change_points([*self.columns])
        return {key: kernel_marks.changes(item, points[key], self.line) for key, item in self.columns.items()}


def chart(found: Site, kernel: str, device: str, keys: Sequence[SeriesKey]) -> Chart:
    """Return what the page of a kernel on a device shows; `keys` are its series."""
    columns = {key: found.series(key) for key in keys}
    here = {(key.machine, key.environment) for key in keys}
    places = [place for place in found.places if (place.machine, place.environment) in here]
    choices = {(place.machine, place.environment): found.roof_choice(place, device) for place in places}
    line = kernel_marks.measured_line(found.measured, found.order)
    errors = _errors(found, kernel, device)
    sessions = {(place.machine, place.environment): found.sessions(place) for place in places}
    names = {key: series_name(key) for key, item in columns.items() if item.is_measured.any()}
    benchmarks = {pages.parts(key.benchmark)[2]: key.benchmark for key in keys}
    return Chart(
        kernel=kernel,
        device=device,
        line=found.line,
        change_points=found.change_points,
        columns=columns,
        groups=tuple(_groups(found, places, columns, sessions)),
        series=tuple(
            _series(
                found,
                key,
                kernel_quantities.ratios(key, names, benchmarks),
                choices[key.machine, key.environment],
                errors.get((key.machine, key.environment, key.implementation, key.case)),
            )
            for key in keys
        ),
        findings=kernel_marks.findings(found.findings, keys, sessions, found.order, line),
        tags=kernel_marks.tags(found.tags, found.order, line),
        figures=kernel_figures.figures(map(found.tracked, found.tracked_keys), kernel, found.line),
        warnings={
            place: known.warnings
            for place in places
            if (known := choices[place.machine, place.environment].roofs) is not None and known.warnings
        },
    )


def _groups(
    found: Site,
    places: Sequence[Place],
    columns: Mapping[SeriesKey, Columns],
    sessions: Mapping[tuple[str, str], Sequence[tuple[str, SessionFacts]]],
) -> Iterator[Group]:
    count = kernel_tables.limit(tables(columns))
    for place in places:
        environment = kernel_marks.environment(sessions[place.machine, place.environment], found.order)
        for benchmark in dict.fromkeys(key.benchmark for key in columns):
            here = (place.machine, place.environment, benchmark)
            own = {key: item for key, item in columns.items() if (key.machine, key.environment, key.benchmark) == here}
            shown = kernel_tables.asked(tuple(own.values()))
            if shown.size:
                yield Group(
                    place=place,
                    benchmark=benchmark,
                    state=pages.parts(benchmark)[2],
                    columns=own,
                    shown=shown,
                    since=int(shown[-count:][0]),
                    environment=environment,
                )


def tables(keys: Iterable[SeriesKey]) -> int:
    """Return how many tables a page of these series has: one for each machine, environment, cache state and case."""
    return len({(key.machine, key.environment, key.benchmark, key.case) for key in keys})


def _series(
    found: Site,
    key: SeriesKey,
    ratios: Mapping[str, Conversion],
    choice: Choice,
    errors: Tracked | None,
) -> Series:
    own = found.series(key)
    conversions = {**kernel_quantities.of_work(own.flop, own.bytes_moved, choice, key.case), **ratios}
    if errors is not None:
        conversions[ERROR] = Conversion(own=_error_name(errors.key))
    return Series(
        key=key,
        name=series_name(key),
        conversions=conversions,
        roof=kernel_quantities.roof(own.flop, own.bytes_moved, choice.roofs, key.case),
        errors=errors,
    )


def _errors(found: Site, kernel: str, device: str) -> dict[tuple[str, str, str, str], Tracked]:
    """Return the errors of a kernel by machine, environment, implementation and case: of the newest version of each."""
    name = f"{kernel}.{device}.{tracked_series.ERROR}"
    known: dict[tuple[str, str, str, str], Tracked] = {}
    for key in found.tracked_keys:
        if key.benchmark != name:
            continue
        own, slot = found.tracked(key), (key.machine, key.environment, key.implementation, key.case)
        if slot not in known or own.place[-1] > known[slot].place[-1]:
            known[slot] = own
    return known


def _error_name(key: SeriesKey) -> str:
    return series_name(key).replace("series-", "error-", 1)


def inputs(found: Site, made: Chart) -> str:
    """Return what a chart and the tables behind it are made from: equal texts, equal pages."""
    groups = [(group.place, group.benchmark, group.environment) for group in made.groups]
    series = [(item.key, found.digest(item.key), item.conversions, item.roof) for item in made.series]
    return repr((groups, series, made.findings, made.tags, sorted(made.warnings.items(), key=repr), made.figures))


def files(made: Chart, inputs: str) -> Iterator[DataFile]:
    """Yield the data files of a chart, whose own is made from these inputs."""
    yield DataFile(name=made.name, value=partial(as_data, made), inputs=inputs)
    for errors in {_error_name(item.errors.key): item.errors for item in made.series if item.errors}.values():
        value = {
            "format": FORMAT,
            "commit": [made.line[place] for place in errors.place],
            "value": errors.value.tolist(),
        }
        yield DataFile(name=_error_name(errors.key), value=value)


def as_data(made: Chart) -> dict[str, Any]:
    """Return the data file of a chart."""
    return {
        "format": FORMAT,
        "kernel": made.kernel,
        "device": made.device,
        "groups": [
            {
                "anchor": group.anchor,
                "machine": group.place.machine,
                "environment": group.place.environment,
                "state": group.state,
                "events": [_line_mark(mark) for mark in group.environment],
            }
            for group in made.groups
        ],
        "series": [_series_data(item, made.changes[item.key]) for item in made.series],
        "tags": [_line_mark(mark) for mark in made.tags],
        "findings": [_finding_data(mark) for mark in made.findings],
        "figures": [kernel_figures.as_data(figure) for figure in made.figures],
    }


def _line_mark(mark: LineMark) -> dict[str, Any]:
    return {"commit": mark.commit, "kind": mark.kind, "label": mark.label, "text": mark.text}


def _series_data(item: Series, changes: Sequence[ChangeMark]) -> dict[str, Any]:
    return {
        "name": item.name,
        "machine": item.key.machine,
        "environment": item.key.environment,
        "state": pages.parts(item.key.benchmark)[2],
        "case": item.key.case,
        "implementation": item.key.implementation,
        "quantities": {name: conversion.as_data() for name, conversion in item.conversions.items()},
        "roof": None if item.roof is None else {"seconds": item.roof.seconds, "text": item.roof.text},
        "changes": [
            {"commit": mark.commit, "text": mark.text, "faster": mark.faster, "detail": mark.detail} for mark in changes
        ],
    }


def _finding_data(mark: FindingMark) -> dict[str, Any]:
    return {
        "commit": mark.commit,
        "id": mark.id,
        "kind": mark.kind,
        "state": mark.state,
        "open": mark.is_open,
        "text": mark.text,
        "page": mark.href,
        "series": [series_name(key) for key in mark.series],
    }


def total(made: Chart, group: Group, case: str) -> int:
    """Return how many of a group's commits have a result of a test case."""
    has_one = np.zeros(len(made.line), np.bool_)
    for key, item in group.columns.items():
        if key.case == case:
            has_one[item.place] = True
    return int(np.count_nonzero(has_one[group.shown]))
