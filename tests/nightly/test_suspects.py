"""The policy of a night: what moved, whom it is blamed on, what is one cause."""

import dataclasses
import itertools
import math

import pytest

from kernel_velocity.findings import decisions, finding
from kernel_velocity.findings.finding import Kind, State
from kernel_velocity.nightly import confirm, judge
from tests.findings.nights import LINE, NIGHT, ORDER, WHEN, case, history, of_cases, with_shared

STEP = math.log(1.1)
CALM = [history(40, case=f"float32-{size}k", implementation="eager", code=None) for size in range(1, 5)]


def judged(*histories, steps=(), **more):
    return judge.Night(histories, line=LINE, since=NIGHT, explained=steps, **more).suspicions()


def suspects(*histories, steps=()):
    """Return what is suspected because its values moved."""
    return tuple(move for move in judged(*histories, steps=steps).suspects if move.is_shown)


@pytest.mark.parametrize("step_at", [39, 35])
def test_move_has_the_commits_where_it_began(step_at):
    (move,) = suspects(history(40, step_at=step_at, step=STEP, code_at=step_at))
    assert move.worse and move.effect == pytest.approx(STEP, abs=0.01)
    assert (move.good.commit, move.bad.commit) == (LINE[step_at - 1], LINE[step_at])
    assert move.candidates == (LINE[step_at],)


def test_move_of_unmeasured_commits_has_all_candidates():
    series = history(40, step_at=39, step=STEP, code_at=39)
    sparse = dataclasses.replace(series, observations=series.observations[:36] + series.observations[39:])
    assert [move.candidates for move in suspects(sparse)] == [LINE[36:40]]
    assert [move.candidates for move in suspects(history(40, step_at=39, step=STEP, code=None))] == [(LINE[39],)]


def test_commits_that_no_build_depends_on_are_not_suspected():
    series = history(40, step_at=39, step=STEP, code=None)
    sparse = dataclasses.replace(series, observations=series.observations[:36] + series.observations[39:])
    (move,) = judged(sparse, idle={*LINE[36:38], LINE[39]}).suspects
    assert (move.candidates, move.bad.commit) == ((LINE[38],), LINE[39])
    unsettled = finding.Finding(
        id="x", kind=Kind.REGRESSION, state=State.SUSPECT, subject="matmul", found=WHEN, commits=move.candidates,
        anchor=move.good.commit, bad=move.bad.commit, affected=(case().affected,),
    )  # fmt: skip
    (again,) = confirm.pending([unsettled], [sparse], ())  # of which the suspected commit has no value
    assert (again.good.commit, again.bad.commit, again.candidates) == (LINE[35], LINE[39], (LINE[38],))
    reasons = {(sparse.identity, move.bad.commit): "nothing there"}
    assert decisions.refuted(unsettled, reasons, who="night", when=WHEN).state is State.RESOLVED
    assert judged(sparse, idle=LINE).suspects == ()


@pytest.mark.parametrize(
    ("benchmark", "effect", "worse"),
    [
        ("matmul.Cpu.time_hot", STEP, True),
        ("matmul.Cpu.time_cold", -STEP, False),
        ("matmul.Cpu.track_max_error", STEP, True),
        ("matmul.Cpu.track_gflops", STEP, False),
        ("matmul.Cpu.track_gflops", -STEP, True),
        ("matmul.Cuda.track_spill_bytes", STEP, True),
    ],
)
def test_metric_says_which_direction_is_worse(benchmark, effect, worse):
    (move,) = suspects(history(40, step_at=39, step=effect, benchmark=benchmark, code_at=39))
    assert move.worse is worse


def test_figure_without_a_worse_direction_is_not_suspected():
    assert suspects(history(40, step_at=39, step=STEP, benchmark="matmul.Cuda.track_registers", code_at=39)) == ()


def test_control_that_moves_by_chance_hides_no_slower_kernel():
    control = history(40, step_at=39, step=STEP, implementation="eager", code=None)
    slower = history(40, step_at=39, step=STEP, code_at=39, case="float32-1M")
    calm = [history(40, case=f"float32-{size}k") for size in range(1, 30)]
    night = judged(*with_shared(*CALM, control, slower), *calm)
    assert [move.identity for move in night.suspects] == [slower.identity] and night.events == ()


def scaled_night(factor):
    """Return the series of a night whose rounds were all scaled: two kernels with new code, their controls."""
    return with_shared(
        *(
            history(
                40,
                step_at=39,
                step=math.log(factor),
                benchmark=f"{kernel}.Cpu.time_hot",
                implementation=implementation,
                code_at=39 if implementation == "native" else None,
                code="a" if implementation == "native" else None,
                case=size,
            )
            for kernel, implementation, size in itertools.product(
                ("matmul", "quantize_int8"), ("eager", "native"), ("float32-1M", "float32-5M")
            )
        )
    )


@pytest.mark.parametrize("factor", [1.03, 1.1, 0.9])
def test_uniform_slowdown_is_an_environment_finding(factor):
    night = judged(*scaled_night(factor))
    (event,) = night.events
    assert event.factor == pytest.approx(factor, rel=0.005) and len(event.moves) == 8
    measured = {move.identity.implementation for move in night.suspects}
    assert measured == {"native"}  # their code changed as well: only a comparison in turns tells its part
    result = confirm.of_environment(event, when=WHEN)
    assert (result.kind, result.state, result.commits) == (Kind.ENVIRONMENT, State.ENVIRONMENT, ())
    again = judged(*scaled_night(factor), steps=finding.known_steps([result], ORDER))
    assert again.events == ()  # the next night knows it
    assert not any(move.is_shown for move in again.suspects)


def test_commit_slower_than_the_machine_event_is_a_suspect():
    worst = history(40, step_at=39, step=STEP, code_at=39, case="float32-10M")
    night = judged(*with_shared(*scaled_night(1.03), worst))
    (event,) = night.events
    assert worst.identity not in {move.identity for move in event.moves}
    (move,) = [move for move in night.suspects if move.identity == worst.identity]
    assert move.effect == pytest.approx(STEP - math.log(1.03), abs=0.01)  # less the machine's part


def test_same_code_is_never_suspected():
    night = judged(*(history(40, step_at=39, step=STEP, case=f"float32-{size}M") for size in range(4)))
    assert night.suspects == () and len(night.events) == 1


def test_machine_that_changed_without_an_effect_is_no_event():
    assert judged(history(40, facts_at=39)).events == ()


def with_fact(series, fact, before, after):
    observations = (
        dataclasses.replace(observation, facts={fact: after if observation.position == 39 else before})
        for observation in series.observations
    )
    return dataclasses.replace(series, observations=tuple(observations))


@pytest.mark.parametrize(
    ("benchmark", "fact", "is_accused"),
    [
        ("Cuda.track_spill_bytes", None, True),
        ("Cuda.track_spill_bytes", "torch", True),
        ("Cuda.track_spill_bytes", "cuda compiler version", False),
        ("Cpu.track_max_error", None, True),
        ("Cpu.track_max_error", "torch", False),
    ],
)
def test_changed_figure_or_error_blames_the_commit(benchmark, fact, is_accused):
    worse = history(40, step_at=39, step=STEP, code_at=39, benchmark=f"matmul.{benchmark}", case="x", method="")
    worse = worse if fact is None else with_fact(worse, fact, "12", "13")
    night = judged(worse)
    assert [move.identity for move in night.suspects] == [worse.identity] * is_accused
    assert len(night.events) == (not is_accused)
    unchanged = history(40, step_at=39, step=STEP, benchmark=f"matmul.{benchmark}", case="x")
    assert suspects(unchanged) == ()


def test_other_kernels_directions_and_commits_are_other_causes():
    result = of_cases(
        case(),
        case(ratio=0.9, case="float32-1M"),
        case(benchmark="quantize_int8.Cpu.time_hot"),
        case(commits=LINE[40:41], case="float32-5M"),
        case(benchmark="matmul.Cpu.track_registers"),  # neither worse nor better
    )
    assert len({record.id for record in result}) == 4
    assert sorted(record.kind.value for record in result) == ["improvement", *["regression"] * 3]


def test_wide_range_joins_one_narrow_range_that_explains_it():
    wide = case(commits=LINE[20:40], case="wide")
    result = of_cases(wide, case(commits=LINE[22:24], case="first"), case(commits=LINE[30:33], case="second"))
    assert [([series.identity.case for series in record.affected], record.commits) for record in result] == [
        (["first", "wide"], LINE[22:24]),
        (["second"], LINE[30:33]),
    ]


def discoveries(*p, others=()):
    reported, doubtful = confirm.discoveries([(case(p=value), 0.5) for value in p], [(value, 0.5) for value in others])
    return [suspect.affected.p for suspect in reported], [suspect.affected.p for suspect in doubtful]


def test_false_discoveries_are_held_at_five_percent():
    # Benjamini and Hochberg by hand: p(i) <= .05 i / 4 holds for .049 (i = 4), and so for all of them
    assert discoveries(1e-6, 0.009, 0.04, 0.049, None) == ([1e-6, 0.009, 0.04, 0.049], [None])
    assert discoveries(1e-6, 0.03, 0.04, 0.06) == ([1e-6], [0.03, 0.04, 0.06])
    assert discoveries(others=[0.5]) == ([], [])
    others = [number / 200 for number in range(1, 200)]
    assert discoveries(9e-4) == ([9e-4], [])
    assert discoveries(9e-4, others=others) == ([], [9e-4])  # one of hundreds that chance confirmed
    assert discoveries(1.6e-4, others=others) == ([1.6e-4], [])
    assert discoveries(*[9e-4] * 40, others=others) == ([9e-4] * 40, [])  # one slow commit is no chance
