"""The scales and tests under the detectors, against scipy and against hand-made figures."""

import math

import numpy as np
import pytest
from scipy import stats

from kernel_velocity.stats.changepoints import noise
from kernel_velocity.stats.changepoints.values import MIN_SIGMA, Step


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6])
def test_correlation_of_short_stretches_is_unbiased(phi):
    rng = np.random.default_rng(1)
    result = []
    for _ in range(300):
        values = rng.standard_normal(40)
        for index in range(1, 40):
            values[index] += phi * values[index - 1]
        rest = values - values.mean()
        result.append(noise.correlation(float(rest[1:] @ rest[:-1]), float(rest @ rest), 40))
    assert phi - 0.04 < np.mean(result) < phi + 0.1  # never below 0, so that white noise comes out a little above


def test_least_sigma_is_that_of_the_tick():
    assert noise.least_sigma(np.array([0.1, 0.1, 0.1])) == MIN_SIGMA
    assert noise.least_sigma(np.array([0.0, 0.5, 0.3])) == pytest.approx(0.2 / math.sqrt(12))
    assert noise.least_sigma(np.array([0.0, 1e-12, 0.3])) == pytest.approx(0.3 / math.sqrt(12))


@pytest.mark.parametrize("seed", range(5))
def test_yuen_is_scipys_trimmed_t_where_nothing_is_correlated(seed):
    rng = np.random.default_rng(seed)
    # Low and high in turn: the correlation is negative, which counts as none
    first, second = (
        np.ravel(np.column_stack([np.sort(half), np.sort(-half)[::-1] + 1e-6]))
        for half in (rng.standard_t(3, 12), rng.standard_t(3, 15) + 0.4)
    )
    expected = stats.ttest_ind(second, first, equal_var=True, trim=noise.TRIM)
    assert noise.yuen(first, second).p == pytest.approx(expected.pvalue)


def test_correlated_stretches_are_less_certain():
    wave = np.tile(np.repeat([0.0, 1.0], 6), 3)
    rng = np.random.default_rng(0)
    assert noise.yuen(wave, wave + 0.8).p > 0.05 > noise.yuen(rng.permutation(wave), rng.permutation(wave + 0.8)).p


def test_interval_is_that_of_students_t():
    point = Step.of(means=(0.0, 0.5), error=0.1, freedom=7, sizes=(20, 20)).point(3)
    assert (math.log(point.low), math.log(point.high)) == pytest.approx(stats.t.interval(0.95, 7, 0.5, 0.1))
    assert point.p == pytest.approx(2 * stats.t.sf(5, 7))
    assert point.high < Step.of(means=(0, 1), error=1e3, freedom=1, sizes=(2, 2)).point(0).high < math.inf
