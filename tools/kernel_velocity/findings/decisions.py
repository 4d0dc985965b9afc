"""What may be decided about a finding, by people and by nights. Pure: a finding in, a finding out.

Every change of state is kept as a decision, so that a file tells who did what, when and why.

`Perf-Expected:` lines of commit messages: the author says that a change of speed is wanted.

    Perf-Expected: matmul +3% because the bias is added in the epilogue
    Perf-Expected: quantize_int8.Cuda -20%
    Perf-Expected: * any because the compiler's flags changed

A line names series, how far their value may move (`any`: however far), and why. Series: a kernel, or a series' name or
its beginning, with `*` for any letters. The percentage is of the value, time for most: +3% allows 3% more time and no
more, -20% expects up to 20% less. A line in a merged branch counts for its merge, too. Pure. What is in a message is
what a stranger typed: a pattern of these letters only, and never a regular expression, which can be made to take for
ever.
"""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime

from kernel_velocity.errors import UsageError
from kernel_velocity.findings.finding import OPEN, Affected, Decision, Finding, Kind, State
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.identity import Identity
from kernel_velocity.results.records import Commit
from kernel_velocity.series.history import SeriesHistory, threshold
from kernel_velocity.series.silence import Superseded
from kernel_velocity.stats.sequential import Comparison

RECOVERED = 3  # last values, the middle of which tells where a series is: one that is back by chance is not enough

KEY = "Perf-Expected"
_LINE = re.compile(rf"^{KEY}[ \t]*:(.*)$", re.MULTILINE | re.IGNORECASE)
_SAID = re.compile(
    r"\s*(?P<series>[\w.*-]{1,100})\s+(?P<much>any|[+-]\d{1,4}(?:\.\d{1,3})?%)(?:\s+(?:because|:|-)?\s*(?P<why>\S.*))?",
    re.ASCII,
)
_FORM = f"`{KEY}: SERIES +3%|-3%|any [because REASON]`"


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """Commits whose changes of some series are wanted: said by a command, or in a commit message."""

    id: str
    commits: tuple[str, ...]
    bench: str  # regular expression that a series matches
    reason: str
    who: str
    when: datetime
    most: float | None = None  # ratio of values, new / old, up to which (over 1) or down to which it holds; None: any

    def covers(self, item: Affected) -> bool:
        """Return whether a series' change is what was expected; it is held to the end of its interval nearer to 1."""
        return self.allows(str(item.identity), item.ratio, item.low, item.high)

    def allows(self, series: str, ratio: float, low: float | None, high: float | None) -> bool:
        """Return the same of a series by its name, and of a change, new / old, with its 95% interval."""
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
        UsageError: there is nothing to leave alone, no reason, or the day is over.
    """
    if finding.state not in OPEN and finding.state is not State.ACKNOWLEDGED:
        raise UsageError(f"{finding.id} is {finding.state.value}: only what is open can be acknowledged")
    if not reason.strip():
        raise UsageError(f"{finding.id}: a reason is wanted, so that the next reader knows it: --reason TEXT")
    if until < when.date():
        raise UsageError(f"{finding.id}: --until {until} is over; a day from {when.date()} on is wanted")
    return _changed(finding, State.ACKNOWLEDGED, reason, who=who, when=when, until=until)


def reopen(finding: Finding, *, reason: str, who: str, when: datetime) -> Finding:
    """Open a finding again, as what it was when it last was.

    Raises:
        UsageError: it is open, or never was: what the machine did waits for nobody.
    """
    if finding.state in OPEN:
        raise UsageError(f"{finding.id} is {finding.state.value}: it is open already")
    if finding.kind is Kind.ENVIRONMENT:
        raise UsageError(f"{finding.id} is what the machine did: it accuses no commit, and was never open")
    return _changed(finding, _before(finding), reason, who=who, when=when)


def _before(finding: Finding) -> State:
    """Return the open state that a finding last had; of one that never had any, "new"."""
    return next((item.state for item in reversed(finding.decisions) if item.state in OPEN), State.NEW)


def expired(finding: Finding, today: date) -> bool:
    """Return whether a finding was acknowledged up to a day that is over."""
    return finding.until is not None and finding.until < today


def refreshed(finding: Finding, *, who: str, when: datetime) -> Finding:
    """Return a finding as it is today: open again where its acknowledgement is over."""
    if not expired(finding, when.date()):
        return finding
    return _changed(finding, _before(finding), f"acknowledged until {finding.until}, which is over", who=who, when=when)


def expected(finding: Finding, expectations: Iterable[Expectation], *, when: datetime) -> Finding:
    """Return a confirmed finding as expected where somebody said so of every series that shows it.

    An expectation counts where it covers all commits that can have done it: one of some would excuse the others. One
    that somebody opened the finding again in spite of counts no more.
    """
    if finding.state is not State.CONFIRMED or not finding.affected or finding.kind is Kind.VANISHED:
        return finding
    opened = _opened_again(finding)
    own = [
        item
        for item in expectations
        if set(finding.commits) <= set(item.commits) and (opened is None or item.when > opened)
    ]
    by_series = [next((one for one in own if one.covers(item)), None) for item in finding.affected]
    found = [one for one in by_series if one is not None]
    if len(found) < len(finding.affected):
        return finding
    reasons = "; ".join(dict.fromkeys(one.reason for one in found))
    return _changed(finding, State.EXPECTED, reasons, who=found[0].who, when=when)


def _opened_again(finding: Finding) -> datetime | None:
    """Return when a person last opened a finding that was expected; None: nobody has.

    A night opens one by itself where more is confirmed than was expected: what expects that as well still counts.
    """
    pairs = itertools.pairwise(finding.decisions)
    opened = (
        after.when
        for before, after in pairs
        if before.state is State.EXPECTED and after.state in OPEN and after.who != finding.decisions[0].who
    )
    return max(opened, default=None)


def refuted(finding: Finding, *, reason: str, who: str, when: datetime) -> Finding:
    """Return a suspect as resolved that a confirmation found to be none; what is no suspect as it is."""
    if finding.state not in (State.NEW, State.SUSPECT):
        return finding
    return _changed(finding, State.RESOLVED, reason, who=who, when=when)


def superseded(finding: Finding, items: Iterable[Superseded], *, who: str, when: datetime) -> Finding:
    """Return a finding as ended by a change of method where every series that shows it goes on as another."""
    ended: Mapping[Identity, Superseded] = {item.old: item for item in items}
    own = [ended[item.identity] for item in finding.affected if item.identity in ended]
    if finding.state not in OPEN | {State.ACKNOWLEDGED} or not own or len(own) < len(finding.affected):
        return finding
    what = " and ".join(dict.fromkeys(item.what for item in own))
    return _changed(finding, State.METHOD, f"its series ended: {what} changed", who=who, when=when)


def resolved(
    finding: Finding, histories: Mapping[Identity, SeriesHistory], order: Mapping[str, int], *, who: str, when: datetime
) -> Finding:
    """Return a regression as resolved where all its series are back, and what vanished where all have a value again.

    Back: the middle of its last values, all from after the finding's commits, lies nearer to the level before them than
    what counts as a move, and than half of the effect. A series that is not measured any more tells nothing. Histories
    are best those that `moves.prepared` gives with the steps of environment findings, and of no others.
    """
    if finding.state not in OPEN | {State.ACKNOWLEDGED, State.EXPECTED}:
        return finding
    places = [order[sha] for sha in finding.commits if sha in order]
    known = [(item, histories[item.identity]) for item in finding.affected if item.identity in histories]
    if not places or not known or (finding.kind is Kind.VANISHED and len(known) < len(finding.affected)):
        return finding
    is_back = {Kind.REGRESSION: _is_back, Kind.VANISHED: _is_there}.get(finding.kind)
    if is_back is None or not all(is_back(item, own, min(places), max(places)) for item, own in known):
        return finding
    last = known[0][1].newest.commit[:8]
    return _changed(finding, State.RESOLVED, f"back where it was, as of {last}", who=who, when=when)


def _is_there(_: Affected, history: SeriesHistory, first: int, last: int) -> bool:
    return history.newest.place > max(first, last)


def _is_back(item: Affected, history: SeriesHistory, first: int, last: int) -> bool:
    before = [one.value for one in history.observations if one.place < first]
    after = [one.value for one in history.observations if one.place > last]
    if not before or len(after) < RECOVERED:
        return False
    moved = statistics.median(after[-RECOVERED:]) - statistics.median(before[-RECOVERED:])
    left = moved if item.effect > 0 else -moved
    return left < min(threshold(history), abs(item.effect) / 2)


def expectations(
    commits: Iterable[Commit], merged: Mapping[str, Iterable[Commit]] | None = None
) -> tuple[tuple[Expectation, ...], tuple[str, ...]]:
    """Return what the messages of commits expect, and a note for each line that says nothing that can be read.

    Args:
        merged: the commits that a merge brought, by its SHA: what they expect may be seen at the merge alone.
    """
    found: list[Expectation] = []
    notes = []
    brought = ((merge, commit) for merge, items in (merged or {}).items() for commit in items)
    for sha, commit in (*((commit.sha, commit) for commit in commits), *brought):
        for number, text in enumerate(_LINE.findall(commit.message), start=1):
            said = _SAID.fullmatch(text.strip())
            if said is None:
                shown = "".join(letter if letter.isprintable() else "?" for letter in text.strip()[:60])
                notes.append(f"{commit.sha[:8]}: {KEY}: {_FORM} is wanted, got {shown!r}; nothing is expected by it")
            else:
                found.append(_expectation(commit, number, said, sha))
    return tuple(found), tuple(dict.fromkeys(notes))


def slower_as_expected(found: Mapping[Series, Comparison], said: Iterable[Expectation]) -> dict[Series, str]:
    """Return the series that are slower, or may be, but no more than somebody expects, each with the reason given."""
    expected = {}
    for series, item in found.items():
        if item.ratio is None or not (item.slower or item.suspect):
            continue
        name = " ".join([series[0], *series[1]])
        one = next((one for one in said if one.allows(name, item.ratio, item.low, item.high)), None)
        if one is not None:
            expected[series] = one.reason
    return expected


def _expectation(commit: Commit, number: int, said: re.Match[str], sha: str) -> Expectation:
    much = said["much"]
    return Expectation(
        id=f"{commit.sha[:8]}-{number}",
        commits=(sha,),
        bench=_pattern(said["series"]),
        reason=f"{KEY} in {commit.sha[:8]}: {said['why'] or much}",
        who=commit.author,
        when=commit.date,
        most=None if much == "any" else 1 + float(much.rstrip("%")) / 100,
    )


def _pattern(series: str) -> str:
    """Return the regular expression of a pattern: from the name's beginning to the end of a part of it.

    What lies between two stars is taken where it first fits, for good (an atomic group): to try every other place, star
    by star, takes a time exponential in the stars.
    """
    first, *rest = (re.escape(part) for part in re.split(r"\*+", series))
    between = "".join(rf"(?>\S*?{part})" for part in rest[:-1])
    last = rf"\S*{rest[-1]}" if rest else ""
    return rf"^{first}{between}{last}(?:[. ]|$)"
