"""The shape of samples: outliers, inequality, modes. None of it depends on their order."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kernel_velocity.harness.statistics.primitives import FloatArray, Samples, constant, finite
from kernel_velocity.harness.statistics.values import Figure, need, warn_constant

MILD, SEVERE = 1.5, 3.0  # quartile ranges beyond a quartile (Tukey, Exploratory Data Analysis, 1977)
FEWEST_FOR_QUARTILES = 4
FEWEST_FOR_OUTLIERS = 20  # samples: of fewer normal ones, 2 to 9% lie outside by chance, against .7% of many
# Over it more than one mode is suspected, as in BenchmarkDotNet's analyser; up to 1.3% of normal
# runs of 16 to 256 samples exceed 2.8, and 4 to 8% Gregg's 2.4.
MODES_SUSPECTED = 2.8
ROUNDING = 1e-6  # of a bin: samples nearer to each other are one value; ticks so small do no harm to a histogram
FEWEST_VALUES = 5  # different samples: the fewest in which two modes with a valley between them have any width
FEWEST_FOR_MODES = 16  # samples
ENOUGH_FOR_MODES = (
    64  # samples: two like modes 6 deviations apart are then seen in 74 of 100 runs, at 32 in 29, at 16 in 2
)


@dataclass(frozen=True)
class OutlierClass:
    """The samples of one class, and their share of the summed squared deviations from the mean."""

    count: int | None
    variance_share: float | None


@dataclass(frozen=True, kw_only=True)
class Outliers:
    """Tukey's classes: beyond 1.5 (mild) and 3 (severe) quartile ranges of the nearer quartile."""

    low_severe: OutlierClass
    low_mild: OutlierClass
    high_mild: OutlierClass
    high_severe: OutlierClass
    n: int
    warnings: tuple[str, ...] = ()

    @property
    def classes(self) -> tuple[OutlierClass, ...]:
        """Return the four classes from low to high."""
        return self.low_severe, self.low_mild, self.high_mild, self.high_severe

    @property
    def count(self) -> int | None:
        """Return how many outliers there are; None where unknown."""
        found = [each.count for each in self.classes if each.count is not None]
        return sum(found) if found else None

    @property
    def variance_share(self) -> float | None:
        """Return all outliers' share of the variance, in [0, 1]; None where unknown."""
        found = [each.variance_share for each in self.classes if each.variance_share is not None]
        return sum(found) if found else None


def outliers(samples: Samples) -> Outliers:
    """Return Tukey's outlier classes; quartiles are linear between order statistics.

    Raises:
        ValueError: a sample is not finite.
    """
    values = finite(samples, "outliers")
    if values.size < FEWEST_FOR_QUARTILES:
        few = need(FEWEST_FOR_QUARTILES, "quartiles", values.size)
        return _classes([OutlierClass(None, None)] * 4, values.size, few)
    first, third = np.percentile(values, (25, 75))
    spread = third - first
    below, above = (first - values) / (spread or 1.0), (values - third) / (spread or 1.0)
    if spread == 0:  # every distance is endless, as it is in the limit of a small quartile range
        below, above = np.where(below > 0, math.inf, 0.0), np.where(above > 0, math.inf, 0.0)
    mild_low, mild_high = (below > MILD) & (below <= SEVERE), (above > MILD) & (above <= SEVERE)
    masks = (below > SEVERE, mild_low, mild_high, above > SEVERE)
    squares = (values - values.mean()) ** 2
    total = 0.0 if constant(values) else float(squares.sum())
    found = [OutlierClass(int(mask.sum()), float(squares[mask].sum()) / total if total else None) for mask in masks]
    few = need(FEWEST_FOR_OUTLIERS, "outliers that are more than chance", values.size)
    return _classes(found, values.size, few + (warn_constant(values) or _warn_tied(float(spread))))


def _classes(found: list[OutlierClass], n: int, warnings: tuple[str, ...]) -> Outliers:
    low_severe, low_mild, high_mild, high_severe = found
    return Outliers(
        low_severe=low_severe, low_mild=low_mild, high_mild=high_mild, high_severe=high_severe, n=n, warnings=warnings
    )


def _warn_tied(spread: float) -> tuple[str, ...]:
    return ("the middle half of the samples is equal: any other value counts as severe",) if spread == 0 else ()


@dataclass(frozen=True)
class LorenzCurve:
    """The share of the total that the lowest samples hold, by their share of the samples; straight if all are equal."""

    population: tuple[float, ...]  # from 0 to 1
    share: tuple[float, ...]  # from 0 to 1; empty, with a warning, where unknown
    warnings: tuple[str, ...] = ()


def lorenz_curve(samples: Samples, points: int = 101) -> LorenzCurve:
    """Return the Lorenz curve at `points` evenly spaced shares of the samples, linear between them.

    Raises:
        ValueError: fewer than 2 points, a sample that is negative or not finite.
    """
    if points < 2:
        raise ValueError(f"Lorenz curve of {points} points: wanted at least 2")
    values = _not_negative(samples, "Lorenz curve")
    unknown = _warn_nothing_to_share(values)
    if unknown:
        return LorenzCurve((), (), unknown)
    held = np.concatenate([[0.0], np.cumsum(np.sort(values))])
    population = np.linspace(0, 1, points)
    share = np.interp(population, np.linspace(0, 1, values.size + 1), held / held[-1])
    return LorenzCurve(tuple(population.tolist()), tuple(share.tolist()), need(2, "inequality", values.size))


def gini(samples: Samples) -> Figure:
    """Return the Gini coefficient, 1 - 2 * the Lorenz curve's area: 0 for equal samples, (n - 1)/n if one holds all.

    Raises:
        ValueError: a sample is negative or not finite.
    """
    values = _not_negative(samples, "Gini coefficient")
    unknown = _warn_nothing_to_share(values)
    if unknown:
        return Figure(None, unknown)
    n = values.size
    ranked = (2 * np.arange(1, n + 1) - n - 1) @ np.sort(values)  # about 0 for equal samples: rounding may be negative
    return Figure(max(0.0, float(ranked / (n * values.sum()))), need(2, "inequality", n))


def _not_negative(samples: Samples, what: str) -> FloatArray:
    values = finite(samples, what)
    if values.size and values.min() < 0:
        worst = int(values.argmin())
        raise ValueError(f"{what}: sample {worst} of {values.size} is {float(values[worst])!r}; wanted none below zero")
    return values


def _warn_nothing_to_share(values: FloatArray) -> tuple[str, ...]:
    if values.size == 0:
        return need(1, "inequality", 0)
    return () if values.any() else (f"all {values.size} samples are zero: there is nothing to share out",)


def modality(samples: Samples) -> Figure:
    """Return the mvalue: a histogram's summed ups and downs over its highest bin; 2 for one mode, 4 for two alike.

    Brendan Gregg's (Frequency Trails: Modes and Modality, brendangregg.com/FrequencyTrails/modes.html), the largest
    over bin sizes from Freedman and Diaconis' (1981) doubled up to the range, without Tukey's outliers. A second mode
    is suspected from about two fifths of the highest.

    Raises:
        ValueError: a sample is not finite.
    """
    values = finite(samples, "modality")
    few = need(FEWEST_FOR_MODES, "modality", values.size)
    if few or constant(values):
        return Figure(None if few else 2.0, few + warn_constant(values))
    first, third = np.percentile(values, (25, 75))
    fence = MILD * (1 + ROUNDING) * (third - first)  # a tick on the fence is inside, whichever way it was rounded
    found = _mvalue(np.sort(values[(values >= first - fence) & (values <= third + fence)]))
    return Figure(found, _warn_modes(found, values.size, np.unique(values).size))


def _warn_modes(found: float, n: int, different: int) -> tuple[str, ...]:
    few = need(ENOUGH_FOR_MODES, "an mvalue that sees two modes", n)
    ticks = (f"only {different} different values: a clock's ticks cannot be told from modes",)
    several = (f"mvalue {found:.2f} is over {MODES_SUSPECTED}: more than one mode is suspected",)
    return few + (ticks if different < FEWEST_VALUES else ()) + (several if found > MODES_SUSPECTED else ())


def _mvalue(ordered: FloatArray) -> float:
    span = float(ordered[-1] - ordered[0])
    first, third = np.percentile(ordered, (25, 75))
    wanted = 2 * float(third - first) / ordered.size ** (1 / 3)
    gaps = np.diff(ordered)
    gaps = gaps[gaps > ROUNDING * (wanted or span)]
    if gaps.size == 0:
        return 2.0  # one value is left: one mode
    # Bins of whole ticks, with the ticks inside: else a clock's ticks fall into them unevenly and look like modes.
    tick = float(gaps.min())
    width = tick * max(1, math.ceil(wanted / tick))
    best = 0.0
    while True:
        best = max(best, _ups_and_downs((ordered - ordered[0] + tick / 2) / width))
        if width > span:
            return best
        width *= 2


def _ups_and_downs(positions: FloatArray) -> float:
    """Return the summed steps between the heights of bins of width 1, empty ones included, over the highest."""
    # Only bins that hold something: where most samples are nearly equal, there may be endless empty ones.
    bins, heights = np.unique(np.floor(positions), return_counts=True)
    neighbours = np.diff(bins) == 1
    steps = np.where(neighbours, np.abs(np.diff(heights)), heights[:-1] + heights[1:])
    return float((heights[0] + steps.sum() + heights[-1]) / heights.max())
