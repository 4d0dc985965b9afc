"""Confirming on a simulated machine: planted changes, noise, moods, budgets, what cannot be built or fails."""

import pytest

from kernel_velocity.ab import rounds as ab_rounds
from kernel_velocity.ab.confirm import FIRST, confirm
from kernel_velocity.ab.rounds import Pair, Terms
from kernel_velocity.stats.sequential import EARLY_LOOKS, Answer, Obstacle
from tests.ab.simulated_machine import OTHER, SERIES, Machine, a_round

HOUR = 3600.0


def only(machine, budget=HOUR):
    return confirm(machine, "a", "b", [SERIES], budget)[SERIES]


def test_slower_commit_is_different_after_the_first_look():
    machine = Machine(speed={"b": 1.05})
    result = only(machine)
    assert result.slower and result.rounds == 8
    assert result.low < 1.05 < result.high
    assert [rounds for *_, rounds in machine.requests] == [8]


def test_identical_code_ends_once_the_interval_is_narrow():
    assert only(Machine(noise=0.004)).rounds == 8
    result = only(Machine(noise=0.012, seed=4))
    assert (result.answer, result.rounds) == (Answer.SAME, 32)


def test_settled_series_is_not_measured_again():
    machine = Machine(speed={"b": {SERIES: 1.1, OTHER: 1.007}}, noise=0.012)
    result = confirm(machine, "a", "b", [SERIES, OTHER], HOUR)
    assert result[SERIES].rounds == 8 and result[OTHER].rounds > 8
    assert machine.requests[0][2:] == ((SERIES, OTHER), 8)
    assert {request[2] for request in machine.requests[1:]} == {(OTHER,)}


@pytest.mark.parametrize(
    ("budget", "rounds", "reason"),
    [
        (HOUR, 64, "more than 64 rounds are never measured"),
        (17, 8, "the budget ended before 16 rounds a side, about 0.3 minutes more"),
        (40, 16, "the budget ended before 32 rounds a side, about 0.5 minutes more"),
        (70, 32, "the budget ended before 64 rounds a side, about 1.1 minutes more"),
    ],
)
def test_noisy_series_ends_with_the_budget_or_the_last_look(budget, rounds, reason):
    machine = Machine(noise=0.2)
    result = only(machine, budget=budget)
    assert (result.answer, result.rounds, machine.now) == (Answer.UNKNOWN, rounds, 2 * rounds)
    assert result.reason.endswith(reason)


def test_budget_that_ends_within_the_first_look_gives_no_answer():
    result = only(Machine(speed={"b": 2.0}), budget=9)
    assert (result.answer, result.p, result.ratio) == (Answer.UNKNOWN, None, None)
    assert result.reason.startswith("5 of the 8 rounds a side that the first look takes; the budget ended")


def test_short_budget_goes_to_the_smallest_p():
    machine = Machine(speed={"b": {SERIES: 1.0, OTHER: 1.06}}, noise=0.04, seed=3)
    result = confirm(machine, "a", "b", [SERIES, OTHER], 50)
    assert result[SERIES].rounds == 8 and result[OTHER].rounds == 16


def test_interrupted_session_is_resumed_and_keeps_its_answers():
    machine = Machine(speed={"b": 1.05})
    only(machine, budget=9)
    assert machine.now == 10
    first = only(machine)
    assert first.slower and machine.now == 16
    machine.measure_pair("a", "b", [SERIES], 40, HOUR)
    assert only(machine) == first


@pytest.mark.parametrize("commit", ["a", "b"])
def test_failed_build_is_the_answer_of_every_series(commit):
    machine = Machine(unbuildable=(commit,))
    result = confirm(machine, "a", "b", [SERIES, OTHER], HOUR)
    assert {answer.obstacle for answer in result.values()} == {Obstacle.NOT_BUILT}
    assert result[OTHER].answer is Answer.UNKNOWN and result[OTHER].reason == f"commit {commit} does not build: error"
    assert not machine.requests


def test_failing_series_is_an_obstacle():
    result = only(Machine(failing=("b",)))
    assert (result.answer, result.obstacle, result.reason) == (Answer.UNKNOWN, Obstacle.FAILED, "failed at b: wrong")


def test_unchanged_code_is_not_measured():
    machine = Machine(codes={"a": "x", "b": "x"}, speed={"b": 1.5})
    result = only(machine)
    assert (result.answer, result.reason, result.p) == (Answer.SAME, "the machine code is unchanged", None)
    assert not machine.requests
    for order, text in (("1", ", in the same place"), ("2", ": only its place in the library can differ")):
        machine.placements = {"a": "1", "b": order}
        assert only(machine).reason == f"the machine code is unchanged{text}"
    assert only(Machine(codes={"a": "x"})).p is not None
    assert only(Machine()).p is not None


def test_early_look_ends_what_is_the_same_alone():
    machine = Machine(speed={"b": {SERIES: 1.05, OTHER: 1.0}}, noise=0.001)
    lines = []
    terms = dict.fromkeys([SERIES, OTHER], Terms(looks=EARLY_LOOKS))
    result = confirm(machine, "a", "b", [SERIES, OTHER], HOUR, terms=terms, on_look=lines.append)
    assert (result[SERIES].answer, result[SERIES].rounds) == (Answer.DIFFERENT, 8)
    assert (result[OTHER].answer, result[OTHER].rounds) == (Answer.SAME, 4)
    assert [request[2:] for request in machine.requests] == [((SERIES, OTHER), 4), ((SERIES,), 8)]
    (line,) = lines
    assert line.startswith("after 4 rounds a side: 0 slower, 0 faster, 1 the same; the intervals of 1 more reach 5.")


def test_machine_without_rounds_is_not_asked_for_ever():
    machine, calls = Machine(), []
    machine.measure_pair = lambda before, after, series, rounds, deadline: calls.append(rounds) or {}
    result = only(machine)
    assert result.answer is Answer.UNKNOWN and result.reason.endswith("asv measured no round more")
    assert calls == [0, 8]


def test_budget_that_ends_before_a_round_is_not_blamed_on_asv():
    machine = Machine()

    def ends(before, after, series, rounds, deadline):
        machine.now = deadline if rounds else machine.now
        return {}

    machine.measure_pair = ends
    assert only(machine, budget=9).reason.endswith("the budget ended before 8 rounds a side")


def test_step_of_the_machine_accuses_nobody():
    """+10% from one round to the next, in both sides: as a driver or a neighbour does."""
    for seed in range(20):
        result = only(Machine(noise=0.01, steps={9.0: 1.1}, seed=seed), budget=200)
        assert result.answer is not Answer.DIFFERENT


def test_mood_that_a_gauge_reads_is_removed():
    result = only(Machine(speed={"b": 1.03}, noise=0.004, mood=0.05))
    assert result.slower and result.adjusted
    assert result.low < 1.03 < result.high and result.high - result.low < 0.03


def test_look_without_gauge_or_control_is_raw():
    machine = Machine(noise=0.004, mood=0.05)
    only(machine, budget=17)
    before, after = machine.stored["a", "b"][SERIES]
    after[3] = a_round(SERIES, after[3].time, after[3].estimate, after[3].launch)
    pairs = {SERIES: Pair(before=tuple(before), after=tuple(after))}
    control = (SERIES[0], ("eager", "float32-1k"))
    for more in ({}, {control: Pair(obstacle=Obstacle.FAILED, reason="failed at b: wrong")}):
        assert not ab_rounds.judge(pairs | more, [SERIES], {})[SERIES].adjusted


def test_first_look_times_a_round_with_few_series():
    """A budget for 20 series of 40 settles 20: measured all together, none would have the rounds of a look."""
    series = [("scale.Cpu.time_hot", ("native", f"float32-{number}k")) for number in range(40)]
    machine = Machine(noise=0.001)
    answers = confirm(machine, "a", "b", series, 20 * 16.0 + 1)
    assert [len(chosen) for _, _, chosen, _ in machine.requests] == [FIRST, 20 - FIRST]
    assert [answers[key].answer for key in series] == [Answer.SAME] * 20 + [Answer.UNKNOWN] * 20
