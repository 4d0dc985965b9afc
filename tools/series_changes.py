"""The change points of a series of the site. Pure."""

from __future__ import annotations

import numpy as np

from tools import changepoints
from tools.changepoints_values import ChangePoint
from tools.columns import Columns


def of(columns: Columns) -> tuple[ChangePoint, ...]:
    """Return the change points of a series, oldest first; their indices are entries of `columns`.

    Of the logarithms of the adjusted times where there are such, as verdicts are made from (`histories`). Values of two
    timing methods are two series: no step is found between them.
    """
    seconds = np.where(np.isnan(columns.adjusted), columns.seconds, columns.adjusted)
    logs = np.log(np.where(columns.is_measured, seconds, np.nan))
    found = [
        point
        for method in np.unique(columns.method[columns.is_measured])
        for point in changepoints.detect(np.where(columns.method == method, logs, np.nan).tolist()).points
    ]
    return tuple(sorted(found, key=lambda point: point.index))
