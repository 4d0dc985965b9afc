"""The figures that describe samples, by name: one table, each entry a number with what speaks against it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from kernel_velocity.harness.statistics import primitives
from kernel_velocity.harness.statistics.dependence import effective_sample_size
from kernel_velocity.harness.statistics.primitives import FEWEST_TO_BLOCK, TRIM, FloatArray, Samples, finite
from kernel_velocity.harness.statistics.shape import gini, modality
from kernel_velocity.harness.statistics.values import Figure, need, warn_constant, warn_correlated

FEWEST_TO_TRIM = round(1 / TRIM)  # samples: fewer, and a tenth a side is not one
FEWEST_FOR_P99 = 100  # samples: fewer, and the 99th percentile lies between the two highest


def describe(samples: Samples, names: Iterable[str] | None = None) -> dict[str, Figure]:
    """Return the figures by name (all of FIGURES by default).

    mean, trimmed_mean (10% a side), median and p50, standard_deviation (n - 1), min, max, p99 (linear between order
    statistics) and half_width (95%, of the trimmed mean, from block means) are in the samples' unit; cv and rse
    (coefficient of variation; standard error of the mean) relative to the mean; autocorrelation is that of lag 1;
    effective_n counts samples; gini lies in [0, 1); mvalue is 2 for one mode.

    Raises:
        ValueError: a name that FIGURES has not, a sample that is NaN or infinite, or a negative one for gini.
    """
    values = finite(samples, "samples")
    return {name: _chosen(name)(values) for name in (FIGURES if names is None else names)}


def _chosen(name: str) -> Callable[[FloatArray], Figure]:
    if name not in FIGURES:
        raise ValueError(f"no figure {name!r}; there are {', '.join(FIGURES)}")
    return FIGURES[name]


def _location(reduce: Callable[[FloatArray], float], what: str) -> Callable[[FloatArray], Figure]:
    def figure(values: FloatArray) -> Figure:
        return Figure(None, need(1, what, 0)) if values.size == 0 else Figure(float(reduce(values)))

    return figure


def _trimmed_mean(values: FloatArray) -> Figure:
    if values.size == 0:
        return Figure(None, need(1, "a trimmed mean", 0))
    few = need(FEWEST_TO_TRIM, "a trimmed mean to trim any", values.size)
    return Figure(primitives.trimmed_mean(values), few)


def _p99(values: FloatArray) -> Figure:
    few = need(FEWEST_FOR_P99, "a 99th percentile below the maximum's neighbour", values.size)
    return Figure(float(np.percentile(values, 99)) if values.size else None, few)


def _standard_deviation(values: FloatArray) -> Figure:
    few = need(2, "a standard deviation", values.size)
    return Figure(None, few) if few else Figure(float(values.std(ddof=1)), warn_constant(values))


def _cv(values: FloatArray) -> Figure:
    return _relative(values, primitives.cv, "a coefficient of variation", ())


def _rse(values: FloatArray) -> Figure:
    correlated = warn_correlated(values, "the standard error of independent samples is too small for them")
    return _relative(values, primitives.relative_standard_error, "a relative standard error", correlated)


def _relative(
    values: FloatArray, reduce: Callable[[FloatArray], float | None], what: str, warnings: tuple[str, ...]
) -> Figure:
    few = need(2, what, values.size)
    if few:
        return Figure(None, few)
    if values.mean() == 0:
        return Figure(None, (f"the samples have a mean of zero: nothing to take {what} of",))
    return Figure(reduce(values), warn_constant(values) + warnings)


def _autocorrelation(values: FloatArray) -> Figure:
    few = need(3, "an autocorrelation", values.size)
    return Figure(None if few else primitives.autocorrelation(values), few + warn_constant(values))


def _half_width(values: FloatArray) -> Figure:
    few = need(FEWEST_TO_BLOCK, "a half-width", values.size)
    if few:
        return Figure(None, few)
    width = primitives.block_half_width(values)
    # Trimming hides what a tenth a side does: a clock of few ticks, or one frequent value, leaves no spread to read.
    tied = ("the middle four fifths of the samples are equal: the clock is too coarse for a half-width",)
    return Figure(width, warn_constant(values) or (tied if width == 0 else ()))


FIGURES: dict[str, Callable[[FloatArray], Figure]] = {
    "mean": _location(np.mean, "a mean"),
    "trimmed_mean": _trimmed_mean,
    "median": _location(np.median, "a median"),
    "standard_deviation": _standard_deviation,
    "min": _location(np.min, "a minimum"),
    "max": _location(np.max, "a maximum"),
    "p50": _location(np.median, "a 50th percentile"),
    "p99": _p99,
    "cv": _cv,
    "rse": _rse,
    "autocorrelation": _autocorrelation,
    "effective_n": effective_sample_size,
    "half_width": _half_width,
    "gini": gini,
    "mvalue": modality,
}
