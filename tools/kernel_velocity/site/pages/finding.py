"""A page for each finding: what happened, the evidence, whose doing it is, what was decided, and how to decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernel_velocity import units
from kernel_velocity.findings import finding, text
from kernel_velocity.findings.evidence import Evidence, Purpose
from kernel_velocity.findings.finding import Finding
from kernel_velocity.results import git
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.results.records import Commit
from kernel_velocity.site.model import Site
from kernel_velocity.site.outputs import Page
from kernel_velocity.site.pages import finding_evidence, finding_series, finding_words
from kernel_velocity.site.pages.finding_evidence import Bisected, Sessions, Shown, Suspected
from kernel_velocity.site.pages.finding_series import Series
from kernel_velocity.site.pages.finding_words import Command
from kernel_velocity.site.text import CommitLine

MOST_SHOWN = 12  # re-runs with a figure; the file has the rest
UNFOLDED = 2  # of these that need no click


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A decision."""

    when: str
    who: str
    state: str
    until: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class FindingPage:
    """A finding."""

    name: str
    id: str
    kind: str
    state: str
    chip: str
    state_words: str
    headline: str
    subject: str
    accusation: str
    suspected: tuple[Suspected, ...]
    further: str  # how many commits are not listed
    anchor: CommitLine | None
    anchor_short: str
    found: str
    shown_by: str
    how: str
    ruled_out: tuple[str, ...]
    decide: tuple[Command, ...]
    look: tuple[Command, ...]
    missing: str  # why there is no evidence; "" where there is
    unread: tuple[str, ...]
    reruns: tuple[Shown, ...]
    left_out: str
    paths: tuple[Bisected, ...]
    series: tuple[Series, ...]
    series_further: str
    changes: tuple[tuple[str, str, str], ...]  # fact, before, after
    changes_lead: str
    facts: tuple[tuple[str, str], ...]  # that stayed
    code: tuple[str, ...]
    decisions: tuple[Decided, ...]
    file: str


@dataclass(frozen=True, kw_only=True)
class Known:
    """What all pages of findings are made from besides the findings."""

    named: Mapping[str, Commit]  # the commits that they and their evidence name, as far as the repository has them
    touched: Mapping[str, Sequence[str]]  # the files that those changed
    keys: Mapping[tuple[str, ...], SeriesKey]
    sessions: Sessions


def build(found: Site) -> Iterator[Page]:
    """Yield the page of every finding."""
    known = _known(found)
    for item in found.findings:
        page = of(found, item, known)
        yield Page(name=page.name, template="finding.html", context={"page": page})


def _known(found: Site) -> Known:
    named = _commits(found)
    accused = dict.fromkeys(
        sha for item in found.findings for sha in finding_evidence.shown_commits(item) if sha in named
    )
    return Known(
        named=named,
        touched=git.touched(found.repository, tuple(accused)),
        keys=finding_series.by_slot(found),
        sessions=finding_evidence.sessions(found),
    )


def _commits(found: Site) -> Mapping[str, Commit]:
    """Return every commit that findings or their evidence name and that the repository has."""
    wanted: set[str] = set()
    for item in found.findings:
        wanted |= {*finding_evidence.shown_commits(item), *([item.anchor] if item.anchor else [])}
        for kept in found.evidence(item.id)[0].values():
            wanted |= {sha for rerun in kept.reruns for sha in (rerun.before, rerun.after)}
            wanted |= {step.commit for path in kept.paths for step in path.tried} | {path.good for path in kept.paths}
    return git.read(found.repository, wanted).commits if wanted else {}


def of(found: Site, item: Finding, known: Known) -> FindingPage:
    """Return the page of a finding."""
    kept, unread = found.evidence(item.id)
    reruns = [one for own in kept.values() for one in own.reruns]
    reruns.sort(key=lambda one: (one.purpose is Purpose.CULPRIT, -abs(one.effect or 0.0)))
    series, further = finding_series.shown(found, item, known.keys)
    machine = finding_evidence.environment(known.sessions, item)
    left_out = max(0, len(reruns) - MOST_SHOWN) + sum(own.left_out for own in kept.values())
    return FindingPage(
        name=finding.finding_href(item.id),
        id=item.id,
        kind=item.kind.value,
        state=finding_words.state(item),
        chip=finding_words.chip(item),
        state_words=finding_words.STATES[item.state],
        headline=finding_words.headline(item),
        subject=item.subject,
        accusation=text.accusation(item) if item.commits else "",
        suspected=finding_evidence.suspected(item, known.named, known.touched, found.commits),
        further=finding_evidence.further(item),
        anchor=finding_evidence.line(item.anchor, known.named, found.commits),
        anchor_short=(item.anchor or "")[:SHORT],
        found=f"{item.found:%Y-%m-%d %H:%M %Z}",
        shown_by=text.shown_by(item),
        how=item.how,
        ruled_out=item.ruled_out,
        decide=finding_words.decisions(item),
        look=finding_words.looks(item),
        missing="" if reruns else finding_words.missing(item),
        unread=unread,
        reruns=tuple(
            finding_evidence.shown_rerun(one, number >= UNFOLDED) for number, one in enumerate(reruns[:MOST_SHOWN])
        ),
        left_out=f"{units.count(left_out, 'further re-run')} not shown" if left_out > 0 else "",
        paths=tuple(finding_evidence.bisected(found, path, known.named) for own in kept.values() for path in own.paths),
        series=series,
        series_further=further,
        changes=machine.changes,
        changes_lead=machine.lead,
        facts=machine.same,
        code=(*machine.code, *_codes(kept)),
        decisions=tuple(_decided(item)),
        file=f"results/findings/{item.id}.toml",
    )


def _decided(item: Finding) -> Iterator[Decided]:
    for one in item.decisions:
        yield Decided(
            when=f"{one.when:%Y-%m-%d %H:%M %Z}",
            who=one.who,
            state=one.state.value,
            until="" if one.until is None else f"until {one.until}",
            reason=one.reason,
        )


def _codes(kept: Mapping[str, Evidence]) -> Iterator[str]:
    """Yield what is known of the code that the re-runs ran, each once."""
    said = {}
    for one in (rerun for own in kept.values() for rerun in own.reruns):
        before, after = one.code
        if before is None or after is None:
            continue
        ends = f"{one.identity.kernel}, {one.before[:SHORT]} to {one.after[:SHORT]}"
        is_same = before == after
        said[ends, is_same] = (
            f"{ends}: the machine code is the same" if is_same else f"{ends}: the machine code is another one"
        ) + f" ({before[:12]}{'' if is_same else f' to {after[:12]}'})"
    yield from said.values()
