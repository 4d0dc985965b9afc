"""Search series for the steps of their level. Pure. Log values.

First the change points of whole series (`detect_many`):

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

Then the steps with too few values on one side for that, up to SHORTER of them:

5. `pool` tells how the values of a machine's series scatter, `noises` how those of a level do. The scatter of other
   series counts as a prior: the more values a series has, the less.
6. `steps` looks near the ends: in short series, and among the newest values.
7. `older_steps` looks at the cuts of 1 for steps that their first values showed, at any age: no later values hide them.

Two things must show such a step, so that the larger p counts: Student's t of the two levels, and the tails of single
values, of which the machine's series tell how heavy they are. Correlation of the noise inflates the error of a mean
(AR(1)). Many series are tested at once, so the caller controls false discoveries. Series of one length are one matrix,
which is several times as fast as one series after the other.

Last, `beyond_doubt` leaves out the steps that the errors of links between sessions explain.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.stats.adjust import IntArray, grown
from kernel_velocity.stats.changepoints.noise import (
    CLIP,
    MAD_SIGMA,
    MAX_CORRELATION,
    clipped,
    correlation,
    difference_sigma,
    iqr_sigma,
    is_slope,
    least_sigma,
    median,
    medians,
    squares_around_mean,
    yuen,
)
from kernel_velocity.stats.changepoints.values import (
    FEWEST_ALONE,
    MIN_EFFECT,
    MIN_SIGMA,
    ChangePoint,
    Points,
    Step,
    Values,
    observed,
    rows_by_size,
    too_few,
)

MARGIN = 5  # points by which two looks may differ on one step; people's annotations differ by as many
FEWEST_A_SIDE = 6  # points of a level at an end that is never left out; a window has twice as many
FEWEST_BETWEEN_CUTS = 3  # points of a level: a shorter one inside a history is an outlier
CUT_TOGETHER = 128  # series: their sums stay in a core's cache
LOUD = 4.0
YOUNG = 16  # points: a shorter level needs a louder step, in proportion
VERY_LOUD = 2.5  # times as loud as needed: correlated noise makes no such step
P_CORRELATED = 1e-4  # of Yuen's test with AR(1) noise: also of the values of one session
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
DOUBTS = 5.0  # standard errors of a link, which are estimates themselves: 3.9 let 3 times as many false steps through
SHORTER = 12  # values of the shorter side: from one more on, the detector sees every step that this test would see
MOST_TRIED = SHORTER + (SHORTER + 1) * sum(1 / age for age in range(2, SHORTER + 2))  # as many as p can count for
LONGER = 40  # values of the longer side that are compared: levels of long ago say little
FEWEST_MOVES = 4  # successive differences of values that tell a scatter: most of fewer may be steps
EFFICIENCY = 0.8  # of a scatter whose outliers are clipped, as an estimate
# Values: of fewer than the first, the interquartile range may hold a step, of as many as the last none
STATES = (6, 20)
PRIOR = 10.0  # degrees of freedom that the scatter of other series counts for, where few tell how much theirs differ
PRIOR_SERIES = 4.0  # series that this is worth
LEAST_PRIOR, MOST_PRIOR = 3.0, 30.0
CORRELATED = 20  # values whose own correlation counts as much as that of the other series
NEAR = 2.0  # sigmas from the median to which the values of a mean are clipped
CLIPPED = 1.05  # variance of such a mean over that of a plain one, of normal values
SHARE_OF_STEP = 0.5  # of the step, by each of one or two values: else an outlier shows it
SIZES = (FEWEST_BETWEEN_CUTS, SHORTER // 2, SHORTER)  # first values that may show an older step
POSSIBLE = 0.01  # p from which such a step is none
RECURSE = 1e-3  # p from which the two sides are searched, too
TAILS = (2.0, 3.0, 4.0, 6.0, 10.0, 40.0)  # degrees of freedom of t: how heavy the tails of single values may be
UNKNOWN_TAILS = (1 / len(TAILS),) * len(TAILS)  # where nothing tells them
NORMAL = (*(0.0 for _ in TAILS[1:]), 1.0)
FINE = 0.04  # log units, to which a typical scatter is rounded
OUT = (4.0, 8.0, 16.0, 32.0, 64.0)  # sigmas
POWER = 0.99  # probability that a test sees the least step that it is said to see
_SPIKES = np.concatenate([np.linspace(0.0, 4.0, 41), np.geomspace(4.2, 400.0, 60)])  # sigmas
_VALUES = np.linspace(-1.0, 1.0, 402)[1:-1]
_EDGES = np.array([0.0, 0.001, 0.01, 0.05, 0.2, 0.5, 1.0])  # of the shares of chance that a variance has
_SHARES, _QUANTILES = np.diff(_EDGES), (_EDGES[1:] + _EDGES[:-1]) / 2


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
            searches[number] = _PointSearch.of(digest, *observed(values), then)
    while growing := [search for search in searches.values() if (search.blocks + 1) * BLOCK < search.logs.size]:
        for search, points, cuts in _searched(growing, [(search.blocks + 1) * BLOCK for search in growing]):
            search.settled += [point for point in points if point.index < search.blocks * BLOCK]
            search.settled_cuts += [cut for cut in cuts if cut < search.blocks * BLOCK]
            search.blocks, search.settled_digest = search.blocks + 1, None
    ends = [search.logs.size for search in searches.values()]
    for number, (search, points, cuts) in zip(searches, _searched([*searches.values()], ends), strict=True):
        result[number] = search.detected(points, cuts)
    return [result[number] for number in range(len(series))]


def _digest(values: FloatArray) -> str:
    return hashlib.blake2b(np.ascontiguousarray(values).data, digest_size=16).hexdigest()


@dataclass(kw_only=True, eq=False)
class _PointSearch:
    """The search for the change points of a series. The indices of its points are places."""

    digest: str  # of the values, missing ones included
    logs: FloatArray  # (places,) values that are present
    indices: NDArray[np.int64]  # (places,) where each is among all values
    blocks: int = 0
    settled_digest: str | None = None  # None: more blocks were settled since
    settled: list[ChangePoint] = field(default_factory=list)  # those before block `blocks` - 1
    settled_cuts: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, digest: str, logs: FloatArray, indices: NDArray[np.int64], previous: Detected | None) -> _PointSearch:
        """Return the search where an earlier one left off, if the values of the settled blocks are the same."""
        search = cls(digest=digest, logs=logs, indices=indices)
        if previous is not None and previous.settled_digest == _digest(logs[: previous.blocks * BLOCK]):
            search.blocks, search.settled_digest = previous.blocks, previous.settled_digest
            search.settled += previous.settled
            search.settled_cuts += previous.settled_cuts
        return search

    def detected(self, points: Points, cuts: Sequence[int]) -> Detected:
        """Return the result. `points` and `cuts` are those of the window."""
        indices = self.indices.tolist()
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
        # Cuts that stay are compared again whenever another is dropped
        self._step, self._squares = cache(partial(_step, logs)), cache(partial(_squares, logs))

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
        step = self._step(max(start, index - REACH), index, min(end, index + REACH))
        moved, shorter = abs(step.after - step.before), min(step.sizes)
        first, last = max(self._begin, index - NEAR_POINTS), min(self._logs.size, index + NEAR_POINTS)
        bounds = [first, *(cut for cut in cuts if first < cut < last), last]
        squares = sum(self._squares(*level) for level in pairwise(bounds))
        scatter = max(math.sqrt(squares / max(last - first - len(bounds) + 1, 1)), self._least)
        left_by_scatter = scatter * math.sqrt((step.sizes[0] ** -0.5 + step.sizes[1] ** -0.5) / 2)
        loudness = moved / (left_by_scatter * LOUD * max(1.0, YOUNG / shorter))
        return _Cut(index, step, loudness, moved >= MIN_EFFECT and loudness >= 1)

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
            warnings = (
                *too_few(FEWEST_ALONE, "the old level", step.sizes[0]),
                *too_few(FEWEST_ALONE, "the new level", step.sizes[1]),
                *((RETURNING,) if near >= RETURNS else ()),
            )
            points.append(replace(point, is_unsteady=near >= RETURNS, warnings=warnings))
        return tuple(points)


def _step(logs: FloatArray, start: int, index: int, end: int) -> Step:
    return yuen(logs[start:index], logs[index:end])


def _squares(logs: FloatArray, start: int, end: int) -> float:
    rest = logs[start:end] - median(logs[start:end])
    return float(rest @ rest)


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
    together = [slice(start, start + CUT_TOGETHER) for start in range(0, len(series), CUT_TOGETHER)]
    return [cuts for some in together for cuts in _cheapest(series[some], np.array(prices[some], dtype=np.float64))]


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


@dataclass(frozen=True)
class Noise:
    """The scatter of single log values: of a level, or what is typical of many series of a machine."""

    sigma: float
    tails: tuple[float, ...] = NORMAL  # the probability of each of TAILS
    freedom: float = PRIOR  # degrees of freedom that `sigma` counts for: of a typical one few where the series differ
    phi: float = 0.0  # correlation of successive values, of AR(1)
    spikes: tuple[float, ...] = ()  # shares of the machine's values that are further out than each of OUT
    outliers: tuple[float, ...] = ()  # sigmas by which values of the level are beyond their neighbours, furthest first
    weight: float = 0.0  # share of the values that each of them stands for

    @cached_property
    def _kind(self) -> Noise:
        """What many levels have in common: `_outlier` remembers it."""
        freedom = 2.0 ** (round(2 * math.log2(self.freedom)) / 2)
        return replace(self, sigma=1.0, freedom=freedom, phi=round(self.phi, 1), outliers=(), weight=0.0)

    def error(self, sizes: tuple[int, int]) -> float:
        """Return the standard error of the difference of two levels of these sizes."""
        before, after = sizes
        return self.sigma * math.sqrt(self._variance(before) + self._variance(after))

    def _variance(self, size: int) -> float:
        """Return the variance of a level, in squared sigmas: AR(1) noise, and clipping, inflate it."""
        phi = self.phi
        correlated = 1 + 2 * phi / (1 - phi) * (1 - (1 - phi**size) / (size * (1 - phi)))
        return correlated * (CLIPPED if size >= 3 else 1.0) / size

    def single(self, size: int) -> float:
        """Return the standard error of the difference of a value and a level of this size."""
        return self.sigma * math.sqrt(1 + self._variance(size))

    def most_off(self, size: int) -> float:
        """Return by how much a value is off its commit's own level at most, with a probability of POWER.

        Args:
            size: values of the level that it is compared with.
        """
        return _quantile(self.freedom, POWER) * self.single(size)

    def level(self, logs: FloatArray) -> float:
        """Return the mean of values, clipped near their median."""
        middle, most = median(logs), NEAR * self.sigma
        return middle + float(np.minimum(np.maximum(logs - middle, -most), most).sum()) / logs.size

    def least(self, longer: int, p: float, most: int) -> list[float]:
        """Return the least steps that a test at this p sees, with a probability of POWER, of 1 to `most` values.

        Args:
            longer: values on the longer side.
        """
        level = self._variance(longer)
        quantile, power = _quantile(self.freedom, 1 - p / 2), _quantile(self.freedom, POWER)
        chance = _outlier(self._kind, min(most, longer), p)
        least = []
        for size, variance in enumerate(map(self._variance, range(1, most + 1)), start=1):
            error = math.sqrt(level + variance)
            alone = math.sqrt(1 + (level if size <= longer else variance))
            shorter = min(size, longer)
            outlier = max(chance[shorter - 1], self._outliers(shorter, p)) * alone
            least.append(max(MIN_EFFECT, self.sigma * (max(quantile * error, outlier) + power * error)))
        return least

    def _outliers(self, size: int, p: float) -> float:
        """Return how many sigmas out `size` values must be, so that the level's own outliers leave them less than p."""
        if not self.outliers:
            return 0.0
        together = size // 2 + 1
        chance = p / (2 * math.comb(size, together) * (size - size // 2))
        allowed = int(2 * chance ** (1 / (1 + (together - 1) * (1 - self.phi))) / self.weight)
        return self.outliers[allowed] if allowed < len(self.outliers) else 0.0


def pool(series: Sequence[FloatArray], telling: Sequence[FloatArray] = ()) -> Noise | None:
    """Return what some series tell about any other of their machine. None where no two values follow each other.

    It is rounded, so that a new commit changes few pages.

    The prior of a variance is Smyth's (Statistical Applications in Genetics and Molecular Biology 3(1), 2004): its
    degrees of freedom are those that the spread of the series' own variances leaves.

    Args:
        series: the newest log values of each, none missing. telling: those of which the typical scatter is taken, as
            of controls, whose code no commit changes. None: all.
    """
    moves = [np.abs(np.diff(logs)) for logs in telling or series if logs.size > 1]
    if not moves:
        return None
    sigma = max(float(np.median(np.concatenate(moves))) * MAD_SIGMA / math.sqrt(2), MIN_SIGMA)
    sigmas, chances, spikes = [np.empty(0)], [np.empty(0)], [np.empty(0)]
    for _, values in rows_by_size(series, FEWEST_MOVES + 1):
        scatter, free = _own_sigma(values), EFFICIENCY * (values.shape[1] - 1)
        weight = _own_freedom(values.shape[1])
        typical = np.maximum(np.sqrt((PRIOR * sigma**2 + weight * scatter**2) / (PRIOR + weight)), MIN_SIGMA)
        sigmas.append(scatter)
        # What chance leaves of the squared logarithm of a variance
        chances.append(np.full(len(values), special.polygamma(1, free / 2) + free**-2))
        spikes.append((_spikes(values) / typical[:, None]).ravel())
    excess = np.log(np.maximum(np.concatenate(sigmas), MIN_SIGMA) / sigma) ** 2 * 4 - np.concatenate(chances)
    spread = (float(np.clip(excess, -4.0, 4.0).sum()) + PRIOR_SERIES * 2 / PRIOR) / (excess.size + PRIOR_SERIES)
    freedom = min(max(2 / max(spread, 1e-9), LEAST_PRIOR), MOST_PRIOR)
    distances = np.concatenate(spikes)
    shares = tuple(round(float((distances >= out).mean()), 2) for out in OUT) if distances.size else ()
    return Noise(
        sigma=math.exp(round(math.log(sigma) / FINE) * FINE),
        tails=_tails(distances[distances > 0]),
        freedom=round(freedom),
        phi=round(_phi(series), 1),
        spikes=shares,
    )


def _spikes(values: FloatArray) -> FloatArray:
    """Return how far each inner value is beyond both neighbours. 0: it is between them. A step is no spike.

    Args:
        values: shape (series, n).
    """
    older, newer = (values[:, 1:-1] - side for side in (values[:, :-2], values[:, 2:]))
    return np.where(older * newer > 0, np.minimum(np.abs(older), np.abs(newer)), 0.0)


def _phi(series: Sequence[FloatArray]) -> float:
    """Return the correlation of successive values that differences of neighbours, and of the next but one, tell.

    Of AR(1) noise the latter have 1 + phi times the variance. Steps move few of them.
    """
    near, far = (
        np.median(
            np.abs(np.concatenate([logs[gap:] - logs[:-gap] for logs in series if logs.size > 2] or [np.ones(1)]))
        )
        for gap in (1, 2)
    )
    return min(max(float(far / max(near, MIN_SIGMA)) ** 2 - 1, 0.0), MAX_CORRELATION)


@cache
def _likelihoods() -> tuple[FloatArray, FloatArray]:
    """Return for each of TAILS how many scales of its t are a sigma, and the log density of `_SPIKES`.

    Sigma is that of the median difference of successive values. The density of a spike x is proportional to the
    integral over v of f(v + x) F(v) f(v).
    """
    scales, densities = [], []
    for freedom in TAILS:
        v = special.stdtrit(freedom, (1 + _VALUES) / 2)  # at equal probabilities, so that sums are integrals
        middle = v.size**2 // 2
        differences = np.partition(np.abs(v[:, None] - v), middle, axis=None)
        scale = float(differences[middle]) * MAD_SIGMA / math.sqrt(2)
        beyond = v[:, None] + _SPIKES * scale
        norm = special.gammaln((freedom + 1) / 2) - special.gammaln(freedom / 2) - math.log(freedom * math.pi) / 2
        density = np.exp(norm - (freedom + 1) / 2 * np.log1p(beyond**2 / freedom)) * scale
        densities.append(np.log(np.maximum((density * special.stdtr(freedom, v)[:, None]).mean(axis=0), 1e-300)))
        scales.append(scale)
    return np.array(scales), np.array(densities)


def _tails(spikes: FloatArray) -> tuple[float, ...]:
    """Return the probability of each of TAILS after some spikes, in sigmas."""
    _, densities = _likelihoods()
    positions = np.interp(spikes, _SPIKES, np.arange(_SPIKES.size))
    low = np.minimum(positions.astype(np.int64), _SPIKES.size - 2)
    likely = (densities[:, low] + (positions - low) * (densities[:, low + 1] - densities[:, low])).sum(axis=1)
    weights = np.exp(likely - likely.max())
    rounded = np.round(weights / weights.sum(), 1)
    return tuple((rounded / rounded.sum()).tolist())


def _own_freedom(size: int) -> float:
    return EFFICIENCY * max(size - FEWEST_MOVES, 0)


def _own_sigma(values: FloatArray) -> FloatArray:
    """Return the scatter that the values of each series tell, without outliers, (series,).

    Args:
        values: shape (series, n), n > FEWEST_MOVES.
    """
    size = values.shape[1]
    moves = np.sort(np.abs(np.diff(values, axis=1)), axis=1)
    base = moves[:, (size - 2) // 2] * MAD_SIGMA / math.sqrt(2)  # the lower middle: no step, unless most are
    holds_states = min(max((size - STATES[0]) / (STATES[1] - STATES[0]), 0.0), 1.0)
    base = np.sqrt(base**2 + holds_states * np.maximum(iqr_sigma(values) ** 2 - base**2, 0.0))
    most = CLIP * base[:, None]
    rest = np.clip(values - medians(values)[:, None], -most, most)
    return np.asarray(np.sqrt((rest**2).sum(axis=1) / (size - 1)))


@cache
def _quantile(freedom: float, p: float) -> float:
    """Return a quantile of Student's t. Levels of one length have the same freedom."""
    return float(special.stdtrit(freedom, p))


def _beyond(sigmas: FloatArray, together: IntArray, freedom: float) -> FloatArray:
    """Return how probably a value is so many sigmas out, for each of _SHARES and of TAILS: (shares, tails, sigmas)."""
    scales, _ = _likelihoods()
    # The tails of single values hold what a sigma may be too small by. Several values share it
    sigmas = sigmas * np.where(together > 1, _scatters(freedom)[:, None, None], 1.0)
    return np.asarray(special.stdtr(np.array(TAILS)[:, None], -sigmas * scales[:, None]))


def _by_tails(beyond: FloatArray, sigmas: FloatArray, together: IntArray, size: int, scatter: Noise) -> FloatArray:
    """Return how probably chance puts so many sigmas out, on one side, so many together of `size` values.

    Args:
        beyond: `_beyond` of the same. together: any number of more than half of them.
    """
    alone = 1 + (together - 1) * (1 - scatter.phi)  # of correlated values fewer are independent
    share = scatter.weight * (np.array(scatter.outliers) >= sigmas[:, None]).sum(axis=1)
    for out, further in zip(OUT, scatter.spikes, strict=False):
        share = np.where(sigmas < 2 * out, np.maximum(share, further), share)
    beyond = np.maximum(beyond, share / 2)
    chance = np.minimum(2 * special.binom(size, together) * beyond**alone, 1.0)
    by_number = np.array(scatter.tails) @ (_SHARES[:, None, None] * chance).sum(axis=0)
    return np.asarray(by_number * (size - size // 2))  # numbers that may be so far out


@cache
def _scatters(freedom: float) -> FloatArray:
    """Return sigmas of such degrees of freedom over what they may be, for each of _SHARES of chance."""
    return np.asarray(np.sqrt(2 * special.gammaincinv(freedom / 2, _QUANTILES) / freedom))


@cache
def _outlier(scatter: Noise, most: int, p: float) -> list[float]:
    """Return how many sigmas out chance puts the middle one of 1 to `most` values with probability p (`_by_tails`)."""
    outliers = list[float]()
    alone, several = (_beyond(_SPIKES, np.full(1, together), scatter.freedom) for together in (1, 2))
    for size in range(1, most + 1):
        together = size // 2 + 1
        beyond = alone if together == 1 else several
        chances = np.log(np.maximum(_by_tails(beyond, _SPIKES, np.full(1, together), size, scatter), 1e-300))
        outliers.append(float(np.interp(-math.log(p), -chances, _SPIKES)))
    return outliers


class Level(NamedTuple):
    """Values that may be one level, and what else tells their scatter."""

    logs: FloatArray  # (n,) log values, none missing
    others: Noise | None  # typical of the machine's series (`pool`); None: unknown
    rounds: float  # standard error that the rounds of a value leave: the scatter is no less; NaN: unknown
    begins: bool = True  # whether a step may be near its beginning
    ends: bool = True  # whether a step may be near its end

    @property
    def least(self) -> float:
        """The least scatter to assume."""
        return MIN_SIGMA if math.isnan(self.rounds) else max(MIN_SIGMA, self.rounds)


def noises(levels: Sequence[Level]) -> list[Noise | None]:
    """Return the scatter of single values of each level, from its values and from other series. None: nothing tells."""
    result: list[Noise | None] = [
        None
        if level.others is None or level.logs.size > FEWEST_MOVES
        else replace(level.others, sigma=max(level.others.sigma, level.least))
        for level in levels
    ]
    for numbers, values in rows_by_size([level.logs for level in levels], FEWEST_MOVES + 1):
        size = values.shape[1]
        sigmas, freedom = _own_sigma(values), _own_freedom(size)
        rest = values - medians(values)[:, None]
        sums = (rest[:, 1:] * rest[:, :-1]).sum(axis=1).tolist(), (rest * rest).sum(axis=1).tolist()
        spikes = -np.sort(-_spikes(values), axis=1)
        for number, sigma, lagged, squared, spike in zip(numbers, sigmas.tolist(), *sums, spikes, strict=True):
            level, phi = levels[number], correlation(lagged, squared, size)
            others = level.others or Noise(sigma, UNKNOWN_TAILS, 0.0, phi)
            together = others.freedom + freedom
            scatter = max(math.sqrt((others.freedom * others.sigma**2 + freedom * sigma**2) / together), level.least)
            result[number] = replace(
                others,
                sigma=scatter,
                freedom=together,
                phi=(CORRELATED * others.phi + freedom * phi) / (CORRELATED + freedom),
                outliers=tuple((spike[spike >= NEAR * scatter] / scatter).tolist()),
                weight=freedom / together / size,
            )
    return result


def steps(levels: Sequence[Level]) -> list[list[ChangePoint]]:
    """Return the most probable steps that the detector cannot judge, with the p of each, oldest first.

    Args:
        levels: values of series without a change point of the detector. A step has up to SHORTER values on the side
            of the end that it is near to.
    """
    result: list[list[ChangePoint]] = [[] for _ in levels]
    for number, start, medians_of, tried in _splits(levels):
        level = levels[number]
        best = _tested(level.logs, start, medians_of, tried, partial(_scatter, level))
        if best is None or best.p >= RECURSE:
            result[number] = [best] if best else []
            continue
        older, newer = steps(
            [
                level._replace(logs=level.logs[: best.index], ends=True),
                level._replace(logs=level.logs[best.index :], begins=True),
            ]
        )
        result[number] = [
            *(point for point in older if point.p < RECURSE),
            best,
            *(replace(point, index=point.index + best.index) for point in newer if point.p < RECURSE),
        ]
    return result


class OlderStep(NamedTuple):
    """A step that its first values showed, up to SHORTER of them."""

    by_now: ChangePoint  # as all its values show it
    first: ChangePoint  # as its first values did


def older_steps(level: Level, starts: Sequence[int], cuts: Sequence[int]) -> list[OlderStep]:
    """Return the steps that the first values after them showed, and that the values by now still may show.

    So a step that was found when it was new is found for as long as values show it, wherever the detector cuts.

    Args:
        level: values of a series that one method timed, the newest as well.
        starts: where they may be (`Detected.cuts`), ascending.
        cuts: where levels begin, as the detector sees them.
    """
    edges = [0, *cuts, level.logs.size]
    first = dict[int, ChangePoint]()
    # Most steps are compared with the same values before them, whatever comes after
    between = partial(_between, level, cache(partial(_scatter, level)))
    for start in starts:
        if min(abs(start - edge) for edge in edges) < FEWEST_BETWEEN_CUTS:
            continue
        begin, end = max(edge for edge in edges if edge < start), min(edge for edge in edges if edge > start)
        if end - start == FEWEST_BETWEEN_CUTS and _begins_later(level.logs[max(begin, start - LONGER) : end]):
            continue
        ends = dict.fromkeys(min(start + size, end) for size in SIZES)
        step = min((between(begin, start, at) for at in ends), key=lambda step: step.p)
        if step.p < POSSIBLE:
            first[start] = step
            edges = sorted([*edges, start])
    weak = list[OlderStep]()
    while True:
        bounds = [*zip(edges, edges[1:], edges[2:], strict=False)]
        steps = [OlderStep(between(*at), first[at[1]]) for at in bounds if at[1] in first]
        weakest = max(steps, key=lambda step: step.by_now.p, default=None)
        if weakest is None or weakest.by_now.p < POSSIBLE:
            return sorted([*steps, *weak], key=lambda step: step.by_now.index)
        weak.append(weakest)
        edges.remove(weakest.by_now.index)


def _begins_later(logs: FloatArray) -> bool:
    """Return whether a shorter level at the end is nearer to values than one of the fewest that a cut leaves.

    Such a level is for the test of newest values: a step beside its beginning must not hide it.
    """
    sides = [(logs[:-size], logs[-size:]) for size in range(FEWEST_BETWEEN_CUTS, 0, -1)]
    off = [sum(float(np.abs(side - median(side)).sum()) for side in both) for both in sides]
    return min(off) < off[0]


Medians = tuple[float, float]  # of two levels
Scatter = Callable[[int, int], Noise | None]  # of the values of a level from one index to another


def _scatter(level: Level, first: int, last: int) -> Noise | None:
    (scatter,) = noises([level._replace(logs=level.logs[first:last])])
    return scatter


def _between(level: Level, scatter: Scatter, begin: int, start: int, end: int) -> ChangePoint:
    """Return the step at a place between two others. It has a p of 1 where values show none, or a slope."""
    logs, at = level.logs[begin:end], start - begin
    tried = (min(end - start, SHORTER) + 1) * MOST_TRIED / (SHORTER + 1)
    levels = median(logs[:at]), median(logs[at:])
    step = _tested(logs, at, levels, tried, lambda first, last: scatter(begin + first, begin + last))
    if step is None or is_slope(logs[max(at - LONGER, 0) : at + LONGER], min(at, LONGER)):
        return ChangePoint(index=start, before=levels[0], after=levels[1], low=math.nan, high=math.nan, p=1.0)
    return replace(step, index=start)


def _splits(levels: Sequence[Level]) -> Iterator[tuple[int, int, Medians, float]]:
    """Yield which may be two levels MIN_EFFECT apart, as `_tested` takes them: those that the values are nearest to."""
    ends_of = [(level.begins, level.ends) for level in levels]
    for numbers, values in rows_by_size([level.logs for level in levels], 2, ends_of):
        size, (begins, ends) = values.shape[1], ends_of[numbers[0]]
        tried = [at for at in range(1, size) if (begins and at <= SHORTER) or (ends and size - at <= SHORTER)]
        compared = [(values[:, max(index - LONGER, 0) : index], values[:, index : index + LONGER]) for index in tried]
        middles = np.array([[medians(side) for side in both] for both in compared])
        sides = [(values[:, :index], values[:, index:]) for index in tried]  # all of them: else one leaves out a step
        rest = [
            sum(np.abs(side - middle[:, None]).sum(axis=1) for side, middle in zip(both, two, strict=True))
            for both, two in zip(sides, middles, strict=True)
        ]
        nearest = np.argmin(rest, axis=0)
        medians_of = middles[nearest, :, np.arange(len(numbers))]
        ages = np.minimum(size - np.array(tried), SHORTER) + 1
        counts = ages * float((1 / ages).sum())
        for row in np.flatnonzero(np.abs(medians_of[:, 1] - medians_of[:, 0]) >= MIN_EFFECT).tolist():
            before, after = medians_of[row].tolist()
            yield numbers[row], tried[nearest[row]], (before, after), float(counts[nearest[row]])


def _tested(logs: FloatArray, start: int, levels: Medians, tried: float, scatter_of: Scatter) -> ChangePoint | None:
    """Return the step between two levels. None where the values show no step.

    Args:
        start: index of the second level's first value.
        tried: for how many starts its p counts: Bonferroni's correction, with weights of which the newest steps have
            most. Older ones were tested when they were new.
    """
    first, last = max(start - LONGER, 0), min(start + LONGER, logs.size)
    before, after = logs[first:start], logs[start:last]
    shorter, longer = (before, after) if before.size < after.size else (after, before)
    old, new = levels if shorter is after else levels[::-1]
    moved = new - old
    deviation = (shorter - old) / moved
    if shorter.size <= 2 and (deviation < SHARE_OF_STEP).any():
        return None
    scatter = scatter_of(start, last) if longer is after else scatter_of(first, start)
    if scatter is None:
        return None
    together = np.arange(shorter.size // 2 + 1, shorter.size + 1)
    shown = np.sort(deviation)[shorter.size - together] * abs(moved)
    sigmas = shown / scatter.single(longer.size)
    beyond = _beyond(sigmas, together, scatter.freedom)
    by_tails = float(_by_tails(beyond, sigmas, together, shorter.size, scatter).min())
    sizes = before.size, after.size
    step = Step.of(
        means=(scatter.level(before), scatter.level(after)),
        error=scatter.error(sizes),
        freedom=scatter.freedom,
        sizes=sizes,
    )
    return replace(step.point(start), p=min(max(step.p, by_tails) * tried, 1.0))


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
        is_inside = min(map(len, sides)) >= FEWEST_A_SIDE and yuen(*sides).p < P_CORRELATED
        if is_inside or abs(point.after - point.before) > DOUBTS * doubt:
            beyond.append(point)
    return beyond
