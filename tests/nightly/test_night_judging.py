"""From a night's values to findings, on a simulated machine: what is screened, measured again, bisected, recorded."""

import math
import re
import sys
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.finding import Kind, State, known_steps
from kernel_velocity.findings.verdict import Failed, Verdict, exit_status
from kernel_velocity.nightly import confirm, judge
from kernel_velocity.nightly.confirm import Outcome, look_again, pending
from kernel_velocity.nightly.judge import Before, suspicions
from kernel_velocity.nightly.screen import look_back, shift
from kernel_velocity.results.identity import Identity
from kernel_velocity.series.history import Observation, SeriesHistory
from kernel_velocity.site.pages import finding_words
from kernel_velocity.stats.changepoints import vote
from kernel_velocity.stats.sequential import Answer
from tests.ab.simulated_machine import Machine

LINE = tuple(f"{number:040x}" for number in range(30))
ORDER = {sha: place for place, sha in enumerate(LINE)}
WHEN = datetime(2026, 11, 22, tzinfo=UTC)
LATER = datetime(2026, 11, 23, tzinfo=UTC)
NIGHT = 1000.0


def identity(case="float32-1M", implementation="native", kernel="scale", method="m"):
    return Identity(
        machine="box",
        environment="host-py3.11",
        benchmark=f"{kernel}.Cpu.{'track_max_error' if method == '' else 'time_hot'}",
        implementation=implementation,
        case=case,
        version="1",
        method=method,
    )


def history(levels, *, tonight=3, seed=0, noise=0.003, places=None, codes=None, **of):
    """Return a series of log values at these levels; the last `tonight` were measured tonight."""
    rng = np.random.default_rng(seed)
    places = list(range(len(levels))) if places is None else places
    first = len(levels) - tonight
    return SeriesHistory(
        identity=identity(**of),
        observations=tuple(
            Observation(
                commit=LINE[place],
                place=place,
                value=-7 + level + rng.normal(0, noise),
                measured=NIGHT + len(LINE) - place if number >= first else float(number),  # asv ends with the oldest
                code=None if codes is None else codes[number],
            )
            for number, (level, place) in enumerate(zip(levels, places, strict=True))
        ),
    )


def judged(*histories, known=()):
    return suspicions(histories, shift, look_back, line=LINE, since=NIGHT, known=known_steps(known, ORDER))


def after(outcome, suspected, *histories, known=(), expectations=(), when=WHEN):
    before = Before(known=known, expectations=expectations, order=ORDER, when=when)
    return judge.findings(outcome, suspected, histories, {}, before)


def a_night(machine, *histories, budget=1e6, **more):
    suspected = judged(*histories, known=more.get("known", ()))
    outcome = look_again(suspected.moves, machine, budget=budget)
    return after(outcome, suspected, *histories, **more), outcome


def slower_from(place, factor):
    return {LINE[number]: factor for number in range(place, len(LINE))}


STEP = [0.0] * 20 + [math.log(1.1)]


def test_a_quiet_night_finds_nothing():
    found, outcome = a_night(Machine(), history([0.0] * 20), history([0.0] * 20, seed=1, case="float32-2M"))
    assert (found, outcome) == ((), Outcome())


def test_ceilings_and_what_compilers_say_are_not_what_a_night_is_for():
    series = history([0.0] * 3, tonight=1)
    of = replace(series.identity, benchmark="device.Cpu.track_dram_bandwidth", implementation="", case="", method="")
    suspected = judged(replace(series, identity=of))
    assert (len(suspected.judged), suspected.measured) == (1, 0)
    every_timing_died = Verdict(title="", when=WHEN, measured=suspected.measured, failures=(Failed(what="x", why="y"),))
    assert exit_status(every_timing_died) == 22
    figure = replace(of, benchmark="matmul.Cuda.track_registers", implementation="native", case="sm_90")
    assert judged(*(replace(series, identity=one) for one in (series.identity, of, figure))).measured == 1


def test_a_regression_is_confirmed_at_its_commit():
    (found,), outcome = a_night(Machine(speed=slower_from(20, 1.1)), history(STEP, tonight=1))
    assert (found.kind, found.state, found.culprit) == (Kind.REGRESSION, State.CONFIRMED, LINE[20])
    assert outcome.refuted == {}
    assert found.worst.ratio == pytest.approx(1.1, abs=0.02)
    assert found.worst.low > 1.05 and found.worst.p < 1e-3 and found.anchor == LINE[19]


def test_an_improvement_is_written_down_as_well():
    (found,), _ = a_night(Machine(speed=slower_from(20, 0.9)), history([0.0] * 20 + [math.log(0.9)], tonight=1))
    assert (found.kind, found.state) == (Kind.IMPROVEMENT, State.CONFIRMED)


def test_what_a_rerun_does_not_see_is_no_finding():
    found, outcome = a_night(Machine(noise=0.002), history(STEP, tonight=1))
    assert found == ()
    (line,) = outcome.refuted.values()
    assert "+10" in line and "float32-1M" in line
    ((_, said),) = outcome.comparisons
    assert (said.answer, said.rounds) == (Answer.SAME, 8)


def test_a_suspect_that_a_later_night_refutes_is_resolved():
    series = history(STEP, tonight=1)
    known, _ = a_night(Machine(noise=0.002), series, budget=0.0)
    assert known[0].state is State.SUSPECT
    (found,), _ = a_night(Machine(noise=0.002), series, known=known)
    assert found.state is State.RESOLVED and "measured again in turns" in found.decisions[-1].reason


def test_a_suspect_that_turns_out_to_be_the_opposite_is_resolved_and_told_as_what_it_is():
    series = history(STEP, tonight=1)
    known, _ = a_night(Machine(), series, budget=0.0)
    outcome = look_again(list(pending(known, [series], ())), Machine(speed=slower_from(20, 0.9)), budget=1e6)
    found = after(outcome, judged(), series, known=known, when=LATER)
    assert {item.kind: item.state for item in found} == {
        Kind.REGRESSION: State.RESOLVED,
        Kind.IMPROVEMENT: State.CONFIRMED,
    }
    (line,) = outcome.refuted.values()
    assert re.search(r": \+1\d\.\d% in the history, but measured again in turns -(9|10)\.\d%: p < 0\.001", line), line


def test_what_cannot_be_settled_is_a_suspect():
    machine = Machine(speed=slower_from(20, 1.1))
    (found,), outcome = a_night(machine, history(STEP, tonight=1), budget=0.0)
    assert (found.state, len(outcome.unsettled), machine.asked) == (State.SUSPECT, 1, [])


def test_what_does_not_build_any_more_is_a_suspect_that_says_so():
    (found,), _ = a_night(Machine(unbuildable=(LINE[19],)), history(STEP, tonight=1))
    assert found.state is State.SUSPECT and "does not build" in found.how


def test_a_regression_that_a_later_commit_of_the_night_took_back_is_found():
    levels = [0.0] * 18 + [math.log(1.1)] * 2 + [0.0] * 3
    speed = {LINE[18]: 1.1, LINE[19]: 1.1}
    found, _ = a_night(Machine(speed=speed), history(levels, tonight=5))
    assert [(item.kind, item.culprit) for item in found] == [
        (Kind.REGRESSION, LINE[18]),
        (Kind.IMPROVEMENT, LINE[20]),
    ]


def test_a_regression_that_a_speed_up_of_the_same_night_hides_is_told():
    levels = [0.0] * 16 + [math.log(1.1)] * 2 + [math.log(1.1 * 0.9)] * 4
    speed = {LINE[place]: 1.1 if place < 18 else 0.99 for place in range(16, len(LINE))}
    series = history(levels, tonight=6)
    found, _ = a_night(Machine(speed=speed), series)
    assert [(item.kind, item.state, item.culprit) for item in found] == [
        (Kind.REGRESSION, State.CONFIRMED, LINE[16]),
        (Kind.IMPROVEMENT, State.CONFIRMED, LINE[18]),
    ]
    later = replace(series, observations=tuple(replace(one, measured=1.0) for one in series.observations))
    by_kind = {item.kind: item.state for item in after(Outcome(), judged(later), later, known=found, when=LATER)}
    assert by_kind == {Kind.REGRESSION: State.RESOLVED, Kind.IMPROVEMENT: State.CONFIRMED}


def test_commits_between_that_were_not_measured_are_bisected():
    machine = Machine(speed=slower_from(22, 1.1))
    places = [*range(20), 25]
    (found,), _ = a_night(machine, history(STEP, tonight=1, places=places))
    assert found.culprit == LINE[22]
    assert "bisected over 6 commits" in found.how and any("bisection" in text for text in found.ruled_out)


def test_one_cause_in_many_series_is_one_finding():
    series = [history(STEP, tonight=1, seed=number, case=f"float32-{number}M") for number in range(3)]
    still = [history([0.0] * 21, tonight=1, seed=9, case=f"float32-{number}k") for number in range(4)]
    (found,), _ = a_night(Machine(speed=slower_from(20, 1.1)), *series, *still)
    assert len(found.affected) == 3


def test_a_night_on_which_everything_is_slower_accuses_no_commit():
    cases = [history(STEP, tonight=1, seed=number, case=f"float32-{number}M") for number in range(2)]
    controls = [history(STEP, tonight=1, seed=5 + number, implementation="eager") for number in range(2)]
    (found,), _ = a_night(Machine(noise=0.002), *cases, *controls)
    assert (found.kind, found.commits) == (Kind.ENVIRONMENT, ())


def test_what_a_commit_did_on_a_night_on_which_everything_is_slower_is_told_from_that():
    cases = [history(STEP, tonight=1, seed=number, case=f"float32-{number}M") for number in range(2)]
    controls = [history(STEP, tonight=1, seed=5 + number, implementation="eager") for number in range(2)]
    found, _ = a_night(Machine(noise=0.002, speed=slower_from(20, 1.04)), *cases, *controls)
    assert {(item.kind, item.commits) for item in found} == {
        (Kind.ENVIRONMENT, ()),
        (Kind.REGRESSION, (LINE[20],)),
    }


def test_unchanged_code_is_never_blamed():
    codes = ["x"] * 21
    found, _ = a_night(Machine(), history(STEP, tonight=1, codes=codes))
    assert all(item.kind is Kind.ENVIRONMENT and not item.commits for item in found)


def test_registers_that_spill_need_no_rerun_either():
    machine, series = Machine(), history([0.0] * 20 + [math.log(16)], tonight=1, method="", noise=0)
    of = replace(series.identity, benchmark="matmul.Cuda.track_spill_bytes", case="sm_90")
    (found,), _ = a_night(machine, replace(series, identity=of))
    assert (found.kind, found.state, found.culprit) == (Kind.REGRESSION, State.CONFIRMED, LINE[20])
    assert found.how == "the compiler's figure is read, not timed" and machine.asked == []
    assert "it is the compiler's figure" in finding_words.missing(found)


def test_an_error_that_grew_needs_no_rerun():
    machine = Machine()
    (found,), _ = a_night(machine, history([0.0] * 20 + [0.5], tonight=1, method="", noise=1e-4))
    assert (found.state, machine.asked) == (State.CONFIRMED, [])


def test_what_was_found_is_not_found_again_and_what_is_expected_is_no_alarm():
    first = history(STEP, tonight=1)
    machine = Machine(speed=slower_from(20, 1.1))
    known, _ = a_night(machine, first)
    again, _ = a_night(Machine(speed=slower_from(20, 1.1)), history([*STEP, math.log(1.1)], tonight=1), known=known)
    assert again == known
    wanted = Expectation(id="x", commits=(LINE[20],), bench="", reason="a safer path", who="me", when=WHEN)
    (found,), _ = a_night(Machine(speed=slower_from(20, 1.1)), first, expectations=(wanted,))
    assert found.state is State.EXPECTED


def slower_night(natives=2, controls=2, step=0.18, tonight=3):
    levels = [0.0] * 20 + [step] * tonight
    of = {"tonight": tonight, "codes": None}
    cases = [history(levels, seed=number, case=f"float32-{number}M", **of) for number in range(natives)]
    return [
        *cases,
        *(
            history(levels, seed=9 + number, implementation="eager", case=f"{number}", **of)
            for number in range(controls)
        ),
    ]


def at_the_same_level(item):
    """Return the observation of the next commit, a night later."""
    last = item.newest
    return replace(last, commit=LINE[last.place + 1], place=last.place + 1, measured=NIGHT + 1000)


def test_one_change_of_the_machine_in_a_night_of_several_commits_is_one_finding():
    series = slower_night()
    suspected = judged(*series)
    assert len(suspected.events) == 1
    assert suspected.events[0].began == min(one.measured for item in series for one in item.observations[-3:])
    found, _ = a_night(Machine(noise=0.002), *series)
    assert [item.kind for item in found] == [Kind.ENVIRONMENT]
    next_night = [replace(item, observations=(*item.observations, at_the_same_level(item))) for item in series]
    steps = known_steps(found, ORDER)
    assert suspicions(next_night, shift, look_back, line=LINE, since=NIGHT + 500, known=steps).events == ()


def test_what_an_ab_run_gave_to_a_commit_is_not_the_machines_as_well():
    series = [history([0.0] * 20 + [0.2], tonight=1, seed=number, case=f"float32-{number}M") for number in range(4)]
    suspected = judged(*series)
    outcome = look_again(suspected.moves, Machine(speed=slower_from(20, math.exp(0.2))), budget=1e6)
    kinds = {item.kind for item in after(outcome, suspected, *series)}
    assert kinds == {Kind.REGRESSION}


def test_a_suspect_is_refuted_at_its_own_commit_alone():
    first = history(STEP, tonight=1)
    (known,), _ = a_night(Machine(), first, budget=0.0)
    later = history([*STEP, *[math.log(1.1)] * 4, math.log(1.25)], tonight=1)
    found = after(
        Outcome(refuted={(later.identity, LINE[25]): "nothing there"}), judged(later, known=()), later, known=(known,)
    )
    assert [item.state for item in found] == [State.SUSPECT]
    found = after(Outcome(refuted={(later.identity, LINE[20]): "nothing there"}), judged(later), later, known=(known,))
    assert [item.state for item in found] == [State.RESOLVED]


def test_what_an_earlier_night_had_no_time_for_is_looked_at_again():
    known, _ = a_night(Machine(), history([0.0] * 4 + [math.log(1.1)], tonight=1), budget=0.0)
    later = history([0.0] * 4 + [math.log(1.1)] * 12, tonight=1)
    assert judged(later).moves == ()  # the screen has got used to it
    (move,) = pending(known, [later], ())
    assert (move.good.commit, move.bad.commit) == (LINE[3], LINE[4])
    assert list(pending(known, [later], {(later.identity, LINE[4])})) == []
    outcome = look_again([move], Machine(speed=slower_from(4, 1.1)), budget=1e6)
    (found,) = after(outcome, judged(later), later, known=known)
    assert (found.state, found.culprit) == (State.CONFIRMED, LINE[4])


def test_a_machine_that_got_faster_resolves_no_regression():
    series = history(STEP, tonight=1)
    known, _ = a_night(Machine(speed=slower_from(20, 1.1)), series)
    faster = slower_night(natives=0, step=-math.log(1.1), tonight=1)
    event, _ = a_night(Machine(), *faster)
    moved = history([*STEP, 0.0, 0.0, 0.0, 0.0], tonight=4)
    step = replace(event[0], affected=(replace(event[0].affected[0], identity=moved.identity, ratio=1 / 1.1),))
    step = replace(step, found=datetime.fromtimestamp(NIGHT, UTC))
    found = after(Outcome(), judged(), moved, known=(*known, step), when=LATER)
    assert {item.kind: item.state for item in found}[Kind.REGRESSION] is State.CONFIRMED


def test_what_a_night_confirms_is_held_against_all_that_it_measured_again():
    series = history(STEP, tonight=1)
    suspected = judged(series)
    outcome = look_again(suspected.moves, Machine(speed=slower_from(20, 1.1), noise=0.03, seed=2), budget=1e6)
    ((of, said),) = outcome.comparisons
    assert said.answer is Answer.DIFFERENT
    outcome.comparisons += [(of, replace(said, answer=Answer.SAME, p=(1 + number) / 500)) for number in range(500)]
    (found,) = after(outcome, suspected, series)
    assert found.state is State.SUSPECT


def test_a_culprit_that_its_own_check_clears_is_not_accused(monkeypatch):
    real = confirm.bisect
    monkeypatch.setattr(confirm, "bisect", lambda *given, **more: replace(real(*given, **more), own=None))
    (found,), _ = a_night(Machine(speed=slower_from(22, 1.1)), history(STEP, tonight=1, places=[*range(20), 25]))
    assert found.commits == LINE[20:26] and found.culprit is None


def test_two_culprits_in_one_range_are_two_findings():
    one, other = (history(STEP, tonight=1, places=[*range(20), 25], case=case) for case in ("float32-1M", "float32-2M"))
    speed = {
        LINE[place]: {confirm._series(one.identity): 1.3 if place >= 21 else 1.0}
        | {confirm._series(other.identity): 1.1 if place >= 23 else 1.0}
        for place in range(20, len(LINE))
    }
    found, _ = a_night(Machine(speed=speed), one, other)
    by_case = {item.affected[0].identity.case: item for item in found}
    assert len(found) == 2 and by_case["float32-1M"].culprit == LINE[21]
    assert LINE[21] not in by_case["float32-2M"].commits and LINE[23] in by_case["float32-2M"].commits


def test_pairs_of_commits_are_measured_together_and_the_budget_is_shared():
    machine = Machine(speed=slower_from(20, 1.1))
    series = [history(STEP, tonight=1, seed=number, case=f"float32-{number}M") for number in range(3)]
    still = [history([0.0] * 21, tonight=1, seed=9, case=f"float32-{number}k") for number in range(4)]
    a_night(machine, *series, *still)
    assert {(before, after) for before, after, _, _ in machine.asked} == {(LINE[19], LINE[20])}
    assert len(machine.asked[0][2]) == 3


@pytest.mark.parametrize("seed", range(5))
def test_noise_alone_accuses_nobody(seed):
    series = [
        history([0.0] * 12, tonight=12, seed=100 * seed + number, noise=0.01, case=f"float32-{number}M")
        for number in range(6)
    ]
    found, _ = a_night(Machine(noise=0.01, seed=seed), *series)
    assert not [item for item in found if item.state is State.CONFIRMED]


DRIFTING = [0.0015 * max(0, place - 15) for place in range(76)]  # 9% in all, no commit more than .15%


def night_of(place, levels, **of):
    """Return a series as it was when the commit at a place was the newest, and the only one of its night."""
    whole = history(levels, tonight=0, codes=[f"code {number}" for number in range(len(levels))], **of)
    kept = whole.observations[: place + 1]
    return replace(whole, observations=(*kept[:-1], replace(kept[-1], measured=NIGHT)))


@pytest.fixture
def long_line(monkeypatch):
    line = tuple(f"{number:040x}" for number in range(80))
    monkeypatch.setattr(sys.modules[__name__], "LINE", line)
    monkeypatch.setattr(sys.modules[__name__], "ORDER", {sha: place for place, sha in enumerate(line)})


@pytest.mark.usefixtures("long_line")
def test_a_slow_drift_is_suspected_once_and_confirmed():
    moves = [move for place in range(58, 76) for move in judged(night_of(place, DRIFTING)).moves]
    drifts = [move for move in moves if len(move.candidates) > 50]
    assert (len(drifts), len(moves) < 5) == (1, True)  # of 18 nights
    (move,) = drifts
    assert move.effect > math.log(1.07) and move.good.place < 15
    speed = {LINE[place]: math.exp(level) for place, level in enumerate(DRIFTING)}
    outcome = look_again([move], Machine(speed=speed, noise=0.002), budget=1e6)
    (found,) = after(outcome, judged(move.history), move.history)
    assert (found.kind, found.state, found.culprit) == (Kind.REGRESSION, State.CONFIRMED, None)
    assert found.worst.ratio == pytest.approx(math.exp(DRIFTING[move.bad.place]), abs=0.01)


@pytest.mark.usefixtures("long_line")
def test_a_step_below_what_sessions_differ_by_is_seen_by_many_values():
    levels = [0.0] * 40 + [math.log(1.04)] * 36
    wide = replace(night_of(60, levels, noise=0.012), floor=0.068)
    nights = [replace(night_of(place, levels, noise=0.012), floor=0.068) for place in range(41, 76)]
    moves = [move for each in nights for move in judged(each).moves]
    assert abs(wide.floor) > math.log(1.04)
    assert 1 <= len(moves) <= 3
    assert any(
        LINE[40] in move.candidates and move.effect == pytest.approx(math.log(1.04), abs=0.015) for move in moves
    )


@pytest.mark.usefixtures("long_line")
def test_a_drift_that_unchanged_code_shares_is_the_machine_s():
    def unchanged(place):
        same = night_of(place, DRIFTING, case="float32-2M", seed=5)
        return replace(same, observations=tuple(replace(item, code="one") for item in same.observations))

    for place in range(58, 76):
        found = judged(night_of(place, DRIFTING), unchanged(place))
        assert not [move for move in found.moves if len(move.candidates) > 50]


@pytest.mark.parametrize("fact", ["torch", "cxx compiler version", "libc"])
def test_an_error_that_moved_with_what_computes_it_accuses_no_commit(fact):
    def series(levels, **of):
        whole = history(levels, tonight=1, noise=0.0, codes=["a"] * 20 + ["b"], **of)
        told = [{fact: "1" if item.place < 20 else "2"} for item in whole.observations]
        kept = tuple(replace(item, facts=own) for item, own in zip(whole.observations, told, strict=True))
        return replace(whole, observations=kept)

    error = series([0.0] * 20 + [math.log(1.05)], method="")
    (found,), outcome = a_night(Machine(), error)
    assert (found.kind, found.commits, outcome.cases) == (Kind.ENVIRONMENT, (), [])
    assert found.affected[0].ratio == pytest.approx(1.05) and fact in found.changes


def test_errors_that_moved_with_the_code_alone_are_the_commit_s():
    levels = {"tonight": 1, "noise": 0.0, "method": "", "codes": ["a"] * 20 + ["b"]}
    cases = ("float32-1M", "float32-2M", "float32-5M")  # so many would be an event of the machine
    errors = [history([0.0] * 20 + [math.log(1.05)], case=case, **levels) for case in cases]
    (found,), _ = a_night(Machine(), *errors)
    assert (found.kind, found.state, found.culprit) == (Kind.REGRESSION, State.CONFIRMED, LINE[20])
    assert len(found.affected) == len(cases)


@pytest.mark.usefixtures("long_line")
def test_a_step_that_many_values_place_late_is_looked_for_before_it_too():
    levels = [0.0] * 40 + [math.log(1.04)] * 36
    seen = look_back([item.value for item in night_of(60, levels, noise=0.012).observations])
    ((placed,),) = [vote.detect([item.value for item in night_of(60, levels, noise=0.012).observations])]
    assert placed.index > 40  # the vote names the commit after
    assert seen.good < 40 <= seen.bad
