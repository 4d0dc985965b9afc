"""What the readers hand to the pure modules: the nouns of a results directory and of the repository.

`measurements` joins the two sources of a time: telemetry is the authority for round estimates; where there is
none, asv's own value and interval are taken, and a footnote says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from benchmarks.harness.telemetry import Round
from tools import units
from tools.measurements import Interval, Measurement, Outcome, SeriesKey, from_rounds

NO_TELEMETRY = "no telemetry: asv's stored value with its 99% interval"
SERIES_NAME = re.compile(r"([A-Za-z]\w*)\.(Cpu|Cuda)\.time_(\w+)", re.ASCII)  # contract; names pages too


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


@dataclass(frozen=True, kw_only=True)
class ResultsFile:
    """The values of one commit in one environment on one machine, and the rounds telemetry has of them."""

    machine: str
    environment: str
    commit: str  # full SHA
    values: tuple[StoredValue, ...]
    rounds: Mapping[tuple[str, str, str], tuple[Round, ...]]  # (benchmark, implementation, case) -> rounds
    failures: Mapping[tuple[str, str, str], tuple[str, ...]]  # likewise, what failed rounds said, oldest first


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Everything that a results directory says."""

    benchmarks: Mapping[str, Benchmark] | None  # None: benchmarks.json cannot be read
    machines: tuple[Machine, ...]
    files: tuple[ResultsFile, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit. Message and author are what somebody typed: data, to be escaped wherever they are shown."""

    sha: str
    parents: tuple[str, ...]
    author: str
    date: datetime  # the author's, with his time zone
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


def measurements(recorded: Recorded) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """Return the measurement of every value that can be shown, and a note for each kind that cannot."""
    found: dict[tuple[SeriesKey, str], Measurement] = {}
    left_out: Counter[str] = Counter()
    for file, value in _values(recorded):
        reason = _unshowable(value, recorded)
        item = _measurement(file, value, recorded.benchmarks or {})
        if reason is None and (item.key, item.commit) in found:
            reason = f"stands in two files for commit {item.commit[:8]} on {item.key.machine}; the first is shown"
        if reason is None:
            found[item.key, item.commit] = item
        else:
            left_out[f"{value.benchmark} {reason}"] += 1
    notes = tuple(
        f"{text} ({units.count(number, 'value')} kept, not shown)" for text, number in sorted(left_out.items())
    )
    return tuple(found.values()), notes


def _values(recorded: Recorded) -> Iterator[tuple[ResultsFile, StoredValue]]:
    for file in recorded.files:
        for value in file.values:
            yield file, value


def _unshowable(value: StoredValue, recorded: Recorded) -> str | None:
    """Return why a value has no place on a trend; None where it has one."""
    if not SERIES_NAME.fullmatch(value.benchmark):
        return "is not named <kernel>.<Cpu|Cuda>.time_<state>"
    if recorded.benchmarks is None:
        return None
    benchmark = recorded.benchmarks.get(value.benchmark)
    if benchmark is None:
        return "is no longer in benchmarks.json"
    if value.version is not None and value.version != benchmark.version:
        return f"was recorded as version {value.version[:12]}, now it is {benchmark.version[:12]}"
    return None


def _measurement(file: ResultsFile, value: StoredValue, benchmarks: Mapping[str, Benchmark]) -> Measurement:
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
    rounds, errors = file.rounds.get(place, ()), file.failures.get(place, ())
    if value.outcome is Outcome.MEASURED and rounds:
        item = from_rounds(key, file.commit, rounds, flop=flop, bytes_moved=bytes_moved)
        return replace(item, warnings=item.warnings + _failed_rounds(errors))
    return Measurement(
        key=key,
        commit=file.commit,
        outcome=value.outcome,
        seconds=value.seconds,
        interval=value.interval,
        flop=flop,
        bytes_moved=bytes_moved,
        reason=errors[-1] if errors and value.outcome is not Outcome.MEASURED else None,
        warnings=_warnings(value.outcome, len(rounds), errors),
    )


def _warnings(outcome: Outcome, rounds: int, errors: Sequence[str]) -> tuple[str, ...]:
    if outcome is Outcome.MEASURED:
        return (NO_TELEMETRY, *_failed_rounds(errors))
    # A kernel that was timed and then found wrong has no time: what it did before proves nothing.
    return (f"{units.count(rounds, 'round')} timed before it failed",) if rounds else ()


def _failed_rounds(errors: Sequence[str]) -> tuple[str, ...]:
    return (f"{units.count(len(errors), 'further round')} failed, the last with: {errors[-1]}",) if errors else ()
