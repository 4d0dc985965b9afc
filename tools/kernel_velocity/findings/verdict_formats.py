"""The verdict of a night as Markdown, JSON and JUnit XML. Pure: a verdict in, text out.

Markdown is for the summary of a CI step, or a comment on a pull request. It has the worst first, and foreign text
(messages of commits, names, reasons) in code spans. XML gets U+FFFD for letters that XML 1.0 cannot hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from kernel_velocity import fields, units
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.finding import Finding, Kind, State
from kernel_velocity.findings.verdict import NOTHING_MEASURED, NightVerdict, exit_status, summary
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.identity import Identity, metric
from kernel_velocity.stats.sequential import Answer, Comparison
from kernel_velocity.tables import literal

FORMAT = 1  # of the JSON; raised when a key changes its meaning
SOFTWARE = "kernel-velocity"
_NOT_XML = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")  # XML 1.0, 2.2 Characters

MOST_FINDINGS = 25  # in a section of Markdown: GitHub takes 65,536 characters in a comment
MOST_SERIES = 20  # of a finding
MOST_LINES = 50  # of everything else


def as_markdown(verdict: NightVerdict) -> str:
    """Return the verdict as GitHub-flavoured Markdown."""
    count = units.count(verdict.measured, "value")
    parts = [f"## {literal(verdict.title)}: {summary(verdict)}", f"{verdict.when:%Y-%m-%d %H:%M %Z}, {count} measured."]
    parts += _lines("Data errors", verdict.errors)
    parts += _section("Regressions", verdict.groups["regressions"], verdict)
    parts += _lines("Failed builds", (f"{failed.what}: {failed.why}" for failed in verdict.failed_builds))
    parts += _lines("Failed benchmarks", (f"{failed.what}: {failed.why}" for failed in verdict.failures))
    parts += _section("Suspects, neither confirmed nor refuted", verdict.groups["suspects"], verdict)
    parts += _section("Vanished series", verdict.groups["vanished"], verdict)
    parts += _section("The environment changed; no commit is to blame", verdict.groups["environment"], verdict)
    parts += _section("Improvements", verdict.groups["improvements"], verdict)
    parts += _lines("Gone again", map(_decided, verdict.groups["resolved"]))
    parts += _lines("Expected or acknowledged", map(_decided, verdict.groups["decided"]))
    parts += _lines("Not measured for long", map(finding_text.stale, verdict.stale))
    parts += _lines("New series", (f"{series.new}: its {series.what} changed" for series in verdict.superseded))
    parts += _lines("Notes", verdict.notes)
    parts += _comparisons(verdict.comparisons)
    return "\n\n".join(parts) + "\n"


def _section(title: str, findings: Sequence[Finding], verdict: NightVerdict) -> list[str]:
    if not findings:
        return []
    shown = [_finding(finding, verdict) for finding in findings[:MOST_FINDINGS]]
    return [f"### {title}", *shown, *_more(len(findings) - MOST_FINDINGS)]


def _more(count: int) -> list[str]:
    return [f"and {count} more."] if count > 0 else []


def _lines(title: str, texts: Iterable[str]) -> list[str]:
    lines = [f"- {literal(text)}" for text in texts]
    if not lines:
        return []
    return [f"### {title}", "\n".join(lines[:MOST_LINES]), *_more(len(lines) - MOST_LINES)]


def _finding(finding: Finding, verdict: NightVerdict) -> str:
    word = "confirmed" if finding.state is State.CONFIRMED else "seen"
    against = f"against {finding.anchor[:8]}" if finding.anchor else ""
    test = finding_text.tested(finding.worst) if finding.worst else ""
    evidence = "; ".join(filter(None, (finding.how, test, against)))
    facts = [
        *_blamed(finding, verdict),
        f"shown by {literal(finding_text.shown_by(finding))}",
        *(f"changed: {literal(change)}" for change in finding_text.changes(finding)),
        *([f"{word}: {literal(evidence)}"] if evidence else []),
        *(f"ruled out: {literal(text)}" for text in finding.ruled_out),
        f"`kv findings show {finding.id}`",
    ]
    head = f"**{literal(finding.subject)}: {finding_text.headline(finding)}**"
    return "\n".join([head, "", *(f"- {fact}" for fact in facts), *_series(finding)])


def _blamed(finding: Finding, verdict: NightVerdict) -> list[str]:
    """Return the possible commits, each with its subject and author where they are known."""
    if finding.kind is Kind.ENVIRONMENT or not finding.commits:
        return []
    names = []
    for sha in finding.commits[:MOST_SERIES]:
        commit = verdict.commits.get(sha)
        details = f" {literal(commit.subject)} by {literal(commit.author)}" if commit else ""
        names.append(f"{literal(sha[:SHORT])}{details}")
    rest = len(finding.commits) - MOST_SERIES
    return [f"{finding_text.role(finding)}: {'; '.join(names)}{f' and {rest} more' if rest > 0 else ''}"]


def _series(finding: Finding) -> list[str]:
    worst = sorted(finding.affected, key=lambda series: -abs(series.effect))
    if len(worst) < 2:
        return ["", *(f"{literal(str(series.identity))} on {literal(series.identity.machine)}" for series in worst)]
    rows = [
        f"| {literal(str(series.identity))} | {literal(series.identity.machine)} | {finding_text.effect(series)} "
        f"| {finding_text.tested(series) or '–'} |"
        for series in worst[:MOST_SERIES]
    ]
    title = f"<details><summary>{len(worst)} series</summary>"
    head = ["| series | machine | change | test |", "| --- | --- | ---: | --- |"]
    return ["", title, "", *head, *rows, "", *_more(len(worst) - MOST_SERIES), "</details>"]


def _decided(finding: Finding) -> str:
    reason = f": {finding.decisions[-1].reason}" if finding.decisions else ""
    until = "" if finding.until is None else f" until {finding.until}"
    return f"{finding.id}, {finding_text.headline(finding)}, {finding.state.value}{until}{reason}"


def _comparisons(comparisons: Sequence[tuple[Identity, Comparison]]) -> list[str]:
    """Return the table of what was compared."""
    if not comparisons:
        return []
    head = ["| series | answer | change | p, rounds a side |", "| --- | --- | ---: | --- |"]
    rows = []
    for identity, comparison in comparisons:
        change, numbers = "–", []
        if comparison.ratio is not None:
            interval = finding_text.interval(comparison.low, comparison.high)
            change = f"{metric(identity.benchmark).noun} {finding_text.change(comparison.ratio)}{interval}"
        numbers += [] if comparison.p is None else [f"{comparison.p:.2g}"]
        numbers += [str(comparison.rounds)] if comparison.rounds else []
        test = ", ".join(numbers) or "–"
        rows.append(f"| {literal(str(identity))} | {comparison.answer.value} | {change} | {test} |")
    title = f"<details><summary>{units.count(len(rows), 'comparison')}</summary>"
    return ["\n".join([title, "", *head, *rows, "", "</details>"])]


def as_json(verdict: NightVerdict) -> str:
    """Return everything in the verdict. Ratios are of values, new / old, and unknown is null."""
    data = {
        "format": FORMAT,
        "title": verdict.title,
        "when": verdict.when.isoformat(),
        "summary": summary(verdict),
        "exit_status": exit_status(verdict),
        "measured": verdict.measured,
        **{name: [finding_text.as_data(finding) for finding in group] for name, group in verdict.groups.items()},
        "comparisons": [
            fields.plain(identity)
            | {"answer": comparison.answer.value}
            | {name: getattr(comparison, name) for name in ("ratio", "low", "high", "p")}
            | {"rounds": comparison.rounds or None}
            for identity, comparison in verdict.comparisons
        ],
        "failures": fields.plain(verdict.failures),
        "failed_builds": fields.plain(verdict.failed_builds),
        "stale": [
            {"machine": silent.machine, "days": round(silent.days, 2), "whole": silent.whole}
            | {"series": fields.plain(silent.series)}
            for silent in verdict.stale
        ],
        "superseded": [
            {"what": series.what, "old": fields.plain(series.old), "new": fields.plain(series.new)}
            for series in verdict.superseded
        ],
        "errors": list(verdict.errors),
        "notes": list(verdict.notes),
        "commits": {
            sha: {"author": commit.author, "date": commit.date.isoformat(), "subject": commit.subject}
            for sha, commit in verdict.commits.items()
        },
    }
    return json.dumps(data, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


@dataclass(frozen=True)
class Case:
    """A test case of JUnit XML. `tag` is "failure", "error" or "skipped". None: it passed."""

    group: str
    name: str
    tag: str | None
    message: str
    text: str = ""


def as_junit(verdict: NightVerdict) -> str:
    """Return JUnit XML: a test case for each compared series and for each finding.

    Regressions are failures. Failed benchmarks and builds, data errors and a run that measured nothing are errors.
    Suspects and comparisons without an answer are skipped, because no CI counts those as successes.
    """
    cases = [
        Case(finding.subject, finding.id, "failure", finding_text.title(finding), _explained(finding, verdict))
        for finding in verdict.groups["regressions"]
    ]
    for tag, findings in (
        ("skipped", (*verdict.groups["suspects"], *verdict.groups["vanished"])),
        (None, (*verdict.groups["environment"], *verdict.groups["improvements"])),
    ):
        cases += [Case(finding.subject, finding.id, tag, finding_text.title(finding)) for finding in findings]
    cases += [
        Case(SOFTWARE, failed.what, "error", failed.why) for failed in (*verdict.failed_builds, *verdict.failures)
    ]
    errors = (*verdict.errors, *([NOTHING_MEASURED] if verdict.measured == 0 else []))
    cases += [Case(SOFTWARE, "data", "error", error) for error in errors]
    for identity, comparison in verdict.comparisons:
        is_unknown = comparison.answer is Answer.UNKNOWN
        message = "unknown: too few rounds for an answer" if is_unknown else comparison.answer.value
        tag = "skipped" if is_unknown else None
        cases.append(Case(f"{identity.machine}.{identity.kernel}", str(identity), tag, message, message))
    return junit(cases, {"name": verdict.title, "timestamp": f"{verdict.when:%Y-%m-%dT%H:%M:%S}"})


def _explained(finding: Finding, verdict: NightVerdict) -> str:
    """Return the details of a finding, below its commits with their subjects."""
    commits = [f"{sha[:8]} {verdict.commits[sha].subject}" for sha in finding.commits if sha in verdict.commits]
    return "\n".join([*commits, finding_text.details(finding)])


def junit(cases: Iterable[Case], attributes: Mapping[str, str]) -> str:
    """Return a test suite as JUnit XML. The message of a case that passed is its output."""
    suite = ElementTree.Element("testsuite", {name: _xml_text(value) for name, value in attributes.items()})
    for case in cases:
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
    return _NOT_XML.sub("\ufffd", text)


FORMATS: Mapping[str, Callable[[NightVerdict], str]] = {"markdown": as_markdown, "json": as_json, "junit": as_junit}
