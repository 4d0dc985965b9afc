"""Whose doing moves are: a commit's, or the machine's. Pure policy.

The machine's: the code is the same, a witness moved by the same factor, or the machine is known to have changed. Moves
of the machine are one event with one factor; nobody's commit is named for it.

Policy of a night: what is to be confirmed, what the machine did, what may be reported, what is one cause. Pure.

Whatever is left as a suspect here is only that: nobody is told before a confirmation (`discoveries`).

Moves that only a long look back shows: slow drift, and steps that no newest value stood out by. Pure policy.

The screen of a night (`moves.move_of`) holds the newest values against those before them: a drift that adds .1% a
commit never stands out, nor does a step smaller than what two sessions differ by. Over many values both do. Each is
suspected once, in the night whose values make it out; the re-run in turns tells, whatever the machine did meanwhile.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from kernel_velocity.findings.finding import Step
from kernel_velocity.nightly.moves import Move, Screen, candidates, is_same_code, move_of, prepared
from kernel_velocity.results import sessions
from kernel_velocity.results.identity import Identity
from kernel_velocity.results.sessions import Changes
from kernel_velocity.series.history import LEAST, SeriesHistory, threshold

Place = tuple[str, str]  # machine, device: what has an environment of its own

HALF = 0.5  # of the series of a device that move at once: no commit does that
FEWEST_AT_ONCE = 4  # series; half of fewer moves by chance
FEWEST_OF_EVENT = 2  # series that move together, where nothing is known to have changed; and
SHARE_OF_EVENT = 0.1  # of the series of the device: with hundreds of them two move by chance in many a night
FEWEST_OF_WITNESS = 10  # values; a screen says nothing of fewer
SAME_FACTOR = 1 / 3  # relative difference of two effects that may have one cause, beyond LEAST

FALSE_DISCOVERIES = 0.05  # expected share among what one night reports (Benjamini and Hochberg, JRSS B 57(1), 1995)

SAME_CHANGE = 5  # values: two looks a night apart place one change no further apart (changepoints.MARGIN)


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
        causes = sessions.NUMERICS if move.identity.is_error else sessions.COMPILERS
        return bool(causes & move.changes.keys())
    if sessions.COMPILERS & move.changes.keys():
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
            changed |= sessions.changes(item.observations[-2].facts, item.newest.facts)
    if not changed:
        return []
    said = "; ".join(f"{name}: {before} -> {after}" for name, (before, after) in changed.items())
    return [f"{place[0]}: its environment changed ({said}), and no series of {place[1] or 'its devices'} moved"]


@dataclass(frozen=True, kw_only=True)
class Screened:
    """What the screen and the attribution leave of a night."""

    judged: tuple[Identity, ...]  # series with a value of this night
    suspects: tuple[Move, ...]  # to be confirmed; largest first
    events: tuple[EnvironmentEvent, ...]
    notes: tuple[str, ...]


def screened(
    histories: Iterable[SeriesHistory],
    screen: Screen,
    *,
    line: Sequence[str],
    since: float,
    known: Sequence[Step] = (),
) -> Screened:
    """Screen the series that have a value of this night, and attribute what moved.

    Args:
        line: the commits of the first-parent line, oldest first. since: when the night began, Unix time, s.
        known: moves that earlier nights recorded; a series is expected where they left it.
    """
    last = ((item, item.newest.measured) for item in histories)
    tonight = [prepared(item, since, known) for item, when in last if when is not None and when >= since]
    moves = [found for item in tonight if (found := move_of(item, screen, line)) is not None]
    suspects, events, notes = [], [], []
    for place in sorted({_place(item.identity) for item in tonight}):
        here = [item for item in tonight if _place(item.identity) == place]
        own = [move for move in moves if _place(move.identity) == place]
        blamed = [move for move in own if is_environment(move, own, here)]
        if is_event(blamed, here):
            events.append(event_of(place, blamed))
        else:
            notes += chance_notes(place, [move for move in blamed if not move.candidates])
            blamed = [move for move in blamed if not move.candidates]
        suspects += [move for move in own if move not in blamed and move.worse is not None]
        notes += [] if own else quiet_notes(place, here)
    suspects.sort(key=lambda move: (-abs(move.effect), move.identity))
    judged = tuple(item.identity for item in tonight)
    return Screened(judged=judged, suspects=tuple(suspects), events=tuple(events), notes=tuple(notes))


def _place(identity: Identity) -> Place:
    return identity.machine, identity.device


class HasP(Protocol):
    """Something that a test said p of."""

    @property
    def p(self) -> float | None:
        """The p value; None where no test was made."""


Tested = TypeVar("Tested", bound=HasP)


def discoveries(
    tested: Sequence[Tested], others: Sequence[float] = ()
) -> tuple[tuple[Tested, ...], tuple[Tested, ...]]:
    """Return what a night may report of what it confirmed, and what stays a suspect, by Benjamini and Hochberg.

    What no test was made of stays a suspect.

    Args:
        tested: what was confirmed: each passed a test of its own, so that among themselves all pass this one, too.
        others: p of everything else that the night tested: with it the one of hundreds that chance confirmed is seen.
    """
    from scipy.stats import false_discovery_control  # noqa: PLC0415 - takes half a second, and most commands test nothing

    known = [(item, item.p) for item in tested if item.p is not None]
    adjusted = false_discovery_control([*(p for _, p in known), *others])[: len(known)] if known else []
    passed = {id(item) for (item, _), q in zip(known, adjusted, strict=True) if q <= FALSE_DISCOVERIES}
    reported = tuple(item for item in tested if id(item) in passed)
    return reported, tuple(item for item in tested if id(item) not in passed)


Ranged = TypeVar("Ranged")


def grouped(
    cases: Iterable[tuple[Ranged, str, bool, Sequence[str]]], order: Mapping[str, int]
) -> list[tuple[list[Ranged], tuple[str, ...]]]:
    """Return what has one cause together, each group with the commits that all of it can blame, oldest first.

    One cause: the same kernel and direction, and ranges of commits with one in common, on whatever machines and with
    whatever parameters. The narrowest ranges are looked at first, so that a wide one joins what it explains.

    Args:
        cases: something, its kernel, whether it is for the worse, the commits that can have done it.
        order: commit -> place on the first-parent line.
    """
    found: dict[tuple[str, bool], list[tuple[list[Ranged], set[str]]]] = defaultdict(list)
    for item, kernel, worse, commits in sorted(cases, key=lambda case: (len(case[3]), [order[sha] for sha in case[3]])):
        for members, shared in found[kernel, worse]:
            if shared & set(commits):
                members.append(item)
                shared &= set(commits)
                break
        else:
            found[kernel, worse].append(([item], set(commits)))
    return [
        (members, tuple(sorted(shared, key=order.__getitem__)))
        for groups in found.values()
        for members, shared in groups
    ]


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
        move for move in found if move.candidates and not is_shared(move, witnesses) and _is_new(move, look, since)
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
