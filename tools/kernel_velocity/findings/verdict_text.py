"""What every report of a verdict says in the same words: the first line, and where a finding comes from. Pure.

A verdict as Markdown, for the summary of a CI step or a comment on a pull request: the worst first.

Everything foreign (commit messages, names, reasons) stands in code spans. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernel_velocity import units
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.finding import Finding, Kind, State
from kernel_velocity.findings.verdict import SeriesComparison, Verdict, exit_status
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.identity import metric
from kernel_velocity.series.silence import Stale
from kernel_velocity.stats.sequential import Answer
from kernel_velocity.tables import literal

NOTHING = "nothing was measured"

MOST_FINDINGS = 25  # in a section: GitHub takes 65,536 characters in a comment
MOST_SERIES = 20  # of a finding
MOST_LINES = 50  # of everything else


def summary(verdict: Verdict) -> str:
    """Return the verdict in one line: what there is, worst first; "clean" only where the exit status says so too.

    A suspect is one of a regression: a clean night has none. A move for the better that no round settled is named.
    """
    unconfirmed = sum(item.kind is Kind.IMPROVEMENT for item in verdict.suspects)
    counts = [
        (len(verdict.errors), "data error"),
        (len(verdict.regressions), "confirmed regression"),
        (len(verdict.failed_builds), "failed build"),
        (len(verdict.failures), "failed benchmark"),
        (len(verdict.suspects) - unconfirmed, "suspect"),
        (sum(len(item.affected) for item in verdict.vanished), "vanished series"),
        (sum(item.answer is Answer.UNKNOWN for item in verdict.comparisons), "unanswered comparison"),
        (len(verdict.environment), "environment event"),
        (len(verdict.improvements), "confirmed improvement"),
        (unconfirmed, "unconfirmed improvement"),
    ]
    # "series" has no other plural
    said = [
        f"{number} {noun}" if noun.endswith("s") else units.count(number, noun) for number, noun in counts if number
    ]
    if verdict.measured == 0:
        said.insert(1 if verdict.errors else 0, NOTHING)
    if exit_status(verdict) == 0:
        said.insert(0, "clean")
    return ", ".join(said)


def title(finding: Finding) -> str:
    """Return a finding in a line without foreign text but its subject."""
    if finding.kind is Kind.ENVIRONMENT:
        return f"the environment of {finding.subject} changed: {finding_text.headline(finding)}"
    return f"{finding.subject}: {finding_text.headline(finding)}, {finding_text.blamed(finding)}"


def evidence(finding: Finding) -> tuple[str, str]:
    """Return what the evidence of a finding is called, and what it is, with the test of its worst series; "" for none.

    Only what is confirmed is called so.
    """
    test = finding_text.tested(finding.worst) if finding.worst else ""
    against = f"against {finding.anchor[:8]}" if finding.anchor else ""
    said = "; ".join(part for part in (finding.how, test, against) if part)
    return ("confirmed" if finding.state is State.CONFIRMED else "seen"), said


def accusation(finding: Finding) -> str:
    """Return what the commits of a finding are called."""
    if finding.kind is Kind.VANISHED:
        return "since"
    if finding.state is not State.CONFIRMED:
        return "to be looked at"
    return "culprit" if finding.culprit else f"one of {len(finding.commits)} commits"


def changes(finding: Finding) -> Sequence[str]:
    """Return what changed of an environment, a line for each fact."""
    return [f"{name}: {old} -> {new}" for name, (old, new) in (finding.changes or {}).items()]


def stale(item: Stale) -> str:
    """Return how long a machine has been quiet."""
    what = "any of its series" if item.whole else f"{len(item.series)} of its series"
    return f"{item.machine}: nothing measured of {what} for {item.days:.1f} days"


def as_markdown(verdict: Verdict) -> str:
    """Return the verdict as GitHub-flavoured Markdown."""
    head = f"## {literal(verdict.title)}: {summary(verdict)}"
    parts = [head, f"{verdict.when:%Y-%m-%d %H:%M %Z}, {_rests_on(verdict)}."]
    parts += _lines("Data errors", verdict.errors)
    parts += _section("Regressions", verdict.regressions, verdict)
    parts += _lines("Failed builds", (f"{item.what}: {item.why}" for item in verdict.failed_builds))
    parts += _lines("Failed benchmarks", (f"{item.what}: {item.why}" for item in verdict.failures))
    parts += _section("Suspects, neither confirmed nor refuted", verdict.suspects, verdict)
    parts += _section("Vanished series", verdict.vanished, verdict)
    parts += _section("The environment changed; no commit is to blame", verdict.environment, verdict)
    parts += _section("Improvements", verdict.improvements, verdict)
    parts += _lines("Gone again", (_decided(item) for item in verdict.resolved))
    parts += _lines("Expected or acknowledged", (_decided(item) for item in verdict.decided))
    parts += _lines("Not measured for long", map(stale, verdict.stale))
    parts += _lines("New series", (f"{item.new}: its {item.what} changed" for item in verdict.superseded))
    parts += _lines("Notes", verdict.notes)
    parts += _comparisons(verdict.comparisons)
    return "\n\n".join(parts) + "\n"


def _rests_on(verdict: Verdict) -> str:
    return f"{units.count(verdict.measured, 'value')} measured"


def _section(title: str, findings: Sequence[Finding], verdict: Verdict) -> list[str]:
    if not findings:
        return []
    shown = [_finding(item, verdict) for item in findings[:MOST_FINDINGS]]
    return [f"### {title}", *shown, *_more(len(findings) - MOST_FINDINGS)]


def _more(number: int) -> list[str]:
    return [f"and {number} more."] if number > 0 else []


def _finding(finding: Finding, verdict: Verdict) -> str:
    word, said = evidence(finding)
    facts = [
        *_blamed(finding, verdict),
        f"shown by {literal(finding_text.shown_by(finding))}",
        *(f"changed: {literal(text)}" for text in changes(finding)),
        *([f"{word}: {literal(said)}"] if said else []),
        *(f"ruled out: {literal(text)}" for text in finding.ruled_out),
        f"`kv findings show {finding.id}`",
    ]
    lines = [f"**{literal(finding.subject)}: {finding_text.headline(finding)}**", "", *(f"- {fact}" for fact in facts)]
    return "\n".join([*lines, *_series(finding)])


def _blamed(finding: Finding, verdict: Verdict) -> list[str]:
    """Return the commits that can have done it, each with its author and subject where they are known."""
    if finding.kind is Kind.ENVIRONMENT or not finding.commits:
        return []
    found = []
    for sha in finding.commits[:MOST_SERIES]:
        commit = verdict.commits.get(sha)
        said = f" {literal(commit.subject)} by {literal(commit.author)}" if commit else ""
        found.append(f"{literal(sha[:SHORT])}{said}")
    left = len(finding.commits) - MOST_SERIES
    return [f"{accusation(finding)}: {'; '.join(found)}{f' and {left} more' if left > 0 else ''}"]


def _series(finding: Finding) -> list[str]:
    if len(finding.affected) < 2:
        return [
            "",
            *(f"{literal(str(item.identity))} on {literal(item.identity.machine)}" for item in finding.affected),
        ]
    worst = sorted(finding.affected, key=lambda item: -abs(item.effect))
    rows = [
        f"| {literal(str(item.identity))} | {literal(item.identity.machine)} | {finding_text.effect(item)} "
        f"| {finding_text.tested(item) or '–'} |"
        for item in worst[:MOST_SERIES]
    ]
    title = f"<details><summary>{len(worst)} series</summary>"
    head = ["| series | machine | change | test |", "| --- | --- | ---: | --- |"]
    return ["", title, "", *head, *rows, "", *_more(len(worst) - MOST_SERIES), "</details>"]


def _decided(finding: Finding) -> str:
    reason = f": {finding.decisions[-1].reason}" if finding.decisions else ""
    until = "" if finding.until is None else f" until {finding.until}"
    return f"{finding.id}, {finding_text.headline(finding)}, {finding.state.value}{until}{reason}"


def _lines(title: str, texts: Iterable[str]) -> list[str]:
    found = [f"- {literal(text)}" for text in texts]
    if not found:
        return []
    return [f"### {title}", "\n".join(found[:MOST_LINES]), *_more(len(found) - MOST_LINES)]


def _comparisons(comparisons: Sequence[SeriesComparison]) -> list[str]:
    """Return the table of what was compared; it is always there where anything was."""
    if not comparisons:
        return []
    rows = [
        f"| {literal(str(item.identity))} | {item.answer.value} | {_change(item)} | {_p(item)} |"
        for item in comparisons
    ]
    head = ["| series | answer | change | p, rounds a side |", "| --- | --- | ---: | --- |"]
    title = f"<details><summary>{units.count(len(rows), 'comparison')}</summary>"
    return ["\n".join([title, "", *head, *rows, "", "</details>"])]


def _change(item: SeriesComparison) -> str:
    if item.ratio is None:
        return "–"
    said = finding_text.change(item.ratio) + finding_text.interval(item.low, item.high)
    return f"{metric(item.identity.benchmark).noun} {said}"


def _p(item: SeriesComparison) -> str:
    said = [] if item.p is None else [f"{item.p:.2g}"]
    return ", ".join([*said, *([] if item.rounds is None else [str(item.rounds)])]) or "–"
