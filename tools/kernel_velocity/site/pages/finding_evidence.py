"""The evidence of a finding as its page shows it: re-runs with their figures and tables, bisections step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from kernel_velocity import units
from kernel_velocity.findings import evidence
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.evidence import Look, Path, Rerun
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.records import Commit
from kernel_velocity.site.model import Site
from kernel_velocity.site.pages import finding_figures, finding_words
from kernel_velocity.site.pages.finding_attribution import line
from kernel_velocity.site.pages.finding_figures import PathStep, RatioFigure, RoundsFigure
from kernel_velocity.site.text import CommitLine
from kernel_velocity.stats.sequential import Answer
from kernel_velocity.stats.two_samples import P

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


def shown(item: Rerun, is_folded: bool) -> Shown:
    """Return a re-run; a folded one says in a few words what came of it."""
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


def bisected(found: Site, item: Path, named: Mapping[str, Commit]) -> Bisected:
    """Return a bisection; `named` are the commits that it names, as far as they are known."""
    ends = [found.order.get(sha) for sha in (item.good, item.bad)]
    between = found.line[ends[0] : ends[1] + 1] if ends[0] is not None and ends[1] is not None else ()
    lead = f"{units.count(len(between) - 1, 'commit')} after {item.good[:SHORT]}, " if between else ""
    return Bisected(
        series=str(item.identity),
        machine=item.identity.machine,
        lead=f"{lead}{len(item.tried)} of them tried: {item.reason}",
        line=finding_figures.path_steps(item, between) if 1 < len(between) <= evidence.MOST_TRIED else (),
        steps=tuple(_steps(found, item, named)),
    )


def _steps(found: Site, item: Path, named: Mapping[str, Commit]) -> Iterator[Step]:
    for number, one in enumerate(item.tried, start=1):
        yield Step(
            number=str(number),
            commit=line(one.commit, named, found.commits),
            short=one.commit[:SHORT],
            verdict={True: "slow", False: "fast", None: "untold"}[one.slow],
            change="–"
            if one.ratio is None
            else finding_text.change(one.ratio) + finding_text.interval(one.low, one.high),
            rounds=str(one.rounds) if one.rounds else "–",
            reason=one.reason,
        )
