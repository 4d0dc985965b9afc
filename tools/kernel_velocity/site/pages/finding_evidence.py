"""The evidence of a finding as its page shows it: re-runs with their figures and tables, bisections step by step.

Whose doing a finding is: the commits that can have done it with the files they touched, the code, the machine.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from kernel_velocity import units
from kernel_velocity.findings import evidence
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.evidence import Look, Path, Rerun
from kernel_velocity.findings.finding import Finding, Kind
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.git import BUILT_FROM, SHORT
from kernel_velocity.results.identity import Identity, environment_of
from kernel_velocity.results.records import Commit
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.site import text as pages
from kernel_velocity.site.model import Site
from kernel_velocity.site.pages import finding_figures, finding_words
from kernel_velocity.site.pages.finding_figures import PathStep, RatioFigure, RoundsFigure
from kernel_velocity.site.text import CommitLine, Place
from kernel_velocity.stats.sequential import Answer
from kernel_velocity.stats.two_samples import P

ANSWERS = {Answer.DIFFERENT: "different", Answer.SAME: "the same", Answer.UNKNOWN: "not settled"}

Sessions = Mapping[Place, Mapping[str, SessionFacts]]  # by commit

MOST = 10  # commits of a finding that are shown with the files they touched
MOST_FILES = 12


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


def shown_rerun(item: Rerun, is_folded: bool) -> Shown:
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
            f"{name}: {', '.join(side.flags[number].split())}"
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
            if one.comparison.ratio is None
            else finding_text.change(one.comparison.ratio)
            + finding_text.interval(one.comparison.low, one.comparison.high),
            rounds=str(one.comparison.rounds) if one.comparison.rounds else "–",
            reason=one.comparison.reason,
        )


@dataclass(frozen=True, kw_only=True)
class Suspected:
    """A commit that can have done it."""

    short: str
    line: CommitLine | None  # None where the repository does not have it
    own: tuple[str, ...]  # files that it touched and that the kernel is built from
    shared: tuple[str, ...]  # files that all kernels are built from
    others: str  # the rest, in words


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What the machine was before and after."""

    lead: str
    changes: tuple[tuple[str, str, str], ...]  # fact, before, after
    same: tuple[tuple[str, str], ...]
    code: tuple[str, ...]


def shown_commits(item: Finding) -> tuple[str, ...]:
    """Return the commits of a finding that are shown: the newest of many."""
    return item.commits[-MOST:]


def further(item: Finding) -> str:
    """Return how many commits are not shown; "" for none."""
    left = len(item.commits) - MOST
    return f"and {units.count(left, 'earlier commit')}" if left > 0 else ""


def line(sha: str | None, named: Mapping[str, Commit], measured: Container[str]) -> CommitLine | None:
    """Return a commit as a line, whose page is "" where it has none; None for one that is not among `named`."""
    if sha is None or sha not in named:
        return None
    found = pages.commit_line(named[sha])
    return found if sha in measured else replace(found, href="")


def suspected(
    item: Finding, named: Mapping[str, Commit], touched: Mapping[str, Sequence[str]], measured: Container[str]
) -> tuple[Suspected, ...]:
    """Return the commits that can have done it, oldest first.

    Args:
        named: commits by SHA, as far as the repository has them. touched: the files that they changed.
        measured: the commits that have a page.
    """
    return tuple(
        _suspected(sha, item.subject, touched.get(sha, ()), line(sha, named, measured)) for sha in shown_commits(item)
    )


def _suspected(sha: str, kernel: str, files: Sequence[str], known: CommitLine | None) -> Suspected:
    built = [name for name in files if name.split("/")[0] in BUILT_FROM]
    own = [name for name in built if name.startswith(f"kernels/{kernel}/")]
    shared = [name for name in built if name.count("/") < 2 or name.startswith("kernels/_native/")]
    left = len(files) - len(own) - len(shared)
    rest = f"{units.count(left, 'other file' if own or shared else 'file')}, which {kernel} is not built from"
    return Suspected(
        short=sha[:SHORT],
        line=known,
        own=_few(own),
        shared=_few(shared),
        others=rest if left else "",
    )


def _few(names: Sequence[str]) -> tuple[str, ...]:
    left = len(names) - MOST_FILES
    return (*names[:MOST_FILES], *([f"and {left} more"] if left > 0 else []))


def sessions(found: Site) -> Sessions:
    """Return what the sessions of every place found, by commit the newest."""
    return {place: dict(found.sessions(place)) for place in found.places}


def environment(kept: Sessions, item: Finding) -> Environment:
    """Return what the machine was before and after a finding, and whether the code is another one."""
    if item.kind is Kind.ENVIRONMENT:
        changes = tuple((name, old, new) for name, (old, new) in sorted((item.changes or {}).items()))
        lead = "What changed of the machine." if changes else "Nothing of what is recorded of the machine changed."
        return Environment(lead=lead, changes=changes, same=(), code=())
    worst = item.worst
    if worst is None or item.anchor is None or not item.commits:
        return Environment(lead="", changes=(), same=(), code=())
    before, after = _ends(kept, worst.identity, item.anchor, item.commits[-1])
    if before is None or after is None:
        return Environment(lead="What the machine was then is not recorded.", changes=(), same=(), code=())
    moved = session_facts.changes(before.facts, after.facts)
    where = f"{worst.identity.machine}, when the history was measured"
    return Environment(
        lead=f"{where}: {units.count(len(moved), 'fact')} changed." if moved else f"{where}: nothing of it changed.",
        changes=tuple((name, old, new) for name, (old, new) in moved.items()),
        same=tuple((name, text) for name, text in sorted(after.facts.items()) if name not in moved),
        code=_code(worst.identity.kernel, before, after),
    )


def _ends(
    kept: Sessions, identity: Identity, before: str, after: str
) -> tuple[SessionFacts | None, SessionFacts | None]:
    """Return what the sessions found that measured two commits of a series last."""
    for place, by_commit in kept.items():
        own = environment_of(place.environment, identity.implementation)
        if (place.machine, own) == (identity.machine, identity.environment) and after in by_commit:
            return by_commit.get(before), by_commit[after]
    return None, None


def _code(kernel: str, before: SessionFacts, after: SessionFacts) -> tuple[str, ...]:
    old, new = before.code.get(kernel), after.code.get(kernel)
    if old is None or new is None:
        return ()
    if old == new:
        return (f"{kernel}, as built for the history: the code is the same ({old[:12]})",)
    return (f"{kernel}, as built for the history: the code is another one ({old[:12]} to {new[:12]})",)
