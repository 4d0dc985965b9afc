"""Rules that watch the coefficient of variation: of times, and, as published, of rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernel_velocity.harness.statistics import cv
from kernel_velocity.harness.stopping.rule import Continue, Decision, Reason, Stop, StoppingRule, without_burn_in


@dataclass
class CoefficientOfVariation(StoppingRule):
    """Stop when the coefficient of variation of the samples (burn-in left out) is at most `eps`.

    eps: 1%, the published target of convergence-based kernel suites. t_min, t_max: seconds of timing. Eight fresh
    processes of .1 s each agree within .42 to .48%, one process of 2 s only within .82 to .91%: what a longer round
    would gain is lost between processes, so t_max is short. n_min: samples, waived when the time is up; n_floor never.
    """

    eps: float = 0.01
    t_min: float = 0.1
    t_max: float = 0.25
    n_min: int = 16
    n_floor: int = 3

    name: ClassVar[str] = "cv"

    def __post_init__(self) -> None:
        self._check(ordered=("t_min", "t_max"))

    def decide(self) -> Decision:
        """Look after every growth by a quarter; see the class for the rule."""
        n = len(self._samples)
        if n < self.n_floor:
            return Continue(1)
        if self._spent >= self.t_max:
            return Stop(Reason.BUDGET if not self._converged() else Reason.CONVERGED)
        if self._spent >= self.t_min and n >= self.n_min and self._converged():
            return Stop(Reason.CONVERGED)
        wanted = max(1, n // 4)
        if self._spent < self.t_min:
            wanted = max(wanted, self._samples_within(self.t_min - self._spent))
        return Continue(min(wanted, self._samples_within(self.t_max - self._spent)))

    def _converged(self) -> bool:
        variation = cv(without_burn_in(self._samples))
        return variation is not None and variation <= self.eps


@dataclass
class VariationOfRates(StoppingRule):
    """Stop when the coefficient of variation of GFLOPS is below `eps`: the published rule of convergence-based suites.

    eps 1%, n_min 5 and n_max 20 runs, every run counted. A rate is work over time, so the variation is that of 1/t,
    which a slow outlier moves less than it moves the variation of t. The published suite runs ten products of
    5000 x 5000 matrices before the first run, to bring clocks up; no rule sees a device: `timing.pre_warm` does that.
    """

    eps: float = 0.01
    n_min: int = 5
    n_max: int = 20

    name: ClassVar[str] = "cv_gflops"

    def __post_init__(self) -> None:
        self._check(ordered=("n_min", "n_max"))

    def decide(self) -> Decision:
        """Look after every run, as published: there are 20 of them at most."""
        n = len(self._samples)
        if n < self.n_min:
            return Continue(self.n_min - n)
        variation = cv(1 / np.asarray(self._samples))
        if variation is not None and variation < self.eps:
            return Stop(Reason.CONVERGED)
        return Continue(1) if n < self.n_max else Stop(Reason.BUDGET)
