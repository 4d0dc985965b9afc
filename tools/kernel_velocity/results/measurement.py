"""From the rounds of a commit to one measurement: a value, an interval, and what to know about it.

Pure: values in, values out. Times are seconds per call; rates are derived here and nowhere else.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernel_velocity import units
from kernel_velocity.harness.cases import dtype_of
from kernel_velocity.harness.statistics import t_975
from kernel_velocity.harness.telemetry import Round

WANTED_ROUNDS = 8  # asv's own test has power from 8 on, and cannot reach its threshold with 6 (contract)
FEWEST_FOR_INTERVAL = 3  # with 2 rounds the t quantile is 12.7: an interval that says nothing
MEMORY_BOUND = 4.0  # FLOP per byte; below it a kernel lies left of every ridge point we know of (CPUs from 5 up)
CONTROLS_TOGETHER = "controls"  # as one signal: the mean of PyTorch's implementations measured in the same rounds
INTERVAL_METHOD = "95% interval over rounds (Student's t on the logarithms of the round estimates)"
# What flags say of a time, where the name alone does not.
MEANINGS = {
    "underfed": "the device waited for the host: launch gaps are in the time",
    "quantised": "the clock is too coarse for it",
    "short": "less than 5 times what an empty call takes",
    "constant": "samples all equal: a clock that shows no spread",
    "ungraphed": "no CUDA graph could be captured: launches were timed",
    "warm": "faster than memory: the caches were not cold",
    "clock_drift": "the GPU's clocks moved by over 1%",
    "throttled": "the GPU was slowed down for power or heat",
}
ASV_INTERVAL_METHOD = "asv's 99% interval"
IntArray = NDArray[np.int32]


class Outcome(enum.Enum):
    """What asv recorded: a time, "n/a" (NaN: NotImplementedError in setup), or "failed" (null)."""

    MEASURED = "measured"
    NOT_APPLICABLE = "n/a"
    FAILED = "failed"


OUTCOMES = (Outcome.MEASURED, Outcome.NOT_APPLICABLE, Outcome.FAILED)  # `outcome` holds their places here


@dataclass(frozen=True, kw_only=True, order=True)
class SeriesKey:
    """One benchmark, implementation, test case, machine and environment; its history is a series."""

    machine: str
    environment: str  # asv's name of it, which holds torch's version
    benchmark: str  # such as "matmul.Cpu.time_hot"
    implementation: str
    case: str
    version: str  # of the benchmark, as asv compares it

    @property
    def dtype(self) -> str:
        """What its test case computes in."""
        return dtype_of(self.case)

    @property
    def rate_unit(self) -> str:
        """What its rate is given in: "GFLOPS", or "GOPS"."""
        return units.rate_unit(self.dtype)


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Bounds of a time, s; `low` <= the measurement's value <= `high`."""

    low: float
    high: float
    method: str


@dataclass(frozen=True, kw_only=True)
class Signal:
    """What is read beside a series' samples, and how far the series moves with it."""

    name: str  # a gauge (a field of `Round`), or CONTROLS_TOGETHER
    slope: float  # of the logarithm of the time on that of the signal, shrunk; 0: the series does not move with it
    centre: float | None  # s, what it reads as a rule; None of several controls together


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How a series is adjusted: adjusted = time / product over its signals of (reading / centre)^slope, by round."""

    method: str  # hash of the timing method whose rounds it was fitted on
    signals: tuple[Signal, ...]
    explained: float | None  # share of the variance of the rounds that the signals explain


@dataclass(frozen=True, kw_only=True)
class Adjusted:
    """A time freed of what the machine did in the same rounds, s per call; changes are judged by it."""

    seconds: float
    interval: Interval | None
    fit: Fit | None = None  # None: not known any more


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A commit's rounds of one series together; unknown is None."""

    key: SeriesKey
    commit: str  # full SHA
    outcome: Outcome
    seconds: float | None = None  # per call
    interval: Interval | None = None
    rounds: int | None = None
    adjusted: Adjusted | None = None  # None: nothing was read beside its rounds that it could be adjusted by
    method: str | None = None  # hash of the timing method; values of two methods are not compared
    flop: float | None = None  # per call
    bytes_moved: float | None = None  # per call, each input read once, each output written once
    reason: str | None = None  # why there is no time, where it is known
    warnings: tuple[str, ...] = ()

    @property
    def gflops(self) -> float | None:
        """10^9 operations per second; `key.rate_unit` says of what."""
        return _rate(self.flop, self.seconds)

    @property
    def gigabytes(self) -> float | None:
        """10^9 bytes per second that have to move; None for a kernel that memory does not bound."""
        if self.flop is None or self.bytes_moved is None or self.flop > MEMORY_BOUND * self.bytes_moved:
            return None
        return _rate(self.bytes_moved, self.seconds)


def _rate(work: float | None, seconds: float | None) -> float | None:
    return None if work is None or seconds is None else work / seconds / 1e9


def round_interval(estimates: Sequence[float]) -> Interval | None:
    """Return the interval of the rounds' common time from their estimates, s; None below FEWEST_FOR_INTERVAL.

    Student's t on log estimates: round estimates scatter by factors, and are robust already, so that
    with 8 of them the order statistics (the whole range, for 95%) would only be wider. It is widened to
    hold the median where many rounds lie on one side.
    """
    if len(estimates) < FEWEST_FOR_INTERVAL:
        return None
    logs = [math.log(estimate) for estimate in estimates]
    centre = math.fsum(logs) / len(logs)
    # Note: statistics.stdev works with fractions, exactly; it took longer than all the rest of a site's reading
    deviation = math.sqrt(math.fsum((each - centre) ** 2 for each in logs) / (len(logs) - 1))
    half = t_975(len(logs) - 1) * deviation / math.sqrt(len(logs))
    middle = statistics.median(estimates)
    low, high = min(math.exp(centre - half), middle), max(math.exp(centre + half), middle)
    return Interval(low=low, high=high, method=INTERVAL_METHOD)


def round_warnings(rounds: Sequence[Round]) -> tuple[str, ...]:
    """Return what a reader must know about these rounds, as footnotes."""
    found = []
    if len(rounds) < WANTED_ROUNDS:
        found.append(f"need {WANTED_ROUNDS} rounds, have {len(rounds)}")
    if len(rounds) < FEWEST_FOR_INTERVAL:
        found.append(f"no interval: needs {FEWEST_FOR_INTERVAL} rounds")
    if len({item.launch for item in rounds}) < len(rounds):
        found.append("its rounds shared a launch")
    flags = Counter(flag for item in rounds for flag in set(item.flags))
    found += [f"{flag} in {count} of {len(rounds)} rounds{_meaning(flag)}" for flag, count in sorted(flags.items())]
    return tuple(found)


def _meaning(flag: str) -> str:
    return f" ({MEANINGS[flag]})" if flag in MEANINGS else ""


def from_rounds(
    key: SeriesKey, commit: str, rounds: Sequence[Round], *, flop: float | None, bytes_moved: float | None
) -> Measurement:
    """Return the measurement of a commit: its value is the median of the estimates of its rounds (>= 1).

    Rounds of several timing methods are not mixed: those of the method used last count, and a warning
    says so.
    """
    method = max(rounds, key=lambda item: item.time).method
    kept = [item for item in rounds if item.method == method]
    left_out = len(rounds) - len(kept)
    mixed = (f"{units.count(left_out, 'round')} of an earlier timing method left out",) if left_out else ()
    estimates = [item.estimate for item in kept]
    return Measurement(
        key=key,
        commit=commit,
        outcome=Outcome.MEASURED,
        seconds=statistics.median(estimates),
        interval=round_interval(estimates),
        rounds=len(kept),
        method=method,
        flop=flop,
        bytes_moved=bytes_moved,
        warnings=mixed + round_warnings(kept),
    )
