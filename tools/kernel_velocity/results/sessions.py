"""Facts of the machine and of the wheel in each session, stored beside the telemetry, and how they change. Pure.

`results/<machine>/telemetry/<commit8>-<environment>.sessions.jsonl` has a JSON line for every session that measured the
commit and differs from the session before:

    {"t": 1700000000.0, "facts": {"driver": "580.65", "governor": "performance"}, "code": {"matmul": "<sha256>"},
     "ptxas": {"matmul": "sm_90: 168 registers, 0 bytes spilled"}, "whole": {"gelu": "libk.so: gelu goes through ..."}}

`t` is when the session began (Unix time, s). `facts` are of the machine. `code` has a hash of each kernel's code,
`ptxas` the CUDA compiler's summary of it, where there is one. `whole` says why a kernel's hash is that of the whole
build, although the section names its functions. `counted` says what counts (callgrind.py), where something does:
method, version, settings. `listings` has the digests of the machine code (counts/listing.py), by kernel, implementation
and case. Its text is `results/<machine>/code/<digest>.txt.xz`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from kernel_velocity import bounds
from kernel_velocity.documents import with_checksum
from kernel_velocity.engine.telemetry import TelemetryError, parse

SUFFIX = ".sessions.jsonl"
CODE = "code"  # of a machine's folder, with the listings of machine code
# Facts of how a commit was built; no series but those of our own code shows them.
COMPILERS = frozenset({"cxx compiler", "cxx compiler version", "cuda compiler version"})
# Facts that the last digits of a result follow from: another of these computes other errors from the same code.
NUMERICS = COMPILERS | {"torch", "cuda", "cpu", "gpu", "isa", "libc", "threads"}
HARDWARE = ("cpu", "num_cpu", "gpu")  # facts that no setting changes
Changes = dict[str, tuple[str, str]]  # fact -> old value, new value


@dataclass(frozen=True, kw_only=True)
class SessionFacts:
    """Facts of a session that measured a commit: of its machine and of the commit's wheel."""

    began: float  # Unix time, s
    facts: Mapping[str, str] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)  # kernel -> hash of its code
    ptxas: Mapping[str, str] = field(default_factory=dict)  # kernel -> registers and spills, as text
    whole: Mapping[str, str] = field(default_factory=dict)  # kernel -> why its hash is that of the whole build
    counted: Mapping[str, str] = field(default_factory=dict)  # what counts: its method, valgrind's version, settings
    listings: Mapping[str, str] = field(default_factory=dict)  # "matmul native sm_90" -> digest of its machine code


def encode(session: SessionFacts) -> str:
    """Return the line of a session, without newline."""
    line = {"t": round(session.began, 3), "facts": dict(session.facts), "code": dict(session.code)}
    line |= {key: dict(texts) for key in ("ptxas", "whole", "counted", "listings") if (texts := getattr(session, key))}
    return with_checksum(json.dumps(line, separators=(",", ":"), sort_keys=True))


def decode(line: str) -> SessionFacts:
    """Return the session of a line. Keys that this version does not know are ignored.

    Raises:
        TelemetryError: as `telemetry.parse`, or not what `encode` writes.
    """
    raw = parse(line)
    began = raw.get("t")
    if not bounds.is_moment(began):
        raise TelemetryError(f"t: a Unix time is wanted, got {began!r}")
    texts = {key: _texts(raw, key) for key in ("facts", "code", "ptxas", "whole", "counted", "listings")}
    return SessionFacts(began=began, **texts)


def _texts(raw: Mapping[str, object], key: str) -> dict[str, str]:
    texts = raw.get(key, {})
    if not isinstance(texts, Mapping) or not all(isinstance(value, str) for value in texts.values()):
        raise TelemetryError(f"{key}: an object of texts is wanted, got {str(texts)[:60]!r}")
    return dict(texts)


def scheme(code: str) -> str:
    """Return the scheme of a code hash, "2:" of "2:ab..". Empty: of our own kernels, or older than schemes."""
    head, colon, _ = code.rpartition(":")
    return head + colon


def at(sessions: Sequence[SessionFacts], when: float | None) -> SessionFacts | None:
    """Return the session of a measurement at a Unix time, s: the newest that had begun by then, else the first.

    None where no session was recorded. An unknown time gives the newest session.
    """
    ordered = sorted(sessions, key=lambda session: session.began)
    begun = [session for session in ordered if when is None or session.began <= when]
    return next(iter(begun[-1:] or ordered[:1]), None)


def changes(before: Mapping[str, str] | None, after: Mapping[str, str] | None) -> Changes:
    """Return the facts that both sides have and that differ."""
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


Sessions = Sequence[tuple[str, SessionFacts]]  # with the commit that each measured, oldest first


@dataclass(frozen=True, kw_only=True)
class FactChange:
    """A fact of a machine that differs from the last earlier session that recorded it."""

    began: float  # Unix time of the session, s
    commit: str  # that the session measured
    name: str
    before: str
    after: str


def fact_changes(sessions: Sessions) -> tuple[FactChange, ...]:
    """Return the changes of a machine's facts, oldest first.

    COMPILERS are left out: they are facts of a wheel, and wheels of several ages are measured in turn.
    """
    last: dict[str, str] = {}
    changed = []
    for commit, session in sessions:
        for name, text in sorted(session.facts.items()):
            before = last.get(name, text)
            if name not in COMPILERS and before != text:
                changed.append(FactChange(began=session.began, commit=commit, name=name, before=before, after=text))
            last[name] = text
    return tuple(changed)


def newest_facts(sessions: Sessions) -> dict[str, tuple[str, float]]:
    """Return the newest value of every fact, and the Unix time since which it holds, s."""
    newest: dict[str, tuple[str, float]] = {}
    for _, session in sessions:
        for name, text in session.facts.items():
            if name not in newest or newest[name][0] != text:
                newest[name] = (text, session.began)
    return dict(sorted(newest.items()))


def hardware_doubts(sessions: Sessions) -> Iterator[str]:
    """Yield the signs that one name stands for several machines, as sentences."""
    for fact in HARDWARE:
        # of a GPU, its limits follow
        values = [session.facts[fact].partition(";")[0] for _, session in sessions if fact in session.facts]
        runs = [value for value, _ in groupby(values)]
        kinds = list(dict.fromkeys(runs))
        if len(runs) > len(kinds):
            yield (
                f"two machines seem to share this name: the {fact} was {' and '.join(kinds)} in turn. Their times are "
                "shown as one series and are none: give each a name of its own (kv track --machine bench-2)"
            )
        elif len(kinds) > 1:
            yield (
                f"the {fact} changed: {', then '.join(kinds)}. Times before and after are of different hardware; if it "
                "is another machine, give it a name of its own (kv track --machine bench-2)"
            )
