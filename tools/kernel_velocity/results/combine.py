"""Combine a recorded value with its telemetry into a measurement.

Telemetry decides where it is of the same run as asv's value. Else asv's own value and interval are taken, and a
footnote says so. Pure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kernel_velocity import units
from kernel_velocity.harness.cases import CONTROLS
from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results import identity, sessions
from kernel_velocity.results.failures import Failure
from kernel_velocity.results.join import raised_since
from kernel_velocity.results.measurement import (
    ASV_INTERVAL_METHOD,
    OUTCOMES,
    Interval,
    Measurement,
    Outcome,
    SeriesKey,
    from_rounds,
)
from kernel_velocity.results.records import AGREEMENT, Benchmark, RecordedRow, ResultsFile, name_parts

OTHER_TELEMETRY = "telemetry is of another run: asv's stored value with its 99% interval"
NO_TELEMETRY = "no telemetry: asv's stored value with its 99% interval"


def measurement(file: ResultsFile, row: RecordedRow, index: int, benchmarks: Mapping[str, Benchmark]) -> Measurement:
    """Return one value of a row as a measurement.

    Args:
        file: that has the row. index: of the value in the row.
        benchmarks: give FLOP, bytes, and a version that is not stored. A benchmark that is absent has none of them.
    """
    benchmark, (implementation, case) = benchmarks.get(row.benchmark), row.pairs[index]
    key = SeriesKey(
        machine=file.machine,
        environment=file.environment,
        benchmark=row.benchmark,
        implementation=implementation,
        case=case,
        version=row.version or (benchmark.version if benchmark else ""),
    )
    flop = benchmark.flop.get(case) if benchmark else None
    bytes_moved = benchmark.bytes_moved.get(case) if benchmark else None
    series = (row.benchmark, implementation, case)
    rounds, failures = file.rounds.get(series, ()), file.failures.get(series, ())
    seconds, low, high = float(row.seconds[index]), float(row.low[index]), float(row.high[index])
    recorded = Measurement(
        key=key,
        commit=file.commit,
        outcome=OUTCOMES[row.outcome[index]],
        seconds=None if math.isnan(seconds) else seconds,
        interval=None if math.isnan(low) else Interval(low=low, high=high, method=ASV_INTERVAL_METHOD),
        flop=flop,
        bytes_moved=bytes_moved,
        warnings=() if rounds or math.isnan(seconds) else (*without_telemetry(row), *_lost_rounds(failures)),
        unit=benchmark.unit if benchmark else identity.unit(row.benchmark),
    )
    if recorded.outcome is not Outcome.MEASURED:
        return _without_time(recorded, rounds, failures)
    if not rounds:
        return recorded
    measured = from_rounds(key, file.commit, rounds, flop=flop, bytes_moved=bytes_moved)
    if not _agree(seconds, measured, rounds):
        return replace(recorded, warnings=(OTHER_TELEMETRY,))
    if raised_since(failures, rounds):
        failed = replace(recorded, outcome=Outcome.FAILED, seconds=None, interval=None)
        return _without_time(failed, rounds, failures)
    return replace(measured, warnings=measured.warnings + _lost_rounds(failures))


def without_telemetry(row: RecordedRow) -> tuple[str, ...]:
    """Return the footnote of a value without telemetry. None for another suite, which never has any."""
    return (NO_TELEMETRY,) if name_parts(row.benchmark).device else ()


def _agree(stored: float, measured: Measurement, rounds: Sequence[Round]) -> bool:
    """Return whether asv's value is the median of all rounds, or of those that `measured` takes of them."""
    medians = (measured.seconds, statistics.median(round_.estimate for round_ in rounds))
    return any(median is not None and math.isclose(stored, median, rel_tol=AGREEMENT) for median in medians)


def _without_time(measurement: Measurement, rounds: Sequence[Round], failures: Sequence[Failure]) -> Measurement:
    """Return a measurement with the reason why it has no time: the last exception, else the last failure."""
    raised = [failure for failure in failures if failure.raised and measurement.outcome is Outcome.FAILED]
    reason = (raised or list(failures))[-1].error if failures else None
    # A kernel that was timed and then computed wrong numbers has no time: how it got them proves nothing.
    warnings = (f"{units.count(len(rounds), 'round')} timed before it failed",) if rounds else ()
    return replace(measurement, reason=reason, warnings=warnings)


def _lost_rounds(failures: Sequence[Failure]) -> tuple[str, ...]:
    if not failures:
        return ()
    lost = f"{units.count(len(failures), 'further round')} lost to a crash or a timeout"
    return (f"{lost}, the last with: {failures[-1].error}",)


def rounds_of(file: ResultsFile, measurement: Measurement) -> list[Round]:
    """Return the rounds that a measurement of a file is made of. None where it is asv's own value."""
    if measurement.method is None:
        return []
    series = (measurement.key.benchmark, measurement.key.implementation, measurement.key.case)
    return [round_ for round_ in file.rounds[series] if round_.method == measurement.method]


def code_of(file: ResultsFile, key: SeriesKey, rounds: Sequence[Round]) -> str | None:
    """Return the hash of the code that rounds (>= 1) of a series measured. None where no session recorded it.

    The code of a control is PyTorch's, the same for all commits of an environment.
    """
    if key.implementation in CONTROLS:
        return key.implementation
    session = sessions.at(file.sessions, max(round_.time for round_ in rounds))
    return None if session is None else session.code.get(name_parts(key.benchmark).kernel)
