"""What about a node's figures is not to be believed, and why. Pure: values in, lines out.

A time below what the memory or the arithmetic of the machine allows is not fast, it is wrong: the cache was warm where
it was thought cold, the work was not done, or the timer stopped before the kernel did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel_velocity import units
from kernel_velocity.harness.ceilings import Ceiling, peak, roof
from kernel_velocity.harness.telemetry import FLAGS
from kernel_velocity.results.measurement import WANTED_ROUNDS, Measurement, Outcome

IMPOSSIBLE = 1.05  # times a measured ceiling: more than the error of measuring it (warned of where it is over 5%)
NAMED = 3  # series that a line names before it counts them
WIDE = 0.05  # relative half-width of the interval over rounds; a tenth of what kernels differ by is 1%
# A working set is compared with what was measured on sets down to a quarter of it: how much of one a cache holds is not
# known to better than that (associativity, other tenants).
FRACTION = 4
_ASK = "was the work done, did the timer wait for it, was the machine busy when its ceiling was measured?"


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """A series at a commit, and what speaks against its value: a reason that others may share, and its own figure."""

    series: str
    commit: str
    why: str
    figure: str = ""

    @property
    def place(self) -> str:
        """Return which value is meant, with the figure."""
        return f"{self.commit[:8]} {self.series}" + (f" ({self.figure})" if self.figure else "")


def series_name(item: Measurement) -> str:
    """Return a series as people name it: "matmul.Cpu native float32-512x512x512"."""
    return f"{item.key.benchmark.removesuffix('.time_hot')} {item.key.implementation} {item.key.case}"


def doubts(measurements: Iterable[Measurement], ceilings: Sequence[Ceiling]) -> list[Doubt]:
    """Return what speaks against each measured value."""
    return [
        Doubt(series=series_name(item), commit=item.commit, why=why, figure=figure)
        for item in measurements
        if item.outcome is Outcome.MEASURED and item.seconds is not None
        for why, figure in _against(item, item.seconds, ceilings)
    ]


def lines(found: Iterable[Doubt]) -> list[str]:
    """Return the doubts as lines, one per reason: what speaks against many values is one cause."""
    by_reason: dict[str, list[str]] = {}
    for doubt in found:
        by_reason.setdefault(doubt.why, []).append(doubt.place)
    return [f"{why}: {_some(places)}" for why, places in by_reason.items()]


def _some(places: Sequence[str]) -> str:
    if len(places) <= NAMED:
        return ", ".join(places)
    return f"{units.count(len(places), 'value')}, such as {places[0]}"


def _against(item: Measurement, seconds: float, ceilings: Sequence[Ceiling]) -> Iterator[tuple[str, str]]:
    """Yield reasons with their figures; unknown ceilings say nothing."""
    if item.bytes_moved is not None:
        limit = roof(ceilings, int(item.bytes_moved) // FRACTION)
        if limit is not None and item.bytes_moved / seconds > IMPOSSIBLE * limit:
            figure = f"{units.gigabytes(item.bytes_moved / seconds / 1e9)}, at most {units.gigabytes(limit / 1e9)}"
            yield f"impossible: faster than the memory was measured to be; {_ASK}", figure
    if item.flop is not None:
        limit, unit = peak(ceilings, item.key.dtype), item.key.rate_unit
        if limit is not None and item.flop / seconds > IMPOSSIBLE * limit:
            figure = f"{units.rate(item.flop / seconds / 1e9, unit)}, at most {units.rate(limit / 1e9, unit)}"
            yield f"impossible: faster than {item.key.dtype} arithmetic was measured to be; {_ASK}", figure
    if item.rounds is not None and item.rounds < WANTED_ROUNDS:
        yield f"fewer than {WANTED_ROUNDS} rounds, no verdict can rest on it", units.count(item.rounds, "round")
    if item.interval is not None:
        half = (item.interval.high - item.interval.low) / 2 / seconds
        if half > WIDE:
            yield f"its rounds scatter by more than {units.share(WIDE)}", f"±{units.share(half)}"
    for flag, count in _flags(item):
        yield f"flagged {flag}", count


def _flags(item: Measurement) -> Iterator[tuple[str, str]]:
    """Yield the flags of a measurement's rounds, from its warnings: "underfed in 2 of 8 rounds"."""
    for text in item.warnings:
        flag, _, count = text.partition(" in ")
        if flag in FLAGS:
            yield flag, count


def of_timers(document: Mapping[str, Any]) -> list[str]:
    """Return a line for each case in which an independent method disagrees with our timer (`timers` stage)."""
    return [
        f"{row['kernel']} {row['implementation']} {row['case']}: timers differ by {units.share(abs(row['worst']))}"
        + (f": {row['why']}" if row.get("why") else "")
        for row in document.get("rows", [])
        if row.get("agrees") is False
    ]


def of_tests(tests: Mapping[str, Any] | None, *, failed: bool, measured: bool) -> list[str]:
    """Return a line for each failed test, or why nothing says that the kernels are right: a wrong kernel has no speed.

    Args:
        tests: what the stage wrote, None where it wrote nothing. failed: the stage ended with a failure. measured:
            there are values.
    """
    if tests is None:
        why = "the tests ended without a report" if failed else "the tests have not run"
        return [f"nothing says that the kernels are right: {why}"] if failed or measured else []
    if not tests["passed"]:
        return [
            f"nothing says that the kernels are right: no test passed, {tests['skipped']} were skipped",
            *_wrong(tests),
        ]
    return _wrong(tests)


def _wrong(tests: Mapping[str, Any]) -> list[str]:
    return [f"wrong: {name}: {why}" for name, why in tests["failures"]]
