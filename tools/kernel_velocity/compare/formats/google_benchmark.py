"""A comparison in Google Benchmark's JSON, so that its compare/command.py reads it.

The form is that of google/benchmark's src/json_reporter.cc (schema version 1), and what its tools/gbench/report.py asks
of it: `name`, `time_unit`, `real_time` and `cpu_time` of every entry, `run_type` and `aggregate_name` where it tells
repetitions from aggregates. A round is a repetition; its name is problem/device/test case/implementation, so that
`compare.py filters FILE eager native` sets two implementations of one file side by side.

What differs, and is said in the context: `cpu_time` repeats `real_time` (one clock is read, and compare.py leaves
out entries without it); `iterations` are a round's samples. An implementation without a time is an entry with
`error_occurred` whose `time_unit` is null: compare.py then leaves the pair out, where a time of 0, as the C++ library
writes it, would be compared.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kernel_velocity.compare.formats.figures import Row, reason, rows, status
from kernel_velocity.compare.formats.json import strict_json
from kernel_velocity.compare.result import Comparison

UNIT = "ns"
NANOSECONDS = 1e9  # in a second
SCHEMA_VERSION = 1
CPU_TIME = "the same as real_time: one clock is read"
ITERATIONS = "samples of the round"

# name -> (function of a list, unit of the result); with one round there is no spread to aggregate
AGGREGATES: Mapping[str, tuple[Callable[[Sequence[float]], float], str]] = {
    "mean": (statistics.fmean, "time"),
    "median": (statistics.median, "time"),
    "stddev": (statistics.stdev, "time"),
    "cv": (lambda values: statistics.stdev(values) / statistics.fmean(values), "percentage"),
}


def as_gbench(comparison: Comparison) -> str:
    """Return the comparison as Google Benchmark writes one: `context` and `benchmarks`, times in ns."""
    families: dict[str, int] = {}
    members: dict[str, int] = {}
    benchmarks: list[dict[str, Any]] = []
    for row in rows(comparison):
        problem = row.compared.problem
        family = families.setdefault(problem, len(families))
        members[problem] = members.get(problem, -1) + 1
        benchmarks += _entries(row, {"family_index": family, "per_family_instance_index": members[problem]})
    return strict_json({"context": _context(comparison), "benchmarks": benchmarks})


def run_name(row: Row) -> str:
    """Return what an entry is called: problem/device/test case/implementation."""
    return "/".join((row.compared.problem, row.compared.device, row.compared.case, row.timed.implementation))


def _context(comparison: Comparison) -> dict[str, Any]:
    """Return the context: what the library writes of it and is known, and the environment under our own name."""
    return {
        "date": datetime.fromtimestamp(comparison.began, UTC).isoformat(timespec="seconds"),
        "executable": "kv compare",
        "json_schema_version": SCHEMA_VERSION,
        "cpu_time": CPU_TIME,
        "iterations": ITERATIONS,
        "kernel-velocity": {"environment": comparison.environment, "settings": comparison.settings},
    }


def _entries(row: Row, place: Mapping[str, int]) -> list[dict[str, Any]]:
    timed, name = row.timed, run_name(row)
    common = {**place, "run_name": name, "repetitions": max(1, len(timed.estimates)), "threads": 1}
    if row.figures is None:
        return [_failed(row, {"name": name, **common})]
    samples = [len(each) for each in timed.rounds] or [1] * len(timed.estimates)
    found = [
        {
            "name": name,
            **common,
            "run_type": "iteration",
            "repetition_index": index,
            "iterations": samples[index] if index < len(samples) else 1,
            **_times(estimate * NANOSECONDS),
            **_counters(row, [estimate], statistics.fmean),
            **({"label": row.compared.memory} if row.compared.memory else {}),
        }
        for index, estimate in enumerate(timed.estimates)
    ]
    return found + (_aggregates(row, {"name": name, **common}) if len(timed.estimates) > 1 else [])


def _times(value: float) -> dict[str, Any]:
    return {"real_time": value, "cpu_time": value, "time_unit": UNIT}


def _failed(row: Row, common: Mapping[str, Any]) -> dict[str, Any]:
    message = reason(row.timed) or status(row.timed)
    return {
        **common,
        "run_type": "iteration",
        "repetition_index": 0,
        "error_occurred": True,
        "error_message": message,
        "time_unit": None,
    }


def _aggregates(row: Row, common: Mapping[str, Any]) -> list[dict[str, Any]]:
    estimates = row.timed.estimates
    return [
        {
            **common,
            "name": f"{common['run_name']}_{name}",
            "run_type": "aggregate",
            "aggregate_name": name,
            "aggregate_unit": unit,
            "iterations": len(estimates),
            **_times(of(estimates) * (NANOSECONDS if unit == "time" else 1.0)),
            **_counters(row, estimates, of),
        }
        for name, (of, unit) in AGGREGATES.items()
    ]


def _counters(row: Row, estimates: Sequence[float], of: Callable[[Sequence[float]], float]) -> dict[str, float]:
    """Return the user counters: each rate's statistic over the rounds, as the library aggregates counters."""
    work = {
        "bytes_per_second": row.compared.bytes,
        "items_per_second": row.compared.elements,
        "flops_per_second": row.compared.flops,
    }
    return {name: of([amount / estimate for estimate in estimates]) for name, amount in work.items() if amount}
