"""A comparison as Google Benchmark writes one, so that its `compare.py` and what else reads such files can read ours.

A round is a repetition, called problem/device/test case/implementation: `compare.py filters FILE eager native` sets two
implementations side by side. What failed or is n/a is an entry with an error.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from kernel_velocity.compare.result import ComparedRow, LiveComparison, plain

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
