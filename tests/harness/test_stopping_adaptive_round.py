"""Our rule for a round: what it accepts after which time, and what it says when it stops."""

import math
from functools import cache, partial
from itertools import pairwise

import numpy as np
import pytest

from kernel_velocity.harness.statistics import half_width
from kernel_velocity.harness.stopping import AdaptiveRound, Continue, Reason, Stop, without_burn_in
from kernel_velocity.harness.stopping.adaptive_round import relative_half_width
from kernel_velocity.harness.stopping.drift import drifts

# A budget that tells the rule's parts from each other; a round's is over in .3 s.
Single = partial(AdaptiveRound, eps=0.002, t_soft=1.0, t_max=1.0)


def run(rule, sample):
    """Feed a rule from a function of the sample's number; return its reason."""
    rule.start()
    while not isinstance(decision := rule.decide(), Stop):
        taken = len(rule.samples)
        samples = [sample(number) for number in range(taken, taken + decision.n)]
        rule.add(samples, sum(samples))
    return decision.reason


@cache
def noisy(sigma, mean=1e-3, seed=5):
    values = mean * np.exp(sigma * np.random.default_rng(seed).standard_normal(100_000))
    return lambda number: float(values[number])


def accepted(rule):
    return rule.eps * (rule.spent / rule.t_soft) ** rule.power


def test_what_is_quiet_stops_early_and_within_what_its_time_allows():
    rule = Single()
    assert run(rule, noisy(0.005)) is Reason.CONVERGED
    assert rule.spent < 0.5
    assert half_width(without_burn_in(rule.samples)) <= accepted(rule) < rule.eps


def test_noise_takes_longer():
    spent = []
    for sigma in (0.003, 0.03, 0.3):
        rule = Single()
        run(rule, noisy(sigma))
        spent.append(rule.spent)
    assert spent == sorted(spent)
    assert spent[-1] > 3 * spent[0]


def test_beyond_the_target_it_is_the_noise_floor():
    rule = Single(eps=0.005, power=3.0, t_max=2.0)
    assert run(rule, noisy(0.3)) is Reason.NOISE_FLOOR
    assert rule.t_soft < rule.spent < rule.t_max
    assert rule.eps < half_width(without_burn_in(rule.samples)) <= accepted(rule)


def test_the_budget_ends_what_is_too_noisy_for_it():
    rule = Single()
    assert run(rule, noisy(0.3)) is Reason.BUDGET
    assert rule.t_max <= rule.spent < 1.03 * rule.t_max


def test_a_drift_is_named_when_the_budget_is_up():
    assert run(Single(), lambda number: 1e-3 * 1.001**number) is Reason.BUDGET_DRIFT
    assert run(Single(), lambda number: 1e-3 * 0.9995**number + 1e-6) is Reason.BUDGET_DRIFT


def test_slow_calls_are_not_asked_for_the_fewest():
    rule = Single()
    assert run(rule, noisy(0.01, mean=0.3)) is Reason.BUDGET
    assert len(rule.samples) == 4
    rule = Single()
    assert run(rule, noisy(0.01, mean=5.0)) is Reason.BUDGET
    assert len(rule.samples) == 3


def test_the_fewest_are_asked_for_while_there_is_time():
    rule = Single()
    run(rule, noisy(0.00001, mean=0.01))
    assert len(rule.samples) == rule.n_min == 24


def test_looks_are_geometric():
    rule = Single(t_min=0.1, t_max=50.0, t_soft=1.0, eps=1e-9, power=1e-6)
    rule.start()
    sizes, source = [], noisy(0.3, mean=1e-4)
    while len(rule.samples) < 50_000:
        decision = rule.decide()
        assert isinstance(decision, Continue)
        samples = [source(number) for number in range(decision.n)]
        rule.add(samples, sum(samples))
        sizes.append(len(rule.samples))
    grown = [after / before for before, after in pairwise(sizes[5:])]
    assert min(grown) > 1.09
    assert max(grown) < 1.26


def test_the_half_width_is_the_one_that_is_reported():
    samples = [noisy(0.1)(number) for number in range(500)]
    assert relative_half_width(samples) == half_width(samples)
    assert relative_half_width(samples[:15]) == math.inf


def test_drift_is_a_trend_and_not_noise():
    rng = np.random.default_rng(11)
    flat = [drifts(rng.standard_normal(160)) for _ in range(400)]
    assert 0.01 < np.mean(flat) < 0.09  # 5% by construction
    assert drifts(np.arange(160.0))
    assert drifts(-np.arange(160.0))
    assert not drifts(np.arange(15.0))


def test_a_look_is_a_tenth_to_a_quarter_after_the_last():
    rule = Single(power=3.0)
    assert rule._portion(1000, 1.0001) in (100, 101)  # rounding may count one more
    assert rule._portion(1000, 1.5) == 146  # 1.02 * 1.5^(1/3.5), aimed at where the width will meet the limit
    assert rule._portion(1000, 100.0) == rule._portion(1000, math.inf) == 250
    assert rule._portion(3, 1.0001) == 1


def test_the_target_is_for_a_time_of_t_soft():
    samples = [noisy(0.1)(number) for number in range(400)]
    width = relative_half_width(without_burn_in(samples))
    for spent, stops in ((0.29, False), (0.31, True)):
        rule = Single(eps=width, t_soft=0.3, t_max=0.5)
        rule.start()
        rule.add(samples, spent)
        assert isinstance(rule.decide(), Stop) is stops


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_the_accepted_width_grows_with_the_time_spent(power):
    # the same samples, said to have cost more: what was too wide becomes wide enough
    samples = [noisy(0.1)(number) for number in range(400)]
    width = relative_half_width(without_burn_in(samples))
    for spent, stops in ((0.99, False), (1.01, True)):
        rule = Single(eps=width, power=power)
        rule.start()
        rule.add(samples, spent)
        assert isinstance(rule.decide(), Stop) is stops
    rule = Single(eps=width / 1.5**power, power=power)
    rule.start()
    rule.add(samples, 1.51)
    assert rule.decide() == Stop(Reason.NOISE_FLOOR)
