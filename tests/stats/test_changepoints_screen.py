"""The screen and the check for slow drift: what they see, and what they leave alone."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.stats.changepoints.drift import FEWEST, WINDOW, drift
from kernel_velocity.stats.changepoints.screen import screen
from tests.stepped_series import with_holes

SEEDS = st.integers(0, 10_000)


def noise(size=60, seed=0, sigma=0.01):
    return (sigma * np.random.default_rng(seed).standard_normal(size)).tolist()


@pytest.mark.parametrize("moved", [0.05, -0.05])
def test_the_screen_sees_one_point_far_off(moved):
    found = screen([*noise(), moved])
    assert found.alarm
    assert found.rises == (moved > 0)
    assert found.index == 60
    assert found.z1 == pytest.approx((moved - found.level) / found.sigma)
    assert found.warnings == ()


def test_the_screen_sees_three_points_that_are_off_together():
    calm = screen([*noise(), 0.0, 0.0, 0.0])
    moved = calm.level + 2.8 * calm.sigma
    assert not screen([*noise(), calm.level, calm.level, moved]).alarm
    found = screen([*noise(), moved, moved, moved])
    assert found.alarm
    assert (found.z1, found.z3) == pytest.approx((2.8, 2.8))
    assert found.rises


def test_the_median_of_three_decides_the_direction_where_the_last_point_is_calm():
    found = screen([*noise(), 0.05, 0.05, -0.001])
    assert found.alarm
    assert found.rises
    assert found.z1 < 0


def test_the_screen_is_silent_in_noise():
    alarms = [screen(noise(50, seed)).alarm for seed in range(60)]
    assert sum(alarms) <= 4
    assert screen(noise(50, 0)).rises is None


def test_two_modes_of_a_timer_are_no_news():
    values = [0.0, 0.02] * 25
    assert not screen(values).alarm
    assert not screen(values[:-1]).alarm


def test_one_value_over_and_over_has_the_least_scatter():
    assert screen([0.0] * 50).sigma == 0.001
    assert screen([0.0] * 50 + [0.0031]).alarm
    assert not screen([0.0] * 50 + [0.0029]).alarm


@pytest.mark.parametrize("values", [[], [0.0] * 50 + [None], [0.0] * 50 + [math.nan]])
def test_a_missing_last_point_is_said_to_be_missing(values):
    found = screen(values)
    assert (found.index, found.alarm) == (None, False)
    assert found.warnings == ("no value at the last point",)


def test_a_short_reference_is_said_to_be_short():
    assert screen(noise(12)).warnings == ("need >= 13 points for the screen, have 12",)
    assert screen(noise(12)).z1 is None
    assert screen(noise(13)).z1 is not None
    assert screen(noise(42)).warnings == ("need >= 43 points for a full reference, have 42",)


def test_the_screen_refuses_infinite_values_and_names_the_index():
    with pytest.raises(ValueError, match="value 70 is infinite"):
        screen([*noise(70), math.inf, 0.0])
    assert screen([math.inf, *noise(60)]).z1 is not None  # older than what it reads


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, holes=st.lists(st.integers(0, 59), max_size=8), older=st.integers(0, 50))
def test_the_screen_skips_missing_points_and_reads_the_last_43_only(seed, holes, older):
    values = noise(60, seed)
    found, holed = screen(values), screen([9.0] * older + with_holes(values, holes))
    assert (holed.z1, holed.z3, holed.level) == (found.z1, found.z3, found.level)
    assert holed.index == 59 + len(set(holes)) + older + (len(holes) - len(set(holes)))


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, shift=st.integers(-500, 500))
def test_the_screen_knows_no_unit_and_no_side(seed, shift):
    values = np.array(noise(60, seed, 0.02))
    found = screen(values.tolist())
    moved, turned = screen((values + shift / 64).tolist()), screen((-values).tolist())
    assert moved.z1 == pytest.approx(found.z1)
    assert (turned.z1, turned.z3) == pytest.approx((-found.z1, -found.z3))


def creeping(size=80, total=0.05, seed=0):
    """Return a series that rises by `total` (log units) in WINDOW points."""
    return (np.array(noise(size, seed)) + total / WINDOW * np.arange(size)).tolist()


@pytest.mark.parametrize("total", [0.05, -0.05])
def test_a_creeping_level_is_a_drift(total):
    found = drift(creeping(total=total))
    assert found.found
    assert (found.first, found.last) == (20, 79)
    assert found.low < math.exp(total * (WINDOW - 1) / WINDOW) < found.high
    assert (found.ratio > 1) == (total > 0)
    assert found.p < 1e-4


@pytest.mark.parametrize("place", [30, 40, 60])
@pytest.mark.parametrize("step", [0.02, 0.05])
def test_a_step_is_no_drift(place, step):
    values = np.array(noise(80))
    values[place:] += step
    found = drift(values.tolist())
    assert found.stepwise
    assert not found.found


def test_it_is_the_step_that_explains_more_which_speaks_against_a_drift():
    values = np.array(noise(80, seed=1))
    values[50:] += 0.02
    found = drift(values.tolist())
    assert found.p < 1e-4
    assert found.ratio > 1.01
    assert found.stepwise


def test_noise_is_no_drift():
    assert not any(drift(noise(60, seed)).found for seed in range(40))


def test_correlated_noise_is_no_drift():
    for seed in range(20):
        values = np.array(noise(60, seed))
        for place in range(1, 60):
            values[place] += 0.6 * values[place - 1]
        assert not drift(values.tolist()).found


def test_a_drift_of_less_than_a_percent_is_not_worth_a_word():
    values = (np.array(noise(60, sigma=0.0005)) + 0.008 / WINDOW * np.arange(60)).tolist()
    assert drift(values).p < 1e-4
    assert not drift(values).found


def test_a_drift_since_the_last_release():
    values = creeping(size=200, total=0.015)
    assert not drift(values).found
    found = drift(values, since=40)
    assert found.found
    assert (found.first, found.last) == (40, 199)


@pytest.mark.parametrize("since", [-1, 80, 1000])
def test_a_release_that_is_not_in_the_series_is_refused(since):
    with pytest.raises(ValueError, match=f"since {since}: wanted an index of a series of 80 values"):
        drift(creeping(), since=since)


def test_too_little_for_a_drift_is_said():
    found = drift(creeping(size=FEWEST - 1))
    assert (found.found, found.p) == (False, None)
    assert found.warnings == ("need >= 20 points for a drift, have 19",)
    assert drift([None] * 5).warnings == ("need >= 20 points for a drift, have 0",)
    assert drift(creeping(), since=79).first == 79


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, holes=st.lists(st.integers(0, 79), max_size=5))
def test_a_drift_skips_missing_points_and_keeps_their_time(seed, holes):
    holed = drift(with_holes(creeping(seed=seed), holes))
    assert holed.last == 79 + len(holes)
    assert holed.first == 20 + sum(hole <= 20 for hole in holes)
    if not holes:
        assert holed == drift(creeping(seed=seed))


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_backwards_a_drift_is_the_inverse(seed):
    values = creeping(size=60, seed=seed)
    there, back = drift(values), drift(values[::-1])
    assert back.ratio == pytest.approx(1 / there.ratio)
    assert back.p == pytest.approx(there.p, rel=1e-6)
