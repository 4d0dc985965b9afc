"""Joining telemetry to asv's results: by estimate, by the median, by time; and what may be restored."""

import dataclasses
import statistics

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.harness.telemetry import Round
from tools.failures import Failure
from tools.joining import StoredSeries, join, still_true, to_restore

ROUND = Round(
    benchmark="k.Cpu.time_hot",
    params=("native", "c"),
    time=100.0,
    estimate=1e-3,
    n=1,
    batch=1,
    spent=0.1,
    stop="converged",
    method="m",
    launch="l",
)
NOTHING = StoredSeries(value=None, failed=False, samples=None, count=None, started_at=None, duration=None)


def rounds(*estimates, start=100.0, method="m"):
    return [
        dataclasses.replace(ROUND, time=start + place, estimate=estimate, method=method)
        for place, estimate in enumerate(estimates)
    ]


def stored(**fields):
    return dataclasses.replace(NOTHING, **fields)


estimates = st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=12)


@given(estimates, st.randoms())
def test_samples_find_their_rounds_in_any_order(values, random):
    items = rounds(*values)
    shuffled = random.sample(items, len(items))
    found = join(shuffled, stored(value=1.0, samples=tuple(random.sample(values, len(values)))))
    assert list(found) == items


@given(estimates, st.lists(st.floats(1e-9, 1e3), max_size=5))
def test_rounds_without_a_sample_are_never_joined(values, others):
    others = [value for value in others if value not in values]
    found = join(rounds(*values) + rounds(*others, start=500.0), stored(value=1.0, samples=tuple(values)))
    assert [item.estimate for item in found] == values


def test_of_equal_estimates_the_newest_rounds_are_taken():
    old, new = rounds(2.0, start=10.0), rounds(2.0, start=20.0)
    assert join([*old, *new], stored(value=2.0, samples=(2.0,))) == tuple(new)


@given(estimates)
def test_median_and_count_find_the_newest_rounds(values):
    older = rounds(*(value * 3 for value in values), start=1.0)
    newer = rounds(*values, start=1000.0)
    found = join([*newer, *older], stored(value=statistics.median(values), count=len(values)))
    assert found == tuple(newer)


def test_time_decides_where_numbers_do_not():
    items = rounds(1.0, 2.0, 3.0)
    found = join(items, stored(value=9.0, count=3, started_at=101.0, duration=0.5))
    assert [item.time for item in found] == [100.0, 101.0, 102.0]  # a second of slack at both ends
    assert join(items, stored(value=9.0, count=3, started_at=200.0, duration=1.0)) == ()


def test_nothing_stored_claims_nothing():
    assert join(rounds(1.0), NOTHING) == ()
    assert join(rounds(1.0), stored(value=1.0)) == ()


def failure(time, died=False, skipped=False):
    return Failure(benchmark=ROUND.benchmark, params=ROUND.params, time=time, error="x", died=died, skipped=skipped)


def test_good_rounds_are_restored_after_a_crash_only():
    items = rounds(1.0, 2.0)
    failed = stored(failed=True)
    assert to_restore(items, failed, []) == tuple(items)
    assert to_restore(items, failed, [failure(102.0, died=True)]) == tuple(items)
    assert to_restore(items, failed, [failure(102.0)]) == ()
    assert to_restore(items, failed, [failure(50.0)]) == tuple(items)  # of an earlier measurement
    assert to_restore(items, stored(value=1.0), []) == ()
    assert to_restore(items, NOTHING, []) == ()  # does not apply
    assert to_restore([], failed, []) == ()


def test_rounds_of_two_timing_methods_are_not_mixed():
    old, new = rounds(1.0, start=1.0, method="old"), rounds(2.0, start=9.0)
    assert to_restore([*old, *new], stored(failed=True), []) == tuple(new)


def test_failures_of_an_earlier_measurement_are_dropped():
    failures = [failure(10.0), failure(101.0)]
    assert still_true(failures, rounds(1.0), stored(value=1.0)) == failures[1:]
    assert still_true(failures, [], stored(failed=True)) == failures


def test_of_what_does_not_apply_the_newest_reason_is_kept_until_there_is_a_time():
    skips = [failure(3.0, skipped=True), failure(9.0, skipped=True), failure(5.0, skipped=True)]
    assert still_true(skips, [], NOTHING) == [skips[1]]
    assert still_true(skips, rounds(1.0), stored(value=1.0)) == []
    assert still_true([*skips, failure(4.0)], [], stored(failed=True)) == [failure(4.0)]


def test_a_round_that_did_not_apply_keeps_no_good_round_from_being_restored():
    items = rounds(1.0, 2.0)
    assert to_restore(items, stored(failed=True), [failure(102.0, skipped=True)]) == tuple(items)
