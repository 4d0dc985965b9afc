"""Policy: which series moved in a night, what may be blamed for it, and what is to be confirmed. Pure.

It knows no mathematics beyond calling it: how far a value lies from those before it is told by a `Screen`. Whatever is
left as a suspect here is only that: nobody is told before a confirmation (`discoveries`).
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from scipy.stats import false_discovery_control

from tools import differing, session_facts
from tools.histories import Observation, SeriesHistory, floor_of
from tools.series_identity import Identity, is_worse
from tools.session_facts import Changes

LEAST = math.log1p(differing.LEAST)  # of log values: a smaller move is worth no word, whatever the floor
LOOK_BACK = 40  # values that a screen looks back on, and so the oldest beginning of a move that it can still show
HALF = 0.5  # of the series of a device that move at once: no commit does that
FEWEST_AT_ONCE = 4  # series; half of fewer moves by chance
FEWEST_OF_EVENT = 2  # series that move together, where nothing is known to have changed; and
SHARE_OF_EVENT = 0.1  # of the series of the device: with hundreds of them two move by chance in many a night
SAME_MOVE = 0.5  # of the newest effect: what an earlier value must show of it to be of the same move
SAME_FACTOR = 1 / 3  # relative difference of two effects that may have one cause, beyond LEAST
FALSE_DISCOVERIES = 0.05  # expected share among what one night reports (Benjamini and Hochberg, JRSS B 57(1), 1995)


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
class Step:
    """A move that is known already: from here on a series is expected at its new level."""

    identity: Identity
    effect: float  # of log values
    place: int | None = None  # of the commit that it began with; of an environment: None
    since: float | None = None  # Unix time that it began at, s; of a commit: None


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
        return session_facts.changes(self.good.facts, self.history.newest.facts)


@dataclass(frozen=True, kw_only=True)
class EnvironmentEvent:
    """Series of a machine's device that moved together, or with a change of the machine: no commit is to blame."""

    machine: str
    device: str
    effect: float  # of log values, the median over its moves
    began: float | None  # Unix time of the first value that shows it, s
    changes: Changes
    moves: tuple[Move, ...]

    @property
    def factor(self) -> float:
        """What the values were multiplied by."""
        return math.exp(self.effect)

    @property
    def confounded(self) -> tuple[Move, ...]:
        """Those whose code changed as well: only an A/B run can tell what of it was the commit's."""
        return tuple(move for move in self.moves if move.candidates)


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
        if _is_event(blamed, here):
            events.append(_event(place, blamed))
        else:
            notes += _chance(place, [move for move in blamed if not move.candidates])
            blamed = [move for move in blamed if not move.candidates]
        suspects += [move for move in own if move not in blamed and move.worse is not None]
        notes += [] if own else _quiet_changes(place, here)
    suspects.sort(key=lambda move: (-abs(move.effect), move.identity))
    judged = tuple(item.identity for item in tonight)
    return Screened(judged=judged, suspects=tuple(suspects), events=tuple(events), notes=tuple(notes))


def _place(identity: Identity) -> tuple[str, str]:
    return identity.machine, identity.device


def threshold(history: SeriesHistory) -> float:
    """Return the least move of log values that counts: what identical code differs by, and never under LEAST."""
    return max(LEAST, history.floor or 0.0)


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
        if not identity.is_control and not _is_same_code(before, after):
            found += line[before.place + 1 : after.place + 1]
    return tuple(found)


def _is_same_code(before: Observation, after: Observation) -> bool:
    return before.code is not None and before.code == after.code


def is_environment(move: Move, own: Sequence[Move], here: Sequence[SeriesHistory]) -> bool:
    """Return whether a move is the machine's, and no commit's.

    It is where its code is the same as before, where another compiler built it, and where a witness (a series that no
    commit can have changed) moved by the same factor. Another change of what the machine is, or half of the series
    moving at once, say so too, unless there are witnesses and all of them stood still.

    Args:
        own: the moves of the same device and machine. here: the series that have a value of this night there.
    """
    if not move.candidates:
        return True
    if move.identity.is_error:
        return False
    if session_facts.COMPILERS & move.changes.keys():
        return True
    moved = [other for other in own if not other.candidates and not other.identity.is_error]
    if any(_is_same_factor(move, other.effect) for other in moved):
        return True
    still = [item for item in here if _is_witness(item) and all(item is not other.history for other in own)]
    if still and not moved:
        return False
    alike = [other.effect for other in own if other.effect * move.effect > 0 and not other.identity.is_error]
    together = len(here) >= FEWEST_AT_ONCE and len(alike) >= HALF * len(here)
    return (together or bool(move.changes)) and _is_same_factor(move, statistics.median(alike))


def _is_witness(history: SeriesHistory) -> bool:
    if history.identity.is_error:
        return False
    last = history.observations[-2:]
    return history.identity.is_control or (len(last) == 2 and _is_same_code(*last))


def _is_same_factor(move: Move, effect: float) -> bool:
    return abs(move.effect - effect) <= max(threshold(move.history), SAME_FACTOR * abs(effect))


def _is_event(blamed: Sequence[Move], here: Sequence[SeriesHistory]) -> bool:
    """Return whether moves that are no commit's are an event: the machine is known to have changed, or many moved.

    A screen fires by chance, too. To record that as an event would move what every later night expects.
    """
    changed = any(move.changes for move in blamed)
    return changed or len(blamed) >= max(FEWEST_OF_EVENT, SHARE_OF_EVENT * len(here))


def _chance(place: tuple[str, str], moves: Sequence[Move]) -> list[str]:
    said = [f"{move.identity} by a factor of {math.exp(move.effect):.4g}" for move in moves]
    if not said:
        return []
    return [f"{place[0]}: moved although their code is the same, and too few for an event: {'; '.join(said)}"]


def _event(place: tuple[str, str], blamed: Sequence[Move]) -> EnvironmentEvent:
    machine, device = place
    times = [move.history.newest.measured for move in blamed if move.history.newest.measured is not None]
    changed: Changes = {}
    for move in blamed:
        changed |= move.changes
    return EnvironmentEvent(
        machine=machine,
        device=device,
        effect=statistics.median(move.effect for move in blamed),
        began=min(times, default=None),
        changes=changed,
        moves=tuple(sorted(blamed, key=lambda move: move.identity)),
    )


def _quiet_changes(place: tuple[str, str], here: Sequence[SeriesHistory]) -> list[str]:
    """Return a note where the machine changed, and nothing moved."""
    changed: Changes = {}
    for item in here:
        if len(item.observations) > 1:
            changed |= session_facts.changes(item.observations[-2].facts, item.newest.facts)
    if not changed:
        return []
    said = "; ".join(f"{name}: {before} -> {after}" for name, (before, after) in changed.items())
    return [f"{place[0]}: its environment changed ({said}), and no series of {place[1] or 'its devices'} moved"]


class HasP(Protocol):
    """Something that a test said p of."""

    @property
    def p(self) -> float | None:
        """The p value; None where no test was made."""


Tested = TypeVar("Tested", bound=HasP)


def discoveries(tested: Sequence[Tested]) -> tuple[tuple[Tested, ...], tuple[Tested, ...]]:
    """Return what a night may report of what it confirmed, and what stays a suspect, by Benjamini and Hochberg.

    What no test was made of stays a suspect.
    """
    known = [(item, item.p) for item in tested if item.p is not None]
    adjusted = false_discovery_control([p for _, p in known]) if known else []
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
