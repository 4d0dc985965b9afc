"""Tell which steps may be of a machine whose levels wander: its controls wander as far, and no commit changes them.

What controls share is the machine's part, and taken out (controls.py). What is left in a control is its own. Where
its levels often move half as far as a step of another series, that step may be such a move, too. Only a re-measurement
in turns can tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import special

from kernel_velocity import units
from kernel_velocity.engine.statistics import FloatArray
from kernel_velocity.names import CONTROLS
from kernel_velocity.past.columns import Columns, Indices
from kernel_velocity.results.measurement import IntArray, SeriesKey
from kernel_velocity.stats.changepoints.noise import clipped, difference_sigma, least_sigma, median
from kernel_velocity.stats.changepoints.search import LOOK_BACK
from kernel_velocity.stats.changepoints.values import ChangePoint, Points
from kernel_velocity.verdict.controls import Shared, left_in, platform_of

FREQUENT = 0.002  # moves a value: controls of a steady machine make fewer
BY_CHANCE = 0.4  # probability that those of a steady machine make so many: one move in 250 values tells nothing
SHARE = 0.5  # of a step: the controls are few, so that the largest of their moves may be smaller
LOUD = 5.0  # times its standard error: noise alone seldom moves a mean as far
LONGEST = 12  # values a side of a move that are compared
MOST_CONTROLS = 32  # about, evenly spread over all


class Moves(NamedTuple):
    """How far levels of successive values of controls are from the levels before, the furthest first, (starts,)."""

    position: IntArray  # on the first-parent line, of the first value of the later level
    start: Indices  # of that value among those of all controls
    effect: FloatArray  # of log values
    below: FloatArray  # its size, negative: ascending


@dataclass(frozen=True, eq=False)
class Wandering:
    """The values of a platform's controls, without what they share."""

    positions: Sequence[IntArray]  # of each control's values on the first-parent line, ascending
    logs: Sequence[FloatArray]  # log values of each, without spikes

    @classmethod
    def of(cls, controls: Sequence[Columns], shared: Callable[[SeriesKey], Shared]) -> Wandering:
        """Return the values of controls. One that has a single value moves nowhere."""
        positions, logs = list[IntArray](), list[FloatArray]()
        for columns in controls[:: len(controls) // MOST_CONTROLS + 1]:
            values, common = columns.logs, left_in(columns, shared(columns.key))
            values = values - np.where(np.isnan(common), 0.0, common)
            entries = np.flatnonzero(~np.isnan(values))
            if entries.size > 1:
                values = values[entries]
                positions.append(columns.position[entries])
                logs.append(clipped(values, np.maximum(difference_sigma(values), least_sigma(values))))
        return cls(positions, logs)

    @cached_property
    def sigma(self) -> float:
        """The typical scatter of their values."""
        return median(np.array([difference_sigma(logs) for logs in self.logs]))

    @cached_property
    def _measured(self) -> tuple[IntArray, IntArray]:
        """The positions of all values, and those that have one, both ascending."""
        positions = np.sort(np.concatenate(self.positions))
        return positions, np.unique(positions)

    @cached_property
    def _moves(self) -> dict[int, Moves]:
        """By the number of values on each side, as far as they were asked for."""
        return {}

    def moves(self, size: int) -> Moves:
        """Return all differences of levels of `size` values: means of the middle half."""
        if size not in self._moves:
            parts, first = [(np.empty(0, np.int32), np.empty(0, np.intp), np.empty(0))], 0
            for position, logs in zip(self.positions, self.logs, strict=True):
                if logs.size >= 2 * size:
                    ordered = np.sort(sliding_window_view(logs, size), axis=1)
                    levels = ordered[:, size // 4 : size - size // 4].mean(axis=1)
                    starts = np.arange(size, logs.size - size + 1)
                    parts.append((position[starts], first + starts, levels[size:] - levels[:-size]))
                first += logs.size
            together = [np.concatenate(column) for column in zip(*parts, strict=True)]
            below = -np.abs(together[-1])
            order = below.argsort(kind="stable")
            self._moves[size] = Moves(*(column[order] for column in (*together, below)))
        return self._moves[size]

    def marked(self, point: ChangePoint, position: int, size: int) -> ChangePoint:
        """Return a step, unsteady where controls near it often move as far.

        Args:
            position: of its commit. size: values of the shorter one of its levels.
        """
        if not self.logs:
            return point
        effect, loud = abs(point.after - point.before), LOUD * self.sigma * math.sqrt(2)
        # A shorter move may be of another kind, but noise must not move as far
        size = min(max(math.ceil((loud / (SHARE * effect)) ** 2), (size + 1) // 2), size, LONGEST)
        least, moves = min(effect, max(SHARE * effect, loud / math.sqrt(size))), self.moves(size)
        far = int(moves.below.searchsorted(-least, "right"))
        if not far:
            return point
        positions, commits = self._measured
        at = int(np.searchsorted(commits, position))
        first, last = commits[max(at - LOOK_BACK, 0)], commits[min(at + LOOK_BACK, commits.size) - 1]
        is_near = (moves.position[:far] >= first) & (moves.position[:far] <= last)
        start, effect = moves.start[:far][is_near], moves.effect[:far][is_near]
        count = 0
        for is_there in (effect > 0, effect < 0):
            starts = np.sort(start[is_there])
            count += min(starts.size, 1) + int((np.diff(starts) > size).sum())  # those of one move follow each other
        values = int(np.searchsorted(positions, last, "right") - np.searchsorted(positions, first))
        if not count or special.pdtrc(count - 1, FREQUENT * values) > BY_CHANCE:
            return point
        note = (
            f"unsteady: controls, which no commit changes, moved by {units.significant(100 * math.expm1(least))}% and "
            f"more by themselves {count}{units.MULTIPLE} in {values} values near this commit"
        )
        return replace(point, is_unsteady=True, warnings=(*point.warnings, note))


def marked(series: Sequence[Columns], points: Sequence[Points], shared: Callable[[SeriesKey], Shared]) -> list[Points]:
    """Return the steps of series, those marked as unsteady that may be moves such as controls of their platform make.

    Args:
        points: of each series, without the machine's part.
        shared: returns what the controls share that were measured where a series was.
    """
    controls, wandering = dict[tuple[str, str, str], list[Columns]](), dict[tuple[str, str, str], Wandering]()
    for part in series:
        if part.key.implementation in CONTROLS and part.unit == units.SECONDS:
            controls.setdefault(platform_of(part.key), []).append(part)

    def of_series(part: Columns, steps: Points) -> Iterator[ChangePoint]:
        platform = platform_of(part.key)
        if platform not in wandering:
            wandering[platform] = Wandering.of(controls[platform], shared)
        bounds, is_measured = [0, *(point.index for point in steps), len(part)], part.is_measured
        counts = [int(np.count_nonzero(is_measured[first:last])) for first, last in pairwise(bounds)]
        for point, sizes in zip(steps, pairwise(counts), strict=True):
            yield wandering[platform].marked(point, int(part.position[point.index]), max(min(sizes), 1))

    return [
        tuple(of_series(part, steps))
        if steps
        and part.key.implementation not in CONTROLS
        and part.unit == units.SECONDS
        and platform_of(part.key) in controls
        else steps
        for part, steps in zip(series, points, strict=True)
    ]
