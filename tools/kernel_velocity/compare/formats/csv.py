"""A comparison as CSV (RFC 4180, lines ended by a line feed): one row per implementation and test case.

Units stand in the header, in square brackets. The columns memory location, data size, elements, mean and standard
deviation are those of published tables. Unknown is an empty field.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping

from kernel_velocity.compare.formats.figures import (
    MAXIMUM_KEYS,
    MEAN_KEYS,
    RELATIVE_KEYS,
    TOTAL_KEYS,
    Figures,
    Row,
    reason,
    rows,
    status,
)
from kernel_velocity.compare.formats.figures import worst as worst_of
from kernel_velocity.compare.result import Comparison
from kernel_velocity.roofline.model import Roofline

Value = str | float | int | None
# A spreadsheet takes text that begins so for a formula (OWASP, CSV Injection)
FORMULA = ("=", "+", "-", "@", "\t", "\r")
DIGITS = 9  # significant: more than any clock resolves


def as_csv(comparison: Comparison) -> str:
    """Return the comparison as CSV, a header and a row per implementation and test case."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows(comparison):
        writer.writerow([_field(of(row)) for of in COLUMNS.values()])
    return out.getvalue()


def _field(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        text = " ".join(value.splitlines())
        return f"'{text}" if text.startswith(FORMULA) else text
    return str(value) if isinstance(value, int) else f"{value:.{DIGITS}g}"


def _figure(of: Callable[[Figures], float | int | None], scale: float = 1.0) -> Callable[[Row], Value]:
    """Return a column of the figures, scaled; empty where there are none."""

    def column(row: Row) -> Value:
        found = None if row.figures is None else of(row.figures)
        return found if found is None or scale == 1.0 else found * scale

    return column


def _roofline(of: Callable[[Roofline], Value], scale: float = 1.0) -> Callable[[Row], Value]:
    def column(row: Row) -> Value:
        found = None if row.timed.roofline is None or row.figures is None else of(row.timed.roofline)
        return found * scale if isinstance(found, float) and scale != 1.0 else found

    return column


COLUMNS: Mapping[str, Callable[[Row], Value]] = {
    "problem": lambda row: row.compared.problem,
    "test case": lambda row: row.compared.case,
    "implementation": lambda row: row.timed.implementation,
    "device": lambda row: row.compared.device,
    "dtype": lambda row: row.compared.dtype,
    "memory location": lambda row: row.compared.memory,
    "data size [MB per tensor]": lambda row: row.compared.tensor_bytes / 1e6,
    "elements": lambda row: row.compared.elements,
    "mean [ms]": _figure(lambda found: found.mean, 1e3),
    "standard deviation [ms]": _figure(lambda found: found.std, 1e3),
    "median of round estimates [ms]": _figure(lambda found: found.seconds, 1e3),
    "95% interval low [ms]": _figure(lambda found: None if found.interval is None else found.interval.low, 1e3),
    "95% interval high [ms]": _figure(lambda found: None if found.interval is None else found.interval.high, 1e3),
    "minimum [ms]": _figure(lambda found: found.minimum, 1e3),
    "p50 [ms]": _figure(lambda found: found.p50, 1e3),
    "p99 [ms]": _figure(lambda found: found.p99, 1e3),
    "maximum [ms]": _figure(lambda found: found.maximum, 1e3),
    "samples": _figure(lambda found: found.samples),
    "rounds": lambda row: len(row.timed.estimates),
    "rate [GFLOPS]": _figure(lambda found: found.rate, 1e-9),
    "bandwidth [GB/s]": _figure(lambda found: found.bandwidth, 1e-9),
    "efficiency [%]": _roofline(lambda found: found.efficiency, 100),
    "roof ratio": _roofline(lambda found: found.roof_ratio),
    "cache benefit [times]": _roofline(lambda found: found.cache_benefit),
    "bound": _roofline(lambda found: found.bound),
    "attainable [GFLOPS]": _roofline(lambda found: found.attainable, 1e-9),
    "whole function [ms]": lambda row: None if row.timed.function is None else row.timed.function * 1e3,
    "overhead outside the call [ms]": _figure(lambda found: found.overhead, 1e3),
    "maximum absolute error": lambda row: worst_of(row.timed.accuracy, MAXIMUM_KEYS),
    "mean absolute error": lambda row: worst_of(row.timed.accuracy, MEAN_KEYS),
    "maximum relative error": lambda row: worst_of(row.timed.accuracy, RELATIVE_KEYS),
    "total absolute error": lambda row: worst_of(row.timed.accuracy, TOTAL_KEYS),
    "result": lambda row: status(row.timed),
    "reason": lambda row: reason(row.timed) or None,
    "flags": lambda row: " ".join(row.timed.flags) or None,
}
