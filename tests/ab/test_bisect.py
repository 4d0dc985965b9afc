"""Bisecting on a simulated machine: the culprit by name, what is passed over, what is refused."""

import math
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.ab.bisect import _refuse, bisect
from kernel_velocity.errors import BenchmarkFailed, BuildFailed, UsageError
from kernel_velocity.stats.sequential import Answer, Obstacle, not_compared
from tests.ab.simulated_machine import SERIES, Machine

LINE = tuple(f"c{number}" for number in range(1, 13))  # after "good"


def slow_from(culprit, factor=1.1):
    return dict.fromkeys(LINE[LINE.index(culprit) :], factor)


def search(machine, **more):
    return bisect(machine, SERIES, "good", LINE[-1], LINE, **more)


@settings(max_examples=25, derandomize=True)
@given(st.sampled_from(LINE), st.integers(0, 10_000))
def test_culprit_is_found_wherever_it_is(culprit, seed):
    steps = []
    result = search(Machine(speed=slow_from(culprit), seed=seed), on_step=steps.append)
    assert result.culprit == culprit and result.isolated.slower
    assert len(result.tried) <= 1 + math.ceil(math.log2(len(LINE)))
    assert steps == list(result.tried) and steps[0].commit == "c12"
    assert all(step.slow == (step.commit in slow_from(culprit)) for step in steps)


@pytest.mark.parametrize("seed", range(5))
def test_culprit_of_three_percent_is_found_among_noise(seed):
    assert search(Machine(speed=slow_from("c7", 1.03), noise=0.01, seed=seed)).culprit == "c7"


def test_larger_of_two_steps_is_found():
    speed = {**dict.fromkeys(LINE[2:], 1.02), **dict.fromkeys(LINE[8:], 1.10)}
    assert search(Machine(speed=speed)).culprit == "c9"


def test_commits_that_do_not_build_are_passed_over():
    result = search(Machine(speed=slow_from("c9"), unbuildable=("c6", "c5", "c2")))
    assert result.culprit == "c9"
    unsettled = {step.commit for step in result.tried if step.slow is None}
    assert unsettled and unsettled <= {"c5", "c6"}
    result = search(Machine(speed=slow_from("c6"), unbuildable=("c5", "c6")))
    assert (result.left, result.culprit, result.isolated) == (("c5", "c6", "c7"), None, None)
    assert not result.goes_on and "one of 3 commits" in result.reason and "commit c5 does not build" in result.reason


def test_commit_with_known_code_is_not_measured():
    codes = {"good": "1", **dict.fromkeys(LINE[:6], "1"), **dict.fromkeys(LINE[6:], "2")}
    machine = Machine(speed=slow_from("c7"), codes=codes, placements=dict.fromkeys(codes, "here") | {"c6": "there"})
    result = search(machine)
    assert result.culprit == "c7"
    assert {request[:2] for request in machine.requests} == {("good", "c12")}  # c6 and c7 have the code of these two
    assert (result.pair, result.isolated) == (("good", "c12"), result.whole)
    assert all(step.comparison.reason.startswith("the same machine code as ") for step in result.tried[1:])
    reasons = {step.commit: step.comparison.reason for step in result.tried}
    assert reasons["c6"] == "the same machine code as good: only its place in the library can differ"
    assert reasons["c9"] == "the same machine code as c12, in the same place"


def test_commits_of_equal_code_are_no_candidates():
    codes = dict(zip(("good", *LINE), "1112223334444", strict=True))
    result = search(Machine(speed=slow_from("c6"), codes=codes), budget=16.0)  # as long as GOOD and BAD take
    assert result.left == ("c3", "c6", "c9") and result.reason == "one of 3 commits: no time is left"
    only = Machine(speed=slow_from("c9"), codes=dict.fromkeys(LINE[8:], "2") | {"good": "1", "c8": "1"})
    result = search(only, budget=16.0)
    assert (result.culprit, result.pair, result.isolated.slower) == ("c9", ("good", "c12"), True)


def test_isolating_takes_the_rounds_of_equal_code():
    codes = {"good": "0", **dict.fromkeys(LINE[2:5], "1"), **dict.fromkeys(LINE[5:], "2")}
    machine = Machine(speed=slow_from("c6", 1.2) | dict.fromkeys(LINE[2:5], 1.02), codes=codes, unbuildable=("c4",))
    result = search(machine)
    assert (result.culprit, result.pair, result.isolated.slower) == ("c6", ("c3", "c12"), True)
    assert {request[:2] for request in machine.requests} == {("good", "c12"), ("good", "c3"), ("c3", "c12")}


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
def test_ends_that_leave_nothing_to_search_say_why(machine, reason):
    result = search(machine)
    assert result.reason.startswith(reason)
    assert (result.left, result.culprit, len(result.tried), result.goes_on) == ((), None, 1, False)
    assert len({request[:2] for request in machine.requests}) <= 1


def test_budget_that_ends_leaves_a_range_with_the_culprit_in_it():
    result = search(Machine(speed=slow_from("c7")), budget=33.0)
    assert result.culprit is None and result.left == LINE[6:] and result.tried[-1].slow is None
    assert result.goes_on
    assert search(Machine(speed=slow_from("c7")), budget=10.0).goes_on  # too few rounds of the ends
    machine = Machine(speed=slow_from("c7"), noise=0.03)
    search(machine, budget=100.0)
    assert machine.now <= 102


def test_single_commit_needs_no_search():
    machine = Machine(speed={"bad": 1.1})
    result = bisect(machine, SERIES, "good", "bad", ("bad",))
    assert result.culprit == "bad" and result.isolated == result.whole and result.isolated.answer is Answer.DIFFERENT
    assert len(machine.requests) == 1


@pytest.mark.parametrize(
    ("obstacle", "error"),
    [
        (Obstacle.FAILED, BenchmarkFailed),
        (Obstacle.MENDED, BenchmarkFailed),
        (Obstacle.NOT_BUILT, BuildFailed),
        (Obstacle.NOT_APPLICABLE, UsageError),
    ],
)
def test_ends_that_cannot_be_compared_have_an_exit_status(obstacle, error):
    result = SimpleNamespace(left=(), whole=not_compared(obstacle, "wrong"), reason="GOOD and BAD cannot be compared")
    with pytest.raises(error, match="GOOD and BAD cannot be compared"):
        _refuse(result)
