"""Find the change points of many series, from what is kept of them: the same as from nothing, to the last bit. Pure.

Most new points change nothing: two windows that differ too little, a window without a cut, a last change that is by far
the best one still. A detector needs as many numpy calls to see that as to search. For hundreds of series at once it
takes hardly any calls. What may have changed, even by rounding, is left to the detector.

Series are rows that end with the same column, the newest point, so that as many points follow a column in all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints import edivisive, incremental, pelt, windows
from kernel_velocity.stats.changepoints.edivisive import HALF_ON, WINDOW, may_differ
from kernel_velocity.stats.changepoints.incremental import Kept
from kernel_velocity.stats.changepoints.noise import HALF_WIDTH, clipped
from kernel_velocity.stats.changepoints.values import MIN_EFFECT
from kernel_velocity.stats.growth import grown

MOST = 16  # new points, at most: with more, a series is as soon searched from its first point
FEWEST = 2 * WINDOW  # points before them: shorter series cost little
# Margin for rounding in a difference of two means: share of the largest value (36 operations)
ROUNDING = 1e-12

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]


class Rows(NamedTuple):
    """Series, the last points of each in the last columns."""

    values: FloatArray  # (series, points) values that are present; 0 before the first one
    sizes: IntArray  # (series,) points


def found(series: Sequence[FloatArray], known: Sequence[Kept | None]) -> list[Kept]:
    """Return every series with its change points. The very object that is known of one that is as it was.

    Args:
        series: log values, NaN where there is none.
        known: what is kept of each, whatever its values have become. None: nothing.
    """
    result: dict[int, Kept] = {}
    for more, group in _grown(series, known).items():
        if more == 0:
            for number, kept in group.items():
                values = series[number]
                is_same = len(values) == kept.values  # else it got entries without a value
                result[number] = kept if is_same else replace(kept, values=len(values), said=incremental.digest(values))
            continue
        present = [series[number][~np.isnan(series[number])] for number in group]
        for number, kept in zip(group, extended(present, [*group.values()], more), strict=True):
            result[number] = incremental.found(series[number], kept)
    return [result.get(number) or incremental.found(values) for number, values in enumerate(series)]


def _grown(series: Sequence[FloatArray], known: Sequence[Kept | None]) -> dict[int, dict[int, Kept]]:
    """Return the series that only got a few further points or none, by how many."""
    by_count: dict[int, dict[int, Kept]] = {}
    for number, (values, kept) in enumerate(zip(series, known, strict=True)):
        if kept is None or len(values) < kept.values or incremental.digest(values[: kept.values]) != kept.said:
            continue
        more = int(np.count_nonzero(~np.isnan(values[kept.values :])))
        if more == 0 or (kept.size >= FEWEST and more <= MOST):
            by_count.setdefault(more, {})[number] = kept
    return by_count


def extended(series: Sequence[FloatArray], known: Sequence[Kept], more: int) -> list[Kept]:
    """Return the state of the detectors in series that got further points, without what they must search anew.

    Args:
        series: (n,) log values of each that are present.
        known: what is kept of each, of its first n - more points.
        more: points, at least 1.
    """
    sizes = np.array([values.size for values in series], dtype=np.int64)
    rows = Rows(np.zeros((len(series), int(sizes.max()))), sizes)
    for row, values in zip(rows.values, series, strict=True):
        row[row.size - values.size :] = values
    reached = [each.reached for each in known]
    unmoved = _unmoved(rows, more)
    start, is_quiet = _quiet(rows, np.array([each.by_edivisive.start for each in reached]))
    by_pelt = _pelt(series, rows, [each.by_pelt for each in reached], more)
    return [
        replace(
            kept,
            reached=replace(
                kept.reached,
                by_windows=kept.reached.by_windows if unmoved[row] else None,
                by_edivisive=replace(kept.reached.by_edivisive, start=int(start[row]), is_quiet=bool(is_quiet[row])),
                by_pelt=by_pelt[row],
            ),
        )
        for row, kept in enumerate(known)
    ]


def _unmoved(rows: Rows, more: int) -> BoolArray:
    """Return in which series no place that can be tested only now is a step of the two windows."""
    width = windows.BACK[1] + windows.AHEAD
    unmoved = np.ones(len(rows.values), np.bool_)
    largest = np.abs(rows.values).max(axis=1, initial=0.0)
    for end in range(rows.values.shape[1] - more + 1, rows.values.shape[1] + 1):
        moved, strengths = windows.strengths(rows.values[:, end - width : end])
        unmoved &= (moved < MIN_EFFECT - ROUNDING * (1 + largest)) | (
            strengths < windows.T * (1 - windows.inexactness(largest))
        )
    return unmoved


def _quiet(rows: Rows, start: IntArray) -> tuple[IntArray, BoolArray]:
    """Return where E-divisive's window that is not full begins, and whether it has no cut.

    A full window that may have a cut is left to the search, which begins with it.
    """
    start, has_none = start.copy(), np.ones(len(start), np.bool_)
    while (full := np.flatnonzero(has_none & (rows.sizes - start >= WINDOW))).size:
        has_none[full] = ~may_differ(_windows(rows, full, start[full], WINDOW))
        start[full[has_none[full]]] += HALF_ON
    sizes = rows.sizes - start
    for size in np.unique(sizes[has_none]).tolist():
        which = np.flatnonzero(has_none & (sizes == size))
        if size >= edivisive.FEWEST:
            has_none[which] = ~may_differ(_windows(rows, which, start[which], size))
    return start, has_none


def _windows(rows: Rows, which: IntArray, start: IntArray, size: int) -> FloatArray:
    """Return the windows of some series that begin at a place of each: (which, size)."""
    first = rows.values.shape[1] - rows.sizes[which] + start
    result: FloatArray = rows.values[which[:, None], first[:, None] + np.arange(size)]
    return result


def _pelt(
    series: Sequence[FloatArray], rows: Rows, known: Sequence[pelt.Reached | None], more: int
) -> list[pelt.Reached | None]:
    """Return the state of PELT where its cuts stay as they were. None elsewhere.

    The costs are the same sums as in `pelt.cheapest`, in the same order, over all cuts before each place.
    """
    result: list[pelt.Reached | None] = [None] * len(known)
    states = {row: state for row, state in enumerate(known) if state and state.basis == grown(series[row].size)}
    if not states:
        return result
    width = rows.values.shape[1]
    price = np.array([pelt.penalty(state.sigma, state.basis) for state in states.values()])
    sums = np.zeros((len(states), width + 1))
    squares, costs = np.zeros_like(sums), np.full_like(sums, np.inf)
    end = width + 1 - HALF_WIDTH  # columns of the places whose clipped points are final
    last = np.zeros(len(states), np.int64)
    for number, (row, state) in enumerate(states.items()):
        centred = clipped(series[row], state.sigma) - series[row][0]
        sums[number, width + 1 - centred.size :] = centred.cumsum()
        squares[number, width + 1 - centred.size :] = (centred * centred).cumsum()
        costs[number, end - more - state.costs.size : end - more] = state.costs
        last[number] = (state.cuts[-1] if state.cuts else 0) + width - centred.size
    for place in range(end - more, end):
        costs[:, place] = _costs(costs, sums, squares, place).min(axis=1) + price
    of_all = _costs(costs, sums, squares, width)
    each = np.arange(len(states))
    least = of_all[each, last]
    of_all[each, last] = np.inf
    slack = 2 * pelt.ROUNDING * (squares[:, width] + price)
    for number in np.flatnonzero(of_all.min(axis=1) > least + slack).tolist():
        row, state = [*states.items()][number]
        result[row] = replace(state, costs=np.concatenate([state.costs, costs[number, end - more : end]]))
    return result


def _costs(costs: FloatArray, sums: FloatArray, squares: FloatArray, place: int) -> FloatArray:
    """Return the cost of every cut as the last one before a place: (series, cuts far enough from it)."""
    far = place - pelt.FEWEST_A_SIDE + 1
    explained = sums[:, place, None] - sums[:, :far]
    explained *= explained
    explained /= place - np.arange(far)
    result: FloatArray = squares[:, place, None] - squares[:, :far]
    result += costs[:, :far]
    result -= explained
    return result
