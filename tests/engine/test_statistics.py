"""Statistics of samples against scipy, their coverage of a known truth, and their invariances."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.engine import statistics

scipy_stats = pytest.importorskip("scipy.stats", reason="scipy is what the statistics are checked against")

TIMES = st.lists(st.floats(1e-7, 1e2), min_size=3, max_size=200)
TAKING_SAMPLES = (
    *(statistics.trimmed_mean, statistics.cv, statistics.autocorrelation, statistics.half_width),
    lambda samples: statistics.long_blocks(samples, 6),
)


def ar1(seed, n, phi):
    """A first-order autoregression around 10."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=n)
    noise[0] /= (1 - phi**2) ** 0.5
    for i in range(1, n):
        noise[i] += phi * noise[i - 1]
    return 10 + noise


@given(TIMES, st.randoms())
def test_trimmed_mean_is_scipys(samples, random):
    result = statistics.trimmed_mean(random.sample(samples, len(samples)))
    assert result == pytest.approx(scipy_stats.trim_mean(samples, 0.1))
    assert statistics.trimmed_mean([3 * x for x in samples]) == pytest.approx(3 * result)


@given(TIMES)
def test_cv_is_scipys(samples):
    assert statistics.cv(samples) == pytest.approx(scipy_stats.variation(samples, ddof=1))


@given(TIMES)
def test_autocorrelation_follows_the_definition(samples):
    result = statistics.autocorrelation(samples)
    if result is None:
        return
    centred = [x - np.mean(samples) for x in samples]
    products = sum(a * b for a, b in pairwise(centred))
    assert result == pytest.approx(products / sum(a * a for a in centred), abs=1e-9)
    assert -1 <= result <= 1


@pytest.mark.parametrize("degrees", [1, 2, 7, 30, 31, 60, 1000])
def test_t_quantile_is_scipys(degrees):
    assert statistics.t_975(degrees) == pytest.approx(scipy_stats.t.ppf(0.975, degrees), abs=6e-4)


@pytest.mark.parametrize("function", TAKING_SAMPLES)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nonfinite_sample_is_refused(function, bad):
    samples = [1.0 + i / 7 for i in range(40)]
    samples[7] = bad
    with pytest.raises(ValueError, match=f"sample 7 of 40 is {bad!r}"):
        function(samples)
    with pytest.raises(ValueError, match="shape"):
        function(np.ones((20, 2)))


@pytest.mark.parametrize(
    ("refused", "match"),
    [
        (lambda: statistics.trimmed_mean([]), "no samples"),
        (lambda: statistics.t_975(0), "at least 1"),
    ],
)
def test_meaningless_arguments_are_refused(refused, match):
    with pytest.raises(ValueError, match=match):
        refused()


def test_too_few_samples_are_unknown():
    assert statistics.cv([1.0]) is None
    assert statistics.cv([-1.0, 1.0]) is None
    assert statistics.autocorrelation([1.0, 2.0]) is None
    assert statistics.autocorrelation([2.0] * 50) is None
    assert statistics.autocorrelation([1.0, np.nextafter(1, 2)] * 50) is None  # rounding does not alternate
    assert statistics.half_width([]) is None
    assert statistics.half_width([1.0] * 15) is None
    assert statistics.half_width([1.0] * 16) == 0.0
    assert statistics.half_width([-1.0, 1.0] * 8) is None  # relative to nothing
    assert statistics.long_blocks(np.arange(11.0), 6) is None
    assert statistics.long_blocks(np.ones(12), 6).tolist() == [0.0] * 6


@pytest.mark.parametrize(("n", "sizes"), [(16, [1]), (64, [1, 4, 8]), (100, [1, 5, 10]), (512, [1, 8, 23, 64])])
def test_half_width_is_the_widest_of_block_means(n, sizes):
    """Student's interval of the trimmed mean, by scipy, from means of blocks of which there are at least eight."""
    for seed in range(10):
        samples = 100 + np.cumsum(np.random.default_rng(seed).normal(size=n))  # a walk: the longest blocks count
        psi = np.asarray(scipy_stats.mstats.winsorize(samples, limits=(0.1, 0.1))) / 0.8
        widths = []
        for size in sizes:
            means = psi[: n // size * size].reshape(-1, size).mean(axis=1)
            widths.append(scipy_stats.t.ppf(0.975, means.size - 1) * scipy_stats.sem(means))
        wanted = max(widths) / scipy_stats.trim_mean(samples, 0.1)
        assert statistics.half_width(samples) == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize(("phi", "at_least"), [(0.0, 0.93), (0.6, 0.80)])
def test_half_width_covers_the_truth(phi, at_least):
    rounds = [90 + ar1(seed, 400, phi) for seed in range(300)]
    hits = [abs(statistics.trimmed_mean(round_) / 100 - 1) <= statistics.half_width(round_) for round_ in rounds]
    assert at_least <= np.mean(hits) < 1  # an interval that is always right is too wide


@given(st.lists(st.floats(0.1, 10), min_size=12, max_size=120), st.integers(2, 6))
def test_long_blocks_are_means_of_influence_values(samples, blocks):
    psi = statistics.influence(np.asarray(samples))
    edges = [len(samples) * number // blocks for number in range(blocks + 1)]
    expected = [psi[low:high].mean() for low, high in pairwise(edges)]
    assert statistics.long_blocks(samples, blocks) == pytest.approx(expected, abs=1e-9)
