"""Synthetic noise: paths that settle where the stationary draws say, truths that are known, seeds that repeat."""

import math

import numpy as np
import pytest

from kernel_velocity.harness.statistics import autocorrelation, trimmed_mean
from kernel_velocity.lab import noise
from kernel_velocity.lab.noise import HELD_OUT, TUNING, repetition, single_families

STEP = 1e-3


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", noise.FAMILIES)
def test_a_path_settles_where_the_stationary_draws_are(name):
    family = noise.FAMILIES[name](rng(4))
    path = family.path(rng(1), 400_000, STEP)[100_000:]  # 300 s: hundreds of the slowest drift's memories
    drawn = family.stationary(rng(2), 400_000)
    assert path.shape == (300_000,)
    assert (path > 0).all()
    spread = max(drawn.std(), 1e-9)
    if name == "pareto":  # of a tail index below 2 no moment settles
        assert np.quantile(path, [0.1, 0.5, 0.9]) == pytest.approx(np.quantile(drawn, [0.1, 0.5, 0.9]), rel=1e-3)
    else:
        assert abs(path.mean() - drawn.mean()) < 0.15 * spread
        assert path.std() == pytest.approx(spread, rel=0.15, abs=1e-8)


def test_a_warm_up_is_over_in_the_end():
    family = noise.WarmUp(height=0.2, constant=0.05)
    path = family.path(rng(), 1000, STEP)
    assert path[0] == 1.2
    assert path[50] == pytest.approx(1 + 0.2 / math.e)
    assert path[-1] == pytest.approx(1, abs=1e-6)
    assert (family.stationary(rng(), 5) == 1).all()


@pytest.mark.parametrize("phi", [0.5, 0.98, math.exp(-STEP / 0.5)])
def test_an_autoregression_has_its_correlation_from_the_first_sample_on(phi):
    path = np.log(noise.Autoregressive(0.01, phi).path(rng(3), 400_000, STEP))
    assert autocorrelation(path) == pytest.approx(phi, abs=0.01)
    firsts = [np.log(noise.Autoregressive(0.01, phi).path(rng(seed), 3, STEP))[0] for seed in range(2000)]
    assert np.std(firsts) == pytest.approx(0.01, rel=0.06)


def test_drift_forgets_after_its_constant_whatever_the_step():
    for step in (1e-3, 1e-2):
        path = np.log(noise.Drift(0.01, 0.2).path(rng(5), 400_000, step))
        assert autocorrelation(path, round(0.2 / step)) == pytest.approx(1 / math.e, abs=0.05)


def test_a_sticky_kernel_stays_for_its_time_and_its_share():
    family = noise.Sticky(gap=0.05, slow=0.3, dwell=0.1)
    slow = family.path(rng(6), 1_000_000, STEP) > 1.01
    assert slow.mean() == pytest.approx(0.3, abs=0.01)
    changes = np.count_nonzero(slow[1:] != slow[:-1])
    assert 1000 / (changes / 2) == pytest.approx(0.1, rel=0.05)  # s of a cycle; the steps hide a few short ones


def test_a_state_is_there_from_the_first_sample_on_with_its_share():
    family = noise.Sticky(gap=0.05, slow=0.3, dwell=0.1)
    firsts = [family.path(rng(seed), 1, STEP)[0] > 1.01 for seed in range(3000)]
    assert np.mean(firsts) == pytest.approx(0.3, abs=0.03)


def test_bursts_have_their_length_and_rate():
    family = noise.Bursts(height=0.5, length=0.02, rate=2.0)
    assert family.share == pytest.approx(0.04 / 1.04)
    busy = family.path(rng(7), 1_000_000, STEP) > 1.1
    assert busy.mean() == pytest.approx(family.share, rel=0.06)


def test_a_periodic_kernel_repeats_after_its_period():
    path = noise.Periodic(height=0.02, period=0.05).path(rng(8), 200, STEP)
    assert path[50:] == pytest.approx(path[:-50])
    assert np.ptp(path) == pytest.approx(0.04, rel=0.01)
    again = noise.Periodic(height=0.02, period=0.05).path(rng(9), 200, STEP)
    assert abs(again[0] - path[0]) > 1e-4  # another process starts elsewhere


def test_ticks_round_and_never_to_nothing():
    ticks = noise.Ticks(0.1)
    assert ticks.round(np.array([0.96, 1.04, 1.06, 0.01])) == pytest.approx([1.0, 1.0, 1.1, 0.1])


def test_mixtures_repeat_and_more_of_them_begin_with_the_same():
    few, many = list(noise.mixtures(TUNING, 3, 4)), list(noise.mixtures(TUNING, 3, 6))
    assert few == many[:4]
    assert len({mixture.truth for mixture in many}) == 6


def test_tuning_and_held_out_sets_share_nothing():
    tuning, held_out = (list(noise.mixtures(namespace, 0, 30)) for namespace in (TUNING, HELD_OUT))
    assert not {mixture.base for mixture in tuning} & {mixture.base for mixture in held_out}
    name = tuning[0].name
    assert repetition(TUNING, 0, name, 0).random() != repetition(HELD_OUT, 0, name, 0).random()
    assert repetition(TUNING, 0, name, 0).random() != repetition(TUNING, 0, name, 1).random()
    assert repetition(TUNING, 0, name, 0).random() == repetition(TUNING, 0, name, 0).random()


def test_a_mixture_is_what_it_says():
    found = list(noise.mixtures(TUNING, 0, 60))
    kinds = [{type(family).__name__ for family in mixture.families} for mixture in found]
    assert all("Iid" in each and 2 <= len(each) <= 5 for each in kinds)
    assert set().union(*kinds) == {type(draw(rng())).__name__ for draw in noise.FAMILIES.values()}
    assert 0 < sum(mixture.ticks is not None for mixture in found) < 30
    assert all(noise.FASTEST <= mixture.base <= noise.SLOWEST for mixture in found)


@pytest.mark.parametrize("number", range(8))
def test_a_long_trace_s_location_is_the_truth(number):
    mixture = list(noise.mixtures(TUNING, 1, number + 1))[number]
    trace = mixture.trace(repetition(TUNING, 1, mixture.name, 0), seconds=400_000 * mixture.base)
    assert trimmed_mean(trace[100_000:]) == pytest.approx(mixture.truth, rel=0.005)
    assert len(trace) in (400_000, 400_001)


def test_every_family_is_looked_at_alone():
    found = {mixture.name: mixture for mixture in single_families(HELD_OUT, 0)}
    assert list(found) == [*noise.FAMILIES, noise.TICKS]
    assert found["ticks"].ticks is not None
    assert all(mixture.ticks is None for name, mixture in found.items() if name != "ticks")
    assert {len(mixture.families) for name, mixture in found.items() if name not in ("iid", "ticks")} == {2}
