"""Rules without a target: a number of samples, a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernel_velocity.harness.stopping.rule import Continue, Decision, Reason, Stop, StoppingRule


@dataclass
class FixedCount(StoppingRule):
    """Stop after `n` samples: 100 is what KernelBench, ComPPare and most scripts around fused kernels take."""

    n: int = 100

    name: ClassVar[str] = "fixed"

    def __post_init__(self) -> None:
        self._check()

    def decide(self) -> Decision:
        """Go on until there are enough."""
        missing = self.n - len(self._samples)
        return Continue(missing) if missing > 0 else Stop(Reason.COMPLETE)


@dataclass
class FixedTime(StoppingRule):
    """Stop after `t_max` seconds of timing, and not before `n_floor` samples."""

    t_max: float = 0.25
    n_floor: int = 3

    name: ClassVar[str] = "fixed_time"

    def __post_init__(self) -> None:
        self._check()

    def decide(self) -> Decision:
        """Go on until the time is up."""
        if len(self._samples) < self.n_floor:
            return Continue(1)
        if self._spent >= self.t_max:
            return Stop(Reason.COMPLETE)
        return Continue(self._samples_within(self.t_max - self._spent))
