"""From a night's values to findings, on a simulated machine: what is screened, measured again, bisected, recorded."""

import math
import re
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from kernel_velocity.direction import Better
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.finding import Kind, State, known_steps
from kernel_velocity.findings.store import NO_MEMORY
from kernel_velocity.findings.verdict import Failed, NightVerdict, exit_status
from kernel_velocity.nightly import conclude, confirm, judge
from kernel_velocity.nightly.confirm import Remeasured, look_again, pending
from kernel_velocity.site.pages import finding as finding_page
from kernel_velocity.stats.sequential import Answer
from kernel_velocity.verdict.history import Observation, SeriesHistory
from tests.ab.simulated_machine import Machine
from tests.findings import nights

LINE = tuple(f"{number:040x}" for number in range(80))
ORDER = {sha: index for index, sha in enumerate(LINE)}
WHEN = datetime(2026, 11, 22, tzinfo=UTC)
LATER = datetime(2026, 11, 23, tzinfo=UTC)
NIGHT = 1000.0
SLOWER = math.log(1.1)
STEP = [0.0] * 20 + [SLOWER]


def identity(case="float32-1M", implementation="native", kernel="scale", method="m"):
    benchmark = f"{kernel}.Cpu.{'time_hot' if method else 'track_max_error'}"
    return nights.identity(machine="box", benchmark=benchmark, implementation=implementation, case=case, method=method)


def history(levels, *, tonight=3, seed=0, noise=0.003, indices=None, codes=None, **of):
    """Return a series of log values at these levels. The last `tonight` were measured tonight."""
    rng = np.random.default_rng(seed)
    indices = list(range(len(levels))) if indices is None else indices
    first = len(levels) - tonight
    return SeriesHistory(
        identity=identity(**of),
        better=Better.LOWER,
        observations=tuple(
            Observation(
                commit=LINE[index],
                position=index,
                value=-7 + level + rng.normal(0, noise),
                measured=NIGHT + len(LINE) - index if number >= first else float(number),  # asv ends with the oldest
                code=None if codes is None else codes[number],
            )
            for number, (level, index) in enumerate(zip(levels, indices, strict=True))
        ),
    )


def several(count, levels=STEP, *, first=0, tonight=1, **of):
    """Return series of several test cases."""
    seeds = range(first, first + count)
    return [history(levels, tonight=tonight, seed=seed, case=f"float32-{seed}M", **of) for seed in seeds]


def judged(*histories, recorded=(), since=NIGHT, **more):
    return judge.Night(histories, line=LINE, since=since, explained=known_steps(recorded, ORDER), **more).suspicions()


def test_night_that_has_nothing_to_compare_with_says_so():
    calm = [0.0] * 4
    first, later = history(calm, tonight=4), history(calm, tonight=1)
    for measured, count in (([first], 1), ([first, later], 0), ([later], 0), ([history(calm, tonight=0)], 0), ([], 0)):
        assert len([*conclude._uncompared(measured, NIGHT)]) == count


def after(outcome, suspected, *histories, recorded=(), expectations=(), when=WHEN):
    more = {"recorded": recorded, "expectations": expectations, "order": ORDER, "when": when}
    return judge.findings(outcome, suspected, histories, {}, **more)


def a_night(machine, *histories, budget=1e6, **more):
    suspected = judged(*histories, recorded=more.get("recorded", ()))
    outcome = look_again(suspected.suspects, machine, budget=budget)
    return after(outcome, suspected, *histories, **more), outcome


def slower_from(index, factor):
    return {LINE[number]: factor for number in range(index, len(LINE))}


def kinds(findings):
    return {finding.kind: finding.state for finding in findings}


def test_quiet_night_finds_nothing():
    assert a_night(Machine(), *several(2, [0.0] * 20, tonight=3)) == ((), Remeasured())


def test_ceilings_and_figures_alone_are_nothing_measured():
    series = history([0.0] * 3, tonight=1)
    of = replace(series.identity, benchmark="device.Cpu.track_dram_bandwidth", implementation="", case="", method="")
    suspected = judged(replace(series, identity=of))
    assert (len(suspected.judged), suspected.measured) == (1, 0)
    every_timing_died = NightVerdict(
        title="", when=WHEN, measured=suspected.measured, failures=(Failed(what="x", why="y"),)
    )
    assert exit_status(every_timing_died) == 22
    figure = replace(of, benchmark="matmul.Cuda.track_registers", implementation="native", case="sm_90")
    assert judged(*(replace(series, identity=altered) for altered in (series.identity, of, figure))).measured == 1


def test_regression_is_confirmed_at_its_commit():
    (result,), outcome = a_night(Machine(speed=slower_from(20, 1.1)), history(STEP, tonight=1))
    assert (result.kind, result.state, result.culprit) == (Kind.REGRESSION, State.CONFIRMED, LINE[20])
    assert outcome.refuted == {}
    assert result.worst.ratio == pytest.approx(1.1, abs=0.02)
    assert result.worst.low > 1.05 and result.worst.p < 1e-3 and result.anchor == LINE[19]
    again, _ = a_night(Machine(speed=slower_from(20, 1.1)), history([*STEP, SLOWER], tonight=1), recorded=(result,))
    assert again == (result,)
    wanted = Expectation(id="x", commits=(LINE[20],), bench="", reason="a safer path", who="me", when=WHEN)
    (result,), _ = a_night(Machine(speed=slower_from(20, 1.1)), history(STEP, tonight=1), expectations=(wanted,))
    assert result.state is State.EXPECTED


def test_refuted_move_resolves_a_suspect():
    series = history(STEP, tonight=1)
    result, outcome = a_night(Machine(noise=0.002), series)
    assert result == ()
    (line,) = outcome.refuted.values()
    assert "+10" in line and "float32-1M" in line
    ((_, answer),) = outcome.comparisons
    assert (answer.answer, answer.rounds) == (Answer.SAME, 8)
    recorded, _ = a_night(Machine(noise=0.002), series, budget=0.0)
    assert kinds(recorded) == {Kind.REGRESSION: State.SUSPECT}
    (result,), _ = a_night(Machine(noise=0.002), series, recorded=recorded)
    assert result.state is State.RESOLVED and "measured again in turns" in result.decisions[-1].reason


def test_suspect_that_turns_out_to_be_the_opposite_is_resolved():
    series = history(STEP, tonight=1)
    recorded, _ = a_night(Machine(), series, budget=0.0)
    outcome = look_again(list(pending(recorded, [series], ())), Machine(speed=slower_from(20, 0.9)), budget=1e6)
    result = after(outcome, judged(), series, recorded=recorded, when=LATER)
    assert kinds(result) == {Kind.REGRESSION: State.RESOLVED, Kind.IMPROVEMENT: State.CONFIRMED}
    (line,) = outcome.refuted.values()
    assert re.search(r": \+1\d\.\d% in the history, but measured again in turns -(9|10)\.\d%: p < 0\.0002", line), line


def test_unsettled_move_is_a_suspect_that_says_why():
    machine = Machine(speed=slower_from(20, 1.1))
    (result,), outcome = a_night(machine, history(STEP, tonight=1), budget=0.0)
    assert (result.state, len(outcome.unsettled), machine.requests) == (State.SUSPECT, 1, [])
    (result,), _ = a_night(Machine(unbuildable=(LINE[19],)), history(STEP, tonight=1))
    assert result.state is State.SUSPECT and "does not build" in result.how


def test_regression_reverted_in_the_same_night_is_a_finding():
    levels = [0.0] * 18 + [SLOWER] * 2 + [0.0] * 3
    result, _ = a_night(Machine(speed={LINE[18]: 1.1, LINE[19]: 1.1}), history(levels, tonight=5))
    assert [(record.kind, record.culprit) for record in result] == [
        (Kind.REGRESSION, LINE[18]),
        (Kind.IMPROVEMENT, LINE[20]),
    ]


def test_regression_that_a_speed_up_of_the_night_hides_is_found():
    levels = [0.0] * 16 + [SLOWER] * 2 + [math.log(1.1 * 0.9)] * 4
    speed = {LINE[index]: 1.1 if index < 18 else 0.99 for index in range(16, len(LINE))}
    series = history(levels, tonight=6)
    result, _ = a_night(Machine(speed=speed), series)
    assert [(record.kind, record.state, record.culprit) for record in result] == [
        (Kind.REGRESSION, State.CONFIRMED, LINE[16]),
        (Kind.IMPROVEMENT, State.CONFIRMED, LINE[18]),
    ]
    later = replace(
        series, observations=tuple(replace(observation, measured=1.0) for observation in series.observations)
    )
    after_it = after(Remeasured(), judged(later), later, recorded=result, when=LATER)
    assert kinds(after_it) == {Kind.REGRESSION: State.RESOLVED, Kind.IMPROVEMENT: State.CONFIRMED}


BETWEEN = [*range(20), 25]  # places of measured commits


def test_unmeasured_commits_are_bisected():
    machine = Machine(speed=slower_from(22, 1.1))
    (result,), _ = a_night(machine, history(STEP, tonight=1, indices=BETWEEN))
    assert result.culprit == LINE[22]
    assert "bisected over 6 commits" in result.how and any("bisection" in text for text in result.ruled_out)


@pytest.mark.parametrize("budget", [16.0, 1e6])
def test_commit_of_identical_code_is_no_candidate(budget):
    """The bisection builds the first commit, whose code is that of the last measured one."""
    codes = dict(zip(LINE[19:22], "aab", strict=True))
    machine = Machine(speed=slower_from(21, 1.1), codes=codes)
    series = [history(STEP, tonight=1, indices=[*range(20), 21], case=f"float32-{size}M", seed=size) for size in (1, 2)]
    (result,), outcome = a_night(machine, *series, budget=2 * budget)
    assert (result.state, result.culprit, len(result.affected)) == (State.CONFIRMED, LINE[21], 2)
    assert {request[:2] for request in machine.requests} == {(LINE[19], LINE[21])}
    assert all(rerun.commits == (LINE[21],) for rerun in outcome.reruns)


def test_bisection_takes_the_rounds_of_the_night():
    """The last commit, the measured one, changed documents alone."""
    machine = Machine(speed=slower_from(21, 1.1), codes=dict(zip(LINE[19:24], "abccc", strict=True)))
    (move,) = judged(history(STEP, tonight=1, indices=[*range(20), 23]), idle={LINE[23]}).suspects
    assert move.candidates == LINE[20:23]
    outcome = look_again([move], machine, budget=1e6)
    assert outcome.cases[0].commits == (LINE[21],) and outcome.paths[0].bad == LINE[23]
    pairs = {request[:2] for request in machine.requests}
    assert pairs == {(LINE[19], LINE[23]), (LINE[19], LINE[20]), (LINE[20], LINE[23])}


def test_budget_that_bisects_nothing_names_the_command():
    machine = Machine(speed=slower_from(22, 1.1), codes={LINE[20]: "x", LINE[21]: "x"})
    (result,), _ = a_night(machine, history(STEP, tonight=1, indices=BETWEEN), budget=16.0)
    assert result.commits == (LINE[20], *LINE[22:26]) and "one of 5 commits: no time is left" in result.how
    assert f"kv bisect scale.Cpu.time_hot {LINE[19]} {LINE[25]} --implementation native" in finding_text.details(result)


def test_culprit_that_its_own_check_clears_is_not_accused(monkeypatch):
    real = confirm.bisect
    monkeypatch.setattr(confirm, "bisect", lambda *args, **more: replace(real(*args, **more), isolated=None))
    (result,), _ = a_night(Machine(speed=slower_from(22, 1.1)), history(STEP, tonight=1, indices=BETWEEN))
    assert result.commits == LINE[20:26] and result.culprit is None


def test_two_culprits_in_one_range_are_two_findings():
    entry, other = (history(STEP, tonight=1, indices=BETWEEN, case=case) for case in ("float32-1M", "float32-2M"))
    speed = {
        LINE[index]: {confirm._series(entry.identity): 1.3 if index >= 21 else 1.0}
        | {confirm._series(other.identity): 1.1 if index >= 23 else 1.0}
        for index in range(20, len(LINE))
    }
    result, _ = a_night(Machine(speed=speed), entry, other)
    by_case = {record.affected[0].identity.case: record for record in result}
    assert len(result) == 2 and by_case["float32-1M"].culprit == LINE[21]
    assert LINE[21] not in by_case["float32-2M"].commits and LINE[23] in by_case["float32-2M"].commits


def test_series_with_one_cause_are_one_finding():
    machine = Machine(speed=slower_from(20, 1.1))
    (result,), _ = a_night(machine, *several(3), *several(4, [0.0] * 21, first=9))
    assert len(result.affected) == 3 and result.among == (7, 1)
    assert {(before, after) for before, after, _, _ in machine.requests} == {(LINE[19], LINE[20])}
    assert len(machine.requests[0][2]) == 3


def test_slowdown_during_a_night_is_one_finding():
    levels = [0.0] * 20 + [0.18] * 3
    series = [*several(2, levels, tonight=3), *several(2, levels, first=9, tonight=3, implementation="eager")]
    (event,) = judged(*series).events
    assert event.began == min(observation.measured for member in series for observation in member.observations[-3:])
    result, _ = a_night(Machine(noise=0.002), *series)
    assert [record.kind for record in result] == [Kind.ENVIRONMENT]
    next_night = [
        replace(
            member,
            observations=(*member.observations, replace(member.newest, commit=LINE[23], position=23, measured=2e3)),
        )
        for member in series
    ]
    assert judged(*next_night, recorded=result, since=1500.0).events == ()


def test_rerun_moves_part_of_an_event_to_a_commit():
    series = several(4, [0.0] * 20 + [0.2])
    result, _ = a_night(Machine(speed=slower_from(20, math.exp(0.2))), *series)
    assert {record.kind for record in result} == {Kind.REGRESSION}


def test_machine_that_got_faster_resolves_no_regression():
    recorded, _ = a_night(Machine(speed=slower_from(20, 1.1)), history(STEP, tonight=1))
    faster = several(2, [0.0] * 20 + [-SLOWER], first=9, implementation="eager")
    (event,), _ = a_night(Machine(), *faster)
    moved = history([*STEP, 0.0, 0.0, 0.0, 0.0], tonight=4)
    affected = replace(event.affected[0], identity=moved.identity, ratio=1 / 1.1)
    event = replace(event, affected=(affected,), found=datetime.fromtimestamp(NIGHT, UTC))
    result = after(Remeasured(), judged(), moved, recorded=(*recorded, event), when=LATER)
    assert kinds(result)[Kind.REGRESSION] is State.CONFIRMED


def test_errors_and_figures_are_confirmed_without_a_rerun():
    machine = Machine()
    codes = ["a"] * 20 + ["b"]
    errors = several(3, [0.0] * 20 + [0.5], method="", noise=1e-4, codes=codes)  # as times, so many would be an event
    series = history([0.0] * 20 + [math.log(16)], tonight=1, method="", noise=0, codes=codes)
    spills = replace(series.identity, benchmark="matmul.Cuda.track_spill_bytes", case="sm_90")
    recorded = (replace(entry, figure=16.0 * (number == 20)) for number, entry in enumerate(series.observations))
    series = replace(series, observations=tuple(recorded))
    error, figure = sorted(
        a_night(machine, *errors, replace(series, identity=spills))[0],
        key=lambda record: len(record.affected),
        reverse=True,
    )
    for record in (error, figure):
        assert (record.kind, record.state, record.culprit) == (Kind.REGRESSION, State.CONFIRMED, LINE[20])
    assert len(error.affected) == 3 and machine.requests == []
    assert figure.how == "the compiler's figure is read, not timed: 0 to 16.0 bytes"
    assert "a figure of the compiler" in finding_page.missing(figure)


def test_suspect_is_refuted_at_its_own_commit_alone():
    (recorded,), _ = a_night(Machine(), history(STEP, tonight=1), budget=0.0)
    later = history([*STEP, *[SLOWER] * 4, math.log(1.25)], tonight=1)
    for index, state in ((25, State.SUSPECT), (20, State.RESOLVED)):
        outcome = Remeasured(refuted={(later.identity, LINE[index]): "nothing there"})
        assert [record.state for record in after(outcome, judged(later), later, recorded=(recorded,))] == [state]


def test_suspect_of_an_earlier_night_is_measured_again():
    recorded, _ = a_night(Machine(), history([0.0] * 4 + [SLOWER], tonight=1), budget=0.0)
    later = history([0.0] * 4 + [SLOWER] * 12, tonight=1)
    (move,) = pending(recorded, [later], ())
    assert (move.good.commit, move.bad.commit) == (LINE[3], LINE[4])
    assert list(pending(recorded, [later], {(later.identity, LINE[4])})) == []
    outcome = look_again([move], Machine(speed=slower_from(4, 1.1)), budget=1e6)
    (result,) = after(outcome, judged(later), later, recorded=recorded)
    assert (result.state, result.culprit) == (State.CONFIRMED, LINE[4])


def test_confirmed_case_is_compared_with_all_reruns():
    series = history(STEP, tonight=1)
    suspected = judged(series)
    outcome = look_again(suspected.suspects, Machine(speed=slower_from(20, 1.1), noise=0.03, seed=2), budget=1e6)
    ((of, answer),) = outcome.comparisons
    assert answer.answer is Answer.DIFFERENT
    others = [replace(answer, answer=Answer.SAME, p=(1 + number) / 500) for number in range(500)]
    outcome.comparisons += [(of, other) for other in others]
    assert kinds(after(outcome, suspected, series)) == {Kind.REGRESSION: State.SUSPECT}


@pytest.mark.parametrize("seed", range(5))
def test_noise_alone_accuses_nobody(seed):
    series = several(6, [0.0] * 12, first=100 * seed, tonight=12, noise=0.01)
    result, _ = a_night(Machine(noise=0.01, seed=seed), *series)
    assert State.CONFIRMED not in kinds(result).values()


SMALL_STEP = [0.0] * 40 + [math.log(1.04)] * 36


def night_of(index, levels, *, floor=None, codes=True, **of):
    """Return a series as it was when the commit at a place was the newest, and the only one of its night."""
    codes = [f"code {number}" if codes else "one" for number in range(len(levels))]
    whole = history(levels, tonight=0, codes=codes, **of)
    newest = replace(whole.observations[index], measured=NIGHT)
    return replace(whole, observations=(*whole.observations[:index], newest), floor=floor)


def test_step_that_no_night_alone_shows_is_seen_by_many_values():
    nights = [judged(night_of(index, SMALL_STEP, noise=0.012)) for index in range(41, 76)]
    late = [
        (number, move)
        for number, night in enumerate(nights)
        for move in night.suspects
        if move.is_shown and LINE[40] in move.candidates and move.effect > 0
    ]
    number, move = late[-1]
    assert move.effect == pytest.approx(math.log(1.04), abs=0.015)
    assert number < 20  # later nights know what the values of earlier ones showed


def with_values(series, *values):
    """Return a series whose newest values lie so far from its level."""
    entries = series.observations
    changed = [replace(entry, value=-7 + value) for entry, value in zip(entries[-len(values) :], values, strict=True)]
    return replace(series, observations=(*entries[: -len(values)], *changed))


def test_unscreened_slow_commit_is_found_by_the_next():
    """Against the commit before the one that fired, both sides would be slow."""
    series = with_values(history([0.0] * 42, noise=0.007, tonight=1), 0.008, 0.02)
    before = replace(series, observations=(*series.observations[:-2], replace(series.observations[-2], measured=NIGHT)))
    assert judged(before).suspects == ()
    (result,), outcome = a_night(Machine(speed=slower_from(40, 1.02), noise=0.005), series)
    assert (result.state, result.culprit) == (State.CONFIRMED, LINE[40])
    assert outcome.refuted == {}


def test_changed_code_is_measured_although_no_value_shows_it():
    quiet = history([0.0] * 41, noise=0.01, tonight=1, codes=["a"] * 40 + ["b"])
    assert [move.is_shown for move in judged(quiet).suspects] == [False]
    (result,), outcome = a_night(Machine(speed=slower_from(40, 1.02), noise=0.005), quiet)
    assert (result.state, result.culprit) == (State.CONFIRMED, LINE[40])
    nothing, outcome = a_night(Machine(noise=0.005), quiet)
    assert (nothing, outcome.refuted, len(outcome.comparisons)) == ((), {}, 1)  # what no value showed is not refuted
    for same in (["a"] * 41, [None] * 41, ["a"] * 40 + [None]):
        assert judged(history([0.0] * 41, noise=0.01, tonight=1, codes=same)).suspects == ()
    assert judged(quiet, again=LINE[40]).suspects == ()  # a heartbeat


def test_several_changes_of_a_night_are_bisected():
    codes = [*["a"] * 40, *"bccd"]
    quiet = history([0.0] * 44, noise=0.02, tonight=4, codes=codes, seed=1)
    (move,) = judged(quiet).suspects
    assert (move.good.commit, move.bad.commit) == (LINE[39], LINE[43])
    assert move.candidates == (LINE[40], LINE[41], LINE[43])
    machine = Machine(speed=slower_from(41, 1.03), noise=0.005, codes=dict(zip(LINE, codes, strict=False)))
    (result,), _ = a_night(machine, quiet)
    assert result.culprit == LINE[41]


def test_screened_change_splits_the_range_that_is_measured():
    levels = [0.0] * 40 + [SLOWER] * 4
    (first, rest) = judged(history(levels, tonight=4, codes=[*["a"] * 40, *"bcdd"])).suspects
    assert (first.good.position, first.bad.position, first.is_shown) == (39, 40, True)
    assert (rest.good.position, rest.bad.position, rest.is_shown) == (40, 43, False)


def test_changed_code_without_time_is_left_to_the_next_night():
    quiet = history([0.0] * 41, noise=0.01, tonight=1, codes=["a"] * 40 + ["b"])
    suspected = judged(quiet)
    outcome = look_again(suspected.suspects, Machine(), budget=0.0)
    assert after(outcome, suspected, quiet) == () and len(outcome.left) == 1  # nobody is suspected
    memory = judge.remembered(suspected.suspects, outcome, suspected, NO_MEMORY)
    assert [(noted.identity, noted.commit) for noted in memory.left] == [(quiet.identity, LINE[39])]
    later = history([0.0] * 42, noise=0.01, tonight=1, codes=["a"] * 40 + ["b", "c"])
    (move,) = judged(later, memory=memory).suspects
    assert (move.good.position, move.bad.position, move.candidates) == (39, 41, LINE[40:42])
    (move,) = judged(quiet, memory=memory, again=LINE[40]).suspects  # also where nothing new is measured
    assert (move.good.position, move.bad.position) == (39, 40)
    elsewhere = judged(history([0.0] * 41, case="float32-9M"))
    assert judge.remembered((), Remeasured(), elsewhere, memory) == memory  # until the series is measured again


def test_open_moves_come_first():
    sure = history(STEP, tonight=1, case="sure")
    codes = ["a"] * 40 + ["b"]
    settled, noisy = (
        history([0.0] * 41, noise=noise, tonight=1, codes=codes, case=f"{noise}") for noise in (0.0005, 0.02)
    )
    order = [move.identity.case for move in judged(settled, noisy, sure).suspects]
    assert order == ["sure", "0.02", "0.0005"]


def played(machine, series, count, since=40):
    """Play nights of one commit each, with what they leave to the next. Return the findings and the outcomes."""
    recorded, memory, outcomes = (), NO_MEMORY, []
    for index in range(since, since + count):
        upto = [
            replace(
                member,
                observations=tuple(
                    replace(observation, measured=NIGHT + 100 * observation.position)
                    for observation in member.observations
                    if observation.position <= index
                ),
            )
            for member in series
        ]
        suspected = judged(*upto, recorded=recorded, since=NIGHT + 100 * index, memory=memory)
        moves = (
            *suspected.suspects,
            *pending(recorded, upto, {(suspect.identity, suspect.bad.commit) for suspect in suspected.suspects}),
        )
        outcomes.append(look_again(moves, machine, budget=1e6))
        when = datetime.fromtimestamp(NIGHT + 100 * index + 50, UTC)
        recorded = after(outcomes[-1], suspected, *upto, recorded=recorded, when=when)
        memory = judge.remembered(moves, outcomes[-1], suspected, memory)
    return recorded, outcomes


@pytest.mark.parametrize(
    ("codes", "count"), [(None, 2), ([*["a"] * 40, *["b"] * 10], 1)], ids=["unknown", "changed once"]
)
@pytest.mark.parametrize("step", [0.02, 0.05])
def test_machine_that_only_native_feels_costs_one_rerun_a_series(codes, count, step):
    """Where the code is unknown there is a second one: every new commit may have changed it."""
    levels = [0.0] * 40 + [step] * 10
    series = several(4, levels, codes=codes, noise=0.003)
    eager = several(4, [0.0] * 50, implementation="eager", first=9)
    recorded, outcomes = played(Machine(noise=0.005), [*series, *eager], 10)
    runs = [identity.case for outcome in outcomes for identity, _ in outcome.comparisons]
    assert sorted(runs) == sorted(count * [member.identity.case for member in series])
    assert kinds(recorded) == {Kind.ENVIRONMENT: State.ENVIRONMENT}  # nobody is accused


def test_regression_on_top_of_a_refuted_move_is_found():
    levels = [0.0] * 40 + [0.03] + [0.06] * 3
    recorded, _ = played(Machine(speed=slower_from(41, 1.03), noise=0.005), [history(levels)], 4)
    assert {(record.kind, record.commits) for record in recorded} >= {(Kind.REGRESSION, (LINE[41],))}


def test_chance_that_a_rerun_refutes_moves_no_level():
    recorded, outcomes = played(Machine(noise=0.005), [with_values(history([0.0] * 44), 0.03, 0.0, 0.0, 0.0)], 4)
    assert recorded == () and [len(outcome.comparisons) for outcome in outcomes] == [1, 0, 0, 0]
