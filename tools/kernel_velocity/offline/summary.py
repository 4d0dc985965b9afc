"""The summary of a run on a node: what was measured, what of it to believe, what is left. Pure: values in, text out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel_velocity import units
from kernel_velocity.harness.ceilings import Ceiling, from_document, roof
from kernel_velocity.offline import doubts
from kernel_velocity.offline.facts import Facts
from kernel_velocity.offline.timers import verdict
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import Measurement, Outcome

_LISTED = 40  # doubts printed in full; more than that are one cause, and counted


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
        *doubts.of_tests(report.tests, failed="tests" in report.failed, measured=bool(report.measurements)),
        *(doubts.of_timers(report.timers) if report.timers else []),
        *doubts.lines(doubts.doubts(report.measurements, ceilings)),
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
        doubts.series_name(item),
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
