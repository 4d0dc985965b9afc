"""Steps of short histories and of newest values: silent without one, found at the right place with one."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.stats.changepoints import search
from kernel_velocity.stats.changepoints.search import Level, Noise, detect_many

SIGMA = 0.005
POOL = Noise(sigma=SIGMA, tails=search.NORMAL)
STEADY = 41  # values, the newest of which may be new


def normal(rng, size):
    return rng.normal(0, SIGMA, size)


def heavy(rng, size):
    return SIGMA * rng.standard_t(3, size)


def spiky(rng, size):
    return normal(rng, size) + 10 * SIGMA * (rng.random(size) < 0.02)


def steps(logs, pool, rounds):
    (points,) = search.steps([Level(logs, pool, rounds)])
    return points


def smallest(logs, pool=POOL):
    return min((point.p for point in steps(logs, pool, float("nan"))), default=1.0)


@pytest.mark.parametrize("size", [2, 4, 8, STEADY])
@pytest.mark.parametrize(("family", "false"), [(normal, 0), (heavy, 2), (spiky, 3)])
def test_noise_alone_is_no_step(family, false, size):
    """Of 1000 series. Tails heavier than a normal distribution's leave a few, whatever the p."""
    rng = np.random.default_rng(0)
    pool = search.pool([family(rng, STEADY) for _ in range(40)])
    ps = np.array([smallest(family(rng, size), pool) for _ in range(1000)])
    assert (ps < 0.01).mean() <= 0.02
    assert (ps < 1e-4).sum() <= false


@pytest.mark.parametrize(("effect", "newest"), [(0.05, 1), (-0.05, 1), (0.03, 2), (-0.03, 2)])
def test_step_of_the_newest_values_is_found(effect, newest):
    rng, ps = np.random.default_rng(1), []
    for _ in range(50):
        logs = normal(rng, STEADY)
        logs[-newest:] += effect
        (point,) = steps(logs, POOL, SIGMA / 3)
        ps.append(point.p)
        assert point.index == STEADY - newest
        assert point.after - point.before == pytest.approx(effect, abs=5 * SIGMA)
        assert point.low < point.ratio < point.high
    assert np.quantile(ps, 0.9) < 1e-3


def test_steps_are_found_at_any_age():
    """A change of 15 values, and four after its end, which the detector takes for the same level."""
    logs = normal(np.random.default_rng(4), 48)
    logs[29:44] -= 0.034
    (detected,) = detect_many([logs], [None])
    assert 44 not in [point.index for point in detected.points] and {29, 44} <= {*detected.cuts}
    steps = search.older_steps(Level(logs, POOL, math.nan), detected.cuts, [])
    assert [step.by_now.index for step in steps] == [29, 44]
    assert all(max(step.by_now.p, step.first.p) < 1e-3 for step in steps)
    assert [step.by_now.index for step in search.older_steps(Level(logs, POOL, math.nan), detected.cuts, [29])] == [44]
    noise = [normal(np.random.default_rng(seed), 100) for seed in range(50)]
    by_chance = [
        search.older_steps(Level(logs, POOL, math.nan), several.cuts, [])
        for logs, several in zip(noise, detect_many(noise, [None] * len(noise)), strict=True)
    ]
    assert sum(map(len, by_chance)) <= 1


@pytest.mark.parametrize("seed", range(3))
def test_slope_is_no_step(seed):
    logs = normal(np.random.default_rng(seed), 60)
    level = np.linspace(-0.02, 0.02, 60)
    slope, step = (
        [step.by_now.p < search.POSSIBLE for step in search.older_steps(Level(values, POOL, math.nan), [30], [])]
        for values in (logs + level, logs + 0.02 * np.sign(level))
    )
    assert (slope, step) == ([], [True])


def test_outlier_is_no_step():
    logs = normal(np.random.default_rng(2), STEADY)
    logs[-1] += 0.05
    assert smallest(logs) < 1e-3
    logs[20] += 0.06  # the series has such values now and then
    assert smallest(logs) > 0.01
    right = normal(np.random.default_rng(2), STEADY)
    right[-2:] += 0.1, 0.02  # an outlier, and the newest is almost as before
    assert smallest(right) == 1.0


def test_tails_of_the_machine_make_a_single_value_less_sure():
    logs = normal(np.random.default_rng(3), STEADY)
    logs[-1] += 0.03
    assert smallest(logs, Noise(SIGMA, search.UNKNOWN_TAILS)) > 10 * smallest(logs, POOL)
    assert smallest(logs, None) > smallest(logs, POOL)  # where nothing tells them


def test_short_history_is_judged_by_the_scatter_of_others():
    logs = np.array([0.0, 0.001, 0.05])
    assert smallest(logs) < 1e-3 < smallest(logs, Noise(0.05, search.NORMAL))
    assert steps(logs, None, float("nan")) == []


def test_rounds_of_a_value_bound_the_scatter_from_below():
    logs = np.array([0.0, 0.0, 0.05])
    ps = [steps(logs, POOL, error)[0].p for error in (float("nan"), SIGMA / 2, 0.05)]
    assert ps[0] == ps[1] < 1e-3 < ps[2]


@pytest.mark.parametrize("levels", [(0.0, 0.0, 0.0, 0.3), (0.0, 0.3, 0.3, 0.3), (0.0, 0.0, 0.3, 0.3)])
def test_step_in_a_history_of_four_is_at_its_place(levels):
    (point,) = steps(np.array(levels) + normal(np.random.default_rng(4), 4), POOL, SIGMA)
    assert (point.index, point.p < 1e-3) == (levels.index(0.3), True)


@pytest.mark.parametrize(
    ("begins", "ends", "expected"), [(True, True, [3, 38]), (True, False, [3]), (False, True, [38])]
)
def test_steps_only_near_the_ends_that_are_searched(begins, ends, expected):
    logs = normal(np.random.default_rng(6), STEADY)
    logs[:3] += 0.3
    logs[-3:] += 0.2
    (points,) = search.steps([search.Level(logs, POOL, SIGMA, begins=begins, ends=ends)])
    assert [point.index for point in points if point.p < 1e-3] == expected


def test_correlated_noise_makes_a_mean_less_sure():
    steady, drifting = (search.Noise(sigma=SIGMA, freedom=20, phi=phi) for phi in (0.0, 0.8))
    assert drifting.error((40, 4)) > 1.5 * steady.error((40, 4))
    assert drifting.error((1, 1)) == steady.error((1, 1))
    assert drifting.least(40, 1e-3, 4)[-1] > steady.least(40, 1e-3, 4)[-1] > steady.least(40, 1e-2, 4)[-1]


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(3, 50), st.floats(-20, 20), st.floats(0.02, 0.5))
def test_unit_and_direction_of_the_values_make_no_difference(seed, size, shift, effect):
    logs = normal(np.random.default_rng(seed), size)
    logs[-2:] += effect
    there, elsewhere, mirrored = (steps(values, POOL, SIGMA) for values in (logs, logs + shift, -logs))
    for other, sign in ((elsewhere, 1), (mirrored, -1)):
        assert [point.index for point in other] == [point.index for point in there]
        for left, right in zip(there, other, strict=True):
            assert right.p == pytest.approx(left.p, rel=1e-4, abs=1e-300)
            assert right.after - right.before == pytest.approx(sign * (left.after - left.before), abs=1e-9)


@pytest.mark.parametrize("pattern", ["AABBA", "AABBCC", "ABCD", "ABBB", "AAB"])
def test_steps_of_a_young_history_do_not_hide_each_other(pattern):
    rng = np.random.default_rng(5)
    levels = {"A": 0.0, "B": -0.9, "C": -0.5, "D": 0.3}
    logs = np.array([levels[name] for name in pattern]) + 0.002 * rng.standard_normal(len(pattern))
    points = steps(logs, Noise(sigma=0.002, tails=search.NORMAL), math.nan)
    indices = [point.index for point in points if point.p < 1e-6]
    assert indices == [index for index in range(1, len(pattern)) if pattern[index] != pattern[index - 1]]


@pytest.mark.parametrize("size", [1, 5])
def test_least_step_that_a_test_is_said_to_see_is_seen(size):
    """Also where the level has outliers."""
    rng, p, is_seen = np.random.default_rng(7), 1e-5, []
    for number in range(100):
        logs = normal(rng, STEADY + size)
        logs[5] += 0.04 * (number % 2)
        (scatter,) = search.noises([Level(logs[:STEADY], POOL, math.nan)])
        logs[STEADY:] += scatter.least(search.LONGER, p, size)[-1]
        is_seen.append(smallest(logs) <= p * search.MOST_TRIED)
    assert np.mean(is_seen) >= 0.97


def test_new_step_needs_less_evidence_than_the_same_of_long_ago():
    logs = normal(np.random.default_rng(8), STEADY)
    logs[-2:] += 0.03
    assert smallest(logs[::-1]) == pytest.approx((search.SHORTER + 1) / 3 * smallest(logs))
