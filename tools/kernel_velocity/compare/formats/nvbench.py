"""A comparison in nvbench's JSON, so that its nvbench_compare.py reads it.

The form is that of NVIDIA/nvbench's json_printer (file version 1.0.0), and what python/scripts/nvbench_compare.py asks
of it: equal `devices` on both sides; benchmarks found by `name`, states by `name`, with `axes` and `axis_values`; of a
state's `summaries` those tagged nv/cold/time/gpu/mean and stdev/relative; of later versions median and ir/relative,
then iqr/relative. Values are text with a type beside it, since JSON's numbers would cut 64-bit integers.

nvbench's tags say "cold" and "gpu". Its scripts know no others, so that hot times and times of a CPU are written under
them, too; `meta` says what they are. An implementation without a time is a state that `is_skipped`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kernel_velocity.compare.formats.figures import Figures, Row, reason, rows, status
from kernel_velocity.compare.formats.json import strict_json
from kernel_velocity.compare.result import Comparison

FILE_VERSION = (1, 0, 0)
COLD, GPU = "nv/cold/", "nv/cold/time/gpu/"
TIMING = "tags of nvbench's cold GPU times hold this comparison's times, whatever their cache state and device"
HIDDEN = "Hidden by default."
CASE_AXIS, IMPLEMENTATION_AXIS = "Case", "Implementation"


def as_nvbench(comparison: Comparison) -> str:
    """Return the comparison as nvbench writes one: `meta`, `devices`, `benchmarks` with states and summaries."""
    found = list(rows(comparison))
    devices = list(dict.fromkeys(row.compared.device for row in found))
    groups: dict[str, list[Row]] = {}
    for row in found:
        groups.setdefault(row.compared.problem, []).append(row)
    return strict_json(
        {
            "meta": _meta(comparison),
            "devices": [
                {"id": index, "name": _device_name(comparison, device)} for index, device in enumerate(devices)
            ],
            "benchmarks": [
                _benchmark(index, name, group, devices) for index, (name, group) in enumerate(groups.items())
            ],
        }
    )


def _meta(comparison: Comparison) -> dict[str, Any]:
    major, minor, patch = FILE_VERSION
    version = {"major": major, "minor": minor, "patch": patch, "string": ".".join(map(str, FILE_VERSION))}
    return {
        "argv": ["kv", "compare"],
        "version": {"json": version},
        "kernel-velocity": {
            "timing": TIMING,
            "environment": comparison.environment,
            "settings": comparison.settings,
        },
    }


def _device_name(comparison: Comparison, device: str) -> str:
    return comparison.environment.get("device", device)


def _benchmark(index: int, name: str, found: Sequence[Row], devices: Sequence[str]) -> dict[str, Any]:
    return {
        "name": name,
        "index": index,
        "devices": [devices.index(device) for device in dict.fromkeys(row.compared.device for row in found)],
        "axes": [
            _axis(CASE_AXIS, [row.compared.case for row in found]),
            _axis(IMPLEMENTATION_AXIS, [row.timed.implementation for row in found]),
        ],
        "states": [_state(row, devices.index(row.compared.device)) for row in found],
    }


def _axis(name: str, values: Sequence[str]) -> dict[str, Any]:
    entries = [{"input_string": value, "description": "", "value": value} for value in dict.fromkeys(values)]
    return {"name": name, "type": "string", "flags": "", "values": entries}


def _state(row: Row, device: int) -> dict[str, Any]:
    axes = {CASE_AXIS: row.compared.case, IMPLEMENTATION_AXIS: row.timed.implementation}
    state = {
        "name": " ".join([f"Device={device}", *(f"{name}={value}" for name, value in axes.items())]),
        "device": device,
        "type_config_index": 0,
        "axis_values": [{"name": name, "type": "string", "value": value} for name, value in axes.items()],
        "summaries": [] if row.figures is None else list(_summaries(row, row.figures)),
        "is_skipped": row.figures is None,
    }
    return state | ({"skip_reason": reason(row.timed) or status(row.timed)} if row.figures is None else {})


def _summaries(row: Row, found: Figures) -> Iterator[dict[str, Any]]:
    """Return the summaries of a state: of all samples, as nvbench has them, times in s."""
    yield _summary(f"{COLD}sample_size", "Samples", "sample_size", found.samples)
    spread = math.inf if found.std is None else found.std
    for tag, name, value in _locations(row, found):
        yield _summary(f"{GPU}{tag}", name, "duration", value, hide=tag != "mean")
    yield _summary(f"{GPU}stdev/absolute", "Noise", "duration", spread, hide=True)
    yield _summary(f"{GPU}stdev/relative", "Noise", "percentage", spread / found.mean)
    rates = (
        ("bw/item_rate", "Elem/s", "item_rate", row.compared.elements),
        ("bw/global/bytes_per_second", "GlobalMem BW", "byte_rate", row.compared.bytes),
    )
    for tag, name, hint, work in rates:
        if work:
            yield _summary(f"{COLD}{tag}", name, hint, work / found.mean)


def _locations(row: Row, found: Figures) -> Iterator[tuple[str, str, float]]:
    """Return tag, name and value of every time that is not a spread, and of the quartile ranges."""
    first, third = _quartiles(row)
    yield "min", "Min GPU Time", found.minimum
    yield "max", "Max GPU Time", found.maximum
    yield "mean", "GPU Time", found.mean
    yield "q1", "Q1 GPU Time", first
    yield "median", "Median GPU Time", found.p50
    yield "q3", "Q3 GPU Time", third
    for tag in ("ir", "iqr"):  # the later name, and the one before it
        yield f"{tag}/absolute", "Interquartile Range", third - first
        yield f"{tag}/relative", "Interquartile Range", (third - first) / found.p50


def _quartiles(row: Row) -> tuple[float, float]:
    samples = [sample for one in row.timed.rounds for sample in one] or row.timed.estimates
    first, third = np.percentile(np.asarray(samples, dtype=np.float64), (25, 75))
    return float(first), float(third)


def _summary(tag: str, name: str, hint: str, value: float, *, hide: bool = False) -> dict[str, Any]:
    """Return one summary; what is not finite is null, as nvbench's reader wants a noise that is not known."""
    kind = "int64" if isinstance(value, int) else "float64"
    text = repr(value) if math.isfinite(value) else None
    hint = "percentage" if tag.endswith("/relative") else hint
    entry: dict[str, Any] = {"tag": tag, "name": name, "hint": hint}
    if hide:
        entry["hide"] = HIDDEN
    return entry | {"data": [{"name": "value", "type": kind, "value": text}]}
