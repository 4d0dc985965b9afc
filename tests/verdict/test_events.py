"""A change and what took it back are one event, by the interval of what is left."""

import itertools
import math

import numpy as np
import pytest

from kernel_velocity.stats.changepoints.values import ChangePoint
from kernel_velocity.verdict import events
from kernel_velocity.verdict.events import Event
from kernel_velocity.verdict.verdicts import Word
from lab import platforms


def steps(*effects, half=0.01, unblamed=()):
    """Return steps by effects in percent, each 10 values after the one before."""
    levels = np.cumsum([0.0, *effects]) / 100
    return [
        ChangePoint(
            index=10 * number + 10,
            before=before,
            after=after,
            low=math.exp(after - before - half),
            high=math.exp(after - before + half),
            p=1e-9,
            is_unsteady=number in unblamed,
        )
        for number, (before, after) in enumerate(itertools.pairwise(levels))
    ]


@pytest.mark.parametrize(
    ("effects", "wanted"),
    [
        ((5,), [Event(0)]),
        ((5, -5), [Event(0, 1, is_back=True)]),
        ((5, -5, 5), [Event(0, 1, is_back=True), Event(2)]),
        ((5, -2.5, -2.5), [Event(0, 2, is_back=True)]),  # in two steps
        ((5, 3, -3, -5), [Event(0, 3, is_back=True), Event(1, 2, is_back=True)]),
        ((5, 3, -8), [Event(0, 2, is_back=True), Event(1, 2)]),  # the second change is over with the first
        ((5, -3), [Event(0), Event(1)]),  # half of it is left
        ((5, -9), [Event(0, 1), Event(1)]),  # further than back
        ((-9, 9, 20), [Event(0, 1, is_back=True), Event(2)]),
        ((5, 5, -5), [Event(0), Event(1, 2, is_back=True)]),
    ],
)
def test_steps_are_events(effects, wanted):
    points = steps(*effects)
    assert list(events.of_series(points, [10] * (len(points) + 1))) == wanted


@pytest.mark.parametrize(("half", "is_back"), [(0.005, False), (0.02, True)])
def test_interval_says_whether_a_change_is_back(half, is_back):
    first, *_ = events.of_series(steps(5, -3.8, half=half), [40, 40, 40])
    assert (first.last is not None) is is_back


def test_level_between_two_steps_tells_nothing_of_their_rest():
    points = steps(5, -5, half=0.02)
    short, alike = (events.rest(points, sizes, [0, 1]).half for sizes in ([40, 2, 40], [40, 40, 40]))
    assert alike == pytest.approx(0.02)
    assert short < 0.4 * alike  # the intervals are due to the two values between the steps


def test_step_that_no_commit_caused_ends_nothing():
    assert events.of_series(steps(5, -5, unblamed=(1,)), [10] * 3) == (Event(0),)


@pytest.mark.parametrize("after", range(1, 7))
def test_revert_is_one_event_from_its_first_commit(after):
    stay, right, unchanged = 8, 0, 0
    for seed in range(5):
        sigma, size = 0.005, platforms.STEADY + stay + after
        values = np.random.default_rng([11, seed]).normal(0, sigma, (24, size))
        values[:4, platforms.STEADY : platforms.STEADY + stay] += math.log(1.05)
        for levels in platforms.platform(values[:18], values[18:])[:4]:
            named = events.of_series(levels.points, levels.sizes)
            right += [event.is_back for event in named] == [True]
            unchanged += levels.between(platforms.STEADY - 5, size - 1).word is Word.UNCHANGED
    assert min(right, unchanged) >= 17  # of 20: a 95% interval leaves one out
