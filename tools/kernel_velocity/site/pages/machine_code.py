"""code-<8 digits>.html: the machine code that a commit changed, side by side with the code of the commit before it.

Instructions are aligned. Other registers, labels and places on the stack are no difference. The commit's page has the
beginning. Both are made of listings (counts/listing.py), as sessions name them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kernel_velocity import units
from kernel_velocity.counts import listing
from kernel_velocity.results import git
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.verdict.ranges import is_same_code

CONTEXT = 3  # equal instructions around those that differ
MOST_ROWS = 20_000  # of a page
NAMED = 3  # cases


class Pair(NamedTuple):
    """Machine code that differs."""

    names: tuple[str, ...]  # "matmul native sm_90"; several where cases run the same functions
    before: str  # digests
    after: str
    is_here: bool  # whether both listings are

    @property
    def name(self) -> str:
        """What it is of."""
        return units.listed(self.names, NAMED)


class Row(NamedTuple):
    """A line of a difference. Of a fold `before` says what is left out."""

    kind: str  # "equal", "changed", "fewer", "more" or "fold"
    before: str
    after: str


def pairs(then: SessionFacts, now: SessionFacts, folder: Path) -> tuple[Pair, ...]:
    """Return the machine code that differs between two builds of a machine."""
    names: dict[tuple[str, str], list[str]] = {}
    for name, digest in sorted(now.listings.items()):
        old, kernel = then.listings.get(name, digest), name.partition(" ")[0]
        if old != digest and not is_same_code(then.code.get(kernel), now.code.get(kernel)):
            names.setdefault((old, digest), []).append(name)
    here = {digest: listing.is_stored(folder, digest) for both in names for digest in both}
    return tuple(Pair(tuple(of), old, new, here[old] and here[new]) for (old, new), of in names.items())


def differences(of: Sequence[Pair], folder: Path, most: int) -> list[dict[str, Any]]:
    """Return the differences as a template shows them.

    Args:
        folder: of the listings.
        most: rows of all. The first differences have them.
    """
    shown: list[dict[str, Any]] = []
    for pair in of:
        before, after = (listing.read(folder, digest) for digest in (pair.before, pair.after))
        if before is None or after is None:
            shown.append({"name": pair.name, "summary": "its machine code is not in these results", "rows": ()})
            continue
        rows = [*compared(before, after)]
        fewer, more = (sum(row.kind in ("changed", kind) for row in rows) for kind in ("fewer", "more"))
        words = f"{units.count(more, 'line')} added, {fewer:,} removed"
        shown.append(
            {
                "name": pair.name,
                "summary": words if rows else "only registers, labels and places on the stack differ",
                "rows": rows[:most],
                "further": units.count(len(rows) - most, "more line") if len(rows) > most else "",
            }
        )
        most = max(most - len(rows), 0)
    return shown


def compared(before: str, after: str) -> Iterator[Row]:
    """Yield the lines of two listings that differ, with CONTEXT around them."""
    old, new = (text.removesuffix("\n").split("\n") if text else [] for text in (before, after))
    changed = git.changed_lines_of(*("".join(f"{listing.alike(line)}\n" for line in lines) for lines in (old, new)))
    at = shown = 0  # of the old lines: the next, and the first that is not shown
    for number, (gone, come) in enumerate(changed):
        begin = max(gone.start - CONTEXT, at)
        if begin > shown:
            yield Row("fold", _left_out(old, shown, begin), "")
        shift = come.start - gone.start
        yield from (Row("equal", old[line], new[line + shift]) for line in range(begin, gone.start))
        for row in range(max(len(gone), len(come))):
            left = old[gone[row]] if row < len(gone) else ""
            right = new[come[row]] if row < len(come) else ""
            yield Row("changed" if left and right else "fewer" if left else "more", left, right)
        following = changed[number + 1][0].start if number + 1 < len(changed) else len(old)
        at = shown = min(gone.stop + CONTEXT, following)
        shift = come.stop - gone.stop
        yield from (Row("equal", old[line], new[line + shift]) for line in range(gone.stop, at))
    if changed and shown < len(old):
        yield Row("fold", _left_out(old, shown, len(old)), "")


def _left_out(lines: Sequence[str], first: int, end: int) -> str:
    """Return what a fold says: how many lines it leaves out, and which function begins in it and goes on behind."""
    heads = [line[:-1] for line in lines[first:end] if line.endswith(":")] if end < len(lines) else []
    return f"{units.count(end - first, 'equal line')}{f', then in {heads[-1]}' if heads else ''}"
