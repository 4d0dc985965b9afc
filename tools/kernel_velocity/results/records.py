"""The values read from a results directory and the repository: benchmarks, machines, results files, commits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from kernel_velocity.direction import Better
from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.engine.telemetry import Round
from kernel_velocity.results.lines import DIGITS, Failure
from kernel_velocity.results.measurement import IntArray
from kernel_velocity.results.sessions import SessionFacts

SERIES_NAME = re.compile(r"([A-Za-z]\w*)\.(Cpu|Cuda)\.(?:time_)?(\w+)", re.ASCII)  # contract; names pages too

Pair = tuple[str, str]  # implementation ("" for a benchmark of another suite), case


class NameParts(NamedTuple):
    """The parts of a benchmark's name."""

    kernel: str
    device: str  # "Cpu", "Cuda". "" for a benchmark of another suite
    state: str  # of the caches. The function's name for a benchmark of another suite


@lru_cache(maxsize=10_000)
def name_parts(benchmark: str) -> NameParts:
    """Return the parts of a name: "matmul.Cpu.time_hot" -> ("matmul", "Cpu", "hot").

    A name of another suite is module or class and function: "io.Csv.time_read" -> ("io.Csv", "", "time_read").
    """
    match = SERIES_NAME.fullmatch(benchmark)
    if match is not None:
        return NameParts(match[1], match[2], match[3])
    owner, _, function = benchmark.rpartition(".")
    return NameParts(owner or function, "", function)


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """What benchmarks.json says of a benchmark with a trend."""

    name: str
    version: str
    implementations: tuple[str, ...]
    cases: tuple[str, ...]
    unit: str  # of its values: "seconds", "bytes", or any other text
    better: Better  # which of its values are
    flop: Mapping[str, float]  # case -> FLOP per call
    bytes_moved: Mapping[str, float]  # case -> bytes per call
    unfused_bytes: Mapping[str, float]  # case -> bytes of the reference's operations one by one


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine's folder and what asv recorded of the machine."""

    name: str  # of the folder
    details: tuple[tuple[str, str], ...]
    called: str | None = None  # its name in machine.json; None: no usable machine.json


class RecordedRow(NamedTuple):
    """What the values of a benchmark have in common."""

    benchmark: str
    version: str | None
    pairs: tuple[Pair, ...]  # of each value
    began: float  # Unix time, s, at which asv began the last round; NaN: unknown


class TrackedValue(NamedTuple):
    """One recorded value that is not a time, such as a ceiling of the device or an error."""

    benchmark: str
    pair: Pair  # "" where the benchmark has no axes
    version: str | None
    value: float  # NaN: failed, n/a or not measurable
    began: float  # Unix time, s; NaN: unknown


@dataclass(frozen=True, kw_only=True, eq=False)
class ResultsFile:
    """The recorded values of one commit, environment and machine, with their telemetry.

    A results directory holds millions of values, so a file is columns, not objects. They have shape (values,), with
    the values of one row after those of another, as asv stores them: in the unit of the benchmark, times in s per call.
    """

    machine: str
    environment: str
    commit: str  # full SHA
    rows: tuple[RecordedRow, ...]
    outcome: IntArray  # indices into OUTCOMES
    seconds: FloatArray  # NaN: there is none
    low: FloatArray  # of asv's interval; NaN: unknown
    high: FloatArray
    rounds: Mapping[tuple[str, str, str], tuple[Round, ...]]  # (benchmark, implementation, case) -> rounds
    failures: Mapping[tuple[str, str, str], tuple[Failure, ...]]  # likewise, oldest first
    tracked: tuple[TrackedValue, ...] = ()
    sessions: tuple[SessionFacts, ...] = ()  # the sessions that measured it and differ from the one before
    hardware: Mapping[str, str] = field(default_factory=dict)  # asv's facts: processor and number of cores

    def series(self) -> Iterator[tuple[RecordedRow, Pair]]:
        """Yield row, and implementation and case, of each value."""
        return ((row, pair) for row in self.rows for pair in row.pairs)


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit. Escape message and author wherever they are shown: anybody may have typed anything."""

    sha: str
    parents: tuple[str, ...]
    author: str
    date: datetime  # the author's, with his time zone
    committed: datetime  # the committer's date: later than `date` for a rebased commit
    message: str
    digits: int = DIGITS  # of its hash that tell it from the other commits read

    @property
    def short(self) -> str:
        """The beginning of its hash: DIGITS, or all of it where another commit begins alike."""
        return self.sha[: self.digits]

    @property
    def subject(self) -> str:
        """The first line of the message. Empty for an empty message."""
        return self.message.strip().partition("\n")[0].strip()


@dataclass(frozen=True, kw_only=True)
class History:
    """The commits of the results, and the first-parent line of HEAD."""

    line: tuple[str, ...]  # SHAs along the first parents of HEAD, oldest first
    commits: Mapping[str, Commit]  # of the wanted commits, those that exist
    shallow: bool  # whether the clone ends before the repository's beginning
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # SHA -> names of its tags
