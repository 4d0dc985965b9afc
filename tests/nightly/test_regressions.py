"""The policy of a night: what moved, whom it is blamed on, what is one cause."""

import dataclasses
import itertools
import math

import pytest

from kernel_velocity.findings import finding
from kernel_velocity.findings.finding import Kind, State, Step
from kernel_velocity.nightly import cases as finding_making
from kernel_velocity.nightly import suspects as regressions
from kernel_velocity.nightly.moves import Shift, move_of
from kernel_velocity.results.identity import Identity
from tests.findings.nights import LINE, NIGHT, ORDER, WHEN, case, history, identity, screen, with_value

STEP = math.log(1.1)


def screened(histories, **options):
    return regressions.screened(histories, screen, line=LINE, since=NIGHT, **options)


def suspects(histories, **options):
    return screened(histories, **options).suspects


def test_a_slower_commit_is_a_suspect_with_the_commits_that_can_have_done_it():
    (move,) = suspects([history(40, step_at=39, step=STEP, code_at=39)])
    assert move.worse and move.effect == pytest.approx(STEP, abs=0.01)
    assert (move.good.commit, move.bad.commit, move.candidates) == (LINE[38], LINE[39], (LINE[39],))


def test_a_move_is_followed_back_to_where_it_began():
    (move,) = suspects([history(40, step_at=35, step=STEP, code_at=35)])
    assert (move.good.commit, move.bad.commit, move.candidates) == (LINE[34], LINE[35], (LINE[35],))


def test_a_shift_that_rests_on_three_values_began_with_the_first_of_them():
    shifts = {40: Shift(effect=0.02, count=3)}
    series = history(40, code_at=38)
    move = move_of(series, lambda values: shifts.get(len(values)), LINE)
    assert (move.good.place, move.bad.place) == (36, 39)
    assert move.candidates == (LINE[38],)  # the others have the code of the one before


def test_an_alarm_by_chance_just_before_a_move_is_not_where_it_began():
    shifts = {39: Shift(effect=0.02, count=1), 40: Shift(effect=STEP, count=1)}
    move = move_of(history(40, code_at=39), lambda values: shifts.get(len(values)), LINE)
    assert move.candidates == (LINE[39],)


def test_a_move_began_with_the_first_value_that_its_earliest_shift_rests_on():
    shifts = {39: Shift(effect=STEP, count=3), 40: Shift(effect=STEP, count=1)}
    move = move_of(history(40, code_at=36), lambda values: shifts.get(len(values)), LINE)
    assert (move.good.place, move.candidates) == (35, (LINE[36],))


def test_commits_between_measured_ones_are_candidates():
    series = history(40, step_at=39, step=STEP, code_at=39)
    sparse = dataclasses.replace(series, observations=series.observations[:36] + series.observations[39:])
    (move,) = suspects([sparse])
    assert move.candidates == LINE[36:40]


def test_a_single_outlier_that_was_taken_back_is_no_suspect():
    assert suspects([with_value(history(40, code_at=37), 37, STEP)]) == ()


def test_noise_is_no_suspect():
    assert suspects([history(40, seed=seed, case=f"float32-{seed}") for seed in range(20)]) == ()


def test_only_series_of_this_night_are_judged():
    old = history(39, step_at=38, step=STEP, code_at=38)
    stale = dataclasses.replace(
        old, observations=tuple(dataclasses.replace(item, measured=NIGHT - 1) for item in old.observations)
    )
    assert screened([stale]) == regressions.Screened(judged=(), suspects=(), events=(), notes=())


@pytest.mark.parametrize(("floor", "number"), [(None, 1), (0.05, 1), (0.2, 0)])
def test_a_move_below_what_identical_code_differs_by_is_none(floor, number):
    assert len(suspects([history(40, step_at=39, step=STEP, code_at=39, floor=floor)])) == number


def test_a_move_below_one_percent_is_none_however_quiet_the_series():
    series = history(40, step_at=39, step=0.009, code_at=39)
    assert move_of(series, lambda values: Shift(effect=0.0099, count=1), LINE) is None
    assert move_of(series, lambda values: Shift(effect=0.01, count=1), LINE) is not None


@pytest.mark.parametrize(
    ("benchmark", "effect", "worse"),
    [
        ("matmul.Cpu.time_hot", 0.1, True),
        ("matmul.Cpu.time_cold", -0.1, False),
        ("matmul.Cpu.track_max_error", 0.1, True),
        ("matmul.Cpu.track_gflops", 0.1, False),
        ("matmul.Cpu.track_gflops", -0.1, True),
        ("matmul.Cuda.track_registers", 0.1, None),
        ("matmul.Cuda.track_spill_bytes", 0.1, True),
    ],
)
def test_the_metric_says_which_way_is_worse(benchmark, effect, worse):
    series = history(40, benchmark=benchmark, code_at=39)

    def last(values):
        return Shift(effect=effect, count=1) if len(values) == 40 else None

    assert move_of(series, last, LINE).worse is worse
    judged = regressions.screened([series], last, line=LINE, since=NIGHT)
    assert len(judged.suspects) == (worse is not None)


def test_unchanged_code_is_never_blamed():
    found = screened([history(40, step_at=39, step=STEP)])
    assert (found.suspects, found.events) == ((), ())
    (note,) = found.notes
    assert note.startswith("bench-1: moved although their code is the same, and too few for an event: matmul.Cpu")
    two = screened([history(40, step_at=39, step=STEP, case=size) for size in ("float32-1M", "float32-5M")])
    assert two.suspects == () and [move.candidates for move in two.events[0].moves] == [(), ()]


def test_one_control_that_moves_by_chance_hides_no_slower_kernel():
    calm = [history(40, case=f"float32-{size}k") for size in range(1, 30)]
    control = history(40, step_at=39, step=STEP, implementation="eager", code=None)
    slower = history(40, step_at=39, step=STEP, code_at=39, case="float32-1M")
    found = screened([*calm, control, slower])
    assert [move.identity for move in found.suspects] == [slower.identity] and found.events == ()


def test_code_that_nobody_recorded_may_be_blamed():
    (move,) = suspects([history(40, step_at=39, step=STEP, code=None)])
    assert move.candidates == (LINE[39],)


def environment_night(factor, **options):
    """Return the series of a night whose rounds were all scaled: two kernels with new code, their controls."""
    effect = math.log(factor)
    return [
        history(
            40,
            step_at=39,
            step=effect,
            benchmark=f"{kernel}.Cpu.time_hot",
            implementation=implementation,
            code_at=39 if implementation == "native" else None,
            code="a" if implementation == "native" else None,
            case=size,
            **options,
        )
        for kernel, implementation, size in itertools.product(
            ("matmul", "quantize_int8"), ("eager", "native"), ("float32-1M", "float32-5M")
        )
    ]


@pytest.mark.parametrize("factor", [1.02, 1.1, 0.9])
def test_a_night_scaled_by_a_factor_is_one_environment_finding_with_the_factor_and_no_accused_commit(factor):
    found = screened(environment_night(factor))
    assert found.suspects == ()
    (event,) = found.events
    assert event.factor == pytest.approx(factor, rel=0.005)
    assert len(event.moves) == 8
    recorded = finding_making.of_environment(event, when=WHEN, who="nightly")
    assert (recorded.kind, recorded.state, recorded.commits) == (Kind.ENVIRONMENT, State.ENVIRONMENT, ())
    assert {one.implementation for one in (move.identity for move in event.confounded)} == {"native"}


def test_a_known_environment_event_is_not_found_again_the_next_night():
    night = environment_night(1.1)
    (event,) = screened(night).events
    recorded = finding_making.of_environment(event, when=WHEN, who="nightly")
    known = finding.known_steps([recorded], ORDER)
    assert screened(night, known=known) == dataclasses.replace(screened(night), suspects=(), events=(), notes=())


def test_a_commit_that_is_slower_by_more_than_the_machine_stays_a_suspect():
    night = environment_night(1.02)
    worst = dataclasses.replace(history(40, step_at=39, step=STEP, code_at=39, case="float32-10M"))
    found = screened([*night, worst])
    assert [move.identity for move in found.suspects] == [worst.identity]
    assert len(found.events) == 1


def test_controls_that_stood_still_contradict_half_of_the_series_moving():
    natives = [
        history(40, step_at=39, step=STEP, code_at=39, benchmark=f"{kernel}.Cpu.time_hot", case=size)
        for kernel, size in itertools.product(("matmul", "quantize_int8"), ("float32-1M", "float32-5M"))
    ]
    control = history(40, implementation="eager", code=None)
    assert len(suspects([*natives, control])) == 4
    found = screened(natives)  # without a witness, all at once is the machine
    assert found.suspects == () and len(found.events) == 1


def test_three_series_at_once_are_not_half_of_everything():
    natives = [history(40, step_at=39, step=STEP, code_at=39, case=f"float32-{size}M") for size in (1, 5, 10)]
    assert len(suspects(natives)) == 3


def test_moves_in_both_directions_are_not_all_at_once():
    steps = (STEP, STEP, -STEP, 0.0, 0.0, 0.0)
    night = [history(40, step_at=39, step=step, code_at=39, case=f"c{index}") for index, step in enumerate(steps)]
    assert len(suspects(night)) == 3
    assert suspects([night[0], night[1], *night[3:5]]) == ()  # two of four are


def test_a_changed_driver_is_to_blame_where_no_witness_contradicts():
    moved = history(40, step_at=39, step=STEP, code_at=39, facts_at=39)
    found = screened([moved])
    assert found.suspects == ()
    assert found.events[0].changes == {"driver": ("550", "560")}
    control = history(40, implementation="eager", code=None, facts_at=39)
    assert len(suspects([moved, control])) == 1


def test_controls_that_began_with_the_new_torch_are_no_witnesses_that_stood_still():
    moved = history(40, step_at=39, step=STEP, code_at=39, facts_at=39)
    control = history(40, implementation="eager", code=None, environment="host-py3.11-torch3")
    new = dataclasses.replace(control, observations=control.observations[-1:])
    found = screened([moved, new])
    assert found.suspects == () and len(found.events) == 1


def test_another_compiler_is_to_blame_although_no_control_can_show_it():
    moved = history(40, step_at=39, step=STEP, code_at=39)
    facts = {"cxx compiler version": "12"}, {"cxx compiler version": "13"}
    items = [dataclasses.replace(item, facts=facts[item.place == 39]) for item in moved.observations]
    rebuilt = dataclasses.replace(moved, observations=tuple(items))
    control = history(40, implementation="eager", code=None)
    found = screened([rebuilt, control])
    assert found.suspects == () and found.events[0].changes == {"cxx compiler version": ("12", "13")}


def test_a_figure_of_the_code_is_the_commits_whatever_the_machine_did_but_for_its_compiler():
    spills = {"benchmark": "matmul.Cuda.track_spill_bytes", "case": "sm_90", "method": ""}
    worse = history(40, step_at=39, step=STEP, code_at=39, **spills)
    slow = [history(40, step_at=39, step=STEP, benchmark="matmul.Cuda.time_hot", case=case) for case in "abcd"]
    found = screened([worse, *slow])
    assert [move.identity for move in found.suspects] == [worse.identity]
    assert len(found.events) == 1  # the times moved, all at once, and their code did not
    for fact, accused in (("cuda compiler version", 0), ("torch", 1)):
        facts = {fact: "12"}, {fact: "13"}
        items = tuple(dataclasses.replace(item, facts=facts[item.place == 39]) for item in worse.observations)
        assert len(screened([dataclasses.replace(worse, observations=items)]).suspects) == accused


def test_a_changed_driver_that_moved_nothing_is_a_note():
    found = screened([history(40, facts_at=39)])
    assert found.events == ()
    assert found.notes == ("bench-1: its environment changed (driver: 550 -> 560), and no series of Cpu moved",)


def test_a_ceiling_is_a_witness_and_each_device_has_events_of_its_own():
    kernel = history(40, step_at=39, step=-STEP, code_at=39, benchmark="matmul.Cuda.time_hot")
    ceiling = history(40, step_at=39, step=-STEP, benchmark="device.Cuda.track_launch_overhead", implementation="")
    other = history(40, step_at=39, step=STEP, code_at=39)
    calm = history(40, implementation="eager", code=None)
    found = screened([kernel, ceiling, other, calm])
    assert [(event.device, len(event.moves)) for event in found.events] == [("Cuda", 2)]
    assert [move.identity for move in found.suspects] == [other.identity]


def test_an_error_that_grew_is_never_the_machines_pace():
    night = environment_night(1.1)
    error = history(40, step_at=39, step=STEP, code_at=39, benchmark="matmul.Cpu.track_max_error", case="float32-9M")
    assert [move.identity for move in suspects([*night, error])] == [error.identity]


def test_an_error_that_grew_with_the_same_code_is_blamed_on_no_commit():
    error = history(40, step_at=39, step=STEP, benchmark="matmul.Cpu.track_max_error")
    assert suspects([error]) == ()


def test_a_known_step_is_not_looked_for_again_and_its_recovery_is_seen():
    slow = history(40, step_at=30, step=STEP, code_at=30)
    known = [Step(identity=slow.identity, effect=STEP, place=30)]
    assert suspects([slow], known=known) == ()
    items = (*slow.observations[:39], dataclasses.replace(slow.newest, value=slow.newest.value - STEP, code="c"))
    (move,) = suspects([dataclasses.replace(slow, observations=items)], known=known)
    assert move.worse is False and move.candidates == (LINE[39],)


def test_a_screen_without_anything_before_is_a_mistake_of_its_own():
    with pytest.raises(ValueError, match="compared 3 of 2 values with none before"):
        move_of(history(3), lambda values: Shift(effect=1.0, count=3), LINE)


def test_ten_series_on_two_machines_with_one_cause_are_one_finding():
    cases = [
        case(ratio=1.05 + 0.01 * number, machine=machine, case=f"float32-{number}M", commits=commits)
        for machine, commits in (("bench-1", LINE[28:33]), ("bench-2", LINE[30:31]))
        for number in range(5)
    ]
    (found,) = finding_making.from_cases(cases, state=State.CONFIRMED, order=ORDER, when=WHEN, who="nightly")
    assert (len(found.affected), found.machines, found.culprit) == (10, ("bench-1", "bench-2"), LINE[30])
    assert found.worst.ratio == pytest.approx(1.09)


def test_other_kernels_directions_and_commits_are_other_causes():
    cases = [
        case(),
        case(ratio=0.9, case="float32-1M"),
        case(benchmark="quantize_int8.Cpu.time_hot"),
        case(commits=LINE[40:41], case="float32-5M"),
        case(benchmark="matmul.Cpu.track_registers"),  # neither worse nor better
    ]
    found = finding_making.from_cases(cases, state=State.CONFIRMED, order=ORDER, when=WHEN, who="nightly")
    assert len({item.id for item in found}) == 4
    assert sorted(item.kind.value for item in found) == ["improvement", *["regression"] * 3]


def test_a_wide_range_joins_the_narrow_one_that_explains_it_and_not_two():
    wide, first, second = case(commits=LINE[20:40]), case(commits=LINE[22:24]), case(commits=LINE[30:33])
    groups = regressions.grouped(
        [(name, "matmul", True, item.commits) for name, item in (("wide", wide), ("first", first), ("second", second))],
        ORDER,
    )
    assert sorted((sorted(members), commits) for members, commits in groups) == [
        (["first", "wide"], LINE[22:24]),
        (["second"], LINE[30:33]),
    ]


def test_false_discoveries_are_held_at_five_percent():
    cases = [case(p=p) for p in (1e-6, 0.009, 0.04, 0.049, None)]
    reported, doubtful = regressions.discoveries(cases)
    # Benjamini and Hochberg by hand: p(i) <= .05 i / 4 holds for .049 (i = 4), and so for all of them
    assert [item.p for item in reported] == [1e-6, 0.009, 0.04, 0.049] and [item.p for item in doubtful] == [None]
    reported, doubtful = regressions.discoveries([case(p=p) for p in (1e-6, 0.03, 0.04, 0.06)])
    assert [item.p for item in reported] == [1e-6] and len(doubtful) == 3
    assert regressions.discoveries([]) == ((), ())
    assert regressions.discoveries([], [0.5]) == ((), ())


def test_one_of_hundreds_that_chance_confirmed_stays_a_suspect():
    others = [number / 200 for number in range(1, 200)]
    lucky, real = case(p=9e-4), case(p=1.6e-4)
    assert regressions.discoveries([lucky]) == ((lucky,), ())
    assert regressions.discoveries([lucky], others) == ((), (lucky,))
    assert regressions.discoveries([real], others) == ((real,), ())
    many = [case(p=9e-4) for _ in range(40)]  # one commit that made much slower is no chance
    assert regressions.discoveries(many, others) == (tuple(many), ())


def test_identities_have_no_other_parts():
    assert [field.name for field in dataclasses.fields(Identity)] == [
        *("machine", "environment", "benchmark", "implementation", "case", "version", "method")
    ]
    assert str(identity()) == "matmul.Cpu.time_hot native float32-256x256x256"
