"""Synthetic noise: paths that settle where the stationary draws do, known truths, seeds that repeat."""

import math

import numpy as np
import pytest

from kernel_velocity.harness.statistics import autocorrelation, trimmed_mean
from kernel_velocity.lab import noise
from kernel_velocity.lab.noise import HELD_OUT, TUNING, Jitter, TwoSpeeds, repetition

STEP = 1e-3


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", noise.FAMILIES)
def test_path_settles_where_the_stationary_draws_are(name):
    family = noise.FAMILIES[name](rng(4))
    path = family.path(rng(1), 400_000, STEP)[100_000:]  # 300 s: hundreds of the slowest drift's memories
    drawn = family.stationary(rng(2), 400_000)
    assert path.shape == (300_000,) and (path > 0).all()
    spread = max(drawn.std(), 1e-9)
    if name == "pareto":  # with a tail index below 2 no moment settles
        assert np.quantile(path, [0.1, 0.5, 0.9]) == pytest.approx(np.quantile(drawn, [0.1, 0.5, 0.9]), rel=1e-3)
    else:
        assert abs(path.mean() - drawn.mean()) < 0.15 * spread
        assert path.std() == pytest.approx(spread, rel=0.15, abs=1e-8)


def test_warm_up_decays_to_nothing():
    path = noise.WarmUp(height=0.2, constant=0.05).path(rng(), 1000, STEP)
    assert path[[0, 50]] == pytest.approx([1.2, 1 + 0.2 / math.e])
    assert path[-1] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("phi", [0.5, 0.98])
def test_autoregression_is_correlated_from_the_first_sample(phi):
    path = np.log(Jitter(0.01, phi).path(rng(3), 400_000, STEP))
    assert autocorrelation(path) == pytest.approx(phi, abs=0.01)
    firsts = [np.log(Jitter(0.01, phi).path(rng(seed), 3, STEP))[0] for seed in range(2000)]
    assert np.std(firsts) == pytest.approx(0.01, rel=0.06)


@pytest.mark.parametrize("step", [1e-3, 1e-2])
def test_drift_forgets_after_its_memory_whatever_the_step(step):
    path = np.log(Jitter(0.01, memory=0.2).path(rng(5), 400_000, step))
    assert autocorrelation(path, round(0.2 / step)) == pytest.approx(1 / math.e, abs=0.05)


def test_sticky_speeds_last_for_their_time_and_share():
    family = TwoSpeeds.sticky(gap=0.05, slow=0.3, cycle=0.1)
    slow = family.path(rng(6), 1_000_000, STEP) > 1.01
    assert slow.mean() == pytest.approx(0.3, abs=0.01)
    changes = np.count_nonzero(slow[1:] != slow[:-1])
    assert 1000 / (changes / 2) == pytest.approx(0.1, rel=0.05)  # s of a cycle; the steps hide a few short ones
    firsts = [family.path(rng(seed), 1, STEP)[0] > 1.01 for seed in range(3000)]
    assert np.mean(firsts) == pytest.approx(0.3, abs=0.03)


def test_bursts_have_their_length_and_rate():
    family = TwoSpeeds.bursts(height=0.5, length=0.02, rate=2.0)
    assert family.slow == pytest.approx(0.04 / 1.04)
    busy = family.path(rng(7), 1_000_000, STEP) > 1.1
    assert busy.mean() == pytest.approx(family.slow, rel=0.06)


def test_periodic_noise_has_another_phase_in_each_process():
    family = noise.Periodic(height=0.02, period=0.05)
    path = family.path(rng(8), 200, STEP)
    assert path[50:] == pytest.approx(path[:-50])
    assert np.ptp(path) == pytest.approx(0.04, rel=0.01)
    assert abs(family.path(rng(9), 200, STEP)[0] - path[0]) > 1e-4


def test_mixtures_are_seeded_and_larger_sets_begin_with_the_same():
    few, many = list(noise.mixtures(TUNING, 3, 4)), list(noise.mixtures(TUNING, 3, 6))
    assert few == many[:4]
    assert len({mixture.truth for mixture in many}) == 6
    held_out = list(noise.mixtures(HELD_OUT, 3, 6))
    assert not {mixture.base for mixture in many} & {mixture.base for mixture in held_out}
    draws = [repetition(*args).random() for args in ((TUNING, 0, "0", 0), (HELD_OUT, 0, "0", 0), (TUNING, 0, "0", 1))]
    assert len(set(draws)) == 3
    assert repetition(TUNING, 0, "0", 0).random() == draws[0]


@pytest.mark.parametrize("number", range(8))
def test_location_of_a_long_trace_is_the_truth(number):
    mixture = list(noise.mixtures(TUNING, 1, number + 1))[number]
    trace = mixture.trace(repetition(TUNING, 1, mixture.name, 0), seconds=400_000 * mixture.base)
    assert trimmed_mean(trace[100_000:]) == pytest.approx(mixture.truth, rel=0.005)
    assert len(trace) in (400_000, 400_001)
