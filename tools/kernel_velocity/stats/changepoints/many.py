"""What a few more points of many series leave as it was, found for all of them at once. Pure.

Most points say nothing new: two windows that differ too little, a window without a cut, a last change that is by far
the best one still. To see that takes a detector as many numpy calls a series as to look; of hundreds of series at once
it takes hardly any. What may have changed, and be it for rounding, is left to the detector.

Series stand in rows that end with the same column, the newest point; of a place, the points before it, all rows have
the same number of points behind it then.

The change points of many series, from what is kept of them and from nothing: the same, to the last bit. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints import edivisive, incremental, windows
from kernel_velocity.stats.changepoints import pelt as changepoints_pelt
from kernel_velocity.stats.changepoints.edivisive import HALF_ON, WINDOW, may_differ
from kernel_velocity.stats.changepoints.incremental import Kept
from kernel_velocity.stats.changepoints.noise import CLIP, HALF_WIDTH
from kernel_velocity.stats.changepoints.values import LEAST
from kernel_velocity.stats.growth import grown

MOST = 16  # points more, at most: a series that got more is as soon looked at from its first point
FEWEST = 2 * WINDOW  # points before them: shorter series cost little
# What rounding may do to a difference of two means: share of the largest value, with much to spare (36 operations)
ROUNDING = 1e-12

BoolArray = npt.NDArray[np.bool_]


class Rows(NamedTuple):
    """Series, the last points of each in the last columns."""

    values: FloatArray  # (series, points): points that are there; 0 before the first one
    sizes: npt.NDArray[np.int64]  # (series,): points


def rows(series: Sequence[FloatArray]) -> Rows:
    """Return series of log values, without those that are missing, as rows."""
    sizes = np.array([len(each) for each in series], dtype=np.int64)
    values = np.zeros((len(series), int(sizes.max(initial=0))))
    for row, each in zip(values, series, strict=True):
        row[values.shape[1] - len(each) :] = each
    return Rows(values, sizes)


def is_extension(before: int, more: int) -> bool:
    """Return whether what is kept of `before` points helps with some `more`."""
    return before >= FEWEST and more <= MOST


def extended(series: Sequence[FloatArray], known: Sequence[Kept], more: int) -> list[Kept]:
    """Return how far the detectors come in series that got further points; what they have to look at is left out.

    Args:
        series: (n,) log values that are there of each.
        known: what is kept of each, of its first n - more points (`is_extension`).
        more: points.
    """
    taken = rows(series)
    unmoved = _unmoved(taken, more)
    start, is_quiet = _quiet(taken, np.array([each.edivisive.start for each in known]))
    pelt = _pelt(taken, [each.pelt for each in known], more)
    return [
        replace(
            each,
            windows=each.windows if unmoved[row] else None,
            edivisive=replace(each.edivisive, start=int(start[row]), is_quiet=bool(is_quiet[row])),
            pelt=pelt[row],
            is_settled=bool(each.is_settled and unmoved[row] and is_quiet[row])
            and (each.pelt is None or pelt[row] is not None),
        )
        for row, each in enumerate(known)
    ]


def _unmoved(taken: Rows, more: int) -> BoolArray:
    """Return in which series no place that can be looked at only now is a step of the two windows."""
    width = windows.BACK[1] + windows.AHEAD
    found = np.ones(len(taken.values), np.bool_)
    largest = np.abs(taken.values).max(axis=1, initial=0.0)
    for end in range(taken.values.shape[1] - more + 1, taken.values.shape[1] + 1):
        moved, strengths = windows.strengths(taken.values[:, end - width : end])
        exact = windows.inexactness(largest)
        found &= (moved < LEAST - ROUNDING * (1 + largest)) | (strengths < windows.T * (1 - exact))
    return found


def _quiet(taken: Rows, start: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], BoolArray]:
    """Return where E-divisive's window that is not full begins, and whether it has no cut.

    Where one that is full may have one, the search is left before it.
    """
    start, has_none = start.copy(), np.ones(len(start), np.bool_)
    while (full := np.flatnonzero(has_none & (taken.sizes - start >= WINDOW))).size:
        has_none[full] = ~may_differ(_windows(taken, full, start[full], WINDOW))
        start[full[has_none[full]]] += HALF_ON
    sizes = taken.sizes - start
    for size in np.unique(sizes[has_none]).tolist():
        which = np.flatnonzero(has_none & (sizes == size))
        if size >= edivisive.FEWEST:
            has_none[which] = ~may_differ(_windows(taken, which, start[which], size))
    return start, has_none


def _windows(taken: Rows, which: npt.NDArray[np.int64], start: npt.NDArray[np.int64], size: int) -> FloatArray:
    """Return the windows of some series that begin at a place of each: (which, size)."""
    first = taken.values.shape[1] - taken.sizes[which] + start
    found: FloatArray = taken.values[which[:, None], first[:, None] + np.arange(size)]
    return found


def _pelt(
    taken: Rows, known: Sequence[changepoints_pelt.Reached | None], more: int
) -> list[changepoints_pelt.Reached | None]:
    """Return how far PELT comes where its cuts stay as they were; None elsewhere."""
    found: list[changepoints_pelt.Reached | None] = [None] * len(known)
    going_on = [
        (row, each) for row, each in enumerate(known) if each is not None and each.basis == grown(int(taken.sizes[row]))
    ]
    if not going_on:
        return found
    which = np.array([row for row, _ in going_on])
    costs, stay = _costs(Rows(taken.values[which], taken.sizes[which]), [each for _, each in going_on], more)
    for (row, each), own, stays in zip(going_on, costs, stay.tolist(), strict=True):
        if stays:
            found[row] = replace(each, costs=np.concatenate([each.costs, own]))
    return found


def _costs(taken: Rows, known: Sequence[changepoints_pelt.Reached], more: int) -> tuple[FloatArray, BoolArray]:
    """Return what the cuts at the next `more` places cost, and whether the last cut of all points stays the best.

    The same sums as of `changepoints_pelt.Program`, in the same order, over all cuts before each place.
    """
    width = taken.values.shape[1]
    sigma = np.array([each.sigma for each in known])
    penalty = np.array([changepoints_pelt.penalty(each.sigma, each.basis) for each in known])
    sums, squares = _sums(taken, sigma)
    costs = np.full((len(known), width + 1), np.inf)
    end = width + 1 - HALF_WIDTH  # columns of the places whose points are final
    for row, each in zip(costs, known, strict=True):
        row[end - more - each.costs.size : end - more] = each.costs
    for place in range(end - more, end):
        costs[:, place] = _all(costs, sums, squares, place).min(axis=1) + penalty
    of_all = _all(costs, sums, squares, width)
    last = np.array([each.cuts[-1] if each.cuts else 0 for each in known]) + width - taken.sizes
    each_row = np.arange(len(known))
    least = of_all[each_row, last]
    of_all[each_row, last] = np.inf
    slack = 2 * changepoints_pelt.ROUNDING * (squares[:, width] + penalty)
    return costs[:, end - more : end], np.asarray(of_all.min(axis=1) > least + slack)


def _all(costs: FloatArray, sums: FloatArray, squares: FloatArray, place: int) -> FloatArray:
    """Return what every cut costs as the last one before a place: (series, cuts that are far enough from it)."""
    far = place - changepoints_pelt.FEWEST_A_SIDE + 1
    explained = sums[:, place, None] - sums[:, :far]
    explained *= explained
    explained /= place - np.arange(far)
    found: FloatArray = squares[:, place, None] - squares[:, :far]
    found += costs[:, :far]
    found -= explained
    return found


def _sums(taken: Rows, sigma: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the sums and sums of squares of the clipped points before every place, from the series' first point."""
    first = taken.values.shape[1] - taken.sizes
    centred = _clipped(taken, sigma)
    centred -= taken.values[np.arange(len(first)), first, None]
    centred[np.arange(taken.values.shape[1]) < first[:, None]] = 0.0
    sums = np.zeros((len(first), taken.values.shape[1] + 1))
    squares = np.zeros_like(sums)
    centred.cumsum(axis=1, out=sums[:, 1:])
    centred *= centred
    centred.cumsum(axis=1, out=squares[:, 1:])
    return sums, squares


def _clipped(taken: Rows, sigma: FloatArray) -> FloatArray:
    """Return the series without spikes, as `changepoints_noise.clipped`."""
    middle = _medians(taken)
    reach = CLIP * sigma[:, None]
    found = np.maximum(taken.values, middle - reach)
    middle += reach
    return np.minimum(found, middle, out=found)


def _medians(taken: Rows) -> FloatArray:
    """Return the median of five around every point, and of those that there are near the ends."""
    values, width = taken.values, taken.values.shape[1]
    found = values.copy()
    found[:, 2:-2] = _median_of_five([values[:, each : width - 4 + each] for each in range(5)])
    each_row, first = np.arange(len(values))[:, None], (width - taken.sizes)[:, None]
    ends = np.stack([values[each_row, first + np.arange(4)], values[:, :-5:-1]])  # from the end inwards
    three, four = np.sort(ends[:, :, :3], axis=2)[:, :, 1], np.sort(ends, axis=2)
    four_middle = (four[:, :, 1] + four[:, :, 2]) / 2
    found[each_row[:, 0], first[:, 0]], found[:, -1] = three
    found[each_row[:, 0], first[:, 0] + 1], found[:, -2] = four_middle
    return found


def _median_of_five(of: Sequence[FloatArray]) -> FloatArray:
    """Return the medians: without the least of the two smaller pairs' ends, and the largest, three are left."""
    a, b, c, d, e = of
    low = np.maximum(np.minimum(a, b), np.minimum(c, d))
    high = np.minimum(np.maximum(a, b), np.maximum(c, d))
    found: FloatArray = np.maximum(np.minimum(low, high), np.minimum(e, np.maximum(low, high)))
    return found


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
        reached = extended(there, [*those.values()], more)
        for number, own in zip(those, reached, strict=True):
            result[number] = incremental.found(series[number], own)
    return [result.get(number) or incremental.found(values) for number, values in enumerate(series)]


def _longer(values: FloatArray, kept: Kept) -> Kept:
    """Return what is kept of a series that got no point, though maybe entries without one."""
    if len(values) == kept.values:
        return kept
    return replace(kept, values=len(values), said=incremental.digest(values))


def _grown(series: Sequence[FloatArray], known: Sequence[Kept | None]) -> dict[int, dict[int, Kept]]:
    """Return the series that only got further points, a few or none, by how many."""
    by_count: dict[int, dict[int, Kept]] = {}
    for number, (values, kept) in enumerate(zip(series, known, strict=True)):
        if kept is None or len(values) < kept.values:
            continue
        if incremental.digest(values[: kept.values]) != kept.said:
            continue
        more = int(np.count_nonzero(~np.isnan(values[kept.values :])))
        if more == 0 or is_extension(kept.size, more):
            by_count.setdefault(more, {})[number] = kept
    return by_count
