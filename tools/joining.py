"""Which rounds a stored result rests on: telemetry lines joined to asv's results. Pure: values in, values
out.

asv stores the estimate of a round as a sample, untruncated, so that a line and a sample with equal numbers
are the same round. Without `--record-samples` only the median and the count are stored; the newest run of
lines with that median is the measurement. Where even that fails, time decides.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.harness.telemetry import Round
from tools.failures import Failure

TIME_SLACK = 1.0  # s by which asv's clock readings may miss a round, its own start-up


@dataclass(frozen=True, kw_only=True)
class StoredSeries:
    """What asv stores of one commit, benchmark and parameter combination. Unknown is None."""

    value: float | None  # seconds per call; None where it failed or does not apply
    failed: bool
    samples: tuple[float, ...] | None  # round estimates, seconds per call
    count: int | None  # samples that the value rests on
    started_at: float | None  # Unix time, s; of the last round where rounds were interleaved
    duration: float | None  # s


def join(rounds: Sequence[Round], stored: StoredSeries) -> tuple[Round, ...]:
    """Return those of `rounds` (one series of one commit) that the stored value rests on, in order of time."""
    ordered = sorted(dict.fromkeys(rounds), key=lambda item: item.time)
    if stored.value is None:
        return ()
    if stored.samples is not None:
        return _by_estimate(ordered, stored.samples)
    return _by_median(ordered, stored.value, stored.count) or _by_time(ordered, stored)


def _by_estimate(ordered: Sequence[Round], samples: Sequence[float]) -> tuple[Round, ...]:
    wanted = Counter(samples)
    found: list[Round] = []
    for item in reversed(ordered):
        if wanted[item.estimate] > 0:
            wanted[item.estimate] -= 1
            found.append(item)
    return tuple(reversed(found))


def _by_median(ordered: Sequence[Round], value: float, count: int | None) -> tuple[Round, ...]:
    if count is None:
        return ()
    for end in range(len(ordered), count - 1, -1):
        window = ordered[end - count : end]
        if math.isclose(statistics.median(item.estimate for item in window), value, rel_tol=1e-12):
            return tuple(window)
    return ()


def _by_time(ordered: Sequence[Round], stored: StoredSeries) -> tuple[Round, ...]:
    if stored.started_at is None or stored.duration is None:
        return ()
    first, last = stored.started_at - TIME_SLACK, stored.started_at + stored.duration + TIME_SLACK
    return tuple(item for item in ordered if first <= item.time <= last)


def to_restore(rounds: Sequence[Round], stored: StoredSeries, failures: Sequence[Failure]) -> tuple[Round, ...]:
    """Return the good rounds whose value asv dropped, because a later round crashed or a build failed;
    often none.

    A wrong kernel is wrong in every round: where a round raised (numbers that failed verification among the
    reasons), nothing is restored. A round whose process died says nothing about the others.
    """
    if not stored.failed or not rounds:
        return ()
    ordered = sorted(dict.fromkeys(rounds), key=lambda item: item.time)
    newest = [item for item in ordered if item.method == ordered[-1].method]
    if any(
        not failure.died and not failure.skipped and failure.time >= newest[0].time - TIME_SLACK for failure in failures
    ):
        return ()
    return tuple(newest)


def still_true(failures: Sequence[Failure], rounds: Sequence[Round], stored: StoredSeries) -> list[Failure]:
    """Return the failures of the stored measurement: all where it failed, else those since its first round.

    Of what does not apply, every round says the same: the newest line is kept, and none once there is a time.
    """
    skipped = sorted((failure for failure in failures if failure.skipped), key=lambda failure: failure.time)[-1:]
    failed = [failure for failure in failures if not failure.skipped]
    if stored.failed:
        return failed
    if not rounds:
        return [*failed, *skipped]
    first = min(item.time for item in rounds) - TIME_SLACK
    return [failure for failure in failed if failure.time >= first]
