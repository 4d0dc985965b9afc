"""Times, speed-ups and their errors, figures of samples."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.results.measurement import round_interval
from kernel_velocity.stats.speedup import SpeedUp, Timing, histogram, overhead, pairwise, speed_up, spread, timing

TIMES = st.floats(1e-9, 1e3)
ROUNDS = st.lists(TIMES, min_size=2, max_size=9)


def at(seconds, error=None):
    return Timing(seconds=seconds, error=error, interval=None, rounds=3)


def test_the_error_of_a_speed_up_by_hand():
    found = speed_up("b", "a", {"a": timing([10.0, 12.0]), "b": timing([5.0, 5.0])})
    # medians 11 and 5; the standard error of 10, 12 is sqrt(2) / sqrt(2) = 1, that of 5, 5 is 0
    assert found == SpeedUp(faster="b", slower="a", ratio=2.2, error=pytest.approx(2.2 * (1 / 11)))


def test_the_error_is_the_spread_of_ratios_of_independent_times():
    rng = np.random.default_rng(1)
    a, b = rng.normal(10, 0.1, 200_000), rng.normal(5, 0.1, 200_000)
    found = speed_up("b", "a", {"a": at(10, 0.1), "b": at(5, 0.1)})
    assert found.error == pytest.approx(float((a / b).std()), rel=0.01)


@given(ROUNDS, ROUNDS)
def test_the_other_way_round_is_the_inverse_with_the_same_relative_error(a, b):
    times = {"a": timing(a), "b": timing(b)}
    one, other = speed_up("a", "b", times), speed_up("b", "a", times)
    assert one.ratio * other.ratio == pytest.approx(1)
    assert one.error / one.ratio == pytest.approx(other.error / other.ratio)


@given(ROUNDS, ROUNDS, st.floats(1e-3, 1e3))
def test_a_clock_that_runs_otherwise_changes_no_speed_up(a, b, factor):
    one = speed_up("a", "b", {"a": timing(a), "b": timing(b)})
    other = speed_up("a", "b", {"a": timing([factor * x for x in a]), "b": timing([factor * x for x in b])})
    assert other.ratio == pytest.approx(one.ratio)
    assert other.error == pytest.approx(one.error, rel=1e-6, abs=1e-9 * one.ratio)


@given(ROUNDS, ROUNDS, ROUNDS)
def test_speed_ups_chain(a, b, c):
    times = {"a": timing(a), "b": timing(b), "c": timing(c)}
    chained = speed_up("a", "b", times).ratio * speed_up("b", "c", times).ratio
    assert chained == pytest.approx(speed_up("a", "c", times).ratio)


def test_one_round_has_a_ratio_and_no_error():
    found = speed_up("b", "a", {"a": timing([2.0]), "b": timing([1.0, 1.1, 1.2])})
    assert (found.ratio, found.error, found.clear) == (pytest.approx(2 / 1.1), None, None)


@pytest.mark.parametrize(("error", "clear"), [(0.04, True), (0.06, False)])
def test_a_speed_up_is_clear_two_errors_from_one(error, clear):
    assert SpeedUp(faster="a", slower="b", ratio=1.1, error=error).clear is clear
    assert SpeedUp(faster="a", slower="b", ratio=0.9, error=error).clear is clear


@given(st.integers(1, 6), st.integers(0, 5))
def test_every_pair_stands_once_the_reference_first(count, which):
    names = [str(number) for number in range(count)]
    reference = names[which % count]
    found = list(pairwise({name: at(1.0) for name in names}, reference))
    assert len({frozenset((pair.faster, pair.slower)) for pair in found}) == len(found) == math.comb(count, 2)
    assert all(pair.slower == reference for pair in found[: count - 1])
    assert not any(pair.faster == reference for pair in found)


def test_a_reference_that_has_no_time_is_no_pair():
    assert [(pair.faster, pair.slower) for pair in pairwise({"a": at(1), "b": at(2)}, "gone")] == [("b", "a")]


@given(ROUNDS)
def test_a_time_is_the_median_of_its_rounds(estimates):
    found = timing(estimates)
    assert found.seconds == statistics.median(estimates)
    assert found.error == pytest.approx(statistics.stdev(estimates) / math.sqrt(len(estimates)))
    assert (found.interval, found.rounds) == (round_interval(estimates), len(estimates))


def test_the_half_width_is_relative():
    found = timing([0.99, 1.0, 1.01])
    assert found.half_width == pytest.approx(4.303 * 0.01 / math.sqrt(3), rel=0.02)  # t of 2 degrees, on logarithms


def test_the_half_width_is_that_of_the_larger_side():
    found = timing([1.0, 1.1, 2.0])
    assert found.seconds == 1.1
    assert found.half_width == (found.interval.high - 1.1) / 1.1 > (1.1 - found.interval.low) / 1.1
    assert timing([1.0, 1.1]).half_width is None


def test_no_rounds_are_no_time():
    with pytest.raises(ValueError, match="no rounds"):
        timing([])


def test_overhead_is_what_the_function_takes_longer():
    assert overhead(3e-6, 2e-6) == pytest.approx(1e-6)
    assert overhead(None, 2e-6) is None


def test_figures_of_samples():
    found = spread([4.0, 1.0, 3.0, 2.0])
    assert (found.mean, found.min, found.max, found.p50, found.n) == (2.5, 1.0, 4.0, 2.5, 4)
    assert found.deviation == pytest.approx(statistics.stdev([4.0, 1.0, 3.0, 2.0]))
    assert found.p99 == pytest.approx(3.97)
    assert spread([1.0]).deviation is None
    with pytest.raises(ValueError, match="no samples"):
        spread([])


@given(st.lists(TIMES, min_size=1, max_size=200), st.integers(1, 20))
def test_a_histogram_counts_every_sample_once(samples, bins):
    counts = histogram(samples, bins)
    assert (sum(counts), len(counts)) == (len(samples), bins)
    assert counts[0] >= 1  # the fastest


def test_an_outlier_does_not_stretch_a_histogram():
    counts = histogram([*range(1, 1001), 10**6], 10)
    assert all(counts[:-1]) and max(counts) < 120


def test_equal_samples_lie_in_the_first_bin():
    assert histogram([2.0] * 5, 3) == (5, 0, 0)
    with pytest.raises(ValueError, match="0 bins"):
        histogram([1.0], 0)
