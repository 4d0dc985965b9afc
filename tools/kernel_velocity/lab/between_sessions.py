"""How often sessions of identical code are called different, and how often a planted change is. Pure, seeded.

Every pair of sessions of a series is compared, by a test, in a layout of rounds and samples. Resampling within one
session would be a permutation test, which cannot fail: what is resampled here, for the bounds, are whole sessions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from kernel_velocity.harness.statistics import FloatArray, t_975
from kernel_velocity.stats import two_samples as differing

RESAMPLES = 10_000
BOUND = 0.95  # of the one-sided upper bound
SEED = 20

Judge = Callable[[FloatArray, float], "Matrix"]  # of (sessions, rounds, samples) log seconds and a relative change
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]  # [i, j]: session j, slowed, called different from session i


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How many rounds a comparison has, and how many samples of each."""

    rounds: int
    samples: int

    def __str__(self) -> str:
        return f"{self.rounds} x {self.samples}"


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How often a test called pairs different."""

    different: int
    pairs: int
    bound: float  # 95% upper bound, bootstrap over sessions; 0 where nothing was called different
    unseen: float  # 95% upper bound where nothing was, from pairs that share no session

    @property
    def share(self) -> float:
        """Return the share of the pairs."""
        return self.different / self.pairs


def by_asv(values: FloatArray, change: float) -> Matrix:
    """Judge all pairs of sessions by asv's own test; all samples of a session are one set."""
    flat = np.exp(values.reshape(values.shape[0], -1))
    found = np.zeros((len(flat), len(flat)))
    for i, j in permutations(range(len(flat)), 2):
        if change or i < j:
            found[i, j] = differing.asv_differs(flat[i].tolist(), (flat[j] * (1 + change)).tolist())
    medians = np.median(flat, axis=1)
    return _in_direction(found, medians, change) if change else found + found.T


def _in_direction(found: Matrix, medians: FloatArray, change: float) -> Matrix:
    """Return what was found without what was found to be a change for the other side, which is no success."""
    return np.asarray(found * ((medians[None, :] * (1 + change) - medians[:, None]) * change > 0))


def by_intervals(values: FloatArray, change: float) -> Matrix:
    """Judge all pairs as the pages do: their intervals over rounds lie apart. It knows of no other session."""
    rounds = values.mean(axis=2)
    number = rounds.shape[1]
    middle, centre = np.median(rounds, axis=1), rounds.mean(axis=1)
    half = t_975(number - 1) * rounds.std(axis=1, ddof=1) / math.sqrt(number)
    low, high = np.minimum(centre - half, middle), np.maximum(centre + half, middle)
    moved = math.log1p(change)
    found = ((low[None, :] + moved > high[:, None]) | (high[None, :] + moved < low[:, None])).astype(float)
    np.fill_diagonal(found, 0.0)
    return _in_direction(found, np.exp(middle), change) if change else found


def by_ours(values: FloatArray, change: float) -> Matrix:
    """Judge all pairs by ours; the floor of a pair is that of the other sessions."""
    flat = values.reshape(values.shape[0], -1)
    medians = np.median(flat, axis=1)
    pairs = list(permutations(range(len(flat)), 2))
    floors = np.array([differing.floor_of(np.delete(medians, pair)) for pair in pairs])
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    found = np.zeros((len(flat), len(flat)))
    found[first, second] = differing.differs(flat[first], flat[second] + math.log1p(change), floors)
    return _in_direction(found, np.exp(medians), change) if change else found


def rate(matrices: Sequence[Matrix], seed: int = SEED) -> Rate:
    """Return how often the pairs of all series were called different, bound by resampling sessions.

    A resample draws as many sessions as there are, the same for all series, and compares all its pairs of different
    ones: a session that is unlike the others is in none, in some or in many of them. Of what never happened no
    bootstrap knows; there the n pairs that share no session, none of which differed, give 1 - .05^(1/n), the series
    taken as independent. Of rare events the bound is too narrow: simulated with 25 sessions, it held the true rate in
    63% (normal noise) to 85% (heavy tails) of cases.
    """
    total = np.sum(matrices, axis=0)
    number = len(total)
    counts = np.random.default_rng(seed).multinomial(number, np.full(number, 1 / number), size=RESAMPLES)
    found = np.einsum("ki,ij,kj->k", counts, total, counts, optimize=True)
    pairs = (number**2 - (counts**2).sum(axis=1)) * len(matrices)
    usable = pairs > 0
    return Rate(
        different=int(total.sum()) // 2,
        pairs=len(matrices) * number * (number - 1) // 2,
        bound=float(np.quantile(found[usable] / pairs[usable], BOUND)),
        unseen=1 - (1 - BOUND) ** (1 / (len(matrices) * (number // 2))),
    )


def power(matrices: Sequence[Matrix]) -> list[float]:
    """Return, per series, in what share of the pairs a planted change was found."""
    return [float(matrix.sum() / (len(matrix) * (len(matrix) - 1))) for matrix in matrices]
