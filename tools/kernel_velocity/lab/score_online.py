"""Detectors at work: histories played to them commit by commit, and what they said of them. Seeded.

Every contender sees the same histories, and a history with a step is the one without it, plus the step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernel_velocity.lab.contenders import SPARE, Alarm, Confirmed, Contender, Scene, Watcher
from kernel_velocity.lab.score_noise import Family

MARGIN = 5  # commits: reports no further apart are of one change
BEFORE, AFTER = 60, 40  # commits of a history with a step: those before it, and those of its new level
SOON = 10  # commits


@dataclass(frozen=True, kw_only=True)
class Silence:
    """What was reported of histories in which nothing happened."""

    commits: int
    alarms: int
    reruns: int | None  # rounds measured for confirmation; None for who confirms nothing

    def __add__(self, other: Silence) -> Silence:
        """Return both together."""
        reruns = None if self.reruns is None or other.reruns is None else self.reruns + other.reruns
        return Silence(commits=self.commits + other.commits, alarms=self.alarms + other.alarms, reruns=reruns)


@dataclass(frozen=True, kw_only=True)
class Found:
    """How a planted step was found."""

    delay: int | None  # commits after the new level's first one; None: not within AFTER
    error: int | None  # |reported - true| index after AFTER commits; None: not reported then, or not localised


def scene(family: Family, seed: Sequence[int], size: int, step: float = 0.0, at: int | None = None) -> Scene:
    """Return a history of `size` commits whose values rise by the factor 1 + step at commit `at`."""
    path = family(np.random.default_rng(list(seed)), size + SPARE)
    levels = np.zeros(size)
    if at is not None:
        levels[at:] = math.log1p(step)
    return Scene(logs=tuple((path[:size] + levels).tolist()), levels=levels, spare=path[size:])


def silence(contender: Contender, played: Scene) -> Silence:
    """Play a history in which nothing happens, and count what is reported anew.

    A report within MARGIN of an earlier one is that one, moved: a system that remembers its reports tells it once.
    """
    watcher = contender.watch(played)
    known: set[int] = set()
    alarms = 0
    for size in range(contender.stride, len(played.logs) + 1, contender.stride):
        for alarm in watcher.look(size):
            alarms += all(abs(alarm.index - other) > MARGIN for other in known)
            known.add(alarm.index)
    reruns = watcher.reruns if isinstance(watcher, Confirmed) else None
    return Silence(commits=len(played.logs), alarms=alarms, reruns=reruns)


def search(contender: Contender, family: Family, seed: Sequence[int], step: float) -> Found:
    """Play a history with a step upwards at commit BEFORE, and say when it was reported, and where in the end."""
    played = scene(family, seed, BEFORE + AFTER, step, BEFORE)
    watcher = contender.watch(played)
    watcher.look(BEFORE)
    delay = next((size - BEFORE - 1 for size in _sizes(contender) if _right(contender, watcher.look(size))), None)
    if delay is not None and contender.stride > 1:
        delay = _exact(contender, played, delay)
    at_the_end = contender.watch(played).look(len(played.logs)) if contender.localises else []
    errors = [abs(alarm.index - BEFORE) for alarm in _right(contender, at_the_end)]
    return Found(delay=delay, error=min(errors, default=None))


def _sizes(contender: Contender) -> Iterator[int]:
    return iter(range(BEFORE + contender.stride, BEFORE + AFTER + 1, contender.stride))


def _exact(contender: Contender, played: Scene, delay: int) -> int:
    """Return the delay, looking at the commits that were passed over too. Only for who remembers no earlier look."""
    for size in range(BEFORE + delay + 2 - contender.stride, BEFORE + delay + 1):
        if _right(contender, contender.watch(played).look(size)):
            return size - BEFORE - 1
    return delay


def _right(contender: Contender, alarms: list[Alarm]) -> list[Alarm]:
    """Return the reports of the planted step: upwards, and at its place, or at a later commit where that is all."""
    return [
        alarm
        for alarm in alarms
        if alarm.rises and (abs(alarm.index - BEFORE) <= MARGIN if contender.localises else alarm.index >= BEFORE)
    ]


def reported(contender: Contender, played: Scene) -> list[int]:
    """Return the indices that are reported of a whole history."""
    watcher: Watcher = contender.watch(played)
    return sorted({alarm.index for alarm in watcher.look(len(played.logs))})


def merged(parts: Sequence[Silence]) -> Silence:
    """Return several histories together; at least one."""
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total
