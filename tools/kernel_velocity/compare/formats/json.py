"""A comparison as JSON, for scripts: strict JSON, base units but where a key says otherwise.

The keys, version 1. Top: `schema` ("kernel-velocity/compare"), `version`, `began` (Unix time, s), `took_s`,
`environment`, `settings` (text by name), `warnings`, `right` (false if any implementation is wrong or failed),
`results`, `speed_ups`.

Of a result, one per implementation and test case:

    name, test_id       the test case, and its number within its problem, from 1
    gflops, runtime_ms  10^9 FLOP/s and ms per call, from the median of the round estimates
    problem, implementation, device, dtype, dims, elements, tensor_bytes, flops, bytes, memory
    footprint           bytes of memory that a call touches, each once; `bytes` is its traffic
    status, reason      "right", "WRONG", "FAILED", "n/a" or "not verified"; why, where there is no value
    seconds             value, low, high (95% interval over rounds), method; mean, std, min, p50, p99, max and samples
    bytes_per_second    traffic over time
    estimates_s, stops  of every round
    function_s, overhead_s   the whole function, and what of it lies outside the call
    flags, accuracy     accuracy: output, right, details, for each output
    roofline            the fields of roofline/model.py's Roofline
    power               [s since the start, W] pairs
    samples_s           the samples of every round, where they are asked for

What is unknown is null. JSON has no NaN and no infinity: such a number is the string "NaN", "Infinity" or "-Infinity",
which Python's float() and JavaScript's Number() read, so that an error of NaN cannot pass for an unknown one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kernel_velocity.compare.formats.figures import (
    Figures,
    Row,
    interval_method,
    is_bad,
    reason,
    rows,
    speed_ups,
    status,
)
from kernel_velocity.compare.result import Comparison

SCHEMA = "kernel-velocity/compare"
VERSION = 1


def as_json(comparison: Comparison, *, samples: bool = False) -> str:
    """Return the comparison as the module describes it, with a line break at the end.

    Args:
        comparison: what was found.
        samples: whether every sample is written, too.
    """
    document = {
        "schema": SCHEMA,
        "version": VERSION,
        "began": comparison.began,
        "took_s": comparison.took,
        "environment": comparison.environment,
        "settings": comparison.settings,
        "warnings": comparison.warnings,
        "right": not any(is_bad(timed) for compared in comparison.compared for timed in compared.timed),
        "results": [_result(row, samples) for row in rows(comparison)],
        "speed_ups": [
            {"problem": compared.problem, "name": compared.case, "device": compared.device, **asdict(each)}
            for compared in comparison.compared
            for each in speed_ups(compared, comparison.settings.get("reference"))
        ],
    }
    return strict_json(document)


def strict_json(document: Any) -> str:
    """Return a value as indented JSON that every parser reads: no NaN, no infinity, no half of a surrogate pair."""
    return json.dumps(plain(document), indent=2, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """Return a value as what JSON has: numbers that are not finite, and what JSON has no form for, become text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _not_finite(value)
    item = getattr(value, "item", None)  # a number of numpy's, or a tensor of one
    if callable(item) and getattr(value, "size", 1) == 1:
        return plain(item())
    return str(value)


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _result(row: Row, samples: bool) -> dict[str, Any]:
    compared, timed, found = row.compared, row.timed, row.figures
    result = {
        "name": compared.case,
        "test_id": row.number,
        "gflops": None if found is None or found.rate is None else found.rate / 1e9,
        "runtime_ms": None if found is None else found.seconds * 1e3,
        "problem": compared.problem,
        "implementation": timed.implementation,
        "device": compared.device,
        "dtype": compared.dtype,
        "dims": compared.dims,
        "elements": compared.elements,
        "tensor_bytes": compared.tensor_bytes,
        "flops": compared.flops,
        "bytes": compared.bytes,
        "footprint": compared.footprint,
        "memory": compared.memory,
        "status": status(timed),
        "reason": reason(timed) or None,
        "seconds": None if found is None else _seconds(found),
        "bytes_per_second": None if found is None else found.bandwidth,
        "estimates_s": timed.estimates,
        "stops": timed.stops,
        "flags": timed.flags,
        "function_s": timed.function,
        "overhead_s": None if found is None else found.overhead,
        "accuracy": [asdict(each) for each in timed.accuracy],
        "roofline": None if timed.roofline is None else asdict(timed.roofline),
        "power": timed.power,
    }
    return result | ({"samples_s": timed.rounds} if samples else {})


def _seconds(found: Figures) -> dict[str, Any]:
    return {
        "value": found.seconds,
        "low": None if found.interval is None else found.interval.low,
        "high": None if found.interval is None else found.interval.high,
        "method": interval_method(found),
        "mean": found.mean,
        "std": found.std,
        "min": found.minimum,
        "p50": found.p50,
        "p99": found.p99,
        "max": found.maximum,
        "samples": found.samples,
    }
