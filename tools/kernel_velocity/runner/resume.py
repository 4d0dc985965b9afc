"""How a run goes on after one that was cut off: with the rounds that are missing, all of its commits in turns. Pure.

Rounds are interleaved over the commits of a run, so whatever cuts it off leaves every commit with about as many. To
begin anew would measure all of them a second time in vain; only what an earlier session of the machine measured is
measured again, for sessions differ (README) and a measurement should be of one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.join import StoredSeries, join

LONGEST = 6 * 3600.0  # s; longer than a night's default budget, shorter than a machine keeps its mood


@dataclass(frozen=True, kw_only=True)
class Step:
    """One run of asv: some commits, each so many rounds further."""

    commits: tuple[str, ...]
    rounds: int
    append: bool  # whether they are added to the rounds that are stored; else they take their place


def steps(kept: Mapping[str, int], rounds: int) -> tuple[Step, ...]:
    """Return the runs of asv that bring every commit to `rounds` rounds, those that are behind first.

    Args:
        kept: rounds by commit to go on from, in the order that asv is given the commits.
    """
    levels = sorted({*(number for number in kept.values() if number < rounds), rounds})
    return tuple(
        Step(
            commits=tuple(commit for commit, number in kept.items() if number <= low),
            rounds=high - low,
            append=low > 0,
        )
        for low, high in pairwise(levels)
    )


def kept_rounds(
    stored: Mapping[Series, StoredSeries],
    measured: Mapping[Series, Sequence[Round]],
    wanted: Iterable[Series],
    *,
    told: Mapping[Series, int],
    rounds: int,
    method: str,
    now: float,
) -> int:
    """Return how many rounds of a commit a run can go on from; 0: it begins anew.

    Every series with a value must have the same number of rounds (one that died counts), each with its sample and its
    telemetry, timed by this run's method in this session.

    Args:
        stored: what asv stores. measured: the rounds kept beside it. wanted: the series asked for.
        told: how many rounds of a series said why they have no value.
        rounds: how many are asked for. method: of this run.
        now: Unix time, s; what began more than LONGEST before it, or after it, belongs to another session.
    """
    numbers: set[int] = set()
    for series in wanted:
        item = stored.get(series)
        if item is None:
            return 0
        if item.value is None:
            if not (item.failed or told.get(series, 0)):
                return 0  # it was not asked for
            continue
        found = join(measured.get(series, ()), item)
        if item.samples is None or len(found) != len(item.samples) or not _of_now(found, method, now):
            return 0
        numbers.add(len(found) + told.get(series, 0))
    (number,) = numbers if len(numbers) == 1 else (0,)
    return number if number < rounds else 0


def _of_now(found: Collection[Round], method: str, now: float) -> bool:
    return all(item.method == method and now - LONGEST <= item.time <= now for item in found)


def said(kept: Mapping[str, int], rounds: int, digits: int) -> str | None:
    """Return what a run goes on from, in a line; None where it begins anew. `digits`: of a commit."""
    found = [f"{commit[:digits]} after {number}" for commit, number in kept.items() if number]
    return f"going on with {', '.join(found)} of {rounds} rounds" if found else None
