"""Which of the steps between sessions count: those beyond the errors of links, or that one session shows."""

import numpy as np
import pytest

from kernel_velocity.stats.changepoints.doubt import beyond_doubt
from kernel_velocity.stats.changepoints.values import ChangePoint

STEP = 0.05
NOISE = 0.003


def counted(*sessions, steps):
    """Return which steps count, of values that rise by STEP at each. A commit without a value is in every session.

    Args:
        sessions: the number of values of each, and the standard error of its link. steps: values before each.
    """
    errors = np.repeat([error for _, error in sessions], [number for number, _ in sessions])
    logs = np.random.default_rng(1).normal(0, NOISE, errors.size)
    for step in steps:
        logs[step:] += STEP
    return counted_of(logs, errors, sessions, steps)


def counted_of(logs, errors, sessions, steps):
    """Return which steps count of given values."""
    gaps = np.cumsum([0, *(number for number, _ in sessions)])[:-1] + 1
    points = [
        ChangePoint(index=step + int((gaps <= step).sum()), before=0.0, after=STEP, low=1.0, high=1.1, p=1e-9)
        for step in steps
    ]
    points_beyond = beyond_doubt(np.insert(logs, gaps, np.nan), np.insert(errors, gaps, errors[gaps - 1]), points)
    return [step for step, point in zip(steps, points, strict=True) if point in points_beyond]


@pytest.mark.parametrize(("error", "is_beyond"), [(0.0099, True), (0.0101, False)])
def test_step_of_5_percent_counts_up_to_an_error_of_1_percent(error, is_beyond):
    assert bool(counted((20, 0.0), (20, error), steps=[20])) == is_beyond


def test_session_weighs_by_its_share_of_a_level():
    assert counted((20, 0.0), (10, 0.015), (10, 1e-9), steps=[20]) == [20]
    assert counted((20, 0.0), (30, 0.015), (10, 1e-9), steps=[20]) == []


def test_levels_end_at_the_neighbouring_steps():
    assert counted((20, 0.0), (20, 0.012), (20, 1e-9), steps=[20, 40]) == []


def test_levels_reach_100_values_to_either_side():
    assert counted((20, 1e-9), (20, 0.07), (200, 0.0), steps=[20]) == []
    assert counted((200, 0.0), (20, 0.07), (20, 1e-9), steps=[220]) == []
    assert counted((200, 0.0), (20, 0.04), (20, 1e-9), steps=[220]) == [220]


def test_same_session_on_both_sides_leaves_no_doubt():
    """Five values on either side of the step are too few for a session itself to show it."""
    assert counted((5, 0.1), (5, 0.0), steps=[5]) == []
    assert counted((10, 0.1), steps=[5]) == [5]


def test_step_counts_if_a_session_shows_it_and_not_otherwise():
    sessions = ((20, 0.0), (20, 0.1), (20, 0.2))
    assert counted(*sessions, steps=[30]) == [30]
    errors = np.repeat([0.0, 0.1, 0.2], 20)
    level = np.random.default_rng(1).normal(0, NOISE, 60) + np.repeat([0, STEP / 2, STEP], 20)
    assert counted_of(level, errors, sessions, [30]) == []
