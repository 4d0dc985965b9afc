"""Whether samples still rise or fall when the time is up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernel_velocity.harness.statistics import concordance

DRIFT_BLOCKS = 16  # block means that Kendall's S is taken over
DRIFT = 45  # |S| of 16 independent values is larger in 5% of cases (s.d. 22.2)


def drifts(samples: Sequence[float]) -> bool:
    """Return whether 16 block means rise or fall more than chance has them do (Kendall, 5%); False below 16 samples."""
    size = len(samples) // DRIFT_BLOCKS
    if size == 0:
        return False
    means = np.asarray(samples[: size * DRIFT_BLOCKS]).reshape(DRIFT_BLOCKS, size).mean(axis=1)
    return abs(concordance(means)) > DRIFT
