"""Our rule for one round of eight: a robust location, an error bar for correlated samples, a width that time buys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernel_velocity.harness.statistics import block_half_width, trimmed_mean
from kernel_velocity.harness.stopping.drift import drifts
from kernel_velocity.harness.stopping.rule import Continue, Decision, Reason, Stop, StoppingRule, without_burn_in

GROWTH = (1.10, 1.25)  # least and most that n grows by between two looks
MARGIN = 1.02  # aim a little beyond the predicted end: a look that just fails costs another growth


@dataclass
class AdaptiveRound(StoppingRule):
    """Stop when the half-width of the trimmed mean is at most `eps` * (spent / `t_soft`) ^ `power`, relative to it.

    The longer it has taken, the wider an interval is accepted: a quiet kernel is held to a narrow one, which it reaches
    in no time, and what that saves is spent on those in the middle. At `t_soft` seconds the accepted half-width is
    `eps`. What stops within eps has converged; what stops beyond it, which takes a t_max beyond t_soft, is at its noise
    floor: what is left of the budget would not bring it to eps. t_min, t_max: seconds of timing. n_min: samples, waived
    when the time is up; n_floor never.

    Chosen on 1,000 mixtures of noise of the tuning namespace (lab/noise.py, seed 2, two traces each). `adaptive`,
    for a single run, has a better measure of noise and better constants. This one stays as it is: series are recorded
    under its hash, in which it goes by the name that it had.
    """

    eps: float = 0.003
    power: float = 1.0
    t_min: float = 0.1
    t_soft: float = 0.3
    t_max: float = 0.3
    n_min: int = 24
    n_floor: int = 3

    name: ClassVar[str] = "adaptive.round"
    recorded_as: ClassVar[str] = "adaptive"

    def __post_init__(self) -> None:
        self._check(ordered=("t_min", "t_soft", "t_max"))

    def decide(self) -> Decision:
        """Look after growths by 10 to 25%; see the class for the rule."""
        n = len(self._samples)
        if n < self.n_floor:
            return Continue(1)
        if self._spent < self.t_min:
            return Continue(self._samples_within(self.t_min - self._spent))
        if n < self.n_min and self._spent < self.t_max:
            return Continue(min(self.n_min - n, self._samples_within(self.t_max - self._spent)))
        width = relative_half_width(without_burn_in(self._samples))
        accepted = self.eps * (self._spent / self.t_soft) ** self.power
        if width <= accepted:
            return Stop(Reason.CONVERGED if width <= self.eps else Reason.NOISE_FLOOR)
        if self._spent >= self.t_max:
            return Stop(self._out_of_time(width))
        return Continue(min(self._portion(n, width / accepted), self._samples_within(self.t_max - self._spent)))

    def _portion(self, n: int, excess: float) -> int:
        """Return how many more samples meet the limit: the width falls with n^1/2, the limit rises with n^power."""
        least, most = GROWTH
        factor = MARGIN * excess ** (1 / (0.5 + self.power)) if math.isfinite(excess) else most
        return max(1, math.ceil((min(max(factor, least), most) - 1) * n))

    def _out_of_time(self, width: float) -> Reason:
        if width <= self.eps:
            return Reason.CONVERGED
        return Reason.BUDGET_DRIFT if drifts(without_burn_in(self._samples)) else Reason.BUDGET


def relative_half_width(samples: Sequence[float]) -> float:
    """Return the 95% half-width of the trimmed mean over that mean; infinity where there are too few samples."""
    values = np.asarray(samples)
    width = block_half_width(values)
    return math.inf if width is None else width / trimmed_mean(values)
