"""Link two sessions by commits that both measured: how much slower one is than the other, and how sure that is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Z = statistics.NormalDist().inv_cdf(0.995)  # standard errors; noise alone moves further in 1 of 100 cases
ONE_ROUND = 0.1  # standard error of the log of one round's time, which shows no scatter: twice that of shared cores


@dataclass(frozen=True, kw_only=True)
class Link:
    """The step from a session to another one, as a logarithm: positive where the second is slower."""

    step: float
    error: float  # standard error
    anchors: int


def link(ratios: Sequence[float], errors: Sequence[float]) -> Link:
    """Return the link of two sessions for one series.

    Args:
        ratios: log of the second session's time over the first's, an anchor each. errors: their standard errors.

    Raises:
        ValueError: there is no anchor.
    """
    if not ratios:
        raise ValueError("a link needs an anchor that both sessions measured")
    weights = 1 / np.square(errors)
    step = float(np.average(ratios, weights=weights))
    error = math.sqrt(1 / float(weights.sum()))
    if len(ratios) > 1:  # anchors that contradict each other by more than their rounds scatter
        error = max(error, float(np.std(ratios, ddof=1)) / math.sqrt(len(ratios)))
    return Link(step=step, error=error, anchors=len(ratios))


def median_error(logs: Sequence[float]) -> float:
    """Return the standard error of the median of rounds that are about normal."""
    return math.sqrt(math.pi / 2) * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else ONE_ROUND
