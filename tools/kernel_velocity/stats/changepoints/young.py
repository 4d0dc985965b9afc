"""Find the steps that have too few values on one side for the detector: of short series and of newest values. Pure.

A step has a shorter side of up to SHORTER values. It is tested with Student's t. The scatter comes from the longer
side, and from other series of the machine where that side is short. Correlation of the noise inflates the error of a
mean (AR(1)). Many series are tested at once, so the caller controls false discoveries. Series of one length are one
matrix, which is several times as fast as one series after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import special

from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.stats.changepoints.detector import FEWEST_A_SIDE
from kernel_velocity.stats.changepoints.noise import MAD_SIGMA, correlation, difference_sigma, iqr_sigma
from kernel_velocity.stats.changepoints.values import INTERVAL, MIN_EFFECT, MIN_SIGMA, ChangePoint, rows_by_size

SHORTER = FEWEST_A_SIDE - 1  # values of the shorter side: from one more on, the detector decides
LONGER = 40  # values of the longer side that are compared: levels of long ago say little
FEWEST_FOR_SCATTER = 10  # values with a scatter of their own; below, other series' scatter counts, too
FEWEST_MOVES = 4  # successive differences of values that count: most of fewer may be steps
PRIOR = 10.0  # degrees of freedom that the other series' scatter counts for
QUARTILE_EFFICIENCY = 0.37  # of the interquartile range as an estimate of scatter
MEDIAN = math.sqrt(math.pi / 2)  # error of a median over that of a mean, of three and more normal values
SHARE_OF_STEP = 0.5  # of the step, by each of one or two values: else an outlier shows it
RECURSE = 1e-3  # p from which the two sides are searched, too
OUTER = 0.98  # quantile of successive differences that tells how heavy the tails are
UNKNOWN_TAILS = 1.5  # where nothing but the tested series tells them


class Pool(NamedTuple):
    """What many series of a machine tell about a single one."""

    sigma: float  # typical scatter of single log values
    tails: float  # the scatter that outliers seem to have, over sigma; 1: those of a normal distribution


def pool(series: Sequence[FloatArray], *, are_controls: bool) -> Pool | None:
    """Return what some series tell about any other of their machine. None where no two values follow each other.

    Args:
        series: the newest log values of each, none missing. are_controls: whether no commit changes their code.
    """
    moves = [np.abs(np.diff(logs)) for logs in series if logs.size > 1]
    if not moves:
        return None
    sigma = max(float(np.median(np.concatenate(moves))) * MAD_SIGMA / math.sqrt(2), MIN_SIGMA)
    if not are_controls and max(move.size for move in moves) < FEWEST_FOR_SCATTER:
        return Pool(sigma, UNKNOWN_TAILS)
    scales = [
        max(float(np.median(move)) * MAD_SIGMA, MIN_SIGMA) if move.size >= FEWEST_FOR_SCATTER else sigma * math.sqrt(2)
        for move in moves
    ]
    scaled = np.concatenate([move / scale for move, scale in zip(moves, scales, strict=True)])
    return Pool(sigma, max(1.0, float(np.quantile(scaled, OUTER)) / special.ndtri((1 + OUTER) / 2)))


@dataclass(frozen=True, kw_only=True)
class Noise:
    """The scatter of single log values."""

    sigma: float
    freedom: float
    phi: float = 0.0  # of AR(1)

    def error(self, sizes: tuple[int, int]) -> float:
        """Return the standard error of the difference of two levels of these sizes."""
        return self.sigma * math.sqrt(sum(self._inflation(size) / size for size in sizes))

    def _inflation(self, size: int) -> float:
        """Return the factor by which AR(1) noise, and taking a median, inflate the variance of a level."""
        phi = self.phi
        correlated = 1 + 2 * phi / (1 - phi) * (1 - (1 - phi**size) / (size * (1 - phi)))
        return correlated * (MEDIAN**2 if 3 <= size <= SHORTER else 1.0)

    def least(self, sizes: tuple[int, int], p: float) -> float:
        """Return the least step that a test at this p sees."""
        return max(MIN_EFFECT, _quantile(self.freedom, 1 - p / 2) * self.error(sizes))


@cache
def _quantile(freedom: float, p: float) -> float:
    """Return a quantile of Student's t. Levels of one length have the same freedom."""
    return float(special.stdtrit(freedom, p))


class Level(NamedTuple):
    """Values that may be one level, and what else tells their scatter."""

    logs: FloatArray  # (n,) log values, none missing
    others: Pool | None  # of the machine's series; None: unknown
    rounds: float  # standard error that the rounds of a value leave: the scatter is no less; NaN: unknown
    begins: bool = True  # whether a step may be near its beginning
    ends: bool = True  # whether a step may be near its end

    @property
    def least(self) -> float:
        """The least scatter to assume."""
        return MIN_SIGMA if math.isnan(self.rounds) else max(MIN_SIGMA, self.rounds)


def noises(levels: Sequence[Level]) -> list[Noise | None]:
    """Return the scatter of single values of each level. None where nothing tells it."""
    result = list(map(_noise_of_few, levels))
    for numbers, values in rows_by_size([level.logs for level in levels], FEWEST_FOR_SCATTER):
        size = values.shape[1]
        rest = values - np.median(values, axis=1, keepdims=True)
        sigmas = np.maximum(iqr_sigma(values), difference_sigma(values)).tolist()
        sums = (rest[:, 1:] * rest[:, :-1]).sum(axis=1).tolist(), (rest * rest).sum(axis=1).tolist()
        for number, sigma, lagged, squared in zip(numbers, sigmas, *sums, strict=True):
            phi, freedom = correlation(lagged, squared, size), max(QUARTILE_EFFICIENCY * (size - 1), 3.0)
            result[number] = Noise(sigma=max(sigma, levels[number].least), freedom=freedom, phi=phi)
    return result


def _noise_of_few(level: Level) -> Noise | None:
    """Return the scatter of fewer values than FEWEST_FOR_SCATTER."""
    others = level.others
    if others is None or level.logs.size >= FEWEST_FOR_SCATTER:
        return None
    moves = np.sort(np.abs(np.diff(level.logs)))  # of which the lower middle is no step, unless most are
    freedom = moves.size if moves.size >= FEWEST_MOVES else 0
    scatter = float(moves[(freedom - 1) // 2]) * MAD_SIGMA / math.sqrt(2) if freedom else 0.0
    sigma = math.sqrt((PRIOR * others.sigma**2 + freedom * scatter**2) / (PRIOR + freedom))
    return Noise(sigma=max(sigma, level.least), freedom=PRIOR + freedom)


def steps(levels: Sequence[Level]) -> list[list[ChangePoint]]:
    """Return the most probable steps that the detector cannot judge, with the p of each, oldest first.

    Args:
        levels: values of series without a change point of the detector. A step has up to SHORTER values on the side
            of the end that it is near to.
    """
    result: list[list[ChangePoint]] = [[] for _ in levels]
    for number, split in _splits(levels):
        result[number] = _steps(levels[number], split)
    return result


def _steps(level: Level, split: _Split) -> list[ChangePoint]:
    best = _tested(level, split)
    if best is None:
        return []
    if best.p >= RECURSE:
        return [best]
    sides = (
        level._replace(logs=level.logs[: best.index], ends=True),
        level._replace(logs=level.logs[best.index :], begins=True),
    )
    older, newer = steps(sides)
    return [
        *(point for point in older if point.p < RECURSE),
        best,
        *(replace(point, index=point.index + best.index) for point in newer if point.p < RECURSE),
    ]


class _Split(NamedTuple):
    """What may be two levels."""

    start: int  # index of the second level's first value
    tried: int  # how many starts were tried
    before: float
    after: float


def _splits(levels: Sequence[Level]) -> Iterator[tuple[int, _Split]]:
    """Yield which may be two levels MIN_EFFECT apart, with the two that the values are nearest to."""
    ends_of = [(level.begins, level.ends) for level in levels]
    for numbers, values in rows_by_size([level.logs for level in levels], 2, ends_of):
        size, (begins, ends) = values.shape[1], ends_of[numbers[0]]
        tried = [at for at in range(1, size) if (begins and at <= SHORTER) or (ends and size - at <= SHORTER)]
        compared = [(values[:, max(index - LONGER, 0) : index], values[:, index : index + LONGER]) for index in tried]
        medians = np.array([[np.median(side, axis=1) for side in both] for both in compared])
        sides = [(values[:, :index], values[:, index:]) for index in tried]  # all of them: else one leaves out a step
        rest = [
            sum(np.abs(side - middle[:, None]).sum(axis=1) for side, middle in zip(both, two, strict=True))
            for both, two in zip(sides, medians, strict=True)
        ]
        nearest = np.argmin(rest, axis=0)
        before, after = medians[nearest, :, np.arange(len(numbers))].T
        for row in np.flatnonzero(np.abs(after - before) >= MIN_EFFECT).tolist():
            yield numbers[row], _Split(tried[nearest[row]], len(tried), float(before[row]), float(after[row]))


def _tested(level: Level, split: _Split) -> ChangePoint | None:
    """Return the step between two levels. None where the values show no step."""
    before, after = level.logs[: split.start][-LONGER:], level.logs[split.start :][:LONGER]
    shorter, longer = (before, after) if before.size < after.size else (after, before)
    effect = split.after - split.before
    old, moved = (split.before, effect) if shorter is after else (split.after, -effect)
    deviation = (shorter - old) / moved
    if shorter.size <= 2 and (deviation < SHARE_OF_STEP).any():
        return None
    if shorter.size == 1 and longer.size >= FEWEST_FOR_SCATTER and np.abs(longer - old).max() >= abs(effect):
        return None
    (scatter,) = noises([level._replace(logs=longer)])
    if scatter is None:
        return None
    error = scatter.error((before.size, after.size))
    if shorter.size == 1:
        error *= UNKNOWN_TAILS if level.others is None else level.others.tails
    p = 2 * float(special.stdtr(scatter.freedom, -abs(effect) / error))
    half = _quantile(scatter.freedom, INTERVAL) * error
    return ChangePoint(
        index=split.start,
        before=split.before,
        after=split.after,
        low=math.exp(effect - half),
        high=math.exp(effect + half),
        p=min(p * split.tried, 1.0),
    )
