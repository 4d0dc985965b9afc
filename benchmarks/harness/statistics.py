"""Statistics of one round's samples. Pure numpy, floats in and floats out; what cannot be known is None."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Samples = Sequence[float] | npt.NDArray[np.float64]

TRIM = 0.10  # per side; a robust location beats more samples (1.0 to 1.3% RSD where the mean has 2 to 3%)


def trimmed_mean(samples: Samples, proportion: float = TRIM) -> float:
    """Return the mean without the lowest and the highest `proportion` of the samples (floor of n * proportion a side).

    Raises:
        ValueError: no samples, or a proportion outside [0, .5).
    """
    values = np.sort(np.asarray(samples, dtype=np.float64))
    if values.size == 0:
        raise ValueError("trimmed mean of no samples")
    if not 0 <= proportion < 0.5:
        raise ValueError(f"proportion {proportion}: wanted [0, .5) per side")
    cut = int(values.size * proportion)
    return float(values[cut : values.size - cut].mean())


def cv(samples: Samples) -> float | None:
    """Return the coefficient of variation: sample standard deviation (n - 1) over mean; None below two samples."""
    values = np.asarray(samples, dtype=np.float64)
    if values.size < 2 or values.mean() == 0:
        return None
    return float(values.std(ddof=1) / values.mean())


def autocorrelation(samples: Samples, lag: int = 1) -> float | None:
    """Return the lag-`lag` autocorrelation (biased estimator, in [-1, 1]); None when too few or constant."""
    values = np.asarray(samples, dtype=np.float64)
    if values.size < lag + 2:
        return None
    centred = values - values.mean()
    power = float(centred @ centred)
    # A constant series has rounding noise for deviations: no correlation can be read from it.
    if power <= (1e-12 * abs(float(values.mean()))) ** 2 * values.size:
        return None
    return float(centred[lag:] @ centred[:-lag]) / power


# Two-sided 95% quantiles of Student's t for 1 to 30 degrees of freedom (any table; scipy.stats.t.ppf(.975, df)).
# fmt: off
_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)
# fmt: on


def t_975(degrees: int) -> float:
    """Return the .975 quantile of Student's t; from 31 degrees on by its expansion, to .0001."""
    if degrees < 1:
        raise ValueError(f"{degrees} degrees of freedom: wanted at least 1")
    if degrees <= len(_T_975):
        return _T_975[degrees - 1]
    z = 1.959964
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96  # Abramowitz and Stegun 26.7.5
    return z + first / degrees + second / degrees**2


def half_width(samples: Samples, proportion: float = TRIM) -> float | None:
    """Return the 95% half-width of the trimmed mean, relative to it, from means of blocks; None below 16 samples.

    Influence values (winsorised samples, centred, over 1 - 2 proportion) turn the trimmed mean into a mean; block
    means of several sizes carry the autocorrelation; the widest answer counts. Within one run only: it says nothing
    of what differs between processes.
    """
    values = np.asarray(samples, dtype=np.float64)
    n = values.size
    if n < 16:
        return None
    centre = trimmed_mean(values, proportion)
    ordered = np.sort(values)
    cut = int(n * proportion)
    winsorised = np.clip(values, ordered[cut], ordered[n - 1 - cut])
    influence = (winsorised - winsorised.mean()) / (1 - 2 * proportion)
    widths = []
    for size in sorted({1, *(max(1, round(n**power)) for power in (1 / 3, 1 / 2, 2 / 3))}):
        blocks = n // size
        if blocks >= 8:
            means = influence[: blocks * size].reshape(blocks, size).mean(axis=1)
            widths.append(t_975(blocks - 1) * float(means.std(ddof=1)) / math.sqrt(blocks))
    return max(widths) / centre
