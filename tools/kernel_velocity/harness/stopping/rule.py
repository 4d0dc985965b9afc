"""What every stopping rule is: three verbs, a typed reason, and parameters that can be named."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import pairwise
from typing import ClassVar

import numpy as np

BURN_IN = 0.2  # share of the samples left out at the start: warm-up that the warm-up did not catch


class RuleError(ValueError):
    """A rule or a parameter that does not exist, or a value that it cannot have."""


class Reason(StrEnum):
    """Why a measurement stopped."""

    CONVERGED = "converged"  # the target was reached
    PLATEAU = "plateau"  # the noise no longer changes: more samples would not reach the target
    NOISE_FLOOR = "noise_floor"  # the budget cannot reach the target: given back
    BUDGET = "budget"  # the time, or the number of samples, was up before the target was reached
    BUDGET_DRIFT = "budget+drift"  # and the samples still went up or down
    CONTENDED = "contended"  # the core was busy for longer than the gate waits: what was taken in quiet moments stands
    TIMEOUT = "timeout"  # the process would have been killed for its time before the rule was done
    COMPLETE = "complete"  # a rule without a target took what it was told to take


@dataclass(frozen=True)
class Continue:
    """Take `n` more samples."""

    n: int


@dataclass(frozen=True)
class Stop:
    """Stop, and say why."""

    reason: Reason


Decision = Continue | Stop


def without_burn_in(samples: Sequence[float]) -> Sequence[float]:
    """Return the samples without the first fifth; all of them when there are fewer than five."""
    return samples[int(len(samples) * BURN_IN) :]


class StoppingRule(ABC):
    """The interface; a subclass is a frozen set of parameters plus what it has seen since `start`.

    `decide` is a function of what was added: asked twice, it answers twice the same. Looks are geometric (each asks for
    a share of what there is), so that a rule that costs O(n) a look costs O(n) a round.
    """

    name: ClassVar[str]
    recorded_as: ClassVar[str] = ""  # the name in the hash of its series, where that is another one

    def start(self) -> None:
        """Forget everything: a new round begins."""
        self._samples: list[float] = []
        self._spent = 0.0

    def add(self, samples: Sequence[float], spent: float) -> None:
        """Take in samples (seconds per call, in the order taken) and the seconds that taking them cost.

        Raises:
            ValueError: a sample is not a positive finite number, the timer is broken and no rule may hide it; or
                `spent` is not a finite number of at least 0.
        """
        values = np.asarray(samples, dtype=np.float64)
        wrong = ~(np.isfinite(values) & (values > 0))
        if wrong.any():
            raise ValueError(f"the timer returned {float(values[wrong][0])!r} s; wanted a positive finite time")
        if not (math.isfinite(spent) and spent >= 0):
            raise ValueError(f"{values.size} samples took {spent!r} s; wanted a finite time")
        self._samples.extend(values.tolist())
        self._spent += spent

    @property
    def samples(self) -> Sequence[float]:
        """Return the samples that an estimate may rest on; of most rules all so far."""
        return self._samples

    @property
    def spent(self) -> float:
        """Return the seconds spent so far."""
        return self._spent

    @abstractmethod
    def decide(self) -> Decision:
        """Return whether to go on, and with how many samples, or why to stop."""

    def parameters(self) -> dict[str, float]:
        """Return the parameters by name."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]  # every concrete rule is a dataclass

    def _samples_within(self, seconds: float) -> int:
        """Return how many samples fit into `seconds`, judged by those taken; at least one."""
        return max(1, int(seconds * len(self._samples) / self._spent)) if self._spent > 0 else 1

    def _check(self, *, may_be_zero: tuple[str, ...] = (), ordered: tuple[str, ...] = ()) -> None:
        """Raise RuleError unless every parameter is positive (or zero, where it may be) and `ordered` ones ascend."""
        values = self.parameters()
        for name, value in values.items():
            if not math.isfinite(value) or value < 0 or (value == 0 and name not in may_be_zero):
                raise RuleError(f"rule {self.name}: {name} = {value!r}; wanted a positive number")
        for low, high in pairwise(ordered):
            if values[low] > values[high]:
                unit = " s" if low.startswith(("t_", "min_time")) else ""
                raise RuleError(
                    f"rule {self.name}: {low} = {values[low]}{unit} is more than {high} = {values[high]}{unit}"
                )
