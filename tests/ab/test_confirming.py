"""Confirming on a simulated machine: planted changes, noise, moods, budgets, what cannot be built or fails."""

import pytest

from kernel_velocity.ab import rounds as ab_rounds
from kernel_velocity.ab.confirm import confirm
from kernel_velocity.ab.rounds import Pair
from kernel_velocity.stats.sequential import Answer, Obstacle
from tests.ab.simulated_machine import OTHER, SERIES, Machine, a_round

HOUR = 3600.0


def only(machine, budget=HOUR, **more):
    return confirm(machine, "a", "b", [SERIES], budget, **more)[SERIES]


def test_a_slower_commit_is_different_after_the_first_look():
    machine = Machine(speed={"b": 1.05})
    found = only(machine)
    assert found.slower and found.rounds == 8
    assert found.low < 1.05 < found.high
    assert [rounds for *_, rounds in machine.asked] == [8]


def test_identical_code_is_the_same_as_soon_as_the_interval_is_narrow_enough():
    assert only(Machine(noise=0.004)).rounds == 8
    found = only(Machine(noise=0.012, seed=4))
    assert (found.answer, found.rounds) == (Answer.SAME, 32)


def test_only_what_is_open_is_measured_again():
    machine = Machine(speed={"b": {SERIES: 1.1, OTHER: 1.007}}, noise=0.012)
    found = confirm(machine, "a", "b", [SERIES, OTHER], HOUR)
    assert found[SERIES].rounds == 8 and found[OTHER].rounds > 8
    assert machine.asked[0][2:] == ((SERIES, OTHER), 8)
    assert {asked[2] for asked in machine.asked[1:]} == {(OTHER,)}


def test_what_can_never_be_told_ends_with_the_last_look():
    machine = Machine(noise=0.2)
    found = only(machine)
    assert (found.answer, found.rounds) == (Answer.UNKNOWN, 64)
    assert found.reason.endswith("more than 64 rounds are never measured")
    assert machine.now == 128


@pytest.mark.parametrize(("budget", "rounds"), [(17, 8), (40, 16), (70, 32)])
def test_a_budget_is_kept_and_nothing_is_begun_that_it_cannot_end(budget, rounds):
    machine = Machine(noise=0.2)
    found = only(machine, budget=budget)
    assert (found.answer, found.rounds, machine.now) == (Answer.UNKNOWN, rounds, 2 * rounds)
    assert found.reason.endswith(f"the budget ended before {2 * rounds} rounds a side")


def test_a_budget_that_ends_within_the_first_look_gives_no_verdict():
    found = only(Machine(speed={"b": 2.0}), budget=9)
    assert (found.answer, found.p, found.ratio) == (Answer.UNKNOWN, None, None)
    assert found.reason.startswith("5 of the 8 rounds a side that the first look takes; the budget ended")


def test_where_time_is_short_what_looks_like_a_change_comes_first():
    machine = Machine(speed={"b": {SERIES: 1.0, OTHER: 1.06}}, noise=0.04, seed=3)
    found = confirm(machine, "a", "b", [SERIES, OTHER], 50)
    assert found[SERIES].rounds == 8 and found[OTHER].rounds == 16


def test_rounds_of_an_interrupted_session_count():
    machine = Machine(speed={"b": 1.05})
    only(machine, budget=9)
    assert machine.now == 10
    assert only(machine).slower
    assert machine.now == 16


def test_a_settled_answer_is_not_revised_by_rounds_that_came_later():
    machine = Machine(speed={"b": 1.05})
    first = only(machine)
    machine.measure_pair("a", "b", [SERIES], 40, HOUR)
    assert only(machine) == first


@pytest.mark.parametrize("commit", ["a", "b"])
def test_a_commit_that_does_not_build_is_the_answer_of_every_series(commit):
    machine = Machine(unbuildable=(commit,))
    found = confirm(machine, "a", "b", [SERIES, OTHER], HOUR)
    assert {item.obstacle for item in found.values()} == {Obstacle.NOT_BUILT}
    assert found[OTHER].answer is Answer.UNKNOWN and found[OTHER].reason == f"commit {commit} does not build: error"
    assert not machine.asked


def test_an_implementation_that_raises_is_asked_once():
    machine = Machine(failing=("b",))
    found = only(machine)
    assert (found.answer, found.obstacle, found.reason) == (Answer.UNKNOWN, Obstacle.FAILED, "failed at b: wrong")


def test_unchanged_machine_code_is_the_same_without_a_measurement():
    machine = Machine(codes={"a": "x", "b": "x"}, speed={"b": 1.5})
    found = only(machine)
    assert (found.answer, found.reason, found.p) == (Answer.SAME, "the machine code is unchanged", None)
    assert not machine.asked
    assert only(machine, measure_unchanged=True).slower


def test_unknown_code_is_measured():
    assert only(Machine(codes={"a": "x"})).p is not None
    assert only(Machine()).p is not None


class Silent(Machine):
    """asv that measures nothing, and says nothing."""

    def measure_round(self, series, commits, sides):
        self.now = HOUR


def test_a_machine_that_gives_no_rounds_is_not_asked_for_ever():
    machine = Silent()
    machine.measure_pair = lambda before, after, series, rounds, deadline: machine.asked.append(rounds) or {}
    found = only(machine)
    assert found.answer is Answer.UNKNOWN and found.reason.endswith("asv measured no round more")
    assert machine.asked == [0, 8]


def test_a_step_of_the_machine_in_the_middle_accuses_nobody():
    """+10% from one round to the next, in both sides: as a driver or a neighbour does."""
    for seed in range(20):
        found = only(Machine(noise=0.01, steps={9.0: 1.1}, seed=seed), budget=200)
        assert found.answer is not Answer.DIFFERENT


def test_the_mood_that_a_gauge_reads_is_taken_out():
    machine = Machine(speed={"b": 1.03}, noise=0.004, mood=0.05)
    found = only(machine)
    assert found.slower and found.adjusted
    assert found.low < 1.03 < found.high and found.high - found.low < 0.03


def test_one_round_without_a_gauge_leaves_the_look_raw():
    machine = Machine(noise=0.004, mood=0.05)
    only(machine, budget=17)
    before, after = machine.kept["a", "b"][SERIES]
    after[3] = a_round(SERIES, after[3].time, after[3].estimate, after[3].launch)
    pairs = {SERIES: Pair(before=tuple(before), after=tuple(after))}
    assert not ab_rounds.judge(pairs, [SERIES], {})[SERIES].adjusted


def test_a_control_that_failed_adjusts_nothing():
    control = (SERIES[0], ("eager", "float32-1k"))
    machine = Machine(speed={"b": 1.05})
    only(machine)
    before, after = machine.kept["a", "b"][SERIES]
    pairs = {
        SERIES: Pair(before=tuple(before), after=tuple(after)),
        control: Pair(obstacle=Obstacle.FAILED, reason="failed at b: wrong"),
    }
    found = ab_rounds.judge(pairs, [SERIES], {})[SERIES]
    assert found.slower and not found.adjusted
