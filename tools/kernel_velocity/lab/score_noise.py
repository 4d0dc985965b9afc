"""The noise that detectors of change points are judged on: synthetic families, and real series resampled. Pure, seeded.

Every family draws the log values of a benchmark that never changes. The synthetic ones scatter by about 1%, as sessions
of one machine do after adjustment; their names say what is unlike the normal one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats.changepoints.noise import running_median

SIGMA = 0.01
AROUND = 5  # points to both sides: the running median over them is taken for the level of a real series
BLOCK = 5  # points that are resampled together, so that what sticks for some commits still does
FEWEST_REAL = 30  # points of a real series that is worth resampling
DRIFT = 0.03 / 60  # log units a commit, of the series whose level creeps

Generator = np.random.Generator
Family = Callable[[Generator, int], FloatArray]


def normal(rng: Generator, size: int) -> FloatArray:
    """Draw independent normal noise."""
    return SIGMA * rng.standard_normal(size)


def heavy(rng: Generator, size: int) -> FloatArray:
    """Draw Student's t with 3 degrees of freedom and, at one commit of 20, a Pareto part upwards: a shared CPU."""
    upwards = 0.02 * rng.pareto(1.5, size) * (rng.random(size) < 0.05)
    return np.asarray(SIGMA * rng.standard_t(3, size) / math.sqrt(3) + np.log1p(upwards))


def correlated(rng: Generator, size: int) -> FloatArray:
    """Draw AR(1) noise whose neighbours correlate by .6: sessions that share the state of the machine."""
    phi = 0.6
    noise = rng.standard_normal(size)
    noise[1:] *= math.sqrt(1 - phi**2)
    for place in range(1, size):
        noise[place] += phi * noise[place - 1]
    return np.asarray(SIGMA * noise)


def bimodal(rng: Generator, size: int) -> FloatArray:
    """Draw two speeds 2.4% apart, each kept for 3 commits in the mean, and a jitter of .3%."""
    switches = rng.random(size) < 1 / 3
    mode = (np.cumsum(switches) + rng.integers(2)) % 2
    return np.asarray(0.024 * mode + 0.003 * rng.standard_normal(size))


def quantised(rng: Generator, size: int) -> FloatArray:
    """Draw normal noise read by a timer whose tick is 2% of the value: most values repeat."""
    return np.asarray(np.log(np.round(np.exp(normal(rng, size)) / 0.02 + rng.random()) * 0.02))


def spikes(rng: Generator, size: int) -> FloatArray:
    """Draw normal noise and, at one commit of 20, a spike of 20% in the mean."""
    return np.asarray(normal(rng, size) + np.log1p(rng.exponential(0.2, size)) * (rng.random(size) < 0.05))


def bursts(rng: Generator, size: int) -> FloatArray:
    """Draw normal noise; every 50 commits in the mean a neighbour slows two successive ones by 5%."""
    starts = rng.random(size) < 1 / 50
    slowed = starts | np.concatenate([[False], starts[:-1]])
    return np.asarray(normal(rng, size) + 0.05 * slowed)


SYNTHETIC: Mapping[str, Family] = {
    "normal": normal,
    "heavy tails": heavy,
    "AR(1)": correlated,
    "bimodal": bimodal,
    "quantised": quantised,
    "spikes": spikes,
    "bursts": bursts,
}


def drifting(rng: Generator, size: int) -> FloatArray:
    """Draw normal noise on a level that creeps upwards by DRIFT a commit: no step, but a change nevertheless."""
    return np.asarray(normal(rng, size) + DRIFT * np.arange(size))


@dataclass(frozen=True)
class Resampled:
    """The noise of real series: blocks of one's residuals, drawn with replacement."""

    residuals: tuple[FloatArray, ...]

    def __call__(self, rng: Generator, size: int) -> FloatArray:
        """Draw a series."""
        source = self.residuals[rng.integers(len(self.residuals))]
        starts = rng.integers(0, source.size - BLOCK + 1, size=-(-size // BLOCK))
        return np.concatenate([source[start : start + BLOCK] for start in starts])[:size]


def resampled(series: Sequence[FloatArray]) -> Resampled | None:
    """Return the noise of real series of log values; None where none of them is usable.

    Short ones are left out, and those most of whose values repeat the one before: counters, not times. What differs
    from a running median of 11 points keeps tails, ticks and what sticks for a few commits; a level that wanders more
    slowly is not in it.
    """
    usable = [logs for logs in series if logs.size >= FEWEST_REAL and np.median(np.abs(np.diff(logs))) > 0]
    return Resampled(tuple(logs - running_median(logs, AROUND) for logs in usable)) if usable else None
