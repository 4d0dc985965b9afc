"""Moves that only a long look back shows: slow drift, and steps that no newest value stood out by. Pure policy.

The screen of a night (`moves.move_of`) holds the newest values against those before them: a drift that adds .1% a
commit never stands out, nor does a step smaller than what two sessions differ by. Over many values both do. Each is
suspected once, in the night whose values make it out; the re-run in turns tells, whatever the machine did meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kernel_velocity.findings.finding import Step
from kernel_velocity.nightly import suspects as attribution
from kernel_velocity.nightly.moves import Move, candidates, prepared
from kernel_velocity.series.history import LEAST, SeriesHistory

SAME_CHANGE = 5  # values: two looks a night apart place one change no further apart (changepoints.MARGIN)


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a look back sees in a series: between which values, and by how much."""

    effect: float  # of log values: new minus old
    good: int  # index of a value from before, the last that surely is
    bad: int  # index of a value from after, the first that surely is; of a drift: the newest


class LookBack(Protocol):
    """Looks for the newest change in all of a series' log values, oldest first; None: there is none."""

    def __call__(self, values: Sequence[float], /) -> Change | None:
        """Return the newest change."""


def late_moves(
    histories: Iterable[SeriesHistory], look: LookBack, *, line: Sequence[str], since: float, known: Sequence[Step] = ()
) -> tuple[Move, ...]:
    """Return the moves of series with a value of this night that a look back makes out tonight, and did not before.

    None of errors and figures, which no noise hides; none that no commit can have made; none by a factor by which a
    witness, whose code no commit changed, moved just as slowly.

    Args:
        line: the commits of the first-parent line, oldest first. since: when the night began, Unix time, s.
        known: moves that are known, those of tonight's screen among them.
    """
    last = ((item, item.newest.measured) for item in histories if item.identity.is_timed)
    tonight = [prepared(item, since, known) for item, when in last if when is not None and when >= since]
    found = [move for item in tonight if (move := _move(item, look(_values(item)), line)) is not None]
    witnesses = [move for move in found if not move.candidates]
    return tuple(
        move
        for move in found
        if move.candidates and not attribution.is_shared(move, witnesses) and _is_new(move, look, since)
    )


def _move(history: SeriesHistory, change: Change | None, line: Sequence[str]) -> Move | None:
    if change is None or abs(change.effect) < LEAST:
        return None
    items = history.observations
    return Move(
        history=history,
        effect=change.effect,
        good=items[change.good],
        bad=items[change.bad],
        candidates=candidates(history.identity, items[change.good : change.bad + 1], line),
    )


def _is_new(move: Move, look: LookBack, since: float) -> bool:
    """Return whether the values of earlier nights did not show a move yet."""
    earlier = replace(
        move.history,
        observations=tuple(
            item for item in move.history.observations if item.measured is None or item.measured < since
        ),
    )
    before = look(_values(earlier))
    if before is None or before.effect * move.effect < 0 or abs(before.effect) < LEAST:
        return True
    good = move.history.observations.index(move.good)
    return abs(before.good - good) > SAME_CHANGE


def _values(history: SeriesHistory) -> list[float]:
    return [item.value for item in history.observations]
