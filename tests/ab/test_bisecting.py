"""Bisecting on a simulated machine: the culprit by name, what is passed over, what is refused."""

import math
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.ab.bisect import _refuse
from kernel_velocity.ab.bisection import bisect
from kernel_velocity.errors import BenchmarkFailed
from kernel_velocity.stats.sequential import Answer, Obstacle, not_compared
from tests.ab.simulated_machine import SERIES, Machine

LINE = tuple(f"c{number}" for number in range(1, 13))  # after "good"


def slow_from(culprit, factor=1.1, line=LINE):
    return dict.fromkeys(line[line.index(culprit) :], factor)


def search(machine, **more):
    return bisect(machine, SERIES, "good", LINE[-1], LINE, **more)


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(LINE), st.integers(0, 10_000))
def test_the_culprit_is_found_wherever_it_is(culprit, seed):
    found = search(Machine(speed=slow_from(culprit), seed=seed))
    assert found.culprit == culprit
    assert found.own.slower
    assert len(found.steps) <= math.ceil(math.log2(len(LINE)))


@pytest.mark.parametrize("seed", range(5))
def test_three_percent_are_found_among_noise(seed):
    found = search(Machine(speed=slow_from("c7", 1.03), noise=0.01, seed=seed))
    assert found.culprit == "c7"


def test_of_two_steps_the_one_is_found_that_more_than_half_is_due_to():
    speed = {**dict.fromkeys(LINE[2:], 1.02), **dict.fromkeys(LINE[8:], 1.10)}
    assert search(Machine(speed=speed)).culprit == "c9"


def test_what_does_not_build_is_passed_over():
    found = search(Machine(speed=slow_from("c9"), unbuildable=("c6", "c5", "c2")))
    assert found.culprit == "c9"
    untold = {step.commit for step in found.steps if step.slow is None}
    assert untold and untold <= {"c5", "c6"}


def test_neighbours_that_do_not_build_leave_a_range():
    found = search(Machine(speed=slow_from("c6"), unbuildable=("c5", "c6")))
    assert found.left == ("c5", "c6", "c7")
    assert found.culprit is None and found.own is None
    assert "one of 3 commits" in found.reason and "commit c5 does not build" in found.reason


def test_the_code_of_a_known_commit_is_not_measured():
    codes = {"good": "1", **dict.fromkeys(LINE[:6], "1"), **dict.fromkeys(LINE[6:], "2")}
    machine = Machine(speed=slow_from("c7"), codes=codes)
    found = search(machine)
    assert found.culprit == "c7"
    assert {asked[:2] for asked in machine.asked} == {("good", "c12"), ("c6", "c7")}
    assert all(step.comparison.reason.startswith("the same machine code as ") for step in found.steps)


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (Machine(speed=slow_from("c4", 0.9)), "BAD is faster than GOOD"),
        (Machine(noise=0.003), "BAD is as fast as GOOD"),
        (Machine(noise=0.3), "whether BAD is slower than GOOD is not settled"),
        (Machine(unbuildable=("good",)), "GOOD and BAD cannot be compared: commit good does not build"),
        (Machine(failing=("c12",)), "GOOD and BAD cannot be compared: failed at c12"),
    ],
    ids=["faster", "same", "unknown", "not built", "failed"],
)
def test_where_there_is_nothing_to_look_for(machine, reason):
    found = search(machine)
    assert found.reason.startswith(reason)
    assert (found.left, found.culprit, found.steps) == ((), None, ())
    assert len({asked[:2] for asked in machine.asked}) <= 1


def test_time_that_runs_out_leaves_a_range_with_the_culprit_in_it():
    found = search(Machine(speed=slow_from("c7")), budget=33.0)
    assert found.culprit is None and found.left == LINE[6:]
    assert found.steps[-1].slow is None


def test_time_that_is_short_measures_no_further_than_the_budget():
    machine = Machine(speed=slow_from("c7"), noise=0.03)
    search(machine, budget=100.0)
    assert machine.now <= 102


def test_every_step_is_told_as_it_is_made():
    told = []
    found = search(Machine(speed=slow_from("c7")), on_step=told.append)
    assert [step.commit for step in told] == ["c12", *(step.commit for step in found.steps)]
    assert [step.slow for step in told[:2]] == [True, False]


def test_two_commits_need_no_search():
    machine = Machine(speed={"bad": 1.1})
    found = bisect(machine, SERIES, "good", "bad", ("bad",))
    assert found.culprit == "bad" and found.own == found.whole and found.own.answer is Answer.DIFFERENT
    assert len(machine.asked) == 1


@pytest.mark.parametrize("obstacle", [Obstacle.FAILED, Obstacle.MENDED])
def test_a_good_or_bad_that_fails_ends_a_bisection_as_a_failed_benchmark(obstacle):
    found = SimpleNamespace(left=(), whole=not_compared(obstacle, "wrong"), reason="GOOD and BAD cannot be compared")
    with pytest.raises(BenchmarkFailed, match="GOOD and BAD cannot be compared"):
        _refuse(found)
