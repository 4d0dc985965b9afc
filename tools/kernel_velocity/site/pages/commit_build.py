"""A commit page's build and environment: what the sessions that measured it found, and what of it is new."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.sessions import COMPILERS, SessionFacts

DIGITS = 12  # of a code hash: enough to tell the builds of a repository apart
NOT_RECORDED = "not recorded"


@dataclass(frozen=True, kw_only=True)
class KernelBuild:
    """One kernel of the commit's wheel."""

    kernel: str
    code: str  # hash of its machine code and Python files
    ptxas: str  # registers and spills
    against: str  # whether the commit before had the same code


@dataclass(frozen=True, kw_only=True)
class Build:
    """How the commit was built on a machine, and what that machine was."""

    missing: str  # why nothing else here says anything; empty where something does
    compilers: tuple[tuple[str, str], ...]
    kernels: tuple[KernelBuild, ...]
    changed: tuple[tuple[str, str, str], ...]  # fact, what it was, what it is
    against: str  # the commit whose environment that is compared with; empty for none
    facts: tuple[tuple[str, str], ...]


def build(sessions: Sequence[SessionFacts], before: tuple[str, Sequence[SessionFacts]] | None) -> Build:
    """Return the build and the environment of a commit on a machine.

    Args:
        sessions: that measured the commit. before: the newest commit before it of which a session is known, with them.
    """
    now = session_facts.at(sessions, None)
    if now is None:
        missing = "Neither build nor environment is recorded: it was measured before sessions noted them, or elsewhere."
        return Build(missing=missing, compilers=(), kernels=(), changed=(), against="", facts=())
    then = None if before is None else session_facts.at(before[1], None)
    known = {name: text for name, text in now.facts.items() if name not in COMPILERS}
    changes = {} if then is None else session_facts.changes(then.facts, now.facts)
    return Build(
        missing="",
        compilers=tuple((name, now.facts.get(name, NOT_RECORDED)) for name in sorted(COMPILERS)),
        kernels=tuple(_kernel(name, now, then) for name in sorted(now.code)),
        changed=tuple((name, old, new) for name, (old, new) in changes.items()),
        against="" if before is None or then is None else before[0][:SHORT],
        facts=tuple(sorted(known.items())),
    )


def _kernel(name: str, now: SessionFacts, then: SessionFacts | None) -> KernelBuild:
    old = None if then is None else then.code.get(name)
    same = NOT_RECORDED if old is None else "same code" if old == now.code[name] else "other code"
    return KernelBuild(kernel=name, code=now.code[name][:DIGITS], ptxas=now.ptxas.get(name, NOT_RECORDED), against=same)


@dataclass(frozen=True, kw_only=True)
class Sessions:
    """The sessions of a machine and environment, by the commit that they measured."""

    by_commit: Mapping[str, Sequence[SessionFacts]]  # oldest first
    before: Mapping[str, str]  # measured commit of the line -> the newest one before it that has sessions

    @classmethod
    def of(cls, sessions: Iterable[tuple[str, SessionFacts]], line: Sequence[str]) -> Sessions:
        """Return (commit, session) pairs, oldest first, in order; `line` are the measured commits, oldest first."""
        found: dict[str, list[SessionFacts]] = {}
        for sha, session in sessions:
            found.setdefault(sha, []).append(session)
        before, newest = {}, None
        for sha in line:
            if newest is not None:
                before[sha] = newest
            newest = sha if sha in found else newest
        return cls(by_commit=found, before=before)

    def build(self, sha: str) -> Build:
        """Return the build and the environment of a commit, and what of them is new."""
        earlier = self.before.get(sha)
        return build(self.by_commit.get(sha, ()), None if earlier is None else (earlier, self.by_commit[earlier]))
