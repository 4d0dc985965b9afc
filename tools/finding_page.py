"""A page for each finding: what happened, the evidence, whose doing it is, what was decided, and how to decide."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tools import (
    evidence,
    finding_attribution,
    finding_figures,
    finding_series,
    finding_text,
    finding_words,
    history,
    pages,
    units,
    verdict_text,
)
from tools.ab_test import Answer
from tools.differing import P
from tools.evidence import Evidence, Look, Path, Purpose, Rerun
from tools.finding import Finding
from tools.finding_attribution import Suspected
from tools.finding_figures import PathStep, RatioFigure, RoundsFigure
from tools.finding_series import Series
from tools.finding_words import Command
from tools.pages import CommitLine
from tools.recorded import Commit
from tools.site import Site
from tools.site_files import Page

MOST_SHOWN = 12  # re-runs with a figure; the file has the rest
UNFOLDED = 2  # of these that need no click
ANSWERS = {Answer.DIFFERENT: "different", Answer.SAME: "the same", Answer.UNKNOWN: "not settled"}


@dataclass(frozen=True, kw_only=True)
class Round:
    """A pair of rounds, as a row of a table."""

    number: str
    first: str  # which side was measured first
    began: str
    before: str  # as the test compared them
    after: str
    ratio: str
    raw: str  # before and after as read, where that is not what was compared
    flags: str


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What the test said at a look, as a row of a table."""

    rounds: str
    change: str
    interval: str
    wide: str
    p: str
    answer: str


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A re-run."""

    series: str
    machine: str
    purpose: str
    answer: str
    tone: str
    reason: str
    floor: str
    threshold: str
    adjusted: str
    folded: str  # what it says while it is folded; "" for one that is not
    rounds_figure: RoundsFigure | None
    ratio_figure: RatioFigure | None
    rounds: tuple[Round, ...]
    looks: tuple[Looked, ...]


@dataclass(frozen=True, kw_only=True)
class Step:
    """A commit of a bisection, in the order they were tried."""

    number: str
    commit: CommitLine | None
    short: str
    verdict: str
    change: str
    rounds: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Bisected:
    """A bisection."""

    series: str
    machine: str
    lead: str
    line: tuple[PathStep, ...]
    steps: tuple[Step, ...]


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


def build(found: Site) -> Iterator[Page]:
    """Yield the page of every finding."""
    named = _commits(found)
    shown = {item.id: finding_attribution.shown(item) for item in found.findings}
    known = [sha for shas in shown.values() for sha in shas if sha in named]
    touched = history.touched(found.repository, tuple(dict.fromkeys(known)))
    for item in found.findings:
        page = of(found, item, named, touched)
        yield Page(name=page.name, template="finding.html", context={"page": page})


def _commits(found: Site) -> Mapping[str, Commit]:
    """Return every commit that findings or their evidence name and that the repository has."""
    wanted: set[str] = set()
    for item in found.findings:
        wanted |= {*item.commits[: finding_attribution.MOST], *([item.anchor] if item.anchor else [])}
        for kept in found.evidence(item.id)[0].values():
            wanted |= {sha for rerun in kept.reruns for sha in (rerun.before, rerun.after)}
            wanted |= {step.commit for path in kept.paths for step in path.tried} | {path.good for path in kept.paths}
    return history.read(found.repository, wanted).commits if wanted else {}


def of(found: Site, item: Finding, named: Mapping[str, Commit], touched: Mapping[str, Sequence[str]]) -> FindingPage:
    """Return the page of a finding.

    Args:
        named: the commits that it and its evidence name, as far as they are known. touched: the files they changed.
    """
    kept, unread = found.evidence(item.id)
    reruns = [one for own in kept.values() for one in own.reruns]
    reruns.sort(key=lambda one: (one.purpose is Purpose.CULPRIT, -abs(one.effect or 0.0)))
    series, further = finding_series.shown(found, item)
    machine = finding_attribution.environment(found, item)
    left_out = max(0, len(reruns) - MOST_SHOWN) + sum(own.left_out for own in kept.values())
    return FindingPage(
        name=pages.finding_href(item.id),
        id=item.id,
        kind=item.kind.value,
        state=finding_words.state(item),
        chip=finding_words.chip(item),
        state_words=finding_words.STATES[item.state],
        headline=finding_words.headline(item),
        subject=item.subject,
        accusation=verdict_text.accusation(item) if item.commits else "",
        suspected=finding_attribution.suspected(item, named, touched, found.commits),
        further=finding_attribution.further(item),
        anchor=_line(item.anchor, named, found),
        anchor_short=(item.anchor or "")[: pages.SHORT],
        found=f"{item.found:%Y-%m-%d %H:%M %Z}",
        shown_by=finding_text.shown_by(item),
        how=item.how,
        ruled_out=item.ruled_out,
        decide=finding_words.decisions(item),
        look=finding_words.looks(item),
        missing="" if reruns else finding_words.missing(item),
        unread=unread,
        reruns=tuple(_rerun(one, number >= UNFOLDED) for number, one in enumerate(reruns[:MOST_SHOWN])),
        left_out=f"{units.count(left_out, 'further re-run')} not shown" if left_out > 0 else "",
        paths=tuple(_path(found, path, named) for own in kept.values() for path in own.paths),
        series=series,
        series_further=further,
        changes=machine.changes,
        changes_lead=machine.lead,
        facts=machine.same,
        code=(*machine.code, *_codes(kept)),
        decisions=tuple(_decided(item)),
        file=f"results/findings/{item.id}.toml",
    )


def _line(sha: str | None, named: Mapping[str, Commit], found: Site) -> CommitLine | None:
    """Return a commit as a line; its page is "" where it was not measured. None where it is not known."""
    if sha is None or sha not in named:
        return None
    return finding_attribution.line(named[sha], found.commits)


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
        ends = f"{one.identity.kernel}, {one.before[: pages.SHORT]} to {one.after[: pages.SHORT]}"
        is_same = before == after
        said[ends, is_same] = (
            f"{ends}: the machine code is the same" if is_same else f"{ends}: the machine code is another one"
        ) + f" ({before[:12]}{'' if is_same else f' to {after[:12]}'})"
    yield from said.values()


def _rerun(item: Rerun, is_folded: bool) -> Shown:
    tone = {Answer.SAME: "same", Answer.UNKNOWN: ""}.get(item.answer, "slower" if (item.effect or 0) > 0 else "faster")
    change = "" if not item.looks else f", {finding_text.change(item.looks[-1].ratio)}"
    return Shown(
        series=str(item.identity),
        folded=f"{ANSWERS[item.answer]}{change}" if is_folded else "",
        machine=item.identity.machine,
        purpose=finding_words.purpose(item),
        answer=ANSWERS[item.answer],
        tone=tone,
        reason=item.reason,
        floor=f"{100 * item.floor:.3g}%",
        threshold=f"{P:g}",
        adjusted="adjusted: freed of how busy the machine was in the very same milliseconds"
        if item.is_adjusted
        else "as read: nothing was recorded beside them that they could be adjusted by",
        rounds_figure=finding_figures.rounds_figure(item),
        ratio_figure=finding_figures.ratio_figure(item),
        rounds=tuple(_rounds(item)),
        looks=tuple(map(_look, item.looks)),
    )


def _rounds(item: Rerun) -> Iterator[Round]:
    before, after = item.sides
    for number, (old, new) in enumerate(zip(*item.compared, strict=True)):
        flags = [
            f"{name}: {', '.join(side.flags[number])}"
            for name, side in (("before", before), ("after", after))
            if side.flags[number]
        ]
        raw = f"{units.seconds(before.seconds[number])}, {units.seconds(after.seconds[number])}"
        first = min(before.began[number], after.began[number])
        yield Round(
            number=str(number + 1),
            first="before" if before.began[number] <= after.began[number] else "after",
            began=f"{datetime.fromtimestamp(first, UTC):%Y-%m-%d %H:%M:%S}",
            before=units.seconds(old),
            after=units.seconds(new),
            ratio=finding_text.change(new / old),
            raw=raw if item.is_adjusted else "",
            flags="; ".join(flags),
        )


def _look(item: Look) -> Looked:
    return Looked(
        rounds=str(item.rounds),
        change=finding_text.change(item.ratio),
        interval=f"{finding_text.change(item.low)} to {finding_text.change(item.high)}",
        wide=f"{finding_text.change(item.least)} to {finding_text.change(item.most)}",
        p=f"{item.p:.2g}",
        answer=ANSWERS[item.answer],
    )


def _path(found: Site, item: Path, named: Mapping[str, Commit]) -> Bisected:
    ends = [found.order.get(sha) for sha in (item.good, item.bad)]
    line = found.line[ends[0] : ends[1] + 1] if ends[0] is not None and ends[1] is not None else ()
    between = f"{units.count(len(line) - 1, 'commit')} after {item.good[: pages.SHORT]}, " if line else ""
    return Bisected(
        series=str(item.identity),
        machine=item.identity.machine,
        lead=f"{between}{len(item.tried)} of them tried: {item.reason}",
        line=finding_figures.path_steps(item, line) if 1 < len(line) <= evidence.MOST_TRIED else (),
        steps=tuple(_steps(found, item, named)),
    )


def _steps(found: Site, item: Path, named: Mapping[str, Commit]) -> Iterator[Step]:
    for number, one in enumerate(item.tried, start=1):
        is_known = one.ratio is not None and math.isfinite(one.ratio)
        yield Step(
            number=str(number),
            commit=_line(one.commit, named, found),
            short=one.commit[: pages.SHORT],
            verdict={True: "slow", False: "fast", None: "untold"}[one.slow],
            change=finding_text.change(one.ratio) + finding_text.interval(one.low, one.high)
            if is_known and one.ratio is not None
            else "–",
            rounds=str(one.rounds) if one.rounds else "–",
            reason=one.reason,
        )
