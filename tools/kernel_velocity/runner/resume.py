"""Plan how an interrupted run resumes: which commits need how many more rounds. Pure.

Rounds are interleaved over the commits of a run, so an interruption leaves every commit with about as many. A resumed
run measures the missing ones. Rounds of an earlier session are measured again, because sessions differ (docs: false
alarms) and a measurement should be of one session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results.asv_file import Series, StoredSeries

LONGEST = 6 * 3600.0  # s, of one session; longer than a night's default budget, shorter than a machine's drift


@dataclass(frozen=True, kw_only=True)
class Step:
    """One run of asv: `rounds` more rounds of each of some commits."""

    commits: tuple[str, ...]
    rounds: int
    append: bool  # whether to append to the stored rounds, else replace them


def steps(done: Mapping[str, int], rounds: int) -> tuple[Step, ...]:
    """Return the runs of asv that bring every commit to `rounds` rounds. The commits with the fewest come first.

    Args:
        done: resumable rounds by commit, in the order in which asv gets the commits.
    """
    levels = sorted({*(number for number in done.values() if number < rounds), rounds})
    return tuple(
        Step(
            commits=tuple(commit for commit, number in done.items() if number <= low),
            rounds=high - low,
            append=low > 0,
        )
        for low, high in pairwise(levels)
    )


def resumable_rounds(
    stored: Mapping[Series, StoredSeries],
    measured: Mapping[Series, Sequence[Round]],
    wanted: Iterable[Series],
    *,
    failures: Mapping[Series, int],
    rounds: int,
    method: str,
    now: float,
) -> int:
    """Return how many rounds of a commit a run can append to. 0: it measures all rounds.

    Every series with a value must have the same number of rounds (a failed round counts), each with its sample and its
    telemetry, timed by this run's method in this session.

    Args:
        stored: asv's values. measured: the recorded rounds. wanted: the run's series.
        failures: number of recorded failures of a series.
        rounds: of a complete measurement. method: of this run.
        now: Unix time, s. Rounds that began later, or more than LONGEST earlier, belong to another session.
    """
    counts: set[int] = set()
    for series in wanted:
        value = stored.get(series)
        if value is None:
            return 0
        if value.value is None:
            if not (value.failed or failures.get(series, 0)):
                return 0  # an earlier run left it out
            continue
        records = measured.get(series, ())
        if value.samples is None or len(records) != len(value.samples):
            return 0
        if not all(record.method == method and now - LONGEST <= record.time <= now for record in records):
            return 0
        counts.add(len(records) + failures.get(series, 0))
    (count,) = counts if len(counts) == 1 else (0,)
    return count if count < rounds else 0


def summary(done: Mapping[str, int], rounds: int, digits: int) -> str | None:
    """Return a line on the resumed commits, named by `digits` digits. None where none is resumed."""
    commits = [f"{commit[:digits]} after {number}" for commit, number in done.items() if number]
    return f"resuming {', '.join(commits)} of {rounds} rounds" if commits else None
