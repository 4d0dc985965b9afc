"""Statistics against scipy, and their invariances."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.harness import statistics

TIMES = st.lists(st.floats(1e-7, 1e2), min_size=3, max_size=200)


@given(TIMES, st.sampled_from([0.0, 0.05, 0.1, 0.25]))
def test_trimmed_mean_is_scipys(samples, proportion):
    assert statistics.trimmed_mean(samples, proportion) == pytest.approx(scipy.stats.trim_mean(samples, proportion))


@given(TIMES, st.randoms())
def test_trimmed_mean_ignores_order_and_scales(samples, random):
    shuffled = random.sample(samples, len(samples))
    assert statistics.trimmed_mean(shuffled) == pytest.approx(statistics.trimmed_mean(samples))
    assert statistics.trimmed_mean([3 * x for x in samples]) == pytest.approx(3 * statistics.trimmed_mean(samples))


@pytest.mark.parametrize(("samples", "proportion"), [([], 0.1), ([1.0], 0.5), ([1.0], -0.1)])
def test_trimmed_mean_refuses(samples, proportion):
    with pytest.raises(ValueError, match=r"no samples|wanted \[0, \.5\)"):
        statistics.trimmed_mean(samples, proportion)


@given(TIMES)
def test_cv_is_scipys(samples):
    assert statistics.cv(samples) == pytest.approx(scipy.stats.variation(samples, ddof=1))


def test_too_little_data_is_unknown():
    assert statistics.cv([1.0]) is None
    assert statistics.autocorrelation([1.0, 2.0]) is None
    assert statistics.autocorrelation([2.0] * 50) is None
    assert statistics.half_width([1.0] * 15) is None


def test_autocorrelation_sees_alternation_and_trend():
    assert statistics.autocorrelation([1.0, 2.0] * 50) == pytest.approx(-1, abs=0.02)
    assert statistics.autocorrelation(np.linspace(1, 2, 100)) == pytest.approx(1, abs=0.05)


def _ar1(rng, n, phi):
    noise = rng.normal(size=n)
    for i in range(1, n):
        noise[i] += phi * noise[i - 1]
    return noise


@pytest.mark.parametrize("degrees", [1, 2, 7, 30, 31, 60, 1000])
def test_t_quantile_is_scipys(degrees):
    assert statistics.t_975(degrees) == pytest.approx(scipy.stats.t.ppf(0.975, degrees), abs=6e-4)
    with pytest.raises(ValueError, match="at least 1"):
        statistics.t_975(0)


@pytest.mark.parametrize(("phi", "at_least"), [(0.0, 0.93), (0.6, 0.80)])
def test_half_width_covers_the_truth(phi, at_least):
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(300):
        samples = 100 + _ar1(rng, 400, phi)
        hits += abs(statistics.trimmed_mean(samples) / 100 - 1) <= statistics.half_width(samples)
    assert hits / 300 >= at_least
    assert hits / 300 < 1  # an interval that is always right is too wide


def test_half_width_scales_away():
    samples = np.random.default_rng(3).normal(10, 1, 100)
    assert statistics.half_width(samples * 1e-6) == pytest.approx(statistics.half_width(samples))
