"""What a commit changed: a row for each series that it measured, with its changes against three other commits.

Against the commit measured before it, the last tag before it, and the fastest value of the series before it. On the
first-parent line all commits are compared at once (`changes_along`): a site has millions of these rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tools import changes_along, trends
from tools.changes_along import NONE, Changes
from tools.columns import OUTCOMES, Columns, IntArray
from tools.measurements import Measurement, Outcome, SeriesKey
from tools.recorded import Benchmark
from tools.site import Site
from tools.site_files import series_name
from tools.trends import Change

NO_TAG = -1
_MEASURED = OUTCOMES.index(Outcome.MEASURED)


@dataclass(frozen=True, kw_only=True)
class Along:
    """A series over the first-parent line, with every entry's changes."""

    series: Columns
    name: str  # of its data file
    before: Changes
    tag: Changes
    best: Changes


@dataclass(frozen=True, kw_only=True)
class Value:
    """One series at one commit."""

    measurement: Measurement
    name: str  # of the series' data file
    before: Change | None
    tag: Change | None
    best: Change | None
    had_time: bool  # whether the newest result before it was a time

    @property
    def place(self) -> tuple[str, str]:
        """The machine and the environment."""
        return self.measurement.key.machine, self.measurement.key.environment

    @property
    def is_changed(self) -> bool:
        """Whether its time is distinct from the one before, or there was one and now is none."""
        if self.measurement.outcome is Outcome.MEASURED:
            return self.before is not None and self.before.is_distinct
        return self.had_time and (
            self.measurement.outcome is Outcome.FAILED or self.measurement.reason is not None
        )  # without a reason it was not asked for

    @property
    def effect(self) -> float:
        """How much it changed, the logarithm of the ratio without its sign; what is gone changed most."""
        if self.measurement.outcome is not Outcome.MEASURED:
            return math.inf if self.had_time else 0.0
        return 0.0 if self.before is None else abs(math.log(self.before.ratio))


def tags_before(found: Site) -> IntArray:
    """Return, for every place of the first-parent line, the place of the newest tag before it; NO_TAG where none is."""
    tagged = sorted(found.order[sha] for sha in found.tags)
    places = np.arange(len(found.line))
    indices = np.searchsorted(tagged, places, side="left") - 1
    return np.where(indices < 0, NO_TAG, np.array([*tagged, NO_TAG])[indices]).astype(np.int32)


def along(found: Site, tags: IntArray) -> dict[SeriesKey, Along]:
    """Return every series with its changes; `tags` are those of `tags_before`."""
    return {key: _along(key, found.series(key), tags) for key in found.keys}


def _along(key: SeriesKey, series: Columns, tags: IntArray) -> Along:
    return Along(
        series=series,
        name=series_name(key),
        before=changes_along.against(series, changes_along.before(series)),
        tag=changes_along.against(series, changes_along.at_or_before(series, tags[series.place])),
        best=changes_along.against(series, changes_along.best_before(series)),
    )


def on_line(found: Site, place: int, every: Mapping[SeriesKey, Along]) -> list[Value]:
    """Return what was measured of the commit at a place of the line, in the order of the site's series."""
    made = []
    for item in every.values():
        entry = item.series.entry(place)
        if entry is not None:
            made.append(_value(found.line, item, entry))
    return made


def _value(line: Sequence[str], item: Along, entry: int) -> Value:
    series = item.series
    return Value(
        measurement=series.measurement(entry, line),
        name=item.name,
        before=_change(line, item.before, series, entry),
        tag=_change(line, item.tag, series, entry),
        best=_change(line, item.best, series, entry),
        had_time=entry > 0 and series.outcome[entry - 1] == _MEASURED,
    )


def _change(line: Sequence[str], changes: Changes, series: Columns, entry: int) -> Change | None:
    base = changes.base[entry]
    if base == NONE:
        return None
    unknown = bool(changes.unknown[entry])
    return Change(
        ratio=float(changes.ratio[entry]),
        against=line[series.place[base]],
        overlapping=None if unknown else bool(changes.overlapping[entry]),
    )


def beside(found: Site, sha: str, tags: IntArray, every: Mapping[SeriesKey, Along]) -> list[Value]:
    """Return what was measured of a commit beside the first-parent line, against what its parent stands on.

    The tag and the best value are those up to its parent, where that is on the line.
    """
    parents = found.commits[sha].parents[:1]
    parent = {item.key: item for one in parents for item in found.at(one)}
    place = found.order.get(parents[0], NO_TAG) if parents else NO_TAG
    tag = place if place == NO_TAG or found.line[place] in found.tags else int(tags[place])
    ranks = {key: rank for rank, key in enumerate(found.keys)}
    made = []
    for item in sorted(found.at(sha), key=lambda item: ranks.get(item.key, len(ranks))):
        series = every[item.key].series if item.key in every else None
        before = parent.get(item.key)
        made.append(
            Value(
                measurement=item,
                name=series_name(item.key),
                before=None if before is None else trends.compare(item, before),
                tag=next(iter(_upto(found, item, series, tag)), None),
                best=min(_upto(found, item, series, place), key=lambda change: change.ratio, default=None),
                had_time=before is not None and before.outcome is Outcome.MEASURED,
            )
        )
    return made


def _upto(found: Site, item: Measurement, series: Columns | None, place: int) -> list[Change]:
    """Return the changes of a measurement against a series' values up to a place of the line, the newest first."""
    if series is None:
        return []
    entries = np.flatnonzero(series.is_measured & (series.place <= place))[::-1]
    changes = (trends.compare(item, series.measurement(int(entry), found.line)) for entry in entries)
    return [change for change in changes if change is not None]


def asked(values: Sequence[Value]) -> list[Value]:
    """Return the values without test cases that were n/a for every implementation: nobody asked for those."""
    known = {_test_case(item) for item in values if item.measurement.outcome is not Outcome.NOT_APPLICABLE}
    return [item for item in values if _test_case(item) in known or item.is_changed]


def left_out(values: Sequence[Value], benchmarks: Mapping[str, Benchmark]) -> Iterator[str]:
    """Yield, for each benchmark that has values, the test cases that nobody asked for."""
    shown: dict[str, set[str]] = {}
    for item in values:
        shown.setdefault(item.measurement.key.benchmark, set()).add(item.measurement.key.case)
    for name, cases in shown.items():
        missing = [case for case in benchmarks[name].cases if case not in cases] if name in benchmarks else []
        if missing:
            yield f"{name}: not measured: {', '.join(missing)}"


def _test_case(item: Value) -> tuple[str, ...]:
    key = item.measurement.key
    return key.machine, key.environment, key.benchmark, key.case


def summary(values: Sequence[Value]) -> str:
    """Return how many of some values changed, and which way."""
    changed = [item for item in values if item.is_changed]
    compared = sum(item.before is not None or item.is_changed for item in values)
    ways = {
        "faster": sum(item.before is not None and item.before.ratio > 1 for item in changed),
        "slower": sum(item.before is not None and item.before.ratio < 1 for item in changed),
        "without a time now": sum(item.measurement.outcome is not Outcome.MEASURED for item in changed),
    }
    said = ", ".join(f"{number:,} {way}" for way, number in ways.items() if number)
    return f"{len(changed):,} of {compared:,} series changed distinctly{f': {said}' if said else ''}"
