"""Make one measurement of a commit's rounds: a value, an interval and footnotes. Pure.

Times are seconds per call. Rates are derived only here.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from kernel_velocity import units
from kernel_velocity.engine import gpu
from kernel_velocity.engine.statistics import t_975
from kernel_velocity.engine.telemetry import Round
from kernel_velocity.names import dtype_of
from kernel_velocity.unproven import FLAG, KINDS, in_flags

WANTED_ROUNDS = 8  # asv's own test has power from 8 on, and cannot reach its threshold with 6 (contract)
FIRST_LOOK = 4  # rounds at which a series may have enough
# Half-width of an interval that needs no more rounds, relative. Half of the least change that counts (MIN_EFFECT): two
# such intervals that touch lie apart by no more than that.
NARROW = 0.005
FEWEST_FOR_INTERVAL = 3  # with 2 rounds the t quantile is 12.7: an interval that says nothing
MEMORY_BOUND = 4.0  # FLOP per byte; below it a kernel lies left of every ridge point we know of (CPUs from 5 up)
CONTROLS_TOGETHER = "controls"  # as one signal: the mean of PyTorch's implementations measured in the same rounds
INTERVAL_METHOD = "95% interval over rounds (Student's t on the logarithms of the round estimates)"
THROTTLED = "throttled"
# What a flag means, where its name does not explain itself.
MEANINGS = {
    "underfed": "the device waited for the host: launch gaps are in the time",
    "quantised": "the clock is too coarse for it",
    "short": "less than 5 times what an empty call takes",
    "constant": "samples all equal: a clock that shows no spread",
    "ungraphed": "no CUDA graph could be captured: launches were timed",
    "warm": "faster than memory: the caches were not cold",
    "crowded": "it used more threads than it was given",
    "known_inputs": "faster on inputs that it has seen: the processor learned its branches, or it keeps results",
    "same_inputs": "its inputs cannot be drawn anew: it was checked on those that it was timed on",
    **{f"{FLAG}{kind}": in_flags([f"{FLAG}{kind}"]) for kind in KINDS},
    "unchecked": "faster than what is known of the machine, or nothing is: is the work done?",
    "clock_drift": "the GPU's clocks moved by over 1%",
    THROTTLED: "the driver slowed the GPU down",
    "debug_build": "the program warns that its library is a debug build",
    "scaling": "the program warns that the processor's clock was scaled",
}
ASV_INTERVAL_METHOD = "asv's 99% interval"
IntArray = NDArray[np.int32]


class Outcome(enum.Enum):
    """What asv recorded: a time, "n/a" (NaN: NotImplementedError in setup), or "failed" (null)."""

    MEASURED = "measured"
    NOT_APPLICABLE = "n/a"
    FAILED = "failed"


OUTCOMES = (Outcome.MEASURED, Outcome.NOT_APPLICABLE, Outcome.FAILED)  # columns hold indices into these


@dataclass(frozen=True, kw_only=True, order=True)
class SeriesKey:
    """One benchmark, implementation, test case, machine and environment. Its history is a series."""

    machine: str
    environment: str  # asv's name, which includes torch's version
    benchmark: str  # such as "matmul.Cpu.time_hot"
    implementation: str
    case: str
    version: str  # of the benchmark, as asv compares it

    @property
    def dtype(self) -> str:
        """The data type of its test case."""
        return dtype_of(self.case)

    @property
    def rate_unit(self) -> str:
        """The unit of its rate: "GFLOPS" or "GOPS"."""
        return units.rate_unit(self.dtype)


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Bounds of a time, s. `low` <= the measurement's value <= `high`."""

    low: float
    high: float
    method: str


@dataclass(frozen=True, kw_only=True)
class Signal:
    """A signal read beside a series' samples, and how far the series moves with it."""

    name: str  # a gauge (a field of `Round`), or CONTROLS_TOGETHER
    slope: float  # of log time on log signal, shrunk; 0: the series does not move with it
    centre: float | None  # its usual reading, s; None for several controls together


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How a series is adjusted: adjusted = time / product over its signals of (reading / centre)^slope, by round."""

    method: str  # hash of the timing method whose rounds it was fitted on
    signals: tuple[Signal, ...]
    explained: float | None  # share of the variance of the rounds that the signals explain


@dataclass(frozen=True, kw_only=True)
class Adjusted:
    """A time corrected for machine noise, s per call. Changes are judged by it."""

    seconds: float
    interval: Interval | None
    fit: Fit | None = None  # None: not known


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The value of a series at a commit, and what is known about it. Unknown is None.

    A benchmark that is no timing has its value in place of the seconds, in `unit`.
    """

    key: SeriesKey
    commit: str  # full SHA
    outcome: Outcome
    seconds: float | None = None  # per call
    interval: Interval | None = None
    rounds: int | None = None
    adjusted: Adjusted | None = None  # None: no signal explains it
    method: str | None = None  # hash of the timing method; values of two methods are not compared
    flop: float | None = None  # per call
    bytes_moved: float | None = None  # per call, each input read once, each output written once
    reason: str | None = None  # why there is no time, where it is known
    warnings: tuple[str, ...] = ()
    unit: str = units.SECONDS

    @property
    def gflops(self) -> float | None:
        """10^9 operations per second, in `key.rate_unit`."""
        return _rate(self.flop, self.seconds)

    @property
    def gigabytes(self) -> float | None:
        """10^9 bytes per second that have to move. None for a kernel that memory does not bound."""
        if self.flop is None or self.bytes_moved is None or self.flop > MEMORY_BOUND * self.bytes_moved:
            return None
        return _rate(self.bytes_moved, self.seconds)


def _rate(work: float | None, seconds: float | None) -> float | None:
    return None if work is None or seconds is None else work / seconds / 1e9


def round_interval(estimates: Sequence[float]) -> Interval | None:
    """Return the interval of the rounds' common time from their estimates, s. None below FEWEST_FOR_INTERVAL.

    Student's t on log estimates, because round estimates scatter by factors. They are robust already, so order
    statistics would only be wider: the whole range, for 95% of 8 rounds. The interval is widened to include the median
    where many rounds lie on one side.
    """
    if len(estimates) < FEWEST_FOR_INTERVAL:
        return None
    logs = [math.log(estimate) for estimate in estimates]
    centre = math.fsum(logs) / len(logs)
    # Note: statistics.stdev works with fractions, exactly; it took longer than all the rest of a site's reading
    deviation = math.sqrt(math.fsum((log - centre) ** 2 for log in logs) / (len(logs) - 1))
    half = t_975(len(logs) - 1) * deviation / math.sqrt(len(logs))
    middle = statistics.median(estimates)
    low, high = min(math.exp(centre - half), middle), max(math.exp(centre + half), middle)
    return Interval(low=low, high=high, method=INTERVAL_METHOD)


def is_enough(rounds: int, interval: Interval | None, most: int = WANTED_ROUNDS) -> bool:
    """Return whether a series needs no more rounds: it has the most, or at least FIRST_LOOK with a narrow interval.

    Rounds end by their scatter and never by their level, so that neither side of a comparison is favoured
    (docs/explanation/false-alarms.md has both error rates).

    Args:
        rounds: that it has.
        interval: of these, `round_interval`.
        most: rounds of a series whose interval stays wide.
    """
    if rounds >= most:
        return True
    return rounds >= FIRST_LOOK and interval is not None and math.log(interval.high / interval.low) <= 2 * NARROW


def looks(most: int) -> tuple[int, ...]:
    """Return the numbers of rounds after which it is asked which series have enough, up to the `most`."""
    return (*(look for look in (FIRST_LOOK, WANTED_ROUNDS) if look < most), most)


def round_counts(rounds: int, interval: Interval | None) -> tuple[str, ...]:
    """Return the footnote of a series with fewer rounds than WANTED_ROUNDS."""
    if rounds >= WANTED_ROUNDS:
        return ()
    if is_enough(rounds, interval):
        return (f"{rounds} rounds, because they agree within {100 * NARROW:g}%",)
    return (f"a sound verdict needs {WANTED_ROUNDS} rounds, have {rounds}",)


def round_warnings(rounds: Sequence[Round]) -> tuple[str, ...]:
    """Return the footnotes of a measurement of these rounds."""
    notes = list(round_counts(len(rounds), round_interval([round_.estimate for round_ in rounds])))
    if len(rounds) < FEWEST_FOR_INTERVAL:
        notes.append(f"no interval: needs {FEWEST_FOR_INTERVAL} rounds")
    if len({round_.launch for round_ in rounds}) < len(rounds):
        notes.append("its rounds shared a launch")
    flags = Counter(flag for round_ in rounds for flag in set(round_.flags))
    slowed = gpu.throttling(reduce(or_, (round_.gpu.reasons or 0 for round_ in rounds if round_.gpu), 0))
    if unproven := in_flags(flags):
        notes.append(unproven)
    for flag, count in sorted(flags.items()):
        if flag.startswith(FLAG):
            continue
        reasons = f": {', '.join(slowed)}" if flag == THROTTLED and slowed else ""
        meaning = f" ({MEANINGS[flag]}{reasons})" if flag in MEANINGS else ""
        notes.append(f"{flag} in {count} of {len(rounds)} rounds{meaning}")
    return tuple(notes)


def from_rounds(key: SeriesKey, commit: str, rounds: Sequence[Round]) -> Measurement:
    """Return the measurement of a commit: its value is the median of the estimates of its rounds (>= 1).

    Only rounds of the newest timing method count. A warning gives the number of the others.
    """
    method = max(rounds, key=lambda round_: round_.time).method
    counted = [round_ for round_ in rounds if round_.method == method]
    left_out = len(rounds) - len(counted)
    mixed = (f"{units.count(left_out, 'round')} of an earlier timing method left out",) if left_out else ()
    estimates = [round_.estimate for round_ in counted]
    return Measurement(
        key=key,
        commit=commit,
        outcome=Outcome.MEASURED,
        seconds=statistics.median(estimates),
        interval=round_interval(estimates),
        rounds=len(counted),
        method=method,
        warnings=mixed + round_warnings(counted),
    )
