"""What a commit's page knows of all series at one commit, as columns, and what is said of several together. Pure.

A site has millions of these values, and its pages show a few of each commit: no value is an object of its own.

Commits beside the first-parent line against others: few values, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results.measurement import OUTCOMES, IntArray, Measurement, Outcome, SeriesKey
from kernel_velocity.results.records import Benchmark
from kernel_velocity.series import changes as trends
from kernel_velocity.series.changes import NONE, Change, Truth
from kernel_velocity.site.model import Site

OVERLAPPING, APART, UNKNOWN = 0, 1, 2  # of two intervals
NO_TAG = -1  # the place of no commit on the first-parent line
FIGURES = ("seconds", "low", "high", "adjusted")  # columns of `Values.figures`
MEASURED, NOT_APPLICABLE, FAILED = (
    OUTCOMES.index(outcome) for outcome in (Outcome.MEASURED, Outcome.NOT_APPLICABLE, Outcome.FAILED)
)
Rows = NDArray[np.intp] | Truth | slice
Remark = tuple[str | None, tuple[str, ...]]  # why there is no time, and warnings


class Group(NamedTuple):
    """What stands together in a page."""

    machine: str
    environment: str
    benchmark: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Series:
    """The series that values are of, and what they belong to; arrays have shape (series,)."""

    keys: Sequence[SeriesKey]
    flop: FloatArray  # per call; NaN where unknown

    @cached_property
    def rate_unit(self) -> NDArray[np.str_]:
        """What the rates are given in: "GFLOPS", "GOPS"."""
        return np.array([key.rate_unit for key in self.keys], np.str_)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Machines, environments and benchmarks, in the order of the series."""
        return tuple(dict.fromkeys(map(_group, self.keys)))

    @cached_property
    def group(self) -> IntArray:
        """Places in `groups`."""
        return _places(self.groups, map(_group, self.keys))

    @cached_property
    def cases(self) -> tuple[tuple[Group, str], ...]:
        """The test cases of the groups, in the order of the series."""
        return tuple(dict.fromkeys((_group(key), key.case) for key in self.keys))

    @cached_property
    def case(self) -> IntArray:
        """Places in `cases`."""
        return _places(self.cases, ((_group(key), key.case) for key in self.keys))


def _group(key: SeriesKey) -> Group:
    return Group(key.machine, key.environment, key.benchmark)


def _places(known: Sequence[object], asked: Iterator[object]) -> IntArray:
    places = {thing: place for place, thing in enumerate(known)}
    return np.array([places[thing] for thing in asked], np.int32)


@dataclass(frozen=True, kw_only=True, eq=False)
class Against:
    """Results against others; all arrays have shape (results,)."""

    other: IntArray  # place in `Values.others`; NONE where nothing can be compared
    ratio: FloatArray  # new rate / old rate; NaN likewise
    state: NDArray[np.uint8]  # of the intervals: OVERLAPPING, APART, UNKNOWN

    @property
    def is_known(self) -> Truth:
        """Which results have something to be compared with."""
        known: Truth = self.other != NONE
        return known

    @property
    def distinct(self) -> Truth:
        """Which lie apart from what they are compared with."""
        distinct: Truth = self.state == APART
        return distinct

    def __getitem__(self, rows: Rows) -> Against:
        """Return some of them."""
        return Against(other=self.other[rows], ratio=self.ratio[rows], state=self.state[rows])


@dataclass(frozen=True, kw_only=True, eq=False)
class Values:
    """Some results of one commit, in the order of the site's series; all arrays have shape (results,) or more."""

    series: Series
    others: Sequence[str]  # the commits that they are compared with
    remark: Callable[[int], Remark]  # of a value, by its slot
    which: NDArray[np.signedinteger]  # places in `series`
    slot: NDArray[np.int64]  # where it lies among all values
    outcome: IntArray  # places in OUTCOMES
    figures: FloatArray  # (results, len(FIGURES)), s per call; NaN where unknown
    changed: Truth  # time distinct from the one before, or there was one and now is none
    before: Against  # the commit measured before
    tag: Against  # the last tag before
    best: Against  # the fastest value before

    def __len__(self) -> int:
        """How many."""
        return len(self.which)

    def __getitem__(self, rows: Rows) -> Values:
        """Return some of them, as numpy chooses."""
        columns = ("which", "slot", "outcome", "figures", "changed", "before", "tag", "best")
        chosen: dict[str, Any] = {name: getattr(self, name)[rows] for name in columns}
        return replace(self, **chosen)

    @property
    def keys(self) -> list[SeriesKey]:
        """Their series."""
        return [self.series.keys[place] for place in self.which.tolist()]

    @property
    def remarks(self) -> list[Remark]:
        """What is to be known of each."""
        return [self.remark(slot) for slot in self.slot.tolist()]

    def figure(self, name: str) -> FloatArray:
        """Return one of FIGURES."""
        return self.figures[:, FIGURES.index(name)]

    def at(self, machine: str, environment: str) -> Values:
        """Return those of a machine and environment."""
        here = [(group.machine, group.environment) == (machine, environment) for group in self.series.groups]
        return self[np.array(here, np.bool_)[self.series.group[self.which]]]

    def asked(self) -> Values:
        """Return them without test cases that were n/a for every implementation: nobody asked for those."""
        applicable = self.outcome != NOT_APPLICABLE
        if applicable.all():
            return self
        case = self.series.case[self.which]
        known = np.zeros(len(self.series.cases), np.bool_)
        known[case[applicable]] = True
        return self[known[case] | self.changed]

    def against(self) -> frozenset[str]:
        """Return the commits measured before that they are compared with."""
        return frozenset(self.others[place] for place in np.unique(self.before.other).tolist() if place != NONE)


def left_out(values: Values, benchmarks: Mapping[str, Benchmark]) -> Iterator[str]:
    """Yield, for each benchmark that has values at a machine, the test cases that nobody asked for."""
    shown: dict[str, set[str]] = {}
    for place in np.unique(values.series.case[values.which]).tolist():
        group, case = values.series.cases[place]
        shown.setdefault(group.benchmark, set()).add(case)
    for name, cases in shown.items():
        missing = [case for case in benchmarks[name].cases if case not in cases] if name in benchmarks else []
        if missing:
            yield f"{name}: not measured: {', '.join(missing)}"


def summary(values: Values) -> str:
    """Return how many of some values changed, and which way."""
    changed, compared = counts(values)
    said = ", ".join(f"{number:,} {way}" for way, number in ways(values).items() if number)
    return f"{changed:,} of {compared:,} series changed distinctly{f': {said}' if said else ''}"


def counts(values: Values) -> tuple[int, int]:
    """Return how many of some values changed, and how many there are that could have."""
    return int(values.changed.sum()), int((values.changed | values.before.is_known).sum())


def ways(values: Values) -> dict[str, int]:
    """Return how many of some values changed which way."""
    changed, ratio = values.changed, values.before.ratio
    return {
        "faster": int((changed & (ratio > 1)).sum()),  # False for NaN
        "slower": int((changed & (ratio < 1)).sum()),
        "without a time now": int((changed & (values.outcome != MEASURED)).sum()),
    }


def beside(found: Site, sha: str, tags: Sequence[int]) -> Values:
    """Return what was measured of a commit beside the line; tag and best value are those up to its parent.

    Args:
        tags: of `commits_along.tags_before`.
    """
    parents = found.commits[sha].parents[:1]
    parent = {item.key: item for one in parents for item in found.at(one)}
    place = found.order.get(parents[0], NO_TAG) if parents else NO_TAG
    tag = place if place == NO_TAG or found.line[place] in found.tags else int(tags[place])
    ranks = {key: rank for rank, key in enumerate(found.keys)}
    items = sorted(found.at(sha), key=lambda item: ranks.get(item.key, len(ranks)))
    earlier = [[] if item.key not in ranks else list(_upto(found, item, place)) for item in items]
    return of_measurements(
        items,
        before=[_change(item, parent.get(item.key)) for item in items],
        tag=[next((one for at, one in own if at <= tag), None) for own in earlier],
        best=[min((one for _, one in own), key=lambda change: change.ratio, default=None) for own in earlier],
        had_time=[item.key in parent and parent[item.key].outcome is Outcome.MEASURED for item in items],
    )


def _upto(found: Site, item: Measurement, place: int) -> Iterator[tuple[int, Change]]:
    """Yield (place, change) of a measurement against its series' values up to a place of the line, newest first."""
    series = found.series(item.key)
    for entry in np.flatnonzero(series.is_measured & (series.place <= place))[::-1].tolist():
        change = trends.compare(item, series.measurement(entry, found.line))
        if change is not None:
            yield int(series.place[entry]), change


def of_measurements(
    items: Sequence[Measurement],
    *,
    before: Sequence[Change | None],
    tag: Sequence[Change | None],
    best: Sequence[Change | None],
    had_time: Sequence[bool],
) -> Values:
    """Return the measurements of one commit, each of another series, with their changes, as columns.

    Args:
        items: in the order of the site's series.
        before, tag, best: the change of each; None where it cannot be compared.
        had_time: whether the commit before has a time of it.
    """
    others = tuple(dict.fromkeys(change.against for change in (*before, *tag, *best) if change is not None))
    keys = tuple(item.key for item in items)
    flop = np.array([np.nan if item.flop is None else item.flop for item in items], np.float64)
    rows = [_figures(item) for item in items]
    return Values(
        series=Series(keys=keys, flop=flop),
        others=others,
        remark=lambda row: (items[row].reason, items[row].warnings),
        which=np.arange(len(items)),
        slot=np.arange(len(items)),
        outcome=np.array([OUTCOMES.index(item.outcome) for item in items], np.int32),
        figures=np.array(rows, np.float64).reshape(-1, len(FIGURES)),
        changed=np.array(list(map(_is_changed, items, before, had_time)), np.bool_),
        before=_of_changes(before, others),
        tag=_of_changes(tag, others),
        best=_of_changes(best, others),
    )


def _figures(item: Measurement) -> tuple[float, ...]:
    """Return a measurement's FIGURES."""
    interval, adjusted = item.interval, item.adjusted
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    known = (item.seconds, low, high, None if adjusted is None else adjusted.seconds)
    return tuple(np.nan if figure is None else figure for figure in known)


def _change(new: Measurement, old: Measurement | None) -> Change | None:
    return None if old is None else trends.compare(new, old)


def _is_changed(item: Measurement, before: Change | None, had_time: bool) -> bool:
    """Return whether a time is distinct from the one before, or there was one and now is none."""
    if item.outcome is Outcome.MEASURED:
        return before is not None and before.is_distinct
    return had_time and (item.outcome is Outcome.FAILED or item.reason is not None)


def _of_changes(changes: Sequence[Change | None], others: Sequence[str]) -> Against:
    """Return the changes of some results as columns."""
    states = {None: UNKNOWN, True: OVERLAPPING, False: APART}
    known = [
        (NONE, np.nan, UNKNOWN) if one is None else (others.index(one.against), one.ratio, states[one.overlapping])
        for one in changes
    ]
    return Against(
        other=np.array([other for other, _, _ in known], np.int32),
        ratio=np.array([ratio for _, ratio, _ in known], np.float64),
        state=np.array([state for _, _, state in known], np.uint8),
    )
