"""What about a node's figures is not to be believed, and why. Pure: values in, lines out.

A time below what the memory or the arithmetic of the machine allows is not fast, it is wrong: the cache was warm where
it was thought cold, the work was not done, or the timer stopped before the kernel did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.harness.ceilings import Ceiling, peak, roof
from tools import units
from tools.measurements import WANTED_ROUNDS, Measurement, Outcome

IMPOSSIBLE = 1.05  # times a measured ceiling: more than the error of measuring it (warned of where it is over 5%)
NAMED = 3  # series that a line names before it counts them
WIDE = 0.05  # relative half-width of the interval over rounds; a tenth of what kernels differ by is 1%
# A working set is compared with what was measured on sets down to a quarter of it: how much of one a cache holds is not
# known to better than that (associativity, other tenants).
FRACTION = 4
MATRIX_DTYPE = "float32"  # what the arithmetic of today's kernels is done in


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """A series at a commit, and what speaks against its value."""

    series: str
    commit: str
    why: str


def series_name(item: Measurement) -> str:
    """Return a series as people name it: "matmul.Cpu native float32-512x512x512"."""
    return f"{item.key.benchmark.removesuffix('.time_hot')} {item.key.implementation} {item.key.case}"


def doubts(measurements: Iterable[Measurement], ceilings: Sequence[Ceiling]) -> list[Doubt]:
    """Return what speaks against each measured value."""
    return [
        Doubt(series=series_name(item), commit=item.commit, why=why)
        for item in measurements
        if item.outcome is Outcome.MEASURED
        for why in _against(item, ceilings)
    ]


def lines(found: Iterable[Doubt]) -> list[str]:
    """Return the doubts as lines, one per reason: what speaks against many values is one cause."""
    by_reason: dict[str, list[str]] = {}
    for doubt in found:
        by_reason.setdefault(doubt.why, []).append(f"{doubt.commit[:8]} {doubt.series}")
    return [f"{why}: {_some(names)}" for why, names in by_reason.items()]


def _some(names: Sequence[str]) -> str:
    if len(names) <= NAMED:
        return ", ".join(names)
    return f"{units.count(len(names), 'value')}, such as {names[0]}"


def _against(item: Measurement, ceilings: Sequence[Ceiling]) -> Iterator[str]:
    if item.seconds is None:
        return
    yield from _impossible(item, item.seconds, ceilings)
    if item.rounds is not None and item.rounds < WANTED_ROUNDS:
        yield f"{units.count(item.rounds, 'round')} of {WANTED_ROUNDS}: no verdict can rest on it"
    if item.interval is not None:
        half = (item.interval.high - item.interval.low) / 2 / item.seconds
        if half > WIDE:
            yield f"its rounds scatter: interval of ±{units.share(half)}"
    yield from (text for text in item.warnings if " rounds" in text and " in " in text)  # flags of its rounds


def _impossible(item: Measurement, seconds: float, ceilings: Sequence[Ceiling]) -> Iterator[str]:
    """Yield by how much a time is below what was measured of the machine; unknown ceilings say nothing."""
    if item.bytes_moved is not None:
        limit = roof(ceilings, int(item.bytes_moved) // FRACTION)
        if limit is not None and item.bytes_moved / seconds > IMPOSSIBLE * limit:
            rate = item.bytes_moved / seconds / 1e9
            yield (
                f"impossible: {units.gigabytes(rate)}, where the highest bandwidth measured for that much data is "
                f"{units.gigabytes(limit / 1e9)}: was the work done, and did the timer wait for it?"
            )
    if item.flop is not None:
        limit = peak(ceilings, MATRIX_DTYPE)
        if limit is not None and item.flop / seconds > IMPOSSIBLE * limit:
            rate = item.flop / seconds / 1e9
            yield (
                f"impossible: {units.gflops(rate)}, where {units.gflops(limit / 1e9)} is the most measured for "
                f"{MATRIX_DTYPE}: another precision, or work not done?"
            )


def of_timers(document: Mapping[str, Any]) -> list[str]:
    """Return a line for each case in which an independent method disagrees with our timer (`timers` stage)."""
    return [
        f"{row['kernel']} {row['implementation']} {row['case']}: timers differ by {units.share(abs(row['worst']))}"
        + (f": {row['why']}" if row.get("why") else "")
        for row in document.get("rows", [])
        if row.get("agrees") is False
    ]


def of_tests(tests: Mapping[str, Any]) -> list[str]:
    """Return a line for each failed test: a kernel that is wrong has no speed."""
    return [f"wrong: {name}: {why}" for name, why in tests.get("failures", [])]
