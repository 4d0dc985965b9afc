"""The statistics' primitives against scipy, and their invariances."""

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.harness import statistics
from kernel_velocity.harness.statistics import primitives

scipy_stats = pytest.importorskip("scipy.stats", reason="scipy is what the statistics are checked against")

TIMES = st.lists(st.floats(1e-7, 1e2), min_size=3, max_size=200)
TIED = st.lists(st.integers(-5, 5).map(float), min_size=2, max_size=60)
TAKING_SAMPLES = (
    statistics.trimmed_mean,
    statistics.cv,
    statistics.autocorrelation,
    statistics.relative_standard_error,
    statistics.concordance,
    statistics.block_half_width,
    statistics.half_width,
)


@given(TIMES, st.sampled_from([0.0, 0.05, 0.1, 0.25]))
def test_trimmed_mean_is_scipys(samples, proportion):
    assert statistics.trimmed_mean(samples, proportion) == pytest.approx(scipy_stats.trim_mean(samples, proportion))


@given(TIMES, st.randoms())
def test_trimmed_mean_ignores_order_and_scales(samples, random):
    shuffled = random.sample(samples, len(samples))
    assert statistics.trimmed_mean(shuffled) == pytest.approx(statistics.trimmed_mean(samples))
    assert statistics.trimmed_mean([3 * x for x in samples]) == pytest.approx(3 * statistics.trimmed_mean(samples))


@pytest.mark.parametrize(("samples", "proportion"), [([], 0.1), ([1.0], 0.5), ([1.0], -0.1)])
def test_trimmed_mean_refuses(samples, proportion):
    with pytest.raises(ValueError, match=r"no samples|wanted \[0, \.5\)"):
        statistics.trimmed_mean(samples, proportion)


def test_a_half_width_refuses_a_proportion_that_trims_everything():
    with pytest.raises(ValueError, match=r"wanted \[0, \.5\)"):
        statistics.block_half_width(np.arange(20.0), 0.5)


@pytest.mark.parametrize("function", TAKING_SAMPLES, ids=lambda function: function.__name__)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_refused_and_named(function, bad):
    samples = [1.0 + i / 7 for i in range(40)]
    samples[7] = bad
    with pytest.raises(ValueError, match=f"sample 7 of 40 is {bad!r}"):
        function(samples)


@pytest.mark.parametrize("function", TAKING_SAMPLES, ids=lambda function: function.__name__)
def test_a_table_is_no_sequence_of_samples(function):
    with pytest.raises(ValueError, match="shape"):
        function(np.ones((20, 2)))


@pytest.mark.parametrize("function", TAKING_SAMPLES, ids=lambda function: function.__name__)
def test_lists_tuples_and_arrays_are_the_same_samples(function):
    samples = np.random.default_rng(5).lognormal(-9, 0.3, 64)
    assert function(samples) == function(samples.tolist()) == function(tuple(samples.tolist()))


@given(TIMES)
def test_cv_is_scipys(samples):
    assert statistics.cv(samples) == pytest.approx(scipy_stats.variation(samples, ddof=1))


@given(TIMES)
def test_relative_standard_error_is_scipys(samples):
    assert statistics.relative_standard_error(samples) == pytest.approx(scipy_stats.sem(samples) / np.mean(samples))


def test_relative_standard_error_takes_the_conservative_exponent():
    samples = [1.0, 2.0, 3.0, 4.0, 2.0, 1.0, 3.0, 2.0]
    assert statistics.relative_standard_error(samples, 1 / 3) == pytest.approx(statistics.cv(samples) / 2)
    assert statistics.relative_standard_error([-x for x in samples]) > 0  # an error has no sign


@pytest.mark.parametrize(("samples", "match"), [([1.0], "need >= 2 samples, have 1"), ([-1.0, 1.0], "mean of zero")])
def test_relative_standard_error_refuses(samples, match):
    with pytest.raises(ValueError, match=match):
        statistics.relative_standard_error(samples)


def test_too_little_data_is_unknown():
    assert statistics.cv([1.0]) is None
    assert statistics.cv([-1.0, 1.0]) is None
    assert statistics.autocorrelation([1.0, 2.0]) is None
    assert statistics.autocorrelation([2.0] * 50) is None
    assert statistics.autocorrelation([1.0, np.nextafter(1, 2)] * 50) is None  # rounding does not alternate
    assert statistics.half_width([1.0] * 15) is None
    assert statistics.half_width([]) is None
    assert statistics.block_half_width([1.0] * 15) is None
    assert statistics.block_half_width([1.0] * 16) == 0.0
    assert statistics.half_width([-1.0, 1.0] * 8) is None  # relative to nothing


def test_autocorrelation_sees_alternation_and_trend():
    assert statistics.autocorrelation([1.0, 2.0] * 50) == pytest.approx(-1, abs=0.02)
    assert statistics.autocorrelation([1.0, 2.0] * 50, 2) == pytest.approx(1, abs=0.03)
    assert statistics.autocorrelation(np.linspace(1, 2, 100)) == pytest.approx(1, abs=0.05)


@given(TIMES, st.integers(1, 20))
def test_autocorrelation_is_the_definitions(samples, lag):
    found = statistics.autocorrelation(samples, lag)
    if found is None:
        return
    centred = [x - np.mean(samples) for x in samples]
    products = sum(a * b for a, b in zip(centred, centred[lag:], strict=False))
    assert found == pytest.approx(products / sum(a * a for a in centred), abs=1e-9)
    assert -1 <= found <= 1


def test_autocorrelation_refuses_a_lag_that_is_none():
    for lag in (0, -1):
        with pytest.raises(ValueError, match="wanted at least 1"):
            statistics.autocorrelation([1.0, 2.0, 3.0], lag)


def _pairs(values):
    return int(np.triu(np.sign(np.subtract.outer(values, values).T), 1).sum())


@given(TIED)
def test_concordance_counts_every_pair(samples):
    assert statistics.concordance(samples) == _pairs(samples)
    assert statistics.concordance(samples[::-1]) == -statistics.concordance(samples)
    assert primitives._concordance_long(np.asarray(samples)) == _pairs(samples)


@given(st.permutations(range(40)))
def test_concordance_is_scipys(order):
    tau = scipy_stats.kendalltau(range(40), order).statistic
    assert statistics.concordance([float(x) for x in order]) == round(tau * 40 * 39 / 2)


@pytest.mark.parametrize("n", [0, 1, 2, 511, 512, 513, 700, 1024, 1025])
def test_concordance_of_many(n):
    samples = np.random.default_rng(n).integers(0, n + 1, n).astype(float)
    assert statistics.concordance(samples) == _pairs(samples)
    assert statistics.concordance(np.arange(float(n))) == n * (n - 1) // 2


@given(TIED)
def test_concordance_ignores_shift_and_scale(samples):
    assert statistics.concordance([5 + 2 * x for x in samples]) == statistics.concordance(samples)


def _ar1(rng, n, phi):
    noise = rng.normal(size=n)
    for i in range(1, n):
        noise[i] += phi * noise[i - 1]
    return noise


@pytest.mark.parametrize("degrees", [1, 2, 7, 30, 31, 60, 1000])
def test_t_quantile_is_scipys(degrees):
    assert statistics.t_975(degrees) == pytest.approx(scipy_stats.t.ppf(0.975, degrees), abs=6e-4)
    with pytest.raises(ValueError, match="at least 1"):
        statistics.t_975(0)


@pytest.mark.parametrize(("phi", "at_least"), [(0.0, 0.93), (0.6, 0.80)])
def test_half_width_covers_the_truth(phi, at_least):
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(300):
        samples = 100 + _ar1(rng, 400, phi)
        hits += abs(statistics.trimmed_mean(samples) / 100 - 1) <= statistics.half_width(samples)
    assert hits / 300 >= at_least
    assert hits / 300 < 1  # an interval that is always right is too wide


def test_half_width_scales_away():
    samples = np.random.default_rng(3).normal(10, 1, 100)
    assert statistics.half_width(samples * 1e-6) == pytest.approx(statistics.half_width(samples))
    assert statistics.half_width(samples) == statistics.block_half_width(samples) / statistics.trimmed_mean(samples)


def test_block_half_width_scales_and_does_not_shift():
    samples = np.random.default_rng(4).lognormal(0, 0.2, 200)
    width = statistics.block_half_width(samples)
    assert statistics.block_half_width(samples * 1e-6) == pytest.approx(1e-6 * width)
    assert statistics.block_half_width(samples + 50) == pytest.approx(width)


def test_independent_samples_of_one_block_size_have_the_textbooks_interval():
    """With 16 samples only blocks of one are many enough; without trimming that is Student's interval of the mean."""
    samples = np.random.default_rng(6).normal(10, 1, 16)
    low, high = scipy_stats.t.interval(0.95, 15, samples.mean(), scipy_stats.sem(samples))
    assert statistics.block_half_width(samples, 0.0) == pytest.approx((high - low) / 2, rel=1e-3)


def test_influence_values_give_the_trimmed_means_standard_error():
    samples = np.random.default_rng(7).lognormal(0, 0.5, 100)
    wanted = scipy_stats.mstats.trimmed_stde(samples, limits=(0.1, 0.1))
    found = primitives.influence(samples).std(ddof=1) / len(samples) ** 0.5
    assert found == pytest.approx(wanted)
    assert primitives.influence(samples).mean() == pytest.approx(0, abs=1e-12)


def test_blocks_carry_what_neighbours_share():
    """Eight long runs of almost equal samples are eight observations, not 512."""
    levels = np.random.default_rng(8).normal(10, 1, 8)
    samples = np.repeat(levels, 64) + np.random.default_rng(9).normal(0, 0.001, 512)
    alone = np.random.default_rng(10).permutation(samples)
    assert statistics.block_half_width(samples) > 4 * statistics.block_half_width(alone)


def test_values_are_frozen():
    for value in (statistics.Figure(1.0), statistics.Interval(low=0.0, high=1.0, level=0.95, method="none")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            value.warnings = ("changed",)


@given(st.lists(st.floats(0.1, 10), min_size=12, max_size=120), st.integers(2, 6))
def test_long_blocks_are_the_influence_values_means(samples, blocks):
    psi = primitives.influence(np.asarray(samples))
    found = statistics.long_blocks(samples, blocks)
    edges = [len(samples) * number // blocks for number in range(blocks + 1)]
    expected = [psi[low:high].mean() for low, high in pairwise(edges)]
    assert found == pytest.approx(expected, abs=1e-9)
    assert statistics.long_blocks(3 * np.asarray(samples), blocks) == pytest.approx(3 * found, abs=1e-9)


def test_long_blocks_want_two_samples_each():
    assert statistics.long_blocks(np.arange(11.0), 6) is None
    assert statistics.long_blocks(np.ones(12), 6).tolist() == [0.0] * 6
    with pytest.raises(ValueError, match="long blocks: sample 3 of 12 is nan"):
        statistics.long_blocks([1.0] * 3 + [math.nan] + [1.0] * 8, 6)
    with pytest.raises(ValueError, match=r"wanted \[0, \.5\)"):
        statistics.long_blocks(np.arange(12.0), 6, 0.5)
