"""A verdict for machines: JSON, JUnit XML, an Atom feed. Pure: a verdict in, text out.

Foreign text is escaped by the writers of the standard library; what XML 1.0 cannot hold at all becomes U+FFFD.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

from kernel_velocity.findings import finding as findings_finding
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings import verdict_text
from kernel_velocity.findings.finding import Finding
from kernel_velocity.findings.verdict import Verdict, exit_status
from kernel_velocity.stats.sequential import Answer

FORMAT = 1  # of the JSON; raised when a key changes its meaning
ATOM = "http://www.w3.org/2005/Atom"
SOFTWARE = "kernel-velocity"
_NOT_XML = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")  # XML 1.0, 2.2 Characters


def as_json(verdict: Verdict) -> str:
    """Return everything in the verdict; ratios are of values, new / old, unknown is null."""
    kinds = ("regressions", "suspects", "vanished", "environment", "improvements", "decided", "resolved")
    data: dict[str, Any] = {
        "format": FORMAT,
        "title": verdict.title,
        "when": verdict.when.isoformat(),
        "summary": verdict_text.summary(verdict),
        "exit_status": exit_status(verdict),
        "measured": verdict.measured,
        **{kind: [finding_text.as_data(item) for item in getattr(verdict, kind)] for kind in kinds},
        "comparisons": [
            finding_text.series_data(item.identity)
            | {"answer": item.answer.value}
            | {name: getattr(item, name) for name in ("ratio", "low", "high", "p", "rounds")}
            for item in verdict.comparisons
        ],
        "failures": [{"what": item.what, "why": item.why} for item in verdict.failures],
        "failed_builds": [{"what": item.what, "why": item.why} for item in verdict.failed_builds],
        "stale": [
            {"machine": item.machine, "days": round(item.days, 2), "whole": item.whole}
            | {"series": [finding_text.series_data(one) for one in item.series]}
            for item in verdict.stale
        ],
        "superseded": [
            {"what": item.what, "old": finding_text.series_data(item.old), "new": finding_text.series_data(item.new)}
            for item in verdict.superseded
        ],
        "errors": list(verdict.errors),
        "notes": list(verdict.notes),
        "commits": {
            sha: {"author": commit.author, "date": commit.date.isoformat(), "subject": commit.subject}
            for sha, commit in verdict.commits.items()
        },
    }
    return json.dumps(data, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def xml_text(text: str) -> str:
    """Return text without what XML 1.0 cannot hold, not even escaped."""
    return _NOT_XML.sub("\ufffd", text)


def as_junit(verdict: Verdict) -> str:
    """Return JUnit XML: a test case for each compared series and for each finding; what is open fails.

    Regressions fail, failed benchmarks and builds, data errors and a run that measured nothing are errors, suspects
    and comparisons without an answer are skipped: no CI calls those a success.
    """
    suite = ElementTree.Element(
        "testsuite", name=xml_text(verdict.title), timestamp=f"{verdict.when:%Y-%m-%dT%H:%M:%S}"
    )
    for item in verdict.regressions:
        told = _explained(item, verdict)
        _case(suite, item.subject, item.id, tag="failure", message=verdict_text.title(item), text=told)
    for item in (*verdict.suspects, *verdict.vanished):
        _case(suite, item.subject, item.id, tag="skipped", message=verdict_text.title(item))
    for item in (*verdict.environment, *verdict.improvements):
        _case(suite, item.subject, item.id, text=verdict_text.title(item))
    for failed in (*verdict.failed_builds, *verdict.failures):
        _case(suite, SOFTWARE, failed.what, tag="error", message=failed.why)
    for text in (*verdict.errors, *([verdict_text.NOTHING] if verdict.measured == 0 else [])):
        _case(suite, SOFTWARE, "data", tag="error", message=text)
    for comparison in verdict.comparisons:
        unknown = comparison.answer is Answer.UNKNOWN
        group, name = f"{comparison.identity.machine}.{comparison.identity.kernel}", str(comparison.identity)
        said = "unknown: too few rounds for an answer" if unknown else comparison.answer.value
        _case(suite, group, name, tag="skipped" if unknown else None, message=said, text=said)
    for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    return _document(suite)


def _case(
    suite: ElementTree.Element, group: str, name: str, *, tag: str | None = None, message: str = "", text: str = ""
) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=xml_text(group), name=xml_text(name), time="0")
    if tag is None:
        ElementTree.SubElement(case, "system-out").text = xml_text(text)
    else:
        ElementTree.SubElement(case, tag, message=xml_text(message)).text = xml_text(text)


def _explained(finding: Finding, verdict: Verdict) -> str:
    """Return what is known of a finding as lines, its commits with their subjects."""
    named = [f"{sha[:8]} {commit.subject}" for sha in finding.commits if (commit := verdict.commits.get(sha))]
    return "\n".join([*named, finding_text.details(finding)])


def _document(root: ElementTree.Element) -> str:
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def as_atom(verdict: Verdict, *, feed: str, site: str = "") -> str:
    """Return an Atom feed (RFC 4287) of the findings, the newest first.

    Args:
        feed: what tells this feed from others for ever: an IRI, such as the site's address or "urn:uuid:...".
        site: the address of the site's pages; "": they have none.
    """
    root = ElementTree.Element("feed", xmlns=ATOM)
    items = sorted(_listed(verdict), key=lambda item: (_updated(item), item.id), reverse=True)
    _add(root, "title", f"{SOFTWARE}: {verdict.title}")
    _add(root, "id", feed)
    _add(root, "updated", max([_updated(item) for item in items], default=_in_utc(verdict.when)))
    _add(ElementTree.SubElement(root, "author"), "name", SOFTWARE)
    if site:
        ElementTree.SubElement(root, "link", href=xml_text(site))
    for item in items:
        entry = ElementTree.SubElement(root, "entry")
        _add(entry, "title", f"{item.state.value} {item.kind.value}: {verdict_text.title(item)}")
        _add(entry, "id", f"{feed}#{item.id}")
        if site:
            ElementTree.SubElement(
                entry, "link", href=xml_text(f"{site.rstrip('/')}/{findings_finding.finding_href(item.id)}")
            )
        _add(entry, "published", _in_utc(item.found))
        _add(entry, "updated", _updated(item))
        _add(entry, "content", _explained(item, verdict)).set("type", "text")
    return _document(root)


def _listed(verdict: Verdict) -> Sequence[Finding]:
    found = (*verdict.regressions, *verdict.suspects, *verdict.vanished, *verdict.environment, *verdict.improvements)
    return (*found, *verdict.decided, *verdict.resolved)


def _updated(finding: Finding) -> str:
    return _in_utc(finding.decisions[-1].when if finding.decisions else finding.found)


def _in_utc(when: datetime) -> str:
    """Return a time as RFC 3339 has it, in one zone, so that later is greater."""
    return when.astimezone(UTC).isoformat(timespec="seconds")


def _add(parent: ElementTree.Element, name: str, text: str) -> ElementTree.Element:
    child = ElementTree.SubElement(parent, name)
    child.text = xml_text(text)
    return child
