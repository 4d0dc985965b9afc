"""What every report of a verdict says in the same words: the first line, and where a finding comes from. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kernel_velocity import units
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.finding import Finding, Kind, State
from kernel_velocity.findings.verdict import Verdict, exit_status
from kernel_velocity.series.silence import Stale
from kernel_velocity.stats.sequential import Answer

NOTHING = "nothing was measured"


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
