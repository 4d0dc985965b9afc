"""Decide about a finding, as people and nights do. Pure: a finding in, a finding out.

Every change of state is recorded as a decision, so that a file says who changed what, when and why.

An expectation announces a change of speed: `kv findings expect`, or a line of a commit message:

    Perf-Expected: matmul +3% because the bias is added in the epilogue
    Perf-Expected: quantize_int8.Cuda -20%
    Perf-Expected: * any because the compiler's flags changed

The line names the series, how far their values may move (`any`: without a limit), and why. The series are a kernel, or
the beginning of a series' name, with `*` for any letters. The percentage is of the value, time for most: +3% allows up
to 3% more time, -20% expects up to 20% less. A line in a merged branch counts for its merge, too. Strangers type these
lines, so the pattern allows letters only: a regular expression can be made to run for ever.
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated

from kernel_velocity.errors import UsageError
from kernel_velocity.fields import Rule, Sha
from kernel_velocity.findings.finding import OPEN, Affected, Decision, Finding, Id, Kind, Ratio, State
from kernel_velocity.results.identity import Identity
from kernel_velocity.results.records import Commit
from kernel_velocity.stats.sequential import Comparison
from kernel_velocity.verdict.events import Rest
from kernel_velocity.verdict.history import SeriesHistory, threshold
from kernel_velocity.verdict.silence import Superseded

if TYPE_CHECKING:
    from kernel_velocity.results.asv_file import Series  # imports asv, .1 s that no report needs

RECOVERED = 3  # last values whose median tells the level: a single one may be back by chance

KEY = "Perf-Expected"
_LINE = re.compile(rf"^{KEY}[ \t]*:(.*)$", re.MULTILINE | re.IGNORECASE)
_PARTS = re.compile(
    r"\s*(?P<series>[\w.*-]{1,100})\s+(?P<much>any|[+-]\d{1,4}(?:\.\d{1,3})?%)(?:\s+(?:because|:|-)?\s*(?P<why>\S.*))?",
    re.ASCII,
)
_FORM = f"`{KEY}: SERIES +3%|-3%|any [because REASON]`"


def is_expression(text: str) -> bool:
    """Return whether a text is a regular expression."""
    try:
        re.compile(text)
    except re.error:
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """Commits that change some series on purpose."""

    id: Id
    commits: tuple[Sha, ...]
    bench: Annotated[str, Rule("a regular expression", is_expression)]  # that the series match
    reason: str
    who: str
    when: datetime
    most: Ratio | None = None  # limit of the ratio of values, new / old: upper if over 1, else lower; None: no limit

    def allows(self, series: str, ratio: float, low: float | None, high: float | None) -> bool:
        """Return whether a change is expected, by the end of its 95% interval that is nearer to 1.

        Args:
            series: its name. ratio: of values, new / old. low, high: the interval of the ratio.
        """
        if not re.search(self.bench, series):
            return False
        if self.most is None:
            return True
        if self.most >= 1:
            return ratio >= 1 and (low or ratio) <= self.most
        return ratio <= 1 and (high or ratio) >= self.most


def _changed(
    finding: Finding, state: State, reason: str, *, who: str, when: datetime, until: date | None = None
) -> Finding:
    decision = Decision(when=when, who=who, state=state, reason=reason, until=until)
    return replace(finding, state=state, decisions=(*finding.decisions, decision))


def acknowledge(finding: Finding, *, reason: str, until: date, who: str, when: datetime) -> Finding:
    """Leave a finding alone until the end of a day.

    Raises:
        UsageError: the finding is not open, there is no reason, or the day is over.
    """
    if finding.state not in OPEN and finding.state is not State.ACKNOWLEDGED:
        raise UsageError(f"{finding.id} is {finding.state.value}: only what is open can be acknowledged")
    if not reason.strip():
        raise UsageError(f"{finding.id}: the reason is missing: give --reason TEXT")
    if until < when.date():
        raise UsageError(f"{finding.id}: --until must be {when.date()} or later (got {until})")
    return _changed(finding, State.ACKNOWLEDGED, reason, who=who, when=when, until=until)


def reopen(finding: Finding, *, reason: str, who: str, when: datetime) -> Finding:
    """Open a finding again, in the state that it last had while it was open.

    Raises:
        UsageError: it is open, or an environment, which is never open.
    """
    if finding.state in OPEN:
        raise UsageError(f"{finding.id} is {finding.state.value}: it is open already")
    if finding.kind is Kind.ENVIRONMENT:
        raise UsageError(f"{finding.id} is an environment finding: it blames no commit, and was never open")
    return _changed(finding, _last_open(finding), reason, who=who, when=when)


def _last_open(finding: Finding) -> State:
    return next((decision.state for decision in reversed(finding.decisions) if decision.state in OPEN), State.NEW)


def refreshed(finding: Finding, *, who: str, when: datetime) -> Finding:
    """Return a finding as of a time: open again where its acknowledgement is over."""
    if finding.until is None or finding.until >= when.date():
        return finding
    reason = f"acknowledged until {finding.until}, which is over"
    return _changed(finding, _last_open(finding), reason, who=who, when=when)


def expected(finding: Finding, expectations: Iterable[Expectation], *, when: datetime) -> Finding:
    """Return a confirmed finding as expected where every series that shows it was announced.

    An expectation counts where it covers all possible commits: otherwise one commit would excuse the others. It does
    not count where somebody opened the finding again after it was made.
    """
    if finding.state is not State.CONFIRMED or not finding.affected or finding.kind is Kind.VANISHED:
        return finding
    opened = _opened_again(finding)
    covering = [
        expectation
        for expectation in expectations
        if set(finding.commits) <= set(expectation.commits) and (opened is None or expectation.when > opened)
    ]
    reasons: dict[str, str] = {}  # reason -> who gave it
    for series in finding.affected:
        change = (str(series.identity), series.ratio, series.low, series.high)
        expectation = next((expectation for expectation in covering if expectation.allows(*change)), None)
        if expectation is None:
            return finding
        reasons.setdefault(expectation.reason, expectation.who)
    return _changed(finding, State.EXPECTED, "; ".join(reasons), who=next(iter(reasons.values())), when=when)


def _opened_again(finding: Finding) -> datetime | None:
    """Return when a person last opened a finding that was expected. None if nobody did.

    A night opens a finding where more is confirmed than was expected. An expectation of that still counts.
    """
    pairs = itertools.pairwise(finding.decisions)
    opened = (
        after.when
        for before, after in pairs
        if before.state is State.EXPECTED and after.state in OPEN and after.who != finding.decisions[0].who
    )
    return max(opened, default=None)


def refuted(finding: Finding, reasons: Mapping[tuple[Identity, str], str], *, who: str, when: datetime) -> Finding:
    """Return a suspect as resolved where re-runs refuted the moves of all its series, and another finding as it is.

    Args:
        reasons: series and the commit that its move was to have begun with -> what the re-run says.
    """
    named = {*finding.commits, finding.bad}
    by_series = {identity: reason for (identity, commit), reason in reasons.items() if commit in named}
    series = [affected.identity for affected in finding.affected]
    if finding.state not in (State.NEW, State.SUSPECT) or not series or not by_series.keys() >= {*series}:
        return finding
    reason = "; ".join(by_series[identity] for identity in series)
    return _changed(finding, State.RESOLVED, reason, who=who, when=when)


def superseded(finding: Finding, ended: Iterable[Superseded], *, who: str, when: datetime) -> Finding:
    """Return a finding as ended by a change of method where every series that shows it continues as another one."""
    by_series = {series.old: series for series in ended}
    changed = [by_series[series.identity].what for series in finding.affected if series.identity in by_series]
    if finding.state not in OPEN | {State.ACKNOWLEDGED} or not changed or len(changed) < len(finding.affected):
        return finding
    what = " and ".join(dict.fromkeys(changed))
    return _changed(finding, State.METHOD, f"its series ended: {what} changed", who=who, when=when)


def taken_back(findings: Iterable[Finding], order: Mapping[str, int], *, who: str, when: datetime) -> list[Finding]:
    """Return findings, each regression that a later improvement took back decided together with it: one event.

    Both were measured in turns. The regression is back where of each of its series the interval of what both leave
    holds 0 (verdict/events.py). One that was decided at `when` is left alone.

    Args:
        order: commit -> position on the first-parent line.
    """
    by_id = {finding.id: finding for finding in findings}
    improvements = [
        finding
        for finding in by_id.values()
        if finding.kind is Kind.IMPROVEMENT and finding.state is State.CONFIRMED and order.keys() >= {*finding.commits}
    ]
    for finding in tuple(by_id.values()):
        is_new = bool(finding.decisions) and finding.decisions[-1].when == when
        if finding.kind is not Kind.REGRESSION or finding.state not in OPEN | {State.ACKNOWLEDGED} or is_new:
            continue
        other = next((of for of in improvements if _takes_back(of, finding, order)), None)
        if other is not None:
            since = other.commits[-1][:8]
            reason = f"back since {since}: {other.id} takes it back"
            by_id[finding.id] = _changed(finding, State.RESOLVED, reason, who=who, when=when)
            by_id[other.id] = _changed(other, State.EXPECTED, f"takes back {finding.id}", who=who, when=when)
            improvements.remove(other)
    return [*by_id.values()]


def _takes_back(improvement: Finding, finding: Finding, order: Mapping[str, int]) -> bool:
    """Return whether an improvement leaves nothing of a regression."""
    positions = [order[sha] for sha in finding.commits if sha in order]
    if not positions or max(positions) >= min(order[sha] for sha in improvement.commits):
        return False
    after = {series.identity: series for series in improvement.affected}
    return after.keys() >= {series.identity for series in finding.affected} and all(
        Rest(
            series.effect + after[series.identity].effect, math.hypot(_half(series), _half(after[series.identity]))
        ).is_nothing
        for series in finding.affected
    )


def _half(series: Affected) -> float:
    """Return half the interval of a series' effect, log units. 0 of what was read, not timed."""
    return math.log(series.high / series.low) / 2 if series.low and series.high else 0.0


def resolved(
    finding: Finding, histories: Mapping[Identity, SeriesHistory], order: Mapping[str, int], *, who: str, when: datetime
) -> Finding:
    """Return a regression as resolved where all its series are back, or a vanished one where all have values again.

    A series is back where the median of its last values, all from after the finding's commits, differs from the level
    before them by less than a move that counts, and by less than half of the effect. A series that is no longer
    measured is left out.

    Args:
        histories: as `judge.prepared` returns them with the steps of environment findings alone.
        order: commit -> position on the first-parent line.
    """
    is_gone = finding.kind is Kind.VANISHED
    if not (is_gone or finding.kind is Kind.REGRESSION):
        return finding
    if finding.state not in OPEN | {State.ACKNOWLEDGED, State.EXPECTED}:
        return finding
    positions = [order[sha] for sha in finding.commits if sha in order]
    measured = [(series, histories[series.identity]) for series in finding.affected if series.identity in histories]
    if not positions or not measured or (is_gone and len(measured) < len(finding.affected)):
        return finding
    first, last = min(positions), max(positions)
    if not all(
        history.newest.position > last if is_gone else _is_back(series, history, first, last)
        for series, history in measured
    ):
        return finding
    newest = measured[0][1].newest.commit[:8]
    return _changed(finding, State.RESOLVED, f"back where it was, as of {newest}", who=who, when=when)


def _is_back(series: Affected, history: SeriesHistory, first: int, last: int) -> bool:
    before = [observation.value for observation in history.observations if observation.position < first]
    after = [observation.value for observation in history.observations if observation.position > last]
    if not before or len(after) < RECOVERED:
        return False
    moved = statistics.median(after[-RECOVERED:]) - statistics.median(before[-RECOVERED:])
    rest = moved if series.effect > 0 else -moved
    return rest < min(threshold(history), abs(series.effect) / 2)


def expectations(
    commits: Iterable[Commit], merged: Mapping[str, Iterable[Commit]] | None = None
) -> tuple[tuple[Expectation, ...], tuple[str, ...]]:
    """Return what the messages of commits expect, and a note for each line that cannot be read.

    Args:
        merged: merge -> the commits that it brought. Their expectations may show at the merge alone.
    """
    parsed: list[Expectation] = []
    notes = []
    brought = ((merge, commit) for merge, branch in (merged or {}).items() for commit in branch)
    for sha, commit in (*((commit.sha, commit) for commit in commits), *brought):
        for number, text in enumerate(_LINE.findall(commit.message), start=1):
            parts = _PARTS.fullmatch(text.strip())
            if parts is None:
                shown = "".join(letter if letter.isprintable() else "?" for letter in text.strip()[:60])
                notes.append(f"{commit.sha[:8]}: {KEY}: {_FORM} is wanted, got {shown!r}; nothing is expected by it")
            else:
                parsed.append(_expectation(commit, number, parts, sha))
    return tuple(parsed), tuple(dict.fromkeys(notes))


def _expectation(commit: Commit, number: int, parts: re.Match[str], sha: str) -> Expectation:
    much = parts["much"]
    return Expectation(
        id=f"{commit.sha[:8]}-{number}",
        commits=(sha,),
        bench=_pattern(parts["series"]),
        reason=f"{KEY} in {commit.sha[:8]}: {parts['why'] or much}",
        who=commit.author,
        when=commit.date,
        most=None if much == "any" else 1 + float(much.rstrip("%")) / 100,
    )


def _pattern(series: str) -> str:
    """Return the regular expression of a pattern: from the name's beginning to the end of a part of it.

    The text between two stars is matched where it first fits, without backtracking (an atomic group): trying every
    other place, star by star, takes a time exponential in the stars.
    """
    first, *rest = (re.escape(part) for part in re.split(r"\*+", series))
    between = "".join(rf"(?>\S*?{part})" for part in rest[:-1])
    last = rf"\S*{rest[-1]}" if rest else ""
    return rf"^{first}{between}{last}(?:[. ]|$)"


def slower_as_expected(
    comparisons: Mapping[Series, Comparison], expectations: Iterable[Expectation]
) -> dict[Series, str]:
    """Return the series that are slower, or may be, and not by more than expected, each with the reason given."""
    reasons = {}
    for series, comparison in comparisons.items():
        if comparison.ratio is None or not (comparison.slower or comparison.suspect):
            continue
        change = (" ".join([series[0], *series[1]]), comparison.ratio, comparison.low, comparison.high)
        expectation = next((expectation for expectation in expectations if expectation.allows(*change)), None)
        if expectation is not None:
            reasons[series] = expectation.reason
    return reasons
