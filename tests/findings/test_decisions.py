"""What is decided about findings: acknowledged, reopened, expected, resolved, and `Perf-Expected:` lines."""

import dataclasses
import math
from datetime import timedelta

import pytest

from kernel_velocity.findings import decisions
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.finding import Affected, Kind, State
from kernel_velocity.nightly.confirm import of_vanished
from kernel_velocity.results.records import Commit
from kernel_velocity.stats.sequential import Answer, Comparison
from kernel_velocity.verdict import silence
from kernel_velocity.verdict.silence import Superseded, Vanished
from tests.findings.nights import LINE, ORDER, WHEN, case, finding, history, identity

TODAY = WHEN.date()
LATER = WHEN + timedelta(days=1)
STEP = math.log(1.1)
SHA = "a" * 40


def expectation(**changed):
    whole = {"commits": (LINE[30],), "bench": "matmul", "reason": "asked for", "who": "ada", "when": WHEN}
    return Expectation(id="expect-1", **(whole | changed))


def expected(record, *expectations, when=WHEN):
    return decisions.expected(record, expectations, when=when)


def acknowledged(record):
    return decisions.acknowledge(record, reason="wait for 2.0", until=TODAY, who="ada", when=WHEN)


def test_acknowledgement_is_over_the_day_after_its_last():
    record = acknowledged(finding(state=State.SUSPECT))
    assert (record.state, record.until, record.decisions[-1].who) == (State.ACKNOWLEDGED, TODAY, "ada")
    assert decisions.refreshed(record, who="nightly", when=WHEN) == record
    late = decisions.refreshed(record, who="nightly", when=LATER)
    assert late.decisions[-1].reason == f"acknowledged until {TODAY}, which is over"
    assert [decision.state for decision in late.decisions] == [State.SUSPECT, State.ACKNOWLEDGED, State.SUSPECT]
    longer = decisions.acknowledge(record, reason="wait on", until=LATER.date(), who="ada", when=WHEN)
    assert longer.until == LATER.date()


@pytest.mark.parametrize(
    ("record", "changed", "is_covered"),
    [
        (finding(), {}, True),
        (finding(), {"bench": "matmul.*native"}, True),
        (finding(), {"bench": "^quantize"}, False),
        (finding(), {"commits": (LINE[29],)}, False),
        (finding(), {"most": 1.2}, True),
        (finding(), {"most": 1.05}, False),
        (finding(), {"most": 0.8}, False),  # an improvement was expected
        (finding(commits=LINE[30:32]), {}, False),  # one commit does not excuse its neighbour
        (finding(commits=LINE[30:32]), {"commits": LINE[29:33]}, True),
        (finding(kind=Kind.IMPROVEMENT), {"most": 0.8}, True),  # to .8 of the time, the interval up to .808
        (finding(kind=Kind.IMPROVEMENT), {"most": 0.9}, False),
        (finding(kind=Kind.IMPROVEMENT), {"most": 1.5}, False),
    ],
)
def test_expectation_covers_its_commits_series_and_size(record, changed, is_covered):
    after = expected(record, expectation(**changed))
    assert (after.state is State.EXPECTED) == is_covered
    assert not is_covered or (after.decisions[-1].who, after.decisions[-1].reason) == ("ada", "asked for")


def test_expectation_is_of_every_series_of_a_confirmed_finding():
    both = finding(affected=(case().affected, case(case="float32-5M").affected))
    small = expectation(bench="256x256")
    assert expected(both, small).state is State.CONFIRMED
    assert expected(both, small, expectation(bench="5M")).state is State.EXPECTED
    assert expected(finding(state=State.SUSPECT), expectation()).state is State.SUSPECT


def test_expectation_ends_when_the_finding_is_reopened():
    opened = decisions.reopen(expected(finding(), expectation()), reason="not this much", who="ada", when=LATER)
    assert opened.state is State.CONFIRMED and expected(opened, expectation(), when=LATER) == opened
    newer = expectation(when=LATER + timedelta(days=1))
    assert expected(opened, newer, when=newer.when).state is State.EXPECTED
    by_night = decisions.reopen(expected(finding(), expectation()), reason="more", who="nightly", when=LATER)
    assert expected(by_night, expectation(), when=LATER).state is State.EXPECTED


def resolved(record, *histories):
    series = {history.identity: history for history in histories}
    return decisions.resolved(record, series, ORDER, who="nightly", when=WHEN).state


REGRESSION = finding(affected=(Affected(identity=identity(), ratio=1.1),))


@pytest.mark.parametrize(("back", "state"), [(39, State.CONFIRMED), (38, State.RESOLVED)])
def test_regression_is_resolved_by_two_of_three_values(back, state):
    slow = history(40, step_at=30, step=STEP)
    assert resolved(REGRESSION, slow) is State.CONFIRMED
    values = [
        dataclasses.replace(observation, value=observation.value - (STEP if observation.position >= back else 0))
        for observation in slow.observations
    ]
    assert resolved(REGRESSION, dataclasses.replace(slow, observations=tuple(values))) is state


@pytest.mark.parametrize(
    ("ratio", "commit", "states"),
    [
        (1 / 1.1, 31, (State.RESOLVED, State.EXPECTED)),
        (1 / 1.087, 31, (State.RESOLVED, State.EXPECTED)),  # what is left of it is within the interval
        (1 / 1.05, 31, (State.CONFIRMED, State.CONFIRMED)),  # half of it is left
        (1 / 1.2, 31, (State.CONFIRMED, State.CONFIRMED)),  # further than back
        (1 / 1.1, 29, (State.CONFIRMED, State.CONFIRMED)),  # before it
    ],
)
def test_improvement_that_takes_back_is_no_second_finding(ratio, commit, states):
    regression = finding()
    member = case(ratio=ratio, commits=LINE[commit : commit + 1]).affected
    other = finding(Kind.IMPROVEMENT, commits=(LINE[commit],), affected=(member,))
    both = decisions.taken_back((regression, other), ORDER, who="nightly", when=LATER)
    assert tuple(record.state for record in both) == states
    if states[0] is State.RESOLVED:
        reasons = [record.decisions[-1].reason for record in both]
        assert reasons == [f"back since {LINE[31][:8]}: {other.id} takes it back", f"takes back {regression.id}"]
    more = dataclasses.replace(regression, affected=(*regression.affected, case(case="other").affected))
    assert decisions.taken_back((more, other), ORDER, who="nightly", when=LATER) == [more, other]
    assert decisions.taken_back((regression, other), ORDER, who="nightly", when=WHEN) == [
        regression,
        other,
    ]  # of tonight


def test_regression_is_not_resolved_by_too_little():
    assert resolved(REGRESSION, history(33)) is State.CONFIRMED
    assert resolved(REGRESSION, history(34)) is State.RESOLVED
    assert resolved(REGRESSION) is State.CONFIRMED  # nobody measures it any more
    small = finding(affected=(Affected(identity=identity(), ratio=1.012),))
    assert resolved(small, history(40, step_at=30, step=0.009)) is State.CONFIRMED


def test_vanished_series_are_a_finding_until_all_return():
    vanished = [
        Vanished(identity=identity(case=size, benchmark=f"{kernel}.Cpu.time_hot"), last=LINE[3], commit=LINE[4])
        for kernel in ("matmul", "quantize_int8")
        for size in ("a", "b")
    ]
    result, other = of_vanished(vanished, ORDER, when=WHEN)
    assert (result.id, result.state, len(result.affected)) == (f"matmul-vanished-{LINE[4][:8]}", State.NEW, 2)
    assert other.id == f"quantize_int8-vanished-{LINE[4][:8]}"
    back, gone = history(6, case="a"), history(4, case="b")
    assert resolved(result, back, gone) is resolved(result, back) is State.NEW
    assert resolved(result, back, history(6, case="b")) is State.RESOLVED


def test_series_with_a_newer_value_has_not_vanished():
    series = history(10)
    for commit, count in ((LINE[4], 0), (LINE[9], 0), (LINE[12], 1)):
        assert len(silence.vanished([series], {series.identity.slot: [commit]}, ORDER)) == count
    other = dataclasses.replace(history(20), identity=identity(method="n"))
    assert silence.vanished([series, other], {series.identity.slot: [LINE[12]]}, ORDER) == ()


def test_finding_ends_with_all_its_series():
    ended = [Superseded(old=identity(), new=identity(method="n"), what="method")]
    result = decisions.superseded(finding(), ended, who="nightly", when=WHEN)
    assert (result.state, result.decisions[-1].reason) == (State.METHOD, "its series ended: method changed")
    both = finding(affected=(case().affected, case(case="float32-5M").affected))
    assert decisions.superseded(both, ended, who="nightly", when=WHEN) == both


def commit(*lines, sha=SHA, author="Ada"):
    message = "\n".join(("Add a bias to the product", "", *lines))
    return Commit(sha=sha, parents=(), author=author, date=WHEN, committed=WHEN, message=message)


def read(*lines):
    return decisions.expectations([commit(*lines)])


def allows(line, ratio=1.02, **parts):
    (parsed,), notes = read(line)
    assert notes == ()
    return parsed.allows(str(identity(**parts)), ratio, None, None)


def test_line_says_which_series_how_far_and_why():
    (first, second), notes = read("perf-expected: matmul +3% because of the bias", "PERF-EXPECTED:   * any : flags")
    assert (first.id, first.commits, first.most, first.who) == ("aaaaaaaa-1", (SHA,), 1.03, "Ada")
    assert first.reason == "Perf-Expected in aaaaaaaa: of the bias"
    assert (second.id, second.most, second.reason, notes) == (
        "aaaaaaaa-2",
        None,
        "Perf-Expected in aaaaaaaa: flags",
        (),
    )
    assert read("We expected Perf-Expected: nothing") == ((), ())


@pytest.mark.parametrize(
    ("pattern", "is_covered"),
    [
        ("matmul", True),
        ("matmul.*.time_hot", True),
        ("*", True),
        ("*l*u*", True),
        ("*x*", False),  # the case is no part of the name
        ("mat", False),
        ("m.tmul", False),  # a point is a point
    ],
)
def test_pattern_is_a_kernel_or_the_beginning_of_a_series(pattern, is_covered):
    assert allows(f"Perf-Expected: {pattern} any") is is_covered


@pytest.mark.parametrize(
    ("much", "ratio", "is_covered"),
    [
        ("+3%", 1.02, True),
        ("+3%", 1.04, False),
        ("+3%", 0.98, False),
        ("-20%", 0.85, True),
        ("-20%", 0.75, False),
        ("-20%", 1.02, False),
        ("any", 7.0, True),
    ],
)
def test_percentage_is_how_far_a_value_may_move(much, ratio, is_covered):
    assert allows(f"Perf-Expected: matmul {much} because", ratio) is is_covered


@pytest.mark.parametrize(
    "line", ["matmul", "matmul 3%", "+3%", "matmul +3 %", "(a+)+$ any", "", "matmul +99999%", "\x1b[31m" + "x" * 200]
)
def test_line_that_cannot_be_read_is_a_note(line):
    expectations, (note,) = read(f"Perf-Expected: {line}")
    assert expectations == () and note.isprintable() and len(note) < 200
    assert note.startswith("aaaaaaaa: Perf-Expected: `Perf-Expected: SERIES +3%|-3%|any [because REASON]` is wanted")


def test_pattern_of_many_stars_takes_no_exponential_time():
    line = "Perf-Expected: " + "*a" * 40 + " any"
    assert allows(line, benchmark="a" * 200 + ".Cpu.time_hot") is True
    assert allows(line, benchmark="b" * 200) is False


def test_line_of_a_branch_counts_for_its_merge():
    side = commit("Perf-Expected: matmul +3%", "Perf-Expected: matmul 3", sha="b" * 40, author="Ben")
    parsed, notes = decisions.expectations([side], {SHA: [side]})
    assert [(expectation.commits, expectation.id, expectation.who) for expectation in parsed] == [
        ((side.sha,), "bbbbbbbb-1", "Ben"),
        ((SHA,), "bbbbbbbb-1", "Ben"),
    ]
    assert len(notes) == 1


def test_slower_as_expected_names_the_reasons():
    expectations, _ = read("Perf-Expected: matmul.*.time_hot +3% for the bias")
    slower = Comparison(answer=Answer.DIFFERENT, reason="measured", rounds=8, ratio=1.05, low=1.02, high=1.08, p=1e-4)
    same = dataclasses.replace(slower, answer=Answer.SAME, ratio=1.001, low=1.0, high=1.002)
    comparisons = {
        ("matmul.Cpu.time_hot", ("native", "a")): slower,
        ("matmul.Cpu.time_cold", ("native", "a")): slower,
        ("matmul.Cpu.time_hot", ("native", "b")): dataclasses.replace(slower, low=1.04),
        ("matmul.Cpu.time_hot", ("native", "c")): dataclasses.replace(slower, answer=Answer.UNKNOWN),
        ("matmul.Cpu.time_hot", ("native", "d")): Comparison(answer=Answer.UNKNOWN, reason="no look"),
        ("matmul.Cpu.time_hot", ("native", "e")): same,
    }
    assert decisions.slower_as_expected(comparisons, expectations) == dict.fromkeys(
        [("matmul.Cpu.time_hot", ("native", "a")), ("matmul.Cpu.time_hot", ("native", "c"))],
        "Perf-Expected in aaaaaaaa: for the bias",
    )
