"""The change points of many series, from what is kept of them and from nothing: the same, to the last bit. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints import incremental as changepoints_kept
from kernel_velocity.stats.changepoints import many as changepoints_along
from kernel_velocity.stats.changepoints.incremental import Kept


def found(series: Sequence[FloatArray], known: Sequence[Kept | None]) -> list[Kept]:
    """Return every series with its change points; the very object that is known of one that is as it was.

    Args:
        series: log values, NaN where there is none.
        known: what is kept of each, whatever became of its values; None: nothing.
    """
    result: dict[int, Kept] = {}
    for more, those in _grown(series, known).items():
        if more == 0:
            result |= {number: _longer(series[number], kept) for number, kept in those.items()}
            continue
        there = [series[number][~np.isnan(series[number])] for number in those]
        reached = changepoints_along.extended(there, [*those.values()], more)
        for number, own in zip(those, reached, strict=True):
            result[number] = changepoints_kept.found(series[number], own)
    return [result.get(number) or changepoints_kept.found(values) for number, values in enumerate(series)]


def _longer(values: FloatArray, kept: Kept) -> Kept:
    """Return what is kept of a series that got no point, though maybe entries without one."""
    if len(values) == kept.values:
        return kept
    return replace(kept, values=len(values), said=changepoints_kept.digest(values))


def _grown(series: Sequence[FloatArray], known: Sequence[Kept | None]) -> dict[int, dict[int, Kept]]:
    """Return the series that only got further points, a few or none, by how many."""
    by_count: dict[int, dict[int, Kept]] = {}
    for number, (values, kept) in enumerate(zip(series, known, strict=True)):
        if kept is None or len(values) < kept.values:
            continue
        if changepoints_kept.digest(values[: kept.values]) != kept.said:
            continue
        more = int(np.count_nonzero(~np.isnan(values[kept.values :])))
        if more == 0 or changepoints_along.is_extension(kept.size, more):
            by_count.setdefault(more, {})[number] = kept
    return by_count
