"""Stopping rules: floats in, a decision and its reason out. They never see a GPU, a clock or a kernel.

Three verbs: `start()`, `add(samples, spent)`, `decide()`, which answers `Continue(n)` or `Stop(reason)`.
A rule is chosen by name (KV_RULE) and its parameters by environment variables (KV_EPS, KV_T_MIN, ...); name and
parameters are part of the method hash, so that a series never mixes two ways of measuring.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import ClassVar

from benchmarks.harness.statistics import cv

HARNESS_VERSION = "1"  # raise it when a change of the harness moves the times that it reports

BURN_IN = 0.2  # share of the samples left out at the start: warm-up that the warm-up did not catch


class RuleError(ValueError):
    """A rule or a parameter that does not exist, or a value that it cannot have."""


class Reason(StrEnum):
    """Why a measurement stopped."""

    CONVERGED = "converged"  # the target was reached
    BUDGET = "budget"  # the time was up before it was
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
    """The interface; a subclass is a frozen set of parameters plus what it has seen since `start`."""

    name: ClassVar[str]

    def start(self) -> None:
        """Forget everything: a new round begins."""
        self._samples: list[float] = []
        self._spent = 0.0

    def add(self, samples: Sequence[float], spent: float) -> None:
        """Take in samples (seconds per call, in the order taken) and the seconds that taking them cost.

        Raises:
            ValueError: a sample is not a positive finite number: the timer is broken, no rule may hide it.
        """
        for sample in samples:
            if not (math.isfinite(sample) and sample > 0):
                raise ValueError(f"the timer returned {sample!r} s; wanted a positive finite time")
        self._samples.extend(samples)
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
        """Return whether to go on, and with how many samples, or why to stop."""

    def parameters(self) -> dict[str, float]:
        """Return the parameters by name."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]  # every concrete rule is a dataclass

    def _samples_within(self, seconds: float) -> int:
        """Return how many samples fit into `seconds`, judged by those taken; at least one."""
        return max(1, int(seconds * len(self._samples) / self._spent)) if self._spent > 0 else 1


def _check_positive(rule: StoppingRule) -> None:
    for name, value in rule.parameters().items():
        if not (math.isfinite(value) and value > 0):
            raise RuleError(f"rule {rule.name}: {name} = {value!r}; wanted a positive number")


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
        _check_positive(self)
        if self.t_min > self.t_max:
            raise RuleError(f"rule cv: t_min = {self.t_min} s is more than t_max = {self.t_max} s")

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
class FixedTime(StoppingRule):
    """Stop after `t_max` seconds of timing, and not before `n_floor` samples."""

    t_max: float = 0.25
    n_floor: int = 3

    name: ClassVar[str] = "fixed_time"

    def __post_init__(self) -> None:
        _check_positive(self)

    def decide(self) -> Decision:
        """Go on until the time is up."""
        if len(self._samples) < self.n_floor:
            return Continue(1)
        if self._spent >= self.t_max:
            return Stop(Reason.COMPLETE)
        return Continue(self._samples_within(self.t_max - self._spent))


RULES: Mapping[str, Callable[..., StoppingRule]] = {rule.name: rule for rule in (CoefficientOfVariation, FixedTime)}
DEFAULT_RULE = CoefficientOfVariation.name
_SETTINGS = {"KV_EPS": "eps", "KV_T_MIN": "t_min", "KV_T_MAX": "t_max"}


def from_environment(environ: Mapping[str, str]) -> StoppingRule:
    """Return the rule that KV_RULE names, with the parameters that KV_EPS, KV_T_MIN and KV_T_MAX set.

    Raises:
        RuleError: no such rule, the rule has no such parameter, or the value is not a positive number.
    """
    name = environ.get("KV_RULE") or DEFAULT_RULE
    if name not in RULES:
        raise RuleError(f"KV_RULE: no stopping rule {name!r}; there are {', '.join(sorted(RULES))}")
    known = RULES[name]().parameters()
    chosen: dict[str, float] = {}
    for variable, parameter in _SETTINGS.items():
        text = environ.get(variable)
        if not text:
            continue
        if parameter not in known:
            raise RuleError(f"{variable}: rule {name} has no parameter {parameter}; it has {', '.join(known)}")
        try:
            chosen[parameter] = float(text)
        except ValueError:
            raise RuleError(f"{variable}: got {text!r}; wanted a number") from None
    return RULES[name](**chosen)


def method_hash(rule: StoppingRule, threads: str | None = None) -> str:
    """Return 8 hex digits of harness version, rule and parameters: part of a series' identity (rounds are not).

    Args:
        rule: the stopping rule.
        threads: what KV_THREADS says, None or "" for the default of one: another number is another series.
    """
    identity = json.dumps([HARNESS_VERSION, rule.name, sorted(rule.parameters().items()), threads or "1"])
    return hashlib.sha256(identity.encode()).hexdigest()[:8]
