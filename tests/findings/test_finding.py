"""Findings: made, joined to what is known, decided about."""

import dataclasses
import math
from datetime import date, timedelta

import pytest

from kernel_velocity.errors import UsageError
from kernel_velocity.findings import decisions
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.finding import OPEN, Affected, Kind, State, beside_notes, joined, known_steps, slug
from kernel_velocity.nightly.cases import from_cases, of_vanished
from kernel_velocity.series import silence
from kernel_velocity.series.silence import Superseded, Vanished
from tests.findings.nights import LINE, ORDER, WHEN, case, finding, history, identity

TODAY = WHEN.date()
STEP = math.log(1.1)


def made(*cases, state=State.CONFIRMED):
    (found,) = from_cases(cases, state=state, order=ORDER, when=WHEN, who="nightly")
    return found


def expectation(**changed):
    whole = {"commits": (LINE[30],), "bench": "matmul", "reason": "asked for", "who": "ada", "when": WHEN}
    return Expectation(id="expect-1", **(whole | changed))


def test_an_id_names_kernel_direction_and_commits_and_is_the_same_every_night():
    assert made(case()).id == f"matmul-regression-{LINE[30][:8]}"
    assert made(case(ratio=0.9, commits=LINE[30:34])).id == f"matmul-improvement-{LINE[30][:8]}-{LINE[33][:8]}"
    assert made(case(ratio=1.3)).id == made(case()).id
    assert slug("Bench 1/é", "", "Cpu") == "bench-1-cpu"


def test_a_known_cause_keeps_its_id_and_gets_the_narrower_range_and_the_new_series():
    before = made(case(commits=LINE[28:34]), state=State.SUSPECT)
    after = joined([before], made(case(ratio=1.12, case="float32-5M", machine="bench-2")))
    assert (after.id, after.state, after.culprit) == (before.id, State.CONFIRMED, LINE[30])
    assert after.machines == ("bench-1", "bench-2")
    assert [item.state for item in after.decisions] == [State.SUSPECT, State.CONFIRMED]


def test_the_same_series_found_again_has_the_newer_figures():
    assert [item.ratio for item in joined([made(case(ratio=1.1))], made(case(ratio=1.2))).affected] == [1.2]


@pytest.mark.parametrize("state", [State.ACKNOWLEDGED, State.EXPECTED])
def test_a_decision_stands_when_the_finding_is_seen_again(state):
    assert joined([finding(state=state)], made(case())).state is state


@pytest.mark.parametrize("state", [State.CONFIRMED, State.ACKNOWLEDGED, State.EXPECTED])
def test_a_suspect_adds_nothing_to_what_is_known_for_sure(state):
    before = finding(state=state)
    weak = [case(ratio=1.3, p=None), case(ratio=1.3, p=None, case="float32-5M")]
    weak = [dataclasses.replace(one, how="the screen", anchor=LINE[3], ruled_out=("x",)) for one in weak]
    assert joined([before], made(*weak, state=State.SUSPECT)) == before
    known = finding(state=State.SUSPECT)
    assert len(joined([known], made(*weak, state=State.SUSPECT)).affected) == 2


@pytest.mark.parametrize("state", [State.ACKNOWLEDGED, State.EXPECTED])
@pytest.mark.parametrize(
    ("cases", "opened"),
    [
        ([case(ratio=1.105)], False),
        ([case(ratio=1.12)], False),  # the intervals, of 1% either way, touch
        ([case(ratio=1.05)], False),  # less than what was decided about
        ([case(ratio=1.14)], True),
        ([case(), case(case="float32-5M")], True),
    ],
)
def test_more_than_was_decided_about_is_open_again(state, cases, opened):
    before, found = finding(state=state), made(*cases)
    after = joined([before], found)
    assert after.state is (State.CONFIRMED if opened else state)
    assert after.decisions == (*before.decisions, *(found.decisions if opened else ()))
    assert after.affected == found.affected
    covered = decisions.expected(after, [expectation()], when=WHEN).state
    assert covered is (State.EXPECTED if opened else state)


def test_what_ended_with_its_series_and_is_confirmed_in_another_is_open():
    ended, found = finding(state=State.METHOD), made(case(case="float32-5M"))
    after = joined([ended], found)
    assert (after.id, after.state, after.affected) == (ended.id, State.CONFIRMED, found.affected)


def test_an_expectation_in_spite_of_which_somebody_opened_the_finding_counts_no_more():
    later = WHEN + timedelta(days=1)
    excused = decisions.expected(finding(), [expectation()], when=WHEN)
    opened = decisions.reopen(excused, reason="not this much", who="ada", when=later)
    assert (excused.state, opened.state) == (State.EXPECTED, State.CONFIRMED)
    assert decisions.expected(opened, [expectation()], when=later) == opened
    newer = expectation(when=later + timedelta(days=1))
    assert decisions.expected(opened, [newer], when=newer.when).state is State.EXPECTED


def test_of_an_improvement_less_time_is_more():
    before = finding(kind=Kind.IMPROVEMENT, state=State.EXPECTED)  # to .8 of the time
    for ratio, state in ((0.79, State.EXPECTED), (0.85, State.EXPECTED), (0.7, State.CONFIRMED)):
        assert joined([before], made(case(ratio=ratio))).state is state


def test_what_was_resolved_and_is_there_again_is_open_again():
    assert joined([finding(state=State.RESOLVED)], made(case())).state is State.CONFIRMED


def test_another_cause_is_another_finding():
    new = made(case(commits=LINE[40:41]))
    assert joined([finding()], new) == new
    assert joined([finding(kind=Kind.IMPROVEMENT)], made(case())).kind is Kind.REGRESSION


def test_an_acknowledgement_has_a_reason_and_an_end_and_is_over_the_day_after():
    kept = decisions.acknowledge(finding(), reason="wait for 2.0", until=TODAY, who="ada", when=WHEN)
    assert (kept.state, kept.until, kept.decisions[-1].who) == (State.ACKNOWLEDGED, TODAY, "ada")
    assert decisions.refreshed(kept, who="nightly", when=WHEN) == kept
    late = decisions.refreshed(kept, who="nightly", when=WHEN + timedelta(days=1))
    assert (late.state, late.until) == (State.CONFIRMED, None)
    assert late.decisions[-1].reason == f"acknowledged until {TODAY}, which is over"
    assert [item.state for item in late.decisions] == [State.CONFIRMED, State.ACKNOWLEDGED, State.CONFIRMED]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"reason": "  "}, "a reason is wanted"),
        ({"until": TODAY - timedelta(days=1)}, "is over"),
    ],
)
def test_a_bad_acknowledgement_is_refused(changed, message):
    with pytest.raises(UsageError, match=message):
        decisions.acknowledge(finding(), **({"reason": "r", "until": TODAY, "who": "ada", "when": WHEN} | changed))


def test_what_is_over_cannot_be_acknowledged_and_what_is_open_not_reopened():
    with pytest.raises(UsageError, match="only what is open"):
        decisions.acknowledge(finding(state=State.RESOLVED), reason="r", until=TODAY, who="ada", when=WHEN)
    with pytest.raises(UsageError, match="open already"):
        decisions.reopen(finding(), reason="r", who="ada", when=WHEN)
    machine = finding(kind=Kind.ENVIRONMENT, state=State.ENVIRONMENT, commits=())
    with pytest.raises(UsageError, match="is what the machine did: it accuses no commit"):
        decisions.reopen(machine, reason="r", who="ada", when=WHEN)  # nights would look for its cause again
    again = decisions.reopen(
        decisions.acknowledge(finding(state=State.SUSPECT), reason="r", until=TODAY, who="ada", when=WHEN),
        reason="not so",
        who="ada",
        when=WHEN,
    )
    assert (again.state, again.decisions[-1].reason) == (State.SUSPECT, "not so")


@pytest.mark.parametrize(
    ("changed", "covered"),
    [
        ({}, True),
        ({"bench": r"matmul\.Cuda"}, False),
        ({"commits": (LINE[31],)}, False),
        ({"most": 1.12}, True),
        ({"most": 1.09}, True),  # the interval's lower end is 1.089
        ({"most": 1.08}, False),
        ({"most": 0.8}, False),  # an improvement was expected
    ],
)
def test_what_is_expected_covers_its_commits_series_and_size(changed, covered):
    found = decisions.expected(finding(), [expectation(**changed)], when=WHEN)
    assert (found.state is State.EXPECTED) == covered
    if covered:
        assert (found.decisions[-1].who, found.decisions[-1].reason) == ("ada", "asked for")


def test_an_expectation_of_one_commit_does_not_excuse_its_neighbours():
    two = finding(commits=LINE[30:32])
    assert decisions.expected(two, [expectation()], when=WHEN) == two
    assert decisions.expected(two, [expectation(), expectation(commits=(LINE[31],))], when=WHEN) == two
    assert decisions.expected(two, [expectation(commits=LINE[29:33])], when=WHEN).state is State.EXPECTED


@pytest.mark.parametrize("state", [State.NEW, State.SUSPECT])
def test_only_what_is_confirmed_is_expected(state):
    assert decisions.expected(finding(state=state), [expectation()], when=WHEN).state is state


def test_an_expected_improvement_has_a_size_too():
    better = finding(kind=Kind.IMPROVEMENT)  # to .8 of the time, the interval up to .808
    assert decisions.expected(better, [expectation(most=0.8)], when=WHEN).state is State.EXPECTED
    assert decisions.expected(better, [expectation(most=0.9)], when=WHEN).state is State.CONFIRMED
    assert decisions.expected(better, [expectation(most=1.5)], when=WHEN).state is State.CONFIRMED


def test_one_series_that_nobody_expected_keeps_the_finding_open():
    found = made(case(), case(case="float32-5M"))
    small = expectation(bench="256x256")
    assert decisions.expected(found, [small], when=WHEN).state is State.CONFIRMED
    assert decisions.expected(found, [small, expectation(bench="5M")], when=WHEN).state is State.EXPECTED


def resolved(series, found=None):
    found = found or finding(affected=(Affected(identity=identity(), ratio=1.1),))
    return decisions.resolved(found, {identity(): series}, ORDER, who="nightly", when=WHEN).state


@pytest.mark.parametrize(("back", "state"), [(39, State.CONFIRMED), (38, State.RESOLVED)])
def test_a_regression_is_resolved_when_two_of_three_values_are_back(back, state):
    slow = history(40, step_at=30, step=STEP)
    assert resolved(slow) is State.CONFIRMED
    values = [
        dataclasses.replace(item, value=item.value - (STEP if item.place >= back else 0)) for item in slow.observations
    ]
    assert resolved(dataclasses.replace(slow, observations=tuple(values))) is state


def test_too_few_values_after_it_resolve_nothing():
    assert resolved(history(33)) is State.CONFIRMED
    assert resolved(history(34)) is State.RESOLVED


def test_a_series_that_nobody_measures_resolves_nothing():
    found = finding(affected=(Affected(identity=identity(case="gone"), ratio=1.1),))
    assert resolved(history(40), found) is State.CONFIRMED


def test_half_of_a_small_regression_gone_is_not_gone():
    found = finding(affected=(Affected(identity=identity(), ratio=1.012),))
    assert resolved(history(40, step_at=30, step=0.009), found) is State.CONFIRMED


def test_a_finding_whose_series_ended_is_of_the_method():
    item = Superseded(old=identity(), new=identity(method="n"), what="method")
    found = decisions.superseded(finding(), [item], who="nightly", when=WHEN)
    assert (found.state, found.decisions[-1].reason) == (State.METHOD, "its series ended: method changed")
    two = made(case(), case(case="float32-5M"))
    assert decisions.superseded(two, [item], who="nightly", when=WHEN) == two


@pytest.mark.parametrize("state", State)
def test_what_waits_although_its_commits_are_gone_is_noted(state):
    found = finding(state=state)
    (note,) = beside_notes([found], {}) or ("",)
    assert (found.id in note) is (state in OPEN)
    assert beside_notes([found], ORDER) == ()
    assert beside_notes([dataclasses.replace(found, commits=())], {}) == ()  # a machine's


def test_known_steps_are_of_what_is_explained():
    (step,) = known_steps([finding()], ORDER)
    assert (step.identity, step.place, step.since) == (identity(), 30, None)
    assert step.effect == pytest.approx(STEP)
    assert known_steps([finding(state=State.SUSPECT)], ORDER) == ()
    assert known_steps([finding(commits=("f" * 40,))], ORDER) == ()  # of another branch
    assert known_steps([finding(state=State.RESOLVED)], ORDER) == ()


def test_a_resolved_regression_is_a_known_step_once_its_repair_is():
    repair = finding(kind=Kind.IMPROVEMENT, commits=(LINE[35],))
    assert [step.place for step in known_steps([finding(state=State.RESOLVED), repair], ORDER)] == [30, 35]
    worse = finding(commits=(LINE[35],), id="matmul-regression-2")  # no repair
    assert [step.place for step in known_steps([finding(state=State.RESOLVED), worse], ORDER)] == [35]


def test_what_has_a_newer_value_or_goes_on_as_another_series_has_not_vanished():
    series = history(10)
    for commit, number in ((LINE[4], 0), (LINE[9], 0), (LINE[12], 1)):
        assert len(silence.vanished([series], {series.identity.slot: [commit]}, ORDER)) == number
    other = dataclasses.replace(history(20), identity=identity(method="n"))
    assert silence.vanished([series, other], {series.identity.slot: [LINE[12]]}, ORDER) == ()


def test_vanished_series_of_a_commit_are_one_finding_of_their_kernel():
    items = [
        Vanished(identity=identity(case=size, benchmark=f"{kernel}.Cpu.time_hot"), last=LINE[3], commit=LINE[4])
        for kernel in ("matmul", "quantize_int8")
        for size in ("float32-1M", "float32-5M")
    ]
    found = of_vanished(items, when=WHEN, who="nightly")
    assert [(item.id, item.state, len(item.affected)) for item in found] == [
        (f"matmul-vanished-{LINE[4][:8]}", State.NEW, 2),
        (f"quantize_int8-vanished-{LINE[4][:8]}", State.NEW, 2),
    ]


def test_an_acknowledgement_may_be_renewed():
    kept = decisions.acknowledge(finding(), reason="wait", until=TODAY, who="ada", when=WHEN)
    longer = decisions.acknowledge(kept, reason="wait on", until=date(2027, 1, 1), who="ada", when=WHEN)
    assert longer.until == date(2027, 1, 1)


def test_what_vanished_is_resolved_when_all_of_it_has_a_value_again():
    items = [Vanished(identity=identity(case=size), last=LINE[3], commit=LINE[4]) for size in ("a", "b")]
    (found,) = of_vanished(items, when=WHEN, who="nightly")
    back, gone = history(6, case="a"), history(4, case="b")
    for there, state in (
        ((back, gone), State.NEW),
        ((back,), State.NEW),
        ((back, history(6, case="b")), State.RESOLVED),
    ):
        known = {item.identity: item for item in there}
        assert decisions.resolved(found, known, ORDER, who="nightly", when=WHEN).state is state


def test_a_suspect_that_a_confirmation_refutes_is_resolved_and_nothing_else():
    done = decisions.refuted(finding(state=State.SUSPECT), reason="measured again: the same", who="nightly", when=WHEN)
    assert (done.state, done.decisions[-1].reason) == (State.RESOLVED, "measured again: the same")
    assert decisions.refuted(finding(), reason="r", who="nightly", when=WHEN) == finding()
