"""A benchmark's row of a results file: its values as asv stores them, as columns. Pure.

A site's results hold thousands of rows; that a value is an object of its own is worth it where rounds belong to it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_velocity import bounds
from kernel_velocity.errors import ResultsError
from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results.measurement import ASV_INTERVAL_METHOD, OUTCOMES, IntArray, Interval, Outcome

Pair = tuple[str, str]  # implementation, case
_MEASURED, _NOT_APPLICABLE, _FAILED = (
    OUTCOMES.index(outcome) for outcome in (Outcome.MEASURED, Outcome.NOT_APPLICABLE, Outcome.FAILED)
)
_PLAIN = frozenset((float, int, type(None)))  # what numpy makes the same numbers of as we do; None becomes NaN


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
