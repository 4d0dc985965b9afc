"""The detectors that are scored: ours, and what others use. Each is fed a scene commit by commit, as a nightly run is.

A scene is a benchmark's history with a known truth; only the confirmation looks at the truth, as re-measuring does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from asv import step_detect

from kernel_velocity.harness.statistics import FloatArray
from kernel_velocity.stats import two_samples
from kernel_velocity.stats.changepoints import edivisive, pelt, vote, windows
from kernel_velocity.stats.changepoints.drift import drift
from kernel_velocity.stats.changepoints.screen import NEWEST, REFERENCE, screen
from kernel_velocity.stats.changepoints.values import MIN_EFFECT, Detection, Values, observed

RERUNS = (8, 8)  # a side: first, and once more where the first leave it open: 16 in all
OPEN = 0.05  # p below which a re-run that confirms nothing is repeated
SPARE = 40 * 2 * sum(RERUNS)  # points of noise that a scene holds for re-runs: those of 40 of them
ANCHOR = 20  # commits before the suspect
PERFHERDER_BACK, PERFHERDER_AHEAD, PERFHERDER_T = (12, 24), 12, 7.0  # its defaults (treeherder, perfalert)


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A history: what was measured, and what is true."""

    logs: tuple[float | None, ...]
    levels: FloatArray  # the true log levels
    spare: FloatArray  # noise that re-runs see; empty for a real series


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """What a contender reports: the first point of a new level, or the commit that looks unlike those before it."""

    index: int
    rises: bool


class Watcher(Protocol):
    """A contender at work on one scene."""

    def look(self, size: int) -> list[Alarm]:
        """Return what it reports after `size` commits; called with ascending sizes."""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One way to detect changes."""

    watch: Callable[[Scene], Watcher]
    localises: bool = True  # whether it names the first point of a new level, not just a suspect
    stride: int = 1  # commits between two looks: more than 1 where a look takes long


class Fed:
    """A detector of ours."""

    def __init__(self, scene: Scene, detect: Callable[[Values], Detection]) -> None:
        self._scene, self._detect = scene, detect

    def look(self, size: int) -> list[Alarm]:
        """Return what it reports after `size` commits."""
        points = self._detect(self._scene.logs[:size]).points
        return [Alarm(index=point.index, rises=point.rises) for point in points]


class Drifting:
    """The check for slow drift; an alarm is of the last commit."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def look(self, size: int) -> list[Alarm]:
        """Return what it reports after `size` commits."""
        found = drift(self._scene.logs[:size])
        return [Alarm(index=size - 1, rises=(found.ratio or 1.0) > 1)] if found.found else []


class Screened:
    """The screen alone."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._since = scene, 0

    def look(self, size: int) -> list[Alarm]:
        """Return what it reports after `size` commits."""
        found = screen(self._scene.logs[max(self._since, size - REFERENCE - NEWEST) : size])
        return [Alarm(index=size - 1, rises=bool(found.rises))] if found.alarm else []


class Confirmed(Screened):
    """The screen, and an A/B re-run of the suspect against the commit ANCHOR before it whenever it fires.

    A model, not a measurement: both sides are re-run in one night, interleaved ABBA, and one path of the history's
    noise runs through the re-runs, though a night has less. What a night has in common falls out, as it would. After
    a confirmed change the screen begins anew.
    """

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._confirmed: list[Alarm] = []
        self.reruns = 0  # measured, both sides together
        self._taken = 0

    def look(self, size: int) -> list[Alarm]:
        """Return what it has confirmed after `size` commits."""
        for alarm in super().look(size):
            rises = self._rerun(alarm.index, max(alarm.index - ANCHOR, self._since))
            if rises is not None:
                self._confirmed.append(Alarm(index=alarm.index, rises=rises))
                self._since = size
        return list(self._confirmed)

    def _rerun(self, suspect: int, anchor: int) -> bool | None:
        """Return the direction of a confirmed change, None for none."""
        moved = float(self._scene.levels[suspect] - self._scene.levels[anchor])
        a, b = np.empty(0), np.empty(0)
        for more in RERUNS:
            noise = self._noise(2 * more)
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

    def _noise(self, size: int) -> FloatArray:
        self.reruns += size
        start = self._taken % (self._scene.spare.size - size + 1)
        self._taken += size
        return self._scene.spare[start : start + size]


class AsvSteps:
    """asv's own step detection, as its graphs show it: every step, without the threshold of its regressions page."""

    def __init__(self, scene: Scene) -> None:
        self._values = [None if value is None else math.exp(value) for value in scene.logs]

    def look(self, size: int) -> list[Alarm]:
        """Return what it reports after `size` commits."""
        if not any(value is not None for value in self._values[:size]):
            return []
        steps = step_detect.detect_steps(self._values[:size])
        return [Alarm(index=int(new[0]), rises=bool(new[2] > old[2])) for old, new in pairwise(steps)]


class Perfherder:
    """The rule of Mozilla's Perfherder: Student's t of two windows, nearer points weighing more, larger than 7."""

    def __init__(self, scene: Scene) -> None:
        self._logs = scene.logs
        self._places: list[int] = []
        self._values: list[float] = []
        self._t: list[float] = []  # of every place that has its points ahead
        self._calm, self._read = 0, 0

    def look(self, size: int) -> list[Alarm]:
        """Return what it reports after `size` commits: places that pass, and whose neighbours do not pass better."""
        logs, indices = observed(self._logs[self._read : size])
        self._places += (self._read + indices).tolist()
        self._values += [math.exp(value) for value in logs]
        self._read = size
        while len(self._t) + PERFHERDER_AHEAD <= len(self._values):
            self._t.append(self._next())
        strength = [abs(t) for t in self._t]
        return [
            Alarm(index=self._places[place], rises=self._t[place] > 0)
            for place in range(PERFHERDER_BACK[0], len(strength))
            if strength[place] > PERFHERDER_T
            and strength[place] >= max(strength[place - 1], *strength[place + 1 : place + 2], 0.0)
        ]

    def _next(self) -> float:
        """Return t at the next place: back to the last change, but 12 to 24 points."""
        place = len(self._t)
        reach = min(PERFHERDER_BACK[1], max(self._calm, PERFHERDER_BACK[0]))
        back = self._values[max(place - reach, 0) : place][::-1]
        ahead = self._values[place : place + PERFHERDER_AHEAD]
        t = _weighted_t(np.array(back), np.array(ahead)) if back else 0.0
        self._calm = 0 if abs(t) > PERFHERDER_T else self._calm + 1
        return t


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


def _vote(scene: Scene) -> Watcher:
    return Fed(scene, vote.detect)


def _pelt(scene: Scene) -> Watcher:
    return Fed(scene, pelt.detect)


def _edivisive(scene: Scene) -> Watcher:
    return Fed(scene, edivisive.detect)


def _two_window(scene: Scene) -> Watcher:
    return Fed(scene, windows.detect)


VOTE, CONFIRMED, DRIFT, ASV = "vote, 2 of 3", "screen + A/B re-run", "slow drift", "asv steps"
CONTENDERS: Mapping[str, Contender] = {
    VOTE: Contender(watch=_vote),
    pelt.NAME: Contender(watch=_pelt),
    edivisive.NAME: Contender(watch=_edivisive),
    windows.NAME: Contender(watch=_two_window),
    "screen alone": Contender(watch=Screened, localises=False),
    CONFIRMED: Contender(watch=Confirmed, localises=False),
    DRIFT: Contender(watch=Drifting, localises=False),
    ASV: Contender(watch=AsvSteps, stride=4),
    "Perfherder t": Contender(watch=Perfherder),
}
