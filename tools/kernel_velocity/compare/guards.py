"""Outputs between guards: memory on either side that nobody may write, by which a solution is found out that does.

What it overwrites there otherwise is another's tensor, or the allocator's own: the output is right, and the next
thing to go wrong is somebody else.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

GUARD = 4096  # bytes: a page, so that an output lies in its pages, and is aligned, as it would be without
MARK = 0xA5


@dataclass(frozen=True, kw_only=True)
class Guarded:
    """An output, and the memory that it is the middle of."""

    output: Any
    before: Any  # bytes
    behind: Any

    def overwritten(self) -> str:
        """Return what was written into the guards: "8 bytes behind it"; "" for nothing."""
        counts = {"before": _overwritten(self.before), "behind": _overwritten(self.behind)}
        return ", ".join(f"{count} bytes {side} it" for side, count in counts.items() if count)


def guarded(like: Any) -> Guarded:
    """Return an uninitialised contiguous tensor of the shape, dtype and device of another, between guards."""
    size = like.numel() * like.element_size()
    memory = like.new_full((size + 2 * GUARD,), MARK, dtype=importlib.import_module("torch").uint8)
    output = memory[GUARD : GUARD + size].view(like.dtype).view(like.shape)
    return Guarded(output=output, before=memory[:GUARD], behind=memory[GUARD + size :])


def overwritten(names: Sequence[str], outputs: Sequence[Guarded]) -> str:
    """Return what was written beside the outputs, each by its name; "" for nothing."""
    said = ((name, each.overwritten()) for name, each in zip(names, outputs, strict=True))
    return "; ".join(f"{name}: {text}" for name, text in said if text)


def _overwritten(guard: Any) -> int:
    return int((guard != MARK).sum())
