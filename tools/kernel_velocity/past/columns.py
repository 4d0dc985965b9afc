"""A series as columns: one entry for each commit of the first-parent line that has a result of it, oldest first. Pure.

Which of its values can be compared, and which series are worth a trend, is told here, too.

Pages and their data files are made from columns: 10,000 commits of a series are a few arrays, not 10,000 objects.
Unknown is NaN in a column of numbers and -1 in a column of counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernel_velocity import units
from kernel_velocity.direction import Better
from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.names import DEVICES, ON_CUDA_ALONE
from kernel_velocity.results.measurement import (
    OUTCOMES,
    Adjusted,
    IntArray,
    Interval,
    Measurement,
    Outcome,
    SeriesKey,
)

Indices = NDArray[np.int64]
Truth = NDArray[np.bool_]
NONE = -1  # no entry to compare with
TIMES = ("seconds", "low", "high", "adjusted", "adjusted_low", "adjusted_high")
ARRAYS = ("position", "outcome", *TIMES, "rounds", "method")
Value = TypeVar("Value")
MAPPINGS = ("interval_methods", "reasons", "warnings")  # by entry


class ByEntry(Mapping[int, Value], Generic[Value]):
    """Values of some entries of a series, looked up on access: entry -> value."""

    def __init__(
        self, numbers: NDArray[np.int32], value: Callable[[int], Value], has_value: NDArray[np.bool_] | None = None
    ) -> None:
        """Take the number of each entry, and a function from numbers to values.

        Args:
            has_value: by number. None: every number but 0 has a value.
        """
        self._numbers, self._value, self._has_value = numbers, value, has_value

    def _entries(self) -> NDArray[np.int64]:
        """Return the entries that have a value."""
        return np.flatnonzero(self._numbers if self._has_value is None else self._has_value[self._numbers])

    def __getitem__(self, entry: int) -> Value:
        """Return an entry's value."""
        number = int(self._numbers[entry]) if 0 <= entry < len(self._numbers) else 0
        if not (number if self._has_value is None else self._has_value[number]):
            raise KeyError(entry)
        return self._value(number)

    def __iter__(self) -> Iterator[int]:
        """Yield the entries that have a value."""
        yield from self._entries().tolist()

    def items(self) -> ItemsView[int, Value]:  # words: of Mapping
        """Return entries with their values, in order. Each number is looked up once."""
        entries = self._entries()
        numbers = self._numbers[entries].tolist()
        values = {number: self._value(number) for number in set(numbers)}
        return {entry: values[number] for entry, number in zip(entries.tolist(), numbers, strict=True)}.items()

    def between(self, first: int, last: int | None) -> ByEntry[Value]:
        """Return the values of the entries `first` to before `last`, counted from `first`."""
        return ByEntry(self._numbers[first:last], self._value, self._has_value)

    def __len__(self) -> int:
        """How many entries have a value."""
        return len(self._entries())


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """One series. All arrays have shape (commits,), times are in seconds per call."""

    key: SeriesKey
    position: IntArray  # of the commit on the first-parent line, ascending
    outcome: IntArray
    seconds: FloatArray
    low: FloatArray  # of the 95% interval
    high: FloatArray
    adjusted: FloatArray
    adjusted_low: FloatArray
    adjusted_high: FloatArray
    rounds: IntArray
    method: IntArray  # position in `methods`
    methods: tuple[str, ...] = ()  # hashes of the timing methods
    interval_methods: Mapping[int, str] = field(default_factory=dict)  # entry -> how its interval was made
    reasons: Mapping[int, str] = field(default_factory=dict)  # entry -> why it has no time
    warnings: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    remarks: IntArray | None = None  # numbers of reasons and warnings, the same in a site; None: not known
    link_error: FloatArray | None = (
        None  # of the link to the first session of a fleet, 0 there; None: nothing is linked
    )
    machine: FloatArray | None = None  # steps of the machine that the log times show; None: none was looked for
    flop: float | None = None  # per call
    bytes_moved: float | None = None
    unit: str = units.SECONDS  # of the values; those of another unit stand in place of the seconds
    better: Better = Better.LOWER  # which of its values are

    def __len__(self) -> int:
        """The number of commits."""
        return len(self.position)

    @cached_property
    def is_measured(self) -> NDArray[np.bool_]:
        """Which entries have a time."""
        measured: NDArray[np.bool_] = self.outcome == OUTCOMES.index(Outcome.MEASURED)
        return measured

    @cached_property
    def logs(self) -> FloatArray:
        """Log times, adjusted where possible: what verdicts are made from. NaN where there is none.

        A value of 0 or less, which no time is, has no logarithm. Steps of the machine are taken out.
        """
        seconds = np.where(np.isnan(self.adjusted), self.seconds, self.adjusted)
        values = np.log(np.where(self.is_measured & (seconds > 0), seconds, np.nan))
        return np.asarray(values if self.machine is None else values - self.machine)

    @property
    def has_answer(self) -> bool:
        """Whether a time, a failure or a reason for none is recorded. Nothing is, where nobody measured the series."""
        return bool(self.reasons) or bool((self.outcome != OUTCOMES.index(Outcome.NOT_APPLICABLE)).any())

    @property
    def gflops(self) -> FloatArray:
        """10^9 operations per second, in `key.rate_unit`. NaN where unknown."""
        return (np.nan if self.flop is None else self.flop) / self.seconds / 1e9

    def entry(self, position: int) -> int | None:
        """Return the index of a position on the first-parent line. None where it has no result."""
        index = int(np.searchsorted(self.position, position))
        return index if index < len(self) and self.position[index] == position else None

    def between(self, first: int, last: int | None = None) -> Columns:
        """Return the entries `first` to before `last` (None: to the end) as a series. Its arrays are views."""
        chosen = slice(first, last)
        arrays: dict[str, Any] = {name: getattr(self, name)[chosen] for name in ARRAYS}
        mappings: dict[str, Any] = {name: _between(getattr(self, name), first, last) for name in MAPPINGS}
        remarks = None if self.remarks is None else self.remarks[chosen]
        link_error = None if self.link_error is None else self.link_error[chosen]
        machine = None if self.machine is None else self.machine[chosen]
        return replace(self, remarks=remarks, link_error=link_error, machine=machine, **arrays, **mappings)

    def measurement(self, index: int, line: Sequence[str]) -> Measurement:
        """Return one entry as a measurement. `line` is the first-parent line."""
        return measurement(
            self.key,
            line[self.position[index]],
            {name: getattr(self, name)[index] for name in ("outcome", "rounds", *TIMES)},
            interval_method=self.interval_methods.get(index, ""),
            method=self.methods[self.method[index]] if self.method[index] >= 0 else None,
            flop=self.flop,
            bytes_moved=self.bytes_moved,
            unit=self.unit,
            reason=self.reasons.get(index),
            warnings=self.warnings.get(index, ()),
        )


def measurement(
    key: SeriesKey, commit: str, row: Mapping[str, Any], *, interval_method: str, **details: Any
) -> Measurement:
    """Return a row of columns as a measurement.

    Args:
        row: the values of `outcome`, `rounds` and TIMES.
        details: further fields of `Measurement`.
    """
    seconds = _or_none(row["adjusted"])
    interval = _interval(row["adjusted_low"], row["adjusted_high"], interval_method)
    return Measurement(
        key=key,
        commit=commit,
        outcome=OUTCOMES[row["outcome"]],
        seconds=_or_none(row["seconds"]),
        interval=_interval(row["low"], row["high"], interval_method),
        rounds=int(row["rounds"]) if row["rounds"] >= 0 else None,
        adjusted=None if seconds is None else Adjusted(seconds=seconds, interval=interval),
        **details,
    )


def _between(values: Mapping[int, Any], first: int, last: int | None) -> Mapping[int, Any]:
    if isinstance(values, ByEntry):
        return values.between(first, last)
    end = math.inf if last is None else last
    return {entry - first: value for entry, value in values.items() if first <= entry < end} if values else values


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _interval(low: float, high: float, method: str) -> Interval | None:
    return None if math.isnan(low) or math.isnan(high) else Interval(low=float(low), high=float(high), method=method)


def comparable(series: Columns, method: int) -> Truth:
    """Return which entries have a time that a time of a method (an index, -1: unknown) can be compared with.

    Times of two timing methods are not compared. An entry is an index into the columns.
    """
    like: Truth = series.is_measured & ((series.method == method) | (series.method < 0) | (method < 0))
    return like


def methods(series: Columns) -> list[int]:
    """Return the distinct timing methods of a series' entries (indices, -1: unknown)."""
    column = series.method
    if len(column) and (column == column[0]).all():  # nearly always, and a tenth of the time
        return [int(column[0])]
    several: list[int] = np.unique(column).tolist()
    return several


def comparable_before(series: Columns, first: int = 0) -> Indices:
    """Return, for every entry from `first` on, the newest comparable one before it. NONE where there is none.

    Entries of another method are passed over, so that a single one of them does not hide the next change.
    """
    base = np.full(len(series) - first, NONE, dtype=np.int64)
    for method in methods(series):
        measured, rows = np.flatnonzero(comparable(series, method)), series.method[first:] == method
        last = np.searchsorted(measured, np.flatnonzero(rows) + first) - 1
        base[rows] = np.where(last < 0, NONE, measured[last] if len(measured) else NONE)
    return base


def telling(keys: Iterable[SeriesKey], applied: Container[SeriesKey]) -> Iterator[SeriesKey]:
    """Yield the series that are worth a trend.

    Those are the series of `applied`, which were more than n/a at some commit, and the other implementations of their
    test cases that can exist on the device.
    """
    keys = tuple(keys)
    test_cases = {_test_case(key) for key in keys if key in applied}
    return (key for key in keys if key in applied or (_test_case(key) in test_cases and _can_exist(key)))


def _can_exist(key: SeriesKey) -> bool:
    """Return whether an implementation can exist on the device of its series."""
    return key.implementation not in ON_CUDA_ALONE or f".{DEVICES['cuda']}." in key.benchmark


def _test_case(key: SeriesKey) -> tuple[str, ...]:
    """Return the part of a key that the implementations of one test case share."""
    return key.machine, key.environment, key.benchmark, key.case
