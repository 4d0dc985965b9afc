"""nvbench's two criteria, with its parameters and their names; what they compute was read in its sources.

nvbench asks after every sample; here a look is taken after every growth by a sixteenth, so that a round stays cheap:
a rule may stop up to 6% later than there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.harness.stopping.rule import Continue, Decision, Reason, Stop, StoppingRule

LOOK = 16  # samples: the plateau is looked for at multiples of it, and every look is a sixteenth after the last
NOISE_WINDOW = 512  # values of the noise, one a sample, that the plateau is looked for in
NOISE_FEWEST = 64  # more than this many of them are wanted
PLATEAU = 0.05  # the noise is stable when its own relative standard deviation is below this
STDEV_FEWEST = 5  # samples that a standard deviation is taken from
ROUNDING = 1e-12  # bits: an entropy that moves by less is constant, as that of a constant trace is
ENTROPY_WINDOW = 299  # values of the entropy, one a sample, that a line is laid through


def _portion(n: int) -> int:
    """Return how many samples until the next look: to a multiple of LOOK, at least a sixteenth of what there is."""
    return LOOK * (n // LOOK // LOOK + 1) - n % LOOK


@dataclass
class RelativeDeviation(StoppingRule):
    """`stdrel`: after `min_time` s, stop when the relative standard deviation is below `max_noise`, or is stable.

    min_samples and timeout (s) are nvbench's measuring loop's, which bound every criterion.
    """

    max_noise: float = 0.005
    min_time: float = 0.5
    min_samples: int = 10
    timeout: float = 15.0

    name: ClassVar[str] = "stdrel"

    def __post_init__(self) -> None:
        self._check(ordered=("min_time", "timeout"))

    def decide(self) -> Decision:
        """Look at multiples of LOOK."""
        n = len(self._samples)
        if n < max(self.min_samples, STDEV_FEWEST):
            return Continue(max(self.min_samples, STDEV_FEWEST) - n)
        if self._spent <= self.min_time:
            return Continue(max(1, min(_portion(n), self._samples_within(self.min_time - self._spent))))
        noise = self._noise()
        if noise[-1] < self.max_noise:
            return Stop(Reason.CONVERGED)
        if noise.size > NOISE_FEWEST and n % LOOK == 0 and _is_stable(noise):
            return Stop(Reason.PLATEAU)
        return Stop(Reason.BUDGET) if self._spent >= self.timeout else Continue(_portion(n))

    def _noise(self) -> FloatArray:
        """Return the relative standard deviation of the first k samples, for the last k's up to all."""
        values = np.asarray(self._samples)
        counts = np.arange(max(STDEV_FEWEST, values.size - NOISE_WINDOW + 1), values.size + 1)
        centred = values - values[0]  # sums of squares then lose no digits
        mean = np.cumsum(centred)[counts - 1] / counts
        squares = np.cumsum(centred**2)[counts - 1]
        variance = np.maximum(squares - counts * mean**2, 0.0) / (counts - 1)
        return np.asarray(np.sqrt(variance) / (mean + values[0]))


def _is_stable(noise: FloatArray) -> bool:
    """Return whether the noise deviates little from its last value."""
    deviation = math.sqrt(float(((noise - noise[-1]) ** 2).sum()) / (noise.size - 1))
    return deviation / float(noise[-1]) < PLATEAU


@dataclass
class Entropy(StoppingRule):
    """`entropy`: stop when the entropy of the samples' values is flat: a line of a slope of at most `max_angle`.

    The entropy (bits) of all values so far is kept for the last 299 samples; max_angle is in degrees for one bit and
    one sample as units, and the line must explain `min_r2` of the variance. Samples that never repeat have an entropy
    of log2 n: then the rule stops after about 1,900 of them, whatever they are.
    """

    max_angle: float = 0.048
    min_r2: float = 0.36
    min_samples: int = 10
    timeout: float = 15.0

    name: ClassVar[str] = "entropy"

    def __post_init__(self) -> None:
        self._check()

    def start(self) -> None:
        """Forget everything: a new round begins."""
        super().start()
        self._counts: dict[float, int] = {}
        self._weight = 0.0  # sum over values of count * log2(count)
        self._entropies: list[float] = []

    def add(self, samples: Sequence[float], spent: float) -> None:
        """Take in samples, and the entropy after each of them."""
        super().add(samples, spent)
        for sample in samples:
            count = self._counts.get(sample, 0)
            self._counts[sample] = count + 1
            self._weight += (count + 1) * math.log2(count + 1) - (count * math.log2(count) if count else 0.0)
            n = len(self._entropies) + 1
            self._entropies.append(max(0.0, math.log2(n) - self._weight / n))

    def decide(self) -> Decision:
        """Look at even numbers of samples, as nvbench does."""
        n = len(self._samples)
        if n < self.min_samples:
            return Continue(self.min_samples - n)
        if n % 2 == 0 and self._is_flat():
            return Stop(Reason.CONVERGED)
        return Stop(Reason.BUDGET) if self._spent >= self.timeout else Continue(_portion(n))

    def _is_flat(self) -> bool:
        y = np.asarray(self._entropies[-ENTROPY_WINDOW:])
        x = np.arange(y.size) - (y.size - 1) / 2
        deviation = y - y.mean()
        slope = float(x @ deviation) / float(x @ x)
        if math.degrees(math.atan(slope)) > self.max_angle:
            return False
        total = float(deviation @ deviation)
        left = float(((deviation - slope * x) ** 2).sum())
        return total <= ROUNDING**2 * y.size or 1 - left / total >= self.min_r2
