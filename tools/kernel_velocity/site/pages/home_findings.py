"""The home page's findings: what waits for somebody, the worst first; what the machines did; what is better or gone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kernel_velocity.findings import finding
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.finding import OPEN, Finding, Kind, State
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.records import Commit
from kernel_velocity.site import text as pages
from kernel_velocity.site.model import Site

LATELY = timedelta(days=30)  # before the newest thing that is known
LISTED = 10  # of each of the lists that wait for nobody
NAMED = 3  # commits and authors of a finding that blames several
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DECIDED = frozenset({State.ACKNOWLEDGED, State.EXPECTED, State.METHOD})
_URGENCY = (State.CONFIRMED, State.SUSPECT, State.NEW)  # the surest first


@dataclass(frozen=True, kw_only=True)
class Blamed:
    """A commit that can have done it."""

    short: str
    href: str  # empty where it has no page
    subject: str
    author: str


@dataclass(frozen=True, kw_only=True)
class FindingLine:
    """A finding in a line."""

    href: str
    subject: str  # the kernel; of an environment the machine
    kind: str
    state: str
    tone: str  # "slower", "faster", "same" (not sure), ""
    change: str  # "time +3.00%"
    interval: str  # with what was tested; empty where nothing was
    where: str  # which series on which machines
    commits: tuple[Blamed, ...]
    further: str  # how many commits are not named; empty for none
    found: str  # "2026-11-22 03:00"
    iso: str  # the same, for scripts


@dataclass(frozen=True, kw_only=True)
class FindingList:
    """Some findings, and how many of them are not listed."""

    lines: tuple[FindingLine, ...]
    further: str  # empty for none


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What the home page says of findings."""

    open: tuple[FindingLine, ...]  # for the worse, worst first
    improvements: FindingList
    environment: FindingList
    resolved: FindingList
    decided: FindingList  # acknowledged, expected, ended by a change of method


def build(found: Site) -> Findings:
    """Return the findings of a site as the home page shows them."""
    items, measured = found.findings, frozenset(found.measured)
    said = [item.when for item in found.verdicts] + [_last_decided(item) for item in items]
    since = max(said, default=EPOCH + LATELY) - LATELY

    def lines(chosen: Iterable[Finding]) -> FindingList:
        newest_first = sorted(chosen, key=lambda item: (_last_decided(item), item.id), reverse=True)
        more = len(newest_first) - LISTED
        return FindingList(
            lines=tuple(line(item, found, measured) for item in newest_first[:LISTED]),
            further=f"{more:,} more" if more > 0 else "",
        )

    waiting = [item for item in items if item.state in OPEN]
    worse = [item for item in waiting if item.kind in (Kind.REGRESSION, Kind.VANISHED)]
    return Findings(
        open=tuple(line(item, found, measured) for item in sorted(worse, key=_badness)),
        improvements=lines(item for item in waiting if item.kind is Kind.IMPROVEMENT),
        environment=lines(item for item in items if item.kind is Kind.ENVIRONMENT and _last_decided(item) >= since),
        resolved=lines(item for item in items if item.state is State.RESOLVED and _last_decided(item) >= since),
        decided=lines(item for item in items if item.state in DECIDED),
    )


def _last_decided(item: Finding) -> datetime:
    return item.decisions[-1].when if item.decisions else item.found


def _badness(item: Finding) -> tuple[int, float, str]:
    """Return a sort key: what is sure before what is not, then the largest effect first."""
    return _URGENCY.index(item.state), -abs(item.worst.effect) if item.worst else 0.0, item.id


def line(item: Finding, found: Site, measured: frozenset[str]) -> FindingLine:
    """Return a finding in a line; `measured` are the commits that have a page."""
    shown = item.commits if len(item.commits) <= NAMED else (item.commits[0], item.commits[-1])
    return FindingLine(
        href=finding.finding_href(item.id),
        subject=item.subject,
        kind=item.kind.value,
        state=item.state.value if item.until is None else f"{item.state.value} until {item.until}",
        tone=_tone(item),
        change=finding_text.headline(item).partition(f" ({finding_text.INTERVAL}")[0],  # it stands beside it
        interval=_interval(item),
        where=finding_text.shown_by(item),
        commits=tuple(_blamed(sha, found.commit(sha), sha in measured) for sha in shown),
        further=f"first and last of {len(item.commits)} commits" if len(shown) < len(item.commits) else "",
        found=f"{item.found:%Y-%m-%d %H:%M}",
        iso=item.found.isoformat(),
    )


def _interval(item: Finding) -> str:
    """Return the interval of the worst series and its test: its interval, p, rounds."""
    if item.worst is None or item.kind is Kind.ENVIRONMENT:
        return ""
    within = finding_text.interval(item.worst.low, item.worst.high).strip(" ()")
    return ", ".join(part for part in (within, finding_text.tested(item.worst)) if part)


def _tone(item: Finding) -> str:
    """Return how its change is to be coloured: only what is confirmed is."""
    if item.state is not State.CONFIRMED:
        return "same"
    return {Kind.REGRESSION: "slower", Kind.IMPROVEMENT: "faster"}.get(item.kind, "")


def _blamed(sha: str, commit: Commit | None, has_page: bool) -> Blamed:
    if commit is None:
        return Blamed(short=sha[:SHORT], href="", subject="(not in this clone)", author="")
    made = pages.commit_line(commit)
    return Blamed(short=made.short, href=made.href if has_page else "", subject=made.subject, author=made.author)
