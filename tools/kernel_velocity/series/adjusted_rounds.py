"""The rounds of a layout's values, as adjusting asks for them: read from the cache for the values that are wanted."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernel_velocity.harness.telemetry import GAUGES
from kernel_velocity.series.cache import Cache
from kernel_velocity.series.layout import ADJUSTED, Layout
from kernel_velocity.series.packing import FREED, ROUND, Entries
from kernel_velocity.stats.adjust_series import Rounds

Slots = NDArray[np.int64]  # places in the columns of a layout


class Seen(NamedTuple):
    """A round, as adjusting asks for it."""

    launch: str
    time: float  # its place in the order of the value's rounds
    estimate: float
    core_gauge: float | None
    memory_gauge: float | None
    control_gauge: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Read:
    """The rounds of some values."""

    slots: Slots  # of the value of each, ascending
    rounds: Entries
    commit: NDArray[Any]  # number of the commit of every value of the layout

    def of(self, slots: Iterable[int]) -> Rounds:
        """Return the rounds of values, by commit (its number in the layout, as text), in their order."""
        return {str(self.commit[slot]): self._at(slot) for slot in slots}

    def _at(self, slot: int) -> list[Seen]:
        first, last = np.searchsorted(self.slots, [slot, slot + 1]).tolist()
        return [
            Seen(str(launch), place, estimate, *(None if math.isnan(gauge) else gauge for gauge in gauges))
            for place, (_, launch, estimate, *gauges) in enumerate(self.rounds[first:last].tolist())
        ]


def none(layout: Layout) -> NDArray[np.bool_]:
    """Return, for each value of a layout, that it is not wanted; one more, which -1 means, never counts."""
    return np.zeros(len(layout.commit) + 1, np.bool_)


def read(cache: Cache, layout: Layout, paths: Iterable[str], wanted: NDArray[np.bool_]) -> Read:
    """Return the rounds that results files have of values.

    Args:
        wanted: whether those of each value of the layout are.
    """
    slots, rounds = [np.zeros(0, np.int64)], [np.zeros(0, ROUND)]
    for path in paths:
        shown = layout.files[path]
        if not wanted[shown[shown >= 0]].any():
            continue
        found = cache.rounds(path)
        lie = layout.files[path][found["entry"]]
        kept = (lie >= 0) & wanted[lie]
        slots.append(lie[kept])
        rounds.append(found[kept])
    all_slots, all_rounds = np.concatenate(slots), np.concatenate(rounds)
    order = np.argsort(all_slots, kind="stable")
    return Read(slots=all_slots[order], rounds=all_rounds[order], commit=layout.commit)


def unfreed(rounds: Entries, count: int) -> Entries:
    """Return the FREED of a results file of so many values, with nothing in it yet but what tells of their rounds."""
    made = np.zeros(count, FREED)
    for name in ADJUSTED:
        made[name] = math.nan
    own = rounds.copy()
    own["entry"] = 0
    starts = np.flatnonzero(np.diff(rounds["entry"], prepend=-1))
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(rounds)], strict=False):
        digest = hashlib.blake2b(own[start:stop].tobytes(), digest_size=8).digest()
        made["told"][rounds["entry"][start]] = int.from_bytes(digest, "big") | 1
    is_read = np.any([~np.isnan(rounds[name]) for name in GAUGES], axis=0)
    made["is_gauged"][rounds["entry"][is_read]] = True
    return made
