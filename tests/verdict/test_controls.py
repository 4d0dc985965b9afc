"""The machine's part of change points: what controls share is taken out, and what a series has beyond it stays."""

import dataclasses
import math

import numpy as np
import pytest

from kernel_velocity.names import CONTROLS
from kernel_velocity.past import past
from kernel_velocity.verdict import change_points, controls
from kernel_velocity.verdict.controls import beyond
from kernel_velocity.verdict.verdicts import Verdicts
from tests import large_tree
from tests.past.one_by_one import change_points_of
from tests.verdict.test_change_points import series

SHAPE, AT = large_tree.Shape(commits=90, series=40), 60
COMMITS = np.arange(SHAPE.commits)
STEP = math.log(1.03)


def opened(folder, of_controls, of_others):
    """Return the past of a tree whose times move by factors at the commit AT."""
    large_tree.build(folder, SHAPE, large_tree.moved(SHAPE, AT, of_controls=of_controls, of_others=of_others))
    return past.open(folder / "results", folder / "repository")


def marked(recorded):
    """Return the change points of the controls, and of the others."""
    sides, levels = ([], []), Verdicts(recorded)
    for key in recorded.keys:
        sides[key.implementation not in CONTROLS].append(levels[key].points)
    return sides


def test_step_of_the_machine_is_no_change_point(tmp_path):
    recorded = opened(tmp_path, 1.03, 1.03)
    assert not any(any(side) for side in marked(recorded))
    (step,) = Verdicts(recorded).shared[recorded.keys[0]].steps
    assert (step.position, step.ratio) == (AT, pytest.approx(1.03, abs=0.002))


def test_step_of_the_code_is_a_change_point_of_every_series(tmp_path):
    recorded = opened(tmp_path, 1.0, 1.03)
    of_controls, of_others = marked(recorded)
    assert not any(of_controls) and all(len(points) == 1 for points in of_others)
    assert Verdicts(recorded).shared[recorded.keys[0]].steps == ()


def test_step_of_the_controls_alone_marks_no_other_series(tmp_path):
    assert not any(any(side) for side in marked(opened(tmp_path, 1.03, 1.0)))


def test_step_of_code_and_machine_is_marked_with_its_part(tmp_path):
    recorded = opened(tmp_path, 1.03, 1.03 * 1.05)
    of_controls, of_others = marked(recorded)
    assert not any(of_controls)
    for (point,) in of_others:
        assert (point.index, point.ratio) == (AT, pytest.approx(1.05, abs=0.01))
        assert point.low < point.ratio < point.high
        assert any("the machine's part is taken out" in text for text in point.warnings)


@pytest.mark.parametrize("of_machine", [1.03, 1 / 1.03])
@pytest.mark.parametrize("later", [3, 5, 10])
def test_change_soon_after_a_machine_step_has_its_commit(tmp_path, later, of_machine):
    every = tuple(range(SHAPE.series))
    native = large_tree.PAIRS.index(("native", "float32-1M"))
    steps = [
        large_tree.Change(at=AT, factor=of_machine, series=every),
        large_tree.Change(at=AT + later, factor=1.03, series=(native,)),
    ]
    large_tree.build(tmp_path, SHAPE, steps)
    recorded = past.open(tmp_path / "results", tmp_path / "repository")
    levels = Verdicts(recorded)
    (point,) = (point for key in recorded.keys for point in levels[key].points)
    assert (point.index, point.ratio) == (AT + later, pytest.approx(1.03, abs=0.01))


def test_adjusting_half_of_a_step_leaves_half_to_explain(tmp_path):
    recorded = opened(tmp_path, 1.03, 1.03 * 1.05)
    key = next(key for key in recorded.keys if key.implementation == "native")
    columns, half = recorded.columns(key), np.where(COMMITS < AT, 0.0, STEP / 2)
    adjusted = dataclasses.replace(columns, adjusted=columns.seconds * np.exp(-half))
    (point,) = change_points_of(columns)
    less = dataclasses.replace(point, after=point.after - STEP / 2)
    common = Verdicts(recorded).shared[key]
    for moved, step in ((columns, point), (adjusted, less)):
        (rest,) = controls.without_machine(*change_points.logs(moved), controls.left_in(moved, common), [step])
        assert rest.ratio == pytest.approx(1.05, abs=0.01)


def test_step_that_one_control_has_alone_is_not_shared():
    rng = np.random.default_rng(0)
    values = rng.normal(0, 0.002, (5, 80)) + np.arange(5)[:, None]
    values[1, 40:] += 0.3
    values[3, :50] = np.nan  # it began late
    common = controls.polished(values)
    assert np.abs(common).max() < 0.006
    moved = controls.polished(values + np.where(np.arange(80) < 30, 0.0, STEP))
    steps = (moved - common)[30:] - (moved - common)[:30].mean()
    assert steps == pytest.approx(STEP, abs=0.001)


def test_step_is_found_in_the_order_of_measuring(tmp_path):
    recorded = opened(tmp_path, 1.03, 1.0)
    (common,) = Verdicts(recorded).shared[recorded.keys[0]].by_method.values()
    late = COMMITS % 2 * 1e9  # every other commit was measured long after the others, by a slower machine
    values = common.values - np.where(COMMITS < AT, 0.0, STEP) + np.where(late > 0, STEP, 0.0)
    (step,) = controls.Shared({"m": common._replace(began=common.began + late, values=values)}).steps
    assert (step.position, step.ratio) == (1, pytest.approx(1.03, abs=0.003))


POSITIONS = np.arange(200)
DRIFT = np.linspace(0, 0.06, 200)
FROM_100, FROM_130 = np.where(POSITIONS < 100, 0.0, STEP), np.where(POSITIONS < 130, 0.0, STEP)


@pytest.mark.parametrize(
    ("machine", "others", "marked_at"),
    [
        (DRIFT, DRIFT, []),
        (DRIFT, 0 * DRIFT, []),
        (FROM_130, FROM_100, [100]),  # a step of the controls alone, after one of the code alone
        (FROM_100, FROM_100 + FROM_130, [130]),
        (DRIFT * (POSITIONS % 30 < 8), DRIFT * (POSITIONS % 30 < 8), []),
    ],
    ids=["drift", "drift of the controls alone", "two steps", "step after the machine's", "visits"],
)
def test_machine_steps_over_the_same_commits_are_removed(machine, others, marked_at):
    rng = np.random.default_rng(0)
    common = controls.polished(machine + rng.normal(0, 0.005, (12, 200)))
    shared = controls.Shared({"m": controls.Common(position=POSITIONS, began=POSITIONS * 3600.0, values=common)})
    for number in range(6):
        columns = series(others - 7 + np.random.default_rng(number).normal(0, 0.005, 200))
        machine = controls.left_in(columns, shared)
        points = [
            *filter(None, controls.without_machine(*change_points.logs(columns), machine, change_points_of(columns)))
        ]
        assert [point.index for point in points] == pytest.approx(marked_at, abs=2)


@pytest.mark.parametrize(
    ("effect", "common", "rest"),
    [
        (0.03, 0.0, 0.03),
        (0.03, 0.009, 0.03),  # the controls stood still
        (0.03, 0.03, 0.0),
        (-0.03, 0.03, -0.03),  # not theirs
        (-0.08, -0.03, -0.05),
        (0.039, 0.03, 0.0),  # less than 1% is no change
        (0.13, 0.1, 0.0),  # one cause slows two series differently
        (0.02, 0.1, 0.0),
        (0.14, 0.1, 0.04),
    ],
)
def test_part_beyond_what_controls_share(effect, common, rest):
    assert beyond(effect, common, math.log(1.01)) == pytest.approx(rest)
