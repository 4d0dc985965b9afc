"""Which values of a series can be compared, and which series are worth a trend. Pure.

Times of two timing methods are not compared. An entry is an index into the columns of a series.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from kernel_velocity.harness import cases
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.series.columns import Columns

Indices = NDArray[np.int64]
Truth = NDArray[np.bool_]
NONE = -1  # no entry to compare with


def alike(series: Columns, method: int) -> Truth:
    """Return which entries have a time that a time of a method (an index, -1: unknown) can be compared with."""
    like: Truth = series.is_measured & ((series.method == method) | (series.method < 0) | (method < 0))
    return like


def methods(series: Columns) -> list[int]:
    """Return the distinct timing methods of a series' entries (indices, -1: unknown)."""
    column = series.method
    if len(column) and (column == column[0]).all():  # nearly always, and a tenth of the time
        return [int(column[0])]
    several: list[int] = np.unique(column).tolist()
    return several


def before(series: Columns, first: int = 0) -> Indices:
    """Return, for every entry from `first` on, the newest comparable one before it. NONE where there is none.

    Entries of another method are passed over, so that a single one of them does not hide the next change.
    """
    base = np.full(len(series) - first, NONE, dtype=np.int64)
    for method in methods(series):
        measured, rows = np.flatnonzero(alike(series, method)), series.method[first:] == method
        last = np.searchsorted(measured, np.flatnonzero(rows) + first) - 1
        base[rows] = np.where(last < 0, NONE, measured[last] if len(measured) else NONE)
    return base


def telling(keys: Iterable[SeriesKey], applied: Container[SeriesKey]) -> Iterator[SeriesKey]:
    """Yield the series that are worth a trend.

    Those are the series of `applied`, which were more than n/a at some commit, and the other implementations of their
    test cases that can exist on the device.
    """
    keys = tuple(keys)
    test_cases = {test_case(key) for key in keys if key in applied}
    return (key for key in keys if key in applied or (test_case(key) in test_cases and _can_exist(key)))


def _can_exist(key: SeriesKey) -> bool:
    """Return whether an implementation can exist on the device of its series."""
    return key.implementation not in cases.ON_CUDA_ALONE or f".{cases.DEVICES['cuda']}." in key.benchmark


def test_case(key: SeriesKey) -> tuple[str, ...]:
    """Return the part of a key that the implementations of one test case share."""
    return key.machine, key.environment, key.benchmark, key.case
