"""Attribute moves to a commit or to the machine. Pure policy.

It is the machine where the code is the same, where what the witnesses (series that no commit changed) share explains
the move, or where the machine is known to have changed. The machine's moves are one event with one factor, and no
commit is named. The others are suspects: none is reported before it is confirmed (confirm.py, `discoveries`).

The screen compares the newest values with those before them. It never shows a drift of .1% a commit, nor a step smaller
than the difference of two sessions. A look back over all values shows both (`late_moves`). Each is suspected once, in
the night whose values show it first, and the re-run in turns decides.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernel_velocity.findings.finding import Step
from kernel_velocity.nightly.moves import Move, is_new, late_move, move_of, of_tonight
from kernel_velocity.results import sessions
from kernel_velocity.results.identity import DEVICE, Identity, is_worse
from kernel_velocity.results.sessions import Changes
from kernel_velocity.series import controls
from kernel_velocity.series.history import SeriesHistory, threshold

HALF = 0.5  # of the series of a device that move at once: no commit does that
FEWEST_AT_ONCE = 4  # series; half of fewer moves by chance
FEWEST_OF_EVENT = 2  # series that move together, where no change of the machine is known; and
SHARE_OF_EVENT = 0.1  # of the series of the device: with hundreds of them two move by chance in many a night
FEWEST_OF_WITNESS = 10  # values; a screen says nothing of fewer
LEVEL = 40  # newest values that tell the level of a witness


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
        """The factor of the values."""
        return math.exp(self.effect)

    @property
    def confounded(self) -> tuple[Move, ...]:
        """The times whose code changed as well: only an A/B run can tell the commit's part."""
        return tuple(move for move in self.moves if move.candidates and move.identity.is_timed)


@dataclass(frozen=True, kw_only=True)
class Suspicions:
    """The result of screening and attributing the values of a night."""

    suspects: tuple[Move, ...]  # to be confirmed; the most open first
    events: tuple[EnvironmentEvent, ...]
    judged: frozenset[Identity]  # series with a value of this night
    notes: tuple[str, ...]
    waiting: frozenset[Identity] = frozenset()  # moved as a re-run of an earlier night refuted, and not for long yet

    @property
    def measured(self) -> int:
        """Series of kernels with a value of this night. Ceilings and figures alone are no night's work."""
        return sum(identity.kernel != DEVICE and not identity.is_figure for identity in self.judged)


def screened(
    histories: Iterable[SeriesHistory], *, line: Sequence[str], since: float, steps: Sequence[Step] = ()
) -> Suspicions:
    """Screen the series that have a value of this night, and attribute their moves.

    Args:
        line: the commits of the first-parent line, oldest first. since: when the night began, Unix time, s.
        steps: recorded moves. A series is expected where they left it.
    """
    tonight = of_tonight(histories, since, steps)
    moves = [move for history in tonight if (move := move_of(history, line)) is not None]
    suspects, events, notes = [], [], []
    for machine, device in sorted({(history.identity.machine, history.identity.device) for history in tonight}):
        here = [history for history in tonight if _is_of(history.identity, machine, device)]
        moved = [move for move in moves if _is_of(move.identity, machine, device)]
        shared = _shared(here)
        blamed = [move for move in moved if _is_environment(move, moved, here, shared)]
        # A screen also fires by chance. To record that as an event would move what every later night expects
        least = max(FEWEST_OF_EVENT, SHARE_OF_EVENT * len(here))
        if any(move.changes for move in blamed) or len(blamed) >= least:
            events.append(event_of(blamed))
        else:
            blamed = [move for move in blamed if not move.candidates]
            notes += [f"{machine}: {_by_chance(blamed)}"] if blamed else []
        suspects += [move for move in moved if move not in blamed and move.worse is not None]
        notes += [] if moved else _quiet_notes(machine, device, here)
    return Suspicions(
        suspects=tuple(suspects),
        events=tuple(events),
        judged=frozenset(history.identity for history in tonight),
        notes=tuple(notes),
    )


def _is_of(identity: Identity, machine: str, device: str) -> bool:
    return (identity.machine, identity.device) == (machine, device)


def _is_environment(move: Move, moved: Sequence[Move], here: Sequence[SeriesHistory], shared: float | None) -> bool:
    """Return whether a move is the machine's.

    It is where its code is the same as before, where another compiler built it, and where a witness that moved or what
    all of them share explains it. Unless all stood still, it also is where another fact of the machine changed, or half
    of the series moved at once. An error of results, which no clock measures, is the machine's where what computes it
    changed: torch, a compiler, the processor. A figure of the code is where a compiler changed.

    Args:
        moved: the moves of the same machine and device. here: the series that have a value of this night there.
        shared: what the witnesses among them did tonight (`_shared`).
    """
    if not move.candidates:
        return True
    if not move.identity.is_timed:
        causes = sessions.NUMERICS if move.identity.is_error else sessions.COMPILERS
        return bool(causes & move.changes.keys())
    times = [other for other in moved if other.identity.is_timed]
    witnesses = [other.effect for other in times if not other.candidates]
    if sessions.COMPILERS & move.changes.keys() or _is_explained(move, (*witnesses, shared or 0.0)):
        return True
    if not witnesses and shared is not None:
        return False
    alike = [other.effect for other in times if other.effect * move.effect > 0]
    count = sum(history.identity.is_timed for history in here)
    together = count >= FEWEST_AT_ONCE and len(alike) >= HALF * count
    return (together or bool(move.changes)) and _is_explained(move, (statistics.median(alike),))


def _shared(here: Iterable[SeriesHistory]) -> float | None:
    """Return how far the newest values of the witnesses are from their levels, the median. None without a witness.

    A witness is a control, or a series of the code that it has had for FEWEST_OF_WITNESS values, of a metric that rises
    where the machine slows down.
    """
    shifts = []
    for history in (history for history in here if history.identity.is_timed and is_worse(history.identity, 1.0)):
        code, is_control = history.newest.code, history.identity.is_control
        alike = [
            observation.value
            for observation in history.observations
            if is_control or (code is not None and observation.code == code)
        ]
        if len(alike) >= FEWEST_OF_WITNESS:
            shifts.append(alike[-1] - statistics.median(alike[-LEVEL - 1 : -1]))
    return statistics.median(shifts) if shifts else None


def _is_explained(move: Move, effects: Iterable[float]) -> bool:
    """Return whether one of some effects of log values explains a move."""
    return any(controls.beyond(move.effect, effect, threshold(move.history)) == 0 for effect in effects)


def event_of(moves: Sequence[Move]) -> EnvironmentEvent:
    """Return the event of some moves of one machine's device."""
    changes: Changes = {}
    for move in moves:
        changes |= move.changes
    times = [move.history.newest.measured for move in moves if move.history.newest.measured is not None]
    timed = [move for move in moves if move.identity.is_timed]
    return EnvironmentEvent(
        machine=moves[0].identity.machine,
        device=moves[0].identity.device,
        effect=statistics.median(move.effect for move in timed or moves),
        began=min(times, default=None),
        changes=changes,
        moves=tuple(sorted(moves, key=lambda move: move.identity)),
    )


def _by_chance(moves: Iterable[Move]) -> str:
    factors = "; ".join(f"{move.identity} by a factor of {math.exp(move.effect):.4g}" for move in moves)
    return f"moved although their code is the same, and too few for an event: {factors}"


def _quiet_notes(machine: str, device: str, here: Iterable[SeriesHistory]) -> list[str]:
    """Return a note where the machine changed, and nothing moved."""
    changes: Changes = {}
    for history in here:
        if len(history.observations) > 1:
            changes |= sessions.changes(history.observations[-2].facts, history.newest.facts)
    if not changes:
        return []
    return [
        f"{machine}: its environment changed ({in_words(changes)}), and no series of {device or 'its devices'} moved"
    ]


def in_words(changes: Changes) -> str:
    """Return the changes of an environment on one line."""
    return "; ".join(f"{name}: {before} -> {after}" for name, (before, after) in changes.items())


def late_moves(
    histories: Iterable[SeriesHistory], *, line: Sequence[str], since: float, steps: Sequence[Step] = ()
) -> tuple[Move, ...]:
    """Return the moves that a look back shows tonight for the first time, of series with a value of this night.

    Errors and figures are left out, because they have no noise. Moves that no commit can have made are left out, and
    those that a witness's move, as slow, explains.

    Args:
        line: the commits of the first-parent line, oldest first. since: when the night began, Unix time, s.
        steps: known moves, those of tonight's screen among them.
    """
    timed = (history for history in histories if history.identity.is_timed)
    moves = [move for history in of_tonight(timed, since, steps) if (move := late_move(history, line)) is not None]

    def witnesses(move: Move) -> Iterable[float]:
        here = (other for other in moves if _is_of(other.identity, move.identity.machine, move.identity.device))
        return (other.effect for other in here if not other.candidates)

    return tuple(
        move for move in moves if move.candidates and not _is_explained(move, witnesses(move)) and is_new(move, since)
    )
