"""Joining telemetry to asv's results: by estimate, by the median, by time, and what may be restored."""

import dataclasses
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.results.failures import Failure
from kernel_velocity.results.join import Change, Evidence, StoredSeries, join, raised_since, settle, still_true
from tests.results.spooled import ROUND

NOTHING = StoredSeries(value=None, failed=False, samples=None, count=None, started_at=None, duration=None)


def rounds(*estimates, start=100.0, method="m"):
    return [
        dataclasses.replace(ROUND, time=start + index, estimate=estimate, method=method)
        for index, estimate in enumerate(estimates)
    ]


def stored(**fields):
    return dataclasses.replace(NOTHING, **fields)


estimates = st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=12)


@given(estimates, st.randoms())
def test_join_by_samples_in_any_order(values, random):
    samples = rounds(*values)
    shuffled = random.sample(samples, len(samples))
    result = join(shuffled, stored(value=1.0, samples=tuple(random.sample(values, len(values)))))
    assert list(result) == samples


@given(estimates, st.lists(st.floats(1e-9, 1e3), max_size=5))
def test_join_leaves_out_rounds_without_a_sample(values, others):
    others = [value for value in others if value not in values]
    result = join(rounds(*values) + rounds(*others, start=500.0), stored(value=1.0, samples=tuple(values)))
    assert [round_.estimate for round_ in result] == values


def test_join_takes_the_newest_of_equal_estimates():
    old, new = rounds(2.0, start=10.0), rounds(2.0, start=20.0)
    assert join([*old, *new], stored(value=2.0, samples=(2.0,))) == tuple(new)


@given(estimates)
def test_join_by_median_and_count(values):
    older = rounds(*(value * 3 for value in values), start=1.0)
    newer = rounds(*values, start=1000.0)
    result = join([*newer, *older], stored(value=statistics.median(values), count=len(values)))
    assert result == tuple(newer)


def test_join_by_time():
    samples = rounds(1.0, 2.0, 3.0)
    result = join(samples, stored(value=9.0, count=3, started_at=101.0, duration=0.5))
    assert [round_.time for round_ in result] == [100.0, 101.0, 102.0]  # a second of slack at both ends
    assert join(samples, stored(value=9.0, count=3, started_at=200.0, duration=1.0)) == ()


def test_join_without_a_stored_value():
    assert join(rounds(1.0), NOTHING) == ()
    assert join(rounds(1.0), stored(value=1.0)) == ()


def failure(time, died=False, skipped=False):
    return Failure(benchmark=ROUND.benchmark, params=ROUND.params, time=time, error="x", died=died, skipped=skipped)


def settled(stored, **evidence):
    result = settle(stored, Evidence(**evidence))
    return result.change, list(result.rounds)


FAILED = stored(failed=True)


def test_good_rounds_are_restored_after_a_crash_only():
    samples = rounds(1.0, 2.0)
    assert settled(FAILED, new=samples) == (Change.RESTORE, samples)
    assert settled(FAILED, new=samples, new_failures=[failure(102.0, died=True)]) == (Change.RESTORE, samples)
    assert settled(FAILED, new=samples, new_failures=[failure(102.0, skipped=True)]) == (Change.RESTORE, samples)
    assert settled(FAILED, new=samples, new_failures=[failure(102.0)]) == (Change.NONE, [])
    assert settled(FAILED, new=samples, recorded_failures=[failure(50.0)]) == (
        Change.RESTORE,
        samples,
    )  # of an earlier session
    assert settled(FAILED, new=samples, recorded_failures=[failure(150.0)]) == (Change.NONE, [])  # these are of it, too
    assert settled(NOTHING, new=samples) == (Change.NONE, [])  # does not apply
    assert settled(FAILED) == (Change.NONE, [])


def test_rounds_of_two_timing_methods_are_not_mixed():
    old, new = rounds(1.0, start=1.0, method="old"), rounds(2.0, start=9.0)
    assert settled(FAILED, new=[*old, *new]) == (Change.RESTORE, new)
    assert settled(FAILED, recorded=[*old, *new]) == (Change.RESTORE, new)


def test_earlier_session_is_restored_after_a_failed_build():
    old, new = rounds(1.0, start=1.0), rounds(2.0)
    death = failure(102.0, died=True)
    assert settled(FAILED, recorded=old) == (Change.RESTORE, old)
    assert settled(FAILED, recorded=old, recorded_failures=[failure(3.0, died=True)]) == (Change.RESTORE, old)
    assert settled(FAILED, recorded=old, new_failures=[death]) == (Change.NONE, [])
    assert settled(FAILED, recorded=old, new=new, new_failures=[death]) == (Change.RESTORE, new)
    assert settled(FAILED, recorded=old, recorded_failures=[failure(3.0)]) == (Change.NONE, old)


@pytest.mark.parametrize("when", [90.0, 103.0])
def test_round_that_raised_withdraws_the_value(when):
    samples = rounds(1.0, 2.0)
    value = stored(value=1.5, samples=(1.0, 2.0))
    assert settled(value, new=samples, new_failures=[failure(when)]) == (Change.WITHDRAW, samples)
    assert settled(value, recorded=samples, recorded_failures=[failure(103.0)]) == (Change.WITHDRAW, samples)
    assert settled(value, new=samples, recorded_failures=[failure(90.0)]) == (
        Change.NONE,
        samples,
    )  # of an earlier session
    assert settled(value, new=samples, new_failures=[failure(when, skipped=True)]) == (Change.NONE, samples)


def test_ctrl_c_is_no_failure():
    interrupted = dataclasses.replace(failure(103.0), error="KeyboardInterrupt: ")
    samples = rounds(1.0, 2.0)
    value = stored(value=1.5, samples=(1.0, 2.0))
    assert settled(value, new=samples, new_failures=[interrupted]) == (Change.NONE, samples)
    assert still_true([interrupted], samples, value) == still_true([interrupted], samples, FAILED) == []


def test_rounds_before_a_crash_join_those_after_it():
    samples = rounds(1.0, 2.0, 3.0, 4.0)
    value = stored(value=4.0, samples=(4.0,))  # asv forgot those before
    assert settled(value, new=samples, new_failures=[failure(102.5, died=True)]) == (Change.RESTORE, samples)
    assert settled(value, new=samples) == (Change.NONE, samples[3:])  # two sessions, for all we know
    raised = [failure(102.5, died=True), failure(102.6)]
    assert settled(value, new=samples, new_failures=raised) == (Change.WITHDRAW, samples[3:])


def test_earlier_value_keeps_its_rounds_after_an_interruption():
    old, new = rounds(1.0, 2.0, 3.0, start=1.0), rounds(9.0)
    put_back = stored(value=2.0, samples=(1.0, 2.0, 3.0))
    assert settled(put_back, recorded=old, new=new) == (Change.NONE, old)
    assert settled(put_back, recorded=old, new=new, new_failures=[failure(101.0, died=True)]) == (Change.NONE, old)


def test_earlier_value_is_withdrawn_after_crashes_only():
    old, value = rounds(1.0, 2.0), stored(value=1.5, samples=(1.0, 2.0))
    death = failure(200.0, died=True)
    assert settled(value, recorded=old, new_failures=[death]) == (Change.WITHDRAW, [])
    assert settled(value, recorded=old, recorded_failures=[death]) == (
        Change.NONE,
        old,
    )  # was known when it was measured
    assert settled(value, recorded=old, new=old, new_failures=[death]) == (
        Change.NONE,
        old,
    )  # an ingest was interrupted


def test_raised_since_ignores_earlier_failures():
    assert raised_since([failure(99.5)], rounds(1.0))
    assert not raised_since([failure(90.0), failure(101.0, died=True)], rounds(1.0))


def test_failures_of_an_earlier_measurement_are_dropped():
    failures = [failure(10.0), failure(101.0)]
    assert still_true(failures, rounds(1.0), stored(value=1.0)) == failures[1:]
    assert still_true(failures, [], stored(failed=True)) == failures


def test_newest_reason_for_na_is_stored_until_a_time():
    skips = [failure(3.0, skipped=True), failure(9.0, skipped=True), failure(5.0, skipped=True)]
    assert still_true(skips, [], NOTHING) == [skips[1]]
    assert still_true(skips, rounds(1.0), stored(value=1.0)) == []
    assert still_true([*skips, failure(4.0)], [], stored(failed=True)) == [failure(4.0)]
