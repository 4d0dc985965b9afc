"""Tell the steps of a series as events: a change and what took it back are one event with two ends. Pure.

A change is back where the level after it is the level before it, as far as the values tell: the interval of what is
left of it holds 0, or what is left is less than what is ever reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from kernel_velocity.stats.changepoints.search import REACH
from kernel_velocity.stats.changepoints.values import MIN_EFFECT, ChangePoint


class Rest(NamedTuple):
    """What some steps in a row leave together, log units."""

    effect: float  # infinite where a level is 0
    half: float  # of its 95% interval

    @property
    def is_nothing(self) -> bool:
        """Whether the level after the steps is the one before them, as far as the values tell."""
        return abs(self.effect) < max(self.half, MIN_EFFECT)


class Event(NamedTuple):
    """A change, by the numbers of its steps among those of the series."""

    first: int
    last: int | None = None  # the step that ended it; None: it lasts
    is_back: bool = False  # whether the level after `last` is the one before `first`


def rest(points: Sequence[ChangePoint], sizes: Sequence[int], numbers: Sequence[int]) -> Rest:
    """Return what some steps of a series leave together.

    The error of a level between two of them is in both, and cancels. A step's interval is due to both of its levels, to
    the shorter one more.

    Args:
        points: all steps. sizes: values of each level, one more than there are steps. numbers: of the steps, ascending.
    """
    if not numbers:
        return Rest(0.0, 0.0)
    before, after = points[numbers[0]].before, points[numbers[-1]].after
    if any(points[number].has_zero for number in numbers):
        return Rest(0.0 if before == after else after - before, 0.0)
    counted, variance = {*numbers}, 0.0
    for number in numbers:
        point, (older, newer) = points[number], (min(size, REACH) for size in sizes[number : number + 2])
        whole = (math.log(point.high / point.low) / 2) ** 2
        variance += 0.0 if number - 1 in counted else whole * newer / (older + newer)
        variance += 0.0 if number + 1 in counted else whole * older / (older + newer)
    return Rest(sum(points[number].after - points[number].before for number in numbers), math.sqrt(variance))


def of_series(points: Sequence[ChangePoint], sizes: Sequence[int]) -> tuple[Event, ...]:
    """Return the events of a series, by their first steps. Only steps that a commit can have caused count.

    A step that takes a change back is that change's end, and no event of its own. So are the steps on the way back. A
    step that goes further than back ends the change and begins another one.

    Args:
        points: all steps, oldest first. sizes: values of each level, one more than there are steps.
    """
    blamed = [number for number, point in enumerate(points) if point.is_blamed]
    if len(blamed) < 2:
        return tuple(map(Event, blamed))
    events, lasting = list[Event](), list[int]()
    for at, number in enumerate(blamed):
        left = {first: rest(points, sizes, blamed[blamed.index(first) : at + 1]) for first in lasting}
        taken_back = next((first for first in reversed(lasting) if left[first].is_nothing), None)
        for first in tuple(lasting):
            is_on_the_way = taken_back is not None and first > taken_back
            turned = left[first].effect * (points[first].after - points[first].before) < 0
            if first == taken_back or turned:
                events.append(Event(first, number, is_back=left[first].is_nothing))
            if first == taken_back or turned or is_on_the_way:
                lasting.remove(first)
        if taken_back is None:
            lasting.append(number)
    return tuple(sorted([*events, *map(Event, lasting)]))
