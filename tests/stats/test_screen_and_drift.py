"""The screen and the check for slow drift: what they find, and what they ignore."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.stats.changepoints.drift import FEWEST, WINDOW, drift
from kernel_velocity.stats.changepoints.screen import Screening, screen
from tests.stepped_series import with_holes

SEEDS = st.integers(0, 10_000)


def noise(size=60, seed=0, sigma=0.01):
    return (sigma * np.random.default_rng(seed).standard_normal(size)).tolist()


@pytest.mark.parametrize("moved", [0.05, -0.05])
def test_screen_finds_one_point_far_off(moved):
    found = screen([*noise(), moved])
    assert found.alarm and found.rises == (moved > 0)
    assert found.z1 == pytest.approx((moved - found.level) / found.sigma)


def test_screen_finds_three_points_that_are_off_together():
    calm = screen([*noise(), 0.0, 0.0, 0.0])
    moved = calm.level + 2.8 * calm.sigma
    assert not screen([*noise(), calm.level, calm.level, moved]).alarm
    found = screen([*noise(), moved, moved, moved])
    assert found.alarm and found.rises
    assert (found.z1, found.z3) == pytest.approx((2.8, 2.8))


def test_median_of_three_decides_the_direction_if_the_last_point_is_calm():
    found = screen([*noise(), 0.05, 0.05, -0.001])
    assert found.alarm and found.rises and found.z1 < 0


def test_screen_is_silent_in_noise_and_between_two_modes():
    assert sum(screen(noise(50, seed)).alarm for seed in range(60)) <= 4
    assert screen(noise(50, 0)).rises is None
    assert not screen([0.0, 0.02] * 25).alarm and not screen([0.0, 0.02] * 24 + [0.0]).alarm


def test_constant_series_has_the_least_sigma():
    assert screen([0.0] * 50 + [0.0031]).alarm
    assert not screen([0.0] * 50 + [0.0029]).alarm


@pytest.mark.parametrize("values", [[], [0.0] * 50 + [None], [0.0] * 50 + [math.nan], noise(12)])
def test_screen_needs_a_last_point_and_ten_before_the_newest(values):
    assert screen(values) == Screening() and not screen(values).alarm
    assert screen(noise(13)).z1 is not None


def test_screen_refuses_infinite_values_and_names_the_index():
    with pytest.raises(ValueError, match="value 70 is infinite"):
        screen([*noise(70), math.inf, 0.0])


@settings(max_examples=20)
@given(seed=SEEDS, holes=st.lists(st.integers(0, 59), max_size=8), older=st.integers(0, 50))
def test_screen_skips_missing_points_and_reads_the_last_43_only(seed, holes, older):
    values = noise(60, seed)
    assert screen([9.0] * older + with_holes(values, holes)) == screen(values)


@settings(max_examples=20)
@given(seed=SEEDS, shift=st.integers(-500, 500))
def test_unit_and_direction_make_no_difference_to_the_screen(seed, shift):
    values = np.array(noise(60, seed, 0.02))
    found, moved, turned = (screen(each.tolist()) for each in (values, values + shift / 64, -values))
    assert moved.z1 == pytest.approx(found.z1)
    assert (turned.z1, turned.z3) == pytest.approx((-found.z1, -found.z3))


def creeping(size=80, total=0.05, seed=0, sigma=0.01):
    """Return a series that rises by `total` (log units) in WINDOW points."""
    return (np.array(noise(size, seed, sigma)) + total / WINDOW * np.arange(size)).tolist()


@pytest.mark.parametrize("total", [0.05, -0.05])
def test_creeping_level_is_a_drift(total):
    found = drift(creeping(total=total))
    assert found.found
    assert (found.first, found.last) == (20, 79)
    assert math.log(found.ratio) == pytest.approx(total * (WINDOW - 1) / WINDOW, abs=0.01)
    assert found.p < 1e-4


@pytest.mark.parametrize(("place", "step", "seed"), [(30, 0.02, 0), (40, 0.05, 0), (60, 0.05, 0), (50, 0.02, 1)])
def test_step_is_no_drift(place, step, seed):
    values = np.array(noise(80, seed))
    values[place:] += step
    found = drift(values.tolist())
    assert found.stepwise and not found.found
    assert found.p < 1e-4 or place != 50  # only the better step speaks against this one


def test_noise_is_no_drift():
    assert not any(drift(noise(60, seed)).found for seed in range(40))
    for seed in range(20):
        values = np.array(noise(60, seed))
        for place in range(1, 60):
            values[place] += 0.6 * values[place - 1]
        assert not drift(values.tolist()).found


def test_drift_of_less_than_one_percent_is_not_reported():
    found = drift(creeping(60, 0.008, sigma=0.0005))
    assert found.p < 1e-4 and not found.found


def test_drift_needs_twenty_points():
    found = drift(creeping(size=FEWEST - 1))
    assert (found.found, found.p, found.first, found.last) == (False, None, 0, 18)
    assert drift([None] * 5).first is None
    assert drift(creeping(size=FEWEST)).p is not None


def test_drift_skips_missing_points_and_keeps_their_time():
    values = with_holes(np.append(np.zeros(20), 0.001 * np.arange(60)), [5, 30, 30, 31])
    found = drift(values)
    assert (found.first, found.last) == (21, 83)
    line = [0.001 * index if 20 < index < 50 or index > 60 else None for index in range(80)]
    assert drift(line).ratio == pytest.approx(math.exp(0.001 * 58))


def test_correlated_residuals_make_a_drift_less_certain():
    rng = np.random.default_rng(0)
    rest = 0.01 * np.repeat(rng.standard_normal(10), 6)
    line = 0.0005 * np.arange(60)
    assert drift((line + rest).tolist()).p > 10 * drift((line + rng.permutation(rest)).tolist()).p


@settings(max_examples=20)
@given(seed=SEEDS)
def test_backwards_a_drift_is_the_inverse(seed):
    values = creeping(size=60, seed=seed)
    there, back = drift(values), drift(values[::-1])
    assert back.ratio == pytest.approx(1 / there.ratio)
    assert back.p == pytest.approx(there.p, rel=1e-6)
