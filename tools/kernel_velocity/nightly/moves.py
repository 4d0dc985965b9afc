"""Which series moved, by how much, and between which commits; not yet why. Pure policy.

It knows no mathematics beyond calling it: how far values lie from those before them is told by a `Screen`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kernel_velocity.findings.finding import Step
from kernel_velocity.results import sessions
from kernel_velocity.results.identity import Identity, is_worse
from kernel_velocity.results.sessions import Changes
from kernel_velocity.series.history import Observation, SeriesHistory, floor_of, threshold

LOOK_BACK = 40  # values that a screen looks back on, and so the oldest beginning of a move that it can still show
SAME_MOVE = 0.5  # of the newest effect: what an earlier value must show of it to be of the same move


@dataclass(frozen=True, kw_only=True)
class Shift:
    """What a screen says of the end of a series that is not where it was expected."""

    effect: float  # of log values: new minus old
    count: int  # of the newest values that it rests on, 1 or more


class Screen(Protocol):
    """Looks whether the newest of log values, oldest first, lie where those before them let expect: None."""

    def __call__(self, values: Sequence[float], /) -> Shift | None:
        """Return the shift of the newest values."""


@dataclass(frozen=True, kw_only=True)
class Move:
    """A series whose newest values moved, and between which commits."""

    history: SeriesHistory
    effect: float  # of log values: new minus old
    good: Observation  # the last one before
    bad: Observation  # the first one after
    candidates: tuple[str, ...]  # commits that can have done it, oldest first; (): none can, their code is the same

    @property
    def identity(self) -> Identity:
        """The series that moved."""
        return self.history.identity

    @property
    def worse(self) -> bool | None:
        """Whether it moved for the worse; None where neither way is."""
        return is_worse(self.identity, self.effect)

    @property
    def changes(self) -> Changes:
        """What the machine was before, and is."""
        return sessions.changes(self.good.facts, self.history.newest.facts)


def prepared(history: SeriesHistory, since: float, known: Sequence[Step] = ()) -> SeriesHistory:
    """Return a series as a night judges it: moved to where known steps left it, with the floor of earlier sessions."""
    own = [step for step in known if step.identity == history.identity]
    items = tuple(
        replace(item, value=item.value + sum(step.effect for step in own if _is_before(item, step)))
        for item in history.observations
    )
    earlier = [item for item in items if item.measured is None or item.measured < since]
    floor = floor_of(history.identity, earlier) if history.floor is None else history.floor
    return replace(history, observations=items, floor=floor)


def _is_before(item: Observation, step: Step) -> bool:
    if step.place is not None:
        return item.place < step.place
    return step.since is not None and item.measured is not None and item.measured < step.since


def move_of(history: SeriesHistory, screen: Screen, line: Sequence[str]) -> Move | None:
    """Return the move that the newest value of a series still shows; None: it is where it was expected.

    A move that a later value took back does not persist, and is none. It began where the screen first fired of the
    unbroken run of values, up to the newest, at which it fires by about as much: a screen that is sensitive fires by
    chance, too, and to begin a move there would blame, or clear, another commit.
    """
    items = history.observations
    values = [item.value for item in items]
    shift, first = screen(values), len(values)
    if shift is None or abs(shift.effect) < threshold(history):
        return None
    newest = earliest = shift
    while first - 1 > max(1, len(values) - LOOK_BACK):
        earlier = screen(values[: first - 1])
        if earlier is None or earlier.effect / newest.effect < SAME_MOVE:
            break
        earliest, first = earlier, first - 1
    before = first - earliest.count - 1
    if before < 0:
        raise ValueError(f"{history.identity}: a screen compared {earliest.count} of {first} values with none before")
    return Move(
        history=history,
        effect=newest.effect,
        good=items[before],
        bad=items[first - 1],
        candidates=candidates(history.identity, items[before:first], line),
    )


def candidates(identity: Identity, items: Sequence[Observation], line: Sequence[str]) -> tuple[str, ...]:
    """Return the commits after the first of some observations, up to the last, that can have moved a series.

    Between two observations of equal code there is none, whatever was committed and taken back.
    """
    found: list[str] = []
    for before, after in itertools.pairwise(items):
        if not identity.is_control and not is_same_code(before, after):
            found += line[before.place + 1 : after.place + 1]
    return tuple(found)


def is_same_code(before: Observation, after: Observation) -> bool:
    """Return whether two observations are known to be of the same code."""
    return before.code is not None and before.code == after.code
