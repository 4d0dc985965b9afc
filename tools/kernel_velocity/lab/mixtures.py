"""Random mixtures of noise, each a kernel of its own with a known truth: what stopping rules are tried on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernel_velocity.harness.statistics import FloatArray, trimmed_mean
from kernel_velocity.lab.noise import FAMILIES, TICKS, Family, Generator, Iid, Ticks, WarmUp, log_between

# Namespaces of seeds: constants may be chosen on the first only, and what is claimed is shown on the second only.
TUNING = 1
HELD_OUT = 2
SETS = {"tuning": TUNING, "held-out": HELD_OUT}

TRUTH_DRAWS = 200_000  # independent draws behind a truth: a spread of 3% leaves it uncertain by less than .01%
FASTEST, SLOWEST = 1e-4, 1e-2  # s per sample: 200 ticks of a GPU's event clock, and what a large kernel takes
WARM_UP_SHARE = 0.3  # of the mixtures start with what the harness's warm-up left over
TICKS_SHARE = 0.2  # of the mixtures are read by a coarse clock
MOST_FAMILIES = 3  # in a mixture, besides jitter, warm-up and ticks
DISTURBING = tuple(name for name in FAMILIES if name not in ("iid", "warm_up"))
SECONDS = 16.0  # of every trace: more than nvbench's timeout, the longest cap that a rule meets in practice


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
