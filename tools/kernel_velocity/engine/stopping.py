"""Stopping rules: when a round has enough samples. They see numbers only: no device, no clock, no kernel.

A rule has three verbs: `start()`, `add(samples, spent)`, and `decide()`, which answers `Continue(n)` or `Stop(reason)`.
KV_RULE names the rule, and KV_ with a parameter's name (KV_EPS, KV_T_MIN) sets a parameter. Name and parameters are
part of the method hash, so a series never mixes two ways of measuring.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import pairwise
from typing import ClassVar

import numpy as np

from kernel_velocity.engine.statistics import cv, half_width, long_blocks, t_975, trimmed_mean

HARNESS_VERSION = "3"  # raise it when a change of the harness moves the times that it reports

BURN_IN = 0.2  # share of the samples left out at the start: warm-up that the warm-up did not catch


class RuleError(ValueError):
    """A rule or a parameter that does not exist, or a value that it cannot have."""


class Reason(StrEnum):
    """Why a measurement stopped."""

    CONVERGED = "converged"  # the target was reached
    PLATEAU = "plateau"  # the noise no longer changed: of a rule that is gone, in recorded rounds
    NOISE_FLOOR = "noise_floor"  # the budget cannot reach the target, so the rest of it is not used
    BUDGET = "budget"  # the time, or the number of samples, was up before the target was reached
    BUDGET_DRIFT = "budget+drift"  # and the samples still went up or down
    CONTENDED = "contended"  # the core was busy for longer than the gate waits: the quiet samples until then count
    TIMEOUT = "timeout"  # the process would have been killed for its time before the rule was done
    COMPLETE = "complete"  # a rule without a target took its number of samples, or its time


@dataclass(frozen=True)
class Continue:
    """Take `n` more samples."""

    n: int


@dataclass(frozen=True)
class Stop:
    """Stop, and why."""

    reason: Reason


Decision = Continue | Stop


def without_burn_in(samples: Sequence[float]) -> Sequence[float]:
    """Return the samples without the first fifth. All of them when there are fewer than five."""
    return samples[int(len(samples) * BURN_IN) :]


class StoppingRule(ABC):
    """A rule: its parameters (the fields of the subclass, a dataclass), and what was added since `start`.

    `decide` depends only on what was added, so a second call gives the same answer. Looks are geometric (each asks for
    a share of the samples so far), so a rule that costs O(n) a look costs O(n) a round.
    """

    name: ClassVar[str]
    recorded_as: ClassVar[str] = ""  # the name in the hash of its series, where it differs
    ascending: ClassVar[tuple[str, ...]] = ()  # parameters of which none may exceed the next

    def __post_init__(self) -> None:
        values = self.parameters()
        for name, value in values.items():
            if not math.isfinite(value) or value <= 0:
                raise RuleError(f"rule {self.name}: {name} = {value!r}; wanted a positive number")
        for low, high in pairwise(self.ascending):
            if values[low] > values[high]:
                unit = " s" if low.startswith("t_") else ""
                raise RuleError(
                    f"rule {self.name}: {low} = {values[low]}{unit} is more than {high} = {values[high]}{unit}"
                )

    def start(self) -> None:
        """Forget everything: a new round begins."""
        self._samples: list[float] = []
        self._spent = 0.0

    def add(self, samples: Sequence[float], spent: float) -> None:
        """Add samples (seconds per call, in the order taken) and the seconds that taking them cost.

        Raises:
            ValueError: a sample is not a positive finite number (the timer is broken, and no rule may hide that), or
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
        """Return the samples so far."""
        return self._samples

    @property
    def spent(self) -> float:
        """Return the seconds spent so far."""
        return self._spent

    @abstractmethod
    def decide(self) -> Decision:
        """Return how many more samples to take, or why to stop."""

    def parameters(self) -> dict[str, float]:
        """Return the parameters by name."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]  # every concrete rule is a dataclass

    def _samples_within(self, seconds: float) -> int:
        """Return how many samples fit into `seconds`, judged by those taken. At least one."""
        return max(1, int(seconds * len(self._samples) / self._spent)) if self._spent > 0 else 1


# Our rules -----------------------------------------------------------------------------------------------------------

DRIFT_BLOCKS = 16  # block means that Kendall's S is taken over
DRIFT_SCORE = 45  # |S| of 16 independent values is larger in 5% of cases (s.d. 22.2)
SINGLE_GROWTH = 0.1  # of `adaptive`: more samples from one look to the next, as a share of those so far
LONG_BLOCKS = 6  # of 3 to 32 long ones, their spread predicts the error best
ROUND_GROWTH = (1.10, 1.25)  # of `adaptive.round`: least and most that n grows by between two looks
AIM_BEYOND = 1.02  # aim a little beyond the predicted end: a look that just fails costs another growth


def drifts(samples: Sequence[float]) -> bool:
    """Return whether 16 block means rise or fall more than chance has them do (Kendall's S, 5%). False below 16."""
    size = len(samples) // DRIFT_BLOCKS
    if size == 0:
        return False
    means = np.asarray(samples[: size * DRIFT_BLOCKS]).reshape(DRIFT_BLOCKS, size).mean(axis=1)
    rises = np.sign(means[:, None] - means)  # of each mean over each other, once with either sign
    return abs(float(np.tril(rises).sum())) > DRIFT_SCORE


@dataclass
class Adaptive(StoppingRule):
    """Stop when the half-width of the trimmed mean is at most `eps` * max(1, spent / `t_soft`) ^ `power`, relative.

    A kernel that reaches eps has converged, after t_min seconds of timing or later. A wider stop is at the noise floor.
    It needs a t_max beyond t_soft.

    While the first of the long blocks is above the others by more than `fall` standard errors, the kernel may still be
    warming up, and the rule goes on. t_max: the most seconds. n_min: samples, waived when the time is up. N_floor
    never.

    The constants are for a single run, tuned on simulated noise (docs/explanation/stopping-rules.md).
    """

    eps: float = 0.0015
    power: float = 5.0
    t_min: float = 0.2
    t_soft: float = 0.4
    t_max: float = 2.0
    fall: float = 2.0
    n_min: int = 24
    n_floor: int = 3

    name: ClassVar[str] = "adaptive"
    ascending: ClassVar[tuple[str, ...]] = ("t_min", "t_soft", "t_max")

    def decide(self) -> Decision:
        """Look whenever there are 10% more samples. See the class for the rule."""
        n, left = len(self._samples), self.t_max - self._spent
        if n < self.n_floor:
            return Continue(1)
        if self._spent < self.t_min:
            return Continue(self._samples_within(self.t_min - self._spent))
        if n < self.n_min and left > 0:
            return Continue(min(self.n_min - n, self._samples_within(left)))
        width, fall = width_and_fall(without_burn_in(self._samples))
        accepted = self.eps * max(1.0, self._spent / self.t_soft) ** self.power
        if fall <= self.fall and width <= accepted:
            return Stop(Reason.CONVERGED if width <= self.eps else Reason.NOISE_FLOOR)
        if left > 0:
            return Continue(min(math.ceil(SINGLE_GROWTH * n), self._samples_within(left)))
        return Stop(Reason.BUDGET_DRIFT if drifts(without_burn_in(self._samples)) else Reason.BUDGET)


def width_and_fall(samples: Sequence[float]) -> tuple[float, float]:
    """Return the 95% half-width of the trimmed mean over that mean, and by how much the first long block stands out.

    The latter is the first block's mean less the mean of the others, over the standard error of the difference:
    Student's t of 4 degrees of freedom, above 2 in 6% of steady kernels, 0 where the first is not above the others.
    With too few samples: infinity and 0.
    """
    values = np.asarray(samples)
    means = long_blocks(values, LONG_BLOCKS)
    if means is None:
        return math.inf, 0.0
    width = t_975(LONG_BLOCKS - 1) * float(means.std(ddof=1)) / math.sqrt(LONG_BLOCKS) / trimmed_mean(values)
    rest = means[1:]
    above = float(means[0] - rest.mean())
    if above <= 0:
        return width, 0.0
    error = float(rest.std(ddof=1)) * math.sqrt(1 + 1 / rest.size)
    return width, above / error if error > 0 else math.inf


@dataclass
class AdaptiveRound(StoppingRule):
    """Stop when the half-width of the trimmed mean is at most `eps` * (spent / `t_soft`) ^ `power`, relative to it.

    The longer it has taken, the wider an interval is accepted: a quiet kernel is held to a narrow one, which it reaches
    at once, and the time saved goes to those in the middle. At `t_soft` seconds the accepted half-width is `eps`. A
    stop within eps has converged. A stop beyond it, which takes a t_max beyond t_soft, is at its noise floor: the rest
    of the budget would not bring it to eps. t_min, t_max: seconds of timing. n_min: samples, waived when the time is
    up. N_floor never.

    `adaptive` has a better measure of noise. This rule stays as it is, because series are recorded under its hash,
    which has its former name.
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
    ascending: ClassVar[tuple[str, ...]] = ("t_min", "t_soft", "t_max")

    def decide(self) -> Decision:
        """Look after growths by 10 to 25%. See the class for the rule."""
        n = len(self._samples)
        if n < self.n_floor:
            return Continue(1)
        if self._spent < self.t_min:
            return Continue(self._samples_within(self.t_min - self._spent))
        if n < self.n_min and self._spent < self.t_max:
            return Continue(min(self.n_min - n, self._samples_within(self.t_max - self._spent)))
        width = half_width(without_burn_in(self._samples))
        width = math.inf if width is None else width  # of too few samples
        accepted = self.eps * (self._spent / self.t_soft) ** self.power
        if width <= accepted:
            return Stop(Reason.CONVERGED if width <= self.eps else Reason.NOISE_FLOOR)
        if self._spent >= self.t_max:
            return Stop(Reason.BUDGET_DRIFT if drifts(without_burn_in(self._samples)) else Reason.BUDGET)
        return Continue(min(self._portion(n, width / accepted), self._samples_within(self.t_max - self._spent)))

    def _portion(self, n: int, excess: float) -> int:
        """Return how many more samples meet the limit: the width falls with n^1/2, the limit rises with n^power."""
        least, most = ROUND_GROWTH
        factor = AIM_BEYOND * excess ** (1 / (0.5 + self.power)) if math.isfinite(excess) else most
        return max(1, math.ceil((min(max(factor, least), most) - 1) * n))


# Rules without a target ----------------------------------------------------------------------------------------------


@dataclass
class FixedCount(StoppingRule):
    """Stop after `n` samples: 100 is what KernelBench, ComPPare and most scripts around fused kernels take."""

    n: int = 100

    name: ClassVar[str] = "fixed"

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

    def decide(self) -> Decision:
        """Go on until the time is up."""
        if len(self._samples) < self.n_floor:
            return Continue(1)
        if self._spent >= self.t_max:
            return Stop(Reason.COMPLETE)
        return Continue(self._samples_within(self.t_max - self._spent))


# Published rules -----------------------------------------------------------------------------------------------------


@dataclass
class CoefficientOfVariation(StoppingRule):
    """Stop when the coefficient of variation of the samples (burn-in left out) is at most `eps`.

    eps: 1%, the published target of convergence-based kernel suites. t_min, t_max: seconds of timing. Eight fresh
    processes of .1 s each agree within .42 to .48%, one process of 2 s only within .82 to .91%: what a longer round
    would gain is lost between processes, so t_max is short. n_min: samples, waived when the time is up. N_floor never.
    """

    eps: float = 0.01
    t_min: float = 0.1
    t_max: float = 0.25
    n_min: int = 16
    n_floor: int = 3

    name: ClassVar[str] = "cv"
    ascending: ClassVar[tuple[str, ...]] = ("t_min", "t_max")

    def decide(self) -> Decision:
        """Look after every growth by a quarter. See the class for the rule."""
        n = len(self._samples)
        if n < self.n_floor:
            return Continue(1)
        if self._spent >= self.t_max:
            return Stop(Reason.CONVERGED if self._converged() else Reason.BUDGET)
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
    5000 x 5000 matrices before the first run, to bring clocks up: `timing.pre_warm` does that.
    """

    eps: float = 0.01
    n_min: int = 5
    n_max: int = 20

    name: ClassVar[str] = "cv_gflops"
    ascending: ClassVar[tuple[str, ...]] = ("n_min", "n_max")

    def decide(self) -> Decision:
        """Look after every run, as published: there are 20 of them at most."""
        n = len(self._samples)
        if n < self.n_min:
            return Continue(self.n_min - n)
        variation = cv(1 / np.asarray(self._samples))
        if variation is not None and variation < self.eps:
            return Stop(Reason.CONVERGED)
        return Continue(1) if n < self.n_max else Stop(Reason.BUDGET)


# Choice --------------------------------------------------------------------------------------------------------------

RULES: Mapping[str, Callable[..., StoppingRule]] = {
    rule.name: rule
    for rule in (Adaptive, AdaptiveRound, CoefficientOfVariation, FixedCount, FixedTime, VariationOfRates)
}
DEFAULT_RULE = AdaptiveRound.name  # a series has eight rounds


def from_environment(environ: Mapping[str, str]) -> StoppingRule:
    """Return the rule that KV_RULE names, with the parameters that KV_EPS, KV_T_MIN, KV_T_MAX and their like set.

    Raises:
        RuleError: no such rule, the rule has no such parameter, or the value is not a positive number.
    """
    name = environ.get("KV_RULE") or DEFAULT_RULE
    if name not in RULES:
        raise RuleError(f"KV_RULE: no stopping rule {name!r}; there are {', '.join(sorted(RULES))}")
    defaults = RULES[name]().parameters()
    chosen: dict[str, float] = {}
    for parameter in sorted({parameter for rule in RULES.values() for parameter in rule().parameters()}):
        variable = f"KV_{parameter.upper()}"
        text = environ.get(variable)
        if not text:
            continue
        if parameter not in defaults:
            raise RuleError(f"{variable}: rule {name} has no parameter {parameter}; it has {', '.join(defaults)}")
        whole = isinstance(defaults[parameter], int)
        try:
            chosen[parameter] = int(text) if whole else float(text)
        except ValueError:
            raise RuleError(f"{variable}: got {text!r}; wanted a {'whole ' if whole else ''}number") from None
    return RULES[name](**chosen)


def method_hash(rule: StoppingRule, threads: str | None = None) -> str:
    """Return 8 hex digits of harness version, rule and parameters: part of a series' identity (rounds are not).

    Args:
        rule: the stopping rule.
        threads: what KV_THREADS says, None or "" for the default of one: another number is another series.
    """
    identity = json.dumps(
        [HARNESS_VERSION, rule.recorded_as or rule.name, sorted(rule.parameters().items()), threads or "1"]
    )
    return hashlib.sha256(identity.encode()).hexdigest()[:8]
