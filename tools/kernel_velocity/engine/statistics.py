"""Statistics of samples: robust location, spread, autocorrelation, confidence intervals. Numpy only.

Samples are one-dimensional, in the order taken. Too few samples give None. A sample that is NaN or infinite raises
ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Samples = Sequence[float] | FloatArray

TRIM = 0.10  # per side; a robust location beats more samples (1.0 to 1.3% RSD where the mean has 2 to 3%)
FEWEST_TO_BLOCK = 16  # samples: fewer make no 8 blocks of more than one sample
FEWEST_BLOCKS = 8  # fewer block means have too uncertain a spread to be worth taking the widest of
BLOCK_POWERS = (0, 1 / 3, 1 / 2, 2 / 3)  # block sizes n^power: from no correlation to a long one


def finite(samples: Samples, what: str) -> FloatArray:
    """Return the samples as an array of float64.

    Raises:
        ValueError: a sample is NaN or infinite, or the samples are not one-dimensional. It names `what` and the index.
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


def trimmed_mean(samples: Samples) -> float:
    """Return the mean without the lowest and the highest tenth of the samples (floor of n / 10 a side).

    Raises:
        ValueError: no samples, or one that is not finite.
    """
    values = np.sort(finite(samples, "trimmed mean"))
    if values.size == 0:
        raise ValueError("trimmed mean of no samples")
    cut = int(values.size * TRIM)
    return float(values[cut : values.size - cut].mean())


def cv(samples: Samples) -> float | None:
    """Return the coefficient of variation: sample standard deviation (n - 1) over mean. None below two samples."""
    values = finite(samples, "coefficient of variation")
    if values.size < 2 or values.mean() == 0:
        return None
    return float(values.std(ddof=1) / values.mean())


def autocorrelation(samples: Samples) -> float | None:
    """Return the lag-1 autocorrelation (biased estimator, in [-1, 1]). None when too few or constant.

    Raises:
        ValueError: a sample is not finite.
    """
    values = finite(samples, "autocorrelation")
    # A constant series has rounding noise for deviations: no correlation can be read from it.
    if values.size < 3 or constant(values):
        return None
    centred = values - values.mean()
    return float(centred[1:] @ centred[:-1]) / float(centred @ centred)


# Two-sided 95% quantiles of Student's t for 1 to 30 degrees of freedom (any table; scipy.stats.t.ppf(.975, df)).
# fmt: off
_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)
# fmt: on


def t_975(degrees: int) -> float:
    """Return the .975 quantile of Student's t. From 31 degrees on by its expansion, to .0001.

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


def influence(values: FloatArray) -> FloatArray:
    """Return the trimmed mean's influence values: winsorised samples, centred, over 1 - 2 TRIM.

    Their mean is 0 and their spread that of the trimmed mean times the square root of n (Tukey and McLaughlin 1963), so
    whatever is known about means, of blocks say, holds for the trimmed mean.
    """
    n, cut = values.size, int(values.size * TRIM)
    ordered = np.partition(values, (cut, n - 1 - cut))
    winsorised = np.clip(values, ordered[cut], ordered[n - 1 - cut])
    return np.asarray((winsorised - winsorised.mean()) / (1 - 2 * TRIM), dtype=np.float64)


def half_width(samples: Samples) -> float | None:
    """Return the 95% half-width of the trimmed mean, relative to it. None below 16 samples.

    Influence values turn the trimmed mean into a mean. Means of blocks of n^{0, 1/3, 1/2, 2/3} samples, at least 8
    blocks of each size, carry the autocorrelation. The widest answer counts. It covers one run only, not what differs
    between processes. It is 0 where the middle four fifths of the samples are equal, and None where their mean is 0.
    """
    values = finite(samples, "half-width")
    n = values.size
    if n < FEWEST_TO_BLOCK:
        return None
    psi = influence(values)
    widths = []
    for size in sorted({max(1, round(n**power)) for power in BLOCK_POWERS}):
        blocks = n // size
        if blocks >= FEWEST_BLOCKS:
            means = psi[: blocks * size].reshape(blocks, size).mean(axis=1)
            widths.append(t_975(blocks - 1) * float(means.std(ddof=1)) / math.sqrt(blocks))
    centre = trimmed_mean(values)
    return max(widths) / centre if centre else None


def long_blocks(samples: Samples, blocks: int) -> FloatArray | None:
    """Return the means of influence values over `blocks` runs of neighbouring samples, shape (blocks,), in their unit.

    Their mean is about 0. Their spread over blocks^1/2 is the standard error of the trimmed mean, correlation shorter
    than a block included: the method of batch means, with few and long ones (Schmeiser, Batch size effects in the
    analysis of simulation output, Operations Research 30, 1982). Lengths differ by at most one. None where a block
    would have fewer than two samples.
    """
    values = finite(samples, "long blocks")
    if values.size < 2 * blocks:
        return None
    edges = np.arange(blocks) * values.size // blocks
    sums = np.add.reduceat(influence(values), edges)
    return np.asarray(sums / np.diff(edges, append=values.size), dtype=np.float64)
