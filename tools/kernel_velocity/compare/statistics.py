"""All samples of an implementation in figures: `--stats`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernel_velocity import units
from kernel_velocity.compare.result import Comparison, Row
from kernel_velocity.compare.table import NONE, wrapped
from kernel_velocity.stats.sample_shape import Outliers, effective_sample_size, modality, outliers
from kernel_velocity.stats.speedup import Spread
from kernel_velocity.tables import columns

FEWEST = 8  # rounds: a bootstrap of 8 values covers 91% (normal) to 84% (lognormal) where it should cover 95
HEADS = (
    "problem",
    "case",
    "implementation",
    "n",
    "n eff.",
    "mean",
    "95% (bootstrap)",
    "std",
    "min",
    "max",
    "p50",
    "p99",
)
LEGEND = (
    "n eff.: effective sample size, the independent samples with an equally precise mean",
    f"95%: interval of the mean, BCa bootstrap over rounds (from {FEWEST} rounds)",
    "outliers: beyond 1.5 interquartile ranges (their share of the variance)",
    "mvalue: 2 for one mode, 4 for two equal modes",
)


def table(comparison: Comparison, width: int) -> str:
    """Return the figures of all samples of each implementation as a table, with its legend."""
    lines = [_line(row, row.spread) for row in comparison.rows() if row.spread is not None]
    if not lines:
        return "no samples\n"
    return columns([[*HEADS, "outliers", "mvalue"], *lines]) + f"\n{wrapped('  ', LEGEND, width)}\n"


def _line(row: Row, spread: Spread) -> list[str]:
    samples, interval = row.timed.samples, bootstrap_interval(row.timed.rounds)
    independent, mvalue, outside = effective_sample_size(samples), modality(samples), outliers(samples)
    return [
        *(row.compared.problem, row.compared.case, row.timed.implementation, f"{spread.n:,}"),
        NONE if independent is None else f"{independent:,.0f}",
        _seconds(spread.mean),
        NONE if interval is None else " to ".join(map(_seconds, interval)),
        *map(_seconds, (spread.deviation, spread.min, spread.max, spread.p50, spread.p99)),
        NONE if outside is None else _outliers(outside),
        NONE if mvalue is None else f"{mvalue:.1f}",
    ]


def _outliers(outside: Outliers) -> str:
    return f"{outside.count} ({units.share(outside.variance_share)})" if outside.count else "0"


def _seconds(value: float | None) -> str:
    return NONE if value is None else "0" if value == 0 else units.seconds(value)


def bootstrap_interval(rounds: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """Return the 95% interval of the mean of all samples, s: BCa bootstrap (Efron 1987), seeded.

    Whole rounds are drawn, since the samples of a round depend on each other. None below FEWEST rounds, and where all
    rounds have the same mean.
    """
    means = [float(np.mean(samples)) for samples in rounds if samples]
    if len(means) < FEWEST or len(set(means)) == 1:
        return None
    from scipy.stats import bootstrap  # noqa: PLC0415 - takes half a second

    interval = bootstrap((means,), np.mean, method="BCa", random_state=0).confidence_interval
    return float(interval.low), float(interval.high)
