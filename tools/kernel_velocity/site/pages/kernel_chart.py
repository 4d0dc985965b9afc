"""What a kernel's chart is made from, and the data file that the page's script reads beside the series' own.

`data/kernel-<kernel>-<Device>` says of every series how its times become what a reader can choose (`kernel_quantities`)
and what is marked on it (`kernel_marks`); `data/error-<16 hex>` holds the errors of one series. Marks name the
commits that they stand at; unknown is left out.

What a kernel's times can be shown as, and how a time becomes it. Pure.

The page's script converts: `amount / time`, `time x amount`, or one series' time over another's. All that is known
of the kernel or of the machine's roofs is in the amounts, which are made here by what the other pages and tables use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from kernel_velocity.harness.cases import dtype_of
from kernel_velocity.results import identity
from kernel_velocity.results.measurement import IntArray, Measurement, Outcome, SeriesKey
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.roofline.model import MEMORY, Roofs, dram_bandwidth, roofline
from kernel_velocity.roofline.roofs import Choice
from kernel_velocity.series.columns import Columns
from kernel_velocity.series.past import Tracked
from kernel_velocity.site import text as pages
from kernel_velocity.site.model import Site
from kernel_velocity.site.outputs import DataFile, series_name
from kernel_velocity.site.pages import kernel_marks, kernel_tables
from kernel_velocity.site.pages.kernel_marks import ChangeMark, FindingMark, LineMark
from kernel_velocity.site.pages.kernel_tables import Figure, Recent
from kernel_velocity.site.text import Place
from kernel_velocity.stats.changepoints.values import ChangePoint

FORMAT = 2  # of both files; it changes when a reader of the old ones would go wrong

GFLOPS, GIGABYTES, TIME = "GFLOPS", "GB/s", "µs"
SPEED_UP, EFFICIENCY, BENEFIT, COLD_HOT, ERROR = "speed-up", "efficiency", "cache benefit", "cold / hot", "error"
# What a page offers, in this order, with the words of its axis.
AXES = {
    GFLOPS: "GFLOPS",
    GIGABYTES: "GB/s",
    TIME: "time of a call, µs",
    SPEED_UP: "times as fast as eager",
    EFFICIENCY: "efficiency, % of the roof",
    BENEFIT: "cache benefit, times as fast as memory alone",
    COLD_HOT: "time with cold caches / with hot ones",
    ERROR: "largest error, absolute or relative (the smaller)",
}
BASELINE = "eager"  # what a speed-up is over


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
                ratios(key, names, benchmarks),
                choices[key.machine, key.environment],
                errors.get((key.machine, key.environment, key.implementation, key.case)),
            )
            for key in keys
        ),
        findings=kernel_marks.findings(found.findings, keys, sessions, found.order, line),
        tags=kernel_marks.tags(found.tags, found.order, line),
        figures=kernel_tables.figures(found.tracked.values(), kernel, found.line),
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
    conversions = {**of_work(own.flop, own.bytes_moved, choice, key.case), **ratios}
    if errors is not None:
        conversions[ERROR] = Conversion(own=_error_name(errors.key))
    return Series(
        key=key,
        name=series_name(key),
        conversions=conversions,
        roof=roof(own.flop, own.bytes_moved, choice.roofs, key.case),
        errors=errors,
    )


def _errors(found: Site, kernel: str, device: str) -> dict[tuple[str, str, str, str], Tracked]:
    """Return the errors of a kernel by machine, environment, implementation and case: of the newest version of each."""
    name = f"{kernel}.{device}.{identity.ERROR}"
    known: dict[tuple[str, str, str, str], Tracked] = {}
    for key, errors in found.tracked.items():
        slot = (key.machine, key.environment, key.implementation, key.case)
        if key.benchmark == name and (slot not in known or errors.place[-1] > known[slot].place[-1]):
            known[slot] = errors
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
        "figures": [kernel_tables.as_data(figure) for figure in made.figures],
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


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """How a time, s per call, becomes a value; one of the first five is set, unknown is None."""

    per: float | None = None  # value = per / time
    times: float | None = None  # value = times x time
    over: str | None = None  # value = time of that series / time
    under: str | None = None  # value = time / time of that series
    own: str | None = None  # the values themselves, a data file
    least: float | None = None  # bounds of the value
    most: float | None = None
    unit: str | None = None  # of the value; None: the quantity's own
    apart: tuple[str, ...] | None = None  # full SHA of the commits that it tells nothing of; None: of all it does

    def as_data(self) -> dict[str, Any]:
        """Return what is set of it, for JSON."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Roof:
    """The least time of a call under the machine's ceilings, and which of them binds."""

    seconds: float
    text: str  # "DRAM, 12.3 GB/s" or "peak float32"


def of_work(flop: float | None, bytes_moved: float | None, choice: Choice, case: str) -> dict[str, Conversion]:
    """Return what the times of a series can be shown as by its work alone, by quantity.

    Args:
        flop: of a call. bytes_moved: of a call, B. choice: of the device. case: the test case, which names the dtype.
    """
    roofs, apart = choice.roofs, tuple(sorted(choice.apart)) or None
    one = _of_a_second(flop, bytes_moved, case)
    found = {GFLOPS: Conversion(per=one.gflops, unit=one.key.rate_unit), GIGABYTES: Conversion(per=one.gigabytes)}
    least = roof(flop, bytes_moved, roofs, case)
    dram = None if roofs is None else dram_bandwidth(roofs)
    if least is not None:
        found[EFFICIENCY] = Conversion(per=100 * least.seconds, most=100, apart=apart)
    if dram is not None and bytes_moved is not None:
        found[BENEFIT] = Conversion(per=bytes_moved / dram, least=1, apart=apart)
    known = {name: item for name, item in found.items() if item.per is not None}
    return known | {TIME: Conversion(times=1e6)}


def _of_a_second(flop: float | None, bytes_moved: float | None, case: str) -> Measurement:
    """Return a call that takes a second: its rates are what a time, s, divides."""
    nowhere = SeriesKey(machine="", environment="", benchmark="", implementation="", case=case, version="")
    return Measurement(
        key=nowhere, commit="", outcome=Outcome.MEASURED, seconds=1.0, flop=flop, bytes_moved=bytes_moved
    )


def roof(flop: float | None, bytes_moved: float | None, roofs: Roofs | None, case: str) -> Roof | None:
    """Return the roof over a test case; None where nothing can be said (`roofline.roofline`)."""
    if roofs is None:
        return None
    dtype = dtype_of(case)
    found = roofline(flops=flop, bytes=bytes_moved, seconds=1.0, roofs=roofs, dtype=dtype)
    if found is None:
        return None
    text = f"peak {dtype}" if found.bound == "compute" else MEMORY
    return Roof(seconds=found.roof_ratio, text=text)


def ratios(own: SeriesKey, names: Mapping[SeriesKey, str], benchmarks: Mapping[str, str]) -> dict[str, Conversion]:
    """Return the ratios to other series of the same machine, environment and test case, by quantity.

    Args:
        own: the series. names: of the data files of all series.
        benchmarks: cache state -> the benchmark of the same kernel and device.
    """
    found = {}
    beside = {
        (key.benchmark, key.implementation): name
        for key, name in names.items()
        if (key.machine, key.environment, key.case) == (own.machine, own.environment, own.case)
    }
    eager = beside.get((own.benchmark, BASELINE))
    if eager is not None and len({name for benchmark, name in beside if benchmark == own.benchmark}) > 1:
        found[SPEED_UP] = Conversion(over=eager)
    cold, hot = (beside.get((benchmarks.get(state, ""), own.implementation)) for state in ("cold", "hot"))
    if cold is not None and hot is not None:
        is_hot = own.benchmark == benchmarks["hot"]
        found[COLD_HOT] = Conversion(over=cold) if is_hot else Conversion(under=hot)
    return found
