"""What a night measures again: what leaves a history, or the few values that there are."""

import math

import numpy as np
import pytest

from kernel_velocity.nightly.screen import BETWEEN_SESSIONS, shift


def values(number, seed=0, sigma=0.01):
    return list(np.random.default_rng(seed).normal(0, sigma, number))


@pytest.mark.parametrize("step", [0.1, -0.1])
def test_a_step_in_a_history_is_a_shift_of_the_newest_value(step):
    found = shift([*values(40), step])
    assert found.count == 1 and found.effect == pytest.approx(step, abs=0.01)


def test_a_small_step_that_lasts_is_a_shift_of_three_values():
    found = shift([*values(40), *(0.028 + value for value in values(3, seed=1, sigma=1e-4))])
    assert found.count == 3 and found.effect == pytest.approx(0.028, abs=0.01)


def test_a_history_without_a_step_has_no_shift():
    assert shift([*values(40), 0.0]) is None


@pytest.mark.parametrize(("moved", "seen"), [(1.1, True), (-1.1, True), (0.9, False)])
def test_of_a_second_value_only_more_than_sessions_differ_by_counts(moved, seen):
    found = shift([-7.0, -7.0 + moved * BETWEEN_SESSIONS])
    assert (found is not None) is seen
    if seen:
        assert found.effect == pytest.approx(moved * BETWEEN_SESSIONS) and found.count == 1


def test_of_few_values_what_stands_out_counts():
    few = values(6, sigma=0.003)
    assert shift([*few, 0.03]).effect == pytest.approx(0.03, abs=0.005)
    assert shift([*few, 0.001]) is None


def test_three_quiet_values_are_enough_for_a_step_of_three_percent():
    assert shift([0.0, 0.001, -0.001, 0.03]).effect == pytest.approx(0.03)
    assert shift([0.0, 1e-5, -1e-5, 0.009]) is None  # less than is worth a word, however quiet
    assert shift([0.0, 0.03, -0.03, 0.03]) is None


def test_a_first_value_cannot_have_moved():
    assert shift([math.log(1e-3)]) is None
