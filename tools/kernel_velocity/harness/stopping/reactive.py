"""Reactive Benchmarking's rule (`futhark bench`): relative standard error, judged by lag-1 autocorrelation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from kernel_velocity.harness.statistics import autocorrelation, relative_standard_error
from kernel_velocity.harness.stopping.rule import Continue, Decision, Reason, RuleError, Stop, StoppingRule

# (lag-1 autocorrelation, relative standard error): above both of any pair, more samples are wanted. As published.
CRITERIA = ((0.95, 0.0010), (0.75, 0.0015), (0.65, 0.0025), (0.45, 0.0050), (0.00, 0.0100))
THIN_MOST = 10  # one sample in 1,024: with fewer looked at, a round would only ever end by its time
FEWEST = 4  # samples that a lag-1 autocorrelation and an error can be read from, after thinning


@dataclass
class ReactiveBenchmarking(StoppingRule):
    """Take `runs` samples and `min_time` seconds; while a pair of CRITERIA is exceeded, drop these and take n/2 more.

    The first phase is dropped once, because it often holds a warm-up; then n grows by half, until no pair is exceeded
    or `max_time` seconds were spent after the first phase (5 min, as published).

    exponent: of n in the error, 1/2 as if samples were independent, or 1/3 because they are not. factor: multiplies the
    thresholds of the error (1; the conservative variant's are doubled, with a min_time of 1 s). thin: looks at one
    sample in 2^thin, which lowers the autocorrelation that the rule sees.
    """

    runs: int = 10
    min_time: float = 0.5
    max_time: float = 300.0
    exponent: float = 0.5
    factor: float = 1.0
    thin: int = 0

    name: ClassVar[str] = "rse_autocorrelation"

    def __post_init__(self) -> None:
        self._check(may_be_zero=("thin",), ordered=("min_time", "max_time"))
        if self.thin > THIN_MOST:
            raise RuleError(f"rule {self.name}: thin = {self.thin}; wanted 0 to {THIN_MOST} (one sample in 2^thin)")

    def start(self) -> None:
        """Forget everything: a new round begins."""
        super().start()
        self._first: tuple[int, float] | None = None  # samples and seconds of the phase that was dropped

    @property
    def samples(self) -> Sequence[float]:
        """Return the samples after the phase that was dropped."""
        return self._samples if self._first is None else self._samples[self._first[0] :]

    def decide(self) -> Decision:
        """Look when the first phase is over, then after every growth by half."""
        n = len(self._samples)
        if self._first is None:
            if n < self.runs:
                return Continue(self.runs - n)
            if self._spent < self.min_time:
                return Continue(math.ceil((self.min_time - self._spent) * n / self._spent) if self._spent else n)
            if not self._wants_more():
                return Stop(Reason.CONVERGED)
            self._first = (n, self._spent)
        kept, seconds = n - self._first[0], self._spent - self._first[1]
        if kept == 0:
            return Continue(max(self._first[0] // 2, self.runs))
        if not self._wants_more():
            return Stop(Reason.CONVERGED)
        return Stop(Reason.BUDGET) if seconds >= self.max_time else Continue(max(kept // 2, 1))

    def _wants_more(self) -> bool:
        seen = self.samples[:: 2**self.thin]
        if len(seen) < FEWEST:
            return True
        error = relative_standard_error(seen, self.exponent)
        # None is a constant trace: its error is 0, and below every threshold whatever stands here
        correlation = autocorrelation(seen, 1) or 0.0
        return any(correlation > bound and error > self.factor * most for bound, most in CRITERIA)
