"""Policy of a night: what is to be confirmed, what the machine did, what may be reported, what is one cause. Pure.

Whatever is left as a suspect here is only that: nobody is told before a confirmation (`discoveries`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kernel_velocity.findings.finding import Step
from kernel_velocity.nightly import suspects as attribution
from kernel_velocity.nightly.moves import Move, Screen, move_of, prepared
from kernel_velocity.nightly.suspects import EnvironmentEvent, Place
from kernel_velocity.results.identity import Identity
from kernel_velocity.series.history import SeriesHistory

FALSE_DISCOVERIES = 0.05  # expected share among what one night reports (Benjamini and Hochberg, JRSS B 57(1), 1995)


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
        blamed = [move for move in own if attribution.is_environment(move, own, here)]
        if attribution.is_event(blamed, here):
            events.append(attribution.event_of(place, blamed))
        else:
            notes += attribution.chance_notes(place, [move for move in blamed if not move.candidates])
            blamed = [move for move in blamed if not move.candidates]
        suspects += [move for move in own if move not in blamed and move.worse is not None]
        notes += [] if own else attribution.quiet_notes(place, here)
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
