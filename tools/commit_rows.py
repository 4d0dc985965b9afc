"""What a commit measured: a value for each series, with its changes against three other commits.

Against the commit measured before it, the last tag before it, and the fastest value of the series before it. On the
first-parent line all commits are compared at once (`changes_along`), and a value says of itself only what it is asked
for: a site has millions of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tools import changes_along, trends
from tools.changes_along import NONE, Changes, Truth
from tools.columns import OUTCOMES, Columns, IntArray
from tools.measurements import Measurement, Outcome, SeriesKey
from tools.recorded import Benchmark
from tools.site import Site
from tools.site_files import series_name
from tools.trends import Change

NO_TAG = -1
_MEASURED, _FAILED = (OUTCOMES.index(outcome) for outcome in (Outcome.MEASURED, Outcome.FAILED))


class Value(Protocol):
    """One series at one commit."""

    @property
    def key(self) -> SeriesKey:
        """Its series."""

    @property
    def name(self) -> str:
        """The name of its series' data file."""

    @property
    def outcome(self) -> Outcome:
        """Whether it has a time."""

    @property
    def measurement(self) -> Measurement:
        """All of it."""

    @property
    def before(self) -> Change | None:
        """The change against the commit measured before."""

    @property
    def tag(self) -> Change | None:
        """The change against the last tag before."""

    @property
    def best(self) -> Change | None:
        """The change against the fastest value before."""

    @property
    def is_changed(self) -> bool:
        """Whether its time is distinct from the one before, or there was one and now is none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Along:
    """A series over the first-parent line, with every entry's changes."""

    series: Columns
    name: str  # of its data file
    before: Changes
    tag: Changes
    best: Changes
    changed: Truth


@dataclass(frozen=True, eq=False, slots=True)
class OnLine:
    """A value of a commit on the first-parent line."""

    along: Along
    entry: int
    line: Sequence[str]

    @property
    def key(self) -> SeriesKey:
        """Its series."""
        return self.along.series.key

    @property
    def name(self) -> str:
        """The name of its series' data file."""
        return self.along.name

    @property
    def outcome(self) -> Outcome:
        """Whether it has a time."""
        return OUTCOMES[self.along.series.outcome[self.entry]]

    @property
    def measurement(self) -> Measurement:
        """All of it."""
        return self.along.series.measurement(self.entry, self.line)

    @property
    def before(self) -> Change | None:
        """The change against the commit measured before."""
        return self._change(self.along.before)

    @property
    def tag(self) -> Change | None:
        """The change against the last tag before."""
        return self._change(self.along.tag)

    @property
    def best(self) -> Change | None:
        """The change against the fastest value before."""
        return self._change(self.along.best)

    @property
    def is_changed(self) -> bool:
        """Whether its time is distinct from the one before, or there was one and now is none."""
        return bool(self.along.changed[self.entry])

    def _change(self, changes: Changes) -> Change | None:
        base = changes.base[self.entry]
        if base == NONE:
            return None
        unknown = bool(changes.unknown[self.entry])
        return Change(
            ratio=float(changes.ratio[self.entry]),
            against=self.line[self.along.series.place[base]],
            overlapping=None if unknown else bool(changes.overlapping[self.entry]),
        )


@dataclass(frozen=True, kw_only=True)
class Beside:
    """A value of a commit beside the first-parent line, against what its parent stands on."""

    measurement: Measurement
    name: str
    before: Change | None
    tag: Change | None
    best: Change | None
    had_time: bool  # whether its parent has a time of it

    @property
    def key(self) -> SeriesKey:
        """Its series."""
        return self.measurement.key

    @property
    def outcome(self) -> Outcome:
        """Whether it has a time."""
        return self.measurement.outcome

    @property
    def is_changed(self) -> bool:
        """Whether its time is distinct from its parent's, or that had one and this has none."""
        if self.outcome is Outcome.MEASURED:
            return self.before is not None and self.before.is_distinct
        return self.had_time and (self.outcome is Outcome.FAILED or self.measurement.reason is not None)


def tags_before(found: Site) -> IntArray:
    """Return, for every place of the first-parent line, the place of the newest tag before it; NO_TAG where none is."""
    tagged = sorted(found.order[sha] for sha in found.tags)
    indices = np.searchsorted(tagged, np.arange(len(found.line)), side="left") - 1
    return np.where(indices < 0, NO_TAG, np.array([*tagged, NO_TAG])[indices]).astype(np.int32)


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """Every series with its changes, and which of them have a result at each place of the first-parent line."""

    found: Site
    tags: IntArray  # of `tags_before`
    along: Mapping[SeriesKey, Along]
    series: NDArray[np.int64]  # indices into `along`, those of a place together, in the order of the site's series
    entry: NDArray[np.int64]  # of that series
    first: NDArray[np.int64]  # of `series` and `entry` for each place, and their length

    @classmethod
    def of(cls, found: Site) -> Line:
        """Return the line of a site."""
        tags = tags_before(found)
        along = {key: _along(key, found.series(key), tags) for key in found.keys}
        places = [item.series.place for item in along.values()]
        lengths = [len(each) for each in places]
        every = np.concatenate([*places, np.empty(0, dtype=np.int32)])
        order = np.argsort(every, kind="stable")
        starts = np.concatenate(([0], np.cumsum(lengths)[:-1])) if lengths else np.empty(0)
        series = np.repeat(np.arange(len(lengths)), lengths)
        entry = np.arange(len(every)) - np.repeat(starts, lengths).astype(np.int64)
        first = np.searchsorted(every[order], np.arange(len(found.line) + 1))
        return cls(found=found, tags=tags, along=along, series=series[order], entry=entry[order], first=first)

    def at(self, place: int) -> list[Value]:
        """Return what was measured of the commit at a place, in the order of the site's series."""
        items, line = tuple(self.along.values()), self.found.line
        chosen = slice(self.first[place], self.first[place + 1])
        pairs = zip(self.series[chosen].tolist(), self.entry[chosen].tolist(), strict=True)
        return [OnLine(items[series], entry, line) for series, entry in pairs]

    def beside(self, sha: str) -> list[Value]:
        """Return what was measured of a commit beside the line; tag and best value are those up to its parent."""
        parents = self.found.commits[sha].parents[:1]
        parent = {item.key: item for one in parents for item in self.found.at(one)}
        place = self.found.order.get(parents[0], NO_TAG) if parents else NO_TAG
        tag = place if place == NO_TAG or self.found.line[place] in self.found.tags else int(self.tags[place])
        ranks = {key: rank for rank, key in enumerate(self.found.keys)}
        made: list[Value] = []
        for item in sorted(self.found.at(sha), key=lambda item: ranks.get(item.key, len(ranks))):
            before = parent.get(item.key)
            made.append(
                Beside(
                    measurement=item,
                    name=series_name(item.key),
                    before=None if before is None else trends.compare(item, before),
                    tag=next(self._upto(item, tag), None),
                    best=min(self._upto(item, place), key=lambda change: change.ratio, default=None),
                    had_time=before is not None and before.outcome is Outcome.MEASURED,
                )
            )
        return made

    def _upto(self, item: Measurement, place: int) -> Iterator[Change]:
        """Yield the changes of a measurement against its series' values up to a place, the newest first."""
        if item.key not in self.along:
            return
        series = self.along[item.key].series
        for entry in np.flatnonzero(series.is_measured & (series.place <= place))[::-1]:
            change = trends.compare(item, series.measurement(int(entry), self.found.line))
            if change is not None:
                yield change


def _along(key: SeriesKey, series: Columns, tags: IntArray) -> Along:
    before = changes_along.against(series, changes_along.before(series))
    return Along(
        series=series,
        name=series_name(key),
        before=before,
        tag=changes_along.against(series, changes_along.at_or_before(series, tags[series.place])),
        best=changes_along.against(series, changes_along.best_before(series)),
        changed=before.distinct | _lost(series),
    )


def _lost(series: Columns) -> Truth:
    """Return which entries have no time although the one before has; without a reason, n/a was not asked for."""
    had = np.concatenate(([False], series.is_measured[:-1]))
    told = series.outcome == _FAILED
    told[[entry for entry in series.reasons if series.outcome[entry] != _MEASURED]] = True
    return np.asarray(had & told)


def effect(item: Value) -> float:
    """Return how much a value changed, the logarithm of the ratio without its sign; what is gone changed most."""
    if item.outcome is not Outcome.MEASURED:
        return math.inf if item.is_changed else 0.0
    return 0.0 if item.before is None else abs(math.log(item.before.ratio))


def asked(values: Sequence[Value]) -> list[Value]:
    """Return the values without test cases that were n/a for every implementation: nobody asked for those."""
    known = {_test_case(item) for item in values if item.outcome is not Outcome.NOT_APPLICABLE}
    return [item for item in values if _test_case(item) in known or item.is_changed]


def _test_case(item: Value) -> tuple[str, ...]:
    key = item.key
    return key.machine, key.environment, key.benchmark, key.case


def left_out(values: Sequence[Value], benchmarks: Mapping[str, Benchmark]) -> Iterator[str]:
    """Yield, for each benchmark that has values, the test cases that nobody asked for."""
    shown: dict[str, set[str]] = {}
    for item in values:
        shown.setdefault(item.key.benchmark, set()).add(item.key.case)
    for name, cases in shown.items():
        missing = [case for case in benchmarks[name].cases if case not in cases] if name in benchmarks else []
        if missing:
            yield f"{name}: not measured: {', '.join(missing)}"


def summary(values: Sequence[Value]) -> str:
    """Return how many of some values changed, and which way."""
    changed = [(item.outcome, item.before) for item in values if item.is_changed]
    compared = sum(item.is_changed or item.before is not None for item in values)
    ways = {
        "faster": sum(before is not None and before.ratio > 1 for _, before in changed),
        "slower": sum(before is not None and before.ratio < 1 for _, before in changed),
        "without a time now": sum(outcome is not Outcome.MEASURED for outcome, _ in changed),
    }
    said = ", ".join(f"{number:,} {way}" for way, number in ways.items() if number)
    return f"{len(changed):,} of {compared:,} series changed distinctly{f': {said}' if said else ''}"
