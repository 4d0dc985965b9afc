"""Times, speed-ups and their errors, figures of samples, and charts of samples."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.results.measurement import round_interval
from kernel_velocity.stats.speedup import (
    SpeedUp,
    Timing,
    histogram,
    overhead,
    pairwise,
    speed_up,
    spread,
    timing,
)

TIMES = st.floats(1e-9, 1e3)
ROUNDS = st.lists(TIMES, min_size=2, max_size=9)


def at(seconds, error=None):
    return Timing(seconds=seconds, error=error, interval=None, rounds=3)


def test_error_of_a_speed_up_is_the_spread_of_ratios():
    result = speed_up("b", "a", {"a": timing([10.0, 12.0]), "b": timing([5.0, 5.0])})
    # medians 11 and 5; the standard error of 10, 12 is sqrt(2) / sqrt(2) = 1, that of 5, 5 is 0
    assert result == SpeedUp(faster="b", slower="a", ratio=2.2, error=pytest.approx(2.2 * (1 / 11)))
    rng = np.random.default_rng(1)
    a, b = rng.normal(10, 0.1, 200_000), rng.normal(5, 0.1, 200_000)
    result = speed_up("b", "a", {"a": at(10, 0.1), "b": at(5, 0.1)})
    assert result.error == pytest.approx(float((a / b).std()), rel=0.01)


@given(ROUNDS, ROUNDS, st.floats(1e-3, 1e3))
def test_speed_up_has_an_inverse_and_no_unit(a, b, factor):
    times = {"a": timing(a), "b": timing(b)}
    direct, inverse = speed_up("a", "b", times), speed_up("b", "a", times)
    assert direct.ratio * inverse.ratio == pytest.approx(1)
    assert direct.error / direct.ratio == pytest.approx(inverse.error / inverse.ratio)
    scaled = speed_up("a", "b", {"a": timing([factor * x for x in a]), "b": timing([factor * x for x in b])})
    assert scaled.ratio == pytest.approx(direct.ratio)
    assert scaled.error == pytest.approx(direct.error, rel=1e-6, abs=1e-9 * direct.ratio)


def test_one_round_has_a_ratio_and_no_error():
    result = speed_up("b", "a", {"a": timing([2.0]), "b": timing([1.0, 1.1, 1.2])})
    assert (result.ratio, result.error, result.clear) == (pytest.approx(2 / 1.1), None, None)
    with pytest.raises(ValueError, match="no rounds"):
        timing([])


@pytest.mark.parametrize(("error", "clear"), [(0.04, True), (0.06, False)])
def test_speed_up_is_clear_two_errors_from_one(error, clear):
    assert SpeedUp(faster="a", slower="b", ratio=1.1, error=error).clear is clear
    assert SpeedUp(faster="a", slower="b", ratio=0.9, error=error).clear is clear


@given(st.integers(1, 6), st.integers(0, 5))
def test_every_pair_appears_once_with_the_reference_first(count, which):
    names = [str(number) for number in range(count)]
    reference = names[which % count]
    result = list(pairwise({name: at(1.0) for name in names}, reference))
    assert len({frozenset((pair.faster, pair.slower)) for pair in result}) == len(result) == math.comb(count, 2)
    assert all(pair.slower == reference for pair in result[: count - 1])
    assert [(pair.faster, pair.slower) for pair in pairwise({"a": at(1), "b": at(2)}, "gone")] == [("b", "a")]


@given(ROUNDS)
def test_time_is_the_median_of_its_rounds(estimates):
    result = timing(estimates)
    assert result.seconds == statistics.median(estimates)
    assert result.error == pytest.approx(statistics.stdev(estimates) / math.sqrt(len(estimates)))
    assert (result.interval, result.rounds) == (round_interval(estimates), len(estimates))


def test_half_width_is_of_the_larger_side():
    result = timing([1.0, 1.1, 2.0])
    assert result.seconds == 1.1
    assert result.half_width == (result.interval.high - 1.1) / 1.1 > (1.1 - result.interval.low) / 1.1
    assert timing([1.0, 1.1]).half_width is None


def test_overhead_is_the_time_outside_the_kernel():
    assert overhead(3e-6, 2e-6) == pytest.approx(1e-6)
    assert overhead(None, 2e-6) is None


def test_figures_of_samples():
    result = spread([4.0, 1.0, 3.0, 2.0])
    assert (result.mean, result.min, result.max, result.p50, result.n) == (2.5, 1.0, 4.0, 2.5, 4)
    assert result.deviation == pytest.approx(statistics.stdev([4.0, 1.0, 3.0, 2.0]))
    assert result.p99 == pytest.approx(3.97)
    assert spread([1.0]).deviation is None
    with pytest.raises(ValueError, match="no samples"):
        spread([])


@given(st.lists(TIMES, min_size=1, max_size=200), st.integers(1, 20))
def test_histogram_counts_every_sample_once(samples, bins):
    counts = histogram(samples, bins)
    assert (sum(counts), len(counts)) == (len(samples), bins)
    assert counts[0] >= 1  # the fastest


def test_outlier_does_not_stretch_a_histogram():
    counts = histogram([*range(1, 1001), 10**6], 10)
    assert all(counts[:-1]) and max(counts) < 120
    assert histogram([2.0] * 5, 3) == (5, 0, 0)
    with pytest.raises(ValueError, match="0 bins"):
        histogram([1.0], 0)
