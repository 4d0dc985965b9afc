"""How a comparison measures: rounds, stopping rule, warm-ups, and the presets of published work."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kernel_velocity.engine.process_state import restored
from kernel_velocity.engine.sampling import ROUNDS
from kernel_velocity.engine.stopping import FixedCount, StoppingRule, VariationOfRates, from_environment
from kernel_velocity.engine.timing import prepare_torch
from kernel_velocity.errors import UsageError
from kernel_velocity.problem.accuracy import Tolerance
from kernel_velocity.suite.originals import ORIGINALS

WARMUPS = 10  # calls before a fixed number of samples, as in published scripts for fused kernels


@dataclass(frozen=True)
class Preset:
    """A published way of measuring: warm-up calls, then one call per sample until the rule stops."""

    warmups: int
    rule: StoppingRule
    source: str


# How published scripts measure, to reproduce their numbers. Without a preset, rounds are those of the history.
PRESETS: Mapping[str, Preset] = {
    "fused": Preset(10, FixedCount(n=100), "scripts around fused kernels: 10/100"),
    "chapter": Preset(50, FixedCount(n=1000), "textbook chapters on kernels: 50/1000"),
    "comppare": Preset(100, FixedCount(n=100), "ComPPare's defaults: 100/100"),
    # `futhark bench --runs` has 10 as its default, behind one warm-up run.
    "futhark": Preset(1, FixedCount(n=10), "futhark bench: 1 warm-up, 10 runs"),
    # Published with ten products of 5000 x 5000 matrices as warm-up; here ten calls of what is timed.
    "tensara": Preset(10, VariationOfRates(), "Tensara: 5 to 20 runs, until the CV of GFLOPS is below 1%"),
}


@dataclass(frozen=True, kw_only=True)
class TimingSettings:
    """How every implementation is measured.

    Attributes:
        rounds: each times every implementation once.
        rule: the stopping rule, which each round starts anew.
        warmups: calls before the first sample of a round, each sample then one call, all of which count. None: as in
            rounds of the history, with a warm-up by time, batches, and without the burn-in.
        preset: the name of a published way of measuring. None: ours, or the user's.
        tolerance: what counts as right. None: the problem decides.
        reference: the implementation that speed-ups are relative to. None: the first.
        threads: of the CPU.

    Raises:
        UsageError: a number that is too small.
    """

    rounds: int = ROUNDS
    rule: StoppingRule = field(default_factory=partial(from_environment, {}))
    warmups: int | None = None
    preset: str | None = None
    tolerance: Tolerance | None = None
    reference: str | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        for name, least in (("rounds", 1), ("threads", 1), ("warmups", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"--{name} must be at least {least} (got {value})")

    def described(self) -> dict[str, str]:
        """Return the settings as text, by name."""
        texts = {
            "rule": self.rule.name,
            "parameters": ", ".join(f"{name} {value:g}" for name, value in self.rule.parameters().items()),
            "rounds": str(self.rounds),
            "warm-up": "by time, 50 ms or more" if self.warmups is None else f"{self.warmups} calls",
            "sample": "a batch of calls" if self.warmups is None else "one call",
            "tolerance": f"{self.tolerance} ({self.tolerance.source})" if self.tolerance else "the problem's own",
            "threads": str(self.threads),
        }
        preset = {} if self.preset is None else {"preset": f"{self.preset} ({PRESETS[self.preset].source})"}
        return texts | preset


def settings(
    *,
    environ: Mapping[str, str],
    preset: str | None = None,
    rule: str | None = None,
    warmups: int | None = None,
    iters: int | None = None,
    rounds: int | None = None,
    **more: Any,
) -> TimingSettings:
    """Return the settings that options ask for: a preset, of which warm-ups and iterations or the rule may be replaced.

    Args:
        environ: KV_RULE and the parameters of rules (KV_EPS, ...), where no option says otherwise.
        preset: one of PRESETS.
        rule: a stopping rule by name.
        warmups: calls before the first sample.
        iters: samples of one call each, in place of a rule. The warm-ups are then WARMUPS by default.
        rounds: each times every implementation once.
        more: tolerance, reference, threads, as `TimingSettings` has them.

    Raises:
        UsageError: an unknown preset or rule, a number that is too small, two rules at once.
    """
    if preset is not None and preset not in PRESETS:
        raise UsageError(f"--preset must be one of {', '.join(PRESETS)} (got {preset!r})")
    if rule is not None and iters is not None:
        raise UsageError(f"--iters {iters} is itself a stopping rule: leave out --rule {rule} or --iters")
    if iters is not None and iters < 1:
        raise UsageError(f"--iters must be at least 1 (got {iters})")
    published = None if preset is None else PRESETS[preset]
    chosen: StoppingRule
    if iters is not None:
        chosen = FixedCount(n=iters)
    elif rule is None and published is not None:
        chosen = published.rule
    else:
        try:
            chosen = from_environment(environ if rule is None else {**environ, "KV_RULE": rule})
        except ValueError as error:
            words = str(error) if rule is None else str(error).replace("KV_RULE:", f"--rule {rule}:")
            raise UsageError(words) from None
    if warmups is None and (published is not None or iters is not None):
        warmups = WARMUPS if published is None else published.warmups
    return TimingSettings(
        rule=chosen, warmups=warmups, preset=preset, rounds=ROUNDS if rounds is None else rounds, **more
    )


@contextmanager
def prepared(device: str, threads: int, here: int | None = None) -> Iterator[None]:
    """Set PyTorch up as in measuring processes, and restore its settings at the end.

    Args:
        threads: of implementations. here: of this process, where those have their own. None: as many.

    Raises:
        UsageError: PyTorch or the device is not there.
    """
    try:
        importlib.import_module("torch")
    except ModuleNotFoundError:
        raise UsageError("PyTorch is not installed for this Python: `make venv` installs it") from None
    variable = os.environ.get("KV_THREADS")
    os.environ["KV_THREADS"] = str(threads)  # read by native kernels, compiled packages and PyTorch
    try:
        with restored(lambda change: None):
            try:
                prepare_torch(device, here)
            except NotImplementedError as error:
                raise UsageError(f"--device {device}: {error}; use --device cpu") from None
            ORIGINALS.note()
            yield
    finally:
        os.environ.pop("KV_THREADS")
        os.environ |= {} if variable is None else {"KV_THREADS": variable}
