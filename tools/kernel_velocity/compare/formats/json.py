"""A comparison as JSON, for scripts: strict JSON, base units but where a key says otherwise.

The keys, version 1. Top: `schema` ("kernel-velocity/compare"), `version`, `began` (Unix time, s), `took_s`,
`environment`, `settings` (text by name), `warnings`, `right` (false if any implementation is wrong or failed),
`results`, `speed_ups`.

Of a result, one per implementation and test case:

    name, test_id       the test case, and its number within its problem, from 1
    gflops, runtime_ms  10^9 FLOP/s and ms per call, from the median of the round estimates
    problem, implementation, device, dtype, dims, elements, tensor_bytes, flops, bytes, memory
    footprint           bytes of memory that a call touches, each once (`bytes` is its traffic)
    status, reason      "right", "WRONG", "FAILED", "n/a" or "not verified", and why there is no value
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
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kernel_velocity.compare.result import Comparison, Row

SCHEMA = "kernel-velocity/compare"
VERSION = 1


def as_json(comparison: Comparison) -> str:
    """Return the comparison as the module describes it, with a line break at the end."""
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "began": comparison.began,
        "took_s": comparison.took,
        "environment": comparison.environment,
        "settings": comparison.settings,
        "warnings": comparison.warnings,
        "right": not any(row.timed.is_bad for row in comparison.rows()),
        "results": [_result(row) for row in comparison.rows()],
        "speed_ups": [
            {"problem": compared.problem, "name": compared.case, "device": compared.device, **asdict(pair)}
            for compared in comparison.compared
            for pair in compared.speed_ups(comparison.settings.get("reference"))
        ],
    }
    return strict_json(document)


def strict_json(document: Any) -> str:
    """Return a value as indented JSON that every parser reads: no NaN, no infinity, no half of a surrogate pair."""
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


def _result(row: Row) -> dict[str, Any]:
    compared, timed, timing = row.compared, row.timed, row.timing
    same = ("device", "dtype", "dims", "elements", "tensor_bytes", "flops", "bytes", "footprint", "memory")
    return {
        "name": compared.case,
        "test_id": row.number,
        "gflops": None if row.rate is None else row.rate / 1e9,
        "runtime_ms": None if timing is None else timing.seconds * 1e3,
        "problem": compared.problem,
        "implementation": timed.implementation,
        **{name: getattr(compared, name) for name in same},
        "status": timed.status,
        "reason": timed.reason or None,
        "seconds": _seconds(row),
        "bytes_per_second": row.bandwidth,
        "estimates_s": timed.estimates,
        "stops": timed.stops,
        "flags": timed.flags,
        "function_s": timed.function,
        "overhead_s": row.overhead,
        "accuracy": [asdict(output) for output in timed.accuracy],
        "roofline": None if timed.roofline is None else asdict(timed.roofline),
    }


def _seconds(row: Row) -> dict[str, Any] | None:
    if row.timing is None or row.spread is None:
        return None
    spread = row.spread
    return {
        "value": row.timing.seconds,
        **{name: getattr(row.timing.interval, name, None) for name in ("low", "high", "method")},
        "mean": spread.mean,
        "std": spread.deviation,
        "min": spread.min,
        "p50": spread.p50,
        "p99": spread.p99,
        "max": spread.max,
        "samples": spread.n,
    }
