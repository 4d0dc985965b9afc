"""Join telemetry to asv's results: which rounds a stored value rests on, and what happens to the value. Pure.

asv stores the estimate of a round as a sample, untruncated, so a line and a sample of equal numbers are the same round.
Without `--record-samples` only the median and the count are stored. Then the newest lines with that median are the
measurement. Where no lines have it, time decides.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results.failures import Failure

TIME_SLACK = 1.0  # s by which asv's times may miss a round: its own start-up


@dataclass(frozen=True, kw_only=True)
class StoredSeries:
    """The value that asv stores of a series at a commit. Unknown is None."""

    value: float | None  # seconds per call; None where it failed or does not apply
    failed: bool
    samples: tuple[float, ...] | None  # round estimates, seconds per call
    count: int | None  # samples that the value rests on
    started_at: float | None  # Unix time, s; of the last round where rounds were interleaved
    duration: float | None  # s


def join(rounds: Sequence[Round], stored: StoredSeries) -> tuple[Round, ...]:
    """Return those of `rounds` (one series of one commit) that the stored value rests on, in order of time."""
    ordered = sorted(dict.fromkeys(rounds), key=lambda round_: round_.time)
    if stored.value is None:
        return ()
    if stored.samples is not None:
        return _by_estimate(ordered, stored.samples)
    return _by_median(ordered, stored.value, stored.count) or _by_time(ordered, stored)


def _by_estimate(ordered: Sequence[Round], samples: Sequence[float]) -> tuple[Round, ...]:
    wanted = Counter(samples)
    joined: list[Round] = []
    for round_ in reversed(ordered):
        if wanted[round_.estimate] > 0:
            wanted[round_.estimate] -= 1
            joined.append(round_)
    return tuple(reversed(joined))


def _by_median(ordered: Sequence[Round], value: float, count: int | None) -> tuple[Round, ...]:
    if count is None:
        return ()
    for end in range(len(ordered), count - 1, -1):
        window = ordered[end - count : end]
        if math.isclose(statistics.median(round_.estimate for round_ in window), value, rel_tol=1e-12):
            return tuple(window)
    return ()


def _by_time(ordered: Sequence[Round], stored: StoredSeries) -> tuple[Round, ...]:
    if stored.started_at is None or stored.duration is None:
        return ()
    first, last = stored.started_at - TIME_SLACK, stored.started_at + stored.duration + TIME_SLACK
    return tuple(round_ for round_ in ordered if first <= round_.time <= last)


class Change(enum.Enum):
    """What to do with the value that asv stored."""

    NONE = "none"
    RESTORE = "restore"  # asv dropped rounds that were good
    WITHDRAW = "withdraw"  # a round raised, so that there is no time


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A series after its new lines are taken into account."""

    change: Change
    rounds: tuple[Round, ...]  # for the telemetry, and for asv where they are to be restored


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The lines of one series: those beside the results, and those that came since."""

    recorded: Sequence[Round] = ()
    new: Sequence[Round] = ()
    recorded_failures: Sequence[Failure] = ()
    new_failures: Sequence[Failure] = ()


def settle(stored: StoredSeries, evidence: Evidence) -> Settled:
    """Return the rounds that a series rests on, and what to do with the stored value.

    A wrong kernel is wrong in every round. So where a round raised, for example because its numbers failed
    verification, asv's value of the others is withdrawn. A round whose process died says nothing about the others: asv
    drops the rounds before it, and they are restored. Rounds of the session before are restored only where this session
    has neither rounds nor failures, because the build failed.
    """
    if stored.value is not None:
        return _settle_value(stored, evidence)
    if stored.failed and not any(failure.raised for failure in evidence.new_failures):
        return _settle_failure(evidence)
    return Settled(change=Change.NONE, rounds=tuple(evidence.recorded))


def _settle_value(stored: StoredSeries, evidence: Evidence) -> Settled:
    joined = join([*evidence.recorded, *evidence.new], stored)
    rounds, session = joined or tuple(evidence.recorded), _session(evidence)
    raised = any(failure.raised for failure in evidence.new_failures)
    if raised or (joined and raised_since(evidence.recorded_failures, joined)):
        return Settled(change=Change.WITHDRAW, rounds=rounds)
    died = any(failure.died for failure in evidence.new_failures)
    if died and not session and not set(joined) & set(evidence.new):  # in every round: the value is the earlier one
        return Settled(change=Change.WITHDRAW, rounds=())
    if died and len(session) > len(joined if stored.samples is None else stored.samples):
        return Settled(change=Change.RESTORE, rounds=session)
    return Settled(change=Change.NONE, rounds=rounds)


def _settle_failure(evidence: Evidence) -> Settled:
    if session := _session(evidence):
        return Settled(change=Change.RESTORE, rounds=session)
    if any(failure.died for failure in evidence.new_failures):  # in every round: what was measured before is over
        return Settled(change=Change.NONE, rounds=())
    if evidence.recorded and not any(failure.raised for failure in evidence.recorded_failures):
        return Settled(change=Change.RESTORE, rounds=_of_one_method(evidence.recorded))
    return Settled(change=Change.NONE, rounds=tuple(evidence.recorded))


def _session(evidence: Evidence) -> tuple[Round, ...]:
    """Return the new rounds since the last measurement, those of the newest timing method, in order of time."""
    # What an interrupted ingest wrote already is still new
    before = [round_.time for round_ in set(evidence.recorded) - set(evidence.new)]
    before += [
        failure.time for failure in set(evidence.recorded_failures) - set(evidence.new_failures) if failure.raised
    ]
    return _of_one_method([round_ for round_ in evidence.new if round_.time > max(before, default=-math.inf)])


def _of_one_method(rounds: Sequence[Round]) -> tuple[Round, ...]:
    ordered = sorted(dict.fromkeys(rounds), key=lambda round_: round_.time)
    return tuple(round_ for round_ in ordered if round_.method == ordered[-1].method)


def raised_since(failures: Sequence[Failure], rounds: Sequence[Round]) -> bool:
    """Return whether a round raised during the measurement of `rounds` (>= 1), or later."""
    first = min(round_.time for round_ in rounds) - TIME_SLACK
    return any(failure.raised and failure.time >= first for failure in failures)


def still_true(failures: Sequence[Failure], rounds: Sequence[Round], stored: StoredSeries) -> list[Failure]:
    """Return the failures of the stored measurement: all if it failed, else those since its first round.

    Where the series does not apply, every round has the same reason. Only the newest one is returned, and none once
    there is a time.
    """
    skipped = sorted((failure for failure in failures if failure.skipped), key=lambda failure: failure.time)[-1:]
    failed = [failure for failure in failures if failure.raised or failure.died]
    if stored.failed:
        return failed
    if not rounds:
        return [*failed, *skipped]
    first = min(round_.time for round_ in rounds) - TIME_SLACK
    return [failure for failure in failed if failure.time >= first]
