"""Levels that a series keeps visiting: how long a stay there must be to be a change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.lab.detector_data import bimodal
from kernel_velocity.stats.changepoints import vote
from kernel_velocity.stats.changepoints.values import ChangePoint
from kernel_velocity.stats.changepoints.visits import FEWEST, LOOK_BACK, PASSING, is_visit

SLOW = 0.024


def change(before=0.0, after=SLOW):
    return ChangePoint(index=0, before=before, after=after, low=1.0, high=1.1, p=0.0, detectors=("a",))


def stays(*lengths):
    """Return log values that begin fast and turn at each length; the last one is of the speed that is then due."""
    speeds = [SLOW * (number % 2) for number in range(len(lengths))]
    return np.repeat(speeds, lengths)


STICKY = stays(3, 2, 4, 5, 2, 3, 3, 1, 4, 3, 2)  # 14 of 31 points in visits of 1, 2, 3, 3 and 5


@pytest.mark.parametrize(("size", "is_one"), [(5, True), (9, True), (12, True), (40, False)])
def test_a_longer_stay_than_usual_is_a_visit_and_one_without_end_is_a_change(size, is_one):
    assert is_visit(STICKY, np.full(size, SLOW), change()) is is_one


@pytest.mark.parametrize("size", [6, 10, 40])
def test_a_level_that_was_never_visited_or_never_kept_is_a_change(size):
    after = np.full(size, SLOW)
    assert not is_visit(np.zeros(60), after, change())
    spikes = np.zeros(90)
    spikes[::15] = SLOW
    assert not is_visit(spikes, after, change())


def test_a_level_that_was_left_for_good_is_no_visited_one():
    assert not is_visit(stays(20, PASSING + 1, 20), np.full(8, SLOW), change())
    assert not is_visit(stays(*[5, PASSING + 1] * (FEWEST + 1), 5), np.full(8, SLOW), change())


def test_few_visits_say_nothing():
    few = stays(*[5, 4] * (FEWEST - 1), 5)
    assert not is_visit(few, np.full(6, SLOW), change())
    assert is_visit(np.concatenate([few, stays(1, 4, 5)]), np.full(6, SLOW), change())


def test_what_was_long_ago_says_nothing():
    assert is_visit(STICKY, np.full(6, SLOW), change())
    assert not is_visit(np.concatenate([STICKY, np.zeros(LOOK_BACK)]), np.full(6, SLOW), change())


@given(st.lists(st.integers(1, 12), min_size=1, max_size=20), st.integers(1, 60), st.floats(-5, 5))
def test_upside_down_and_shifted_it_says_the_same(lengths, size, shift):
    before, after = stays(*lengths), np.full(size, SLOW)
    said = is_visit(before, after, change())
    assert is_visit(-before, -after, change(0.0, -SLOW)) is said
    assert is_visit(before + shift, after + shift, change(shift, SLOW + shift)) is said


def test_the_vote_reports_no_long_stay_that_its_detectors_agree_on(monkeypatch):
    values = bimodal(np.random.default_rng(242), 100)
    assert vote.detect(values).points == ()
    monkeypatch.setattr(vote, "is_visit", lambda *_: False)
    assert vote.detect(values).points
