"""The scales and tests under the detectors, against scipy and against hand-made figures."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kernel_velocity.stats.changepoints import noise
from kernel_velocity.stats.changepoints.values import LEAST_SIGMA

VALUES = st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=40)


@given(values=VALUES, half=st.integers(0, 6))
def test_the_running_median_is_the_median_of_the_window(values, half):
    expected = [np.median(values[max(place - half, 0) : place + half + 1]) for place in range(len(values))]
    assert noise.running_median(np.array(values), half) == pytest.approx(expected)


def test_scales_of_normal_noise():
    values = 0.02 * np.random.default_rng(0).standard_normal(4000)
    assert noise.iqr_sigma(values) == pytest.approx(0.02, rel=0.05)
    assert noise.difference_sigma(values) == pytest.approx(0.02, rel=0.05)
    values[2000:] += 1
    assert noise.difference_sigma(values) == pytest.approx(0.02, rel=0.05)
    assert noise.iqr_sigma(values) > 0.5


def test_spikes_are_clipped_and_steps_are_not():
    values = np.array([0.0] * 10 + [1.0] + [0.0] * 10 + [1.0] * 10)
    clipped = noise.clipped(values, 0.1)
    assert clipped[10] == pytest.approx(0.3)
    assert np.delete(clipped, 10) == pytest.approx(np.delete(values, 10))


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6])
def test_the_correlation_of_short_stretches_is_not_too_small_in_the_mean(phi):
    rng = np.random.default_rng(1)
    found = []
    for _ in range(300):
        values = rng.standard_normal(40)
        for place in range(1, 40):
            values[place] += phi * values[place - 1]
        rest = values - values.mean()
        found.append(noise.correlation(float(rest[1:] @ rest[:-1]), float(rest @ rest), 40))
    assert phi - 0.04 < np.mean(found) < phi + 0.1  # never below 0, so that white noise comes out a little above


def test_the_correlation_has_bounds():
    assert noise.correlation(-1.0, 1.0, 20) == 0.0
    assert noise.correlation(1.0, 1.0, 20) == noise.MOST_CORRELATED
    assert noise.correlation(1e-33, 1e-33, 20) == 0.0  # rounding


def test_the_least_scatter_is_that_of_the_tick():
    assert noise.least_sigma(np.array([0.1, 0.1]), np.array([0.1])) == LEAST_SIGMA
    assert noise.least_sigma(np.array([0.0, 0.5]), np.array([0.3])) == pytest.approx(0.2 / math.sqrt(12))
    assert noise.least_sigma(np.array([0.0, 1e-12, 0.3])) == pytest.approx(0.3 / math.sqrt(12))


@settings(max_examples=30)
@given(seed=st.integers(0, 1000), n=st.integers(12, 40), m=st.integers(12, 40))
def test_long_stretches_are_compared_as_scipy_does(seed, n, m):
    rng = np.random.default_rng(seed)
    first, second = rng.standard_normal(n), 2 * rng.standard_normal(m) + 0.5
    found = noise.t_test(noise.plain(first, 0.001), noise.plain(second, 0.001))
    expected = stats.ttest_ind(second, first, equal_var=False)
    assert found.p == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.95)
    assert np.log(found.interval) == pytest.approx((interval.low, interval.high))


def test_short_stretches_share_their_variance_as_scipy_does():
    first, second = np.array([0.1, 0.3, 0.2]), np.random.default_rng(0).standard_normal(30)
    found = noise.t_test(noise.plain(first, 0.001), noise.plain(second, 0.001), pooled=True)
    assert found.p == pytest.approx(stats.ttest_ind(second, first, equal_var=True).pvalue)


@pytest.mark.parametrize("seed", range(5))
def test_yuen_is_scipys_trimmed_t_where_nothing_is_correlated(seed):
    rng = np.random.default_rng(seed)
    first, second = np.sort(rng.standard_t(3, 25)), rng.standard_t(3, 30) + 0.4
    alternating = np.argsort(np.tile([0, 1], 13)[:25], kind="stable")  # low and high in turn: no positive correlation
    first[alternating] = first.copy()
    second = second[np.argsort(np.argsort(second) % 2, kind="stable")]
    found = noise.yuen(first, second)
    expected = stats.ttest_ind(second, first, equal_var=False, trim=noise.TRIM)
    assert found.p >= expected.pvalue * (1 - 1e-9)
    if found.error == pytest.approx(abs((found.after - found.before) / expected.statistic)):
        assert found.p == pytest.approx(expected.pvalue)


def test_correlated_stretches_are_less_certain():
    wave = np.repeat([0.0, 1.0], 6)
    first, second = np.tile(wave, 3), np.tile(wave, 3) + 0.8
    rng = np.random.default_rng(0)
    assert noise.yuen(first, second).p > 0.05 > noise.yuen(rng.permutation(first), rng.permutation(second)).p


def test_restlessness_is_blind_to_levels_that_lasted_and_sees_what_passes():
    rng = np.random.default_rng(0)
    small = 0.01 * rng.standard_normal(60)
    assert noise.restlessness(np.repeat([0.0, 1.0], 30) + small) == pytest.approx(0.01, rel=0.3)
    assert noise.restlessness(0.1 * (np.arange(60) // 3 % 2) + small) > 0.03
    assert noise.restlessness(small[:11]) is None
    assert noise.restlessness(np.zeros(12)) == LEAST_SIGMA
