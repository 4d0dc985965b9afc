"""Synthetic noise: what disturbs a timed kernel, as families of known truth, and random mixtures of them. Pure, seeded.

A family multiplies a kernel's own time by a factor around 1. Its `path` is what one process would see from its first
sample on; its `stationary` draws are independent ones of the same factor once everything has settled.

Random mixtures of noise, each a kernel of its own with a known truth: what stopping rules are tried on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kernel_velocity.harness.statistics import FloatArray, trimmed_mean

JITTER = (0.002, 0.03)  # relative standard deviation, where a family draws its own

Generator = np.random.Generator

# Namespaces of seeds: constants may be chosen on the first only, and what is claimed is shown on the second only.
TUNING = 1
HELD_OUT = 2
SETS = {"tuning": TUNING, "held-out": HELD_OUT}

TRUTH_DRAWS = 200_000  # independent draws behind a truth: a spread of 3% leaves it uncertain by less than .01%
FASTEST, SLOWEST = 1e-4, 1e-2  # s per sample: 200 ticks of a GPU's event clock, and what a large kernel takes
WARM_UP_SHARE = 0.3  # of the mixtures start with what the harness's warm-up left over
TICKS_SHARE = 0.2  # of the mixtures are read by a coarse clock
MOST_FAMILIES = 3  # in a mixture, besides jitter, warm-up and ticks


SECONDS = 16.0  # of every trace: more than nvbench's timeout, the longest cap that a rule meets in practice


class Family(Protocol):
    """One kind of noise, with its parameters drawn."""

    def path(self, rng: Generator, n: int, step: float) -> FloatArray:
        """Return n factors in time order, `step` seconds apart."""

    def stationary(self, rng: Generator, n: int) -> FloatArray:
        """Return n independent factors of the settled state."""


def _between(rng: Generator, low: float, high: float) -> float:
    return float(rng.uniform(low, high))


def log_between(rng: Generator, low: float, high: float) -> float:
    """Draw a number between two positive ones, as likely in every octave."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


@dataclass(frozen=True)
class Iid:
    """Independent log-normal jitter of relative standard deviation `sigma`."""

    sigma: float

    @classmethod
    def draw(cls, rng: Generator) -> Iid:
        """Draw its parameters."""
        return cls(log_between(rng, *JITTER))

    def path(self, rng: Generator, n: int, step: float) -> FloatArray:
        """Return n factors."""
        return self.stationary(rng, n)

    def stationary(self, rng: Generator, n: int) -> FloatArray:
        """Return n factors."""
        return np.asarray(np.exp(self.sigma * rng.standard_normal(n)))


@dataclass(frozen=True)
class Pareto:
    """Spikes: a `share` of the samples is longer by a Pareto-distributed part, interrupts and page faults."""

    share: float
    scale: float
    alpha: float  # tail index: below 2 the variance is infinite

    @classmethod
    def draw(cls, rng: Generator) -> Pareto:
        """Draw its parameters."""
        return cls(_between(rng, 0.005, 0.05), _between(rng, 0.05, 0.3), _between(rng, 1.2, 3.0))

    def path(self, rng: Generator, n: int, step: float) -> FloatArray:
        """Return n factors."""
        return self.stationary(rng, n)

    def stationary(self, rng: Generator, n: int) -> FloatArray:
        """Return n factors."""
        hit = rng.random(n) < self.share
        return np.asarray(1 + hit * self.scale * (1 + rng.pareto(self.alpha, n)))


@dataclass(frozen=True)
class WarmUp:
    """A ramp: the first samples are slower by `height`, which decays over `constant` seconds. Nothing once settled."""

    height: float
    constant: float

    @classmethod
    def draw(cls, rng: Generator) -> WarmUp:
        """Draw its parameters."""
        return cls(log_between(rng, 0.01, 0.3), log_between(rng, 0.005, 0.2))

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

    @classmethod
    def draw(cls, rng: Generator) -> Periodic:
        """Draw its parameters."""
        return cls(log_between(rng, 0.003, 0.03), log_between(rng, 0.005, 0.5))

    def path(self, rng: Generator, n: int, step: float) -> FloatArray:
        """Return n factors."""
        phase = rng.uniform(0, 2 * math.pi)
        return np.asarray(1 + self.height * np.sin(phase + 2 * math.pi * step / self.period * np.arange(n)))

    def stationary(self, rng: Generator, n: int) -> FloatArray:
        """Return n factors."""
        return np.asarray(1 + self.height * np.sin(rng.uniform(0, 2 * math.pi, n)))


@dataclass(frozen=True)
class Bimodal:
    """Two speeds, `gap` apart; a share `slow` of the samples has the slower one, whatever the sample before had."""

    gap: float
    slow: float

    @classmethod
    def draw(cls, rng: Generator) -> Bimodal:
        """Draw its parameters."""
        return cls(log_between(rng, 0.01, 0.1), _between(rng, 0.1, 0.5))

    def path(self, rng: Generator, n: int, step: float) -> FloatArray:
        """Return n factors."""
        return self.stationary(rng, n)

    def stationary(self, rng: Generator, n: int) -> FloatArray:
        """Return n factors."""
        return np.asarray(1 + self.gap * (rng.random(n) < self.slow))


def _sojourns(rng: Generator, n: int, step: float, means: tuple[float, float], slow: float) -> FloatArray:
    """Return n states, 0 or 1, of a process that stays in each for an exponential time of mean `means` seconds."""
    total, state = n * step, int(rng.random() < slow)
    pairs = int(4 + 2 * total / sum(means) + 8 * math.sqrt(total / sum(means)))
    lengths = rng.exponential(1.0, 2 * pairs) * np.resize(np.asarray([means[state], means[1 - state]]), 2 * pairs)
    index = np.searchsorted(np.cumsum(lengths), np.arange(n) * step, side="right")
    return np.asarray((index + state) % 2, dtype=np.float64)


@dataclass(frozen=True)
class Sticky:
    """Two speeds, `gap` apart, each kept for a while: `dwell` seconds in a whole cycle, a share `slow` of it slow."""

    gap: float
    slow: float
    dwell: float

    @classmethod
    def draw(cls, rng: Generator) -> Sticky:
        """Draw its parameters."""
        return cls(log_between(rng, 0.005, 0.05), _between(rng, 0.1, 0.5), log_between(rng, 0.01, 0.5))

    def path(self, rng: Generator, n: int, step: float) -> FloatArray:
        """Return n factors."""
        means = ((1 - self.slow) * self.dwell, self.slow * self.dwell)
        return np.asarray(1 + self.gap * _sojourns(rng, n, step, means, self.slow))

    def stationary(self, rng: Generator, n: int) -> FloatArray:
        """Return n factors."""
        return np.asarray(1 + self.gap * (rng.random(n) < self.slow))


@dataclass(frozen=True)
class Bursts:
    """Busy times: `length` seconds long, `rate` of them a second, in which everything is slower by `height`."""

    height: float
    length: float
    rate: float

    @classmethod
    def draw(cls, rng: Generator) -> Bursts:
        """Draw its parameters."""
        return cls(log_between(rng, 0.05, 1.0), log_between(rng, 0.003, 0.05), log_between(rng, 0.5, 4.0))

    @property
    def share(self) -> float:
        """Return the share of the time that is busy."""
        return self.length * self.rate / (1 + self.length * self.rate)

    def path(self, rng: Generator, n: int, step: float) -> FloatArray:
        """Return n factors."""
        return np.asarray(1 + self.height * _sojourns(rng, n, step, (1 / self.rate, self.length), self.share))

    def stationary(self, rng: Generator, n: int) -> FloatArray:
        """Return n factors."""
        return np.asarray(1 + self.height * (rng.random(n) < self.share))


def _first_order(rng: Generator, n: int, phi: float) -> FloatArray:
    """Return a stationary first-order autoregression of variance 1: x[i] = phi x[i-1] + noise."""
    values = rng.standard_normal(n) * math.sqrt(1 - phi * phi)
    values[0] /= math.sqrt(1 - phi * phi)
    # doubling the reach in every pass: x[i] = e[i] + phi e[i-1] + ..., without a loop over samples
    reach = 1
    while reach < n and phi**reach > 1e-12:
        values[reach:] = values[reach:] + phi**reach * values[:-reach]
        reach *= 2
    return values


@dataclass(frozen=True)
class Autoregressive:
    """Noise that remembers the sample before: correlation `phi` from one sample to the next, spread `sigma`."""

    sigma: float
    phi: float

    @classmethod
    def draw(cls, rng: Generator) -> Autoregressive:
        """Draw its parameters."""
        return cls(log_between(rng, 0.003, 0.03), _between(rng, 0.5, 0.98))

    def path(self, rng: Generator, n: int, step: float) -> FloatArray:
        """Return n factors."""
        return np.asarray(np.exp(self.sigma * _first_order(rng, n, self.phi)))

    def stationary(self, rng: Generator, n: int) -> FloatArray:
        """Return n factors."""
        return np.asarray(np.exp(self.sigma * rng.standard_normal(n)))


@dataclass(frozen=True)
class Drift:
    """Slow drift around a mean: spread `sigma`, forgotten after about `constant` seconds (heat, clocks)."""

    sigma: float
    constant: float

    @classmethod
    def draw(cls, rng: Generator) -> Drift:
        """Draw its parameters."""
        return cls(log_between(rng, 0.003, 0.02), log_between(rng, 0.1, 2.0))

    def path(self, rng: Generator, n: int, step: float) -> FloatArray:
        """Return n factors."""
        return np.asarray(np.exp(self.sigma * _first_order(rng, n, math.exp(-step / self.constant))))

    def stationary(self, rng: Generator, n: int) -> FloatArray:
        """Return n factors."""
        return np.asarray(np.exp(self.sigma * rng.standard_normal(n)))


@dataclass(frozen=True)
class Ticks:
    """A clock that counts in steps of `tick`, relative to the kernel's own time; applied to the finished product."""

    tick: float

    @classmethod
    def draw(cls, rng: Generator) -> Ticks:
        """Draw its parameters."""
        return cls(log_between(rng, 0.0005, 0.02))

    def round(self, factors: FloatArray) -> FloatArray:
        """Return the factors as the clock reads them; never less than one tick."""
        return np.asarray(np.maximum(np.round(factors / self.tick), 1.0) * self.tick)


FAMILIES: Mapping[str, Callable[[Generator], Family]] = {
    "iid": Iid.draw,
    "pareto": Pareto.draw,
    "warm_up": WarmUp.draw,
    "periodic": Periodic.draw,
    "bimodal": Bimodal.draw,
    "sticky": Sticky.draw,
    "autoregressive": Autoregressive.draw,
    "drift": Drift.draw,
    "bursts": Bursts.draw,
}
DISTURBING = tuple(name for name in FAMILIES if name not in ("iid", "warm_up"))
TICKS = "ticks"  # the tenth: not a factor, but what the clock makes of the others


@dataclass(frozen=True)
class Mixture:
    """A kernel of `base` seconds, what disturbs it, and the clock that reads it."""

    name: str
    base: float
    families: tuple[Family, ...]
    ticks: Ticks | None
    truth: float  # s: the location of the settled state

    def trace(self, rng: Generator, seconds: float = SECONDS) -> FloatArray:
        """Return the samples of one process, s per call, from its first on, for about `seconds`."""
        n = math.ceil(seconds / self.base)
        factors = np.ones(n)
        for family in self.families:
            factors *= family.path(rng, n, self.base)
        return self.base * (factors if self.ticks is None else self.ticks.round(factors))


def _mixture(name: str, rng: Generator, families: Sequence[Family], ticks: Ticks | None) -> Mixture:
    """Return a mixture with its truth: the location (as the harness takes it) of draws from the settled state."""
    settled = np.ones(TRUTH_DRAWS)
    for family in families:
        settled *= family.stationary(rng, TRUTH_DRAWS)
    base = log_between(rng, FASTEST, SLOWEST)
    truth = base * trimmed_mean(settled if ticks is None else ticks.round(settled))
    return Mixture(name, base, tuple(families), ticks, truth)


def mixtures(namespace: int, seed: int, count: int) -> Iterator[Mixture]:
    """Yield `count` random mixtures; the first are the same however many are asked for.

    Args:
        namespace: TUNING or HELD_OUT.
        seed: of the whole set; another one is another set.
        count: how many.
    """
    for number in range(count):
        rng = np.random.default_rng([namespace, seed, number])
        chosen = rng.choice(DISTURBING, size=rng.integers(1, MOST_FAMILIES + 1), replace=False)
        families: list[Family] = [Iid.draw(rng), *(FAMILIES[str(each)](rng) for each in chosen)]
        if rng.random() < WARM_UP_SHARE:
            families.append(WarmUp.draw(rng))
        ticks = Ticks.draw(rng) if rng.random() < TICKS_SHARE else None
        yield _mixture(f"{number:03}", rng, families, ticks)


def single_families(namespace: int, seed: int) -> Iterator[Mixture]:
    """Yield every family alone, over the least jitter; ticks over the family iid."""
    for number, (name, draw) in enumerate(FAMILIES.items()):
        rng = np.random.default_rng([namespace, seed, number, 1])
        least = [] if name == "iid" else [Iid(QUIET)]
        yield _mixture(name, rng, [*least, draw(rng)], None)
    rng = np.random.default_rng([namespace, seed, len(FAMILIES), 1])
    yield _mixture(TICKS, rng, [Iid.draw(rng)], Ticks.draw(rng))


QUIET = 0.002  # relative standard deviation of the jitter under a family that is looked at alone


def repetition(namespace: int, seed: int, mixture: str, number: int) -> Generator:
    """Return the generator of one trace of a mixture: every rule sees the same trace (common random numbers)."""
    return np.random.default_rng([namespace, seed, *mixture.encode(), 2, number])
