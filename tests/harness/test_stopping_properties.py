"""What holds for every stopping rule: decisions do not depend on the unit, only on what was added; every rule ends."""

from functools import cache, partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.harness.stopping import RULES, Continue, ReactiveBenchmarking, Reason, Stop
from kernel_velocity.lab.noise import HELD_OUT, repetition, single_families

MOST = 2.5  # s that a rule may take in these tests
# What ends a rule by itself, made short where the published cap is minutes.
SHORT = {
    **RULES,
    "entropy": partial(RULES["entropy"], timeout=1.0),
    "stdrel": partial(RULES["stdrel"], timeout=1.0),
    **{
        name: partial(make, min_time=0.3, max_time=1.0)
        for name, make in RULES.items()
        if name.startswith(ReactiveBenchmarking.name)
    },
}


def decisions(rule, trace, cost=1.0):
    """Return every decision of a rule on a trace of which each sample costs `cost` times its value."""
    rule.start()
    taken, found = 0, []
    while True:
        decision = rule.decide()
        assert rule.decide() == decision, "asked twice, two answers"
        found.append(decision)
        if isinstance(decision, Stop):
            return found, trace[:taken]
        assert decision.n >= 1
        portion = trace[taken : taken + decision.n]
        assert portion, "the rule wants more than there is"
        rule.add(portion, cost * sum(portion))
        taken += len(portion)


@cache
def families():
    return {mixture.name: mixture for mixture in single_families(HELD_OUT, 0)}


@cache
def trace_of(family, seconds, base=1e-3):
    mixture = families()[family]
    samples = mixture.trace(repetition(HELD_OUT, 0, family, 0), seconds * mixture.base / base)
    return (samples * (base / mixture.base)).tolist()


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("family", families())
def test_every_rule_ends_within_its_cap_on_every_family(name, family):
    rule = SHORT[name]()
    found, taken = decisions(rule, trace_of(family, 4.0))
    assert isinstance(found[-1], Stop)
    assert isinstance(found[-1].reason, Reason)
    assert sum(taken) <= MOST
    assert rule.spent == pytest.approx(sum(taken))
    assert len(found) < 140  # looks are few, but for those that are taken after every sample of twenty


@settings(deadline=None, max_examples=40)
@given(
    name=st.sampled_from(sorted(SHORT)),
    exponent=st.integers(-20, 20),
    sigma=st.floats(0.0, 0.3),
    seed=st.integers(0, 99),
)
def test_decisions_do_not_depend_on_the_unit(name, exponent, sigma, seed):
    rng = np.random.default_rng(seed)
    trace = (1e-3 * np.exp(sigma * rng.standard_normal(6000))).tolist()
    scale = 2.0**exponent  # exact, so that nothing is decided by rounding
    first, taken = decisions(SHORT[name](), trace)
    second, also = decisions(SHORT[name](), [scale * value for value in trace], cost=1 / scale)
    assert first == second
    assert len(also) == len(taken)


@settings(deadline=None, max_examples=40)
@given(name=st.sampled_from(sorted(SHORT)), sigma=st.floats(0.0, 0.3), cuts=st.lists(st.integers(1, 999), max_size=5))
def test_a_decision_depends_on_what_was_added_and_not_on_how(name, sigma, cuts):
    rng = np.random.default_rng(1)
    trace = (2.0**-10 * np.exp(sigma * rng.standard_normal(1000))).tolist()
    whole, parts = SHORT[name](), SHORT[name]()
    whole.start()
    whole.add(trace, 1.0)
    parts.start()
    places = [0, *sorted(set(cuts)), 1000]
    for low, high in pairwise(places):
        parts.add(trace[low:high], 1.0 if high == 1000 else 0.0)
    assert whole.decide() == parts.decide()


@pytest.mark.parametrize("name", RULES)
def test_a_constant_trace_stops_at_the_first_look_with_a_reason(name):
    rule = RULES[name]()
    found, taken = decisions(rule, [1e-3] * 20_000)
    assert found[-1].reason in (Reason.CONVERGED, Reason.COMPLETE)
    earliest = {"t_min": 0.0, "min_time": 0.0, **rule.parameters()}
    if found[-1].reason is Reason.CONVERGED:
        assert sum(taken) <= max(earliest["t_min"], earliest["min_time"]) * 1.05 + 0.02


@pytest.mark.parametrize("name", SHORT)
def test_start_forgets_everything(name):
    rule, fresh = SHORT[name](), SHORT[name]()
    trace = trace_of("drift", 4.0)
    decisions(rule, trace)
    assert decisions(rule, trace_of("iid", 4.0)) == decisions(fresh, trace_of("iid", 4.0))
    rule.start()
    assert not rule.samples
    assert rule.spent == 0
    assert isinstance(rule.decide(), Continue)
