"""Stopping rules: when a round has enough samples. They see numbers only: no device, no clock, no kernel.

A rule has three verbs: `start()`, `add(samples, spent)`, and `decide()`, which answers `Continue(n)` or `Stop(reason)`.
KV_RULE names the rule, and KV_ with a parameter's name (KV_EPS, KV_T_MIN) sets a parameter. Name and parameters are
part of the method hash, so a series never mixes two ways of measuring.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from itertools import pairwise
from typing import ClassVar

import numpy as np

from kernel_velocity.harness.statistics import (
    FloatArray,
    autocorrelation,
    cv,
    half_width,
    long_blocks,
    t_975,
    trimmed_mean,
)

HARNESS_VERSION = "3"  # raise it when a change of the harness moves the times that it reports

BURN_IN = 0.2  # share of the samples left out at the start: warm-up that the warm-up did not catch


class RuleError(ValueError):
    """A rule or a parameter that does not exist, or a value that it cannot have."""


class Reason(StrEnum):
    """Why a measurement stopped."""

    CONVERGED = "converged"  # the target was reached
    PLATEAU = "plateau"  # the noise no longer changes: more samples would not reach the target
    NOISE_FLOOR = "noise_floor"  # the budget cannot reach the target, so the rest of it is not used
    BUDGET = "budget"  # the time, or the number of samples, was up before the target was reached
    BUDGET_DRIFT = "budget+drift"  # and the samples still went up or down
    CONTENDED = "contended"  # the core was busy for longer than the gate waits: the quiet samples until then count
    TIMEOUT = "timeout"  # the process would have been killed for its time before the rule was done
    COMPLETE = "complete"  # a rule without a target took its number of samples, or its time


@dataclass(frozen=True)
class Continue:
    """Take `n` more samples."""

    n: int


@dataclass(frozen=True)
class Stop:
    """Stop, and why."""

    reason: Reason


Decision = Continue | Stop


def without_burn_in(samples: Sequence[float]) -> Sequence[float]:
    """Return the samples without the first fifth. All of them when there are fewer than five."""
    return samples[int(len(samples) * BURN_IN) :]


class StoppingRule(ABC):
    """A rule: its parameters (the fields of the subclass, a dataclass), and what was added since `start`.

    `decide` depends only on what was added, so a second call gives the same answer. Looks are geometric (each asks for
    a share of the samples so far), so a rule that costs O(n) a look costs O(n) a round.
    """

    name: ClassVar[str]
    recorded_as: ClassVar[str] = ""  # the name in the hash of its series, where it differs
    may_be_zero: ClassVar[tuple[str, ...]] = ()  # all other parameters must be positive
    ascending: ClassVar[tuple[str, ...]] = ()  # parameters of which none may exceed the next

    def __post_init__(self) -> None:
        values = self.parameters()
        for name, value in values.items():
            if not math.isfinite(value) or value < 0 or (value == 0 and name not in self.may_be_zero):
                raise RuleError(f"rule {self.name}: {name} = {value!r}; wanted a positive number")
        for low, high in pairwise(self.ascending):
            if values[low] > values[high]:
                unit = " s" if low.startswith(("t_", "min_time")) else ""
                raise RuleError(
                    f"rule {self.name}: {low} = {values[low]}{unit} is more than {high} = {values[high]}{unit}"
                )

    def start(self) -> None:
        """Forget everything: a new round begins."""
        self._samples: list[float] = []
        self._spent = 0.0

    def add(self, samples: Sequence[float], spent: float) -> None:
        """Add samples (seconds per call, in the order taken) and the seconds that taking them cost.

        Raises:
            ValueError: a sample is not a positive finite number (the timer is broken, and no rule may hide that), or
                `spent` is not a finite number of at least 0.
        """
        values = np.asarray(samples, dtype=np.float64)
        wrong = ~(np.isfinite(values) & (values > 0))
        if wrong.any():
            raise ValueError(f"the timer returned {float(values[wrong][0])!r} s; wanted a positive finite time")
        if not (math.isfinite(spent) and spent >= 0):
            raise ValueError(f"{values.size} samples took {spent!r} s; wanted a finite time")
        self._samples.extend(values.tolist())
        self._spent += spent

    @property
    def samples(self) -> Sequence[float]:
        """Return the samples that an estimate may rest on: for most rules, all so far."""
        return self._samples

    @property
    def spent(self) -> float:
        """Return the seconds spent so far."""
        return self._spent

    @abstractmethod
    def decide(self) -> Decision:
        """Return how many more samples to take, or why to stop."""

    def parameters(self) -> dict[str, float]:
        """Return the parameters by name."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]  # every concrete rule is a dataclass

    def _samples_within(self, seconds: float) -> int:
        """Return how many samples fit into `seconds`, judged by those taken. At least one."""
        return max(1, int(seconds * len(self._samples) / self._spent)) if self._spent > 0 else 1


# Our rules -----------------------------------------------------------------------------------------------------------

DRIFT_BLOCKS = 16  # block means that Kendall's S is taken over
DRIFT = 45  # |S| of 16 independent values is larger in 5% of cases (s.d. 22.2)
GROWTH = 0.1  # of `adaptive`: more samples from one look to the next, as a share of those so far
BLOCKS = 6  # of 3 to 32 long ones, their spread predicts the error best: likelihood of |error|, tuning mixtures
ROUND_GROWTH = (1.10, 1.25)  # of `adaptive.round`: least and most that n grows by between two looks
MARGIN = 1.02  # aim a little beyond the predicted end: a look that just fails costs another growth


def drifts(samples: Sequence[float]) -> bool:
    """Return whether 16 block means rise or fall more than chance has them do (Kendall's S, 5%). False below 16."""
    size = len(samples) // DRIFT_BLOCKS
    if size == 0:
        return False
    means = np.asarray(samples[: size * DRIFT_BLOCKS]).reshape(DRIFT_BLOCKS, size).mean(axis=1)
    rises = np.sign(means[:, None] - means)  # of each mean over each other, once with either sign
    return abs(float(np.tril(rises).sum())) > DRIFT


@dataclass
class Adaptive(StoppingRule):
    """Stop when the half-width of the trimmed mean is at most `eps` * max(1, spent / `t_soft`) ^ `power`, relative.

    A kernel that reaches eps has converged, after t_min seconds of timing or later. The time that quiet kernels leave
    goes to the others, to each the time that its noise is worth. With errors in proportion to the half-width w, and
    w^2 to 1/time, a second lowers w^p by p w^p / (2 time). The sum over kernels of |error|^p is least, for the time
    that it takes in total, where a second buys as much everywhere: time in proportion to w^p, which is the limit above
    with p = 1/power (in terms of the noise s of one second: time ~ s^(2p/(p+2)), here s^.18). A small p is for the
    median, a large one for the tail. Such a stop is at the noise floor. It needs a t_max beyond t_soft.

    While the first of the long blocks is above the others by more than `fall` standard errors, the kernel may still be
    warming up, and the rule goes on: such an error falls faster with time than noise does. t_max: the most seconds.
    n_min: samples, waived when the time is up. N_floor never.

    The constants are for a single run, and were chosen on 3,693 mixtures of noise of the tuning namespace
    (tools/lab/noise.py, seeds 100 to 103, two traces each) and 400 more (104 and 105, ten each): against a fixed time
    that costs as much in total, the median error is .93 times as large, p90 .81 times.
    """

    # Note: tried, on the 3,693 (median, p90): a limit that rises from the start, up to eps = .2% at t_max = 1 s: .98,
    # .96; no look at the first block: .98, .85, and leaving out two fifths of what falls instead of waiting: .95, .81;
    # power 2: .97, .81; power 10: .93, .85; t_soft .8 s: .98, .87; giving up beyond 3%: .94, .87. As good within what
    # these mixtures tell: the widest of n^{0, 1/3, 1/2, 2/3} samples a block, .92, .83; 12 blocks, .92, .82; 3, 6 and
    # 12 together, .93, .81; fall 1.5, .94, .81; t_max 1.5 s, .94, .81, or 3 s, .93, .82; eps .1%, .93, .81.
    eps: float = 0.0015
    power: float = 5.0
    t_min: float = 0.2
    t_soft: float = 0.4
    t_max: float = 2.0
    fall: float = 2.0
    n_min: int = 24
    n_floor: int = 3

    name: ClassVar[str] = "adaptive"
    ascending: ClassVar[tuple[str, ...]] = ("t_min", "t_soft", "t_max")

    def decide(self) -> Decision:
        """Look whenever there are 10% more samples. See the class for the rule."""
        n, left = len(self._samples), self.t_max - self._spent
        if n < self.n_floor:
            return Continue(1)
        if self._spent < self.t_min:
            return Continue(self._samples_within(self.t_min - self._spent))
        if n < self.n_min and left > 0:
            return Continue(min(self.n_min - n, self._samples_within(left)))
        width, fall = width_and_fall(without_burn_in(self._samples))
        accepted = self.eps * max(1.0, self._spent / self.t_soft) ** self.power
        if fall <= self.fall and width <= accepted:
            return Stop(Reason.CONVERGED if width <= self.eps else Reason.NOISE_FLOOR)
        if left > 0:
            return Continue(min(math.ceil(GROWTH * n), self._samples_within(left)))
        return Stop(Reason.BUDGET_DRIFT if drifts(without_burn_in(self._samples)) else Reason.BUDGET)


def width_and_fall(samples: Sequence[float]) -> tuple[float, float]:
    """Return the 95% half-width of the trimmed mean over that mean, and by how much the first long block stands out.

    The latter is the first block's mean less the mean of the others, over the standard error of the difference:
    Student's t of 4 degrees of freedom, above 2 in 6% of steady kernels, 0 where the first is not above the others.
    With too few samples: infinity and 0.
    """
    values = np.asarray(samples)
    means = long_blocks(values, BLOCKS)
    if means is None:
        return math.inf, 0.0
    width = t_975(BLOCKS - 1) * float(means.std(ddof=1)) / math.sqrt(BLOCKS) / trimmed_mean(values)
    rest = means[1:]
    above = float(means[0] - rest.mean())
    if above <= 0:
        return width, 0.0
    error = float(rest.std(ddof=1)) * math.sqrt(1 + 1 / rest.size)
    return width, above / error if error > 0 else math.inf


@dataclass
class AdaptiveRound(StoppingRule):
    """Stop when the half-width of the trimmed mean is at most `eps` * (spent / `t_soft`) ^ `power`, relative to it.

    The longer it has taken, the wider an interval is accepted: a quiet kernel is held to a narrow one, which it reaches
    at once, and the time saved goes to those in the middle. At `t_soft` seconds the accepted half-width is `eps`. A
    stop within eps has converged. A stop beyond it, which takes a t_max beyond t_soft, is at its noise floor: the rest
    of the budget would not bring it to eps. t_min, t_max: seconds of timing. n_min: samples, waived when the time is
    up. N_floor never.

    Chosen on 1,000 mixtures of noise of the tuning namespace (tools/lab/noise.py, seed 2, two traces each). `adaptive`,
    for a single run, has a better measure of noise and better constants. This one stays as it is: series are recorded
    under its hash, which has its former name.
    """

    eps: float = 0.003
    power: float = 1.0
    t_min: float = 0.1
    t_soft: float = 0.3
    t_max: float = 0.3
    n_min: int = 24
    n_floor: int = 3

    name: ClassVar[str] = "adaptive.round"
    recorded_as: ClassVar[str] = "adaptive"
    ascending: ClassVar[tuple[str, ...]] = ("t_min", "t_soft", "t_max")

    def decide(self) -> Decision:
        """Look after growths by 10 to 25%. See the class for the rule."""
        n = len(self._samples)
        if n < self.n_floor:
            return Continue(1)
        if self._spent < self.t_min:
            return Continue(self._samples_within(self.t_min - self._spent))
        if n < self.n_min and self._spent < self.t_max:
            return Continue(min(self.n_min - n, self._samples_within(self.t_max - self._spent)))
        width = half_width(without_burn_in(self._samples))
        width = math.inf if width is None else width  # of too few samples
        accepted = self.eps * (self._spent / self.t_soft) ** self.power
        if width <= accepted:
            return Stop(Reason.CONVERGED if width <= self.eps else Reason.NOISE_FLOOR)
        if self._spent >= self.t_max:
            return Stop(self._out_of_time(width))
        return Continue(min(self._portion(n, width / accepted), self._samples_within(self.t_max - self._spent)))

    def _portion(self, n: int, excess: float) -> int:
        """Return how many more samples meet the limit: the width falls with n^1/2, the limit rises with n^power."""
        least, most = ROUND_GROWTH
        factor = MARGIN * excess ** (1 / (0.5 + self.power)) if math.isfinite(excess) else most
        return max(1, math.ceil((min(max(factor, least), most) - 1) * n))

    def _out_of_time(self, width: float) -> Reason:
        if width <= self.eps:
            return Reason.CONVERGED
        return Reason.BUDGET_DRIFT if drifts(without_burn_in(self._samples)) else Reason.BUDGET


# Rules without a target ----------------------------------------------------------------------------------------------


@dataclass
class FixedCount(StoppingRule):
    """Stop after `n` samples: 100 is what KernelBench, ComPPare and most scripts around fused kernels take."""

    n: int = 100

    name: ClassVar[str] = "fixed"

    def decide(self) -> Decision:
        """Go on until there are enough."""
        missing = self.n - len(self._samples)
        return Continue(missing) if missing > 0 else Stop(Reason.COMPLETE)


@dataclass
class FixedTime(StoppingRule):
    """Stop after `t_max` seconds of timing, and not before `n_floor` samples."""

    t_max: float = 0.25
    n_floor: int = 3

    name: ClassVar[str] = "fixed_time"

    def decide(self) -> Decision:
        """Go on until the time is up."""
        if len(self._samples) < self.n_floor:
            return Continue(1)
        if self._spent >= self.t_max:
            return Stop(Reason.COMPLETE)
        return Continue(self._samples_within(self.t_max - self._spent))


# Published rules -----------------------------------------------------------------------------------------------------


@dataclass
class CoefficientOfVariation(StoppingRule):
    """Stop when the coefficient of variation of the samples (burn-in left out) is at most `eps`.

    eps: 1%, the published target of convergence-based kernel suites. t_min, t_max: seconds of timing. Eight fresh
    processes of .1 s each agree within .42 to .48%, one process of 2 s only within .82 to .91%: what a longer round
    would gain is lost between processes, so t_max is short. n_min: samples, waived when the time is up. N_floor never.
    """

    eps: float = 0.01
    t_min: float = 0.1
    t_max: float = 0.25
    n_min: int = 16
    n_floor: int = 3

    name: ClassVar[str] = "cv"
    ascending: ClassVar[tuple[str, ...]] = ("t_min", "t_max")

    def decide(self) -> Decision:
        """Look after every growth by a quarter. See the class for the rule."""
        n = len(self._samples)
        if n < self.n_floor:
            return Continue(1)
        if self._spent >= self.t_max:
            return Stop(Reason.CONVERGED if self._converged() else Reason.BUDGET)
        if self._spent >= self.t_min and n >= self.n_min and self._converged():
            return Stop(Reason.CONVERGED)
        wanted = max(1, n // 4)
        if self._spent < self.t_min:
            wanted = max(wanted, self._samples_within(self.t_min - self._spent))
        return Continue(min(wanted, self._samples_within(self.t_max - self._spent)))

    def _converged(self) -> bool:
        variation = cv(without_burn_in(self._samples))
        return variation is not None and variation <= self.eps


@dataclass
class VariationOfRates(StoppingRule):
    """Stop when the coefficient of variation of GFLOPS is below `eps`: the published rule of convergence-based suites.

    eps 1%, n_min 5 and n_max 20 runs, every run counted. A rate is work over time, so the variation is that of 1/t,
    which a slow outlier moves less than it moves the variation of t. The published suite runs ten products of
    5000 x 5000 matrices before the first run, to bring clocks up: `timing.pre_warm` does that.
    """

    eps: float = 0.01
    n_min: int = 5
    n_max: int = 20

    name: ClassVar[str] = "cv_gflops"
    ascending: ClassVar[tuple[str, ...]] = ("n_min", "n_max")

    def decide(self) -> Decision:
        """Look after every run, as published: there are 20 of them at most."""
        n = len(self._samples)
        if n < self.n_min:
            return Continue(self.n_min - n)
        variation = cv(1 / np.asarray(self._samples))
        if variation is not None and variation < self.eps:
            return Stop(Reason.CONVERGED)
        return Continue(1) if n < self.n_max else Stop(Reason.BUDGET)


# (lag-1 autocorrelation, relative standard error): above both of any pair, more samples are wanted. As published.
CRITERIA = ((0.95, 0.0010), (0.75, 0.0015), (0.65, 0.0025), (0.45, 0.0050), (0.00, 0.0100))
THIN_MOST = 10  # one sample in 1,024: with fewer looked at, a round would only ever end by its time
FEWEST = 4  # samples that a lag-1 autocorrelation and an error can be read from, after thinning


@dataclass
class ReactiveBenchmarking(StoppingRule):
    """Reactive Benchmarking's rule (`futhark bench`): relative standard error, judged by lag-1 autocorrelation.

    Take `runs` samples and `min_time` seconds. While a pair of CRITERIA is exceeded, take more: first drop these, once,
    because they often hold a warm-up, and take half as many anew. Then let n grow by half, until no pair is exceeded or
    `max_time` seconds were spent after the first phase (5 min, as published).

    exponent: of n in the error s / n^exponent, 1/2 as if samples were independent, or 1/3 because they are not. factor:
    multiplies the thresholds of the error (1, the conservative variant's are doubled, with a min_time of 1 s). thin:
    looks at one sample in 2^thin, which lowers the autocorrelation that the rule sees.
    """

    runs: int = 10
    min_time: float = 0.5
    max_time: float = 300.0
    exponent: float = 0.5
    factor: float = 1.0
    thin: int = 0

    name: ClassVar[str] = "rse_autocorrelation"
    may_be_zero: ClassVar[tuple[str, ...]] = ("thin",)
    ascending: ClassVar[tuple[str, ...]] = ("min_time", "max_time")

    def __post_init__(self) -> None:
        super().__post_init__()
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
        count, seconds = n - self._first[0], self._spent - self._first[1]
        if count == 0:
            return Continue(max(self._first[0] // 2, self.runs))
        if not self._wants_more():
            return Stop(Reason.CONVERGED)
        return Stop(Reason.BUDGET) if seconds >= self.max_time else Continue(max(count // 2, 1))

    def _wants_more(self) -> bool:
        values = np.asarray(self.samples[:: 2**self.thin])
        if values.size < FEWEST:
            return True
        error = float(values.std(ddof=1) / values.size**self.exponent / values.mean())
        # None is a constant trace: its error is 0, and below every threshold whatever stands here
        correlation = autocorrelation(values) or 0.0
        return any(correlation > bound and error > self.factor * most for bound, most in CRITERIA)


# nvbench's two criteria, with its parameters and their names; what they compute was read in its sources. nvbench asks
# after every sample. Here a look is taken after every growth by a sixteenth, so that a round stays cheap: a rule may
# stop up to 6% later than there.
LOOK = 16  # samples: the plateau is looked for at multiples of it, and every look is a sixteenth after the last
NOISE_WINDOW = 512  # values of the noise, one a sample, that the plateau is looked for in
NOISE_FEWEST = 64  # more than this many of them are wanted
PLATEAU = 0.05  # the noise is stable when its own relative standard deviation is below this
STDEV_FEWEST = 5  # samples that a standard deviation is taken from
ROUNDING = 1e-12  # bits: an entropy that moves by less is constant, as that of a constant trace is
ENTROPY_WINDOW = 299  # values of the entropy, one a sample, that a line is laid through


def _until_next_look(n: int) -> int:
    """Return how many samples until the next look: to a multiple of LOOK, at least a sixteenth of those so far."""
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
    ascending: ClassVar[tuple[str, ...]] = ("min_time", "timeout")

    def decide(self) -> Decision:
        """Look at multiples of LOOK."""
        n = len(self._samples)
        if n < max(self.min_samples, STDEV_FEWEST):
            return Continue(max(self.min_samples, STDEV_FEWEST) - n)
        if self._spent <= self.min_time:
            return Continue(max(1, min(_until_next_look(n), self._samples_within(self.min_time - self._spent))))
        noise = self._noise()
        if noise[-1] < self.max_noise:
            return Stop(Reason.CONVERGED)
        if noise.size > NOISE_FEWEST and n % LOOK == 0 and _is_stable(noise):
            return Stop(Reason.PLATEAU)
        return Stop(Reason.BUDGET) if self._spent >= self.timeout else Continue(_until_next_look(n))

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

    The entropy (bits) of all values so far is kept for the last 299 samples. max_angle is in degrees for one bit and
    one sample as units, and the line must explain `min_r2` of the variance. Samples that never repeat have an entropy
    of log2 n: then the rule stops after about 1,900 of them, whatever they are.
    """

    max_angle: float = 0.048
    min_r2: float = 0.36
    min_samples: int = 10
    timeout: float = 15.0

    name: ClassVar[str] = "entropy"

    def start(self) -> None:
        """Forget everything: a new round begins."""
        super().start()
        self._counts: dict[float, int] = {}
        self._weight = 0.0  # sum over values of count * log2(count)
        self._entropies: list[float] = []

    def add(self, samples: Sequence[float], spent: float) -> None:
        """Add samples, and the entropy after each of them."""
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
        return Stop(Reason.BUDGET) if self._spent >= self.timeout else Continue(_until_next_look(n))

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


# Choice --------------------------------------------------------------------------------------------------------------

_CLASSES = (
    *(Adaptive, AdaptiveRound, CoefficientOfVariation, Entropy, FixedCount, FixedTime),
    *(ReactiveBenchmarking, RelativeDeviation, VariationOfRates),
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
    defaults = RULES[name]().parameters()
    chosen: dict[str, float] = {}
    for parameter in sorted({parameter for rule in RULES.values() for parameter in rule().parameters()}):
        variable = f"KV_{parameter.upper()}"
        text = environ.get(variable)
        if not text:
            continue
        if parameter not in defaults:
            raise RuleError(f"{variable}: rule {name} has no parameter {parameter}; it has {', '.join(defaults)}")
        whole = isinstance(defaults[parameter], int)
        try:
            chosen[parameter] = int(text) if whole else float(text)
        except ValueError:
            raise RuleError(f"{variable}: got {text!r}; wanted a {'whole ' if whole else ''}number") from None
    return RULES[name](**chosen)


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
