"""The word in place of "right" where null answers pass the check, and which they are.

`problem/null_answers.py` tries them. Reports import this alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

SAME = "same"  # the kind that is told by another sentence
# Kind of a null answer -> what it is. Flags of rounds are named by the kinds.
KINDS: Mapping[str, str] = {
    "zeros": "zeros",
    "constant": "a constant",
    "untouched": "an output left as it was",
    "copy": "a copy of an input",
    "part": "an output without a block of rows or a tile",
    "stale": "the output for other inputs",
    SAME: "the right output does not depend on the inputs",
}
UNPROVEN = "unproven"  # in place of "right"
FLAG = f"{UNPROVEN}_"  # and the kind: a flag of a round


class NullAnswer(NamedTuple):
    """A null answer that passes a check: its kind, and the name of the output, "" of the only one."""

    kind: str
    output: str


def in_words(passed: Iterable[NullAnswer]) -> str:
    """Return what `unproven` found: "zeros and a constant would pass", "" for nothing."""
    kinds: dict[str, list[str]] = {}
    for kind, output in passed:
        kinds.setdefault(kind, []).append(output)
    of_kinds = {kind: f" ({', '.join(outputs)})" if any(outputs) else "" for kind, outputs in kinds.items()}
    would = ", ".join(f"{KINDS[kind]}{where}" for kind, where in of_kinds.items() if kind != SAME)
    same = f"{KINDS[SAME]}{of_kinds[SAME]}" if SAME in of_kinds else ""
    return "; ".join(text for text in (f"{would} would pass" if would else "", same) if text)


def in_flags(flags: Iterable[str]) -> str:
    """Return what the flags of rounds say of a check: "unproven: zeros would pass", "" where none does."""
    raised = set(flags)
    kinds = [kind for kind in KINDS if f"{FLAG}{kind}" in raised]
    return f"{UNPROVEN}: {in_words(NullAnswer(kind, '') for kind in kinds)}" if kinds else ""
