"""Summarise a run on a node: what was measured, which values are doubtful, what is left to do. Pure.

A time below what the memory or the arithmetic of the machine allows is not fast, it is wrong: the cache was warm, the
work was not done, or the timer stopped before the kernel did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel_velocity import units
from kernel_velocity.harness.ceilings import Ceiling, from_document, peak, roof
from kernel_velocity.harness.telemetry import FLAGS
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import WANTED_ROUNDS, Measurement, Outcome
from kernel_velocity.roofline.ceilings import as_text, session_of
from kernel_velocity.roofline.model import IMPOSSIBLE
from kernel_velocity.runner import sharing
from kernel_velocity.runner.facts import Facts
from kernel_velocity.runner.report import speed_table
from kernel_velocity.tables import aligned, columns

LISTED = 40  # doubts printed in full; more than that have one cause, and are counted
NAMED = 3  # values that a line names before it counts them
WIDE = 0.05  # relative half-width of the interval over rounds; a tenth of what kernels differ by is 1%
# A working set is compared with what was measured on sets down to a quarter of it: how much of one a cache holds is not
# known to better than that (associativity, other tenants).
FRACTION = 4
ASK = "was the work done, did the timer wait for it, was the machine busy when its ceiling was measured?"


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a run has measured so far. A document is None where its stage has not ended yet."""

    facts: Facts
    device: str
    head: str
    commits: Sequence[str]  # newest first
    slices: int
    notes: Sequence[str]
    tests: Mapping[str, Any] | None
    sharing: Mapping[str, Any] | None
    ceilings: Mapping[str, Any] | None
    timers: Mapping[str, Any] | None
    traces: int  # files
    measurements: Sequence[Measurement]
    left: Sequence[str]  # stages with something left to do
    failed: Sequence[str]  # stages that ended with a failure


def render(report: Report) -> str:
    """Return the summary as Markdown."""
    doubts = [f"- {line}" for line in _doubts(report)]
    if doubts[LISTED:]:
        doubts[LISTED:] = [f"- and {len(doubts) - LISTED} more"]
    timed = [measurement for measurement in report.measurements if measurement.outcome is not Outcome.NOT_APPLICABLE]
    speeds = speed_table(timed, report.commits[::-1])  # of the series that were asked for
    sections = {
        "Doubtful values": "\n".join(doubts) or "nothing speaks against what was measured",
        "Tests": _tests(report.tests) if report.tests else "not run yet",
        "Series that share a process": _sharing(report.sharing),
        "Ceilings": _ceilings(report.ceilings) if report.ceilings else "not measured yet",
        "Measured": _fenced(f"{_counts(report)}\n\n{speeds}") if report.measurements else "nothing yet",
        "Timers compared": _timers(report.timers) if report.timers else "not compared yet",
        "Raw traces": units.count(report.traces, "file") if report.traces else "none yet",
    }
    return "\n".join([_head(report), *(f"## {title}\n\n{text}\n" for title, text in sections.items())])


def _head(report: Report) -> str:
    facts = report.facts
    gpus, cpu = ", ".join(facts.gpus), f"{facts.processor}, {units.count(facts.cores, 'core')}"
    lines = [
        "# kernel-velocity on a node without a network",
        "",
        f"- device: {report.device}: {gpus if report.device == 'cuda' else cpu}; driver {facts.driver or 'none'}",
        f"- PyTorch {facts.torch} (CUDA {facts.torch_cuda or 'none'}), Python {facts.python}, {facts.libc}",
        f"- compilers: {facts.toolchain}",
        f"- suite of {report.head[:SHORT]}; commits {', '.join(sha[:SHORT] for sha in report.commits)}",
        f"- {units.count(report.slices, 'slice')}; left to do: {', '.join(report.left) or 'nothing'}",
        *(f"- note: {note}" for note in report.notes),
        *(f"- failed: stage {name} (logs/{name}.log)" for name in report.failed),
    ]
    return "\n".join(lines) + "\n"


def _doubts(report: Report) -> Iterator[str]:
    """Yield what speaks against the figures, a line for each reason: what concerns many values has one cause."""
    tests = report.tests
    if tests is None and ("tests" in report.failed or report.measurements):
        ended = "the tests ended without a report" if "tests" in report.failed else "the tests have not run"
        yield f"nothing says that the kernels are right: {ended}"
    if tests is not None and not tests["passed"]:
        yield f"nothing says that the kernels are right: no test passed, {tests['skipped']} were skipped"
    for name, why in tests["failures"] if tests else ():
        yield f"wrong: {name}: {why}"
    for row in report.timers["rows"] if report.timers else ():
        if row["agrees"] is False:
            why = f": {row['why']}" if row["why"] else ""
            yield f"{_series(row)}: timers differ by {units.share(abs(row['worst']))}{why}"
    ceilings = from_document(report.ceilings) if report.ceilings else ()
    values: dict[str, list[str]] = {}
    for measurement in report.measurements:
        key = measurement.key
        series = f"{key.benchmark.removesuffix('.time_hot')} {key.implementation} {key.case}"
        for reason, figure in against(measurement, ceilings):
            values.setdefault(reason, []).append(f"{measurement.commit[:SHORT]} {series} ({figure})")
    for reason, named in values.items():
        many = f"{units.count(len(named), 'value')}, such as {named[0]}"
        yield f"{reason}: {many if named[NAMED:] else ', '.join(named)}"


def against(measurement: Measurement, ceilings: Sequence[Ceiling]) -> Iterator[tuple[str, str]]:
    """Yield what speaks against a value: a reason, which others may share, and its own figure."""
    if measurement.outcome is not Outcome.MEASURED or measurement.seconds is None:
        return
    if measurement.bytes_moved is not None:
        limit, rate = (
            roof(ceilings, int(measurement.bytes_moved) // FRACTION),
            measurement.bytes_moved / measurement.seconds,
        )
        if limit is not None and rate > IMPOSSIBLE * limit:
            figure = f"{units.bandwidth(rate / 1e9)}, at most {units.bandwidth(limit / 1e9)}"
            yield f"impossible: faster than the memory was measured to be; {ASK}", figure
    if measurement.flop is not None:
        limit, rate, unit = (
            peak(ceilings, measurement.key.dtype),
            measurement.flop / measurement.seconds,
            measurement.key.rate_unit,
        )
        if limit is not None and rate > IMPOSSIBLE * limit:
            figure = f"{units.rate(rate / 1e9, unit)}, at most {units.rate(limit / 1e9, unit)}"
            yield f"impossible: faster than {measurement.key.dtype} arithmetic was measured to be; {ASK}", figure
    if measurement.rounds is not None and measurement.rounds < WANTED_ROUNDS:
        yield f"fewer than {WANTED_ROUNDS} rounds, no verdict can rest on it", units.count(measurement.rounds, "round")
    if measurement.interval is not None:
        half = (measurement.interval.high - measurement.interval.low) / 2 / measurement.seconds
        if half > WIDE:
            yield f"its rounds scatter by more than {units.share(WIDE)}", f"±{units.share(half)}"
    for warning in measurement.warnings:  # such as "underfed in 2 of 8 rounds"
        flag, _, count = warning.partition(" in ")
        if flag in FLAGS:
            yield f"flagged {flag}", count


def _tests(tests: Mapping[str, Any]) -> str:
    counts = f"{tests['passed']} passed, {tests['failed']} failed, {tests['skipped']} skipped"
    return "\n".join([counts, *(f"- skipped: {reason}" for reason in tests["reasons"])])


def _sharing(document: Mapping[str, Any] | None) -> str:
    rows = document["rows"] if document else []
    return _fenced(aligned(sharing.table(rows))) if rows else "not compared yet"


def _ceilings(document: Mapping[str, Any]) -> str:
    return _fenced(as_text(document, [session_of(document, 0.0)]))


def _counts(report: Report) -> str:
    rows = [["commit", "measured", "n/a", "failed", "fewest rounds"]]
    for sha in report.commits:
        measured = [measurement for measurement in report.measurements if measurement.commit == sha]
        counts = Counter(measurement.outcome for measurement in measured)
        numbers = [counts[outcome] for outcome in (Outcome.MEASURED, Outcome.NOT_APPLICABLE, Outcome.FAILED)]
        fewest = min((measurement.rounds for measurement in measured if measurement.rounds is not None), default="-")
        rows.append([sha[:SHORT], *map(str, [*numbers, fewest])])
    return columns(rows)


def _timers(document: Mapping[str, Any]) -> str:
    methods = list(dict.fromkeys(name for row in document["rows"] for name in row["others"]))
    rows = [["series", "ours", *methods, "worst", "verdict"]]
    for row in document["rows"]:
        times = [row["harness"], *(row["others"].get(name) for name in methods)]
        cells = ["-" if value is None else units.seconds(value) for value in times]
        worst = "-" if row["worst"] is None else f"{row['worst']:+.1%}"
        unknown = "not compared" if row["worst"] is None else "too noisy"  # passes differ by more than the methods
        agrees = {True: "agree", False: "DISAGREE", None: unknown}[row["agrees"]]
        rows.append([_series(row), *cells, worst, "not timed" if row["harness"] is None else agrees])
    missing = [f"- no {method}: {reason}" for method, reason in document["missing"].items()]
    return "\n".join([_fenced(columns(rows)), "", *missing])


def _series(row: Mapping[str, Any]) -> str:
    return f"{row['kernel']} {row['implementation']} {row['case']}"


def _fenced(text: str) -> str:
    return f"```\n{text}\n```"
