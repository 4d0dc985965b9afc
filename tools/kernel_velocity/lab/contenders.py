"""The detectors that are scored: ours, and others'. Each watches a scene commit by commit, as a nightly run does.

A scene is a benchmark's history with a known truth. Only the confirmation uses the truth, as re-measuring does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from asv import step_detect

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats import two_samples
from kernel_velocity.stats.changepoints import edivisive, pelt, vote, windows
from kernel_velocity.stats.changepoints.drift import drift
from kernel_velocity.stats.changepoints.screen import NEWEST, REFERENCE, screen
from kernel_velocity.stats.changepoints.values import MIN_EFFECT, Points, Values, observed

RERUNS = (8, 8)  # a side: first, and once more if the first leave it open: 16 in all
OPEN = 0.05  # p below which a re-run that confirms nothing is repeated
SPARE = 40 * 2 * sum(RERUNS)  # points of noise in a scene for re-runs: those of 40 of them
ANCHOR = 20  # commits before the suspect
PERFHERDER_BACK, PERFHERDER_AHEAD, PERFHERDER_T = (12, 24), 12, 7.0  # its defaults (treeherder, perfalert)


class Scene(NamedTuple):
    """A history: the measured values, and the truth."""

    logs: tuple[float | None, ...]
    levels: FloatArray  # true log levels
    spare: FloatArray  # noise for re-runs; empty for a real series


@dataclass(frozen=True)
class Alarm:
    """A report: the first point of a new level, or the commit that looks unlike those before it."""

    index: int
    rises: bool


Look = Callable[[int], list[Alarm]]  # returns the reports after some commits; called with ascending numbers


class Contender(NamedTuple):
    """One way to detect changes."""

    watch: Callable[[Scene], Look]
    localises: bool = True  # whether it names the first point of a new level, not just a suspect
    stride: int = 1  # commits between two looks: more than 1 if a look takes long


def _ours(detect: Callable[[Values], Points]) -> Contender:
    def watch(scene: Scene) -> Look:
        return lambda size: [Alarm(point.index, point.rises) for point in detect(scene.logs[:size])]

    return Contender(watch)


def _drifting(scene: Scene) -> Look:
    def look(size: int) -> list[Alarm]:
        line = drift(scene.logs[:size])
        return [Alarm(size - 1, (line.ratio or 1.0) > 1)] if line.found else []

    return look


def _screened(scene: Scene, since: int, size: int) -> list[Alarm]:
    """Return the alarm of the screen at the last of `size` commits, by those from `since` on."""
    screening = screen(scene.logs[max(since, size - REFERENCE - NEWEST) : size])
    return [Alarm(size - 1, bool(screening.rises))] if screening.alarm else []


class Confirmed:
    """The screen, and an A/B re-run of the suspect against the commit ANCHOR before it whenever it fires.

    A model, not a measurement: both sides are re-run in one night, interleaved ABBA, and one path of the history's
    noise runs through the re-runs, though a night has less. The common part of a night cancels, as it would. After a
    confirmed change the screen begins anew.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene, self._since, self._taken = scene, 0, 0
        self._confirmed: list[Alarm] = []

    @property
    def reruns(self) -> int:
        """Return the rounds that were re-measured, both sides together."""
        return self._taken

    def __call__(self, size: int) -> list[Alarm]:
        """Return the confirmed changes."""
        for alarm in _screened(self._scene, self._since, size):
            rises = self._rerun(alarm.index, max(alarm.index - ANCHOR, self._since))
            if rises is not None:
                self._confirmed.append(Alarm(alarm.index, rises))
                self._since = size
        return list(self._confirmed)

    def _rerun(self, suspect: int, anchor: int) -> bool | None:
        """Return whether a confirmed change rises. None if none is confirmed."""
        moved = float(self._scene.levels[suspect] - self._scene.levels[anchor])
        a, b = np.empty(0), np.empty(0)
        for more in RERUNS:
            start = self._taken % (self._scene.spare.size - 2 * more + 1)
            self._taken += 2 * more
            noise = self._scene.spare[start : start + 2 * more]
            order = np.arange(2 * more) % 4  # A B B A
            a = np.append(a, noise[(order == 0) | (order == 3)])
            b = np.append(b, noise[(order == 1) | (order == 2)] + moved)
            p = float(two_samples.mann_whitney(a[None], b[None])[0])
            effect = float(np.median(b) - np.median(a))
            if p < two_samples.P and abs(effect) >= MIN_EFFECT:
                return effect > 0
            if p >= OPEN:
                return None
        return None


def _asv_steps(scene: Scene) -> Look:
    """Watch by asv's own step detection, as its graphs show it: without the threshold of its regressions page."""
    values = [None if value is None else math.exp(value) for value in scene.logs]

    def look(size: int) -> list[Alarm]:
        if not any(value is not None for value in values[:size]):
            return []
        steps = step_detect.detect_steps(values[:size])
        return [Alarm(int(new[0]), bool(new[2] > old[2])) for old, new in pairwise(steps)]

    return look


class Perfherder:
    """The rule of Mozilla's Perfherder: Student's t of two windows, nearer points weighing more, larger than 7."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._t: list[float] = []  # of every place that has its points ahead
        self._calm = 0  # places since the last change

    def __call__(self, size: int) -> list[Alarm]:
        """Return the places that pass and whose neighbours do not pass better."""
        logs, indices = observed(self._scene.logs[:size])
        values = np.exp(logs)
        for place in range(len(self._t), values.size - PERFHERDER_AHEAD + 1):
            reach = min(PERFHERDER_BACK[1], max(self._calm, PERFHERDER_BACK[0]))  # back to the last change
            back, ahead = values[max(place - reach, 0) : place][::-1], values[place : place + PERFHERDER_AHEAD]
            self._t.append(_weighted_t(back, ahead) if place else 0.0)
            self._calm = 0 if abs(self._t[-1]) > PERFHERDER_T else self._calm + 1
        strength = [abs(t) for t in self._t]
        return [
            Alarm(int(indices[place]), self._t[place] > 0)
            for place in range(PERFHERDER_BACK[0], len(strength))
            if strength[place] > PERFHERDER_T
            and strength[place] >= max(strength[place - 1], *strength[place + 1 : place + 2], 0.0)
        ]


def _weighted_t(back: FloatArray, ahead: FloatArray) -> float:
    """Return t of two windows whose weights fall linearly with the distance from the place between them."""
    means, variances = [], []
    for part in (back, ahead):
        weights = np.arange(part.size, 0, -1)
        means.append(float(weights @ part) / float(weights.sum()))
        squares = float(((part - means[-1]) ** 2).sum())
        variances.append(squares / (part.size - 1) / part.size if part.size > 1 else 0.0)
    moved = means[1] - means[0]
    if moved == 0 or sum(variances) == 0:
        return math.copysign(math.inf, moved) if moved else 0.0
    return moved / math.sqrt(sum(variances))


VOTE, CONFIRMED, DRIFT, ASV = "vote, 2 of 3", "screen + A/B re-run", "slow drift", "asv steps"
CONTENDERS: Mapping[str, Contender] = {
    VOTE: _ours(vote.detect),
    pelt.NAME: _ours(pelt.detect),
    edivisive.NAME: _ours(edivisive.detect),
    windows.NAME: _ours(windows.detect),
    "screen alone": Contender(lambda scene: lambda size: _screened(scene, 0, size), localises=False),
    CONFIRMED: Contender(Confirmed, localises=False),
    DRIFT: Contender(_drifting, localises=False),
    ASV: Contender(_asv_steps, stride=4),
    "Perfherder t": Contender(Perfherder),
}
