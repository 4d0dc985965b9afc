"""The change points of a series of the site. Pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.harness.statistics import FloatArray
from tools import changepoints
from tools.changepoints_values import ChangePoint
from tools.columns import Columns, IntArray


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
    values, method = series
    found = [
        point
        for one in np.unique(method[~np.isnan(values)])
        for point in changepoints.detect(np.where(method == one, values, np.nan)).points
    ]
    return tuple(sorted(found, key=lambda point: point.index))
