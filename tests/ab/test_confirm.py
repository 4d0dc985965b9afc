"""Confirming on a simulated machine: planted changes, noise, moods, budgets, what cannot be built or fails."""

import pytest

from kernel_velocity.ab import rounds as ab_rounds
from kernel_velocity.ab.confirm import FIRST, confirm
from kernel_velocity.ab.rounds import Pair
from kernel_velocity.stats.sequential import Answer, Obstacle
from tests.ab.simulated_machine import OTHER, SERIES, Machine, a_round

HOUR = 3600.0


def only(machine, budget=HOUR):
    return confirm(machine, "a", "b", [SERIES], budget)[SERIES]


def test_slower_commit_is_different_after_the_first_look():
    machine = Machine(speed={"b": 1.05})
    found = only(machine)
    assert found.slower and found.rounds == 8
    assert found.low < 1.05 < found.high
    assert [rounds for *_, rounds in machine.asked] == [8]


def test_identical_code_is_the_same_once_the_interval_is_narrow_enough():
    assert only(Machine(noise=0.004)).rounds == 8
    found = only(Machine(noise=0.012, seed=4))
    assert (found.answer, found.rounds) == (Answer.SAME, 32)


def test_settled_series_is_not_measured_again():
    machine = Machine(speed={"b": {SERIES: 1.1, OTHER: 1.007}}, noise=0.012)
    found = confirm(machine, "a", "b", [SERIES, OTHER], HOUR)
    assert found[SERIES].rounds == 8 and found[OTHER].rounds > 8
    assert machine.asked[0][2:] == ((SERIES, OTHER), 8)
    assert {asked[2] for asked in machine.asked[1:]} == {(OTHER,)}


@pytest.mark.parametrize(
    ("budget", "rounds", "reason"),
    [
        (HOUR, 64, "more than 64 rounds are never measured"),
        (17, 8, "the budget ended before 16 rounds a side"),
        (40, 16, "the budget ended before 32 rounds a side"),
        (70, 32, "the budget ended before 64 rounds a side"),
    ],
)
def test_noisy_series_ends_with_the_budget_or_the_last_look(budget, rounds, reason):
    machine = Machine(noise=0.2)
    found = only(machine, budget=budget)
    assert (found.answer, found.rounds, machine.now) == (Answer.UNKNOWN, rounds, 2 * rounds)
    assert found.reason.endswith(reason)


def test_budget_that_ends_within_the_first_look_gives_no_answer():
    found = only(Machine(speed={"b": 2.0}), budget=9)
    assert (found.answer, found.p, found.ratio) == (Answer.UNKNOWN, None, None)
    assert found.reason.startswith("5 of the 8 rounds a side that the first look takes; the budget ended")


def test_short_budget_goes_to_the_smallest_p():
    machine = Machine(speed={"b": {SERIES: 1.0, OTHER: 1.06}}, noise=0.04, seed=3)
    found = confirm(machine, "a", "b", [SERIES, OTHER], 50)
    assert found[SERIES].rounds == 8 and found[OTHER].rounds == 16


def test_rounds_of_an_interrupted_session_count_and_later_ones_revise_nothing():
    machine = Machine(speed={"b": 1.05})
    only(machine, budget=9)
    assert machine.now == 10
    first = only(machine)
    assert first.slower and machine.now == 16
    machine.measure_pair("a", "b", [SERIES], 40, HOUR)
    assert only(machine) == first


@pytest.mark.parametrize("commit", ["a", "b"])
def test_commit_that_does_not_build_is_the_answer_of_every_series(commit):
    machine = Machine(unbuildable=(commit,))
    found = confirm(machine, "a", "b", [SERIES, OTHER], HOUR)
    assert {answer.obstacle for answer in found.values()} == {Obstacle.NOT_BUILT}
    assert found[OTHER].answer is Answer.UNKNOWN and found[OTHER].reason == f"commit {commit} does not build: error"
    assert not machine.asked


def test_failing_series_is_an_obstacle():
    found = only(Machine(failing=("b",)))
    assert (found.answer, found.obstacle, found.reason) == (Answer.UNKNOWN, Obstacle.FAILED, "failed at b: wrong")


def test_unchanged_code_is_not_measured():
    machine = Machine(codes={"a": "x", "b": "x"}, speed={"b": 1.5})
    found = only(machine)
    assert (found.answer, found.reason, found.p) == (Answer.SAME, "the machine code is unchanged", None)
    assert not machine.asked
    for place, text in (("1", ", in the same place"), ("2", ": only its place in the library can differ")):
        machine.placements = {"a": "1", "b": place}
        assert only(machine).reason == f"the machine code is unchanged{text}"
    assert only(Machine(codes={"a": "x"})).p is not None
    assert only(Machine()).p is not None


def test_machine_without_rounds_is_not_asked_for_ever():
    machine, asked = Machine(), []
    machine.measure_pair = lambda before, after, series, rounds, deadline: asked.append(rounds) or {}
    found = only(machine)
    assert found.answer is Answer.UNKNOWN and found.reason.endswith("asv measured no round more")
    assert asked == [0, 8]


def test_step_of_the_machine_accuses_nobody():
    """+10% from one round to the next, in both sides: as a driver or a neighbour does."""
    for seed in range(20):
        found = only(Machine(noise=0.01, steps={9.0: 1.1}, seed=seed), budget=200)
        assert found.answer is not Answer.DIFFERENT


def test_mood_that_a_gauge_reads_is_removed():
    found = only(Machine(speed={"b": 1.03}, noise=0.004, mood=0.05))
    assert found.slower and found.adjusted
    assert found.low < 1.03 < found.high and found.high - found.low < 0.03


def test_look_is_raw_where_a_gauge_is_missing_or_a_control_failed():
    machine = Machine(noise=0.004, mood=0.05)
    only(machine, budget=17)
    before, after = machine.kept["a", "b"][SERIES]
    after[3] = a_round(SERIES, after[3].time, after[3].estimate, after[3].launch)
    pairs = {SERIES: Pair(before=tuple(before), after=tuple(after))}
    control = (SERIES[0], ("eager", "float32-1k"))
    for more in ({}, {control: Pair(obstacle=Obstacle.FAILED, reason="failed at b: wrong")}):
        assert not ab_rounds.judge(pairs | more, [SERIES], {})[SERIES].adjusted


def test_first_look_at_many_series_begins_with_the_few_that_tell_what_a_round_takes():
    """A budget for 20 series of 40 settles 20: measured all together, none would have the rounds of a look."""
    series = [("scale.Cpu.time_hot", ("native", f"float32-{number}k")) for number in range(40)]
    machine = Machine(noise=0.001)
    answers = confirm(machine, "a", "b", series, 20 * 16.0 + 1)
    assert [len(chosen) for _, _, chosen, _ in machine.asked] == [FIRST, 20 - FIRST]
    assert [answers[key].answer for key in series] == [Answer.SAME] * 20 + [Answer.UNKNOWN] * 20
