"""Bootstrap intervals: scipy's on the same resamples, their coverage on known distributions, and what they refuse."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from kernel_velocity.harness import statistics
from kernel_velocity.harness.statistics import resampling

SAMPLES = np.random.default_rng(0).lognormal(-9, 0.4, 80)
STATISTICS = (statistics.mean_of_rows, statistics.median_of_rows, statistics.trimmed_mean_of_rows)
INTERVALS = (statistics.bca_interval, statistics.block_bootstrap_interval)


def ar1(seed, n, phi):
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=n)
    noise[0] /= (1 - phi**2) ** 0.5
    for i in range(1, n):
        noise[i] += phi * noise[i - 1]
    return 10 + noise


def coverage(interval, draw, truth, runs=200):
    """Return how often the interval holds the truth over seeded runs."""
    found = [interval(draw(seed), seed) for seed in range(runs)]
    return np.mean([each.low <= truth <= each.high for each in found])


def scipys_bca(statistic, drawn, level=0.95):
    scipy_stats = pytest.importorskip("scipy.stats", reason="scipy is what the interval is checked against")
    return scipy_stats.bootstrap(
        (SAMPLES,),
        lambda rows, axis: statistic(np.moveaxis(rows, axis, -1)),
        n_resamples=0,
        bootstrap_result=SimpleNamespace(bootstrap_distribution=drawn),
        method="BCa",
        confidence_level=level,
        vectorized=True,
    ).confidence_interval


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda statistic: statistic.__name__)
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_bca_is_scipys_on_the_same_resamples(statistic, level):
    drawn = statistics.bootstrap_distribution(SAMPLES, statistic, resamples=5000, seed=3)
    wanted = scipys_bca(statistic, drawn, level)
    found = statistics.bca_interval(SAMPLES, statistic, level=level, resamples=5000, seed=3)
    assert (found.low, found.high) == pytest.approx(tuple(wanted), rel=1e-12)
    assert found.warnings == ()


def test_bca_is_scipys_on_resamples_drawn_elsewhere():
    elsewhere = np.random.default_rng(9).choice(SAMPLES, (20_000, len(SAMPLES)))
    wanted = scipys_bca(statistics.mean_of_rows, elsewhere.mean(axis=1))
    found = statistics.bca_interval(SAMPLES, statistics.mean_of_rows, resamples=20_000)
    # An end of 20,000 resamples moves by about .02 of the standard error, .5% of the width, from seed to seed.
    width = wanted.high - wanted.low
    assert (found.low, found.high) == pytest.approx(tuple(wanted), abs=0.02 * width)


def test_row_statistics_are_the_samples_statistics():
    rows = np.random.default_rng(1).lognormal(0, 1, (7, 55))
    means, medians, trimmed = (statistic(rows) for statistic in STATISTICS)
    for i, row in enumerate(rows):
        assert means[i] == pytest.approx(row.mean())
        assert medians[i] == np.median(row)
        assert trimmed[i] == pytest.approx(statistics.trimmed_mean(row))


@pytest.mark.parametrize("interval", INTERVALS)
def test_the_same_seed_gives_the_same_interval(interval):
    first = interval(SAMPLES, resamples=500, seed=1)
    assert interval(SAMPLES, resamples=500, seed=1) == first
    assert interval(SAMPLES, resamples=500, seed=2) != first
    assert interval(SAMPLES.tolist(), resamples=500, seed=1) == first


@pytest.mark.parametrize("interval", INTERVALS)
def test_intervals_scale_and_shift(interval):
    found = interval(SAMPLES, resamples=500)
    scaled, shifted = interval(1e6 * SAMPLES, resamples=500), interval(SAMPLES + 1, resamples=500)
    assert (scaled.low, scaled.high) == pytest.approx((1e6 * found.low, 1e6 * found.high))
    assert (shifted.low - 1, shifted.high - 1) == pytest.approx((found.low, found.high), rel=1e-6)
    assert found.low < statistics.trimmed_mean(SAMPLES) < found.high


@pytest.mark.parametrize("interval", INTERVALS)
def test_a_higher_level_is_a_wider_interval(interval):
    narrow, wide = (interval(SAMPLES, level=level, resamples=2000) for level in (0.8, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high
    assert (narrow.level, wide.level) == (0.8, 0.99)


def test_bca_covers_the_truth_of_a_skew_distribution():
    def interval(samples, seed):
        return statistics.bca_interval(samples, statistics.mean_of_rows, resamples=1000, seed=seed)

    found = coverage(interval, lambda seed: np.random.default_rng(seed).exponential(1, 60), 1.0, 300)
    assert 0.91 <= found <= 0.98


def test_bca_corrects_for_skewness():
    """The interval of an exponential mean reaches further up than down, as the plain percentile one does too little."""
    samples = np.random.default_rng(11).exponential(1, 40)
    drawn = statistics.bootstrap_distribution(samples, statistics.mean_of_rows, resamples=20_000)
    low, high = np.quantile(drawn, (0.025, 0.975))
    found = statistics.bca_interval(samples, statistics.mean_of_rows, resamples=20_000)
    assert found.low > low
    assert found.high > high


@pytest.mark.parametrize(("phi", "at_least"), [(0.0, 0.91), (0.6, 0.88)])
def test_blocks_cover_the_truth_of_followers(phi, at_least):
    def interval(samples, seed):
        return statistics.block_bootstrap_interval(samples, statistics.mean_of_rows, resamples=500, seed=seed)

    found = coverage(interval, lambda seed: ar1(seed, 600, phi), 10.0)
    assert at_least <= found <= 0.98


def test_independent_resampling_of_followers_is_too_narrow_and_says_so():
    def interval(samples, seed):
        return statistics.bca_interval(samples, statistics.mean_of_rows, resamples=500, seed=seed)

    assert coverage(interval, lambda seed: ar1(seed, 600, 0.6), 10.0, 100) < 0.8
    assert "correlated" in interval(ar1(0, 600, 0.6), 0).warnings[0]
    assert interval(ar1(0, 600, 0.0), 0).warnings == ()


def test_every_sample_is_drawn_equally_often_also_in_blocks():
    for block in (None, 1, 7, 20):
        drawn = statistics.bootstrap_distribution(
            np.eye(20)[0], statistics.mean_of_rows, resamples=20_000, block=block, seed=4
        )
        last = statistics.bootstrap_distribution(
            np.eye(20)[19], statistics.mean_of_rows, resamples=20_000, block=block, seed=4
        )
        assert drawn.mean() == pytest.approx(1 / 20, rel=0.05)
        assert last.mean() == pytest.approx(1 / 20, rel=0.05)


def test_blocks_hold_neighbours_in_their_order():
    samples = np.arange(12.0)
    seen = []

    def spy(rows):
        seen.append(rows.copy())
        return rows.mean(axis=1)

    statistics.bootstrap_distribution(samples, spy, resamples=50, block=4)
    rows = np.concatenate(seen)
    assert rows.shape == (50, 12)
    inside = np.diff(rows.reshape(-1, 4), axis=1) % 12
    assert (inside == 1).all()
    assert len(np.unique(rows[:, 0])) == 12  # a block may begin anywhere
    statistics.bootstrap_distribution(samples, spy, resamples=50, block=5)
    assert seen[-1].shape == (50, 12)  # the last block is cut: a resample is as long as the samples


def test_a_block_of_all_samples_is_always_the_sample_itself():
    drawn = statistics.bootstrap_distribution(SAMPLES, statistics.mean_of_rows, resamples=100, block=len(SAMPLES))
    assert drawn == pytest.approx(np.full(100, SAMPLES.mean()))


@pytest.mark.parametrize(("n", "resamples"), [(400, 20_000), (300_000, 20)])
def test_memory_does_not_grow_with_the_resamples(n, resamples):
    samples = np.random.default_rng(5).normal(10, 1, n)
    for block in (None, 10):
        tracemalloc.start()
        drawn = statistics.bootstrap_distribution(samples, statistics.mean_of_rows, resamples=resamples, block=block)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert drawn.shape == (resamples,)
        assert peak < 10 * 8 * max(resampling.AT_ONCE, n)  # 8 bytes each: indices, values, and their making


@pytest.mark.parametrize("phi", [0.3, 0.6, 0.9])
def test_block_length_is_the_theorys(phi):
    n = 2000
    ratio = (2 * phi / (1 - phi) ** 2) / ((1 + phi) / (1 - phi))  # of sum |k| r_k to sum r_k over all lags
    found = np.median([statistics.block_length(ar1(seed, n, phi)) for seed in range(40)])
    assert found == pytest.approx((1.5 * ratio**2 * n) ** (1 / 3), rel=0.3)


def test_block_length_of_independent_short_constant_and_wild_samples():
    assert np.median([statistics.block_length(ar1(seed, 500, 0.0)) for seed in range(40)]) == 1
    assert statistics.block_length(np.arange(15.0)) == 1
    assert statistics.block_length([0.1] * 100) == 1
    assert statistics.block_length([1.0, 2.0] * 100) == 1
    walk = np.cumsum(np.random.default_rng(0).normal(size=2000))
    assert statistics.block_length(walk) == 135  # at most 3 sqrt(n)
    # Alternating samples: the mean's variance is next to nothing, the quotient anything.
    assert max(statistics.block_length(ar1(seed, 18, -0.9)) for seed in range(200)) == 6  # at most a third


def test_the_block_can_be_chosen_and_is_named():
    found = statistics.block_bootstrap_interval(SAMPLES, resamples=500, block=5)
    assert found.method == "circular block bootstrap, blocks of 5, 500 resamples"
    assert found.warnings == ()
    assert (
        "need >= 88 samples for 8 blocks of 11, have 80"
        in statistics.block_bootstrap_interval(SAMPLES, resamples=500, block=11).warnings
    )


def test_a_hundred_thousand_resamples_are_the_default():
    assert "100000 resamples" in statistics.bca_interval([1.0, 2.0, 4.0] * 7).method
    assert len(statistics.bootstrap_distribution([1.0, 2.0], statistics.mean_of_rows)) == 100_000


@pytest.mark.parametrize("interval", INTERVALS)
def test_too_few_or_equal_samples(interval):
    alone = interval([1.0], resamples=100)
    assert (alone.low, alone.high) == (None, None)
    assert alone.warnings == ("need >= 2 samples for a bootstrap interval, have 1",)
    equal = interval([0.1] * 30, resamples=100)
    assert (equal.low, equal.high) == (0.1, 0.1)
    assert "all 30 samples are equal" in equal.warnings[0]
    few = interval(SAMPLES[:8], resamples=2000)
    assert few.low < few.high
    assert few.warnings[0].startswith("need >= ")
    assert few.warnings[0].endswith("have 8")
    assert interval(np.random.default_rng(1).permutation(SAMPLES[:20]), resamples=2000).warnings == ()


def test_bca_says_where_it_cannot_correct():
    def repeated(rows):
        return (np.diff(np.sort(rows, axis=-1), axis=-1) == 0).sum(axis=-1).astype(float)

    above = statistics.bca_interval(SAMPLES, repeated, resamples=200)  # the samples are all different, no resample is
    assert (above.low, above.high) == (None, None)
    assert "every resample lies above the estimate" in above.warnings[-1]
    below = statistics.bca_interval(SAMPLES, lambda rows: -repeated(rows), resamples=200)
    assert "every resample lies below the estimate" in below.warnings[-1]
    tied = statistics.bca_interval([1.0, 2.0, 1.0] * 30, statistics.median_of_rows, resamples=500)
    assert tied.low == 1.0
    assert "leaving out any sample leaves the estimate as it is" in tied.warnings[0]


def test_an_end_that_rests_on_few_resamples_says_so():
    found = statistics.block_bootstrap_interval(SAMPLES, resamples=100)
    assert found.warnings == ("2.5 of 100 resamples lie beyond an end of the interval; need >= 10",)
    assert "lie beyond" in statistics.bca_interval(SAMPLES, resamples=100).warnings[-1]


def test_groups_of_the_jackknife_have_the_samples_acceleration(monkeypatch):
    samples = np.random.default_rng(6).exponential(1, 3000)
    one_by_one = np.sum((samples - samples.mean()) ** 3) / (6 * np.sum((samples - samples.mean()) ** 2) ** 1.5)
    monkeypatch.setattr(resampling, "JACKKNIFE_GROUPS", 3000)
    assert resampling._acceleration(samples, statistics.mean_of_rows)[0] == pytest.approx(one_by_one)
    monkeypatch.setattr(resampling, "JACKKNIFE_GROUPS", 1000)
    assert len(resampling._jackknife(samples, statistics.mean_of_rows)) == 1000
    assert resampling._acceleration(samples, statistics.mean_of_rows)[0] == pytest.approx(one_by_one, rel=0.3)


@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, float("nan")])
def test_a_level_that_is_none_is_refused(interval, level):
    with pytest.raises(ValueError, match="wanted a share between 0 and 1"):
        interval(SAMPLES, level=level)


@pytest.mark.parametrize("interval", INTERVALS)
def test_samples_that_are_not_finite_are_refused(interval):
    with pytest.raises(ValueError, match="interval: sample 1 of 2 is nan"):
        interval([1.0, float("nan")])


@pytest.mark.parametrize(
    ("samples", "options", "match"),
    [
        ([], {}, "0 samples"),
        ([1.0], {"resamples": 0}, "0 resamples"),
        ([1.0, 2.0], {"block": 0}, "blocks of 0; wanted 1 to 2"),
        ([1.0, 2.0], {"block": 3}, "blocks of 3; wanted 1 to 2"),
    ],
)
def test_a_distribution_of_nothing_is_refused(samples, options, match):
    with pytest.raises(ValueError, match=match):
        statistics.bootstrap_distribution(samples, statistics.mean_of_rows, **options)
