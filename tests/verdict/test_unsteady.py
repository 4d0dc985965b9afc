"""Steps that controls of a machine make by themselves, too: shown as unsteady, with what was seen."""

from dataclasses import replace

import numpy as np
import pytest

from kernel_velocity.stats.changepoints.values import ChangePoint
from kernel_velocity.verdict import unsteady
from lab.platforms import CONTROLS, NATIVE, Shared, columns_of

SIGMA = 0.005
COMMITS = 100


def quiet(number):
    return np.random.default_rng(number).normal(0, SIGMA, COMMITS)


def visiting(number):
    """Return noise with levels 4% higher for eight commits, three times, each control's at other commits."""
    values = quiet(number)
    for start in (10, 40, 70):
        values[start + 3 * number : start + 3 * number + 8] += 0.04
    return values


def step(size, index=50):
    return ChangePoint(index=index, before=0.0, after=size, low=np.exp(size - 0.005), high=np.exp(size + 0.005), p=1e-9)


def marked(of_controls, *steps, unit="seconds"):
    """Return the steps of a native series beside controls, as they are marked."""
    controls = [columns_of(CONTROLS[0], number, logs) for number, logs in enumerate(of_controls)]
    native = replace(columns_of(NATIVE, 9, quiet(9)), unit=unit)
    *_, points = unsteady.marked([*controls, native], [*((),) * len(controls), steps], lambda _: Shared({}))
    return points


@pytest.mark.parametrize(("size", "is_unsteady"), [(0.04, True), (-0.06, True), (0.12, False)])
def test_step_such_as_controls_make_is_unsteady(size, is_unsteady):
    (point,) = marked(map(visiting, range(6)), step(size))
    assert point.is_unsteady is is_unsteady
    if is_unsteady:
        (warning,) = point.warnings
        assert warning.startswith("unsteady: controls, which no commit changes, moved by ")
        assert warning.endswith("× in 600 values near this commit")
    else:
        assert point == step(size)


def test_controls_that_stay_where_they_are_mark_nothing():
    assert marked(map(quiet, range(6)), step(0.02), step(0.05, 99)) == (step(0.02), step(0.05, 99))
    assert marked([], step(0.02)) == (step(0.02),)
    assert marked([np.where(np.arange(COMMITS) == 3, 0.0, np.nan)], step(0.02)) == (step(0.02),)


def test_outliers_of_controls_are_no_levels():
    spiky = [quiet(number) + 0.1 * (np.arange(COMMITS) % 15 == number) for number in range(6)]
    assert marked(spiky, step(0.05)) == (step(0.05),)


def test_values_that_are_no_times_have_no_controls():
    assert marked(map(visiting, range(6)), step(0.04), unit="bytes") == (step(0.04),)


def test_controls_tell_of_their_own_years_alone():
    later = [*map(quiet, range(20, 24))]
    controls = [columns_of(CONTROLS[0], number, np.concatenate([visiting(number), *later])) for number in range(6)]
    native = columns_of(NATIVE, 9, np.concatenate([quiet(number) for number in range(5)]))
    steps = (step(0.04, 60), step(0.04, 400))
    *_, points = unsteady.marked([*controls, native], [*((),) * 6, steps], lambda _: Shared({}))
    assert [point.is_unsteady for point in points] == [True, False]
