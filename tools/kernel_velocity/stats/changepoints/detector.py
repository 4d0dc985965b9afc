"""Find the change points of series. Pure. Log values.

1. Spikes are clipped, and the series is cut into levels at the least cost.
2. The weakest cut is dropped until every cut left stands: a step of 1% or more, and loud. Short levels must be louder.
3. Of these, a step that AR(1) noise or a slope explains as well is no change point.
4. A change point is unsteady where the series keeps coming back to the level.

A step is loud if it is 4 times what the scatter within the levels leaves of a difference of two means. That is taken to
fall as n^-1/4 with the n points of a level, not as n^-1/2: values of benchmarks have a long memory (Beran, Statistics
for Long-Memory Processes, 1994, with a Hurst exponent of 3/4). The limits were chosen on series that people annotated
(docs/explanation/detectors.md).

A change point settles: what lies more than two blocks before the newest point is never searched again. So one more
commit costs the same, however long the history is.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.stats.adjust import grown
from kernel_velocity.stats.changepoints.noise import (
    clipped,
    difference_sigma,
    is_slope,
    least_sigma,
    median,
    squares_around_mean,
    yuen,
)
from kernel_velocity.stats.changepoints.values import (
    MIN_EFFECT,
    ChangePoint,
    Points,
    Step,
    Values,
    observed,
    rows_by_size,
)

MARGIN = 5  # points by which two looks may differ on one step; people's annotations differ by as many
FEWEST_A_SIDE = 6  # points of a level at an end that is never left out; a window has twice as many
FEWEST_BETWEEN_CUTS = 3  # points of a level: a shorter one inside a history is an outlier
CUT_TOGETHER = 128  # series: their sums stay in a core's cache
LOUD = 4.0
YOUNG = 16  # points: a shorter level needs a louder step, in proportion
VERY_LOUD = 2.5  # times as loud as needed: correlated noise makes no such step
P_CORRELATED = 1e-4  # of Yuen's test with AR(1) noise
# Degrees of freedom that an interval has at least. AR(1) noise leaves short levels 1. Intervals of t(1) hold the true
# step, but in up to a quarter of the steps that stand by their loudness also 0. With 3 they hold the true step in 95 to
# 100% of them, and never 0 (simulated, correlation 0 to .95, 9 to 60 points a level).
FEWEST_FREEDOM = 3.0
REACH = 100  # points a side that are compared: levels of long ago say little
NEAR_POINTS = 60  # points a side that tell the scatter, and whether a slope explains them
RETURNS = 2  # earlier levels near the new one: the series keeps coming back to it
RETURNING = "unsteady: the series keeps returning to this level"
LOOK_BACK = 150  # points in which they are counted
BLOCK = 128  # points
GROSS = 5.0  # sigmas; values at an end that are so far from all of the next ones are of another level
CHANCE = 1e-4  # of a step that the values of one session make by chance
DOUBTS = 5.0  # standard errors of a link, which are estimates themselves: 3.9 let 3 times as many false steps through


@dataclass(frozen=True, kw_only=True)
class Detected:
    """A series as it was when its change points were found."""

    digest: str  # of all values, with missing ones
    settled_digest: str  # of the values that are present in the settled blocks
    blocks: int  # settled ones
    settled: Points
    settled_cuts: tuple[int, ...]
    points: Points  # all of them, oldest first
    cuts: tuple[int, ...]  # where levels begin at the least cost, ascending: all that may be a step


def detect(values: Values) -> Points:
    """Return the change points of a series, oldest first.

    Raises:
        ValueError: a value is infinite.
    """
    array = np.asarray(values if isinstance(values, np.ndarray) else list(values), dtype=np.float64)
    return detect_many([array], [None])[0].points


def detect_many(series: Sequence[FloatArray], previous: Sequence[Detected | None]) -> list[Detected]:
    """Return the change points of many series, the same as one by one.

    Args:
        series: (n,) log values of each, NaN where there is none.
        previous: what an earlier call returned for each, whatever its values have become. None: nothing.

    Raises:
        ValueError: a value is infinite.
    """
    result = dict[int, Detected]()
    searches = dict[int, _PointSearch]()
    for number, (values, then) in enumerate(zip(series, previous, strict=True)):
        digest = _digest(values)
        if then is not None and then.digest == digest:
            result[number] = then
        else:
            searches[number] = _PointSearch.of(digest, observed(values).logs, then)
    while growing := [search for search in searches.values() if (search.blocks + 1) * BLOCK < search.logs.size]:
        for search, points, cuts in _searched(growing, [(search.blocks + 1) * BLOCK for search in growing]):
            search.settled += [point for point in points if point.index < search.blocks * BLOCK]
            search.settled_cuts += [cut for cut in cuts if cut < search.blocks * BLOCK]
            search.blocks, search.settled_digest = search.blocks + 1, None
    ends = [search.logs.size for search in searches.values()]
    for number, (search, points, cuts) in zip(searches, _searched([*searches.values()], ends), strict=True):
        result[number] = search.detected(series[number], points, cuts)
    return [result[number] for number in range(len(series))]


def _digest(values: FloatArray) -> str:
    return hashlib.blake2b(np.ascontiguousarray(values).data, digest_size=16).hexdigest()


@dataclass(kw_only=True, eq=False)
class _PointSearch:
    """The search for the change points of a series. The indices of its points are places."""

    digest: str  # of the values, missing ones included
    logs: FloatArray  # (places,) values that are present
    blocks: int = 0
    settled_digest: str | None = None  # None: more blocks were settled since
    settled: list[ChangePoint] = field(default_factory=list)  # those before block `blocks` - 1
    settled_cuts: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, digest: str, logs: FloatArray, previous: Detected | None) -> _PointSearch:
        """Return the search where an earlier one left off, if the values of the settled blocks are the same."""
        if previous is None or previous.settled_digest != (same := _digest(logs[: previous.blocks * BLOCK])):
            return cls(digest=digest, logs=logs)
        return cls(
            digest=digest,
            logs=logs,
            blocks=previous.blocks,
            settled_digest=same,
            settled=list(previous.settled),
            settled_cuts=list(previous.settled_cuts),
        )

    def detected(self, values: FloatArray, points: Points, cuts: Sequence[int]) -> Detected:
        """Return the result for the values, missing ones included. `points` and `cuts` are those of the window."""
        indices = np.flatnonzero(~np.isnan(values)).tolist()
        return Detected(
            digest=self.digest,
            settled_digest=self.settled_digest or _digest(self.logs[: self.blocks * BLOCK]),
            blocks=self.blocks,
            settled=tuple(self.settled),
            settled_cuts=tuple(self.settled_cuts),
            points=tuple(replace(point, index=indices[point.index]) for point in (*self.settled, *points)),
            cuts=tuple(indices[cut] for cut in (*self.settled_cuts, *cuts)),
        )


def _searched(
    searches: Sequence[_PointSearch], ends: Sequence[int]
) -> Iterator[tuple[_PointSearch, Points, Sequence[int]]]:
    """Yield each search with change points and cuts between what is settled and a place, which ends the window."""
    starts = [max(search.blocks - 2, 0) * BLOCK for search in searches]
    windows = [search.logs[start:end] for search, start, end in zip(searches, starts, ends, strict=True)]
    # Shorter windows have no change point
    for numbers, together in rows_by_size(windows, 2 * FEWEST_A_SIDE):
        firsts, lasts = _ends(together)
        for number, first, last in zip(numbers, firsts, lasts, strict=True):
            start = 0 if starts[number] else first
            windows[number], starts[number] = windows[number][start:last], starts[number] + start
    prepared = dict[int, tuple[FloatArray, float, float]]()  # without spikes; the least scatter; the price of a cut
    for numbers, together in rows_by_size(windows, 2 * FEWEST_BETWEEN_CUTS):
        basis = together[:, : grown(together.shape[1])]
        least = least_sigma(basis)
        sigma = np.maximum(difference_sigma(basis), least)
        price = 2 * sigma**2 * math.log(basis.shape[1])
        prepared |= zip(
            numbers, zip(clipped(together, sigma), least.tolist(), price.tolist(), strict=True), strict=True
        )
    even, prices = [logs for logs, _, _ in prepared.values()], [price for *_, price in prepared.values()]
    cuts = dict(zip(prepared, cheapest([logs - logs[0] for logs in even], prices), strict=True))
    for number, (search, start) in enumerate(zip(searches, starts, strict=True)):
        begin = max(search.settled[-1].index - start, 0) if search.settled else 0
        first = max((search.blocks - 1) * BLOCK - start, begin + FEWEST_BETWEEN_CUTS)
        candidates = [index for index in cuts.get(number, ()) if index >= first]
        points: Points = ()
        if candidates and windows[number].size >= 2 * FEWEST_A_SIDE:
            window = _Window(*prepared[number][:2], begin)
            points = window.points(window.standing(candidates), start, search.settled)
        yield search, points, [start + index for index in candidates]


def _ends(windows: FloatArray) -> tuple[list[int], list[int]]:
    """Return where the first level of each window begins, and where its last one ends.

    A level of fewer values than FEWEST_A_SIDE at an end is left out: a large step to it would hide all steps near it.
    """
    far = GROSS * np.maximum(difference_sigma(windows), least_sigma(windows))

    def left_out(values: FloatArray) -> NDArray[np.int64]:
        most = np.zeros(len(values), np.int64)
        for size in range(1, FEWEST_A_SIDE):
            level = values[:, size : size + FEWEST_BETWEEN_CUTS]
            most[np.abs(values[:, :size, None] - level[:, None]).min(axis=(1, 2)) > far] = size
        return most

    return left_out(windows).tolist(), (windows.shape[1] - left_out(windows[:, ::-1])).tolist()


@dataclass(frozen=True)
class _Cut:
    """A cut, compared with its neighbours."""

    index: int
    step: Step  # with AR(1) noise
    loudness: float  # of the step, over the least that stands
    stands: bool


class _Window:
    """A window of a series, in which cuts are tested."""

    def __init__(self, logs: FloatArray, least: float, begin: int) -> None:
        """Begin.

        Args:
            logs: the values of the window, without spikes.
            least: the least scatter to assume.
            begin: the place where its first level begins.
        """
        self._logs, self._begin, self._least = logs, begin, least
        self._steps: dict[tuple[int, int, int], Step] = {}  # by the places of a cut and of its neighbours
        self._squares: dict[tuple[int, int], float] = {}  # summed, of the deviations between two places

    def standing(self, candidates: Sequence[int]) -> list[_Cut]:
        """Return the cuts that stand once the weaker ones are gone."""
        left = list(candidates)
        while True:
            bounds = [self._begin, *left, self._logs.size]
            cuts = [self._cut(*stretch, left) for stretch in zip(bounds, left, bounds[2:], strict=False)]
            failed = [(cut.loudness, number) for number, cut in enumerate(cuts) if not cut.stands]
            if not failed:
                clear = [cut for cut in cuts if cut.step.p < P_CORRELATED or cut.loudness >= VERY_LOUD]
                return [cut for cut in clear if not self._is_slope(cut, left)]
            del left[min(failed)[1]]

    def _cut(self, start: int, index: int, end: int, cuts: Sequence[int]) -> _Cut:
        """Compare the levels on both sides of one of the cuts."""
        step = self._step(start, index, end)
        moved, shorter = abs(step.after - step.before), min(step.sizes)
        first, last = max(self._begin, index - NEAR_POINTS), min(self._logs.size, index + NEAR_POINTS)
        bounds = [first, *(cut for cut in cuts if first < cut < last), last]
        squares = sum(self._squares_of(*level) for level in pairwise(bounds))
        scatter = max(math.sqrt(squares / max(last - first - len(bounds) + 1, 1)), self._least)
        left_by_scatter = scatter * math.sqrt((step.sizes[0] ** -0.5 + step.sizes[1] ** -0.5) / 2)
        loudness = moved / (left_by_scatter * LOUD * max(1.0, YOUNG / shorter))
        return _Cut(index, step, loudness, moved >= MIN_EFFECT and loudness >= 1)

    def _step(self, start: int, index: int, end: int) -> Step:
        stretch = max(start, index - REACH), index, min(end, index + REACH)
        if stretch not in self._steps:
            self._steps[stretch] = yuen(self._logs[stretch[0] : index], self._logs[index : stretch[2]])
        return self._steps[stretch]

    def _squares_of(self, start: int, end: int) -> float:
        if (start, end) not in self._squares:
            rest = self._logs[start:end] - median(self._logs[start:end])
            self._squares[start, end] = float(rest @ rest)
        return self._squares[start, end]

    def _is_slope(self, cut: _Cut, cuts: Sequence[int]) -> bool:
        """Return whether a straight line explains the values around a cut better than the step."""
        bounds = [self._begin, *cuts, self._logs.size]
        start, _, end = bounds[(number := cuts.index(cut.index)) : number + 3]
        first, last = max(start, cut.index - NEAR_POINTS), min(end, cut.index + NEAR_POINTS)
        return is_slope(self._logs[first:last], cut.index - first)

    def points(self, cuts: Sequence[_Cut], start: int, earlier: Sequence[ChangePoint]) -> Points:
        """Return the cuts as change points of the series, whose place `start` is the window's first.

        Args:
            earlier: change points of the series that settled.
        """
        points = list[ChangePoint]()
        for cut in cuts:
            step, index = cut.step, cut.index + start
            levels = [point.before for point in (*earlier, *points) if point.index > index - LOOK_BACK]
            near = sum(abs(level - step.after) <= abs(step.after - step.before) / 2 for level in levels)
            point = replace(step, freedom=max(step.freedom, FEWEST_FREEDOM)).point(index)
            if near >= RETURNS:
                point = replace(point, is_unsteady=True, warnings=(*point.warnings, RETURNING))
            points.append(point)
        return tuple(points)


def cheapest(series: Sequence[FloatArray], prices: Sequence[float]) -> list[list[int]]:
    """Cut each series into levels at the least cost: squared deviations from the levels, and a price for each cut.

    Optimal partitioning (Jackson et al., IEEE Signal Processing Letters 12(2), 2005). PELT prunes the search and finds
    the same cuts. Here no cut is pruned: one numpy operation does a step of many series, which is faster for series of
    a few hundred points.

    Args:
        series: (n,) values of each, near 0, so that sums of squares stay exact.
        prices: of a cut, for each series.

    Returns:
        the cuts of each series, ascending, as the number of points before them.
    """
    return [
        cuts
        for start in range(0, len(series), CUT_TOGETHER)
        for cuts in _cheapest(
            series[start : start + CUT_TOGETHER], np.array(prices[start : start + CUT_TOGETHER], dtype=np.float64)
        )
    ]


def costs(series: Sequence[FloatArray], scatters: Sequence[FloatArray]) -> list[float]:
    """Return the cost of the cheapest levels of each series, with the prices of their cuts.

    Args:
        scatters: values of the same scatter, which the price comes from.
    """
    prices = [2 * float(difference_sigma(values)) ** 2 * math.log(values.size) for values in scatters]
    centred = [logs - logs[0] for logs in series]
    return [
        price * len(cuts) + sum(map(squares_around_mean, np.split(logs, cuts)))
        for logs, cuts, price in zip(centred, cheapest(centred, prices), prices, strict=True)
    ]


def _cheapest(series: Sequence[FloatArray], prices: FloatArray) -> Iterator[list[int]]:
    """Yield the cuts of each series. A shorter one has zeros at its end, which no cut before them depends on.

    The cost of points s to t as one level is the sum of their squares, less (their sum)^2 / (t - s). The squares of all
    points are part of every cost, and left out.
    """
    count, width = len(series), max(values.size for values in series)
    sums = np.zeros((count, width + 1))
    for row, values in zip(sums, series, strict=True):
        values.cumsum(out=row[1 : values.size + 1])
    costs = np.full((count, width + 1), np.inf)  # of the points before each place, and of a cut there
    costs[:, 0] = 0.0
    last = np.zeros((count, width + 1), np.int64)
    rows, inverse = np.arange(count), 1 / np.arange(float(width), 0, -1)  # descending: numpy is slow backwards
    tables = np.empty(count * width)  # for all ends: a table of its own for each takes 1.1 times as long
    for end in range(FEWEST_BETWEEN_CUTS, width + 1):
        begins = end - FEWEST_BETWEEN_CUTS + 1
        table = tables[: count * begins].reshape(count, begins)
        np.subtract(sums[:, end, None], sums[:, :begins], out=table)
        table *= table
        table *= inverse[width - end : width - end + begins]
        np.subtract(costs[:, :begins], table, out=table)
        best = table.argmin(axis=1)
        last[:, end] = best
        costs[:, end] = table[rows, best] + prices
    for number, values in enumerate(series):
        cuts, index = list[int](), int(last[number, values.size])
        while index:
            cuts.append(index)
            index = int(last[number, index])
        yield cuts[::-1]


def beyond_doubt(logs: FloatArray, errors: FloatArray, points: Sequence[ChangePoint]) -> list[ChangePoint]:
    """Return the change points that the errors of links do not explain.

    The levels of a step are means over sessions, and the error of a session's link moves each by the session's share
    of it. What remains of both is the doubt. A step also counts where the values of a single session show it. Commits
    of the same error are of one session.

    Args:
        logs: values, shape (commits,). NaN: not measured. errors: standard errors of the links, shape (commits,), 0 in
            the first session. points: ascending.
    """
    measured = np.flatnonzero(~np.isnan(logs))
    logs, errors = logs[measured], errors[measured]
    cuts = [int(np.searchsorted(measured, point.index)) for point in points]
    beyond = []
    for point, start, cut, end in zip(points, [0, *cuts], cuts, [*cuts[1:], logs.size], strict=False):
        before, after = errors[max(start, cut - REACH) : cut], errors[cut : min(end, cut + REACH)]
        shares = {error: np.mean(after == error) - np.mean(before == error) for error in np.unique(errors)}
        doubt = math.hypot(*(error * share for error, share in shares.items()))
        session = errors == errors[cut]
        sides = logs[:cut][session[:cut]], logs[cut:][session[cut:]]
        is_inside = min(map(len, sides)) >= FEWEST_A_SIDE and yuen(*sides).p < CHANCE
        if is_inside or abs(point.after - point.before) > DOUBTS * doubt:
            beyond.append(point)
    return beyond
