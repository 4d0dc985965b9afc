"""The change points of a series of the site. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.results.measurement import IntArray
from kernel_velocity.series.columns import Columns
from kernel_velocity.stats.changepoints import vote as changepoints
from kernel_velocity.stats.changepoints.values import ChangePoint


class Logs(NamedTuple):
    """What the change points of a series follow from; both arrays have shape (commits,)."""

    values: FloatArray  # logarithms of the adjusted times where there are such, else of the times; NaN without one
    method: IntArray  # which timing method each was taken by


def of(columns: Columns) -> tuple[ChangePoint, ...]:
    """Return the change points of a series, oldest first; their indices are entries of `columns`.

    Of the logarithms of the adjusted times where there are such, as verdicts are made from (`histories`). Values of two
    timing methods are two series: no step is found between them.
    """
    return within(logs(columns))


def logs(columns: Columns) -> Logs:
    """Return what the change points of a series follow from."""
    seconds = np.where(np.isnan(columns.adjusted), columns.seconds, columns.adjusted)
    return Logs(values=np.log(np.where(columns.is_measured, seconds, np.nan)), method=columns.method)


def within(series: Logs) -> tuple[ChangePoint, ...]:
    """Return the change points of a series, as `of`."""
    return joined(changepoints.detect(values).points for values in by_method(series).values())


def by_method(series: Logs) -> dict[int, FloatArray]:
    """Return the values of each timing method, NaN where there is one of another method."""
    values, method = series
    used = method[~np.isnan(values)]
    if used.size and (used == used[0]).all():
        return {int(used[0]): values}
    return {one: np.where(method == one, values, np.nan) for one in np.unique(used).tolist()}


def joined(found: Iterable[Sequence[ChangePoint]]) -> tuple[ChangePoint, ...]:
    """Return the change points of all timing methods together."""
    return tuple(sorted((point for points in found for point in points), key=lambda point: point.index))
