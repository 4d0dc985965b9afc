"""What time does to samples: how many independent ones they are worth, and whether they rise or fall."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from kernel_velocity.harness.statistics.primitives import (
    FEWEST_TO_BLOCK,
    FloatArray,
    Samples,
    concordance,
    constant,
    finite,
)
from kernel_velocity.harness.statistics.values import Figure, need, warn_constant

# Samples per autocorrelation time below which its own estimate is too low (Sokal, Monte Carlo Methods in Statistical
# Mechanics, 1997: runs shorter than about 50 of them do not know how long they should be).
TIMES_NEEDED = 50
DRIFT_BLOCKS = 16  # block means that drift is read from; |S| <= 45 of them is no drift at 4% (two-sided)
EXACT = 33  # values without ties: up to here p comes from counting permutations, above from the normal distribution


def effective_sample_size(samples: Samples) -> Figure:
    """Return how many independent samples have as precise a mean: n over the autocorrelation time, at most n.

    The autocorrelation time 1 + 2 (r_1 + r_2 + ...) is summed over pairs of lags while they are positive, and made to
    fall: Geyer's initial monotone sequence (Practical Markov Chain Monte Carlo, Statistical Science 7, 1992).
    O(n log n).

    Raises:
        ValueError: a sample is not finite.
    """
    values = finite(samples, "effective sample size")
    few = need(FEWEST_TO_BLOCK, "an effective sample size", values.size)
    if few or constant(values):
        return Figure(None, few + warn_constant(values))
    correlations = autocorrelations(values)
    pairs = correlations[: values.size // 2 * 2].reshape(-1, 2).sum(axis=1)
    stop = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    time = max(1.0, 2 * float(np.minimum.accumulate(pairs[:stop]).sum()) - 1)
    wanted = math.ceil(TIMES_NEEDED * time)
    return Figure(values.size / time, need(wanted, f"an autocorrelation time of {time:.3g} samples", values.size))


def autocorrelations(values: FloatArray) -> FloatArray:
    """Return the autocorrelation (biased estimator) at every lag from 0 to n - 1, through a Fourier transform."""
    n = values.size
    spectrum = np.fft.rfft(values - values.mean(), 2 * n)  # padded: a series does not follow on its own end
    covariances = np.fft.irfft(np.abs(spectrum) ** 2, 2 * n)[:n]
    return np.asarray(covariances / covariances[0], dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Whether block means rise or fall: Kendall's S against time, as tau-b, and how often chance does as much."""

    s: int | None  # pairs that rise minus pairs that fall; None where unknown
    tau: float | None  # in [-1, 1]; positive: the samples get slower
    p: float | None  # two-sided, of independent block means; blocks shorter than the autocorrelation make it too small
    blocks: int
    warnings: tuple[str, ...] = ()


def drift(samples: Samples, blocks: int = DRIFT_BLOCKS) -> Drift:
    """Return Kendall's test for trend over the means of `blocks` runs of neighbouring samples.

    Raises:
        ValueError: fewer than 3 blocks, or a sample that is not finite.
    """
    if blocks < 3:
        raise ValueError(f"drift over {blocks} blocks: wanted at least 3")
    values = finite(samples, "drift")
    few = need(blocks, f"drift over {blocks} block means", values.size)
    if few or constant(values):
        return Drift(s=None, tau=None, p=None, blocks=blocks, warnings=few + warn_constant(values))
    edges = np.arange(blocks) * values.size // blocks  # lengths differ by at most one: no sample is left out
    means = np.add.reduceat(values, edges) / np.diff(edges, append=values.size)
    ties = np.unique(means, return_counts=True)[1]
    s, pairs = concordance(means), blocks * (blocks - 1) // 2
    if ties.max() == blocks:
        return Drift(s=s, tau=None, p=None, blocks=blocks, warnings=("all block means are equal: no order to read",))
    tau = s / math.sqrt(pairs * (pairs - int((ties * (ties - 1)).sum()) // 2))
    warnings = () if ties.max() == 1 else (f"{int((ties > 1) @ ties)} of {blocks} block means are tied",)
    return Drift(s=s, tau=tau, p=_two_sided(s, ties), blocks=blocks, warnings=warnings)


def _two_sided(s: int, ties: npt.NDArray[np.int64]) -> float:
    """Return the probability that independent values have |S| as large; `ties` counts the equal ones."""
    n = int(ties.sum())
    if ties.max() == 1 and n <= EXACT:
        return _exact(abs(s), n)
    # Kendall, Rank Correlation Methods (1948), chapter 4: the variance of S, less what ties take.
    variance = (n * (n - 1) * (2 * n + 5) - int((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    return 2 * NormalDist().cdf(-abs(s) / math.sqrt(variance))


def _exact(s: int, n: int) -> float:
    """Return the share of the n! orders with at most as many inversions as S leaves, on both sides."""
    counts = [1]  # of orders of 1 value, by inversions; the k-th value adds 0 to k - 1 of them
    for k in range(2, n + 1):
        sums = [0]
        for count in counts + [0] * (k - 1):
            sums.append(sums[-1] + count)
        counts = [sums[i + 1] - sums[max(0, i + 1 - k)] for i in range(len(sums) - 1)]
    fewest = (n * (n - 1) // 2 - s) // 2  # inversions that go with a rising S of this size
    return min(1.0, 2 * sum(counts[: fewest + 1]) / math.factorial(n))
