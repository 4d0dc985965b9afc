"""How a comparison measures: rounds, rule, warm-ups, the published presets; what the user said, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kernel_velocity.errors import UsageError
from kernel_velocity.harness.sampling import ROUNDS
from kernel_velocity.harness.stopping import FixedCount, StoppingRule, VariationOfRates, from_environment

WARMUPS = 10  # calls before a fixed number of samples: as scripts around fused kernels have it

MakeRule = Callable[[], StoppingRule]


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A published way of measuring: warm-up calls, then one call per sample until the rule stops."""

    warmups: int
    rule: MakeRule
    source: str


# What others' scripts do, so that their numbers can be had again; ours are the rounds of the history.
PRESETS: Mapping[str, Preset] = {
    "fused": Preset(warmups=10, rule=partial(FixedCount, n=100), source="scripts around fused kernels: 10/100"),
    "chapter": Preset(warmups=50, rule=partial(FixedCount, n=1000), source="textbook chapters on kernels: 50/1000"),
    "comppare": Preset(warmups=100, rule=partial(FixedCount, n=100), source="ComPPare's defaults: 100/100"),
    # `futhark bench --runs` has 10 as its default, behind one warm-up run.
    "futhark": Preset(warmups=1, rule=partial(FixedCount, n=10), source="futhark bench: 1 warm-up, 10 runs"),
    # Published with ten products of 5000 x 5000 matrices as warm-up; here ten calls of what is timed.
    "tensara": Preset(
        warmups=10, rule=VariationOfRates, source="Tensara: 5 to 20 runs, until the CV of GFLOPS is below 1%"
    ),
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How every implementation is measured.

    Attributes:
        rounds: how often each takes its turn.
        rule: makes the stopping rule of a round.
        warmups: calls before the first sample of a round; then a sample is one call, and all samples count. None: as
            rounds of the history, warm-up by time, batches, a burn-in left out.
        preset: whose way of measuring this is; None: ours, or the user's own.
        tolerance: what counts as right, of harness/accuracy.py; None: the problem decides.
        reference: the implementation that speed-ups are relative to; None: the first.
        threads: of the CPU.
    """

    rounds: int = ROUNDS
    rule: MakeRule = field(default=partial(from_environment, {}))
    warmups: int | None = None
    preset: str | None = None
    tolerance: Any = None
    reference: str | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        for name in ("rounds", "threads"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} = {getattr(self, name)}: wanted at least 1")
        if self.warmups is not None and self.warmups < 0:
            raise UsageError(f"warmups = {self.warmups}: wanted 0 or more")

    def described(self) -> dict[str, str]:
        """Return the settings as text, by name."""
        rule = self.rule()
        said = {
            "rule": rule.name,
            "parameters": ", ".join(f"{name} {value:g}" for name, value in rule.parameters().items()),
            "rounds": str(self.rounds),
            "warm-up": "by time, 50 ms or more" if self.warmups is None else f"{self.warmups} calls",
            "sample": "a batch of calls that the clock resolves" if self.warmups is None else "one call",
            "tolerance": "the problem's own" if self.tolerance is None else _tolerance_text(self.tolerance),
            "threads": str(self.threads),
        }
        if self.preset is not None:
            said["preset"] = f"{self.preset} ({PRESETS[self.preset].source})"
        return said


def _tolerance_text(tolerance: Any) -> str:
    return f"{tolerance} ({tolerance.source})"


def settings(
    *,
    environ: Mapping[str, str],
    preset: str | None = None,
    rule: str | None = None,
    warmups: int | None = None,
    iters: int | None = None,
    rounds: int | None = None,
    **others: Any,
) -> Settings:
    """Return the settings that options ask for: a preset, of which warm-ups and iterations or the rule may be replaced.

    Args:
        environ: KV_RULE and the parameters of rules (KV_EPS, ...), where no option says otherwise.
        preset: one of PRESETS.
        rule: a stopping rule by name.
        warmups: calls before the first sample.
        iters: samples of one call each; with it there is no rule, and WARMUPS where nobody says how many.
        rounds: how often each implementation takes its turn.
        others: tolerance, reference, threads, as `Settings` has them.

    Raises:
        UsageError: an unknown preset or rule, a number that is too small, two rules at once.
    """
    if preset is not None and preset not in PRESETS:
        raise UsageError(f"--preset {preset!r}: there are {', '.join(PRESETS)}")
    if rule is not None and iters is not None:
        raise UsageError(f"--rule {rule} and --iters {iters}: a fixed number of samples is a rule of its own; take one")
    if iters is not None and iters < 1:
        raise UsageError(f"--iters {iters}: wanted at least 1")
    if warmups is not None and warmups < 0:
        raise UsageError(f"--warmups {warmups}: wanted 0 or more")
    if rounds is not None and rounds < 1:
        raise UsageError(f"--rounds {rounds}: wanted at least 1")
    published = PRESETS.get(preset or "")
    if iters is not None:
        make: MakeRule = partial(FixedCount, n=iters)
        warmups = WARMUPS if warmups is None and published is None else warmups
    elif rule is None and published is not None:
        make = published.rule
    else:
        make = partial(_named, rule, dict(environ))
    if warmups is None and published is not None:
        warmups = published.warmups
    make()  # a name or a parameter that is wrong is said before anything is measured
    return Settings(rule=make, warmups=warmups, preset=preset, rounds=ROUNDS if rounds is None else rounds, **others)


def _named(rule: str | None, environ: Mapping[str, str]) -> StoppingRule:
    """Return the rule of that name, with the parameters of the environment.

    Raises:
        UsageError: no such rule, or not one of its parameters.
    """
    try:
        return from_environment({**environ, "KV_RULE": rule} if rule is not None else environ)
    except ValueError as error:
        said = str(error)
        raise UsageError(said.replace("KV_RULE:", f"--rule {rule}:") if rule is not None else said) from None
