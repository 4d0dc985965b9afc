"""Findings: ids, joining a new one with the recorded ones, the moves that they explain."""

import dataclasses
import math
from types import SimpleNamespace

import pytest

from kernel_velocity.findings import today
from kernel_velocity.findings.finding import OPEN, Kind, State, beside_notes, joined, known_steps, slug
from tests.findings.nights import LINE, ORDER, case, finding, identity, of_cases


def of_cause(*cases, state=State.CONFIRMED):
    (result,) = of_cases(*cases, state=state)
    return result


def test_id_names_kernel_direction_and_commits():
    assert of_cause(case()).id == f"matmul-regression-{LINE[30][:8]}"
    better = of_cause(case(ratio=0.9, commits=LINE[30:34]))
    assert better.id == f"matmul-improvement-{LINE[30][:8]}-{LINE[33][:8]}"
    assert of_cause(case(ratio=1.3)).id == of_cause(case()).id
    assert slug("Bench 1/é", "", "Cpu") == "bench-1-cpu"


def test_only_a_rerun_that_settled_confirms_a_step():
    settled = of_cause(case())
    (series,) = settled.affected
    past = SimpleNamespace(slots={(*series.identity.slot, series.identity.version): "key"})
    assert series.rounds and series.low > 1
    assert today.confirmed([settled], past) == {("key", True): frozenset(settled.commits)}
    doubted = [dataclasses.replace(series, **change) for change in ({"rounds": None}, {"low": 0.9}, {"high": None})]
    others = [dataclasses.replace(settled, affected=(other,)) for other in doubted]
    others += [dataclasses.replace(settled, state=State.SUSPECT), dataclasses.replace(settled, kind=Kind.ENVIRONMENT)]
    assert today.confirmed(others, past) == {}


def test_joined_suspect_has_the_narrower_range_and_all_series():
    before = of_cause(case(commits=LINE[28:34]), state=State.SUSPECT)
    after = joined([before], of_cause(case(ratio=1.12, case="float32-5M", machine="bench-2")))
    assert (after.id, after.state, after.culprit) == (before.id, State.CONFIRMED, LINE[30])
    assert after.machines == ("bench-1", "bench-2")
    assert [decision.state for decision in after.decisions] == [State.SUSPECT, State.CONFIRMED]


def test_commits_that_begin_alike_have_two_findings():
    new = of_cause(case())
    other = dataclasses.replace(new, commits=(LINE[30][:8] + "f" * 32,), state=State.RESOLVED)
    after = joined([other], new)
    assert after == dataclasses.replace(new, id=f"{new.id}-{LINE[30]}")
    assert joined([other, after], new) == joined([after], new) == after


@pytest.mark.parametrize("state", [State.CONFIRMED, State.ACKNOWLEDGED, State.EXPECTED])
def test_joined_suspect_adds_nothing_to_a_settled_finding(state):
    weak = [case(ratio=1.3, p=None), case(ratio=1.3, p=None, case="float32-5M")]
    weak = [dataclasses.replace(entry, how="the screen", anchor=LINE[3], ruled_out=("x",)) for entry in weak]
    assert joined([finding(state=state)], of_cause(*weak, state=State.SUSPECT)) == finding(state=state)
    suspect = finding(state=State.SUSPECT)
    assert len(joined([suspect], of_cause(*weak, state=State.SUSPECT)).affected) == 2


@pytest.mark.parametrize("state", [State.ACKNOWLEDGED, State.EXPECTED])
@pytest.mark.parametrize(
    ("cases", "is_opened"),
    [
        ([case(ratio=1.105)], False),
        ([case(ratio=1.12)], False),  # the intervals, of 1% either way, touch
        ([case(ratio=1.05)], False),  # less than what was decided about
        ([case(ratio=1.14)], True),
        ([case(), case(case="float32-5M")], True),
    ],
)
def test_joined_decision_stands_until_more_is_confirmed(state, cases, is_opened):
    before, new = finding(state=state), of_cause(*cases)
    after = joined([before], new)
    assert after.state is (State.CONFIRMED if is_opened else state)
    assert after.decisions == (*before.decisions, *(new.decisions if is_opened else ()))
    assert after.affected == new.affected  # the newer ratios


def test_joined_improvement_adds_where_it_takes_less_time():
    before = finding(kind=Kind.IMPROVEMENT, state=State.EXPECTED)  # to .8 of the time
    for ratio, state in ((0.79, State.EXPECTED), (0.85, State.EXPECTED), (0.7, State.CONFIRMED)):
        assert joined([before], of_cause(case(ratio=ratio))).state is state


def test_joined_finding_that_was_over_is_open_again():
    assert joined([finding(state=State.RESOLVED)], of_cause(case())).state is State.CONFIRMED
    ended, new = finding(state=State.METHOD), of_cause(case(case="float32-5M"))
    after = joined([ended], new)
    assert (after.id, after.state, after.affected) == (ended.id, State.CONFIRMED, new.affected)


def test_joined_other_cause_is_another_finding():
    new = of_cause(case(commits=LINE[40:41]))
    assert joined([finding()], new) == new
    assert joined([finding(kind=Kind.IMPROVEMENT)], of_cause(case())).kind is Kind.REGRESSION


@pytest.mark.parametrize("state", State)
def test_note_names_open_findings_whose_commits_are_gone(state):
    (note,) = beside_notes([finding(state=state)], {}) or ("",)
    assert (finding().id in note) is (state in OPEN)
    assert beside_notes([finding(state=state)], ORDER) == ()
    assert beside_notes([finding(state=state, commits=())], {}) == ()  # a machine's


def test_known_steps_are_those_of_explained_findings():
    (step,) = known_steps([finding()], ORDER)
    assert (step.identity, step.position, step.since) == (identity(), 30, None)
    assert step.effect == pytest.approx(math.log(1.1))
    assert known_steps([finding(state=State.SUSPECT)], ORDER) == ()
    assert known_steps([finding(commits=("f" * 40,))], ORDER) == ()  # of another branch
    assert known_steps([finding(state=State.RESOLVED)], ORDER) == ()


def test_known_steps_include_a_regression_once_repaired():
    repair = finding(kind=Kind.IMPROVEMENT, commits=(LINE[35],))
    assert [step.position for step in known_steps([finding(state=State.RESOLVED), repair], ORDER)] == [30, 35]
    earlier = finding(kind=Kind.IMPROVEMENT, commits=(LINE[25],))
    assert [step.position for step in known_steps([finding(state=State.RESOLVED), earlier], ORDER)] == [25]
    worse = finding(commits=(LINE[35],), id="matmul-regression-2")  # no repair
    assert [step.position for step in known_steps([finding(state=State.RESOLVED), worse], ORDER)] == [35]
