"""The report of a gate: exit status, order of the series, text for a terminal, Markdown, JSON, JUnit XML. Pure."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kernel_velocity import units
from kernel_velocity.findings.verdict_formats import Case, junit
from kernel_velocity.harness import cases, under_test
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.records import Commit
from kernel_velocity.stats.sequential import Answer, Comparison, Obstacle
from kernel_velocity.tables import columns, literal, plain

SPILLS = "spill_bytes"


@dataclass(frozen=True)
class CodeChange:
    """A figure of a kernel's code that differs between two builds."""

    kernel: str
    device: str  # "cpu" or "cuda", that the code is for
    target: str  # "avx512", "sm_90"
    figure: str  # of cases.FIGURES
    before: int
    after: int

    @property
    def spills_more(self) -> bool:
        """Whether more registers spill to memory: the one figure that is worse the higher it is."""
        return self.figure == SPILLS and self.after > self.before

    def __str__(self) -> str:
        """Return it in words: "matmul sm_90: 168 -> 128 registers of a thread"."""
        unit = "bytes spilled" if self.figure == SPILLS else cases.FIGURES[self.device][self.figure]
        return f"{self.kernel} {self.target}: {self.before:,} -> {self.after:,} {unit}"


def code_changes(before: Mapping[str, Any], after: Mapping[str, Any], kernels: Iterable[str]) -> tuple[CodeChange, ...]:
    """Return the figures of kernels that two builds (their build-info.json) both have, and that differ."""
    differing = []
    for kernel, (device, figures) in itertools.product(kernels, cases.FIGURES.items()):
        for target, figure in itertools.product(cases.TARGETS[device], figures):
            with suppress(NotImplementedError):  # a figure that one build lacks is no change
                old, new = (under_test.figure(info, kernel, figure, target) for info in (before, after))
                if old != new:
                    differing.append(CodeChange(kernel, device, target, figure, old, new))
    return tuple(differing)


HEADS = ("benchmark", "answer", "time", "95% interval", "p", "rounds")
DASH = "-"
CODE = "The compiled code changed (HEAD against BASE, read from the builds):"
NOTE = "time: of HEAD against BASE, + is slower; rounds: of each side; p: exact Mann-Whitney"
SPILLS_MORE = "code that cannot be run here spills more registers"
WORDS: Mapping[int, str] = {  # exit status (contract) -> verdict
    0: "no regression",
    10: "regression confirmed",
    11: "suspect",
    20: "a benchmark failed",
    21: "a commit does not build",
    22: "nothing was compared",
}


def doubt(comparison: Comparison) -> str:
    """Return why a series may be slower, in words. "" where it cannot be, or has no time at all."""
    if comparison.suspect:
        return "slower by the floor or more, but not settled"
    if comparison.unseen:
        return "too few rounds for a look"
    return "gone: it had times before" if comparison.obstacle is Obstacle.GONE else ""


@dataclass(frozen=True)
class Row:
    """A series of the report."""

    series: Series
    comparison: Comparison
    expected: str | None  # the reason that somebody gave for its being slower

    @property
    def name(self) -> str:
        """The series in one text: "matmul.Cpu.time_hot native float32-512x512x512"."""
        return name(self.series)

    @property
    def reason(self) -> str:
        """The reason of the answer, and that of an expectation."""
        reason = self.comparison.reason
        return reason if self.expected is None else f"{reason}; {plain(self.expected)}"

    @property
    def answer(self) -> str:
        """The answer in a word or two: "different", "unknown, suspect", "different, expected"."""
        leaning = ", expected" if self.expected is not None else ", suspect" if self.comparison.suspect else ""
        return f"{self.comparison.answer.value}{leaning}"

    @property
    def because(self) -> str:
        """The answer with its reason."""
        return f"{self.answer}, because {self.reason}"

    @property
    def interval(self) -> str:
        """The 95% interval of the change."""
        low, high = self.comparison.low, self.comparison.high
        return DASH if low is None or high is None else f"{change(low)} to {change(high)}"

    def cells(self) -> list[str]:
        """Return what a table has of it, by HEADS."""
        comparison = self.comparison
        label = (
            self.answer if comparison.obstacle is None else f"{comparison.answer.value}, {comparison.obstacle.value}"
        )
        p = DASH if comparison.p is None else f"{comparison.p:.2g}"
        return [self.name, label, change(comparison.ratio), self.interval, p, str(comparison.rounds or DASH)]

    def case(self) -> Case:
        """Return it as a test case: slower is a failure if not expected, no run an error, unknown skipped."""
        comparison, text = self.comparison, self.because
        if comparison.p is not None:
            p = f"p = {comparison.p:.2g}, {units.count(comparison.rounds, 'round')} a side"
            text = f"{change(comparison.ratio)} ({self.interval}), {p}: {self.because}"
        tag = "failure" if comparison.slower else "error" if comparison.obstacle in _ERRORS else "skipped"
        passed = self.expected is not None or (tag == "skipped" and comparison.answer is not Answer.UNKNOWN)
        return Case(self.series[0], " ".join(self.series[1]), None if passed else tag, plain(text))


_ERRORS = (Obstacle.FAILED, Obstacle.NOT_BUILT)


@dataclass(frozen=True, kw_only=True)
class GateReport:
    """All that a gate reports, in any format."""

    base: Commit
    head: Commit
    comparisons: Mapping[Series, Comparison]
    budget: float  # s
    measured: float  # s that measuring took
    evidence: str  # the folder of the rounds
    expected: Mapping[Series, str] = field(default_factory=dict)  # slower, or may be, as announced: the reason
    code: tuple[CodeChange, ...] = ()
    device: str = "cpu"  # that was measured; code for the other one was not run
    notes: tuple[str, ...] = ()

    @property
    def _others(self) -> list[Comparison]:
        return [comparison for series, comparison in self.comparisons.items() if series not in self.expected]

    @property
    def _unrun(self) -> list[CodeChange]:
        return [change for change in self.code if change.device != self.device]

    @property
    def status(self) -> int:
        """The exit status: of several the first in the contract's order, 22, 10, 21, 20, 11.

        Nothing was compared where no series had a look, and one needed it: unchanged code of others says nothing about
        it. A commit that does not build leaves nothing to compare, either. A gate stays clean with improvements, with a
        series that is n/a on both sides or failed at the earlier commit alone, and with an unknown one that does not
        lean to slower.
        """
        series = self.comparisons.values()
        obstacles = {comparison.obstacle for comparison in series}
        has_look = any(comparison.p is not None for comparison in series)
        is_known = has_look or any(comparison.answer is Answer.SAME for comparison in series)
        holds = {
            22: not is_known or (not has_look and any(comparison.unseen for comparison in series)),
            10: any(comparison.slower for comparison in self._others),
            21: Obstacle.NOT_BUILT in obstacles,
            20: Obstacle.FAILED in obstacles,
            11: any(map(doubt, self._others)) or any(change.spills_more for change in self._unrun),
        }
        return next((status for status, is_so in holds.items() if is_so), 0)

    @property
    def words(self) -> str:
        """The verdict in words, with its reasons where the table may not show them."""
        reasons: list[str] = []
        if self.status == 11:
            reasons = [*map(doubt, self._others), SPILLS_MORE * any(change.spills_more for change in self._unrun)]
        if self.status == 22:
            reasons = [
                comparison.obstacle.value if comparison.obstacle else doubt(comparison) for comparison in self._others
            ]
        expected = f"{len(self.expected)} slower as expected" if self.expected else ""
        return "; ".join(dict.fromkeys(filter(None, (WORDS[self.status], *reasons, expected))))

    @property
    def rows(self) -> list[Row]:
        """The series, worst first: slower, failed, suspect, unknown, the same, faster. By how much within each."""
        rows = [Row(series, comparison, self.expected.get(series)) for series, comparison in self.comparisons.items()]
        return sorted(rows, key=lambda row: (_rank(row.comparison), -_size(row.comparison), row.series))


def _rank(comparison: Comparison) -> int:
    ranks = (
        comparison.slower,
        comparison.obstacle in _ERRORS,
        bool(doubt(comparison)),
        comparison.answer is Answer.UNKNOWN and comparison.obstacle is None,
        comparison.answer is Answer.UNKNOWN,
        not comparison.faster,
        True,
    )
    return ranks.index(True)


def _size(comparison: Comparison) -> float:
    if comparison.ratio is None:
        return 0.0
    return 1 / comparison.ratio if comparison.faster else comparison.ratio


def name(series: Series) -> str:
    """Return a series in one text: "matmul.Cpu.time_hot native float32-512x512x512"."""
    return " ".join([series[0], *series[1]])


def change(ratio: float | None) -> str:
    """Return a ratio of times as a signed change: "+3.1%", "-0.24%", as a multiple from a doubling on: "2.51x"."""
    if ratio is None:
        return DASH
    if ratio >= 2:
        return f"{units.significant(ratio)}{units.MULTIPLE}"
    percent = 100 * (ratio - 1)
    return f"{percent:+.1f}%" if abs(percent) >= 0.95 else f"{percent:+.2f}%"


def in_words(commit: Commit) -> str:
    """Return a commit on one line: "7744c6af  Unroll the inner loop (A. Author)"."""
    return f"{commit.sha[:SHORT]}  {plain(commit.subject)} ({plain(commit.author)})"


def as_text(report: GateReport) -> str:
    """Return the table, worst first, the reasons of the answers, and the verdict."""
    lines = [f"{role} {in_words(commit)}" for role, commit in (("BASE", report.base), ("HEAD", report.head))]
    if report.rows:
        lines += ["", columns([HEADS, *(row.cells() for row in report.rows)]), f"  {NOTE}", ""]
        lines += [f"{text}:\n  {', '.join(names)}" for text, names in _reasons(report).items()]
    if report.code:
        lines += [CODE, *(f"  {change}" for change in report.code)]
    lines += [f"note: {note}" for note in report.notes]
    lines += ["", _summary(report), f"rounds: {report.evidence}", f"verdict: {_verdict(report)}"]
    return "\n".join(lines) + "\n"


def _reasons(report: GateReport) -> dict[str, list[str]]:
    """Return the reasons of the answers, each once, with the names of its series."""
    names: dict[str, list[str]] = {}
    for row in report.rows:
        names.setdefault(row.because, []).append(row.name)
    raw = [row.name for row in report.rows if row.comparison.p is not None and not row.comparison.adjusted]
    if raw:
        names["not adjusted (not every round has something to adjust by that the series moves with)"] = raw
    return names


def _summary(report: GateReport) -> str:
    comparisons = report.comparisons.values()
    counts = {
        "slower": sum(comparison.slower for comparison in comparisons),
        "faster": sum(comparison.faster for comparison in comparisons),
        "the same": sum(comparison.answer is Answer.SAME for comparison in comparisons),
        "unknown": sum(comparison.answer is Answer.UNKNOWN for comparison in comparisons),
    }
    text = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"{len(comparisons)} series: {text}; {report.measured:.0f} s of measuring, of {report.budget:.0f} s"


def _verdict(report: GateReport) -> str:
    return f"{report.words} (exit status {report.status})"


def as_markdown(report: GateReport) -> str:
    """Return the report as GitHub-flavoured Markdown, with foreign text in code spans."""
    head = [f"{role} {literal(in_words(commit))}" for role, commit in (("Base", report.base), ("head", report.head))]
    parts = [f"**{_verdict(report)}**", ", ".join(head)]
    if report.rows:
        table = ["| " + " | ".join([*HEADS, "because"]) + " |", "|---|---|--:|--:|--:|--:|---|"]
        for row in report.rows:
            first, *others = row.cells()
            table.append(f"| {' | '.join([literal(first), *others, literal(row.reason)])} |")
        parts += ["\n".join(table), NOTE[0].upper() + NOTE[1:] + "."]
    if report.code:
        parts.append("\n".join([CODE, "", *(f"- {literal(str(change))}" for change in report.code)]))
    parts += [f"Note: {literal(note)}" for note in report.notes]
    return "\n\n".join([*parts, f"{_summary(report)}."]) + "\n"


def as_json(report: GateReport) -> str:
    """Return the report as JSON: ratios of times (after / before), seconds. Unknown is null."""
    data: dict[str, Any] = {
        "verdict": report.words,
        "exit_status": report.status,
        "base": commit_object(report.base),
        "head": commit_object(report.head),
        "budget": report.budget,
        "measured": report.measured,
        "evidence": report.evidence,
        "notes": list(report.notes),
        "code": [{**vars(change), "spills_more": change.spills_more} for change in report.code],
        "series": [
            {**series_object(row.series), **comparison_object(row.comparison), "expected": row.expected}
            for row in report.rows
        ],
    }
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


def commit_object(commit: Commit) -> dict[str, str]:
    """Return a commit for JSON."""
    return {"sha": commit.sha, "subject": commit.subject, "author": commit.author}


def series_object(series: Series) -> dict[str, str]:
    """Return a series for JSON."""
    return {"benchmark": series[0], **dict(zip(("implementation", "case"), series[1], strict=True))}


def comparison_object(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison for JSON."""
    obstacle = comparison.obstacle and comparison.obstacle.value
    return {
        **vars(comparison),
        "answer": comparison.answer.value,
        "obstacle": obstacle,
        "suspect": comparison.suspect,
    }


def as_junit(report: GateReport) -> str:
    """Return the report as JUnit XML."""
    return junit([row.case() for row in report.rows], {"name": "gate", "time": f"{report.measured:.1f}"})


FORMATS: Mapping[str, Callable[[GateReport], str]] = {"json": as_json, "markdown": as_markdown, "junit": as_junit}
