"""The shape of samples: outliers, inequality and modes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.harness import statistics
from kernel_velocity.harness.statistics import OutlierClass

SAMPLES = st.lists(st.floats(0.01, 1e3), min_size=4, max_size=100)


def counts(found):
    return tuple(each.count for each in found.classes)


def test_each_class_of_outliers_lies_where_tukey_says():
    inner = np.linspace(10, 20, 101)
    for _ in range(20):  # quartiles that the four values themselves do not move
        inner = np.concatenate([inner, [12.5, 17.5]])
    quarter = np.percentile([*inner, -5.0, 2.0, 28.0, 40.0], [25, 75])
    assert quarter == pytest.approx([12.5, 17.5])  # so that the fences are at -2.5, 5, 25 and 32.5
    assert counts(statistics.outliers([*inner, -5.0, 2.0, 28.0, 40.0])) == (1, 1, 1, 1)
    assert counts(statistics.outliers([*inner, -2.5, 5.0, 25.0, 32.5])) == (0, 1, 1, 0)  # a fence belongs to its inside
    assert counts(statistics.outliers([*inner, -2.6, 4.9, 25.1, 32.6])) == (1, 1, 1, 1)
    assert counts(statistics.outliers([*inner, 28.0, 29.0, 40.0])) == (0, 0, 2, 1)


@given(SAMPLES, st.randoms())
def test_outliers_ignore_order_and_unit_and_mirror(samples, random):
    found = statistics.outliers(samples)
    assert counts(statistics.outliers(random.sample(samples, len(samples)))) == counts(found)
    assert counts(statistics.outliers([2 * x for x in samples])) == counts(found)
    assert counts(statistics.outliers([-x for x in samples])) == counts(found)[::-1]


def test_outliers_ignore_a_shift():
    samples = np.random.default_rng(1).standard_cauchy(300)
    assert sum(counts(statistics.outliers(samples))) > 0
    assert counts(statistics.outliers(samples + 64)) == counts(statistics.outliers(samples))


def test_the_share_of_the_variance_is_what_leaving_the_classes_out_would_take():
    samples = np.random.default_rng(2).standard_t(2, 500)
    found = statistics.outliers(samples)
    squares = (samples - samples.mean()) ** 2
    first, third = np.percentile(samples, [25, 75])
    beyond = np.maximum(first - samples, samples - third) / (third - first)
    assert found.count == (beyond > 1.5).sum()
    assert found.variance_share == pytest.approx(squares[beyond > 1.5].sum() / squares.sum())
    assert found.high_severe.variance_share == pytest.approx(
        squares[(beyond > 3) & (samples > third)].sum() / squares.sum()
    )
    assert 0.3 < found.variance_share < 1


def test_one_far_sample_is_nearly_all_of_the_variance():
    found = statistics.outliers([1.0, 1.1, 0.9, 1.05, 0.95] * 10 + [100.0])
    assert counts(found) == (0, 0, 0, 1)
    assert found.variance_share > 0.95
    assert found.n == 51


def test_normal_samples_have_seven_outliers_in_a_thousand():
    found = statistics.outliers(np.random.default_rng(3).normal(10, 1, 100_000))
    assert found.count / found.n == pytest.approx(0.007, abs=0.001)
    assert found.low_severe.count + found.high_severe.count <= 3


def test_outliers_of_too_little_are_unknown():
    found = statistics.outliers([1.0, 2.0, 9.0])
    assert found.classes == (OutlierClass(None, None),) * 4
    assert (found.count, found.variance_share, found.n) == (None, None, 3)
    assert found.warnings == ("need >= 4 samples for quartiles, have 3",)
    short = statistics.outliers(np.arange(19.0))
    assert short.count == 0
    assert short.warnings == ("need >= 20 samples for outliers that are more than chance, have 19",)
    assert statistics.outliers(np.arange(20.0)).warnings == ()


def test_equal_and_tied_samples_say_so():
    equal = statistics.outliers([0.1] * 30)
    assert (equal.count, equal.variance_share) == (0, None)
    assert "all 30 samples are equal" in equal.warnings[0]
    tied = statistics.outliers([1.0] * 28 + [0.9, 1.1])
    assert counts(tied) == (1, 0, 0, 1)
    assert tied.variance_share == pytest.approx(1)
    assert "middle half" in tied.warnings[0]


@given(SAMPLES)
def test_gini_is_the_mean_difference_over_twice_the_mean(samples):
    values = np.asarray(samples)
    wanted = np.abs(np.subtract.outer(values, values)).mean() / (2 * values.mean())
    assert statistics.gini(samples).value == pytest.approx(wanted, abs=1e-9)


@given(SAMPLES, st.randoms())
def test_gini_ignores_order_and_unit(samples, random):
    found = statistics.gini(samples).value
    assert statistics.gini(random.sample(samples, len(samples))).value == pytest.approx(found, abs=1e-12)
    assert statistics.gini([3 * x for x in samples]).value == pytest.approx(found, abs=1e-12)
    assert 0 <= found <= 1 - 1 / len(samples)


def test_gini_at_its_ends():
    equal = [statistics.gini([share] * n).value for n in range(2, 300) for share in (0.1, 0.3, 1 / 3)]
    assert equal == pytest.approx([0] * len(equal), abs=1e-15)
    assert min(equal) >= 0  # rounding is no negative inequality
    assert statistics.gini([0.0] * 9 + [5.0]).value == pytest.approx(0.9)
    assert statistics.gini([1.0]).warnings == ("need >= 2 samples for inequality, have 1",)


def test_there_is_nothing_to_share_out():
    for found in (statistics.gini([0.0] * 5), statistics.lorenz_curve([0.0] * 5)):
        assert found.warnings == ("all 5 samples are zero: there is nothing to share out",)
    assert statistics.gini([0.0] * 5).value is None
    assert statistics.gini([]).value is None
    assert statistics.lorenz_curve([]).share == ()


@pytest.mark.parametrize("function", [statistics.gini, statistics.lorenz_curve])
def test_negative_times_have_no_shares(function):
    with pytest.raises(ValueError, match=r"sample 1 of 3 is -2\.0; wanted none below zero"):
        function([1.0, -2.0, 3.0])


@given(SAMPLES)
def test_the_lorenz_curve_holds_what_gini_says(samples):
    curve = statistics.lorenz_curve(samples, len(samples) + 1)
    assert (curve.population[0], curve.share[0], curve.population[-1]) == (0, 0, 1)
    assert curve.share[-1] == pytest.approx(1)
    area = np.diff(curve.population) @ (np.add(curve.share[1:], curve.share[:-1]) / 2)
    assert 1 - 2 * area == pytest.approx(statistics.gini(samples).value, abs=1e-9)
    steps = np.diff(curve.share)
    assert (steps >= -1e-12).all()
    assert (np.diff(steps) >= -1e-9).all()  # convex: the lowest samples come first


def test_the_lorenz_curve_is_read_between_samples():
    assert statistics.lorenz_curve([1.0, 3.0], 5).share == pytest.approx((0, 0.125, 0.25, 0.625, 1))
    assert statistics.lorenz_curve([2.0] * 10, 3).share == pytest.approx((0, 0.5, 1))
    assert len(statistics.lorenz_curve(np.arange(1000.0)).share) == 101
    assert statistics.lorenz_curve([1.0, 3.0]).warnings == ()
    assert statistics.lorenz_curve([1.0]).warnings == ("need >= 2 samples for inequality, have 1",)
    with pytest.raises(ValueError, match="wanted at least 2"):
        statistics.lorenz_curve([1.0, 2.0], 1)


def mixture(seed, n, distance, share):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < share, 10 + distance, 10) + rng.normal(0, 1, n)


def suspected(draw, runs=200):
    found = [statistics.modality(draw(seed)) for seed in range(runs)]
    assert all(bool(each.warnings) == (each.value > 2.8) for each in found)
    return np.mean([each.value > 2.8 for each in found])


@pytest.mark.parametrize(("n", "at_most"), [(64, 0.05), (256, 0.02), (2000, 0.01)])
def test_one_mode_is_rarely_suspected(n, at_most):
    assert suspected(lambda seed: np.random.default_rng(seed).normal(10, 1, n)) <= at_most
    assert suspected(lambda seed: np.random.default_rng(seed).lognormal(0, 0.5, n)) <= at_most


@pytest.mark.parametrize(("n", "at_least"), [(64, 0.6), (256, 0.98), (2000, 1.0)])
def test_two_modes_are_suspected(n, at_least):
    assert suspected(lambda seed: mixture(seed, n, 6, 0.5)) >= at_least


def test_mvalue_counts_modes():
    spikes = [np.random.default_rng(k).normal(10 * k, 0.5, 1000) for k in range(4)]
    for modes in (1, 2, 3, 4):
        found = statistics.modality(np.concatenate(spikes[:modes]))
        assert found.value == pytest.approx(2 * modes, abs=0.5)
        assert bool(found.warnings) == (modes > 1)
    assert "more than one mode is suspected" in found.warnings[0]


def test_a_small_second_mode_is_below_the_suspicion():
    assert (
        suspected(lambda seed: mixture(seed, 2000, 6, 0.2), 50) <= 0.1
    )  # its height over the highest: about a quarter


@pytest.mark.parametrize("ticks", [3, 10, 30])
def test_a_clocks_ticks_are_no_modes(ticks):
    """Bins that are no whole number of ticks hold one tick or two by turns: a comb, an mvalue of dozens."""
    for seed in range(20):
        samples = np.random.default_rng(seed).normal(100, ticks / 2, 1000)
        found = statistics.modality(1e-6 * np.round(samples)).value
        assert found < 2.8
        assert found == statistics.modality(np.round(samples)).value  # where ticks lie between bins, rounding decides
        jitter = 1e-13 * np.random.default_rng(seed).normal(size=1000)
        assert found == statistics.modality(1e-6 * np.round(samples) * (1 + jitter)).value


@pytest.mark.parametrize("seed", [39, 88, 995, 1875, 2806])
def test_where_a_clock_begins_and_what_its_tick_is_makes_no_mode(seed):
    """Of 3000 seeds, those where rounding put a tick on the other side of a bin's edge or of an outlier's fence."""
    rng = np.random.default_rng(seed)
    tick = 10.0 ** rng.uniform(-9, 0) * rng.uniform(1, 10)
    begin = rng.uniform(0, 1e5) * tick
    ticks = np.round(rng.normal(100, rng.uniform(1, 30), 300))
    assert statistics.modality(begin + tick * ticks).value == statistics.modality(ticks).value


@pytest.mark.parametrize("noise", [0.0, 1e-12])
def test_nearly_equal_samples_make_no_endless_histogram(noise):
    """Without the outliers at 5 the middle half is equal, or nearly: bins that fit it number billions up to 11."""
    samples = np.repeat([5.0, 9.0, 10.0, 11.0], [24, 2, 60, 14])
    samples[25] += 1e-12
    samples[26:86] += noise * np.random.default_rng(1).normal(size=60)
    found = statistics.modality(samples)
    assert found.value == pytest.approx(2.0) if noise == 0 else found.value >= 2.0


def test_modality_looks_past_outliers():
    samples = np.random.default_rng(4).normal(10, 1, 500)
    assert statistics.modality(np.concatenate([samples, [1e6, -1e6]])).value < 2.8
    assert statistics.modality(np.concatenate([samples, [99.0] * 60])).value < 2.8


def test_modality_of_little_or_degenerate_data():
    few = statistics.modality(np.arange(15.0))
    assert (few.value, few.warnings) == (None, ("need >= 16 samples for modality, have 15",))
    equal = statistics.modality([0.1] * 64)
    assert equal.value == 2.0
    assert "all 64 samples are equal" in equal.warnings[0]
    assert statistics.modality([1.0] * 60 + [2.0] * 4).value == 2.0  # all that is not an outlier is one value
    four, five = (statistics.modality(np.tile(np.arange(count), 64)) for count in (4.0, 5.0))
    assert four.warnings == ("only 4 different values: a clock's ticks cannot be told from modes",)
    assert (four.value, five.value, five.warnings) == (2.0, 2.0, ())
    with pytest.raises(ValueError, match="modality: sample 0 of 1 is nan"):
        statistics.modality([float("nan")])
