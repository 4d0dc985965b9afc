"""Whose doing a finding is: the commits that can have done it with the files they touched, the code, the machine."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from kernel_velocity import units
from kernel_velocity.findings.finding import Finding, Kind
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.identity import Identity, environment_of
from kernel_velocity.results.records import Commit
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.results.working_tree import BUILT_FROM
from kernel_velocity.site import text as pages
from kernel_velocity.site.model import Site
from kernel_velocity.site.text import CommitLine, Place

Sessions = Mapping[Place, Mapping[str, SessionFacts]]  # by commit

MOST = 10  # commits of a finding that are shown with the files they touched
MOST_FILES = 12


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


def shown(item: Finding) -> tuple[str, ...]:
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
    return tuple(_suspected(sha, item.subject, touched.get(sha, ()), line(sha, named, measured)) for sha in shown(item))


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
