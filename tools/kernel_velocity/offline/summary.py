"""The summary of a run on a node: what was measured, what of it to believe, what is left. Pure: values in, text out.

What about a node's figures is not to be believed, and why. Pure: values in, lines out.

A time below what the memory or the arithmetic of the machine allows is not fast, it is wrong: the cache was warm where
it was thought cold, the work was not done, or the timer stopped before the kernel did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel_velocity import units
from kernel_velocity.harness.ceilings import Ceiling, from_document, peak, roof
from kernel_velocity.harness.telemetry import FLAGS
from kernel_velocity.offline.facts import Facts
from kernel_velocity.offline.timers import verdict
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import WANTED_ROUNDS, Measurement, Outcome

_LISTED = 40  # doubts printed in full; more than that are one cause, and counted

IMPOSSIBLE = 1.05  # times a measured ceiling: more than the error of measuring it (warned of where it is over 5%)
NAMED = 3  # series that a line names before it counts them
WIDE = 0.05  # relative half-width of the interval over rounds; a tenth of what kernels differ by is 1%
# A working set is compared with what was measured on sets down to a quarter of it: how much of one a cache holds is not
# known to better than that (associativity, other tenants).
FRACTION = 4
_ASK = "was the work done, did the timer wait for it, was the machine busy when its ceiling was measured?"


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a run found so far; None where a stage has not ended yet."""

    facts: Facts
    device: str
    head: str
    commits: tuple[str, ...]  # newest first
    slices: int
    notes: tuple[str, ...]
    tests: Mapping[str, Any] | None
    ceilings: Mapping[str, Any] | None
    timers: Mapping[str, Any] | None
    traces: int  # files
    measurements: tuple[Measurement, ...]
    left: tuple[str, ...]  # stages with something left to do
    failed: tuple[str, ...]  # stages that ended with a failure


def render(report: Report) -> str:
    """Return the summary as Markdown."""
    ceilings = () if report.ceilings is None else from_document(report.ceilings)
    parts = [
        _head(report),
        _section("Not to be believed", _doubts(report, ceilings), "nothing speaks against what was measured"),
        _section("Tests", _tests(report.tests), "not run yet"),
        _section("Ceilings", _ceilings(report.ceilings, ceilings), "not measured yet"),
        _section("Measured", _commits(report), "nothing yet"),
        _section("Newest commit", _speeds(report, ceilings), "nothing yet"),
        _section("Timers compared", _timers(report.timers), "not compared yet"),
        _section("Raw traces", [f"{units.count(report.traces, 'file')}"] if report.traces else [], "none yet"),
    ]
    return "\n".join(parts)


def _section(title: str, lines: Sequence[str] | Iterator[str], otherwise: str) -> str:
    text = "\n".join(lines).strip() or otherwise
    return f"## {title}\n\n{text}\n"


def _head(report: Report) -> str:
    facts = report.facts
    what = (
        ", ".join(facts.gpus) if report.device == "cuda" else f"{facts.processor}, {units.count(facts.cores, 'core')}"
    )
    lines = [
        "# kernel-velocity on a node without a network",
        "",
        f"- device: {report.device}: {what}; driver {facts.driver or 'none'}",
        f"- PyTorch {facts.torch} (CUDA {facts.torch_cuda or 'none'}), Python {facts.python}, {facts.libc}",
        f"- compilers: {facts.toolchain}",
        f"- suite of {report.head[:SHORT]}; commits {', '.join(sha[:SHORT] for sha in report.commits)}",
        f"- {units.count(report.slices, 'slice')}; left to do: {', '.join(report.left) or 'nothing'}",
        *(f"- note: {note}" for note in report.notes),
        *(f"- failed: stage {name} (logs/{name}.log)" for name in report.failed),
    ]
    return "\n".join(lines) + "\n"


def _doubts(report: Report, ceilings: Sequence[Ceiling]) -> list[str]:
    found = [
        *of_tests(report.tests, failed="tests" in report.failed, measured=bool(report.measurements)),
        *(of_timers(report.timers) if report.timers else []),
        *lines(doubts(report.measurements, ceilings)),
    ]
    more = len(found) - _LISTED
    return [f"- {line}" for line in found[:_LISTED]] + ([f"- and {more} more"] if more > 0 else [])


def _tests(tests: Mapping[str, Any] | None) -> Iterator[str]:
    if tests is None:
        return
    yield f"{tests['passed']} passed, {tests['failed']} failed, {tests['skipped']} skipped"
    yield from (f"- skipped: {reason}" for reason in tests["reasons"])


def _ceilings(document: Mapping[str, Any] | None, ceilings: Sequence[Ceiling]) -> Iterator[str]:
    if document is None:
        return
    rows = [["what", "working set, MB", "dtype", "value", "scatter"]]
    rows += [_ceiling_row(item) for item in ceilings]
    yield from table(rows)
    yield ""
    yield from (f"- warning: {line}" for line in document["warnings"])


def _ceiling_row(item: Ceiling) -> list[str]:
    size = "" if item.bytes is None else units.significant(item.bytes / 1e6)
    value = f"none: {item.why}" if item.value is None else _value(item.value, item.unit, item.dtype)
    return [item.what, size, item.dtype or "", value, "" if item.spread is None else units.share(item.spread)]


def _value(value: float, unit: str, dtype: str | None) -> str:
    if unit == "s":
        return units.seconds(value)
    return units.gigabytes(value / 1e9) if unit == "B/s" else units.rate(value / 1e9, units.rate_unit(dtype or ""))


def _commits(report: Report) -> Iterator[str]:
    if not report.measurements:
        return
    yield from table([["commit", "measured", "n/a", "failed", "fewest rounds"], *_commit_rows(report)])


def _commit_rows(report: Report) -> Iterator[list[str]]:
    for sha in report.commits:
        items = [item for item in report.measurements if item.commit == sha]
        counts = Counter(item.outcome for item in items)
        rounds = [item.rounds for item in items if item.rounds is not None]
        numbers = [counts[outcome] for outcome in (Outcome.MEASURED, Outcome.NOT_APPLICABLE, Outcome.FAILED)]
        yield [sha[:SHORT], *map(str, numbers), str(min(rounds)) if rounds else ""]


def _speeds(report: Report, ceilings: Sequence[Ceiling]) -> Iterator[str]:
    """Yield a table of the newest commit that has values: time, rates, share of what the memory allows."""
    shown = [sha for sha in report.commits if any(_has_value(item, sha) for item in report.measurements)]
    if not shown:
        return
    items = [item for item in report.measurements if _has_value(item, shown[0])]
    rows = [["series", "time", units.rate_units(item.key.dtype for item in items), "GB/s", "of bandwidth"]]
    rows += [_speed_row(item, ceilings) for item in items]
    yield f"{shown[0][:SHORT]}; the last column is the share of the highest bandwidth measured for as much data"
    yield ""
    yield from table(rows)


def _has_value(item: Measurement, sha: str) -> bool:
    return item.commit == sha and item.seconds is not None


def _speed_row(item: Measurement, ceilings: Sequence[Ceiling]) -> list[str]:
    seconds = item.seconds or 0.0
    limit = None if item.bytes_moved is None else roof(ceilings, int(item.bytes_moved))
    rate = item.gigabytes
    return [
        series_name(item),
        units.seconds(seconds),
        "" if item.gflops is None else units.significant(item.gflops),
        "" if rate is None else units.significant(rate),
        "" if rate is None or limit is None else units.share(rate * 1e9 / limit),
    ]


def _timers(document: Mapping[str, Any] | None) -> Iterator[str]:
    if document is None:
        return
    methods = list(dict.fromkeys(name for row in document["rows"] for name in row["others"]))
    rows = [["series", "ours", *methods, "worst", "verdict"]]
    for row in document["rows"]:
        times = [row["harness"], *(row["others"].get(name) for name in methods)]
        cells = ["" if value is None else units.seconds(value) for value in times]
        worst = "" if row["worst"] is None else f"{row['worst']:+.1%}"
        rows.append([f"{row['kernel']} {row['implementation']} {row['case']}", *cells, worst, verdict(row)])
    yield from table(rows)
    yield ""
    yield from (f"- no {method}: {reason}" for method, reason in document["missing"].items())


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows (the first is the head) as the lines of a Markdown table, aligned for those who read the text."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


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
