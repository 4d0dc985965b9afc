"""Moves: series that left their level, by how much, and between which commits. Not yet why. Pure policy."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kernel_velocity.findings.finding import Step
from kernel_velocity.nightly.screen import Change, Detector, look_back, shift
from kernel_velocity.results import sessions
from kernel_velocity.results.identity import Identity, is_worse
from kernel_velocity.results.sessions import Changes
from kernel_velocity.series.history import LEAST, Observation, SeriesHistory, floor_of, threshold

LOOK_BACK = 40  # values of the screen, and so the oldest beginning of a move that it can still show
SAME_MOVE = 0.5  # of the newest effect: an earlier value that shows less of it is not of the same move
SAME_CHANGE = 5  # values: two looks a night apart place one change no further apart (changepoints.MARGIN)


@dataclass(frozen=True, kw_only=True)
class Move:
    """A series whose newest values moved, and between which commits."""

    history: SeriesHistory
    effect: float  # of log values: new minus old
    good: Observation  # the last one before
    bad: Observation  # the first one after
    candidates: tuple[str, ...]  # possible commits, oldest first; (): none, the code is the same

    @property
    def identity(self) -> Identity:
        """The series that moved."""
        return self.history.identity

    @property
    def worse(self) -> bool | None:
        """Whether it moved for the worse. None where neither direction is."""
        return is_worse(self.identity, self.effect)

    @property
    def changes(self) -> Changes:
        """The facts of the machine that changed."""
        return sessions.changes(self.good.facts, self.history.newest.facts)


def of_tonight(histories: Iterable[SeriesHistory], since: float, known: Sequence[Step]) -> list[SeriesHistory]:
    """Return the series with a value of this night, prepared (`prepared`)."""
    return [
        prepared(history, since, known)
        for history in histories
        if history.newest.measured is not None and history.newest.measured >= since
    ]


def prepared(history: SeriesHistory, since: float, known: Sequence[Step] = ()) -> SeriesHistory:
    """Return a series as a night judges it: moved to where known steps left it, with the floor of earlier sessions."""
    steps = [step for step in known if step.identity == history.identity]
    observations = tuple(
        replace(item, value=item.value + sum(step.effect for step in steps if _is_before(item, step)))
        for item in history.observations
    )
    earlier = [item for item in observations if item.measured is None or item.measured < since]
    floor = floor_of(history.identity, earlier) if history.floor is None else history.floor
    return replace(history, observations=observations, floor=floor)


def _is_before(item: Observation, step: Step) -> bool:
    if step.place is not None:
        return item.place < step.place
    return step.since is not None and item.measured is not None and item.measured < step.since


def move_of(history: SeriesHistory, line: Sequence[str], screen: Detector = shift) -> Move | None:
    """Return the move that the newest value of a series still shows. None where it is at its level.

    A move that a later value took back is none. A move began where the screen first fired of the unbroken run of
    values, up to the newest, at which it fires by about as much. A sensitive screen also fires by chance: a move that
    began there would blame, or clear, another commit.
    """
    values = _values(history)
    newest = screen(values)
    if newest is None or abs(newest.effect) < threshold(history):
        return None
    earliest = newest
    for count in range(len(values) - 1, max(1, len(values) - LOOK_BACK), -1):
        earlier = screen(values[:count])
        if earlier is None or earlier.effect / newest.effect < SAME_MOVE:
            break
        earliest = earlier
    return _move(history, replace(earliest, effect=newest.effect), line)


def late_move(history: SeriesHistory, line: Sequence[str]) -> Move | None:
    """Return the move that a look back over all values of a series shows."""
    change = look_back(_values(history))
    return None if change is None or abs(change.effect) < LEAST else _move(history, change, line)


def is_new(move: Move, since: float) -> bool:
    """Return whether a look back over the values of earlier nights does not show a move yet."""
    observations = move.history.observations
    before = look_back([item.value for item in observations if item.measured is None or item.measured < since])
    if before is None or before.effect * move.effect < 0 or abs(before.effect) < LEAST:
        return True
    return abs(before.good - observations.index(move.good)) > SAME_CHANGE


def _values(history: SeriesHistory) -> list[float]:
    return [item.value for item in history.observations]


def _move(history: SeriesHistory, change: Change, line: Sequence[str]) -> Move:
    items = history.observations[change.good : change.bad + 1]
    return Move(
        history=history,
        effect=change.effect,
        good=items[0],
        bad=items[-1],
        candidates=_candidates(history.identity, items, line),
    )


def _candidates(identity: Identity, items: Sequence[Observation], line: Sequence[str]) -> tuple[str, ...]:
    """Return the commits after the first of some observations, up to the last, that can have moved a series.

    Between two observations of equal code there is none, whatever was committed and taken back.
    """
    commits: list[str] = []
    for before, after in itertools.pairwise(items):
        if not identity.is_control and not is_same_code(before, after):
            commits += line[before.place + 1 : after.place + 1]
    return tuple(commits)


def is_same_code(before: Observation, after: Observation) -> bool:
    """Return whether two observations are known to be of the same code."""
    return before.code is not None and before.code == after.code
