"""The verdict of a night: everything that its reports say, its summary in a line, its exit status. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from kernel_velocity import fields, statuses, units
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.finding import OPEN, Finding, Kind, State
from kernel_velocity.findings.report import (
    ComparedSeries,
    JUnitCase,
    Report,
    commit_line,
    comparison_data,
    comparison_table,
)
from kernel_velocity.results.identity import Identity
from kernel_velocity.results.records import Commit
from kernel_velocity.stats.sequential import Answer, Comparison
from kernel_velocity.statuses import Status
from kernel_velocity.tables import literal
from kernel_velocity.verdict.silence import Stale, Superseded

NOTHING_MEASURED = "nothing was measured"
VERDICT_FORMAT = 1  # of the JSON; raised when a key changes its meaning
SOFTWARE = "kernel-velocity"
MOST_FINDINGS = 25  # in a section of Markdown: GitHub takes 65,536 characters in a comment
MOST_SERIES = 20  # of a finding, and commits of it
MOST_LINES = 50  # of everything else


@dataclass(frozen=True, kw_only=True)
class Failed:
    """Something that has no value, and why."""

    what: str  # a series, or a commit
    why: str


@dataclass(frozen=True, kw_only=True)
class NightVerdict:
    """The verdict of a night. `findings` are those that it made or changed, and all that are still open."""

    title: str  # such as "nightly on bench-1"
    when: datetime  # with a time zone
    measured: int  # values that this run measured
    findings: tuple[Finding, ...] = ()
    comparisons: tuple[tuple[Identity, Comparison], ...] = ()  # measured again in turns
    failures: tuple[Failed, ...] = ()
    failed_builds: tuple[Failed, ...] = ()
    stale: tuple[Stale, ...] = ()
    superseded: tuple[Superseded, ...] = ()
    errors: tuple[str, ...] = ()  # data that could not be read
    notes: tuple[str, ...] = ()
    commits: Mapping[str, Commit] = field(default_factory=dict)  # of the findings, as far as the repository has them

    @cached_property
    def groups(self) -> Mapping[str, tuple[Finding, ...]]:
        """The findings of each of GROUPS, kind by kind, the largest effects first."""

        def badness(finding: Finding) -> tuple[float, str]:
            return (-abs(finding.worst.effect) if finding.worst else 0.0), finding.id

        worst_first = sorted(self.findings, key=badness)
        return {
            name: tuple(
                finding for kind in kinds for finding in worst_first if finding.kind is kind and finding.state in states
            )
            for name, (kinds, states) in GROUPS.items()
        }


_OF_COMMITS = (Kind.REGRESSION, Kind.IMPROVEMENT, Kind.VANISHED)
GROUPS: Mapping[str, tuple[Sequence[Kind], Collection[State]]] = {
    "regressions": ((Kind.REGRESSION,), {State.CONFIRMED}),  # neither expected nor acknowledged
    "suspects": ((Kind.REGRESSION, Kind.IMPROVEMENT), {State.NEW, State.SUSPECT}),  # those for the worse first
    "vanished": ((Kind.VANISHED,), OPEN),  # without a decision
    "environment": ((Kind.ENVIRONMENT,), frozenset(State)),
    "improvements": ((Kind.IMPROVEMENT,), {State.CONFIRMED}),
    "decided": (_OF_COMMITS, {State.EXPECTED, State.ACKNOWLEDGED, State.METHOD}),  # the last: by a change of method
    "resolved": (_OF_COMMITS, {State.RESOLVED}),
}


def exit_status(verdict: NightVerdict) -> Status:
    """Return the exit status of `nightly`. Series that vanished without a decision are suspects, too."""
    suspected = any(finding.kind is Kind.REGRESSION for finding in verdict.groups["suspects"])
    return statuses.first(
        {
            Status.ERROR: bool(verdict.errors),
            Status.NOTHING: verdict.measured == 0,
            Status.REGRESSION: bool(verdict.groups["regressions"]),
            Status.BUILD_FAILED: bool(verdict.failed_builds),
            Status.BENCHMARK_FAILED: bool(verdict.failures),
            Status.SUSPECT: suspected or bool(verdict.groups["vanished"]),
            Status.ENVIRONMENT: bool(verdict.groups["environment"]),
        }
    )


def summary(verdict: NightVerdict) -> str:
    """Return the verdict in one line, the worst first. It says "clean" only where the exit status is 0.

    A suspect is a suspected regression. A suspected improvement is called an unconfirmed one.
    """
    unconfirmed = sum(finding.kind is Kind.IMPROVEMENT for finding in verdict.groups["suspects"])
    counts = [
        (len(verdict.errors), "data error"),
        (len(verdict.groups["regressions"]), "confirmed regression"),
        (len(verdict.failed_builds), "failed build"),
        (len(verdict.failures), "failed benchmark"),
        (len(verdict.groups["suspects"]) - unconfirmed, "suspect"),
        (sum(len(finding.affected) for finding in verdict.groups["vanished"]), "vanished series"),
        (sum(comparison.answer is Answer.UNKNOWN for _, comparison in verdict.comparisons), "unanswered comparison"),
        (len(verdict.groups["environment"]), "environment event"),
        (len(verdict.groups["improvements"]), "confirmed improvement"),
        (unconfirmed, "unconfirmed improvement"),
    ]
    # "series" has no other plural
    parts = [f"{count} {noun}" if noun.endswith("s") else units.count(count, noun) for count, noun in counts if count]
    if verdict.measured == 0:
        parts.insert(1 if verdict.errors else 0, NOTHING_MEASURED)
    if exit_status(verdict) is Status.CLEAN:
        parts.insert(0, "clean")
    return ", ".join(parts)


# Its report -----------------------------------------------------------------------------------------------------------


def as_report(verdict: NightVerdict) -> Report:
    """Return what a night writes to files."""
    return Report(
        parts=_markdown(verdict),
        data=_data(verdict),
        cases=list(_cases(verdict)),
        suite={"name": verdict.title, "timestamp": f"{verdict.when:%Y-%m-%dT%H:%M:%S}"},
    )


def _markdown(verdict: NightVerdict) -> list[str]:
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
    if verdict.comparisons:
        table = comparison_table(ComparedSeries(str(identity), compared) for identity, compared in verdict.comparisons)
        title = units.count(len(verdict.comparisons), "comparison")
        parts += [f"<details><summary>{title}</summary>", table, "</details>"]
    return parts


def _section(title: str, findings: Sequence[Finding], verdict: NightVerdict) -> list[str]:
    if not findings:
        return []
    parts = [f"### {title}"]
    for finding in findings[:MOST_FINDINGS]:
        head = f"**{literal(finding.subject)}: {finding_text.headline(finding)}**"
        # Every line of it begins with a word of ours or with blanks: none ends the block
        parts.append(f"{head}\n\n```text\n{_explained(finding, verdict, MOST_SERIES)}\n```")
    return [*parts, *_more(len(findings) - MOST_FINDINGS)]


def _more(count: int) -> list[str]:
    return [f"and {count} more."] if count > 0 else []


def _lines(title: str, texts: Iterable[str]) -> list[str]:
    lines = [f"- {literal(text)}" for text in texts]
    if not lines:
        return []
    return [f"### {title}", "\n".join(lines[:MOST_LINES]), *_more(len(lines) - MOST_LINES)]


def _decided(finding: Finding) -> str:
    reason = f": {finding.decisions[-1].reason}" if finding.decisions else ""
    until = "" if finding.until is None else f" until {finding.until}"
    return f"{finding.id}, {finding_text.headline(finding)}, {finding.state.value}{until}{reason}"


def _data(verdict: NightVerdict) -> dict[str, Any]:
    """Return everything in the verdict for JSON."""
    return {
        "format": VERDICT_FORMAT,
        "title": verdict.title,
        "when": verdict.when.isoformat(),
        "summary": summary(verdict),
        "exit_status": exit_status(verdict),
        "measured": verdict.measured,
        **{name: [finding_text.as_data(finding) for finding in group] for name, group in verdict.groups.items()},
        "comparisons": [
            fields.plain(identity) | comparison_data(comparison) for identity, comparison in verdict.comparisons
        ],
        "failures": fields.plain(verdict.failures),
        "failed_builds": fields.plain(verdict.failed_builds),
        "stale": [fields.plain(silent) | {"days": round(silent.days, 2)} for silent in verdict.stale],
        "superseded": fields.plain(verdict.superseded),
        "errors": list(verdict.errors),
        "notes": list(verdict.notes),
        "commits": {
            sha: {"author": commit.author, "date": commit.date.isoformat(), "subject": commit.subject}
            for sha, commit in verdict.commits.items()
        },
    }


def _cases(verdict: NightVerdict) -> Iterator[JUnitCase]:
    """Yield a test case of JUnit XML for each finding and each compared series.

    Regressions are failures. Failed benchmarks and builds, data errors and a run that measured nothing are errors.
    Suspects and comparisons without an answer are skipped, because no CI counts those as successes.
    """
    for finding in verdict.groups["regressions"]:
        yield JUnitCase(
            finding.subject, finding.id, "failure", finding_text.title(finding), _explained(finding, verdict)
        )
    for tag, groups in (("skipped", ("suspects", "vanished")), (None, ("environment", "improvements"))):
        for finding in itertools.chain.from_iterable(verdict.groups[name] for name in groups):
            yield JUnitCase(finding.subject, finding.id, tag, finding_text.title(finding))
    for failed in (*verdict.failed_builds, *verdict.failures):
        yield JUnitCase(SOFTWARE, failed.what, "error", failed.why)
    for error in (*verdict.errors, *([NOTHING_MEASURED] if verdict.measured == 0 else [])):
        yield JUnitCase(SOFTWARE, "data", "error", error)
    for identity, comparison in verdict.comparisons:
        tag = "skipped" if comparison.answer is Answer.UNKNOWN else None
        message = ComparedSeries(str(identity), comparison).message
        yield JUnitCase(f"{identity.machine}.{identity.kernel}", str(identity), tag, message)


def _explained(finding: Finding, verdict: NightVerdict, most_series: int | None = None) -> str:
    """Return the details of a finding, below its commits with their subjects, and the author of a single one."""
    commits = [
        commit_line(verdict.commits[sha], with_author=finding.culprit is not None)
        for sha in finding.commits[:MOST_SERIES]
        if sha in verdict.commits
    ]
    return "\n".join([*commits, finding_text.details(finding, most_series)])
