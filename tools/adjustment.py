"""Adjusting by the controls: freeing a series of what the machine did to everything in the same round.

Sessions of identical code minutes apart differ by a common factor. The controls, implementations that our commits
cannot change (PyTorch's), are measured in every round too, so

    adjusted = log t - beta * (mean deviation of the controls in that round)

with beta fitted per series and shrunk to 0 where the controls do not move with it. Pure: values in, values out.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RoundKey = tuple[str, str]  # session, launch: what was measured under one key shared a process and its seconds

Logs = Mapping[RoundKey, float]  # log of seconds per call, by round

MIN_ROUNDS = 8  # below this many rounds in common, beta is 0: a slope of fewer points is noise


@dataclass(frozen=True)
class Adjusted:
    """A series freed of what its controls did."""

    beta: float  # 0: not adjusted
    correlation: float | None  # of series and controls over the rounds; None where either is constant
    values: Logs
    warnings: tuple[str, ...] = ()


def deviations(controls: Sequence[Logs]) -> dict[RoundKey, float]:
    """Return, per round, the mean over the controls of log t minus that control's median over all rounds."""
    found: dict[RoundKey, list[float]] = {}
    for control in controls:
        centre = statistics.median(control.values())
        for key, value in control.items():
            found.setdefault(key, []).append(value - centre)
    return {key: statistics.fmean(values) for key, values in found.items()}


def slope(series: Logs, common: Mapping[RoundKey, float]) -> tuple[float, float | None]:
    """Return (shrunk least-squares slope of the series on the controls' deviation, correlation).

    The slope b with standard error s is multiplied by b^2 / (b^2 + s^2), the empirical Bayes estimate under a normal
    prior about 0 whose variance is estimated by b^2: near 1 where the controls explain the series, near 0 where not.
    """
    keys = [key for key in series if key in common]
    if len(keys) < MIN_ROUNDS:
        return 0.0, None
    x = [common[key] for key in keys]
    y = [series[key] for key in keys]
    mean_x, mean_y = statistics.fmean(x), statistics.fmean(y)
    xx = sum((a - mean_x) ** 2 for a in x)
    yy = sum((b - mean_y) ** 2 for b in y)
    xy = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    if xx <= 0 or yy <= 0:
        return 0.0, None
    fitted, correlation = xy / xx, xy / math.sqrt(xx * yy)
    variance = yy * max(0.0, 1 - correlation**2) / (len(keys) - 2) / xx
    shrunk = fitted * fitted**2 / (fitted**2 + variance) if fitted else 0.0
    return shrunk, correlation


def adjust(series: Logs, controls: Sequence[Logs], fitted_on: Logs | None = None) -> Adjusted:
    """Return the series adjusted by the controls of the same rounds.

    Args:
        series: log seconds per call of the series to adjust.
        controls: the same of each control series.
        fitted_on: rounds that beta is fitted on; all of `series` by default. For an honest figure of how well
            adjusting works, fit on other sessions than those judged.
    """
    common = deviations(controls)
    beta, correlation = slope(series if fitted_on is None else fitted_on, common)
    missing = [key for key in series if key not in common]
    warnings = (f"{len(missing)} of {len(series)} rounds have no control",) if missing else ()
    return Adjusted(
        beta, correlation, {key: value - beta * common[key] for key, value in series.items() if key in common}, warnings
    )
