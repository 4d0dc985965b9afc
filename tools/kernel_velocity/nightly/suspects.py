"""Whose doing moves are: a commit's, or the machine's. Pure policy.

The machine's: the code is the same, a witness moved by the same factor, or the machine is known to have changed. Moves
of the machine are one event with one factor; nobody's commit is named for it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from kernel_velocity.nightly.moves import Move, is_same_code
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.sessions import Changes
from kernel_velocity.series.history import SeriesHistory, threshold

Place = tuple[str, str]  # machine, device: what has an environment of its own

HALF = 0.5  # of the series of a device that move at once: no commit does that
FEWEST_AT_ONCE = 4  # series; half of fewer moves by chance
FEWEST_OF_EVENT = 2  # series that move together, where nothing is known to have changed; and
SHARE_OF_EVENT = 0.1  # of the series of the device: with hundreds of them two move by chance in many a night
FEWEST_OF_WITNESS = 10  # values; a screen says nothing of fewer
SAME_FACTOR = 1 / 3  # relative difference of two effects that may have one cause, beyond LEAST


@dataclass(frozen=True, kw_only=True)
class EnvironmentEvent:
    """Series of a machine's device that moved together, or with a change of the machine: no commit is to blame."""

    machine: str
    device: str
    effect: float  # of log values, the median over its moves of times; of errors where no time moved
    began: float | None  # Unix time of the first value that shows it, s
    changes: Changes
    moves: tuple[Move, ...]

    @property
    def factor(self) -> float:
        """What the values were multiplied by."""
        return math.exp(self.effect)

    @property
    def confounded(self) -> tuple[Move, ...]:
        """Those times whose code changed as well: only an A/B run can tell what of it was the commit's."""
        return tuple(move for move in self.moves if move.candidates and move.identity.is_timed)


def is_environment(move: Move, own: Sequence[Move], here: Sequence[SeriesHistory]) -> bool:
    """Return whether a move is the machine's, and no commit's.

    It is where its code is the same as before, where another compiler built it, and where a witness (a series that no
    commit can have changed) moved by the same factor. Another change of what the machine is, or half of the series
    moving at once, say so too, unless there are witnesses and all of them stood still. An error of results, which no
    clock measures, is the machine's where what computes changed: torch, a compiler, the processor; a figure of the code
    where a compiler did.

    Args:
        own: the moves of the same device and machine. here: the series that have a value of this night there.
    """
    if not move.candidates:
        return True
    if not move.identity.is_timed:
        causes = session_facts.NUMERICS if move.identity.is_error else session_facts.COMPILERS
        return bool(causes & move.changes.keys())
    if session_facts.COMPILERS & move.changes.keys():
        return True
    moved = [other for other in own if not other.candidates and other.identity.is_timed]
    if is_shared(move, moved):
        return True
    still = [item for item in here if _is_witness(item) and all(item is not other.history for other in own)]
    if still and not moved:
        return False
    alike = [other.effect for other in own if other.effect * move.effect > 0 and other.identity.is_timed]
    timed = sum(item.identity.is_timed for item in here)
    together = timed >= FEWEST_AT_ONCE and len(alike) >= HALF * timed
    return (together or bool(move.changes)) and _is_same_factor(move, statistics.median(alike))


def is_shared(move: Move, witnesses: Sequence[Move]) -> bool:
    """Return whether a witness of the same machine and device moved by the same factor as a series did."""
    place = (move.identity.machine, move.identity.device)
    return any(
        (other.identity.machine, other.identity.device) == place and _is_same_factor(move, other.effect)
        for other in witnesses
    )


def _is_witness(history: SeriesHistory) -> bool:
    """Return whether a series that did not move says that the machine did not: one that began yesterday does not."""
    if not history.identity.is_timed or len(history.observations) < FEWEST_OF_WITNESS:
        return False
    last = history.observations[-2:]
    return history.identity.is_control or (len(last) == 2 and is_same_code(*last))


def _is_same_factor(move: Move, effect: float) -> bool:
    return abs(move.effect - effect) <= max(threshold(move.history), SAME_FACTOR * abs(effect))


def is_event(blamed: Sequence[Move], here: Sequence[SeriesHistory]) -> bool:
    """Return whether moves that are no commit's are an event: the machine is known to have changed, or many moved.

    A screen fires by chance, too. To record that as an event would move what every later night expects.
    """
    changed = any(move.changes for move in blamed)
    return changed or len(blamed) >= max(FEWEST_OF_EVENT, SHARE_OF_EVENT * len(here))


def event_of(place: Place, blamed: Sequence[Move]) -> EnvironmentEvent:
    """Return the event that some moves of a place are together."""
    machine, device = place
    times = [move.history.newest.measured for move in blamed if move.history.newest.measured is not None]
    timed = [move for move in blamed if move.identity.is_timed]
    changed: Changes = {}
    for move in blamed:
        changed |= move.changes
    return EnvironmentEvent(
        machine=machine,
        device=device,
        effect=statistics.median(move.effect for move in timed or blamed),
        began=min(times, default=None),
        changes=changed,
        moves=tuple(sorted(blamed, key=lambda move: move.identity)),
    )


def chance_notes(place: Place, moves: Sequence[Move]) -> list[str]:
    """Return a note of moves that are no commit's, and no event."""
    said = [f"{move.identity} by a factor of {math.exp(move.effect):.4g}" for move in moves]
    if not said:
        return []
    return [f"{place[0]}: moved although their code is the same, and too few for an event: {'; '.join(said)}"]


def quiet_notes(place: Place, here: Sequence[SeriesHistory]) -> list[str]:
    """Return a note where the machine changed, and nothing moved."""
    changed: Changes = {}
    for item in here:
        if len(item.observations) > 1:
            changed |= session_facts.changes(item.observations[-2].facts, item.newest.facts)
    if not changed:
        return []
    said = "; ".join(f"{name}: {before} -> {after}" for name, (before, after) in changed.items())
    return [f"{place[0]}: its environment changed ({said}), and no series of {place[1] or 'its devices'} moved"]
