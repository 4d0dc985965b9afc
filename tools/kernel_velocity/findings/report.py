"""Write what a gate or a night reports as Markdown, JSON or JUnit XML. Pure: a report in, text out.

Markdown is for the summary of a CI step, or a comment on a pull request. It has the worst first, and foreign text
(messages of commits, names, reasons) in code spans. XML gets U+FFFD for letters that XML 1.0 cannot hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from kernel_velocity import units
from kernel_velocity.findings.text import change
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.records import Commit
from kernel_velocity.stats.sequential import Comparison
from kernel_velocity.tables import literal, plain

COMPARISON_HEADS = ("series", "answer", "change", "95% interval", "p", "rounds")
UNKNOWN_CELL = "-"
_NOT_XML = r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]"  # XML 1.0, 2.2 Characters; compiling takes 5 ms


@dataclass(frozen=True)
class JUnitCase:
    """A test case of JUnit XML. `tag` is "failure", "error" or "skipped". None: it passed."""

    group: str
    name: str
    tag: str | None
    message: str
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report, ready to be written in any of FORMATS."""

    parts: Sequence[str]  # of Markdown, the verdict first
    data: Mapping[str, Any]  # of JSON: unknown is null, ratios are of values, new / old
    cases: Sequence[JUnitCase]
    suite: Mapping[str, str]  # attributes of JUnit's test suite


def as_markdown(report: Report) -> str:
    """Return GitHub-flavoured Markdown."""
    return "\n\n".join(report.parts) + "\n"


def as_json(report: Report) -> str:
    """Return strict JSON."""
    return json.dumps(report.data, indent=1, allow_nan=False) + "\n"


def as_junit(report: Report) -> str:
    """Return JUnit XML. The message of a case that passed is its output."""
    suite = ElementTree.Element("testsuite", {name: _xml_text(value) for name, value in report.suite.items()})
    for case in report.cases:
        element = ElementTree.SubElement(
            suite, "testcase", classname=_xml_text(case.group), name=_xml_text(case.name), time="0"
        )
        if case.tag is None:
            ElementTree.SubElement(element, "system-out").text = _xml_text(case.message)
        else:
            ElementTree.SubElement(element, case.tag, message=_xml_text(case.message)).text = _xml_text(case.text)
    for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite)))
    ElementTree.indent(suite)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suite, encoding="unicode")}\n'


def _xml_text(text: str) -> str:
    """Return text without the letters that XML 1.0 cannot hold, not even escaped."""
    return re.sub(_NOT_XML, "\ufffd", text)


FORMATS: Mapping[str, Callable[[Report], str]] = {"json": as_json, "markdown": as_markdown, "junit": as_junit}


# Parts of both reports ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ComparedSeries:
    """A series that was measured at two commits in turns."""

    name: str  # "matmul.Cpu.time_hot native float32-512x512x512"
    comparison: Comparison
    expected: str | None = None  # the reason that somebody gave for its being slower

    @property
    def reason(self) -> str:
        """The reason of the answer, and that of an expectation."""
        reason = self.comparison.reason
        return reason if self.expected is None else f"{reason}; {plain(self.expected)}"

    @property
    def because(self) -> str:
        """The answer in a word or two with its reason: "unknown, suspect, because 1% or more, ..."."""
        return f"{self._answer}, because {self.reason}"

    @property
    def message(self) -> str:
        """The answer with its numbers, where there are any: "+3.10% (+2.40% to +3.80%), p = 0.001, 8 rounds a side"."""
        comparison = self.comparison
        if comparison.p is None:
            return plain(self.because)
        test = f"p = {comparison.p:.2g}, {units.count(comparison.rounds, 'round')} a side"
        return plain(f"{_change(comparison.ratio)} ({self._interval}), {test}: {self.because}")

    def cells(self) -> list[str]:
        """Return what a table has of it, by COMPARISON_HEADS."""
        comparison = self.comparison
        obstacle = comparison.obstacle
        answer = self._answer if obstacle is None else f"{comparison.answer.value}, {obstacle.value}"
        p = UNKNOWN_CELL if comparison.p is None else f"{comparison.p:.2g}"
        rounds = str(comparison.rounds or UNKNOWN_CELL)
        return [self.name, answer, _change(comparison.ratio), self._interval, p, rounds]

    @property
    def _answer(self) -> str:
        leaning = ", expected" if self.expected is not None else ", suspect" if self.comparison.suspect else ""
        return f"{self.comparison.answer.value}{leaning}"

    @property
    def _interval(self) -> str:
        low, high = self.comparison.low, self.comparison.high
        return UNKNOWN_CELL if low is None or high is None else f"{change(low)} to {change(high)}"


def _change(ratio: float | None) -> str:
    return UNKNOWN_CELL if ratio is None else change(ratio)


def comparison_data(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison for JSON."""
    obstacle = comparison.obstacle and comparison.obstacle.value
    enums = {"answer": comparison.answer.value, "obstacle": obstacle}
    return {**vars(comparison), **enums, "suspect": comparison.suspect}


def comparison_table(compared: Iterable[ComparedSeries]) -> str:
    """Return compared series as a Markdown table, with the reasons of their answers."""
    rows = [[literal(row.name), *row.cells()[1:], literal(row.reason)] for row in compared]
    heads = [*COMPARISON_HEADS, "because"]
    rules = ["---:" if head in COMPARISON_HEADS[2:] else "---" for head in heads]
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, rules, *rows))


def commit_line(commit: Commit, *, with_author: bool = True) -> str:
    """Return a commit on one line: "7744c6af  Unroll the inner loop (A. Author)"."""
    author = f" ({plain(commit.author)})" if with_author else ""
    return f"{commit.sha[:SHORT]}  {plain(commit.subject)}{author}"
