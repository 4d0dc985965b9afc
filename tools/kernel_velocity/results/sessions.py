"""What the machine was in a session, and what was built: facts that no estimate shows, kept beside the telemetry.

One JSON line each in `results/<machine>/telemetry/<commit8>-<environment>.sessions.jsonl`, for every session that
measured the commit and found something else than the one before:

    {"t": 1700000000.0, "facts": {"driver": "580.65", "governor": "performance"}, "code": {"matmul": "<sha256>"},
     "ptxas": {"matmul": "sm_90: 168 registers, 0 bytes spilled"}}

`t` is when the session began (Unix time, s), `facts` what `fingerprint` says of the machine, `code` what identifies the
code of each kernel as it was built (`code_hashes`), `ptxas` what the CUDA compiler said of it where there was one.
Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernel_velocity import bounds

SUFFIX = ".sessions.jsonl"
# Facts of how a commit was built; no series but those of our own code shows them.
COMPILERS = frozenset({"cxx compiler", "cxx compiler version", "cuda compiler version"})
# Facts that the last digits of a result follow from: another of these computes other errors from the same code.
NUMERICS = COMPILERS | {"torch", "cuda", "cpu", "gpu", "isa", "libc", "threads"}
Changes = dict[str, tuple[str, str]]  # fact -> what it was, what it is


class SessionLineError(ValueError):
    """A line that does not say what a line of a session says."""


@dataclass(frozen=True, kw_only=True)
class SessionFacts:
    """What a session that measured a commit found on its machine, and in that commit's wheel."""

    began: float  # Unix time, s
    facts: Mapping[str, str] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)  # kernel -> what identifies its code
    ptxas: Mapping[str, str] = field(default_factory=dict)  # kernel -> registers and spills, for people


def encode(session: SessionFacts) -> str:
    """Return the line of a session, without newline."""
    line = {"t": round(session.began, 3), "facts": dict(session.facts), "code": dict(session.code)}
    if session.ptxas:
        line["ptxas"] = dict(session.ptxas)
    return json.dumps(line, separators=(",", ":"), sort_keys=True)


def decode(line: str) -> SessionFacts:
    """Return the session of a line; keys that this version does not know are ignored.

    Raises:
        SessionLineError: not JSON, or not what `encode` writes.
    """
    try:
        raw = json.loads(line)
    except ValueError as error:
        raise SessionLineError(f"not JSON: {error}") from None
    if not isinstance(raw, Mapping):
        raise SessionLineError(f"an object is wanted, got {type(raw).__name__}")
    began = raw.get("t")
    if not bounds.is_moment(began):
        raise SessionLineError(f"t: a Unix time is wanted, got {began!r}")
    texts = {key: _texts(raw, key) for key in ("facts", "code", "ptxas")}
    return SessionFacts(began=began, **texts)


def _texts(raw: Mapping[str, object], key: str) -> dict[str, str]:
    found = raw.get(key, {})
    if not isinstance(found, Mapping) or not all(isinstance(value, str) for value in found.values()):
        raise SessionLineError(f"{key}: an object of texts is wanted, got {str(found)[:60]!r}")
    return dict(found)


def at(sessions: Sequence[SessionFacts], when: float | None) -> SessionFacts | None:
    """Return what held for something measured at a Unix time, s: the newest session that had begun, else the first.

    None where no session was recorded; an unknown time is the newest session's.
    """
    ordered = sorted(sessions, key=lambda session: session.began)
    begun = [session for session in ordered if when is None or session.began <= when]
    return next(iter(begun[-1:] or ordered[:1]), None)


def changes(before: Mapping[str, str] | None, after: Mapping[str, str] | None) -> Changes:
    """Return the facts that both sides know and that differ; a fact that only one of them knows tells nothing."""
    if before is None or after is None:
        return {}
    return {
        name: (before[name], after[name]) for name in sorted(before) if name in after and before[name] != after[name]
    }


def spool_path(root: Path, environment: str, commit: str) -> Path:
    """Return where the sessions of a commit wait to be ingested."""
    return root / ".asv" / "spool" / environment / f"{commit}{SUFFIX}"


def merged(*sides: Iterable[SessionFacts]) -> str:
    """Return the text of a file with the sessions of all sides, oldest first, each once."""
    ordered = sorted((session for side in sides for session in side), key=lambda session: session.began)
    return "".join(f"{line}\n" for line in dict.fromkeys(map(encode, ordered)))
