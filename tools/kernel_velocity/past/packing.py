"""Pack a results file into arrays, as the cache stores it: an entry for each time, round and value that is no time.

Series and texts (remarks, methods, code, names of launches) are numbers in the arrays. `Numbers` assigns them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernel_velocity import units
from kernel_velocity.engine.telemetry import GAUGES, Round
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
from kernel_velocity.results.records import Pair, RecordedRow, ResultsFile, name_parts

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
        *((name, "<f8") for name in ("estimate", *GAUGES)),
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
    entries = np.zeros(len(file.seconds), ENTRY)
    for name in _AS_RECORDED:
        entries[name] = getattr(file, name)
    if file.rows:
        sizes, is_measured = [len(row.pairs) for row in file.rows], ~np.isnan(file.seconds)
        remarks = [names.remarks.of(_remark(None, _without_telemetry(row))) for row in file.rows]
        entries["series"] = np.concatenate([names.of_row(file, row) for row in file.rows])
        entries["rounds"] = -1
        entries["interval_method"] = np.where(np.isnan(file.low), NO_TEXT, names.texts.of(ASV_INTERVAL_METHOD))
        entries["remark"] = np.where(is_measured, np.repeat(remarks, sizes), NO_TEXT)
        entries["began"] = np.where(is_measured, np.repeat([row.began for row in file.rows], sizes), np.nan)
    rounds: list[tuple[float, ...]] = []
    if file.rounds or file.failures:
        for at, (row, pair) in enumerate(file.series()):
            if (series := (row.benchmark, *pair)) in file.rounds or series in file.failures:
                entry, timed = _entry(file, at, row, pair, names)
                entries[at] = (entries["series"][at], *entry)
                rounds += timed
    tracked = [
        (names.series.of((file.machine, file.environment, value.benchmark, *value.pair, value.version)), *value[3:])
        for value in file.tracked
    ]
    return Packed(entries=entries, rounds=np.array(rounds, ROUND), tracked=np.array(tracked, TRACKED))


def _entry(
    file: ResultsFile, at: int, row: RecordedRow, pair: Pair, names: Names
) -> tuple[tuple[float, ...], list[tuple[float, ...]]]:
    """Return what telemetry says of a value: the fields of its entry but for the series, and its rounds."""
    measurement, counted = measured(file, at, row, pair)
    interval = measurement.interval
    began = max(round_.time for round_ in counted) if counted else row.began
    entry = (
        OUTCOMES.index(measurement.outcome),
        -1 if measurement.rounds is None else measurement.rounds,
        names.texts.of(measurement.method),
        names.texts.of(None if interval is None else interval.method),
        names.remarks.of(_remark(measurement.reason, measurement.warnings)),
        names.texts.of(code_of(file, measurement.key, counted) if counted else None),
        _or_nan(measurement.seconds),
        np.nan if interval is None else interval.low,
        np.nan if interval is None else interval.high,
        np.nan if measurement.seconds is None else began,
    )
    rounds = [
        (at, names.texts.of(round_.launch), round_.estimate, *(_or_nan(getattr(round_, name)) for name in GAUGES))
        for round_ in sorted(counted, key=lambda round_: round_.time)
    ]
    return entry, rounds


def _or_nan(number: float | None) -> float:
    return np.nan if number is None else number


def _remark(reason: str | None, warnings: tuple[str, ...]) -> Remark | None:
    return (reason, warnings) if reason is not None or warnings else None


def measured(file: ResultsFile, at: int, row: RecordedRow, pair: Pair) -> tuple[Measurement, Sequence[Round]]:
    """Return the value of a file at an index (of `ResultsFile.series`) as a measurement, and its rounds.

    The rounds are the record. asv's value and interval stand in where there are none, with a footnote. A value that asv
    stores as n/a has no time: it says the same of a series that it was not asked for since its version changed.
    """
    series = (row.benchmark, *pair)
    rounds, failures = file.rounds.get(series, ()), file.failures.get(series, ())
    key = key_of((file.machine, file.environment, *series, row.version))
    outcome = OUTCOMES[file.outcome[at]]
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
    low, high = float(file.low[at]), float(file.high[at])
    measurement = Measurement(
        key=key,
        commit=file.commit,
        outcome=outcome,
        seconds=float(file.seconds[at]),
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
