"""What a commit's page knows of one series at one commit, and what is said of several together.

On the first-parent line a value holds plain numbers, and makes what it is asked for: a site has millions of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tools.changes_along import NONE
from tools.columns import Columns
from tools.measurements import Measurement, Outcome, SeriesKey
from tools.recorded import Benchmark
from tools.trends import Change


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
    def seconds(self) -> float | None:
        """Its time, per call."""

    @property
    def flop(self) -> float | None:
        """Floating-point operations of a call."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is to be known of it."""

    @property
    def measurement(self) -> Measurement:
        """All of it."""

    @property
    def against(self) -> str | None:
        """The commit measured before, where the two can be compared."""

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


Against = tuple[int, float, int]  # place of the other commit, ratio of speeds, state of the intervals
OVERLAPPING, APART, UNKNOWN = 0, 1, 2


@dataclass(frozen=True, eq=False, slots=True)
class OnLine:
    """A value of a commit on the first-parent line."""

    key: SeriesKey
    series: Columns
    name: str
    entry: int
    outcome: Outcome
    is_changed: bool
    _line: Sequence[str]
    _before: Against
    _tag: Against
    _best: Against

    @property
    def seconds(self) -> float | None:
        """Its time, per call."""
        return float(self.series.seconds[self.entry]) if self.outcome is Outcome.MEASURED else None

    @property
    def flop(self) -> float | None:
        """Floating-point operations of a call."""
        return self.series.flop

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is to be known of it."""
        return self.series.warnings.get(self.entry, ())

    @property
    def measurement(self) -> Measurement:
        """All of it."""
        return self.series.measurement(self.entry, self._line)

    @property
    def against(self) -> str | None:
        """The commit measured before, where the two can be compared."""
        return None if self._before[0] == NONE else self._line[self._before[0]]

    @property
    def before(self) -> Change | None:
        """The change against the commit measured before."""
        return self._change(self._before)

    @property
    def tag(self) -> Change | None:
        """The change against the last tag before."""
        return self._change(self._tag)

    @property
    def best(self) -> Change | None:
        """The change against the fastest value before."""
        return self._change(self._best)

    def _change(self, found: Against) -> Change | None:
        place, ratio, state = found
        if place == NONE:
            return None
        overlapping = None if state == UNKNOWN else state == OVERLAPPING
        return Change(ratio=ratio, against=self._line[place], overlapping=overlapping)


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
    def seconds(self) -> float | None:
        """Its time, per call."""
        return self.measurement.seconds

    @property
    def flop(self) -> float | None:
        """Floating-point operations of a call."""
        return self.measurement.flop

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is to be known of it."""
        return self.measurement.warnings

    @property
    def against(self) -> str | None:
        """The parent, where the two can be compared."""
        return None if self.before is None else self.before.against

    @property
    def is_changed(self) -> bool:
        """Whether its time is distinct from its parent's, or that had one and this has none."""
        if self.outcome is Outcome.MEASURED:
            return self.before is not None and self.before.is_distinct
        return self.had_time and (self.outcome is Outcome.FAILED or self.measurement.reason is not None)


def effect(item: Value) -> float:
    """Return how much a value changed, the logarithm of the ratio without its sign; what is gone changed most."""
    if item.outcome is not Outcome.MEASURED:
        return math.inf if item.is_changed else 0.0
    return 0.0 if item.before is None else abs(math.log(item.before.ratio))


def asked(values: Sequence[Value]) -> list[Value]:
    """Return the values without test cases that were n/a for every implementation: nobody asked for those."""
    if all(item.outcome is not Outcome.NOT_APPLICABLE for item in values):
        return list(values)
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
    compared = sum(item.is_changed or item.against is not None for item in values)
    ways = {
        "faster": sum(before is not None and before.ratio > 1 for _, before in changed),
        "slower": sum(before is not None and before.ratio < 1 for _, before in changed),
        "without a time now": sum(outcome is not Outcome.MEASURED for outcome, _ in changed),
    }
    said = ", ".join(f"{number:,} {way}" for way, number in ways.items() if number)
    return f"{len(changed):,} of {compared:,} series changed distinctly{f': {said}' if said else ''}"
