"""Link two sessions by commits that both measured: how much slower one is than the other, and how sure that is.

The ratio of an anchor's times in two sessions has three parts: what the sessions differ by, which all commits share and
the link wants. What this commit's process drew, such as memory pages, anew in each session. And the scatter of rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

DRAWN = 0.006  # standard deviation of the log of what a commit draws in a session (kv lab links; docs: fleet)


@dataclass(frozen=True, kw_only=True)
class Link:
    """The step from a session to another one, as a logarithm: positive where the second is slower."""

    step: float
    error: float  # standard error
    anchors: int


def link(ratios: Sequence[float], errors: Sequence[float]) -> Link:
    """Return the link of two sessions for one series.

    Args:
        ratios: log of the second session's time over the first's, an anchor each. errors: their standard errors from
            the scatter of rounds. An anchor's draw is added: one anchor alone shows nothing of it.

    Raises:
        ValueError: there is no anchor.
    """
    if not ratios:
        raise ValueError("a link needs an anchor that both sessions measured")
    variances = np.square(errors) + 2 * DRAWN**2
    weights = 1 / variances
    step = float(np.average(ratios, weights=weights))
    error = math.sqrt(1 / float(weights.sum()))
    if len(ratios) > 1:  # anchors that contradict each other say that draws are larger here
        scatter = float(np.std(ratios, ddof=1)) / math.sqrt(len(ratios))
        error = max(error, scatter)
    return Link(step=step, error=error, anchors=len(ratios))


def expected(anchors: int) -> float:
    """Return the error of a link by `anchors` commits, before anything is measured. Infinite without one."""
    return math.sqrt(2 / anchors) * DRAWN if anchors else math.inf
