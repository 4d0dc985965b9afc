"""Adjusting by signals: a common factor goes, a change of the series' own stays."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.stats import adjust as adjustment
from kernel_velocity.stats.adjust import adjust, deviations, slopes

KEYS = [(f"s{session}", f"r{round_}") for session in range(10) for round_ in range(8)]


def planted(seed=0, *, common=0.03, noise=0.002, beta=1.0, step=0.0):
    """Return (series, controls) that share a factor of every round, and the series has a step at session 5."""
    rng = random.Random(seed)
    sessions = {f"s{session}": rng.gauss(0, common) for session in range(10)}
    factor = {key: sessions[key[0]] + rng.gauss(0, 2 / 3 * common) for key in KEYS}
    controls = [{key: 1.0 + factor[key] + rng.gauss(0, noise) for key in KEYS} for _ in range(4)]
    series = {
        key: -3.0 + beta * factor[key] + (step if int(key[0][1:]) >= 5 else 0.0) + rng.gauss(0, noise) for key in KEYS
    }
    return series, controls


def spread(values):
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def test_a_common_factor_is_removed():
    series, controls = planted()
    fixed = adjust(series, [deviations(controls)])
    assert fixed.betas == pytest.approx((1,), abs=0.05)
    assert fixed.explained > 0.98
    assert spread(series.values()) > 0.02
    assert spread(fixed.values.values()) < 0.004


def test_independent_controls_change_next_to_nothing():
    series, controls = planted(beta=0.0)
    fixed = adjust(series, [deviations(controls)])
    (beta,) = fixed.betas
    assert abs(beta) < 0.05
    assert fixed.explained < 0.1
    assert spread(fixed.values.values()) < 1.1 * spread(series.values())


def test_a_step_of_the_series_itself_stays():
    series, controls = planted(step=0.05)
    fixed = adjust(series, [deviations(controls)]).values
    before = [value for key, value in fixed.items() if int(key[0][1:]) < 5]
    after = [value for key, value in fixed.items() if int(key[0][1:]) >= 5]
    assert sum(after) / len(after) - sum(before) / len(before) == pytest.approx(0.05, abs=0.02)


@given(st.floats(-20, 20), st.floats(-20, 20))
def test_units_do_not_matter(shift, control_shift):
    series, controls = planted()
    moved = adjust(
        {key: value + shift for key, value in series.items()},
        [deviations([{key: value + control_shift for key, value in control.items()} for control in controls])],
    )
    still = adjust(series, [deviations(controls)])
    assert moved.betas == pytest.approx(still.betas, rel=1e-6)
    assert moved.explained == pytest.approx(still.explained, rel=1e-6)
    for key, value in still.values.items():
        assert moved.values[key] == pytest.approx(value + shift, abs=1e-6)


@pytest.mark.parametrize(("read", "kept"), [(80, True), (72, True), (71, False), (0, False)])
def test_a_gauge_is_usable_that_was_read_in_nine_rounds_of_ten(read, kept):
    series = dict.fromkeys(KEYS, -3.0)
    gauge = dict.fromkeys(KEYS[:read], -5.0)
    assert adjustment.usable([gauge], series) == ([deviations([gauge])] if kept else [])


def test_too_few_rounds_are_not_adjusted():
    series, controls = planted()
    few = dict(list(series.items())[: adjustment.MIN_ROUNDS - 1])
    assert slopes(few, [deviations(controls)]) == ((0.0,), None)


def test_every_signal_asks_for_its_rounds():
    series, controls = planted()
    signals = [deviations(controls[:2]), deviations(controls[2:])]
    enough = dict(list(series.items())[: 2 * adjustment.MIN_ROUNDS])
    fewer = dict(list(enough.items())[:-1])
    ((first,), explained) = slopes(fewer, signals[:1])
    assert first > 0
    assert slopes(fewer, signals) == ((first, 0.0), explained)  # what is too little for both is enough for one
    assert slopes(dict(list(series.items())[: adjustment.MIN_ROUNDS - 1]), signals) == ((0.0, 0.0), None)
    assert slopes(enough, signals)[1] is not None


def test_constant_controls_are_not_divided_by():
    series, _ = planted()
    fixed = adjust(series, [deviations([dict.fromkeys(KEYS, 1.0)])])
    assert (fixed.betas, fixed.explained) == ((0,), None)


def test_a_constant_series_is_not_divided_by():
    _, controls = planted()
    assert slopes(dict.fromkeys(KEYS, 1.0), [deviations(controls)]) == ((0.0,), None)


def test_a_gauge_that_never_moved_does_not_silence_the_others():
    series, controls = planted()
    still = dict.fromkeys(KEYS, 0.0)
    told = deviations(controls)
    betas, explained = slopes(series, [still, told])
    assert (betas[0], (betas[1],), explained) == (0.0, *slopes(series, [told]))


def test_two_signals_that_say_the_same_are_not_told_apart():
    series, controls = planted()
    signal = deviations(controls)
    assert slopes(series, [signal, signal]) == ((0.0, 0.0), None)


def test_without_signals_nothing_changes():
    series, _ = planted()
    assert adjust(series, []) == adjustment.Adjusted((), None, series)


def test_a_step_of_the_series_itself_moves_no_beta():
    series, controls = planted(step=0.05)
    unmoved, _ = planted()
    assert slopes(series, [deviations(controls)])[0] == pytest.approx(slopes(unmoved, [deviations(controls)])[0])


def test_each_signal_has_its_own_beta():
    rng = random.Random(3)
    first, second = ({key: rng.gauss(0, 0.02) for key in KEYS} for _ in range(2))
    series = {key: 0.8 * first[key] + 0.3 * second[key] + rng.gauss(0, 0.0005) for key in KEYS}
    fixed = adjust(series, [first, second])
    assert fixed.betas == pytest.approx((0.8, 0.3), abs=0.02)
    assert spread(fixed.values.values()) < 0.001


def test_what_slows_a_gauge_down_makes_no_kernel_faster():
    rng = random.Random(3)
    first, second = ({key: rng.gauss(0, 0.02) for key in KEYS} for _ in range(2))
    series = {key: 0.8 * first[key] - 0.3 * second[key] + rng.gauss(0, 0.0005) for key in KEYS}
    one, other = adjust(series, [first, second]).betas
    assert one == pytest.approx(0.8, abs=0.1)
    assert other == 0
    assert adjust({key: -value for key, value in first.items()}, [first]).betas == (0,)


def test_rounds_that_went_wrong_move_no_beta():
    series, controls = planted()
    signal = deviations(controls)
    for key in KEYS[::16]:
        series[key] += 1.0
    assert slopes(series, [signal])[0] == pytest.approx(slopes(planted()[0], [signal])[0], abs=0.03)


@pytest.mark.parametrize("size", [0.001, 0.1, 1.0])
def test_a_slope_is_shrunk_by_its_standard_error(size):
    """Least squares by hand: deviations -4 to 4 but not 0, b = .5, and residuals of +-size that they cannot explain."""
    steps, signs = (-4, -3, -2, -1, 1, 2, 3, 4), (-1, 1, 1, -1, 1, -1, -1, 1)
    signal = {key: float(step) for key, step in zip(KEYS, steps * 10, strict=True)}
    series = {key: 0.5 * step + size * sign for key, step, sign in zip(KEYS, steps * 10, signs * 10, strict=True)}
    squared_error = 80 * size**2 / (80 - 1 - 10) / 600  # 80 rounds less one slope and ten centres; the sum of squares
    betas, explained = slopes(series, [signal])
    assert betas == pytest.approx((0.5 * 0.25 / (0.25 + squared_error),))
    assert explained == pytest.approx(1 - 80 * size**2 / (150 + 80 * size**2))


def test_betas_can_be_fitted_on_other_rounds():
    series, controls = planted()
    signal = deviations(controls)
    half = {key: value for key, value in series.items() if int(key[0][1:]) < 5}
    fixed = adjust(series, [signal], fitted_on=half)
    assert fixed.betas == slopes(half, [signal])[0] != slopes(series, [signal])[0]
    assert fixed.values.keys() == series.keys()


def test_rounds_without_a_control_are_said():
    series, controls = planted()
    fixed = adjust(series | {("s99", "r0"): 0.0}, [deviations(controls)])
    assert fixed.warnings == ("1 of 81 rounds have no control",)
    assert ("s99", "r0") not in fixed.values


def test_a_round_without_one_of_its_signals_is_adjusted_by_the_others():
    series, controls = planted()
    whole, lacking = deviations(controls[:2]), deviations(controls[2:])
    del lacking[KEYS[7]]
    fixed = adjust(series, [whole, lacking])
    assert fixed.warnings == ("1 of 80 rounds lack one of 2 controls",)
    assert fixed.values[KEYS[7]] == series[KEYS[7]] - fixed.betas[0] * whole[KEYS[7]]
    assert 0 not in fixed.betas
    del whole[KEYS[7]]
    left_out = adjust(series, [whole, lacking])
    assert left_out.warnings == ("1 of 80 rounds have no control",)
    assert series.keys() - left_out.values.keys() == {KEYS[7]}


def test_sessions_of_one_code_tell_by_how_they_differ():
    rng = random.Random(5)
    mood = {f"s{session}": rng.gauss(0, 0.03) for session in range(10)}
    signal = {key: mood[key[0]] + rng.gauss(0, 0.01) for key in KEYS}  # the gauge's own noise, in each reading anew
    series = {key: mood[key[0]] + rng.gauss(0, 0.001) for key in KEYS}
    (apart,), _ = slopes(series, [signal])
    (together,), _ = slopes(series, [signal], dict.fromkeys(mood, "same"))
    assert apart < 0.2  # within a session there is nothing but that noise
    assert together == pytest.approx(1, abs=0.15)
    assert adjust(series, [signal], code=dict.fromkeys(mood, "same")).betas == (together,)


def test_a_step_between_two_codes_moves_no_beta():
    series, controls = planted(step=0.05)
    unmoved, _ = planted()
    code = {f"s{session}": "old" if session < 5 else "new" for session in range(10)}
    signals = [deviations(controls)]
    assert slopes(series, signals, code)[0] == pytest.approx(slopes(unmoved, signals, code)[0])
    wrong = dict.fromkeys(code, "same")
    assert slopes(series, signals, wrong)[0] != pytest.approx(slopes(unmoved, signals, wrong)[0])


def test_a_session_of_unknown_code_is_a_code_of_its_own():
    series, controls = planted(step=0.05)
    signals = [deviations(controls)]
    assert slopes(series, signals, {"s3": "x", "s7": "y"}) == slopes(series, signals)


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-30, 5), st.floats(-1, 1)), min_size=1, max_size=40))
def test_rounds_are_centred_by_exactly_the_median_of_their_code(rounds):
    codes = np.unique([code for code, *_ in rounds], return_inverse=True)[1]
    values = np.array([own for _, *own in rounds])
    wanted = values - np.array([np.median(values[codes == code], axis=0) for code in codes])
    assert (adjustment._centred(values, codes) == wanted).all()
