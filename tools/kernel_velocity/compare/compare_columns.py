"""A table that fits the terminal: columns that are missed least are left out until it does. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernel_velocity.tables import columns

GAP = 2  # blanks between columns, as `text_tables.columns` sets them
BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of ready strings. `keep`: the higher, the later it is left out; None: never."""

    head: str
    cells: Sequence[str]
    keep: int | None = None

    @property
    def width(self) -> int:
        """How many characters it takes."""
        return max(len(text) for text in (self.head, *self.cells))


def fitting(found: Sequence[Column], width: int) -> list[Column]:
    """Return the columns that fit into `width` characters, in their order; those never left out even where they do not.

    Columns in which no cell says anything ("-" or blank) are left out first.
    """
    kept = [each for each in found if each.keep is None or any(cell not in ("", "-") for cell in each.cells)]
    while sum(each.width for each in kept) + GAP * (len(kept) - 1) > width:
        droppable = [each for each in kept if each.keep is not None]
        if not droppable:
            break
        kept.remove(min(droppable, key=lambda each: each.keep or 0))
    return kept


def text(found: Sequence[Column], width: int) -> str:
    """Return a table of the columns that fit, heads first, as aligned lines; the first column to the left."""
    kept = fitting(found, width)
    return columns(list(zip(*((each.head, *each.cells) for each in kept), strict=True)))


def bars(counts: Sequence[int]) -> str:
    """Return counts as a row of blocks; what is not empty shows, however little it is, and what is empty is a blank.

    The outermost blanks are dots, so that alignment does not swallow them.
    """
    most = max(counts, default=0)
    if most == 0:
        return ""
    shown = [" " if count == 0 else BLOCKS[min(count * len(BLOCKS) // most, len(BLOCKS) - 1)] for count in counts]
    for edge in (0, -1):
        if shown[edge] == " ":
            shown[edge] = "·"
    return "".join(shown)
