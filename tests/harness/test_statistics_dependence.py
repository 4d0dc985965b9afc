"""What samples owe to time: effective sample size, drift, and the slope over growing batches."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.harness import statistics
from kernel_velocity.harness.statistics.dependence import autocorrelations

scipy_stats = pytest.importorskip("scipy.stats", reason="scipy is what the statistics are checked against")


def ar1(seed, n, phi):
    """A stationary AR(1) series about 10, of unit innovations."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=n)
    noise[0] /= math.sqrt(1 - phi**2)
    for i in range(1, n):
        noise[i] += phi * noise[i - 1]
    return 10 + noise


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6, 0.9])
def test_effective_sample_size_is_the_theorys(phi):
    n = 4000
    found = np.median([statistics.effective_sample_size(ar1(seed, n, phi)).value for seed in range(20)])
    assert found == pytest.approx(n * (1 - phi) / (1 + phi), rel=0.15)


def test_effective_sample_size_is_geyers_sum():
    """A pulse in every eighth sample over slow levels: autocorrelations in pairs fall and rise, above zero."""
    rng = np.random.default_rng(7)
    samples = np.repeat(rng.normal(0, 1, 8), 50) + 2 * (np.arange(400) % 8 == 0) + rng.normal(0, 0.2, 400)
    r = [1.0, *(statistics.autocorrelation(samples, lag) for lag in range(1, 398))]
    total, lowest, rose = 0.0, math.inf, False
    for even, odd in zip(r[::2], r[1::2], strict=True):
        if even + odd <= 0:
            break
        rose = rose or even + odd > lowest
        lowest = min(lowest, even + odd)
        total += lowest
    assert rose
    assert statistics.effective_sample_size(samples).value == pytest.approx(400 / (2 * total - 1))


def test_alternation_is_worth_no_more_than_all_samples():
    samples = ar1(1, 2000, -0.6)
    assert statistics.effective_sample_size(samples).value == len(samples)


def test_an_effective_sample_size_from_too_few_autocorrelation_times_says_so():
    long, short = (
        statistics.effective_sample_size(ar1(2, 4000, 0.9)),
        statistics.effective_sample_size(ar1(2, 400, 0.9)),
    )
    assert long.warnings == ()
    assert "autocorrelation time" in short.warnings[0]
    assert short.value < 100


def test_autocorrelations_are_autocorrelation_at_every_lag():
    samples = ar1(3, 101, 0.5)
    assert autocorrelations(samples)[0] == pytest.approx(1)
    wanted = [statistics.autocorrelation(samples, lag) for lag in range(1, 99)]
    assert autocorrelations(samples)[1:99] == pytest.approx(np.array(wanted), abs=1e-12)


def test_effective_sample_size_refuses_what_is_not_finite():
    with pytest.raises(ValueError, match="effective sample size: sample 0"):
        statistics.effective_sample_size([float("inf")] * 20)


@given(st.permutations(range(16)))
def test_drift_is_scipys_exact_test(order):
    found = statistics.drift([float(x) for x in order])
    wanted = scipy_stats.kendalltau(range(16), order, method="exact")
    assert found.tau == pytest.approx(wanted.statistic)
    assert found.p == pytest.approx(wanted.pvalue)
    assert found.s == round(120 * wanted.statistic)
    assert found.warnings == ()


@given(st.lists(st.integers(0, 4).map(float), min_size=16, max_size=16).filter(lambda found: len(set(found)) > 1))
def test_drift_with_ties_is_scipys_tau_b(means):
    found = statistics.drift(means)
    wanted = scipy_stats.kendalltau(range(16), means, method="asymptotic")
    assert found.tau == pytest.approx(wanted.statistic)
    assert found.p == pytest.approx(wanted.pvalue)
    assert "block means are tied" in found.warnings[0]


@pytest.mark.parametrize("blocks", [33, 34])
def test_drift_over_many_blocks_is_scipys(blocks):
    samples = np.random.default_rng(blocks).normal(10, 1, blocks)
    wanted = scipy_stats.kendalltau(range(blocks), samples, method="exact" if blocks == 33 else "asymptotic")
    assert statistics.drift(samples, blocks).p == pytest.approx(wanted.pvalue)


def test_drift_is_read_from_block_means_of_all_samples():
    samples = np.concatenate([np.tile([1.0, 3.0], 80), [99.0]])  # 161: the last block is one longer
    samples += np.repeat(np.arange(16), [10] * 15 + [11]) * 0.01
    found = statistics.drift(samples)
    assert found.s == 120
    assert statistics.drift(-samples).s == -120
    assert statistics.drift(samples[:-1]).s == 120
    falling = statistics.drift(np.concatenate([samples[::-1][1:], [-99.0]]))  # only its last sample goes down so far
    assert falling.s <= -90


def test_drift_ignores_shift_and_scale():
    samples = ar1(4, 500, 0.3)
    found = statistics.drift(samples)
    assert statistics.drift(4 * samples).p == found.p
    assert statistics.drift(samples + 32).tau == found.tau


def test_chance_is_called_drift_as_often_as_p_says():
    p = np.array([statistics.drift(ar1(seed, 64, 0.0)).p for seed in range(600)])
    assert 0.03 <= (p <= 0.05).mean() <= 0.07
    assert np.mean([abs(statistics.drift(ar1(seed, 64, 0.0)).s) > 45 for seed in range(600)]) == pytest.approx(
        0.04, abs=0.02
    )


def test_drift_of_too_little_is_unknown():
    few, equal = statistics.drift([1.0, 2.0] * 7), statistics.drift([1.0] * 64)
    assert (few.s, few.tau, few.p) == (equal.s, equal.tau, equal.p) == (None, None, None)
    assert few.warnings == ("need >= 16 samples for drift over 16 block means, have 14",)
    assert "all 64 samples are equal" in equal.warnings[0]
    assert statistics.drift([1.0]).warnings == ("need >= 16 samples for drift over 16 block means, have 1",)
    tied = statistics.drift([1.0, 2.0] * 32)
    assert (tied.s, tied.tau, tied.p) == (0, None, None)
    assert "all block means are equal" in tied.warnings[0]
    with pytest.raises(ValueError, match="wanted at least 3"):
        statistics.drift([1.0] * 10, 2)


CALLS = st.lists(st.integers(1, 1000), min_size=4, max_size=60).filter(lambda found: len(set(found)) > 2)


@given(CALLS, st.randoms())
def test_slope_is_scipys(calls, random):
    seconds = [2e-6 * x + 1e-5 * random.random() for x in calls]
    found, wanted = statistics.seconds_per_call(calls, seconds), scipy_stats.linregress(calls, seconds)
    assert found.seconds_per_call == pytest.approx(wanted.slope)
    assert found.seconds_per_batch == pytest.approx(wanted.intercept, abs=1e-12)
    assert found.error == pytest.approx(wanted.stderr, rel=1e-6, abs=1e-12)  # scipy's cancels where the fit is perfect
    assert found.r_squared == pytest.approx(wanted.rvalue**2, abs=1e-9)
    assert found.n == len(calls)


def test_slope_separates_the_calls_from_the_batch():
    calls = np.array([1.0, 2, 4, 8, 16])
    found = statistics.seconds_per_call(calls, 3e-6 + 5e-7 * calls)
    assert found.seconds_per_call == pytest.approx(5e-7)
    assert found.seconds_per_batch == pytest.approx(3e-6)
    assert found.r_squared == pytest.approx(1)
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("calls", "seconds", "warning"),
    [
        ([1, 2, 4, 8], [1.0, 8.0, 2.0, 9.0], "R^2"),
        ([1, 2, 4, 8], [4.0, 3.0, 2.0, 1.0], "longer batches take no more time"),
        ([1, 2, 4, 8], [4.0] * 4, "longer batches take no more time"),
        ([1, 2, 1, 2], [1.0, 2.0, 1.0, 2.0], "need >= 3 samples for a slope"),
        ([8, 8, 8], [1.0, 2.0, 3.0], "have 1"),
        ([], [], "have 0"),
    ],
)
def test_slope_says_what_it_rests_on(calls, seconds, warning):
    assert warning in statistics.seconds_per_call(calls, seconds).warnings[0]


def test_slope_of_one_length_is_unknown():
    found = statistics.seconds_per_call([8, 8, 8], [1.0, 2.0, 3.0])
    assert (found.seconds_per_call, found.seconds_per_batch, found.r_squared, found.error) == (None, None, None, None)
    assert statistics.seconds_per_call([1, 2], [1.0, 2.0]).error is None
    assert statistics.seconds_per_call([1, 2, 4], [4.0] * 3).r_squared is None


@pytest.mark.parametrize(
    ("calls", "seconds", "match"),
    [
        ([1, 2], [1.0], "2 batch lengths and 1 times"),
        ([1, 0], [1.0, 2.0], "batch 1 of 2 has 0 calls"),
        ([1, 2], [1.0, float("nan")], "seconds of a batch: sample 1 of 2 is nan"),
        ([1, float("inf")], [1.0, 2.0], "calls per batch: sample 1 of 2 is inf"),
    ],
)
def test_slope_refuses(calls, seconds, match):
    with pytest.raises(ValueError, match=match):
        statistics.seconds_per_call(calls, seconds)
