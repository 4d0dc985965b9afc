"""Rounds to measurements: the median, its interval, and the warnings that reach the page."""

import dataclasses
import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kernel_velocity.engine import gpu
from kernel_velocity.engine.telemetry import Round
from kernel_velocity.results import measurement
from kernel_velocity.results.measurement import SeriesKey

KEY = SeriesKey(
    machine="m", environment="e", benchmark="matmul.Cpu.time_hot", implementation="native", case="c", version="1"
)
estimates = st.lists(st.floats(min_value=1e-6, max_value=1.0), min_size=3, max_size=20)


def rounds(values, **changes):
    return [
        dataclasses.replace(
            Round(
                benchmark=KEY.benchmark, params=("native", "c"), time=float(number), estimate=value, n=64, batch=1,
                spent=0.1, stop="converged", method="one", launch=f"launch {number}",
            ),
            **changes,
        )
        for number, value in enumerate(values)
    ]  # fmt: skip


def measure(samples, flop=2e9, bytes_moved=1e9):
    return dataclasses.replace(measurement.from_rounds(KEY, "c" * 40, samples), flop=flop, bytes_moved=bytes_moved)


@given(estimates, st.randoms(use_true_random=False))
def test_order_of_rounds_does_not_matter(values, shuffle):
    mixed = list(values)
    shuffle.shuffle(mixed)
    first, other = measure(rounds(values)), measure(rounds(mixed))
    assert first.seconds == other.seconds
    assert first.interval.low == pytest.approx(other.interval.low)


@given(estimates, st.floats(min_value=1e-3, max_value=1e3))
def test_value_and_interval_scale_with_the_rounds(values, factor):
    first, other = measure(rounds(values)), measure(rounds([value * factor for value in values]))
    assert other.seconds == pytest.approx(first.seconds * factor)
    assert other.interval.low == pytest.approx(first.interval.low * factor)
    assert other.interval.high == pytest.approx(first.interval.high * factor)


@given(estimates)
def test_interval_contains_the_value(values):
    measurement = measure(rounds(values))
    assert measurement.interval.low <= measurement.seconds <= measurement.interval.high


def test_interval_is_scipys_on_logarithms():
    values = [1.0, 1.1, 0.95, 1.02, 1.07, 0.99, 1.03, 1.01]
    logs = [math.log(value) for value in values]
    low, high = stats.t.interval(0.95, len(logs) - 1, loc=stats.tmean(logs), scale=stats.sem(logs))
    interval = measurement.round_interval(values)
    assert (interval.low, interval.high) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-5)


def test_interval_covers_the_truth_in_95_percent():
    noise = random.Random(5)
    held = 0
    for _ in range(2000):
        interval = measurement.round_interval([math.exp(noise.gauss(0, 0.01)) for _ in range(8)])
        held += interval.low <= 1.0 <= interval.high
    assert held / 2000 == pytest.approx(0.95, abs=0.015)


def test_too_few_rounds_are_a_warning():
    measurement = measure(rounds([1.0, 1.1]))
    assert measurement.interval is None
    assert measurement.warnings == ("a sound verdict needs 8 rounds, have 2", "no interval: needs 3 rounds")
    assert measure(rounds([1.0, 1.1] * 2)).warnings == ("a sound verdict needs 8 rounds, have 4",)
    assert measure(rounds([1.0] * 3)).warnings == ("a sound verdict needs 8 rounds, have 3",)
    assert measure(rounds([1.0] * 5)).warnings == ("5 rounds, because they agree within 0.5%",)
    assert measure(rounds([1.0] * 8)).warnings == ()


@pytest.mark.parametrize(
    ("scatter", "rounds", "most", "is_enough"), [(1, 4, 8, False), (0.9, 4, 8, True), (0.9, 3, 8, False)]
)
def test_narrow_interval_is_enough(scatter, rounds, most, is_enough):
    half = scatter * measurement.NARROW  # of an interval
    values = measurement.Interval(low=math.exp(-1.01 * half), high=math.exp(1.01 * half), method="")
    assert measurement.is_enough(rounds, values, most) is is_enough
    assert measurement.is_enough(most, None, most)


@pytest.mark.parametrize(("most", "looks"), [(3, (3,)), (4, (4,)), (8, (4, 8)), (16, (4, 8, 16))])
def test_looks_end_at_the_most(most, looks):
    assert measurement.looks(most) == looks


def test_stopping_early_favours_no_level():
    noise, centres, held = random.Random(41), [], 0
    for _ in range(4000):
        values = [math.exp(noise.gauss(0, 0.003)) for _ in range(8)]
        is_narrow = measurement.is_enough(4, measurement.round_interval(values[:4]))
        values = values[: 4 if is_narrow else 8]
        interval = measurement.round_interval(values)
        held += interval.low <= 1.0 <= interval.high
        centres.append(math.log(statistics.median(values)))
    assert abs(statistics.fmean(centres)) < 4 * statistics.stdev(centres) / math.sqrt(4000)
    assert held / 4000 > 0.93  # .945 in 40,000: rounds that agree by chance have too narrow an interval


def test_rounds_of_one_launch_are_a_warning():
    assert measure(rounds([1.0] * 8, launch="same")).warnings == ("its rounds shared a launch",)


def test_flags_are_counted():
    repeated = rounds([1.0] * 6) + rounds([1.0] * 2, flags=("contended",))
    repeated = [dataclasses.replace(round_, launch=str(number)) for number, round_ in enumerate(repeated)]
    assert measure(repeated).warnings == ("contended in 2 of 8 rounds",)


def test_check_that_null_answers_pass_is_a_warning():
    doubted = rounds([1.0] * 8, flags=("unproven_zeros", "unproven_constant", "unproven_same"))
    (warning,) = measure(doubted).warnings
    assert warning == "unproven: zeros, a constant would pass; the right output does not depend on the inputs"


def test_what_slowed_a_gpu_down_is_named():
    activity = gpu.activity(
        [gpu.GpuState(sm_clock=None, memory_clock=None, power=None, temperature=None, reasons=0xA01)]
    )
    slowed = rounds([1.0] * 8, flags=("throttled",), gpu=activity)
    (warning,) = measure(slowed).warnings
    assert warning == "throttled in 8 of 8 rounds (the driver slowed the GPU down: board limit, 0x800)"
    (unknown,) = measure([dataclasses.replace(round_, gpu=None) for round_ in slowed]).warnings
    assert unknown == "throttled in 8 of 8 rounds (the driver slowed the GPU down)"


def test_methods_are_not_mixed():
    old = rounds([5.0] * 3, method="old")
    new = [dataclasses.replace(round_, time=round_.time + 100) for round_ in rounds([1.0] * 8, method="new")]
    measurement = measure(new + old)
    assert (measurement.seconds, measurement.method, measurement.rounds) == (1.0, "new", 8)
    assert "3 rounds of an earlier timing method left out" in measurement.warnings
