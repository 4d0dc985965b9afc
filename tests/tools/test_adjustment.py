"""Adjusting by the controls: a common factor goes, a change of the series' own stays."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools import adjustment
from tools.adjustment import adjust, deviations, slope

KEYS = [(f"s{session}", f"r{round_}") for session in range(10) for round_ in range(8)]


def planted(seed=0, *, common=0.03, noise=0.002, beta=1.0, step=0.0):
    """Return (series, controls) in which every session has a common factor, and the series a step at session 5."""
    rng = random.Random(seed)
    factor = {f"s{session}": rng.gauss(0, common) for session in range(10)}
    controls = [{key: 1.0 + factor[key[0]] + rng.gauss(0, noise) for key in KEYS} for _ in range(4)]
    series = {
        key: -3.0 + beta * factor[key[0]] + (step if int(key[0][1:]) >= 5 else 0.0) + rng.gauss(0, noise)
        for key in KEYS
    }
    return series, controls


def spread(values):
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def test_a_common_factor_is_removed():
    series, controls = planted()
    fixed = adjust(series, controls)
    assert fixed.beta == pytest.approx(1, abs=0.05)
    assert spread(series.values()) > 0.02
    assert spread(fixed.values.values()) < 0.004


def test_independent_controls_change_next_to_nothing():
    series, controls = planted(beta=0.0)
    fixed = adjust(series, controls)
    assert abs(fixed.beta) < 0.05
    assert spread(fixed.values.values()) < 1.1 * spread(series.values())


def test_a_step_of_the_series_itself_stays():
    series, controls = planted(step=0.05)
    fixed = adjust(series, controls).values
    before = [value for key, value in fixed.items() if int(key[0][1:]) < 5]
    after = [value for key, value in fixed.items() if int(key[0][1:]) >= 5]
    assert sum(after) / len(after) - sum(before) / len(before) == pytest.approx(0.05, abs=0.02)


@given(st.floats(-20, 20), st.floats(-20, 20))
def test_units_do_not_matter(shift, control_shift):
    series, controls = planted()
    moved = adjust(
        {key: value + shift for key, value in series.items()},
        [{key: value + control_shift for key, value in control.items()} for control in controls],
    )
    still = adjust(series, controls)
    assert moved.beta == pytest.approx(still.beta, rel=1e-6)
    for key, value in still.values.items():
        assert moved.values[key] == pytest.approx(value + shift, abs=1e-6)


def test_too_few_rounds_are_not_adjusted():
    series, controls = planted()
    few = dict(list(series.items())[: adjustment.MIN_ROUNDS - 1])
    assert slope(few, deviations(controls)) == (0.0, None)


def test_constant_controls_are_not_divided_by():
    series, _ = planted()
    assert adjust(series, [dict.fromkeys(KEYS, 1.0)]).beta == 0


def test_rounds_without_a_control_are_said():
    series, controls = planted()
    fixed = adjust(series | {("s99", "r0"): 0.0}, controls)
    assert fixed.warnings == ("1 of 81 rounds have no control",)
    assert ("s99", "r0") not in fixed.values
