"""What the pages of findings say in words: headline, state, why there is no evidence, the commands to decide. Pure."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.evidence import Purpose, Rerun
from kernel_velocity.findings.finding import OPEN, Finding, Kind, State
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.identity import metric

_RUN = "kv"
DAY, REASON = "YYYY-MM-DD", "WHY"  # in a command: what only the reader knows
STATES = {
    State.NEW: "Seen, and nobody has looked at it yet.",
    State.SUSPECT: "Measured again, and neither confirmed nor refuted: it is looked at again every night.",
    State.CONFIRMED: "Confirmed: it is there, and waits for somebody to decide.",
    State.EXPECTED: "Somebody said that this change is wanted.",
    State.ACKNOWLEDGED: "Somebody looked at it, and leaves it alone until a day.",
    State.ENVIRONMENT: "The machine's doing: no commit is to blame, and nobody has to do anything.",
    State.METHOD: "How it is measured changed, so that its series ended.",
    State.RESOLVED: "Gone again.",
}
_WORSE = {"time": ("slower", "faster"), "error": ("less exact", "more exact")}


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command that the reader can copy."""

    does: str
    text: str

    @property
    def words(self) -> list[str]:
        """Its text between blanks: a line of a page ends there only, and not behind a hyphen of an option."""
        return self.text.split(" ")


def headline(finding: Finding) -> str:
    """Return what happened in one line: "matmul got slower: time +10.3% (95% interval +8.70% to +11.6%)"."""
    if finding.kind in (Kind.ENVIRONMENT, Kind.VANISHED) or finding.worst is None:
        said = finding_text.title(finding)
        return said[0].upper() + said[1:] if finding.kind is Kind.ENVIRONMENT else said
    noun = metric(finding.worst.identity.benchmark).noun
    word = _WORSE.get(noun, ("worse", "better"))[finding.kind is Kind.IMPROVEMENT]
    got = "got" if finding.state not in (State.NEW, State.SUSPECT) else "may have got"
    return f"{finding.subject} {got} {word}: {finding_text.headline(finding)}"


def state(finding: Finding) -> str:
    """Return the state in words, with the day of an acknowledgement."""
    return finding.state.value if finding.until is None else f"{finding.state.value} until {finding.until}"


def chip(finding: Finding) -> str:
    """Return how the state is to be coloured: by its own name, but an improvement is nothing to be afraid of."""
    return finding.kind.value if finding.kind is Kind.IMPROVEMENT and finding.state in OPEN else finding.state.value


def missing(finding: Finding) -> str:
    """Return why there is no evidence of re-runs."""
    if finding.kind is Kind.ENVIRONMENT:
        return "Nothing was measured in turns: no commit is in question. It rests on series moving together (below)."
    if finding.kind is Kind.VANISHED:
        return "Nothing was measured again: that a value does not apply any more is recorded, not estimated."
    if finding.worst is not None and finding.worst.identity.is_error:
        return "Nothing was measured again: an error of results is computed from fixed inputs, not timed."
    if finding.worst is not None and finding.worst.identity.is_figure:
        return "Nothing was measured again: it is the compiler's figure of the code, not timed."
    return (
        "No rounds of a re-run are kept of it: it was found before nights kept them, or the machine that has them has "
        "not published them. What is known stands below; the command measures it again."
    )


def purpose(rerun: Rerun) -> str:
    """Return what a re-run was for."""
    before, after = rerun.before[:SHORT], rerun.after[:SHORT]
    if rerun.purpose is Purpose.CULPRIT:
        return f"the commit that the bisection came to, {after}, against the one before it, {before}"
    return f"{after} against {before}"


def decisions(finding: Finding) -> tuple[Command, ...]:
    """Return the commands by which a reader decides about a finding: those that its state allows."""
    found = []
    if finding.state in OPEN or finding.state is State.ACKNOWLEDGED:
        text = f"{_RUN} findings acknowledge {finding.id} --until {DAY} --reason {REASON}"
        found.append(Command(does="Leave it alone until the end of a day", text=text))
    if finding.state is State.CONFIRMED and finding.kind in (Kind.REGRESSION, Kind.IMPROVEMENT) and finding.commits:
        bench = shlex.quote(rf"^{re.escape(finding.subject)}\.")
        text = f"{_RUN} findings expect {_range(finding)} --bench {bench} --reason {REASON}"
        found.append(Command(does="Say that the change was wanted", text=text))
    if finding.state not in OPEN and finding.state is not State.ENVIRONMENT:
        text = f"{_RUN} findings reopen {finding.id} --reason {REASON}"
        found.append(Command(does="Open it again", text=text))
    return tuple(found)


def looks(finding: Finding) -> tuple[Command, ...]:
    """Return the commands by which a reader looks at a finding again."""
    found = [Command(does="All that is known of it, in a terminal", text=f"{_RUN} findings show {finding.id}")]
    worst = finding.worst
    if finding.kind is Kind.REGRESSION and worst and worst.identity.is_timed and finding.anchor and finding.commits:
        of = worst.identity
        options = f"--implementation {shlex.quote(of.implementation)} --case {shlex.quote(of.case)}"
        ends = f"{finding.anchor} {finding.commits[-1]}"
        text = f"{_RUN} bisect {shlex.quote(of.benchmark)} {ends} {options}"
        found.append(Command(does="Measure the worst series again, and bisect", text=text))
    return tuple(found)


def _range(finding: Finding) -> str:
    """Return a git range of exactly the commits that can have done it."""
    return finding.culprit or f"{finding.commits[0]}^..{finding.commits[-1]}"
