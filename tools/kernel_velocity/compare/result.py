"""The result of a comparison: problems x test cases x implementations, timed in interleaved rounds.

Values, and the figures that follow from them. Times in seconds per call, rates in FLOP/s and B/s, unknown is None.
`as_json` writes them for scripts: strict JSON, base units but where a key says otherwise.

The keys, version 1. Top: `schema` ("kernel-velocity/compare"), `version`, `began` (Unix time, s), `took_s`,
`environment`, `settings` (text by name), `warnings`, `right` (false if any implementation is wrong, failed or
unproven), `results`, `averages` (the fields of Average), `speed_ups`.

Of a result, one per implementation and test case:

    name, test_id       the test case, and its number within its problem, from 1
    gflops, runtime_ms  10^9 FLOP/s and ms per call, from the median of the round estimates
    problem, implementation, device, dtype, dims, elements, tensor_bytes, flops, bytes, memory
    footprint           bytes of memory that a call touches, each once (`bytes` is its traffic)
    traffic             bytes of one kernel (fused), of the reference's operations one by one (unfused), their ratio
    status, reason      "right", "unproven", "WRONG", "FAILED", "n/a" or "not verified", and why it is not right
    seconds             value, low, high (95% interval over rounds), method, mean, std, min, p50, p99, max and samples
    bytes_per_second    traffic over time
    estimates_s, stops  of every round
    function_s, overhead_s   the whole function, and what of it lies outside the call
    flags, accuracy     accuracy: output, right, details, for each output
    roofline            the fields of roofline/model.py's Roofline

What is unknown is null. JSON has no NaN and no infinity: such a number is the string "NaN", "Infinity" or "-Infinity",
which Python's float() and JavaScript's Number() read, so that an error of NaN cannot pass for an unknown one.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

from kernel_velocity.machine.limits import Work
from kernel_velocity.roofline.model import Roofline
from kernel_velocity.stats import speedup
from kernel_velocity.stats.speedup import SpeedUp, Spread, Timing
from kernel_velocity.unproven import UNPROVEN

SCHEMA = "kernel-velocity/compare"  # of the JSON
VERSION = 1  # of its keys
RIGHT, WRONG, FAILED, MISSING, UNVERIFIED = "right", "WRONG", "FAILED", "n/a", "not verified"


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """How right one output is. `details` are the figures of problem/accuracy.py."""

    output: str  # name of the output parameter
    right: bool
    details: Mapping[str, object]

    def number(self, name: str) -> float | None:
        """Return a figure, None where it is not a number."""
        value = self.details.get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None


@dataclass(kw_only=True)
class TimedImplementation:
    """One implementation on one test case. It is filled while it is measured (compare/subject.py).

    Attributes:
        rounds: the samples of every round, in the order taken, without warm-up and burn-in.
        estimates: one robust location per round (10%-per-side trimmed mean).
        stops: why the rule stopped, per round.
        flags: of all rounds.
        function: s per call of the whole function, which allocates outputs and checks arguments. None: not measured.
        accuracy: one per output, none where nothing was verified.
        roofline: None where no time counts, or the ceilings or the problem's FLOPs and bytes are unknown.
        missing: the reason why it is n/a. It has no rounds then.
        failed: the reason why it failed. Its rounds do not count then.
        unproven: which null answers pass the check that its outputs passed ("zeros would pass"), "" for none.
        notes: what it changed in the process that all implementations share, and where two rules differ on it.
    """

    implementation: str
    rounds: tuple[tuple[float, ...], ...] = ()
    estimates: tuple[float, ...] = ()
    stops: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    function: float | None = None
    accuracy: tuple[Accuracy, ...] = ()
    roofline: Roofline | None = None
    missing: str | None = None
    failed: str | None = None
    unproven: str = ""
    notes: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """Return RIGHT, UNPROVEN, WRONG (an output is), FAILED, MISSING or UNVERIFIED."""
        if self.missing is not None:
            return MISSING
        if not all(output.right for output in self.accuracy):
            return WRONG
        if self.failed is not None:
            return FAILED
        if not self.accuracy:
            return UNVERIFIED
        return UNPROVEN if self.unproven else RIGHT

    @property
    def is_bad(self) -> bool:
        """Return whether it is wrong or failed: the command then ends with status 1."""
        return self.status in (WRONG, FAILED)

    @property
    def reason(self) -> str:
        """Return why no time counts, "" where one does."""
        return self.missing or self.failed or ""

    @property
    def samples(self) -> list[float]:
        """Return the samples of all rounds, or the estimates where there are no samples, in s."""
        return [sample for samples in self.rounds for sample in samples] or list(self.estimates)


class Traffic(NamedTuple):
    """Memory traffic of a call, bytes: the least of one kernel, and that of the reference's operations one by one."""

    fused: int
    unfused: int
    ratio: float  # unfused / fused


@dataclass(frozen=True, kw_only=True)
class Compared(Work):
    """One test case of one problem, with the work of a call.

    `bytes` is its traffic: each tensor as often as it is read or written. `footprint` is the working set.
    """

    problem: str
    case: str
    device: str  # "cpu" or "cuda"
    dims: tuple[int, ...]
    elements: int  # of the largest tensor
    tensor_bytes: int  # of the largest tensor
    memory: str | None  # the level that holds the working set ("L1", ..., "DRAM"); None: the caches are unknown
    unfused_bytes: int | None  # traffic of the reference's operations one by one; None: unknown
    timed: tuple[TimedImplementation, ...]

    def rows(self) -> list[ComparedRow]:
        """Return every implementation with its figures."""
        return [ComparedRow(self, timed) for timed in self.timed]

    @property
    def traffic(self) -> Traffic | None:
        """Return what fusing saves, None where that is unknown. A kernel moves the working set if nothing is said."""
        fused = self.footprint if self.bytes is None else self.bytes
        return Traffic(fused, self.unfused_bytes, self.unfused_bytes / fused) if self.unfused_bytes and fused else None

    def speed_ups(self, reference: str | None) -> list[SpeedUp]:
        """Return the ratio of times of every pair of right implementations, those over `reference` first.

        None of one that is unproven: it may compute nothing.
        """
        rows = (row for row in self.rows() if not (row.timed.is_bad or row.timed.unproven))
        times = {row.timed.implementation: row.timing for row in rows if row.timing is not None}
        return list(speedup.pairwise(times, reference))


@dataclass(frozen=True, kw_only=True)
class Average:
    """Arithmetic means of an implementation over the test cases of a problem, of one dtype, that it has a time on."""

    problem: str
    device: str
    dtype: str
    implementation: str
    cases: int
    gflops: float | None  # 10^9 operations per second. None: the problem does not say for all of these cases
    bytes_per_second: float | None  # likewise
    runtime_ms: float


@dataclass(frozen=True, kw_only=True)
class LiveComparison:
    """A whole comparison.

    Attributes:
        environment: name -> value: device, caches, clocks, load, versions, relevant environment variables.
        settings: rule, parameters, rounds, preset, tolerance, as text.
        began: Unix time, s.
        took: s.
    """

    compared: tuple[Compared, ...]
    environment: Mapping[str, str]
    settings: Mapping[str, str]
    began: float
    took: float
    warnings: tuple[str, ...] = ()

    def problems(self) -> dict[tuple[str, str], list[Compared]]:
        """Return the test cases by problem and device, in order of first mention."""
        groups: dict[tuple[str, str], list[Compared]] = {}
        for compared in self.compared:
            groups.setdefault((compared.problem, compared.device), []).append(compared)
        return groups

    def averages(self) -> Iterator[Average]:
        """Yield the averages of every implementation with a time, in order of first mention."""
        groups: dict[tuple[str, str, str, str], list[ComparedRow]] = {}
        for row in self.rows():
            if row.timing is not None:
                of = row.compared
                groups.setdefault((of.problem, of.device, of.dtype, row.timed.implementation), []).append(row)
        for (problem, device, dtype, implementation), rows in groups.items():
            yield Average(
                problem=problem,
                device=device,
                dtype=dtype,
                implementation=implementation,
                cases=len(rows),
                gflops=_mean([None if row.rate is None else row.rate / 1e9 for row in rows]),
                bytes_per_second=_mean([row.bandwidth for row in rows]),
                runtime_ms=fmean(row.timing.seconds * 1e3 for row in rows if row.timing is not None),
            )

    def rows(self) -> Iterator[ComparedRow]:
        """Yield every implementation on every test case."""
        for compared in self.compared:
            yield from compared.rows()


def _mean(values: list[float | None]) -> float | None:
    return None if None in values else fmean(value for value in values if value is not None)


@dataclass(frozen=True)
class ComparedRow:
    """One implementation on one test case, with figures that are None where no time counts."""

    compared: Compared
    timed: TimedImplementation

    @cached_property
    def timing(self) -> Timing | None:
        """Return the median of the round estimates, its error and 95% interval over rounds."""
        return speedup.timing(self.timed.estimates) if self.timed.estimates and not self.timed.reason else None

    @cached_property
    def spread(self) -> Spread | None:
        """Return mean, standard deviation, extremes and percentiles of all samples."""
        return None if self.timing is None else speedup.spread(self.timed.samples)

    @property
    def rate(self) -> float | None:
        """Return operations per second."""
        return self._per_second(self.compared.flops)

    @property
    def bandwidth(self) -> float | None:
        """Return bytes per second."""
        return self._per_second(self.compared.bytes)

    def _per_second(self, amount: int | None) -> float | None:
        return None if amount is None or self.timing is None else amount / self.timing.seconds

    @property
    def overhead(self) -> float | None:
        """Return the s per call of the whole function that lie outside the kernel."""
        return None if self.timing is None else speedup.overhead(self.timed.function, self.timing.seconds)


# JSON -----------------------------------------------------------------------------------------------------------------


def as_json(comparison: LiveComparison) -> str:
    """Return the comparison as the module describes it, with a line break at the end."""
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "began": comparison.began,
        "took_s": comparison.took,
        "environment": comparison.environment,
        "settings": comparison.settings,
        "warnings": comparison.warnings,
        "right": not any(row.timed.is_bad or row.timed.unproven for row in comparison.rows()),
        "results": [
            _result(row, number)
            for group in comparison.problems().values()
            for number, compared in enumerate(group, 1)
            for row in compared.rows()
        ],
        "averages": [asdict(average) for average in comparison.averages()],
        "speed_ups": [
            {"problem": compared.problem, "name": compared.case, "device": compared.device, **asdict(pair)}
            for compared in comparison.compared
            for pair in compared.speed_ups(comparison.settings.get("reference"))
        ],
    }
    return json.dumps(plain(document), indent=2, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """Return a value as what JSON has: numbers that are not finite, and what JSON has no form for, become text."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, str | bool | int | float):
        return value
    number = getattr(value, "item", None)  # of a number of numpy's, or of a tensor with one element
    return plain(number()) if callable(number) and getattr(value, "size", 1) == 1 else str(value)


def _result(row: ComparedRow, number: int) -> dict[str, Any]:
    """Return a row under its keys. `number` is that of the test case within its problem, from 1."""
    compared, timed, timing, spread = row.compared, row.timed, row.timing, row.spread
    same = ("device", "dtype", "dims", "elements", "tensor_bytes", "flops", "bytes", "footprint", "memory")
    return {
        "name": compared.case,
        "test_id": number,
        "gflops": None if row.rate is None else row.rate / 1e9,
        "runtime_ms": None if timing is None else timing.seconds * 1e3,
        "problem": compared.problem,
        "implementation": timed.implementation,
        **{name: getattr(compared, name) for name in same},
        "traffic": None if compared.traffic is None else compared.traffic._asdict(),
        "status": timed.status,
        "reason": timed.reason or timed.unproven or None,
        "seconds": None if timing is None or spread is None else _seconds(timing, spread),
        "bytes_per_second": row.bandwidth,
        "estimates_s": timed.estimates,
        "stops": timed.stops,
        "flags": timed.flags,
        "function_s": timed.function,
        "overhead_s": row.overhead,
        "accuracy": [asdict(output) for output in timed.accuracy],
        "roofline": None if timed.roofline is None else asdict(timed.roofline),
    }


def _seconds(timing: Timing, spread: Spread) -> dict[str, Any]:
    return {
        "value": timing.seconds,
        **{name: getattr(timing.interval, name, None) for name in ("low", "high", "method")},
        "mean": spread.mean,
        "std": spread.deviation,
        **{name: getattr(spread, name) for name in ("min", "p50", "p99", "max")},
        "samples": spread.n,
    }


# Google Benchmark's file ----------------------------------------------------------------------------------------------

# Its `compare.py` and what else reads such files can read ours. A round is a repetition, called
# problem/device/test case/implementation: `compare.py filters FILE eager native` sets two implementations side by side.
# What failed or is n/a is an entry with an error.


NANOSECONDS = 1e9  # in a second


def as_google_benchmark(comparison: LiveComparison) -> str:
    """Return the comparison as JSON with a line break at the end, times in ns."""
    context: dict[str, Any] = {
        "date": datetime.fromtimestamp(comparison.began, UTC).isoformat(timespec="seconds"),
        "host_name": platform.node(),
        "executable": "kv compare",
        "num_cpus": os.cpu_count(),
        "caches": [],
        "library_build_type": "release",
        "json_schema_version": 1,
    }
    entries = [entry for row in comparison.rows() for entry in _entries(row)]
    return json.dumps(plain({"context": context, "benchmarks": entries}), indent=2, allow_nan=False) + "\n"


def _entries(row: ComparedRow) -> Iterator[dict[str, Any]]:
    compared, timed = row.compared, row.timed
    name = f"{compared.problem}/{compared.device}/{compared.case}/{timed.implementation}"
    common = {"name": name, "run_name": name, "run_type": "iteration", "threads": 1}
    if row.timing is None:
        error = {"error_occurred": True, "error_message": timed.reason, "repetitions": 1, "iterations": 0}
        yield {**common, **error, "repetition_index": 0, "real_time": 0.0, "cpu_time": 0.0, "time_unit": "ns"}
        return
    work = {"flops_per_second": compared.flops, "bytes_per_second": compared.bytes}
    for index, (estimate, samples) in enumerate(zip(timed.estimates, timed.rounds, strict=True)):
        yield {
            **common,
            "repetitions": len(timed.estimates),
            "repetition_index": index,
            "iterations": len(samples),
            "real_time": estimate * NANOSECONDS,
            "cpu_time": estimate * NANOSECONDS,  # one clock is read, and compare.py wants both
            "time_unit": "ns",
            **{counter: amount / estimate for counter, amount in work.items() if amount},
        }
