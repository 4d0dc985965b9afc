"""Trends: order, changes, and averages over test cases."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.results.measurement import Adjusted, Interval, Measurement, Outcome
from kernel_velocity.series import changes as trends
from kernel_velocity.series.changes import Change
from tests.results.test_measurements import KEY
from tests.series.one_by_one import build

ORDER = {name: place for place, name in enumerate("abcdef")}


def measured(commit, seconds, *, case="c", spread=0.01, method="one", flop=1e9):
    return Measurement(
        key=dataclasses.replace(KEY, case=case),
        commit=commit,
        outcome=Outcome.MEASURED,
        seconds=seconds,
        interval=Interval(low=seconds * (1 - spread), high=seconds * (1 + spread), method="m"),
        method=method,
        flop=flop,
    )


def unmeasured(commit, outcome):
    return Measurement(key=dataclasses.replace(KEY, case="c"), commit=commit, outcome=outcome)


def changes(*items):
    (trend,) = build(items, ORDER).values()
    return [point.change for point in trend.points]


def test_a_planted_step_is_found_where_it_is_and_nowhere_else():
    first, second, third, fourth = changes(*(measured(name, 1.0 if name in "ab" else 0.4) for name in "dacb"))
    assert first is None
    assert (second.ratio, second.overlapping) == (1.0, True)
    assert (third.ratio, third.overlapping, third.against) == (pytest.approx(2.5), False, "b")
    assert (fourth.ratio, fourth.overlapping) == (1.0, True)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.NOT_APPLICABLE])
def test_what_was_not_measured_is_bridged(outcome):
    found = changes(measured("a", 1.0), unmeasured("b", outcome), measured("c", 0.5))
    assert found[1] is None
    assert (found[2].ratio, found[2].against) == (2.0, "a")


def test_values_of_two_timing_methods_are_not_compared():
    assert changes(measured("a", 1.0), measured("b", 0.5, method="two")) == [None, None]
    assert changes(measured("a", 1.0), measured("b", 0.5, method=None))[1].ratio == 2.0


def test_a_time_by_another_method_in_between_is_passed_over():
    last = changes(measured("a", 1.0), measured("b", 7.0, method="two"), measured("c", 0.5))[2]
    assert (last.ratio, last.against) == (2.0, "a")


def adjusted(item, seconds, spread=0.001):
    interval = Interval(low=seconds * (1 - spread), high=seconds * (1 + spread), method="m")
    return dataclasses.replace(item, adjusted=Adjusted(seconds=seconds, interval=interval))


def test_changes_are_of_adjusted_values_where_both_have_one():
    busy, quiet = adjusted(measured("a", 1.3, spread=0.4), 1.0), adjusted(measured("b", 0.9), 0.9)
    assert changes(busy, quiet)[1] == Change(ratio=1 / 0.9, against="a", overlapping=False)
    assert changes(busy, measured("b", 0.9))[1] == Change(ratio=1.3 / 0.9, against="a", overlapping=True)


def test_commits_beside_the_line_are_on_no_trend():
    assert changes(measured("a", 1.0), measured("z", 9.0), measured("b", 1.0))[1].against == "a"


def test_mean_change_is_geometric():
    halves = [Change(ratio=ratio, against="a", overlapping=None) for ratio in (2.0, 0.5)]
    assert trends.mean_change(halves) == pytest.approx(1.0)
    assert trends.mean_change([]) is None


@given(st.lists(st.floats(min_value=0.01, max_value=100), min_size=1, max_size=8))
def test_mean_change_undone_is_the_inverse(ratios):
    there = trends.mean_change([Change(ratio=ratio, against="a", overlapping=None) for ratio in ratios])
    back = trends.mean_change([Change(ratio=1 / ratio, against="a", overlapping=None) for ratio in ratios])
    assert there * back == pytest.approx(1.0)
