"""Pack a results file into arrays, as the cache stores it: an entry for each time, round and value that is no time.

Series and texts (remarks, methods, code, names of launches) are numbers in the arrays. `Numbers` assigns them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernel_velocity import units
from kernel_velocity.engine.telemetry import Round
from kernel_velocity.names import CONTROLS
from kernel_velocity.results import sessions
from kernel_velocity.results.lines import Failure, raised_since
from kernel_velocity.results.measurement import (
    ASV_INTERVAL_METHOD,
    OUTCOMES,
    Interval,
    Measurement,
    Outcome,
    SeriesKey,
    from_rounds,
)
from kernel_velocity.results.records import RecordedRow, ResultsFile, name_parts

NO_TELEMETRY = "no telemetry: asv's stored value with its 99% interval"
NO_TEXT = 0  # the number of no text
# of one value: times in s per call, `began` the Unix time of its last round, s. NaN is unknown, as are -1 rounds.
ENTRY = np.dtype(
    [
        *((name, "<i4") for name in ("series", "outcome", "rounds", "method", "interval_method", "remark", "code")),
        *((name, "<f8") for name in ("seconds", "low", "high", "began")),
    ]
)
STORED = tuple(sorted(set(ENTRY.names or ()) - {"series"}, key=lambda name: (-ENTRY[name].itemsize, name)))  # aligned
# of one round of the entry with this position in the file; gauges in s, NaN where they were not read
ROUND = np.dtype(
    [
        *((name, "<i4") for name in ("entry", "launch")),
        *((name, "<f8") for name in ("estimate", "core_gauge", "memory_gauge", "control_gauge")),
    ]
)
# of one value that is no time, such as an error or a ceiling: value in its own unit, `began` as above
TRACKED = np.dtype([("series", "<i4"), ("value", "<f8"), ("began", "<f8")])
# of one value: digest of its rounds (0: it has none), digest of what its adjusted time follows from, whether a gauge
# was read beside the rounds; the adjusted time and its interval, s, NaN where it is not adjusted
ADJUSTMENT = np.dtype(
    [
        *(("rounds_digest", "<u8"), ("source_digest", "<u8"), ("is_gauged", "?")),
        *((name, "<f8") for name in ("adjusted", "adjusted_low", "adjusted_high")),
    ]
)
Entries = NDArray[np.void]  # of ENTRY, ROUND, TRACKED or ADJUSTMENT
Remark = tuple[str | None, tuple[str, ...]]  # why there is no time, and what to know about it
Series = tuple[str, str, str, str, str, str | None]  # machine, environment, benchmark, implementation, case, version
_AS_RECORDED = ("outcome", "seconds", "low", "high")
Value = TypeVar("Value", bound=Hashable)


def key_of(series: Series, version: str | None = None) -> SeriesKey:
    """Return the key of a series. `version`: of its benchmark, where none was stored."""
    machine, environment, benchmark, implementation, case, stored = series
    return SeriesKey(
        machine=machine,
        environment=environment,
        benchmark=benchmark,
        implementation=implementation,
        case=case,
        version=stored or version or "",
    )


@dataclass
class Numbers(Generic[Value]):
    """Numbers of distinct values, from 1 on, in order of first use."""

    values: list[Value] = field(default_factory=list)
    _numbers: dict[Value, int] = field(init=False)

    def __post_init__(self) -> None:
        self._numbers = {value: number for number, value in enumerate(self.values, start=1)}

    def of(self, value: Value | None) -> int:
        """Return the number of a value, NO_TEXT for None."""
        if value is None:
            return NO_TEXT
        number = self._numbers.get(value)
        if number is None:
            self.values.append(value)
            number = self._numbers[value] = len(self.values)
        return number

    def of_all(self, others: Numbers[Value]) -> NDArray[np.int32]:
        """Return, by the numbers of others, our numbers of the same values."""
        return np.array([NO_TEXT, *map(self.of, others.values)], np.int32)

    def __getitem__(self, number: int) -> Value:
        """Return the value of a number (>= 1)."""
        return self.values[number - 1]


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A results file as arrays, in its order."""

    entries: Entries  # of ENTRY
    rounds: Entries  # of ROUND, by entry, each entry's by time
    tracked: Entries  # of TRACKED


@dataclass(frozen=True, kw_only=True)
class Names:
    """The series, texts and remarks that numbers in the arrays stand for."""

    series: Numbers[Series] = field(default_factory=Numbers)
    texts: Numbers[str] = field(default_factory=Numbers)
    remarks: Numbers[Remark] = field(default_factory=Numbers)
    _of_rows: dict[tuple[object, ...], NDArray[np.int32]] = field(default_factory=dict)  # most files have the same rows

    def of_row(self, file: ResultsFile, row: RecordedRow) -> NDArray[np.int32]:
        """Return the numbers of the series of a row's values, shape (values,)."""
        row_key = (file.machine, file.environment, row.benchmark, row.pairs, row.version)
        if row_key not in self._of_rows:
            start = (file.machine, file.environment, row.benchmark)
            numbers = [self.series.of((*start, *pair, row.version)) for pair in row.pairs]
            self._of_rows[row_key] = np.array(numbers, np.int32)
        return self._of_rows[row_key]


def pack(file: ResultsFile, names: Names) -> Packed:
    """Return a results file's values as arrays. New series and texts get a number."""
    sizes = [len(row.pairs) for row in file.rows]
    entries = np.zeros(sum(sizes), ENTRY)
    plain = [_has_no_telemetry(file, row) for row in file.rows]
    _fill_plain(entries, np.repeat(np.array(plain, np.bool_), sizes), file, names)
    rounds: list[tuple[float, ...]] = []
    for row, is_plain, stop in zip(file.rows, plain, itertools.accumulate(sizes), strict=True):
        if not is_plain:
            rounds += _fill_values(entries, stop - len(row.pairs), file, row, names)
    return Packed(
        entries=entries, rounds=np.array(rounds, ROUND), tracked=np.array(list(_tracked(file, names)), TRACKED)
    )


def _tracked(file: ResultsFile, names: Names) -> Iterator[tuple[float, ...]]:
    for tracked in file.tracked:
        parameters = (tracked.benchmark, tracked.implementation, tracked.case, tracked.version)
        number = names.series.of((file.machine, file.environment, *parameters))
        yield (
            number,
            np.nan if tracked.value is None else tracked.value,
            np.nan if tracked.began is None else tracked.began,
        )


def _has_no_telemetry(file: ResultsFile, row: RecordedRow) -> bool:
    """Return whether a row has neither rounds nor failures beside asv's values."""
    if not (file.rounds or file.failures):
        return True
    series = ((row.benchmark, *pair) for pair in row.pairs)
    return not any(key in file.rounds or key in file.failures for key in series)


def _fill_plain(entries: Entries, is_plain: NDArray[np.bool_], file: ResultsFile, names: Names) -> None:
    """Fill in the entries of rows without telemetry: the same as `_fill_values`, for all rows at once."""
    if not is_plain.any():
        return
    sizes = [len(row.pairs) for row in file.rows]
    columns = {name: np.concatenate([getattr(row, name) for row in file.rows]) for name in _AS_RECORDED}
    measured, bounded = ~np.isnan(columns["seconds"]), ~np.isnan(columns["low"])
    warnings = map(_without_telemetry, file.rows)
    remarks = [names.remarks.of((None, several) if several else None) for several in warnings]
    began = [np.nan if row.began is None else row.began for row in file.rows]
    columns["series"] = np.concatenate([names.of_row(file, row) for row in file.rows])
    columns["rounds"] = np.full(len(entries), -1)
    columns["interval_method"] = np.where(bounded, names.texts.of(ASV_INTERVAL_METHOD), NO_TEXT)
    columns["remark"] = np.where(measured, np.repeat(remarks, sizes), NO_TEXT)
    columns["began"] = np.where(measured, np.repeat(began, sizes), np.nan)
    for name, column in columns.items():
        entries[name][is_plain] = column[is_plain]


def _fill_values(
    entries: Entries, start: int, file: ResultsFile, row: RecordedRow, names: Names
) -> list[tuple[float, ...]]:
    """Fill in the entries of a row, from `start` on, value by value. Return their rounds."""
    rounds: list[tuple[float, ...]] = []
    for at, number in enumerate(names.of_row(file, row).tolist(), start):
        measurement, counted = measured(file, row, at - start)
        interval = measurement.interval
        is_remarkable = measurement.reason is not None or measurement.warnings
        began = max(round_.time for round_ in counted) if counted else row.began
        entries[at] = (
            number,
            OUTCOMES.index(measurement.outcome),
            -1 if measurement.rounds is None else measurement.rounds,
            names.texts.of(measurement.method),
            names.texts.of(None if interval is None else interval.method),
            names.remarks.of((measurement.reason, measurement.warnings) if is_remarkable else None),
            names.texts.of(code_of(file, measurement.key, counted) if counted else None),
            np.nan if measurement.seconds is None else measurement.seconds,
            np.nan if interval is None else interval.low,
            np.nan if interval is None else interval.high,
            np.nan if began is None or measurement.seconds is None else began,
        )
        rounds += _rounds(at, counted, names.texts)
    return rounds


def measured(file: ResultsFile, row: RecordedRow, index: int) -> tuple[Measurement, Sequence[Round]]:
    """Return one value of a row as a measurement, and the rounds that it is made of.

    The rounds are the record. asv's value and interval stand in where there are none, with a footnote. A value that asv
    stores as n/a has no time: it says the same of a series that it was not asked for since its version changed.
    """
    series = (row.benchmark, *row.pairs[index])
    rounds, failures = file.rounds.get(series, ()), file.failures.get(series, ())
    key = key_of((file.machine, file.environment, *series, row.version))
    outcome = OUTCOMES[row.outcome[index]]
    if rounds and outcome is Outcome.FAILED and not any(failure.raised for failure in failures):
        outcome = Outcome.MEASURED  # asv dropped them
    elif outcome is Outcome.MEASURED and raised_since(failures, rounds):
        outcome = Outcome.FAILED
    if outcome is not Outcome.MEASURED:
        raised = [failure for failure in failures if failure.raised and outcome is Outcome.FAILED]
        reason = (raised or list(failures))[-1].error if failures else None
        # A kernel that was timed and then computed wrong numbers has no time: how it got them proves nothing.
        timed = (f"{units.count(len(rounds), 'round')} timed before it failed",) if rounds else ()
        return Measurement(key=key, commit=file.commit, outcome=outcome, reason=reason, warnings=timed), ()
    if rounds:
        measurement = from_rounds(key, file.commit, rounds)
        counted = [round_ for round_ in rounds if round_.method == measurement.method]
        return replace(measurement, warnings=measurement.warnings + _lost_rounds(failures)), counted
    low, high = float(row.low[index]), float(row.high[index])
    measurement = Measurement(
        key=key,
        commit=file.commit,
        outcome=outcome,
        seconds=float(row.seconds[index]),
        interval=None if math.isnan(low) else Interval(low=low, high=high, method=ASV_INTERVAL_METHOD),
        warnings=_without_telemetry(row) + _lost_rounds(failures),
    )
    return measurement, ()


def _without_telemetry(row: RecordedRow) -> tuple[str, ...]:
    """Return the footnote of a value without telemetry. None for another suite, which never has any."""
    return (NO_TELEMETRY,) if name_parts(row.benchmark).device else ()


def _lost_rounds(failures: Sequence[Failure]) -> tuple[str, ...]:
    if not failures:
        return ()
    lost = f"{units.count(len(failures), 'further round')} lost to a crash or a timeout"
    return (f"{lost}, the last with: {failures[-1].error}",)


def code_of(file: ResultsFile, key: SeriesKey, rounds: Sequence[Round]) -> str | None:
    """Return the hash of the code that rounds (>= 1) of a series measured. None where no session recorded it.

    The code of a control is PyTorch's, the same for all commits of an environment.
    """
    if key.implementation in CONTROLS:
        return key.implementation
    session = sessions.at(file.sessions, max(round_.time for round_ in rounds))
    return None if session is None else session.code.get(name_parts(key.benchmark).kernel)


def _rounds(entry: int, rounds: Sequence[Round], texts: Numbers[str]) -> Iterator[tuple[float, ...]]:
    for round_ in sorted(rounds, key=lambda round_: round_.time):
        gauges = (round_.core_gauge, round_.memory_gauge, round_.control_gauge)
        yield (
            entry,
            texts.of(round_.launch),
            round_.estimate,
            *(np.nan if gauge is None else gauge for gauge in gauges),
        )
