"""The published rules, against their definitions: what they look at, when they stop, and what they say."""

import math

import numpy as np
import pytest

from kernel_velocity.harness.stopping import (
    Continue,
    Entropy,
    FixedCount,
    ReactiveBenchmarking,
    Reason,
    RelativeDeviation,
    Stop,
    VariationOfRates,
)

RNG_SEED = 7


def run(rule, trace):
    """Feed a rule from a list; return (reason, samples taken)."""
    rule.start()
    taken = 0
    while not isinstance(decision := rule.decide(), Stop):
        assert decision.n >= 1
        portion = trace[taken : taken + decision.n]
        assert len(portion) == decision.n, "the trace is too short for this test"
        rule.add(portion, sum(portion))
        taken += decision.n
    return decision.reason, taken


def normal(n, sigma, mean=1e-3):
    rng = np.random.default_rng(RNG_SEED)
    return (mean * np.exp(sigma * rng.standard_normal(n))).tolist()


def test_fixed_takes_a_hundred():
    assert run(FixedCount(), normal(200, 0.5)) == (Reason.COMPLETE, 100)


def test_rates_converge_within_five_runs_when_quiet():
    assert run(VariationOfRates(), normal(20, 0.003)) == (Reason.CONVERGED, 5)


def test_rates_give_up_after_twenty_runs():
    assert run(VariationOfRates(), normal(20, 0.1)) == (Reason.BUDGET, 20)


def test_the_variation_of_rates_is_not_that_of_times():
    # one run of 5 is slow by half: CV of times is 20.3%, of rates 16.0%; the target lies between
    trace = [1e-3, 1e-3, 1e-3, 1e-3, 1.5e-3]
    rule = VariationOfRates(eps=0.18)
    assert np.std(trace, ddof=1) / np.mean(trace) > 0.18
    assert run(rule, trace) == (Reason.CONVERGED, 5)


def test_reactive_takes_ten_runs_and_half_a_second():
    assert run(ReactiveBenchmarking(), normal(3000, 0.001)) == (Reason.CONVERGED, pytest.approx(500, abs=2))
    assert run(ReactiveBenchmarking(), normal(20, 0.001, mean=0.2)) == (Reason.CONVERGED, 10)


def test_reactive_drops_the_first_phase_once_and_grows_by_half():
    rule = ReactiveBenchmarking(min_time=0.1, max_time=0.4)
    ramp = [1e-3 * (2 - i / 500) for i in range(900)]  # correlated from end to end: never good enough
    rule.start()
    counts = []
    while not isinstance(decision := rule.decide(), Stop):
        taken = sum(counts)
        portion = ramp[taken : taken + decision.n]
        rule.add(portion, sum(portion))
        counts.append(len(portion))
    first = next(k for k in range(len(counts)) if sum(ramp[: sum(counts[: k + 1])]) >= 0.1) + 1
    dropped = sum(counts[:first])
    assert rule.samples == ramp[dropped : sum(counts)]
    later = counts[first:]
    assert later[0] == dropped // 2
    assert later[1:] == [sum(later[:k]) // 2 for k in range(1, len(later))]
    assert decision.reason is Reason.BUDGET
    assert sum(rule.samples) >= 0.4 > sum(rule.samples[: -later[-1]])


def alternating(n, correlation, sigma, seed=3):
    """A first-order autoregression around 1 ms."""
    rng = np.random.default_rng(seed)
    values = [0.0]
    for noise in rng.standard_normal(n - 1):
        values.append(correlation * values[-1] + math.sqrt(1 - correlation**2) * noise)
    return (1e-3 * np.exp(sigma * np.asarray(values))).tolist()


@pytest.mark.parametrize(("correlation", "converged"), [(0.0, True), (0.55, False)])
def test_reactive_asks_correlated_samples_for_a_smaller_error(correlation, converged):
    # 700 samples of 18%: an error of .7%, below the 1% that independent ones need and above the .5% from .45 on
    rule = ReactiveBenchmarking(min_time=0.5)
    rule.start()
    rule.add(alternating(700, correlation, 0.18), 0.7)
    assert isinstance(rule.decide(), Stop) is converged


@pytest.mark.parametrize(
    ("parameters", "converged"),
    [({}, False), ({"factor": 2.0}, True), ({"thin": 3}, False), ({"factor": 2.0, "exponent": 1 / 3}, False)],
)
def test_reactive_thresholds_and_exponent(parameters, converged):
    rule = ReactiveBenchmarking(min_time=0.5, **parameters)
    rule.start()
    rule.add(alternating(700, 0.55, 0.18), 0.7)
    assert isinstance(rule.decide(), Stop) is converged


def test_thinning_lowers_the_correlation_that_the_rule_sees():
    trace = alternating(4000, 0.8, 0.1)  # error .16%: too much above .75, enough at .8^4 = .41
    for thin, converged in ((0, False), (2, True)):
        rule = ReactiveBenchmarking(min_time=0.5, thin=thin)
        rule.start()
        rule.add(trace, 4.0)
        assert isinstance(rule.decide(), Stop) is converged


def test_stdrel_converges_below_its_noise_but_not_before_its_time():
    reason, taken = run(RelativeDeviation(), normal(2000, 0.004))
    assert reason is Reason.CONVERGED
    assert 500 < taken < 540


def test_stdrel_stops_on_a_plateau():
    reason, taken = run(RelativeDeviation(), normal(4000, 0.03))
    assert reason is Reason.PLATEAU
    assert taken % 16 == 0
    assert 500 < taken < 700


def test_stdrel_s_noise_is_that_of_every_prefix():
    rule = RelativeDeviation()
    rule.start()
    trace = normal(700, 0.05)
    rule.add(trace, 0.7)
    wanted = [np.std(trace[:k], ddof=1) / np.mean(trace[:k]) for k in range(700 - 511, 701)]
    assert rule._noise() == pytest.approx(wanted, rel=1e-9)


def test_stdrel_runs_into_its_timeout():
    trace = [1e-3 * 1.002**i for i in range(2000)]  # its noise grows for ever
    rule = RelativeDeviation(timeout=2.0)
    assert run(rule, trace)[0] is Reason.BUDGET
    assert 2.0 <= rule.spent < 2.0 * 17 / 16 * 1.2  # the last look's portion, and that later samples are longer


def test_entropy_is_that_of_the_values_so_far():
    rule = Entropy()
    rule.start()
    rule.add([1e-3, 2e-3, 1e-3, 1e-3], 5e-3)
    assert rule._entropies == pytest.approx([0.0, 1.0, 0.9182958340544896, 0.8112781244591328])


def test_entropy_stops_on_values_that_never_repeat_after_about_1900():
    reason, taken = run(Entropy(), normal(3000, 0.3))
    assert reason is Reason.CONVERGED
    # log2 n has a slope of 1/(n ln 2): below tan .048 degrees from 1722 on, seen over a window that ends 150 later
    assert 1722 < taken < 2100


def test_entropy_asks_a_line_to_explain_the_entropy():
    rng = np.random.default_rng(RNG_SEED)
    ticks = (1e-3 + 1e-5 * rng.integers(0, 4, 4000)).tolist()  # two bits, soon reached: then there is no line left
    explained = run(Entropy(min_r2=1e-9, timeout=3.0), ticks)
    demanding = run(Entropy(min_r2=0.99, timeout=3.0), ticks)
    assert explained[0] is Reason.CONVERGED
    assert demanding[0] is Reason.BUDGET
    assert explained[1] < demanding[1]


def test_entropy_looks_at_even_numbers():
    constant = [1e-3] * 15
    rule = Entropy(min_samples=11)
    rule.start()
    rule.add(constant[:11], 0.011)
    assert isinstance(rule.decide(), Continue)
    assert run(Entropy(min_samples=12), constant) == (Reason.CONVERGED, 12)


def test_rounding_is_no_slope_of_the_entropy():
    rule = Entropy()
    rule.start()
    rule.add([1e-3] * 1000, 1.0)
    assert 0 < max(rule._entropies) < 1e-12
    assert rule.decide() == Stop(Reason.CONVERGED)
