"""Test whether two sets of round estimates differ. Pure. Log seconds in, p values and booleans out.

Sets differ under two conditions: by more than chance within the sessions allows (the exact Mann-Whitney test, with few
rounds, where it cannot reach its threshold, Welch's t test), and in their medians by more than identical code does
between sessions: the floor of the series.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, reduce
from statistics import NormalDist

import numpy as np
from scipy import special

from kernel_velocity.engine.statistics import FloatArray

FEWEST_FOR_EXACT = (
    7  # rounds a side from which the exact test can reach P: 7 against 7 gives .0006 at least, 6 against 6 .002
)
P = 1e-3
P_WELCH = 0.01  # with fewer rounds
LEAST_CHANGE = 0.01  # smallest relative change that is reported, whatever the floor
FLOOR_CONFIDENCE = 0.99  # of the floor, two-sided, under a t distribution


def controlled(ps: Sequence[float]) -> list[float]:
    """Return p values adjusted for how many there are, which Benjamini and Hochberg compare with the false discoveries.

    They are those of scipy.stats.false_discovery_control, whose import takes .4 s.
    """
    order = np.argsort(ps)[::-1]  # the largest first
    adjusted = np.empty(len(ps))
    adjusted[order] = np.minimum.accumulate(np.asarray(ps)[order] * len(ps) / np.arange(len(ps), 0, -1))
    return [float(p) for p in np.minimum(adjusted, 1.0)]


def mann_whitney(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the two-sided exact p values of rows of `a` against the same rows of `b`.

    Args:
        a: (k, n).
        b: (k, m). Ties count half, and U is rounded towards no difference.
    """
    n, m = a.shape[1], b.shape[1]
    above = (a[:, :, None] > b[:, None, :]).sum(axis=(1, 2)) + 0.5 * (a[:, :, None] == b[:, None, :]).sum(axis=(1, 2))
    smaller = np.ceil(np.minimum(above, n * m - above)).astype(int)
    lower = np.cumsum(_counts(n, m)) / math.comb(n + m, n)
    return np.asarray(np.minimum(1.0, 2 * lower[smaller]))


def stratified(strata: Sequence[tuple[FloatArray, FloatArray]], confidence: float) -> tuple[float, float, float, float]:
    """Return (estimate, low, high, p) of the shift of the second samples of some sessions against the first ones.

    Values are compared within a session only, because sessions differ. The estimate is the median of all differences of
    a later value and an earlier one of the same session (Hodges and Lehmann, Annals of Mathematical Statistics 34(2),
    1963). U is the sum over the sessions, and its distribution exact (van Elteren, Bulletin of the ISI 37, 1960, with
    equal weights). The interval holds the shifts that the two-sided test at 1 - confidence does not reject, so that it
    cannot contradict p.

    Args:
        strata: (n,), (m,) of each session. With too few values for the confidence the bounds are infinite.
        confidence: of the interval.
    """
    differences = np.sort(np.concatenate([(b[:, None] - a[None, :]).ravel() for a, b in strata]))
    lower = _lower(tuple((a.size, b.size) for a, b in strata))
    outside = int(np.searchsorted(lower, (1 - confidence) / 2, side="right"))  # differences left out on either side
    low, high = (-math.inf, math.inf) if outside == 0 else (differences[outside - 1], differences[-outside])
    above = (differences > 0).sum() + 0.5 * (differences == 0).sum()
    p = min(1.0, 2 * lower[math.ceil(min(above, differences.size - above))])
    return float(np.median(differences)), float(low), float(high), float(p)


@cache
def _lower(sizes: tuple[tuple[int, int], ...]) -> FloatArray:
    """Return the probabilities of a U summed over sessions of these sizes of 0, 1, ... or less, by chance."""
    shares = [_counts(n, m) / math.comb(n + m, n) for n, m in sizes]
    return np.cumsum(reduce(np.convolve, shares))


@cache
def _counts(n: int, m: int) -> FloatArray:
    """Return the number of arrangements of n and m values with U = 0, 1, ..., n m.

    The coefficients of the Gaussian binomial (n + m over n): Mann and Whitney, Annals of Mathematical Statistics 18(1),
    1947, by its product form, (1 - q^(m+1)) ... (1 - q^(m+n)) / ((1 - q) ... (1 - q^n)).
    """
    counts = [1] + [0] * (n * m)
    for factor in range(1, n + 1):
        for index in range(n * m, m + factor - 1, -1):
            counts[index] -= counts[index - m - factor]
        for index in range(factor, n * m + 1):
            counts[index] += counts[index - factor]
    return np.asarray(counts, dtype=np.float64)


def welch(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the two-sided p values of Welch's t test of rows of `a` (k, n) against the same rows of `b` (k, m)."""
    n, m = a.shape[1], b.shape[1]
    va, vb = a.var(axis=1, ddof=1) / n, b.var(axis=1, ddof=1) / m
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (a.mean(axis=1) - b.mean(axis=1)) / np.sqrt(va + vb)
        freedom = (va + vb) ** 2 / (va**2 / (n - 1) + vb**2 / (m - 1))
        p = 2 * special.stdtr(freedom, -np.abs(t))
    return np.asarray(np.where(np.isnan(p), 1.0, p))  # two constants: equal, or too few values to tell


def differs(a: FloatArray, b: FloatArray, floors: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return whether rows of `a` and the same rows of `b` differ.

    Args:
        a: (k, n) log seconds.
        b: (k, m).
        floors: (k,) relative change between sessions of identical code.
    """
    exact = min(a.shape[1], b.shape[1]) >= FEWEST_FOR_EXACT
    significant = mann_whitney(a, b) < P if exact else welch(a, b) < P_WELCH
    moved = np.abs(np.median(a, axis=1) - np.median(b, axis=1))
    return np.asarray(significant & (moved >= np.maximum(math.log1p(LEAST_CHANGE), floors)))


def floor_of(medians: Sequence[float] | FloatArray) -> float:
    """Return the largest difference to expect of the log medians of two sessions of identical code, in 99% of cases.

    The t quantile for the sessions at hand, times their standard deviation, times the root of two for a difference. The
    deviation is the larger of the usual one and of a robust one, so that a single wild session raises the floor: false
    alarms are worse than a change found later.

    Raises:
        ValueError: fewer than three sessions.
    """
    values = np.asarray(medians)
    if values.size < 3:
        raise ValueError(f"a floor of {values.size} sessions; wanted 3 or more")
    robust = float(np.median(np.abs(values - np.median(values)))) / NormalDist().inv_cdf(0.75)
    deviation = max(float(values.std(ddof=1)), robust)
    return float(special.stdtrit(values.size - 1, (1 + FLOOR_CONFIDENCE) / 2)) * deviation * math.sqrt(2)
