"""What a machine was over its sessions: facts that changed, and signs that its name stands for several machines. Pure.

How a commit was built (compilers) is a fact of its wheel and no machine's: wheels of several ages are measured in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from kernel_velocity.results.sessions import COMPILERS, SessionFacts

HARDWARE = ("cpu", "num_cpu", "gpu")  # facts that no setting changes
Sessions = Sequence[tuple[str, SessionFacts]]  # with the commit that each measured, oldest first


@dataclass(frozen=True, kw_only=True)
class FactChange:
    """A fact that a session found otherwise than the last one before it that knew it."""

    began: float  # Unix time of the session, s
    commit: str  # that it measured
    name: str
    before: str
    after: str


def changes(sessions: Sessions) -> tuple[FactChange, ...]:
    """Return what changed, oldest first."""
    known: dict[str, str] = {}
    found = []
    for commit, session in sessions:
        for name, text in sorted(session.facts.items()):
            before = known.get(name, text)
            if name not in COMPILERS and before != text:
                found.append(FactChange(began=session.began, commit=commit, name=name, before=before, after=text))
            known[name] = text
    return tuple(found)


def newest(sessions: Sessions) -> dict[str, tuple[str, float]]:
    """Return every fact as it was found last, with the time since which it has been found so, s."""
    found: dict[str, tuple[str, float]] = {}
    for _, session in sessions:
        for name, text in session.facts.items():
            if name not in found or found[name][0] != text:
                found[name] = (text, session.began)
    return dict(sorted(found.items()))


def hardware(sessions: Sessions) -> Iterator[str]:
    """Yield what speaks for several machines under one name, as sentences."""
    for fact in HARDWARE:
        values = [session.facts[fact] for _, session in sessions if fact in session.facts]
        runs = [value for value, _ in groupby(values)]
        kinds = list(dict.fromkeys(runs))
        if len(runs) > len(kinds):
            yield (
                f"two machines seem to share this name: the {fact} was {' and '.join(kinds)} in turn. Their times are "
                "shown as one series and are none: give each a name of its own (make track MACHINE=bench-2)"
            )
        elif len(kinds) > 1:
            yield (
                f"the {fact} changed: {', then '.join(kinds)}. Times before and after are of different hardware; if it "
                "is another machine, give it a name of its own (make track MACHINE=bench-2)"
            )
