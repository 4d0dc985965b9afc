"""Our rule: who gets how much time, what keeps it from stopping, and what it says when it stops."""

import math
from itertools import pairwise

import numpy as np
import pytest

from kernel_velocity.harness.statistics import long_blocks, trimmed_mean
from kernel_velocity.harness.stopping import Adaptive, Continue, Reason, Stop, without_burn_in
from kernel_velocity.harness.stopping.adaptive import BLOCKS, look


def run(rule, samples):
    """Feed a rule from an array; return its reason."""
    rule.start()
    while not isinstance(decision := rule.decide(), Stop):
        taken = len(rule.samples)
        portion = samples[taken : taken + decision.n]
        assert len(portion) == decision.n
        rule.add(portion, float(np.sum(portion)))
    return decision.reason


def noisy(sigma, mean=1e-3, seed=5, n=20_000):
    return mean * np.exp(sigma * np.random.default_rng(seed).standard_normal(n))


def staged(heights, n=600, sigma=0.001, mean=1e-3):
    """Samples in six long blocks behind a burn-in, of which each has its own height."""
    levels = np.repeat(heights, n // BLOCKS)
    values = mean * (1 + np.concatenate([np.full(n // 4, heights[0]), levels]))
    return values * np.exp(sigma * np.random.default_rng(3).standard_normal(values.size))


def asked(samples, spent, **parameters):
    rule = Adaptive(**parameters)
    rule.start()
    rule.add(samples, spent)
    return rule.decide()


def width_of(samples):
    return look(without_burn_in(samples))[0]


# the first block no higher than the others: it does not fall
STEADY = staged([0.0, 0.01, -0.01, 0.01, -0.01, 0.005])


def test_what_is_quiet_stops_as_soon_as_it_may():
    rule = Adaptive()
    assert run(rule, noisy(0.002)) is Reason.CONVERGED
    assert rule.t_min <= rule.spent < 1.02 * rule.t_min
    assert width_of(rule.samples) <= rule.eps


def test_noise_takes_longer():
    spent = []
    for sigma in (0.003, 0.1, 1.0):
        each = []
        for seed in range(5):
            rule = Adaptive()
            run(rule, noisy(sigma, seed=seed))
            each.append(rule.spent)
        spent.append(np.median(each))
    assert spent == sorted(spent)
    assert spent[-1] > 2.5 * spent[0]


def test_the_limit_is_flat_and_then_rises():
    width = width_of(STEADY)
    for spent, stops in ((0.21, True), (0.19, False)):  # within eps, but not before t_min
        assert isinstance(asked(STEADY, spent, eps=1.01 * width), Stop) is stops
    for spent in (0.21, 0.39, 0.4):
        assert isinstance(asked(STEADY, spent, eps=0.99 * width), Continue)
    for power in (1.0, 5.0):
        eps = width / 1.5**power
        assert isinstance(asked(STEADY, 0.4 * 1.49, eps=eps, power=power), Continue)
        assert asked(STEADY, 0.4 * 1.51, eps=eps, power=power) == Stop(Reason.NOISE_FLOOR)
    assert asked(STEADY, 0.9, eps=1.01 * width) == Stop(Reason.CONVERGED)


def test_what_still_falls_goes_on():
    falling = staged([0.05, 0.0, 0.01, 0.0, 0.01, 0.0])
    assert look(without_burn_in(falling))[1] > 2
    assert isinstance(asked(falling, 1.9, eps=1.0), Continue)
    assert asked(falling, 1.9, eps=1.0, fall=1e3) == Stop(Reason.CONVERGED)
    assert asked(falling, 2.0, eps=1.0) == Stop(Reason.BUDGET_DRIFT)


def test_only_a_first_block_that_is_higher_counts_as_falling():
    for heights in ([-0.05, 0.0, 0.01, 0.0, 0.01, 0.0], [0.0, 0.0, 0.01, 0.0, 0.01, 0.05]):
        samples = staged(heights)
        assert look(without_burn_in(samples))[1] <= 2
        assert asked(samples, 1.0, eps=1.0) == Stop(Reason.CONVERGED)


def test_a_warm_up_is_waited_for():
    time = np.arange(20_000) * 1e-3
    warm = noisy(0.002) * (1 + 0.1 * np.exp(-time / 0.15))
    rule = Adaptive()
    run(rule, warm)
    assert rule.spent > 0.6
    without = Adaptive(fall=1e9)
    run(without, warm)
    assert without.spent < 0.7 * rule.spent


def test_the_budget_ends_what_is_too_noisy_for_it():
    rule = Adaptive(power=1.0)
    assert run(rule, noisy(0.3)) is Reason.BUDGET
    assert rule.t_max <= rule.spent < 1.01 * rule.t_max


@pytest.mark.parametrize("ratio", [1.0005, 0.9995])
def test_a_drift_is_named_when_the_budget_is_up(ratio):
    assert run(Adaptive(eps=1e-9), 1e-3 * ratio ** np.arange(9000) + 1e-4) is Reason.BUDGET_DRIFT


def test_slow_calls_are_not_asked_for_the_fewest():
    rule = Adaptive()
    assert run(rule, noisy(0.01, mean=0.3)) is Reason.BUDGET
    assert len(rule.samples) == 7
    rule = Adaptive()
    assert run(rule, noisy(0.01, mean=5.0)) is Reason.BUDGET
    assert len(rule.samples) == 3


def test_the_fewest_are_asked_for_while_there_is_time():
    rule = Adaptive()
    run(rule, noisy(0.00001, mean=0.02))
    assert len(rule.samples) == rule.n_min == 24


def test_a_clock_that_reads_one_tick_has_converged():
    rule = Adaptive()
    assert run(rule, np.full(1000, 1e-3 / 3)) is Reason.CONVERGED
    assert rule.spent < 1.01 * rule.t_min


def test_looks_are_geometric():
    rule = Adaptive(t_max=50.0, eps=1e-9, power=1e-6)
    samples, sizes = noisy(0.3, mean=1e-4, n=50_000), []
    rule.start()
    while len(rule.samples) < 40_000:
        decision = rule.decide()
        assert isinstance(decision, Continue)
        portion = samples[len(rule.samples) : len(rule.samples) + decision.n]
        rule.add(portion, float(np.sum(portion)))
        sizes.append(len(rule.samples))
    grown = [after / before for before, after in pairwise(sizes[5:])]
    assert min(grown) > 1.09
    assert max(grown) < 1.11


def test_the_half_width_is_that_of_six_long_blocks():
    samples = noisy(0.05, n=600)
    values = np.clip(samples, *np.sort(samples)[[60, 539]])
    means = [block.mean() for block in np.split(values / 0.8, BLOCKS)]
    expected = 2.571 * np.std(means, ddof=1) / math.sqrt(BLOCKS) / trimmed_mean(samples)
    assert look(samples)[0] == pytest.approx(expected, rel=1e-4)


def test_the_half_width_holds_the_truth_of_correlated_samples():
    rng = np.random.default_rng(2)
    held = []
    for _ in range(200):
        steps = rng.standard_normal(1500)
        slow = np.convolve(steps, 0.95 ** np.arange(200), "valid")[:1200]  # remembers 20 samples
        samples = 1 + 0.01 * slow
        held.append(abs(trimmed_mean(samples) - 1) <= look(samples)[0] * trimmed_mean(samples))
    assert 0.88 < np.mean(held) < 0.99


def test_too_few_samples_have_no_width_and_do_not_fall():
    assert look([1e-3] * 11) == (math.inf, 0.0)
    assert look([1e-3] * 12) == (0.0, 0.0)


def test_steady_samples_seldom_seem_to_fall():
    rng = np.random.default_rng(7)
    falls = [look(1 + 0.01 * rng.standard_normal(240))[1] > 2 for _ in range(500)]
    assert 0.03 < np.mean(falls) < 0.09  # 5.8% by construction


def test_the_fall_is_in_standard_errors():
    first, *rest = long_blocks(samples := staged([0.05, 0.0, 0.01, 0.0, 0.01, 0.0]), BLOCKS)
    error = np.std(rest, ddof=1) * math.sqrt(1 + 1 / 5)  # of a difference from the mean of five
    assert look(samples)[1] == pytest.approx((first - np.mean(rest)) / error)


def test_a_first_block_above_equal_others_falls_without_end():
    assert look([1.02] * 2 + [1.01] * 10 + [1.0] * 60)[1] == math.inf
