"""Stopping rules: lists of floats in, decisions out. What holds for all, then ours, then the published ones."""

import math
from functools import cache, partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.engine.statistics import half_width, long_blocks
from kernel_velocity.engine.stopping import (
    LONG_BLOCKS,
    RULES,
    Adaptive,
    AdaptiveRound,
    CoefficientOfVariation,
    Continue,
    FixedCount,
    FixedTime,
    Reason,
    RuleError,
    Stop,
    VariationOfRates,
    drifts,
    from_environment,
    method_hash,
    width_and_fall,
    without_burn_in,
)
from lab.histories import jitter, spikes, two_speeds, wave

MOST = 2.5  # s that a rule may take in these tests
# Rounds of `adaptive.round` end after .3 s; this budget tells the rule's parts from each other.
Single = partial(AdaptiveRound, eps=0.002, t_soft=1.0, t_max=1.0)
OURS = pytest.mark.parametrize("make", [Adaptive, Single], ids=["adaptive", "adaptive.round"])


def decisions(rule, trace, cost=1.0):
    """Return every decision of a rule on a trace of which each sample costs `cost` times its value."""
    rule.start()
    count, result = 0, []
    while True:
        decision = rule.decide()
        assert rule.decide() == decision, "two calls, two answers"
        result.append(decision)
        if isinstance(decision, Stop):
            return result
        assert decision.n >= 1
        portion = trace[count : count + decision.n]
        assert len(portion) == decision.n, "the trace is too short"
        rule.add(portion, cost * float(np.sum(portion)))
        count += decision.n


def run(rule, trace):
    """Feed a rule from a trace. Return its reason."""
    return decisions(rule, trace)[-1].reason


def after(rule, samples, spent):
    """Return the decision of a rule that was given these samples."""
    rule.start()
    rule.add(samples, spent)
    return rule.decide()


@cache
def noisy(sigma, mean=1e-3, n=20_000, seed=5):
    return (mean * np.exp(sigma * np.random.default_rng(seed).standard_normal(n))).tolist()


# All rules ------------------------------------------------------------------------------------------------------------


FAMILIES = {
    "iid": jitter(0.01),
    "spikes": spikes,
    "warm_up": lambda rng, size: 1 + 0.1 * np.exp(-np.arange(size) / 50),
    "periodic": wave,
    "bimodal": lambda rng, size: 1 + 0.05 * (rng.random(size) < 0.3),
    "sticky": two_speeds(0.02, 70.0, 30.0),
    "autoregressive": jitter(0.01, 0.9),
    "drift": jitter(0.01, 0.999),
    "bursts": two_speeds(0.3, 475.0, 25.0),
}


@cache
def trace_of(family, seconds=4.0, base=1e-3):
    """Return a trace of little jitter and one family of noise."""
    rng = np.random.default_rng([2, 0, list(FAMILIES).index(family), 1])
    count = math.ceil(seconds / base)
    return (base * jitter(0.002)(rng, count) * FAMILIES[family](rng, count)).tolist()


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_rule_ends_within_its_cap(name, family):
    rule = RULES[name]()
    sizes = decisions(rule, trace_of(family))
    assert isinstance(sizes[-1].reason, Reason)
    assert rule.spent <= MOST
    assert len(sizes) < 140  # looks are few, but for those that are taken after every sample of twenty


@settings(max_examples=40)
@given(
    name=st.sampled_from(sorted(RULES)),
    exponent=st.integers(-20, 20),
    sigma=st.floats(0.0, 0.3),
    seed=st.integers(0, 99),
)
def test_decisions_are_free_of_units(name, exponent, sigma, seed):
    trace = noisy.__wrapped__(sigma, n=6000, seed=seed)
    scale = 2.0**exponent  # exact, so that nothing is decided by rounding
    scaled = decisions(RULES[name](), [scale * value for value in trace], cost=1 / scale)
    assert decisions(RULES[name](), trace) == scaled


@settings(max_examples=40)
@given(name=st.sampled_from(sorted(RULES)), sigma=st.floats(0.0, 0.3), cuts=st.lists(st.integers(1, 999), max_size=5))
def test_decision_ignores_how_samples_were_added(name, sigma, cuts):
    trace = noisy.__wrapped__(sigma, mean=2.0**-10, n=1000, seed=1)
    parts = RULES[name]()
    parts.start()
    for low, high in pairwise([0, *sorted(set(cuts)), 1000]):
        parts.add(trace[low:high], 1.0 if high == 1000 else 0.0)
    assert after(RULES[name](), trace, 1.0) == parts.decide()


@pytest.mark.parametrize("name", RULES)
def test_constant_trace_stops_at_the_first_look(name):
    rule = RULES[name]()
    reason = run(rule, [1e-3] * 20_000)
    assert reason in (Reason.CONVERGED, Reason.COMPLETE)
    if reason is Reason.CONVERGED:
        assert rule.spent <= rule.parameters().get("t_min", 0.0) * 1.05 + 0.02


@pytest.mark.parametrize("name", RULES)
def test_start_forgets_everything(name):
    rule, fresh = RULES[name](), RULES[name]()
    decisions(rule, trace_of("drift"))
    assert decisions(rule, trace_of("iid")) == decisions(fresh, trace_of("iid"))
    rule.start()
    assert not rule.samples
    assert rule.spent == 0


@pytest.mark.parametrize("bad", [0.0, -1e-6, math.nan, math.inf])
def test_broken_timer_is_an_error(bad):
    rule = FixedTime()
    rule.start()
    with pytest.raises(ValueError, match=f"the timer returned {bad} s"):
        rule.add([1e-3, bad], 1e-3)
    assert not rule.samples


# Choice and hash ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        (
            {"KV_RULE": "nosuch"},
            "no stopping rule 'nosuch'; there are adaptive, adaptive.round, cv, cv_gflops, fixed, fixed_time",
        ),
        ({"KV_RULE": "fixed_time", "KV_N_MAX": "9"}, "KV_N_MAX: rule fixed_time has no parameter n_max"),
        ({"KV_RULE": "fixed", "KV_N": "2.5"}, "KV_N: got '2.5'; wanted a whole number"),
        ({"KV_RULE": "fixed", "KV_N": "0"}, "rule fixed: n = 0; wanted a positive number"),
        ({"KV_RULE": "adaptive", "KV_T_SOFT": "3"}, "rule adaptive: t_soft = 3.0 s is more than t_max = 2.0 s"),
        ({"KV_T_MIN": "2"}, "t_min = 2.0 s is more than t_soft = 0.3 s"),
        ({"KV_RULE": "cv", "KV_T_MIN": "2", "KV_T_MAX": "1"}, "t_min = 2.0 s is more than t_max"),
        ({"KV_RULE": "cv_gflops", "KV_N_MIN": "21"}, "rule cv_gflops: n_min = 21 is more than n_max = 20$"),
        ({"KV_EPS": "small"}, "KV_EPS: got 'small'; wanted a number"),
        ({"KV_EPS": "-1"}, "wanted a positive number"),
        ({"KV_T_MAX": "nan"}, "wanted a positive number"),
    ],
)
def test_bad_settings_say_what_was_wanted(environ, says):
    with pytest.raises(RuleError, match=says):
        from_environment(environ)


def test_recorded_methods_keep_their_hashes():
    assert from_environment({}) == from_environment({"KV_RULE": "adaptive.round"}) == AdaptiveRound()
    assert {name: method_hash(make()) for name, make in RULES.items()} == {
        "adaptive": "ab2f1165",
        "adaptive.round": "994c70c7",
        "cv": "2a1d21fc",
        "cv_gflops": "1a3b2adb",
        "fixed": "735dbfdd",
        "fixed_time": "43e2e980",
    }


# Ours -----------------------------------------------------------------------------------------------------------------


def staged(heights, n=600, sigma=0.001, mean=1e-3):
    """Samples in six long blocks behind a burn-in, of which each has its own height."""
    levels = np.repeat(heights, n // LONG_BLOCKS)
    values = mean * (1 + np.concatenate([np.full(n // 4, heights[0]), levels]))
    return (values * np.exp(sigma * np.random.default_rng(3).standard_normal(values.size))).tolist()


STEADY = staged([0.0, 0.01, -0.01, 0.01, -0.01, 0.005])  # the first block no higher than the others
FALLING = staged([0.05, 0.0, 0.01, 0.0, 0.01, 0.0])


@OURS
def test_quiet_samples_stop_early(make):
    rule = make()
    assert run(rule, noisy(0.002)) is Reason.CONVERGED
    assert rule.t_min <= rule.spent < 0.55 * rule.t_soft
    assert half_width(without_burn_in(rule.samples)) <= rule.eps


@OURS
def test_noise_takes_longer_up_to_the_budget(make):
    spent = []
    for sigma in (0.003, 0.1, 1.0):
        rules = [make() for _ in range(5)]
        reasons = [run(rule, noisy(sigma, seed=seed)) for seed, rule in enumerate(rules)]
        spent.append(np.median([rule.spent for rule in rules]))
    assert spent == sorted(spent)
    assert spent[-1] > 2.5 * spent[0]
    assert Reason.CONVERGED not in reasons
    rule = make(power=1.0)
    assert run(rule, noisy(0.3)) is Reason.BUDGET
    assert rule.t_max <= rule.spent < 1.03 * rule.t_max


@OURS
@pytest.mark.parametrize("ratio", [1.0005, 0.9995])
def test_drift_is_named_when_the_budget_is_up(make, ratio):
    assert run(make(eps=1e-9), (1e-3 * ratio ** np.arange(9000) + 1e-4).tolist()) is Reason.BUDGET_DRIFT


@OURS
def test_slow_calls(make):
    rule = make()
    assert run(rule, noisy(0.01, mean=0.3)) is Reason.BUDGET
    assert len(rule.samples) == math.ceil(rule.t_max / 0.3)
    assert run(rule, noisy(0.01, mean=5.0)) is Reason.BUDGET
    assert len(rule.samples) == 3
    assert run(rule, noisy(0.00001, mean=0.01)) is Reason.CONVERGED
    assert len(rule.samples) == rule.n_min == 24


@pytest.mark.parametrize(
    ("make", "width", "flat"),
    [
        (partial(Adaptive), width_and_fall(without_burn_in(STEADY))[0], True),
        (partial(AdaptiveRound, t_soft=0.4, t_max=2.0), half_width(without_burn_in(STEADY)), False),
    ],
    ids=["adaptive", "adaptive.round"],
)
def test_accepted_width_rises_with_the_time_spent(make, width, flat):
    for spent, stops in ((0.21, flat), (0.39, flat), (0.41, True)):  # eps until t_soft, or only at t_soft
        assert isinstance(after(make(eps=1.01 * width), STEADY, spent), Stop) is stops
    assert isinstance(after(make(eps=0.99 * width), STEADY, 0.39), Continue)
    for power in (1.0, 5.0):
        rule = partial(make, eps=width / 1.5**power, power=power)
        assert isinstance(after(rule(), STEADY, 0.4 * 1.49), Continue)
        assert after(rule(), STEADY, 0.4 * 1.51) == Stop(Reason.NOISE_FLOOR)


def test_adaptive_waits_while_samples_fall():
    assert width_and_fall(without_burn_in(FALLING))[1] > 2
    assert isinstance(after(Adaptive(eps=1.0), FALLING, 1.9), Continue)
    assert after(Adaptive(eps=1.0, fall=1e3), FALLING, 1.9) == Stop(Reason.CONVERGED)
    assert after(Adaptive(eps=1.0), FALLING, 2.0) == Stop(Reason.BUDGET_DRIFT)
    for heights in ([-0.05, 0.0, 0.01, 0.0, 0.01, 0.0], [0.0, 0.0, 0.01, 0.0, 0.01, 0.05]):
        assert after(Adaptive(eps=1.0), staged(heights), 1.0) == Stop(Reason.CONVERGED)


def test_fall_is_in_standard_errors():
    first, *rest = long_blocks(FALLING, LONG_BLOCKS)
    error = np.std(rest, ddof=1) * math.sqrt(1 + 1 / 5)  # of a difference from the mean of five
    assert width_and_fall(FALLING)[1] == pytest.approx((first - np.mean(rest)) / error)
    assert width_and_fall([1.02] * 2 + [1.01] * 10 + [1.0] * 60)[1] == math.inf
    rng = np.random.default_rng(7)
    falls = [width_and_fall(1 + 0.01 * rng.standard_normal(240))[1] > 2 for _ in range(500)]
    assert 0.03 < np.mean(falls) < 0.09  # 5.8% by construction


def test_drift_is_a_trend_and_not_noise():
    rng = np.random.default_rng(11)
    flat = [drifts(rng.standard_normal(160)) for _ in range(400)]
    assert 0.01 < np.mean(flat) < 0.09  # 5% by construction
    assert drifts(np.arange(160.0))
    assert drifts(-np.arange(160.0))
    assert not drifts(np.arange(15.0))


# Published ------------------------------------------------------------------------------------------------------------


def test_fixed_rules_take_their_number_and_their_time():
    rule = FixedCount()
    assert run(rule, noisy(0.5)) is Reason.COMPLETE
    assert len(rule.samples) == 100
    rule = FixedTime(t_max=0.05)
    assert run(rule, noisy(0.0, mean=1e-4)) is Reason.COMPLETE
    assert rule.spent == pytest.approx(0.05, rel=0.02)


def test_cv_converges_or_uses_up_its_budget():
    rule = CoefficientOfVariation()
    assert run(rule, noisy(0.002, mean=1e-4)) is Reason.CONVERGED
    assert rule.t_min <= rule.spent < rule.t_max
    assert run(rule, noisy(0.2, mean=1e-4)) is Reason.BUDGET
    assert rule.t_max <= rule.spent < 1.2 * rule.t_max
    assert run(rule, noisy(0.3, mean=2.0)) is Reason.BUDGET
    assert len(rule.samples) == 3
    assert run(rule, noisy(0.0001, mean=0.2)) is Reason.CONVERGED  # at the deadline
    slow_start = [1e-3, 5e-4, *noisy(0.0005, mean=1e-4)]
    assert run(CoefficientOfVariation(t_min=1e-3), slow_start) is Reason.CONVERGED  # the burn-in does not count


def test_cv_gflops_takes_five_to_twenty_runs():
    rule = VariationOfRates()
    assert (run(rule, noisy(0.003)), len(rule.samples)) == (Reason.CONVERGED, 5)
    assert (run(rule, noisy(0.1)), len(rule.samples)) == (Reason.BUDGET, 20)
    # one run of 5 is slow by half: CV of times is 20.3%, of rates 16.0%; the target lies between
    trace = [1e-3, 1e-3, 1e-3, 1e-3, 1.5e-3]
    assert np.std(trace, ddof=1) / np.mean(trace) > 0.18
    assert run(VariationOfRates(eps=0.18), trace) is Reason.CONVERGED
