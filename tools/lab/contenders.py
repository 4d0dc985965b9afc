"""The detectors of change points that are compared: ours, and others'. Each takes a history and returns its reports."""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from asv import step_detect

from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.stats.changepoints import search
from kernel_velocity.stats.changepoints.values import observed

PERFHERDER_BACK, PERFHERDER_AHEAD, PERFHERDER_T = (12, 24), 12, 7.0  # its defaults (treeherder, perfalert)
LOOKS = 4  # commits from one look of others to the next: some take long
OTAVA_WINDOW, OTAVA_P, OTAVA_LEAST = 50, 1e-6, 0.01

Logs = Sequence[float | None]  # log values, oldest first; None where one is missing


@dataclass(frozen=True)
class DetectedChange:
    """A change point: the first value of a new level, and whether it is the higher one."""

    index: int
    rises: bool


class Contender(NamedTuple):
    """One way to detect changes."""

    detect: Callable[[Logs], list[DetectedChange]]
    stride: int = LOOKS  # commits from one look to the next


def _ours(logs: Logs) -> list[DetectedChange]:
    return [DetectedChange(point.index, point.rises) for point in search.detect(logs)]


def _asv(logs: Logs) -> list[DetectedChange]:
    """Detect by asv's own steps, as its graphs show them: without the threshold of its regressions page."""
    values = [None if value is None else math.exp(value) for value in logs]
    steps = step_detect.detect_steps(values) if any(value is not None for value in values) else []
    return [DetectedChange(int(new[0]), bool(new[2] > old[2])) for old, new in pairwise(steps)]


def _otava(logs: Logs) -> list[DetectedChange]:
    """Detect by Apache Otava. Of an array it returns other places than of a list."""
    values, indices = observed(logs)
    find = importlib.import_module("otava.analysis").compute_change_points
    points, _ = find(np.exp(values).tolist(), OTAVA_WINDOW, OTAVA_P, OTAVA_LEAST)
    return [DetectedChange(int(indices[point.index]), point.stats.mean_2 > point.stats.mean_1) for point in points]


def _perfherder(logs: Logs) -> list[DetectedChange]:
    """Detect by the rule of Mozilla's Perfherder: Student's t of two windows, nearer points weighing more, above 7.

    A place is reported that passes and whose neighbours do not pass better.
    """
    present, indices = observed(logs)
    values, t, calm = np.exp(present), [0.0], 1  # places since the last change
    for index in range(1, values.size - PERFHERDER_AHEAD + 1):
        reach = min(PERFHERDER_BACK[1], max(calm, PERFHERDER_BACK[0]))  # back to the last change
        back, ahead = values[max(index - reach, 0) : index][::-1], values[index : index + PERFHERDER_AHEAD]
        t.append(_weighted_t(back, ahead))
        calm = 0 if abs(t[-1]) > PERFHERDER_T else calm + 1
    return [
        DetectedChange(int(indices[index]), t[index] > 0)
        for index in range(PERFHERDER_BACK[0], len(t))
        if abs(t[index]) > PERFHERDER_T and abs(t[index]) >= max(map(abs, t[index - 1 : index + 2]))
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


OURS, OTAVA, SILENCE = "ours", "otava, p 1e-6, 1%", "report nothing"
CONTENDERS: Mapping[str, Contender] = {
    OURS: Contender(_ours, stride=1),
    "asv steps": Contender(_asv),
    **({OTAVA: Contender(_otava)} if importlib.util.find_spec("otava") else {}),
    "Perfherder t": Contender(_perfherder),
    SILENCE: Contender(lambda logs: []),
}
