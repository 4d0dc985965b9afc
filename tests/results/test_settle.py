"""Which rounds are the record of a series, and what becomes of asv's value."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.results.asv_file import StoredSeries
from kernel_velocity.results.ingest import Fate, SeriesLines, settle, still_true
from kernel_velocity.results.lines import Failure, raised_since
from tests.results.spooled import ROUND

NOTHING = StoredSeries(value=None, failed=False, samples=None, count=None, started_at=None, duration=None)
FAILED = dataclasses.replace(NOTHING, failed=True)


def rounds(*estimates, start=100.0, method="m"):
    return [
        dataclasses.replace(ROUND, time=start + index, estimate=estimate, method=method)
        for index, estimate in enumerate(estimates)
    ]


def stored(count, **fields):
    return dataclasses.replace(NOTHING, value=1.0, count=count, **fields)


def failure(time, died=False, skipped=False):
    return Failure(benchmark=ROUND.benchmark, params=ROUND.params, time=time, error="x", died=died, skipped=skipped)


def settled(stored, *, wanted=8, **evidence):
    fate, result = settle(stored, SeriesLines(**evidence), wanted)
    return fate, list(result)


counts = st.integers(1, 12)


@given(counts, counts, counts, st.randoms())
def test_asvs_count_tells_what_the_value_rests_on(before, waiting, new, random):
    """`waiting` rounds of a run that asv wrote nothing of lie before the `new` ones, in any order."""
    old = rounds(*[1.0] * before, start=1.0)
    lost, fresh = rounds(*[2.0] * waiting, start=50.0), rounds(*[3.0] * new)
    shuffled = random.sample([*lost, *fresh], waiting + new)
    assert settled(stored(new), recorded=old, new=shuffled, wanted=1) == (Fate.FROM_ROUNDS, fresh)
    assert settled(stored(before + new), recorded=old, new=fresh) == (Fate.FROM_ROUNDS, [*old, *fresh])
    assert settled(stored(before), recorded=old) == (Fate.FROM_ROUNDS, old)
    if new < before:
        assert settled(stored(before), recorded=old, new=fresh) == (Fate.FROM_ROUNDS, old)  # asv measured others


@pytest.mark.parametrize(
    ("seconds", "is_enough"), [([2.0, 2.0, 2.0, 2.001], True), ([2.0, 2.0, 2.0, 2.2], False), ([2.0] * 3, False)]
)
def test_fewer_rounds_replace_more_where_they_agree(seconds, is_enough):
    old, new = rounds(*[1.0] * 8, start=1.0), rounds(*seconds)
    assert settled(stored(len(new)), recorded=old, new=new) == (Fate.FROM_ROUNDS, new if is_enough else old)


def test_rounds_after_asvs_last_one_are_of_no_result_yet():
    old, new = rounds(1.0, start=90.0), rounds(2.0, start=200.0)
    assert settled(stored(1, started_at=100.0, duration=50.0), recorded=old, new=new) == (Fate.FROM_ROUNDS, old)


def test_a_value_without_rounds_stays():
    assert settled(stored(8)) == (Fate.STAYS, [])
    assert settled(NOTHING, recorded=rounds(1.0)) == (Fate.STAYS, rounds(1.0))  # does not apply
    assert settled(NOTHING, new=rounds(1.0)) == (Fate.STAYS, [])


def test_good_rounds_are_restored_after_a_crash_only():
    samples = rounds(1.0, 2.0)
    assert settled(FAILED, new=samples) == (Fate.FROM_ROUNDS, samples)
    assert settled(FAILED, new=samples, new_failures=[failure(102.0, died=True)]) == (Fate.FROM_ROUNDS, samples)
    assert settled(FAILED, new=samples, new_failures=[failure(102.0, skipped=True)]) == (Fate.FROM_ROUNDS, samples)
    assert settled(FAILED, new=samples, new_failures=[failure(102.0)]) == (Fate.WITHDRAWN, samples)
    assert settled(FAILED, new=samples, recorded_failures=[failure(50.0)]) == (Fate.FROM_ROUNDS, samples)
    assert settled(FAILED, new=samples, recorded_failures=[failure(150.0)]) == (Fate.WITHDRAWN, samples)
    assert settled(FAILED) == (Fate.STAYS, [])


def test_rounds_of_two_timing_methods_are_not_mixed():
    old, new = rounds(1.0, start=1.0, method="old"), rounds(2.0, start=9.0)
    assert settled(FAILED, new=[*old, *new]) == (Fate.FROM_ROUNDS, new)


def test_earlier_rounds_are_restored_after_a_failed_build():
    old, new = rounds(1.0, start=1.0), rounds(2.0)
    death = failure(102.0, died=True)
    assert settled(FAILED, recorded=old) == (Fate.FROM_ROUNDS, old)
    assert settled(FAILED, recorded=old, recorded_failures=[failure(3.0, died=True)]) == (Fate.FROM_ROUNDS, old)
    assert settled(FAILED, recorded=old, new_failures=[death]) == (Fate.WITHDRAWN, [])
    assert settled(FAILED, recorded=old, new=new, new_failures=[death]) == (Fate.FROM_ROUNDS, new)
    assert settled(FAILED, recorded=old, recorded_failures=[failure(0.0)]) == (Fate.WITHDRAWN, old)


@pytest.mark.parametrize("when", [90.0, 103.0])
def test_round_that_raised_withdraws_the_value(when):
    samples, value = rounds(1.0, 2.0), stored(2)
    assert settled(value, new=samples, new_failures=[failure(when)]) == (Fate.WITHDRAWN, samples)
    assert settled(value, recorded=samples, recorded_failures=[failure(103.0)]) == (Fate.WITHDRAWN, samples)
    assert settled(value, new=samples, recorded_failures=[failure(90.0)]) == (Fate.FROM_ROUNDS, samples)
    assert settled(value, new=samples, new_failures=[failure(when, skipped=True)]) == (Fate.FROM_ROUNDS, samples)


def test_ctrl_c_is_no_failure():
    interrupted = dataclasses.replace(failure(103.0), error="KeyboardInterrupt: ")
    samples = rounds(1.0, 2.0)
    assert settled(stored(2), new=samples, new_failures=[interrupted]) == (Fate.FROM_ROUNDS, samples)
    assert still_true([interrupted], samples, failed=False) == still_true([interrupted], samples, failed=True) == []


def test_rounds_before_a_crash_join_those_after_it():
    samples = rounds(1.0, 2.0, 3.0, 4.0)
    value = stored(1)  # asv forgot those before
    assert settled(value, new=samples, new_failures=[failure(102.5, died=True)]) == (Fate.FROM_ROUNDS, samples)
    assert settled(value, new=samples) == (Fate.FROM_ROUNDS, samples[3:])  # two runs, for all we know
    raised = [failure(102.5, died=True), failure(102.6)]
    assert settled(value, new=samples, new_failures=raised)[0] is Fate.WITHDRAWN


@pytest.mark.parametrize("failures", [(), (failure(101.0, died=True),)])
def test_earlier_rounds_stay_after_an_interruption(failures):
    old, new = rounds(1.0, 2.0, 3.0, start=1.0), rounds(9.0)
    cut_off = {"recorded": old, "new": new, "new_failures": failures}
    assert settled(stored(1), **cut_off) == (Fate.FROM_ROUNDS, old)
    assert settled(stored(3), **cut_off) == (Fate.FROM_ROUNDS, old)  # it was restored already
    assert settled(stored(1), wanted=1, **cut_off) == (Fate.FROM_ROUNDS, new)
    assert settled(stored(1), **{**cut_off, "recorded": new}) == (Fate.FROM_ROUNDS, new)  # an ingest was interrupted


def test_series_that_does_not_apply_today_keeps_earlier_rounds():
    old, skip = rounds(1.0, 2.0), failure(9.0, skipped=True)
    assert settled(NOTHING, recorded=old, new_failures=[skip]) == (Fate.FROM_ROUNDS, old)


def test_earlier_value_is_withdrawn_after_crashes_only():
    old, death = rounds(1.0, 2.0), failure(200.0, died=True)
    assert settled(stored(2), recorded=old, new_failures=[death]) == (Fate.WITHDRAWN, [])
    assert settled(stored(2), recorded=old, recorded_failures=[death]) == (Fate.FROM_ROUNDS, old)  # was known then
    interrupted = {"recorded": old, "new": old}  # an ingest was
    assert settled(stored(2), new_failures=[death], **interrupted) == (Fate.FROM_ROUNDS, old)


def test_raised_since_ignores_earlier_failures():
    assert raised_since([failure(99.5)], rounds(1.0))
    assert not raised_since([failure(90.0), failure(101.0, died=True)], rounds(1.0))
    assert not raised_since([failure(99.5)], [])


def test_failures_of_an_earlier_measurement_are_dropped():
    failures = [failure(10.0), failure(101.0)]
    assert still_true(failures, rounds(1.0), failed=False) == failures[1:]
    assert still_true(failures, [], failed=True) == failures


def test_newest_reason_for_na_is_stored_until_a_time():
    skips = [failure(3.0, skipped=True), failure(9.0, skipped=True), failure(5.0, skipped=True)]
    assert still_true(skips, [], failed=False) == [skips[1]]
    assert still_true(skips, rounds(1.0), failed=False) == []
    assert still_true([*skips, failure(4.0)], [], failed=True) == [failure(4.0)]
