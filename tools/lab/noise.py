"""Families of noise around a known truth. Pure, seeded.

A family multiplies a kernel's own time by a factor around 1. Its `path` is what one process sees from its first sample
on. Its `stationary` draws are independent ones of the same factor once everything has settled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kernel_velocity.engine.statistics import FloatArray

Generator = np.random.Generator


class Family(Protocol):
    """One kind of noise, with its parameters drawn."""

    def path(self, rng: Generator, n: int, step: float) -> FloatArray:
        """Return n factors in time order, `step` seconds apart."""

    def stationary(self, rng: Generator, n: int) -> FloatArray:
        """Return n independent factors of the settled state."""


def between(rng: Generator, low: float, high: float) -> float:
    """Draw a number between two."""
    return float(rng.uniform(low, high))


def octaves(rng: Generator, low: float, high: float) -> float:
    """Draw a number between two positive ones, as likely in every octave."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


@dataclass(frozen=True)
class Jitter:
    """Log-normal jitter. It remembers the sample before, or drifts slowly around a mean (heat, clocks)."""

    sigma: float  # relative standard deviation
    phi: float = 0.0  # correlation from one sample to the next
    memory: float | None = None  # s after which about e of it is forgotten; in the place of `phi`

    def path(self, rng: Generator, n: int, step: float) -> FloatArray:
        """Return n factors: a stationary first-order autoregression, x[i] = phi x[i-1] + noise."""
        phi = self.phi if self.memory is None else math.exp(-step / self.memory)
        values = rng.standard_normal(n) * math.sqrt(1 - phi * phi)
        values[0] /= math.sqrt(1 - phi * phi)
        # Doubling the reach in every pass: x[i] = e[i] + phi e[i-1] + ..., without a loop over samples
        reach = 1
        while reach < n and phi**reach > 1e-12:
            values[reach:] = values[reach:] + phi**reach * values[:-reach]
            reach *= 2
        return np.asarray(np.exp(self.sigma * values))

    def stationary(self, rng: Generator, n: int) -> FloatArray:
        """Return n factors."""
        return np.asarray(np.exp(self.sigma * rng.standard_normal(n)))


@dataclass(frozen=True)
class Pareto:
    """Spikes: a `share` of the samples is longer by a Pareto-distributed part, interrupts and page faults."""

    share: float
    scale: float
    alpha: float  # tail index: below 2 the variance is infinite

    def path(self, rng: Generator, n: int, step: float) -> FloatArray:
        """Return n factors."""
        return self.stationary(rng, n)

    def stationary(self, rng: Generator, n: int) -> FloatArray:
        """Return n factors."""
        hit = rng.random(n) < self.share
        return np.asarray(1 + hit * self.scale * (1 + rng.pareto(self.alpha, n)))


@dataclass(frozen=True)
class WarmUp:
    """A ramp: the first samples are slower by `height`, which decays over `constant` seconds, to nothing."""

    height: float
    constant: float

    def path(self, rng: Generator, n: int, step: float) -> FloatArray:
        """Return n factors."""
        return np.asarray(1 + self.height * np.exp(-np.arange(n) * step / self.constant))

    def stationary(self, rng: Generator, n: int) -> FloatArray:
        """Return n ones."""
        return np.ones(n)


@dataclass(frozen=True)
class Periodic:
    """A sine of `height` and `period` seconds with a random phase: fans, power control, a neighbour's timer."""

    height: float
    period: float

    def path(self, rng: Generator, n: int, step: float) -> FloatArray:
        """Return n factors."""
        phase = rng.uniform(0, 2 * math.pi)
        return np.asarray(1 + self.height * np.sin(phase + 2 * math.pi * step / self.period * np.arange(n)))

    def stationary(self, rng: Generator, n: int) -> FloatArray:
        """Return n factors."""
        return np.asarray(1 + self.height * np.sin(rng.uniform(0, 2 * math.pi, n)))


@dataclass(frozen=True)
class TwoSpeeds:
    """Two speeds, `gap` apart, of which a share `slow` of the samples has the slower one."""

    gap: float
    slow: float
    means: tuple[float, float] | None = None  # s that the fast and the slow one last; None: each sample by itself

    @classmethod
    def sticky(cls, gap: float, slow: float, cycle: float) -> TwoSpeeds:
        """Return two speeds that last for a while: a share `slow` of a cycle, s, is slow."""
        return cls(gap, slow, ((1 - slow) * cycle, slow * cycle))

    @classmethod
    def bursts(cls, height: float, length: float, rate: float) -> TwoSpeeds:
        """Return busy times: `length` seconds long, `rate` of them a second, slower by `height`."""
        return cls(height, length * rate / (1 + length * rate), (1 / rate, length))

    def path(self, rng: Generator, n: int, step: float) -> FloatArray:
        """Return n factors: each speed lasts for exponential times."""
        if self.means is None:
            return self.stationary(rng, n)
        state, cycles = int(rng.random() < self.slow), n * step / sum(self.means)
        pairs = int(4 + 2 * cycles + 8 * math.sqrt(cycles))
        means = np.resize(np.asarray([self.means[state], self.means[1 - state]]), 2 * pairs)
        ends = np.cumsum(rng.exponential(1.0, 2 * pairs) * means)
        changes = np.searchsorted(ends, np.arange(n) * step, side="right")
        return np.asarray(1 + self.gap * ((changes + state) % 2))

    def stationary(self, rng: Generator, n: int) -> FloatArray:
        """Return n factors."""
        return np.asarray(1 + self.gap * (rng.random(n) < self.slow))


FAMILIES: Mapping[str, Callable[[Generator], Family]] = {  # their parameters are drawn in the order of the fields
    "iid": lambda rng: Jitter(octaves(rng, 0.002, 0.03)),
    "pareto": lambda rng: Pareto(between(rng, 0.005, 0.05), between(rng, 0.05, 0.3), between(rng, 1.2, 3.0)),
    "warm_up": lambda rng: WarmUp(octaves(rng, 0.01, 0.3), octaves(rng, 0.005, 0.2)),
    "periodic": lambda rng: Periodic(octaves(rng, 0.003, 0.03), octaves(rng, 0.005, 0.5)),
    "bimodal": lambda rng: TwoSpeeds(octaves(rng, 0.01, 0.1), between(rng, 0.1, 0.5)),
    "sticky": lambda rng: TwoSpeeds.sticky(octaves(rng, 0.005, 0.05), between(rng, 0.1, 0.5), octaves(rng, 0.01, 0.5)),
    "autoregressive": lambda rng: Jitter(octaves(rng, 0.003, 0.03), between(rng, 0.5, 0.98)),
    "drift": lambda rng: Jitter(octaves(rng, 0.003, 0.02), memory=octaves(rng, 0.1, 2.0)),
    "bursts": lambda rng: TwoSpeeds.bursts(octaves(rng, 0.05, 1.0), octaves(rng, 0.003, 0.05), octaves(rng, 0.5, 4.0)),
}
