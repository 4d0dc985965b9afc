"""What samples look like: effective size, outliers and modes against the theory and planted samples."""

import numpy as np
import pytest

from kernel_velocity.stats.sample_shape import Outliers, effective_sample_size, modality, outliers
from tests.harness.test_statistics import ar1


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6, 0.9])
def test_effective_sample_size_is_the_theorys(phi):
    n = 4000
    result = np.median([effective_sample_size(ar1(seed, n, phi)) for seed in range(20)])
    assert result == pytest.approx(n * (1 - phi) / (1 + phi), rel=0.15)


def test_effective_sample_size_at_its_ends():
    assert effective_sample_size(ar1(1, 2000, -0.6)) == 2000
    assert effective_sample_size(np.arange(15.0)) is None
    assert effective_sample_size([0.1] * 100) is None


def test_outliers_are_tukeys():
    quartiles = [10.0, 11.0, 12.0, 13.0, 14.0]  # 11 and 13: the fences are 8 and 16
    assert outliers([*quartiles * 20, 8.0, 16.0]).count == 0
    assert outliers([*quartiles * 20, 7.9, 16.1, 1e6]).count == 3
    assert outliers([1.0] * 60 + [2.0]) == Outliers(1, pytest.approx(60 / 61))  # d (1 - 1/n) squared, of d^2 (1 - 1/n)
    assert outliers([1.0] * 60) == Outliers(0, 0.0)
    assert outliers([1.0, 2.0, 3.0]) is None


def test_modality_counts_modes():
    spikes = [np.random.default_rng(k).normal(10 * k, 0.5, 1000) for k in range(4)]
    for modes in (1, 2, 3, 4):
        assert modality(np.concatenate(spikes[:modes])) == pytest.approx(2 * modes, abs=0.5)


@pytest.mark.parametrize("ticks", [3, 10, 30])
def test_ticks_of_a_clock_are_no_modes(ticks):
    for seed in range(20):
        samples = np.round(np.random.default_rng(seed).normal(100, ticks / 2, 1000))
        assert modality(1e-6 * samples) == modality(samples) < 2.8


def test_modality_ignores_outliers():
    samples = np.random.default_rng(4).normal(10, 1, 500)
    assert modality(np.concatenate([samples, [1e6, -1e6]])) < 2.8


def test_modality_of_little_or_equal_data():
    assert modality(np.arange(15.0)) is None
    assert modality([0.1] * 64) == 2.0
    assert modality([1.0] * 60 + [2.0] * 4) == 2.0  # all that is not an outlier is one value
    with pytest.raises(ValueError, match="modality: sample 0 of 1 is nan"):
        modality([float("nan")])
