"""Identify the series that a measurement belongs to, and tell which way it gets worse. Pure.

The identity (contract) is machine, environment, benchmark, parameters, asv's version string and the hash of the timing
method. torch's version belongs to the environment of what torch computes. It does not for `native`, our own machine
code, which so has one series across torch versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from kernel_velocity import units
from kernel_velocity.names import CONTROLS, FIGURES, NATIVE
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.results.records import name_parts

FIGURE_METHODS = frozenset(f"track_{name}" for figures in FIGURES.values() for name in figures)
ERROR = "track_max_error"  # how the name of a series of errors ends
DEVICE = "device"  # the first part of a ceiling's name
TRACKED = frozenset({ERROR, *FIGURE_METHODS})  # how the names of a kernel's values beside its trends end
_TORCH = re.compile(r"-torch[^-]*")  # in asv's name of an environment: "host-py3.11-torch2.13.0"


Slot = tuple[str, str, str, str, str]  # an identity without version and method: machine to case


@dataclass(frozen=True, kw_only=True, order=True)
class Identity:
    """The identity of a series. A part that it lacks is ""."""

    machine: str
    environment: str  # for `native` without torch's version
    benchmark: str
    implementation: str
    case: str
    version: str
    method: str

    def __str__(self) -> str:
        return " ".join(part for part in (self.benchmark, self.implementation, self.case) if part)

    @property
    def slot(self) -> Slot:
        """The identity without version and method, whose changes begin a new series in the same slot."""
        return self.machine, self.environment, self.benchmark, self.implementation, self.case

    @property
    def kernel(self) -> str:
        """The kernel of the benchmark's name. "device" for a ceiling."""
        return name_parts(self.benchmark).kernel

    @property
    def device(self) -> str:
        """The device of the benchmark's name: "Cpu" or "Cuda". "" for a benchmark of another suite."""
        return name_parts(self.benchmark).device

    @property
    def is_control(self) -> bool:
        """Whether no commit can change it: PyTorch's implementations and the ceilings of the device."""
        return self.kernel == DEVICE or self.implementation in CONTROLS

    @property
    def is_error(self) -> bool:
        """Whether its values are errors of results, which do not depend on a machine's pace."""
        return self.benchmark.endswith("_error")

    @property
    def is_figure(self) -> bool:
        """Whether its values are compiler figures, which only the build changes."""
        return self.benchmark.rpartition(".")[2] in FIGURE_METHODS

    @property
    def is_timed(self) -> bool:
        """Whether its values are timed, and so scatter."""
        return not (self.is_error or self.is_figure)


def environment_of(environment: str, implementation: str) -> str:
    """Return the part of an environment's name that identifies a series of an implementation."""
    return _TORCH.sub("", environment, count=1) if implementation == NATIVE else environment


def of(key: SeriesKey, method: str | None) -> Identity:
    """Return the identity of a series timed by a method (a hash). None: unknown."""
    return Identity(
        machine=key.machine,
        environment=environment_of(key.environment, key.implementation),
        benchmark=key.benchmark,
        implementation=key.implementation,
        case=key.case,
        version=key.version,
        method=method or "",
    )


@dataclass(frozen=True, kw_only=True)
class Metric:
    """The quantity that a benchmark measures."""

    noun: str
    less_is_better: bool | None  # None: neither way is worse, such as the size of a cache


# The end of a benchmark's name -> its metric. The first match counts.
_METRICS: tuple[tuple[re.Pattern[str], Metric], ...] = tuple(
    (re.compile(pattern), Metric(noun=noun, less_is_better=less))
    for pattern, noun, less in (
        (r"(^|\.)(time(raw)?_|Time(raw)?[A-Z_])[^.]*$", "time", True),
        (r"(^|\.)((peak)?mem_|(Peak)?Mem[A-Z_])[^.]*$", "memory", True),
        (r"_error$", "error", True),
        (r"\.track_spill_bytes$", "spills", True),
        (r"_(overhead|tick|latency)$", "time", True),
        (r"_bandwidth$", "bandwidth", False),
        (r"\.track_peak_\w+$|gflops$", "rate", False),
    )
)


@lru_cache(maxsize=10_000)  # the same few names stand in every file
def metric(benchmark: str) -> Metric:
    """Return the metric of a benchmark, by its name."""
    matches = (metric for pattern, metric in _METRICS if pattern.search(benchmark))
    return next(matches, Metric(noun="value", less_is_better=None))


def unit(benchmark: str) -> str:
    """Return the unit of a benchmark's values as asv gives it, by the benchmark's name. "" where the name has none."""
    return {"time": units.SECONDS, "memory": units.BYTES}.get(metric(benchmark).noun, "")


def is_tracked(benchmark: str) -> bool:
    """Return whether a benchmark's values stand beside the trends: errors, compiler figures, ceilings of a device."""
    parts = name_parts(benchmark)
    return bool(parts.device) and (parts.kernel == DEVICE or parts.state in TRACKED)


def is_worse(identity: Identity, effect: float) -> bool | None:
    """Return whether a change of the log value by `effect` is for the worse. None: neither way is."""
    less = metric(identity.benchmark).less_is_better
    return None if less is None else (effect > 0) == less
