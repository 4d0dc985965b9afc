"""What a statistic returns: a value, or None where it is unknown, and what speaks against it."""

from __future__ import annotations

from dataclasses import dataclass

from kernel_velocity.harness.statistics.primitives import FloatArray, autocorrelation, constant

CORRELATED = 3  # times 1/sqrt(n), the spread of an independent series' autocorrelation: 1 in 700 exceeds it by chance


@dataclass(frozen=True)
class Figure:
    """One number about samples, in their unit unless its name says that it is relative, and its footnotes."""

    value: float | None  # None: unknown, the warnings say why
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A confidence interval, in the samples' unit."""

    low: float | None  # None: unknown, the warnings say why
    high: float | None
    level: float  # nominal, .95 say
    method: str
    warnings: tuple[str, ...] = ()


def need(count: int, what: str, have: int) -> tuple[str, ...]:
    """Return the warning that `what` rests on too few samples; none when it does not."""
    return () if have >= count else (f"need >= {count} samples for {what}, have {have}",)


def warn_constant(values: FloatArray) -> tuple[str, ...]:
    """Return the warning that all samples are equal: a clock too coarse, or no measurement at all."""
    if values.size < 2 or not constant(values):
        return ()
    return (f"all {values.size} samples are equal: the clock is too coarse, or this was not measured",)


def warn_correlated(values: FloatArray, what: str) -> tuple[str, ...]:
    """Return the warning that samples follow each other, where `what` takes them for independent."""
    found = autocorrelation(values)
    if found is None or found <= CORRELATED / values.size**0.5:
        return ()
    return (f"neighbouring samples are correlated ({found:.2f}): {what}",)
