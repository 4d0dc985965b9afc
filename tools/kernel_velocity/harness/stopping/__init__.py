"""Stopping rules: floats in, a decision and its reason out. They never see a GPU, a clock or a kernel.

Three verbs: `start()`, `add(samples, spent)`, `decide()`, which answers `Continue(n)` or `Stop(reason)`.
A rule is chosen by name (KV_RULE) and its parameters by environment variables (KV_EPS, KV_T_MIN, ...: KV_ and the
parameter's name); name and parameters are part of the method hash, so that a series never mixes two ways of measuring.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial

from kernel_velocity.harness.stopping.adaptive import Adaptive
from kernel_velocity.harness.stopping.adaptive_round import AdaptiveRound
from kernel_velocity.harness.stopping.fixed import FixedCount, FixedTime
from kernel_velocity.harness.stopping.nvbench import Entropy, RelativeDeviation
from kernel_velocity.harness.stopping.reactive import ReactiveBenchmarking
from kernel_velocity.harness.stopping.rule import (
    BURN_IN,
    Continue,
    Decision,
    Reason,
    RuleError,
    Stop,
    StoppingRule,
    without_burn_in,
)
from kernel_velocity.harness.stopping.variation import CoefficientOfVariation, VariationOfRates

__all__ = [
    "BURN_IN",
    "DEFAULT_RULE",
    "HARNESS_VERSION",
    "RULES",
    "Adaptive",
    "AdaptiveRound",
    "CoefficientOfVariation",
    "Continue",
    "Decision",
    "Entropy",
    "FixedCount",
    "FixedTime",
    "ReactiveBenchmarking",
    "Reason",
    "RelativeDeviation",
    "RuleError",
    "Stop",
    "StoppingRule",
    "VariationOfRates",
    "from_environment",
    "method_hash",
    "without_burn_in",
]

HARNESS_VERSION = "3"  # raise it when a change of the harness moves the times that it reports

_CLASSES = (
    Adaptive,
    AdaptiveRound,
    CoefficientOfVariation,
    Entropy,
    FixedCount,
    FixedTime,
    ReactiveBenchmarking,
    RelativeDeviation,
    VariationOfRates,
)
# A rule by its name, and after a point a variant: a published set of parameters (the same are the same method), or
# `adaptive.round`, a rule of its own.
RULES: Mapping[str, Callable[..., StoppingRule]] = {
    **{rule.name: rule for rule in _CLASSES},
    "rse_autocorrelation.conservative": partial(ReactiveBenchmarking, factor=2.0, min_time=1.0),
    "rse_autocorrelation.cube_root": partial(ReactiveBenchmarking, exponent=1 / 3),
    "rse_autocorrelation.thinned": partial(ReactiveBenchmarking, thin=2),
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
    known = RULES[name]().parameters()
    chosen: dict[str, float] = {}
    for parameter in sorted({parameter for rule in RULES.values() for parameter in rule().parameters()}):
        variable = f"KV_{parameter.upper()}"
        text = environ.get(variable)
        if not text:
            continue
        if parameter not in known:
            raise RuleError(f"{variable}: rule {name} has no parameter {parameter}; it has {', '.join(known)}")
        chosen[parameter] = _number(variable, text, whole=isinstance(known[parameter], int))
    return RULES[name](**chosen)


def _number(variable: str, text: str, *, whole: bool) -> float:
    try:
        return int(text) if whole else float(text)
    except ValueError:
        raise RuleError(f"{variable}: got {text!r}; wanted a {'whole ' if whole else ''}number") from None


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
