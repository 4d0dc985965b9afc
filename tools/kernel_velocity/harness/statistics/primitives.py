"""Plain floats for stopping rules in hot loops: floats in, a float out, O(n) or O(n log n), no warnings attached.

What too few samples cannot say is None where the signature allows it, else a ValueError; a sample that is not finite is
always a ValueError. `describe` (figures.py) wraps most of these with what speaks against the number.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Samples = Sequence[float] | FloatArray

TRIM = 0.10  # per side; a robust location beats more samples (1.0 to 1.3% RSD where the mean has 2 to 3%)
FEWEST_TO_BLOCK = 16  # samples: fewer make no 8 blocks of more than one sample
FEWEST_BLOCKS = 8  # fewer block means have too uncertain a spread to be worth taking the widest of
BLOCK_POWERS = (0, 1 / 3, 1 / 2, 2 / 3)  # block sizes n^power: from no correlation to a long one
SHORT = 512  # up to here an insertion into a sorted list beats numpy: its n^2/4 moves are one memmove each


def finite(samples: Samples, what: str) -> FloatArray:
    """Return the samples as one array of float64.

    Raises:
        ValueError: a sample is NaN or infinite, or they are no one-dimensional sequence; names `what` and where.
    """
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"{what}: got samples of shape {values.shape}; wanted a sequence of numbers")
    good = np.isfinite(values)
    if not good.all():
        first = int(np.argmin(good))
        raise ValueError(f"{what}: sample {first} of {values.size} is {float(values[first])!r}; wanted a finite number")
    return values


def constant(values: FloatArray) -> bool:
    """Return whether the values differ by no more than rounding (a spread of 1e-12 of the mean)."""
    if values.size == 0:
        return True
    centred = values - values.mean()
    return bool(centred @ centred <= (1e-12 * abs(float(values.mean()))) ** 2 * values.size)


def trimmed_mean(samples: Samples, proportion: float = TRIM) -> float:
    """Return the mean without the lowest and the highest `proportion` of the samples (floor of n * proportion a side).

    Raises:
        ValueError: no samples, one that is not finite, or a proportion outside [0, .5).
    """
    values = np.sort(finite(samples, "trimmed mean"))
    if values.size == 0:
        raise ValueError("trimmed mean of no samples")
    cut = int(values.size * checked_proportion(proportion))
    return float(values[cut : values.size - cut].mean())


def checked_proportion(proportion: float) -> float:
    """Return the proportion.

    Raises:
        ValueError: outside [0, .5).
    """
    if not 0 <= proportion < 0.5:
        raise ValueError(f"proportion {proportion}: wanted [0, .5) per side")
    return proportion


def cv(samples: Samples) -> float | None:
    """Return the coefficient of variation: sample standard deviation (n - 1) over mean; None below two samples.

    Raises:
        ValueError: a sample is not finite.
    """
    values = finite(samples, "coefficient of variation")
    if values.size < 2 or values.mean() == 0:
        return None
    return float(values.std(ddof=1) / values.mean())


def relative_standard_error(samples: Samples, exponent: float = 0.5) -> float:
    """Return the standard error of the mean over the mean, s / n^exponent / |mean|, as if samples were independent.

    Args:
        samples: at least two.
        exponent: 1/2, or 1/3 as the conservative variant of Reactive Benchmarking's rule.

    Raises:
        ValueError: fewer than two samples, one that is not finite, or a mean of zero.
    """
    values = finite(samples, "relative standard error")
    if values.size < 2:
        raise ValueError(f"relative standard error: need >= 2 samples, have {values.size}")
    mean = float(values.mean())
    if mean == 0:
        raise ValueError("relative standard error: the samples have a mean of zero, nothing is relative to it")
    return float(values.std(ddof=1) / values.size**exponent / abs(mean))


def autocorrelation(samples: Samples, lag: int = 1) -> float | None:
    """Return the lag-`lag` autocorrelation (biased estimator, in [-1, 1]); None when too few or constant.

    Raises:
        ValueError: a lag below 1, or a sample that is not finite.
    """
    if lag < 1:
        raise ValueError(f"autocorrelation: lag {lag}; wanted at least 1")
    values = finite(samples, "autocorrelation")
    # A constant series has rounding noise for deviations: no correlation can be read from it.
    if values.size < lag + 2 or constant(values):
        return None
    centred = values - values.mean()
    return float(centred[lag:] @ centred[:-lag]) / float(centred @ centred)


def concordance(samples: Samples) -> int:
    """Return Kendall's S against time: pairs that rise minus pairs that fall, in n(n - 1)/2; a tie counts nothing.

    Raises:
        ValueError: a sample is not finite.
    """
    values = finite(samples, "concordance")
    return _concordance_short(values.tolist()) if values.size <= SHORT else _concordance_long(values)


def _concordance_short(values: list[float]) -> int:
    """Insert one by one into a sorted list: what lies below has risen, what lies above has fallen."""
    seen: list[float] = []
    total = 0
    for value in values:
        below = bisect_left(seen, value)
        total += below - (len(seen) - bisect_right(seen, value, below))
        seen.insert(below, value)
    return total


def _concordance_long(values: FloatArray) -> int:
    """Merge sorted halves of 1, 2, 4, ... ranks, all of a level at once, and count across each pair of halves."""
    n = values.size
    ranks = np.unique(values, return_inverse=True)[1]
    length = 1 << (n - 1).bit_length()
    # Padding above every rank makes a rising pair with every sample, n of them each, and ties with itself.
    rows = np.concatenate([ranks, np.full(length - n, n)]).reshape(length, 1)
    total = -n * (length - n)
    while len(rows) > 1:
        half = rows.shape[1]
        pairs = rows.reshape(-1, 2, half)
        # A pair's number in front of its ranks keeps all left halves in one ascending array.
        keys = pairs + (n + 1) * np.arange(len(pairs))[:, None, None]
        left, right = keys[:, 0].ravel(), keys[:, 1].ravel()
        found = left.searchsorted(right, "left") + left.searchsorted(right, "right")
        before = np.repeat(np.arange(len(pairs)) * half, half)  # of the left halves of earlier pairs
        total += int((found - 2 * before - half).sum())
        rows = np.sort(pairs.reshape(-1, 2 * half), axis=1, kind="stable")
    return total


# Two-sided 95% quantiles of Student's t for 1 to 30 degrees of freedom (any table; scipy.stats.t.ppf(.975, df)).
# fmt: off
_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)
# fmt: on


def t_975(degrees: int) -> float:
    """Return the .975 quantile of Student's t; from 31 degrees on by its expansion, to .0001.

    Raises:
        ValueError: fewer than 1 degree of freedom.
    """
    if degrees < 1:
        raise ValueError(f"{degrees} degrees of freedom: wanted at least 1")
    if degrees <= len(_T_975):
        return _T_975[degrees - 1]
    z = 1.959964
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96  # Abramowitz and Stegun 26.7.5
    return z + first / degrees + second / degrees**2


def influence(values: FloatArray, proportion: float = TRIM) -> FloatArray:
    """Return the trimmed mean's influence values: winsorised samples, centred, over 1 - 2 proportion.

    Their mean is 0 and their spread that of the trimmed mean times the square root of n (Tukey and McLaughlin 1963), so
    that whatever is known about means, of blocks say, holds for the trimmed mean.
    """
    n, cut = values.size, int(values.size * checked_proportion(proportion))
    ordered = np.partition(values, (cut, n - 1 - cut))
    winsorised = np.clip(values, ordered[cut], ordered[n - 1 - cut])
    return np.asarray((winsorised - winsorised.mean()) / (1 - 2 * proportion), dtype=np.float64)


def block_half_width(samples: Samples, proportion: float = TRIM) -> float | None:
    """Return the 95% half-width of the trimmed mean, in the samples' unit, from block means; None below 16 samples.

    Influence values turn the trimmed mean into a mean; means of blocks of n^{0, 1/3, 1/2, 2/3} samples, of which there
    are at least 8, carry the autocorrelation; the widest answer counts. Within one run only: it says nothing of what
    differs between processes. 0 where at least the middle 1 - 2 proportion of the samples are equal.

    Raises:
        ValueError: a sample that is not finite, or a proportion outside [0, .5).
    """
    values = finite(samples, "block half-width")
    n = values.size
    if n < FEWEST_TO_BLOCK:
        return None
    psi = influence(values, proportion)
    widths = []
    for size in sorted({max(1, round(n**power)) for power in BLOCK_POWERS}):
        blocks = n // size
        if blocks >= FEWEST_BLOCKS:
            means = psi[: blocks * size].reshape(blocks, size).mean(axis=1)
            widths.append(t_975(blocks - 1) * float(means.std(ddof=1)) / math.sqrt(blocks))
    return max(widths)


def half_width(samples: Samples, proportion: float = TRIM) -> float | None:
    """Return `block_half_width` relative to the trimmed mean; None below 16 samples or where that mean is zero.

    Raises:
        ValueError: as `block_half_width`.
    """
    width, centre = block_half_width(samples, proportion), trimmed_mean(samples, proportion) if len(samples) else 0.0
    return None if width is None or centre == 0 else width / centre


def long_blocks(samples: Samples, blocks: int, proportion: float = TRIM) -> FloatArray | None:
    """Return the means of influence values over `blocks` neighbouring runs of samples, shape (blocks,), in their unit.

    Their mean is about 0, and their spread over blocks^1/2 the standard error of the trimmed mean, correlation that is
    shorter than a block included: the method of batch means, with few and long ones (Schmeiser, Batch size effects in
    the analysis of simulation output, Operations Research 30, 1982). Lengths differ by at most one. None where a block
    would have fewer than two samples.

    Raises:
        ValueError: a sample that is not finite, or a proportion outside [0, .5).
    """
    values = finite(samples, "long blocks")
    if values.size < 2 * blocks:
        return None
    edges = np.arange(blocks) * values.size // blocks
    sums = np.add.reduceat(influence(values, proportion), edges)
    return np.asarray(sums / np.diff(edges, append=values.size), dtype=np.float64)
