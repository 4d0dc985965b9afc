"""Identify the series that a measurement belongs to. Pure.

The identity (contract) is machine, environment, benchmark, parameters, asv's version string and the hash of the timing
method. torch's version belongs to the environment of what torch computes. It does not for `native`, our own machine
code, which so has one series across torch versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from kernel_velocity import units
from kernel_velocity.names import CONTROLS, NATIVE, UNITS_OF_FIGURES
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.results.records import name_parts

FIGURE_METHODS = frozenset(f"track_{name}" for name in UNITS_OF_FIGURES)
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
        """Whether its values are figures of code, read or counted, which only the build changes."""
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


# The end of a benchmark's name -> the noun for its values. The first match counts.
_NOUNS = tuple(
    (re.compile(pattern), noun)
    for pattern, noun in (
        (r"(^|\.)(time(raw)?_|Time(raw)?[A-Z_])[^.]*$", "time"),
        (r"(^|\.)((peak)?mem_|(Peak)?Mem[A-Z_])[^.]*$", "memory"),
        (r"_error$", "error"),
        (r"\.track_spill_bytes$", "spills"),
        (r"_(overhead|tick|latency)$", "time"),
        (r"_bandwidth$", "bandwidth"),
        (r"\.track_peak_\w+$|gflops$", "rate"),
    )
)


@lru_cache(maxsize=10_000)  # the same few names stand in every file
def noun(benchmark: str) -> str:
    """Return the noun for a benchmark's values, by its name."""
    return next((noun for pattern, noun in _NOUNS if pattern.search(benchmark)), "value")


def unit(benchmark: str) -> str:
    """Return the unit of a benchmark's values as asv gives it, by the benchmark's name. "" where the name has none."""
    return {"time": units.SECONDS, "memory": units.BYTES}.get(noun(benchmark), "")


def is_tracked(benchmark: str) -> bool:
    """Return whether a benchmark's values stand beside the trends: errors, compiler figures, ceilings of a device."""
    parts = name_parts(benchmark)
    return bool(parts.device) and (parts.kernel == DEVICE or parts.state in TRACKED)
