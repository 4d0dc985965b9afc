"""What the readers hand to the pure modules: the nouns of a results directory and of the repository.

`measurements` joins the two sources of a time: telemetry is the authority for round estimates; where there is
none, asv's own value and interval are taken, and a footnote says so.

A benchmark's row of a results file: its values as asv stores them, as columns. Pure.

A site's results hold thousands of rows; that a value is an object of its own is worth it where rounds belong to it.
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_velocity import bounds, units
from kernel_velocity.errors import ResultsError
from kernel_velocity.harness.cases import CONTROLS
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.failures import Failure
from kernel_velocity.results.join import raised_since
from kernel_velocity.results.measurement import (
    ASV_INTERVAL_METHOD,
    OUTCOMES,
    IntArray,
    Interval,
    Measurement,
    Outcome,
    SeriesKey,
    from_rounds,
)
from kernel_velocity.results.sessions import SessionFacts

# Of asv's facts of a machine; not its memory: what the kernel keeps of it changes with the kernel
HARDWARE = ("cpu", "num_cpu")
AGREEMENT = 1e-6  # relative; the stored value is the median of the same rounds, but for rounding
OTHER_TELEMETRY = "telemetry is of another run: asv's stored value with its 99% interval"
NO_TELEMETRY = "no telemetry: asv's stored value with its 99% interval"
SERIES_NAME = re.compile(r"([A-Za-z]\w*)\.(Cpu|Cuda)\.time_(\w+)", re.ASCII)  # contract; names pages too

Pair = tuple[str, str]  # implementation, case
_MEASURED, _NOT_APPLICABLE, _FAILED = (
    OUTCOMES.index(outcome) for outcome in (Outcome.MEASURED, Outcome.NOT_APPLICABLE, Outcome.FAILED)
)
_PLAIN = frozenset((float, int, type(None)))  # what numpy makes the same numbers of as we do; None becomes NaN


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """What benchmarks.json says of a timing benchmark."""

    name: str
    version: str
    implementations: tuple[str, ...]
    cases: tuple[str, ...]
    flop: Mapping[str, float]  # case -> FLOP per call
    bytes_moved: Mapping[str, float]  # case -> bytes per call


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine's folder and what asv recorded of the machine."""

    name: str
    details: tuple[tuple[str, str], ...]
    called: str | None = None  # what machine.json calls it; None: there is none of any use


@dataclass(frozen=True, kw_only=True)
class TrackedValue:
    """One value that is no time: a ceiling of the device, an error."""

    benchmark: str
    version: str | None
    implementation: str  # "" where the benchmark has no axes
    case: str
    value: float | None  # None: failed, n/a, or could not be measured
    began: float | None  # Unix time, s


@dataclass(frozen=True, kw_only=True)
class ResultsFile:
    """The values of one commit in one environment on one machine, and the rounds telemetry has of them."""

    machine: str
    environment: str
    commit: str  # full SHA
    rows: tuple[StoredRow, ...]
    rounds: Mapping[tuple[str, str, str], tuple[Round, ...]]  # (benchmark, implementation, case) -> rounds
    failures: Mapping[tuple[str, str, str], tuple[Failure, ...]]  # likewise, oldest first
    tracked: tuple[TrackedValue, ...] = ()
    sessions: tuple[SessionFacts, ...] = ()  # that measured it, each with what was new in it
    hardware: Mapping[str, str] = field(default_factory=dict)  # what asv says that it ran on, of HARDWARE

    @cached_property
    def values(self) -> tuple[StoredValue, ...]:
        """The times of all rows."""
        return tuple(value for row in self.rows for value in row.values())


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit. Message and author are what somebody typed: data, to be escaped wherever they are shown."""

    sha: str
    parents: tuple[str, ...]
    author: str
    date: datetime  # the author's, with his time zone
    committed: datetime  # when it got its place in the history: a commit that waited, or was rebased, is older
    message: str  # whole

    @property
    def subject(self) -> str:
        """The first line of the message; empty for an empty message."""
        return self.message.strip().partition("\n")[0].strip()


@dataclass(frozen=True, kw_only=True)
class History:
    """The commits that results speak of, as the repository knows them."""

    line: tuple[str, ...]  # SHAs along the first parents of HEAD, oldest first
    commits: Mapping[str, Commit]  # of the asked commits, those that exist
    shallow: bool  # whether the clone ends before the repository's beginning
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # SHA -> names of the tags that point at it


def left_out_notes(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return the notes of values that are not shown, from how many there are of each kind: "<benchmark> <reason>"."""
    return tuple(f"{text} ({units.count(number, 'value')} kept, not shown)" for text, number in sorted(counts.items()))


def twice(commit: str, machine: str) -> str:
    """Return why the later of two values of one series and commit is not shown."""
    return f"stands in two files for commit {commit[:8]} on {machine}; the first is shown"


def code_of(file: ResultsFile, value: StoredValue, rounds: Sequence[Round]) -> str | None:
    """Return what a commit ran when these rounds were measured; None where no session says so.

    A control's code is torch's, which the environment names: all its commits ran the same.
    """
    if value.implementation in CONTROLS:
        return value.implementation
    session = session_facts.at(file.sessions, max(item.time for item in rounds))
    return None if session is None else session.code.get(value.benchmark.partition(".")[0])


def kept_rounds(file: ResultsFile, value: StoredValue, method: str) -> list[Round]:
    """Return the rounds that a measurement is made of."""
    place = (value.benchmark, value.implementation, value.case)
    return [item for item in file.rounds[place] if item.method == method]


def unshowable(name: str, version: str | None, benchmarks: Mapping[str, Benchmark] | None) -> str | None:
    """Return why a benchmark's values of a version have no place on a trend; None where they have one.

    Args:
        name: of the benchmark. version: as stored with the values; None: not stored.
        benchmarks: what benchmarks.json says; None: it cannot be read.
    """
    if not SERIES_NAME.fullmatch(name):
        return "is not named <kernel>.<Cpu|Cuda>.time_<state>"
    if benchmarks is None:
        return None
    benchmark = benchmarks.get(name)
    if benchmark is None:
        return "is no longer in benchmarks.json"
    if version is not None and version != benchmark.version:
        return f"was recorded as version {version[:12]}, now it is {benchmark.version[:12]}"
    return None


def measurement(file: ResultsFile, value: StoredValue, benchmarks: Mapping[str, Benchmark]) -> Measurement:
    """Return a value of a results file as a measurement, from telemetry where it is of the same run.

    Without its benchmark, FLOP and bytes are unknown, and so is a version that is not stored ("").
    """
    benchmark = benchmarks.get(value.benchmark)
    key = SeriesKey(
        machine=file.machine,
        environment=file.environment,
        benchmark=value.benchmark,
        implementation=value.implementation,
        case=value.case,
        version=value.version or (benchmark.version if benchmark else ""),
    )
    flop = benchmark.flop.get(value.case) if benchmark else None
    bytes_moved = benchmark.bytes_moved.get(value.case) if benchmark else None
    place = (value.benchmark, value.implementation, value.case)
    rounds, failures = file.rounds.get(place, ()), file.failures.get(place, ())
    stored = Measurement(
        key=key,
        commit=file.commit,
        outcome=value.outcome,
        seconds=value.seconds,
        interval=value.interval,
        flop=flop,
        bytes_moved=bytes_moved,
        warnings=() if rounds or value.seconds is None else (NO_TELEMETRY, *_died(failures)),
    )
    if value.outcome is not Outcome.MEASURED:
        return _without_time(stored, rounds, failures)
    if not rounds:
        return stored
    item = from_rounds(key, file.commit, rounds, flop=flop, bytes_moved=bytes_moved)
    if not _agree(value.seconds, item, rounds):
        return replace(stored, warnings=(OTHER_TELEMETRY,))
    if raised_since(failures, rounds):
        failed = replace(stored, outcome=Outcome.FAILED, seconds=None, interval=None)
        return _without_time(failed, rounds, failures)
    return replace(item, warnings=item.warnings + _died(failures))


def _agree(stored: float | None, item: Measurement, rounds: Sequence[Round]) -> bool:
    """Return whether asv's value is the median of these rounds, or of those that `item` takes of them."""
    medians = (item.seconds, statistics.median(found.estimate for found in rounds))
    return any(
        stored is not None and median is not None and math.isclose(stored, median, rel_tol=AGREEMENT)
        for median in medians
    )


def _without_time(item: Measurement, rounds: Sequence[Round], failures: Sequence[Failure]) -> Measurement:
    """Return a measurement with the reason why it has no time; what raised is a better one than what died of it."""
    raised = [failure for failure in failures if failure.raised and item.outcome is Outcome.FAILED]
    reason = (raised or list(failures))[-1].error if failures else None
    # A kernel that was timed and then found wrong has no time: what it did before proves nothing.
    warnings = (f"{units.count(len(rounds), 'round')} timed before it failed",) if rounds else ()
    return replace(item, reason=reason, warnings=warnings)


def _died(failures: Sequence[Failure]) -> tuple[str, ...]:
    if not failures:
        return ()
    lost = f"{units.count(len(failures), 'further round')} lost to a crash or a timeout"
    return (f"{lost}, the last with: {failures[-1].error}",)


@dataclass(frozen=True, kw_only=True)
class StoredValue:
    """One value of a results file: a benchmark with its parameters, and what asv stored for it."""

    benchmark: str
    version: str | None
    implementation: str
    case: str
    outcome: Outcome
    seconds: float | None
    interval: Interval | None
    began: float | None = None  # Unix time, s, at which asv began its last round


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredRow:
    """The values of one benchmark; arrays have shape (values,), times are in s per call, NaN where unknown."""

    benchmark: str
    version: str | None
    pairs: tuple[Pair, ...]
    outcome: IntArray  # places in OUTCOMES
    seconds: FloatArray
    low: FloatArray  # of asv's interval
    high: FloatArray
    began: float | None  # Unix time, s, at which asv began the last round

    def values(self) -> Iterator[StoredValue]:
        """Yield them one by one."""
        columns = (self.outcome.tolist(), self.seconds.tolist(), self.low.tolist(), self.high.tolist())
        for (implementation, case), outcome, seconds, low, high in zip(self.pairs, *columns, strict=True):
            yield StoredValue(
                benchmark=self.benchmark,
                version=self.version,
                implementation=implementation,
                case=case,
                outcome=OUTCOMES[outcome],
                seconds=None if math.isnan(seconds) else seconds,
                interval=None if math.isnan(low) else Interval(low=low, high=high, method=ASV_INTERVAL_METHOD),
                began=self.began,
            )


def stored_row(name: str, row: Mapping[str, Any], axes: tuple[tuple[str, ...], ...], began: float | None) -> StoredRow:
    """Return a row of a timing benchmark; without a result, all of its combinations failed.

    Args:
        name: of the benchmark. row: by asv's names of its columns. axes: the names on both.
        began: Unix time, s.

    Raises:
        ResultsError: a column is no list of as many values as there are combinations, or a result is no time.
    """
    pairs = _pairs(axes)
    results = column(row, "result", len(pairs))
    outcome, seconds = _times(results)
    low, high = (_numbers(column(row, key, len(pairs))) for key in ("stats_ci_99_a", "stats_ci_99_b"))
    # asv could not bound all of them (it stores infinities from few samples)
    bounded = (outcome == _MEASURED) & _are_times(low) & _are_times(high)
    return StoredRow(
        benchmark=name,
        version=row.get("version"),
        pairs=pairs,
        outcome=outcome,
        seconds=seconds,
        # asv rounds its bounds to five digits when it stores them, but not the value
        low=np.where(bounded, np.minimum(low, seconds), np.nan),
        high=np.where(bounded, np.maximum(high, seconds), np.nan),
        began=began,
    )


@lru_cache(maxsize=10_000)  # the same few axes stand in every file
def _pairs(axes: tuple[tuple[str, ...], ...]) -> tuple[Pair, ...]:
    implementations, cases = axes
    return tuple(itertools.product(implementations, cases))


def column(row: Mapping[str, Any], key: str, length: int) -> list[Any]:
    """Return a column of a row, a list with an entry for each combination of the parameters."""
    found = row.get(key)
    if found is None:  # asv's short form of a list of nulls
        return [None] * length
    if not isinstance(found, list) or len(found) != length:
        raise ResultsError(
            f"{key}: a list of {length}, one for each combination of the parameters is wanted, got {str(found)[:60]!r}"
        )
    return found


def _times(results: Sequence[object]) -> tuple[IntArray, FloatArray]:
    """Return outcomes and times of results: asv stores null where it failed, and NaN for n/a."""
    seconds = _numbers(results)
    failed = np.array([value is None for value in results], np.bool_)
    missing = np.isnan(seconds)
    for place in np.flatnonzero(~failed & ~_are_times(seconds)).tolist():
        value = results[place]
        if not (isinstance(value, float) and math.isnan(value)):
            wanted = f"a time from {bounds.LEAST:g} to {bounds.MOST:g} s, null or NaN"
            raise ResultsError(f"result: {wanted} is wanted, got {str(value)[:60]!r}")
    without_time = np.where(failed, _FAILED, _NOT_APPLICABLE)
    return np.where(missing, without_time, _MEASURED).astype(np.int32), seconds


def _are_times(values: FloatArray) -> NDArray[np.bool_]:
    """Return which values are durations that can have been measured (`bounds.is_time`); NaN is none."""
    return (values >= bounds.LEAST) & (values <= bounds.MOST)


def _numbers(values: Sequence[object]) -> FloatArray:
    """Return a column of numbers; what is none is NaN, as is a number that no float holds."""
    if _PLAIN.issuperset(map(type, values)):
        with suppress(OverflowError):
            return np.array(values, np.float64)
    return np.array([value if bounds.is_number(value) else None for value in values], np.float64)
