"""The check for slow drift: what it finds, and what it ignores."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.stats.changepoints.drift import FEWEST, WINDOW, drift
from tests.stepped_series import with_holes

SEEDS = st.integers(0, 10_000)


def noise(size=60, seed=0, sigma=0.01):
    return (sigma * np.random.default_rng(seed).standard_normal(size)).tolist()


def creeping(size=80, total=0.05, seed=0, sigma=0.01):
    """Return a series that rises by `total` (log units) in WINDOW points."""
    return (np.array(noise(size, seed, sigma)) + total / WINDOW * np.arange(size)).tolist()


@pytest.mark.parametrize("total", [0.05, -0.05])
def test_creeping_level_is_a_drift(total):
    result = drift(creeping(total=total))
    assert result.is_drift
    assert (result.first, result.last) == (20, 79)
    assert math.log(result.ratio) == pytest.approx(total * (WINDOW - 1) / WINDOW, abs=0.01)
    assert result.p < 1e-4


@pytest.mark.parametrize(("index", "step", "seed"), [(30, 0.02, 0), (40, 0.05, 0), (60, 0.05, 0), (50, 0.02, 1)])
def test_step_is_no_drift(index, step, seed):
    values = np.array(noise(80, seed))
    values[index:] += step
    result = drift(values.tolist())
    assert result.stepwise and not result.is_drift
    assert result.p < 1e-4 or index != 50  # only the better step speaks against this one


def test_noise_is_no_drift():
    assert not any(drift(noise(60, seed)).is_drift for seed in range(40))
    for seed in range(20):
        values = np.array(noise(60, seed))
        for index in range(1, 60):
            values[index] += 0.6 * values[index - 1]
        assert not drift(values.tolist()).is_drift


def test_drift_of_less_than_one_percent_is_not_reported():
    result = drift(creeping(60, 0.008, sigma=0.0005))
    assert result.p < 1e-4 and not result.is_drift


def test_drift_needs_twenty_points():
    result = drift(creeping(size=FEWEST - 1))
    assert (result.is_drift, result.p, result.first, result.last) == (False, None, 0, 18)
    assert drift([None] * 5).first is None
    assert drift(creeping(size=FEWEST)).p is not None


def test_drift_skips_missing_points_and_keeps_their_time():
    values = with_holes(np.append(np.zeros(20), 0.001 * np.arange(60)), [5, 30, 30, 31])
    result = drift(values)
    assert (result.first, result.last) == (21, 83)
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
