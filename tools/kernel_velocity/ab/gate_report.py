"""What a gate found, as text for a terminal, Markdown for a pull request, JSON, and JUnit XML. Pure: values in.

From the comparisons of a gate to one verdict, its exit status, and the order to read them in. Pure.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from kernel_velocity import units
from kernel_velocity.ab.code_changes import CodeChange
from kernel_velocity.errors import BenchmarkFailed, BuildFailed, NothingMeasured
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.records import Commit
from kernel_velocity.stats.sequential import Answer, Comparison, Obstacle
from kernel_velocity.tables import columns, literal

HEADS = ("benchmark", "answer", "time", "95% interval", "p", "rounds")
DASH = "-"
CODE = "The compiled code changed (HEAD against BASE, read from the builds):"
NOTE = "time: of HEAD against BASE, + is slower; rounds: of each side; p: exact Mann-Whitney"


def name(series: Series) -> str:
    """Return a series in one text: "matmul.Cpu.time_hot native float32-512x512x512"."""
    return " ".join([series[0], *series[1]])


def answer(item: Comparison, expected: str | None = None) -> str:
    """Return an answer in a word or two: "different", "unknown, suspect", "failed", "different, expected"."""
    if item.obstacle is not None:
        return f"{item.answer.value}, {item.obstacle.value}"
    if expected is not None:
        return f"{item.answer.value}, expected"
    return f"{item.answer.value}, suspect" if item.suspect else item.answer.value


def change(ratio: float | None) -> str:
    """Return a ratio of times as a signed change: "+3.1%", "-0.24%"; as a multiple from a doubling on: "2.51x"."""
    if ratio is None:
        return DASH
    if ratio >= 2:
        return f"{units.significant(ratio)}x"
    percent = 100 * (ratio - 1)
    return f"{percent:+.1f}%" if abs(percent) >= 0.95 else f"{percent:+.2f}%"


def _cells(series: Series, item: Comparison, expected: str | None) -> list[str]:
    interval = DASH if item.low is None or item.high is None else f"{change(item.low)} to {change(item.high)}"
    p = DASH if item.p is None else f"{item.p:.2g}"
    return [name(series), answer(item, expected), change(item.ratio), interval, p, str(item.rounds or DASH)]


def as_text(report: GateReport) -> str:
    """Return the table, worst first, why each answer is what it is, and the verdict."""
    parts = [f"{role} {in_words(commit)}" for role, commit in (("BASE", report.base), ("HEAD", report.head))]
    if report.rows:
        cells = [_cells(series, item, report.expected.get(series)) for series, item in report.rows]
        parts += ["", columns([HEADS, *cells]), f"  {NOTE}", ""]
        parts += [f"{text}:\n  {', '.join(names)}" for text, names in _notes(report).items()]
    if report.code:
        parts += [CODE, *(f"  {change}" for change in report.code)]
    parts += [f"note: {note}" for note in report.notes]
    return (
        "\n".join([*parts, "", _summary(report), f"rounds: {report.evidence}", f"verdict: {_verdict(report)}"]) + "\n"
    )


def in_words(commit: Commit) -> str:
    """Return a commit on one line: "7744c6af  Unroll the inner loop (A. Author)"."""
    return f"{commit.sha[:SHORT]}  {_plain(commit.subject)} ({_plain(commit.author)})"


def _notes(report: GateReport) -> dict[str, list[str]]:
    """Return why the answers are what they are, each reason once, with the series that it holds of."""
    found: dict[str, list[str]] = {}
    for series, item in report.rows:
        found.setdefault(_because(item, report.expected.get(series)), []).append(name(series))
    raw = [name(series) for series, item in report.rows if item.p is not None and not item.adjusted]
    if raw:
        found["not adjusted (not every round has something to adjust by that the series moves with)"] = raw
    return found


def _because(item: Comparison, expected: str | None) -> str:
    state = ", expected" if expected is not None else ", suspect" if item.suspect else ""
    return f"{item.answer.value}{state}, because {_reason(item, expected)}"


def _reason(item: Comparison, expected: str | None) -> str:
    """Return the reason of an answer, and the one that somebody gave why it is to be so."""
    return item.reason if expected is None else f"{item.reason}; {_plain(expected)}"


def _summary(report: GateReport) -> str:
    items = list(report.found.values())
    counts = {
        "slower": sum(item.slower for item in items),
        "faster": sum(item.faster for item in items),
        "the same": sum(item.answer is Answer.SAME for item in items),
        "unknown": sum(item.answer is Answer.UNKNOWN for item in items),
    }
    said = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"{len(items)} series: {said}; {report.measured:.0f} s of measuring, of {report.budget:.0f} s"


def _verdict(report: GateReport) -> str:
    return f"{report.words} (exit status {report.verdict.value})"


def as_markdown(report: GateReport) -> str:
    """Return the report as GitHub-flavoured Markdown; what is not ours stands in code spans."""
    head = [f"{role} {literal(in_words(commit))}" for role, commit in (("Base", report.base), ("head", report.head))]
    lines = [f"**{_verdict(report)}**", ", ".join(head)]
    if report.rows:
        table = ["| " + " | ".join([*HEADS, "because"]) + " |", "|---|---|--:|--:|--:|--:|---|"]
        for series, item in report.rows:
            said = report.expected.get(series)
            first, *others = _cells(series, item, said)
            table.append(f"| {' | '.join([literal(first), *others, literal(_reason(item, said))])} |")
        lines += ["\n".join(table), NOTE[0].upper() + NOTE[1:] + "."]
    if report.code:
        lines.append("\n".join([CODE, "", *(f"- {literal(str(change))}" for change in report.code)]))
    lines += [f"Note: {literal(note)}" for note in report.notes]
    return "\n\n".join([*lines, f"{_summary(report)}."]) + "\n"


def as_json(report: GateReport) -> str:
    """Return the report as JSON: ratios of times (after / before), seconds; unknown is null."""
    said: dict[str, Any] = {
        "verdict": report.words,
        "exit_status": report.verdict.value,
        "base": commit_object(report.base),
        "head": commit_object(report.head),
        "budget": report.budget,
        "measured": report.measured,
        "evidence": report.evidence,
        "notes": list(report.notes),
        "code": [{**vars(change), "spills_more": change.spills_more} for change in report.code],
        "series": [
            {**series_object(series), **comparison_object(item), "expected": report.expected.get(series)}
            for series, item in report.rows
        ],
    }
    return json.dumps(said, indent=2, allow_nan=False) + "\n"


def commit_object(commit: Commit) -> dict[str, str]:
    """Return a commit for JSON."""
    return {"sha": commit.sha, "subject": commit.subject, "author": commit.author}


def series_object(series: Series) -> dict[str, str]:
    """Return a series for JSON."""
    return {"benchmark": series[0], **dict(zip(("implementation", "case"), series[1], strict=True))}


def comparison_object(item: Comparison) -> dict[str, Any]:
    """Return a comparison for JSON."""
    fields = {**vars(item), "answer": item.answer.value, "obstacle": item.obstacle and item.obstacle.value}
    return {**fields, "suspect": item.suspect}


def as_junit(report: GateReport) -> str:
    """Return the report as JUnit XML: slower is a failure if not expected, no run an error, unknown skipped."""
    cases = [_case(series, item, report.expected.get(series)) for series, item in report.rows]
    said = {"name": "gate", "tests": str(len(cases)), "time": f"{report.measured:.1f}"}
    counts = {kind: str(sum(case.find(tag) is not None for case in cases)) for kind, tag in _COUNTED.items()}
    suite = ElementTree.Element("testsuite", {**said, **counts})
    suite.extend(cases)
    ElementTree.indent(suite)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suite, encoding="unicode")}\n'


_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def _case(series: Series, item: Comparison, expected: str | None) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=series[0], name=_plain(" ".join(series[1])))
    tag, text = _tag(item) if expected is None else None, _plain(_sentence(item, expected))
    if tag:
        ElementTree.SubElement(case, tag, message=text)
    else:
        ElementTree.SubElement(case, "system-out").text = text
    return case


def _tag(item: Comparison) -> str | None:
    if item.slower:
        return "failure"
    if item.obstacle in (Obstacle.FAILED, Obstacle.NOT_BUILT):
        return "error"
    return "skipped" if item.answer is Answer.UNKNOWN else None


def _sentence(item: Comparison, expected: str | None) -> str:
    if item.low is None or item.high is None or item.p is None:
        return _because(item, expected)
    figures = f"{change(item.ratio)} ({change(item.low)} to {change(item.high)}), p = {item.p:.2g}"
    return f"{figures}, {units.count(item.rounds, 'round')} a side: {_because(item, expected)}"


def _plain(text: str) -> str:
    """Return foreign text without what XML cannot say."""
    return "".join(character for character in " ".join(text.split()) if character.isprintable())


FORMATS: Mapping[str, Callable[[GateReport], str]] = {"json": as_json, "markdown": as_markdown, "junit": as_junit}


class Verdict(enum.Enum):
    """What a gate says of all its series; the value is the exit status."""

    CLEAN = 0
    REGRESSION = 10
    SUSPECT = 11
    FAILED = BenchmarkFailed.exit_code
    NOT_BUILT = BuildFailed.exit_code
    NOTHING = NothingMeasured.exit_code


SPILLS = "code that cannot be run here spills more registers"
WORDS: Mapping[Verdict, str] = {
    Verdict.CLEAN: "no regression",
    Verdict.REGRESSION: "regression confirmed",
    Verdict.SUSPECT: "suspect",
    Verdict.FAILED: "a benchmark failed",
    Verdict.NOT_BUILT: "a commit does not build",
    Verdict.NOTHING: "nothing was compared",
}


def verdict(
    found: Iterable[Comparison], expected: Iterable[Comparison] = (), unrun: Iterable[CodeChange] = ()
) -> Verdict:
    """Return the verdict; of several the first in the contract's order: 22, 10, 21, 20, 11.

    Args:
        found: of all series but those of `expected`: these are slower, or may be, and somebody said that they will be.
        unrun: what became of code that nothing here can run.

    Nothing was compared where no series had a look, and one was to have one: that the code of others is the same says
    nothing of it. A commit that does not build leaves nothing to compare, either. Improvements, what is n/a on both
    sides or failed at the earlier commit alone, and an unknown one that was looked at and does not lean to slower leave
    a gate clean.
    """
    own = list(found)
    items = [*own, *expected]
    obstacles = {item.obstacle for item in items}
    seen = any(item.p is not None for item in items)
    is_known = seen or any(item.answer is Answer.SAME for item in items)
    holds = {
        Verdict.NOTHING: not is_known or (not seen and any(item.unseen for item in items)),
        Verdict.REGRESSION: any(item.slower for item in own),
        Verdict.NOT_BUILT: Obstacle.NOT_BUILT in obstacles,
        Verdict.FAILED: Obstacle.FAILED in obstacles,
        Verdict.SUSPECT: any(doubt(item) for item in own) or any(each.spills_more for each in unrun),
    }
    return next((verdict for verdict, is_so in holds.items() if is_so), Verdict.CLEAN)


def doubt(item: Comparison) -> str:
    """Return why a series can be slower for all that is known, in words; "" where it cannot, or has no time at all."""
    if item.suspect:
        return "slower by the floor or more, but not settled"
    if item.unseen:
        return "too few rounds for a look"
    return "gone: it had times before" if item.obstacle is Obstacle.GONE else ""


@dataclass(frozen=True, kw_only=True)
class GateReport:
    """All that a gate has to say, in any format."""

    base: Commit
    head: Commit
    found: Mapping[Series, Comparison]
    budget: float  # s
    measured: float  # s that measuring took
    evidence: str  # the folder of the rounds
    expected: Mapping[Series, str] = field(default_factory=dict)  # slower, or may be, as somebody said: why
    code: tuple[CodeChange, ...] = ()  # what became of the compiled code
    device: str = "cpu"  # that was measured; code for another was not run
    notes: tuple[str, ...] = ()  # what else is to be said, such as of a line that nobody can read

    @property
    def verdict(self) -> Verdict:
        """The verdict on all series."""
        return verdict(self._own, (self.found[series] for series in self.expected), self._unrun)

    @property
    def _unrun(self) -> list[CodeChange]:
        return [each for each in self.code if each.device != self.device]

    @property
    def _own(self) -> list[Comparison]:
        return [item for series, item in self.found.items() if series not in self.expected]

    @property
    def words(self) -> str:
        """The verdict in words, and what it is for where a table may not tell."""
        items, said = self._own, self.verdict
        why: Iterable[str] = ()
        if said is Verdict.SUSPECT:
            spills = any(each.spills_more for each in self._unrun)
            why = (*(doubt(item) for item in items), SPILLS * spills)
        if said is Verdict.NOTHING:
            why = (doubt(item) if item.obstacle is None else item.obstacle.value for item in items)
        as_said = [f"{len(self.expected)} slower as expected"] * bool(self.expected)
        return "; ".join(dict.fromkeys([WORDS[said], *filter(None, why), *as_said]))

    @property
    def rows(self) -> list[tuple[Series, Comparison]]:
        """The series, worst first: slower, failed, suspect, unknown, the same, faster; by how much within each."""
        return sorted(self.found.items(), key=lambda row: (_rank(row[1]), -_size(row[1]), row[0]))


def _rank(item: Comparison) -> int:
    if item.slower:
        return 0
    if item.obstacle in (Obstacle.FAILED, Obstacle.NOT_BUILT):
        return 1
    if doubt(item):
        return 2
    if item.answer is Answer.UNKNOWN:
        return 3 if item.obstacle is None else 4
    return 6 if item.faster else 5


def _size(item: Comparison) -> float:
    if item.ratio is None:
        return 0.0
    return 1 / item.ratio if item.faster else item.ratio
