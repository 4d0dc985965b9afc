"""Stopping rules: lists of floats in, decisions out."""

import math

import numpy as np
import pytest

from kernel_velocity.harness.stopping import (
    RULES,
    Adaptive,
    AdaptiveRound,
    CoefficientOfVariation,
    Continue,
    FixedTime,
    Reason,
    RuleError,
    Stop,
    from_environment,
    method_hash,
)


def run(rule, source):
    """Feed a rule from an endless iterator of seconds per call, batch 1; return its reason."""
    rule.start()
    while not isinstance(decision := rule.decide(), Stop):
        assert decision.n >= 1
        samples = [next(source) for _ in range(decision.n)]
        rule.add(samples, sum(samples))
    return decision.reason


def normal(mean, sigma, seed=0):
    rng = np.random.default_rng(seed)
    while True:
        yield abs(rng.normal(mean, sigma * mean))


def test_quiet_samples_converge_after_the_minimum_time():
    rule = CoefficientOfVariation()
    assert run(rule, normal(1e-4, 0.002)) is Reason.CONVERGED
    assert rule.t_min <= rule.spent < rule.t_max


def test_noisy_samples_use_up_the_budget_and_no_more():
    rule = CoefficientOfVariation()
    assert run(rule, normal(1e-4, 0.2)) is Reason.BUDGET
    assert rule.t_max <= rule.spent < 1.2 * rule.t_max


def test_slow_calls_are_taken_three_times():
    rule = CoefficientOfVariation()
    assert run(rule, normal(2.0, 0.3)) is Reason.BUDGET
    assert len(rule.samples) == 3


def test_converged_at_the_deadline_says_converged():
    assert run(CoefficientOfVariation(), normal(0.2, 0.0001)) is Reason.CONVERGED


def test_burn_in_does_not_count():
    rule = CoefficientOfVariation(t_min=1e-3)

    def source():
        yield from [1e-3, 5e-4]  # a slow start
        yield from normal(1e-4, 0.0005)

    assert run(rule, source()) is Reason.CONVERGED


def test_fixed_time_takes_its_time():
    rule = FixedTime(t_max=0.05)
    assert run(rule, normal(1e-4, 0.0)) is Reason.COMPLETE
    assert rule.spent == pytest.approx(0.05, rel=0.02)


def test_start_forgets():
    rule = FixedTime()
    run(rule, normal(1e-2, 0.0))
    rule.start()
    assert not rule.samples
    assert rule.spent == 0
    assert isinstance(rule.decide(), Continue)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("bad", [0.0, -1e-6, math.nan, math.inf])
def test_a_broken_timer_is_an_error(name, bad):
    rule = RULES[name]()
    rule.start()
    with pytest.raises(ValueError, match=f"the timer returned {bad} s"):
        rule.add([1e-3, bad], 1e-3)
    assert not rule.samples


@pytest.mark.parametrize("bad", [-1e-9, math.nan, math.inf])
def test_time_spent_is_a_time(bad):
    rule = CoefficientOfVariation()
    rule.start()
    with pytest.raises(ValueError, match="wanted a finite time"):
        rule.add([1e-3], bad)


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        (
            {"KV_RULE": "nosuch"},
            "no stopping rule 'nosuch'; there are adaptive, adaptive.round, cv, cv_gflops, entropy, fixed",
        ),
        ({"KV_RULE": "fixed_time", "KV_EPS": ".01"}, "rule fixed_time has no parameter eps"),
        ({"KV_RULE": "fixed_time", "KV_MAX_NOISE": ".01"}, "KV_MAX_NOISE: rule fixed_time has no parameter max_noise"),
        ({"KV_RULE": "fixed", "KV_N": "2.5"}, "KV_N: got '2.5'; wanted a whole number"),
        ({"KV_RULE": "fixed", "KV_N": "0"}, "rule fixed: n = 0; wanted a positive number"),
        ({"KV_RULE": "adaptive", "KV_T_SOFT": "3"}, "rule adaptive: t_soft = 3.0 s is more than t_max = 2.0 s"),
        ({"KV_RULE": "stdrel", "KV_MIN_TIME": "16"}, "min_time = 16.0 s is more than timeout = 15.0 s"),
        ({"KV_RULE": "rse_autocorrelation", "KV_FACTOR": "0"}, "factor = 0.0; wanted a positive number"),
        ({"KV_RULE": "rse_autocorrelation", "KV_THIN": "-1"}, "thin = -1; wanted a positive number"),
        ({"KV_RULE": "rse_autocorrelation", "KV_THIN": "11"}, r"thin = 11; wanted 0 to 10 \(one sample in 2\^thin\)"),
        ({"KV_RULE": "cv_gflops", "KV_N_MIN": "21"}, "rule cv_gflops: n_min = 21 is more than n_max = 20$"),
        ({"KV_EPS": "small"}, "KV_EPS: got 'small'; wanted a number"),
        ({"KV_EPS": "-1"}, "wanted a positive number"),
        ({"KV_T_MAX": "nan"}, "wanted a positive number"),
        ({"KV_RULE": "cv", "KV_T_MIN": "2", "KV_T_MAX": "1"}, "t_min = 2.0 s is more than t_max"),
        ({"KV_T_MIN": "2"}, "t_min = 2.0 s is more than t_soft = 0.3 s"),
    ],
)
def test_bad_settings_say_what_was_wanted(environ, says):
    with pytest.raises(RuleError, match=says):
        from_environment(environ)


def test_settings_reach_the_rule_and_its_hash():
    default = from_environment({})
    assert default == AdaptiveRound()
    assert method_hash(default) == method_hash(from_environment({"KV_RULE": "adaptive.round"}))
    finer = from_environment({"KV_EPS": ".005"})
    assert finer.parameters()["eps"] == 0.005
    hashes = {method_hash(rule) for rule in (default, finer, Adaptive(), FixedTime())}
    assert len(hashes) == 4


def test_a_method_that_was_recorded_keeps_its_hash():
    assert AdaptiveRound().name == from_environment({}).name == "adaptive.round"
    assert method_hash(from_environment({})) == "994c70c7"
    assert method_hash(CoefficientOfVariation()) == "2a1d21fc"
    assert method_hash(FixedTime()) == "43e2e980"


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("rse_autocorrelation.conservative", {"factor": 2.0, "min_time": 1.0}),
        ("rse_autocorrelation.cube_root", {"exponent": 1 / 3}),
        ("rse_autocorrelation.thinned", {"thin": 2}),
    ],
)
def test_a_published_set_of_parameters_has_a_name(name, parameters):
    rule = from_environment({"KV_RULE": name})
    assert parameters.items() <= rule.parameters().items()
    spelled_out = {f"KV_{key.upper()}": str(value) for key, value in parameters.items()}
    same = from_environment({"KV_RULE": name.split(".")[0], **spelled_out})
    assert method_hash(same) == method_hash(rule)
    last, value = list(rule.parameters().items())[-1]
    changed = from_environment({"KV_RULE": name, f"KV_{last.upper()}": str(value + 1)})
    assert changed.parameters() == {**rule.parameters(), last: value + 1}


def test_threads_are_part_of_the_method():
    rule = CoefficientOfVariation()
    assert method_hash(rule) == method_hash(rule, "1") == method_hash(rule, "")
    assert method_hash(rule, "2") != method_hash(rule)
