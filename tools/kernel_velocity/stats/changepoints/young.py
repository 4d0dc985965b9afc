"""Find the steps that have too few values on one side for the detector: of short series and of newest values. Pure.

A step has a shorter side of up to SHORTER values. It is tested with Student's t. The scatter comes from the longer
side, and from other series of the machine where that side is short. Correlation of the noise inflates the error of a
mean (AR(1)). Many series are tested at once, so the caller controls false discoveries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import special

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints.detector import FEWEST_A_SIDE
from kernel_velocity.stats.changepoints.noise import MAD_SIGMA, correlation, difference_sigma, iqr_sigma
from kernel_velocity.stats.changepoints.values import INTERVAL, MIN_EFFECT, MIN_SIGMA, ChangePoint

SHORTER = FEWEST_A_SIDE - 1  # values of the shorter side: from one more on, the detector decides
LONGER = 40  # values of the longer side that are compared: levels of long ago say little
FEWEST_ALONE = 10  # values with a scatter of their own; below, other series' scatter counts, too
FEWEST_MOVES = 4  # successive differences of values that count: most of fewer may be steps
PRIOR = 10.0  # degrees of freedom that the other series' scatter counts for
EFFICIENCY = 0.37  # of the interquartile range as an estimate of scatter
MEDIAN = math.sqrt(math.pi / 2)  # error of a median over that of a mean, of three and more normal values
MOVED = 0.5  # of the step, by each of one or two values: else an outlier shows it
RECURSE = 1e-3  # p from which the two sides are searched, too
YOUNG = 20  # values of a longer level, whose beginning nobody asks about any more
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
    if not are_controls and max(move.size for move in moves) < FEWEST_ALONE:
        return Pool(sigma, UNKNOWN_TAILS)
    scales = [
        max(float(np.median(move)) * MAD_SIGMA, MIN_SIGMA) if move.size >= FEWEST_ALONE else sigma * math.sqrt(2)
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
        lags = np.arange(1, size)
        correlated = 1 + 2 * float(((1 - lags / size) * self.phi**lags).sum())
        return correlated * (MEDIAN**2 if 3 <= size <= SHORTER else 1.0)

    def least(self, sizes: tuple[int, int], p: float) -> float:
        """Return the least step that a test at this p sees."""
        return max(MIN_EFFECT, float(special.stdtrit(self.freedom, 1 - p / 2)) * self.error(sizes))


def noise(level: FloatArray, others: Pool | None, rounds: float) -> Noise | None:
    """Return the scatter of single values. None where nothing tells it.

    Args:
        level: log values of one level. others: of the machine's series. None: unknown.
        rounds: standard error that the rounds of a value leave, of log values. The scatter is no less. NaN: unknown.
    """
    count = level.size
    least = max(MIN_SIGMA, 0.0 if math.isnan(rounds) else rounds)
    if count >= FEWEST_ALONE:
        rest = level - np.median(level)
        phi = correlation(float(rest[1:] @ rest[:-1]), float(rest @ rest), count)
        sigma = max(iqr_sigma(level), difference_sigma(level), least)
        return Noise(sigma=sigma, freedom=max(EFFICIENCY * (count - 1), 3.0), phi=phi)
    if others is None:
        return None
    moves = np.sort(np.abs(np.diff(level)))  # of which the lower middle is no step, unless most are
    freedom = moves.size if moves.size >= FEWEST_MOVES else 0
    scatter = float(moves[(freedom - 1) // 2]) * MAD_SIGMA / math.sqrt(2) if freedom else 0.0
    sigma = math.sqrt((PRIOR * others.sigma**2 + freedom * scatter**2) / (PRIOR + freedom))
    return Noise(sigma=max(sigma, least), freedom=PRIOR + freedom)


def steps(logs: FloatArray, others: Pool | None, rounds: float) -> list[ChangePoint]:
    """Return the most probable steps of one level that the detector cannot judge, with the p of each, oldest first.

    Args:
        logs: (n,) log values since the detector's last change point, none missing. others, rounds: as of `noise`.
    """
    best = _best(logs, others, rounds)
    if best is None:
        return []
    if best.p >= RECURSE:
        return [best]
    older = steps(logs[: best.index], others, rounds)
    newer = steps(logs[best.index :], others, rounds)
    return [
        *(point for point in older if point.p < RECURSE),
        best,
        *(replace(point, index=point.index + best.index) for point in newer if point.p < RECURSE),
    ]


def _best(logs: FloatArray, others: Pool | None, rounds: float) -> ChangePoint | None:
    """Return the step that leaves the values nearest to its two levels. None where it shows no step."""
    size = logs.size
    first = size - SHORTER if size > YOUNG else 1
    places = [place for place in range(first, size) if min(place, size - place) <= SHORTER]
    sides = {place: (logs[max(place - LONGER, 0) : place], logs[place : place + LONGER]) for place in places}
    if not sides:
        return None
    place = min(sides, key=lambda place: sum(float(np.abs(side - np.median(side)).sum()) for side in sides[place]))
    step = _tested(sides[place], others, rounds)
    return None if step is None else replace(step, index=place, p=min(step.p * len(places), 1.0))


def _tested(sides: tuple[FloatArray, FloatArray], others: Pool | None, rounds: float) -> ChangePoint | None:
    """Return the step between the values before and after. None where they show no step."""
    before, after = sides
    shorter, longer = (before, after) if before.size < after.size else (after, before)
    scatter = noise(longer, others, rounds)
    levels = float(np.median(before)), float(np.median(after))
    effect = levels[1] - levels[0]
    if scatter is None or abs(effect) < MIN_EFFECT:
        return None
    deviation = (shorter - np.median(longer)) / (effect if shorter is after else -effect)
    if shorter.size <= 2 and (deviation < MOVED).any():
        return None
    if shorter.size == 1 and longer.size >= FEWEST_ALONE and np.abs(longer - np.median(longer)).max() >= abs(effect):
        return None
    error = scatter.error((before.size, after.size))
    if shorter.size == 1:
        error *= UNKNOWN_TAILS if others is None else others.tails
    p = 2 * float(special.stdtr(scatter.freedom, -abs(effect) / error))
    half = float(special.stdtrit(scatter.freedom, INTERVAL)) * error
    return ChangePoint(
        index=before.size,
        before=levels[0],
        after=levels[1],
        low=math.exp(effect - half),
        high=math.exp(effect + half),
        p=p,
    )
