"""The detector of change points: planted steps, silence, invariances, what settles, unsteady series, links."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.stats.changepoints import search
from kernel_velocity.stats.changepoints.search import BLOCK, MARGIN, beyond_doubt, detect, detect_many
from kernel_velocity.stats.changepoints.values import ChangePoint
from tests.stepped_series import stepped, with_holes

SEEDS = st.integers(0, 10_000)


def change_points(values):
    return [(point.index, point.rises) for point in detect(values)]


def is_near(points, *steps):
    return all(any(abs(index - step) <= MARGIN for index, _ in points) for step in steps)


@pytest.mark.parametrize("effect", [0.05, -0.05])
def test_step_is_found_at_its_place_and_in_its_direction(effect):
    (point,) = detect(stepped(0.0, effect))
    assert (point.index, point.rises) == (40, effect > 0)
    assert point.before == pytest.approx(0.0, abs=0.005)
    assert point.after == pytest.approx(effect, abs=0.01)
    assert point.low < point.ratio == math.exp(point.after - point.before) < point.high
    assert point.low < math.exp(effect) < point.high
    assert point.p < 1e-6
    assert point.warnings == () and not point.is_unsteady


@pytest.mark.parametrize("size", range(1, search.FEWEST_A_SIDE))
def test_large_steps_near_the_ends_do_not_hide_the_others(size):
    """A kernel that became twelve times as fast in its third commit is followed from then on."""
    values = stepped(0.0, -0.15)
    values[:size] += 2.5
    values[-size:] += 2.5
    assert change_points(values) == [(40, False)]


SPIKE = stepped(0.0, size=80)
SPIKE[50] += 0.5
STILL = {
    **{f"noise {seed}": stepped(0.0, size=120, seed=seed) for seed in range(3)},
    "constant": [0.5] * 60,
    "one spike": SPIKE,
    "coarse timer": np.log(1 + 0.02 * np.array([0, 0, 0, 1, 1, 1, 0, 1, 0, 1, 1, 0])),
    "below 1%": stepped(0.0, 0.006, sigma=0.001),
    "slope": stepped(0.0, size=120) + 0.0005 * np.arange(120),
    "no value": [None, None],
    "five values": [0.0, 0.1, 0.0, 0.1, 0.0],
    "nothing": [],
}


@pytest.mark.parametrize("name", STILL)
def test_nothing_is_found_without_a_step(name):
    assert detect(STILL[name]) == ()


def test_correlated_noise_is_no_change(monkeypatch):
    rng, series = np.random.default_rng(0), []
    for _ in range(40):
        noise = 0.006 * rng.standard_normal(120)
        for index in range(1, 120):
            noise[index] += 0.8 * noise[index - 1]
        series.append(noise)
    assert sum(len(detect(noise)) for noise in series) <= 2
    monkeypatch.setattr(search, "P_CORRELATED", 1.1)  # without the test
    assert sum(len(detect(noise)) for noise in series) > 10


def test_ticks_of_a_coarse_timer_are_no_change(monkeypatch):
    rng = np.random.default_rng(0)
    series = [np.log(0.02 * np.round(0.5 * rng.standard_normal(40) + 50 + rng.random())) for _ in range(60)]
    assert not any(map(detect, series))
    monkeypatch.setattr(search, "least_sigma", lambda values: np.full(values.shape[:-1], 0.001))
    assert any(map(detect, series))


def test_spikes_hide_no_step():
    values = stepped(0.0, 0.03)
    values[7::8] += 0.5
    assert is_near(change_points(values), 40)


@pytest.mark.parametrize("seed", range(10))
def test_step_in_a_short_history_is_found(seed):
    rng = np.random.default_rng(seed)
    assert is_near(change_points(np.repeat([0.0, math.log(10)], (11, 300)) + 0.01 * rng.standard_normal(311)), 11)
    assert is_near(change_points(np.repeat([0.0, math.log(2)], 8) + 0.01 * rng.standard_normal(16)), 8)


def test_step_between_short_levels_that_drift_is_found():
    """quantize_int8 on a CPU, in percent: nine and nine commits, so correlated that Student's t has one degree."""
    before, after = (
        [0.0, -0.1, -0.3, 1.7, 1.8, 1.0, 1.0, 1.7, 1.6],
        [-13.1, -12.8, -12.3, -12.8, -13.4, -14.1, -13.2, -12.4, -12.4],
    )
    last = [-17.6, -53.2, -54.6, -48.8, -51.9, -51.9, -51.5, -50.8, -51.3]
    assert (9, False) in change_points(np.array(before + after + last) / 100)


def test_interval_of_a_step_holds_the_truth_and_not_zero():
    """Levels of nine commits with AR(1) noise of correlation .8, which leaves most of them one degree of freedom."""
    rng, intervals = np.random.default_rng(0), []
    for effect in np.tile([-0.3, -0.1, 0.1, 0.3], 40):
        noise = 0.006 * rng.standard_normal(18)
        for index in range(1, 18):
            noise[index] += 0.8 * noise[index - 1]
        points = [point for point in detect(noise + np.repeat([0.0, effect], 9)) if abs(point.index - 9) <= 1]
        intervals += [(math.log(point.low) - effect, math.log(point.high) - effect, effect) for point in points]
    assert len(intervals) >= 120
    assert sum(low <= 0 <= high for low, high, _ in intervals) >= 0.9 * len(intervals)
    assert not any(low + effect <= 0 <= high + effect for low, high, effect in intervals)


def test_kernel_that_is_optimised_every_few_commits():
    rng, steps, hits = np.random.default_rng(0), 0, 0
    for gap in (6, 8, 10):
        values = np.repeat(-np.arange(8) * math.log(1.5), gap) + 0.01 * rng.standard_normal(8 * gap)
        steps += 7
        hits += sum(is_near(change_points(values), gap * number) for number in range(1, 8))
    assert hits >= 0.95 * steps


def test_series_that_keeps_coming_back_is_unsteady():
    points = detect(stepped(*[0.0, 0.05] * 4, size=20, sigma=0.002))
    assert [point.index for point in points] == [20, 40, 60, 80, 100, 120, 140]
    assert [point.is_unsteady for point in points] == [False] * 3 + [True] * 4
    assert not any(point.is_unsteady for point in detect(stepped(*(0.05 * np.arange(8)), size=20, sigma=0.002)))


def test_settled_levels_make_a_series_unsteady():
    points = detect(stepped(*[0.0, 0.05] * 8, size=40, sigma=0.002))
    assert [point.index for point in points] == [40 * number for number in range(1, 16)]
    assert [point.is_unsteady for point in points] == [False] * 3 + [True] * 12


@pytest.mark.parametrize(("size", "sigmas"), [(3, 16), (4, 12), (5, 10)])
def test_short_level_inside_a_history_is_found_if_it_is_far_away(size, sigmas):
    values = stepped(0.0, 0.0, sigma=0.005)
    values[40 : 40 + size] += 0.005 * sigmas
    assert change_points(values) == [(40, True), (40 + size, False)]
    values[40 : 40 + size] -= 0.005 * sigmas / 2
    assert change_points(values) == []


@pytest.mark.parametrize("since", range(1, 7))
def test_level_of_eight_is_found_while_its_revert_is_new(since):
    values = np.repeat([0.0, 0.05, 0.0], (40, 8, since)) + 0.005 * np.random.default_rng(0).standard_normal(48 + since)
    assert (40, True) in change_points(values)


def test_infinite_value_is_refused_with_its_index():
    with pytest.raises(ValueError, match="value 4 is infinite"):
        detect([None, *stepped(0.0)[:3], -math.inf])


@settings(max_examples=8, derandomize=True)
@given(seed=SEEDS, holes=st.lists(st.integers(0, 79), max_size=80))
def test_missing_values_are_skipped_but_count_in_indices(seed, holes):
    values = stepped(0.0, 0.04, seed=seed)
    holed = with_holes(values, holes)
    present = np.flatnonzero(~np.isnan(np.array(holed, dtype=float)))
    assert change_points(holed) == [(present[index], rises) for index, rises in change_points(values)]


@settings(max_examples=8, derandomize=True)
@given(seed=SEEDS, shift=st.integers(-1000, 1000), scale=st.sampled_from([1.0, 2.0, 5.0]))
def test_detection_is_invariant_to_unit_and_direction(seed, shift, scale):
    values = stepped(0.0, 0.04, 0.01, seed=seed)
    points, moved = detect(values), detect(scale * values + shift / 64)
    assert [(point.index, point.rises) for point in moved] == [(point.index, point.rises) for point in points]
    assert [point.before for point in moved] == pytest.approx([scale * point.before + shift / 64 for point in points])
    assert [point.p for point in moved] == pytest.approx([point.p for point in points], rel=1e-4)
    assert change_points(-values) == [(point.index, not point.rises) for point in points]


@settings(max_examples=8, derandomize=True)
@given(seed=SEEDS, more=st.lists(st.integers(0, 150), min_size=1, max_size=4), hole=st.integers(0, 600))
def test_grown_series_gives_the_same_as_from_nothing(seed, more, hole):
    rng = np.random.default_rng(seed)
    values = np.repeat(rng.choice([0.0, 0.03, 0.08], 12), 50) + 0.005 * rng.standard_normal(600)
    values[hole : hole + 3] = np.nan
    previous, size = None, 20
    for count in (0, *more):
        size += count
        (previous,) = detect_many([values[:size]], [previous])
        assert previous.points == detect(values[:size])
    assert previous.settled == tuple(point for point in previous.settled if point.index < (previous.blocks - 1) * BLOCK)
    values[0] += 0.5  # an old value was corrected
    assert detect_many([values[:size]], [previous])[0].points == detect(values[:size])


def test_settled_change_points_cost_nothing(monkeypatch):
    values = stepped(0.0, 0.1, size=500)
    (previous,) = detect_many([values[:-1]], [None])
    searched = []
    original = search.cheapest
    monkeypatch.setattr(search, "cheapest", lambda series, prices: searched.extend(series) or original(series, prices))
    (grown,) = detect_many([values], [previous])
    assert [point.index for point in grown.points] == [500]
    assert [part.size <= 3 * BLOCK for part in searched] == [True]


def cost(values, cuts, price):
    parts = np.split(np.asarray(values), cuts)
    assert min(part.size for part in parts) >= search.FEWEST_BETWEEN_CUTS
    return sum(float(((part - part.mean()) ** 2).sum()) for part in parts) + price * len(cuts)


@settings(max_examples=60)
@given(
    several=st.lists(st.lists(st.floats(-3, 3, width=16), min_size=6, max_size=11), min_size=1, max_size=3),
    price=st.floats(0.01, 20),
)
def test_cuts_are_the_cheapest(several, price):
    chosen = search.cheapest([np.array(values) for values in several], [price] * len(several))
    for values, cuts in zip(several, chosen, strict=True):
        possible = (
            some
            for count in range(4)
            for some in itertools.combinations(range(3, len(values) - 2), count)
            if all(after - before >= 3 for before, after in itertools.pairwise((0, *some, len(values))))
        )
        least = min(cost(values, list(some), price) for some in possible)
        assert cost(values, cuts, price) == pytest.approx(least, abs=1e-7)


# Which of the steps between sessions count: those beyond the errors of links, or that one session shows -------------

STEP = 0.05
NOISE = 0.003


def counted(*sessions, steps):
    """Return which steps count, of values that rise by STEP at each. A commit without a value is in every session.

    Args:
        sessions: the number of values of each, and the standard error of its link. steps: values before each.
    """
    errors = np.repeat([error for _, error in sessions], [number for number, _ in sessions])
    logs = np.random.default_rng(1).normal(0, NOISE, errors.size)
    for step in steps:
        logs[step:] += STEP
    return counted_of(logs, errors, sessions, steps)


def counted_of(logs, errors, sessions, steps):
    """Return which steps count of given values."""
    gaps = np.cumsum([0, *(number for number, _ in sessions)])[:-1] + 1
    points = [
        ChangePoint(index=step + int((gaps <= step).sum()), before=0.0, after=STEP, low=1.0, high=1.1, p=1e-9)
        for step in steps
    ]
    points_beyond = beyond_doubt(np.insert(logs, gaps, np.nan), np.insert(errors, gaps, errors[gaps - 1]), points)
    return [step for step, point in zip(steps, points, strict=True) if point in points_beyond]


@pytest.mark.parametrize(("error", "is_beyond"), [(0.0099, True), (0.0101, False)])
def test_step_of_5_percent_counts_up_to_an_error_of_1_percent(error, is_beyond):
    assert bool(counted((20, 0.0), (20, error), steps=[20])) == is_beyond


def test_session_weighs_by_its_share_of_a_level():
    assert counted((20, 0.0), (10, 0.015), (10, 1e-9), steps=[20]) == [20]
    assert counted((20, 0.0), (30, 0.015), (10, 1e-9), steps=[20]) == []


def test_levels_end_at_the_neighbouring_steps():
    assert counted((20, 0.0), (20, 0.012), (20, 1e-9), steps=[20, 40]) == []


def test_same_session_on_both_sides_leaves_no_doubt():
    """Five values on either side of the step are too few for a session itself to show it."""
    assert counted((5, 0.1), (5, 0.0), steps=[5]) == []
    assert counted((10, 0.1), steps=[5]) == [5]


def test_step_counts_if_a_session_shows_it_and_not_otherwise():
    sessions = ((20, 0.0), (20, 0.1), (20, 0.2))
    assert counted(*sessions, steps=[30]) == [30]
    errors = np.repeat([0.0, 0.1, 0.2], 20)
    level = np.random.default_rng(1).normal(0, NOISE, 60) + np.repeat([0, STEP / 2, STEP], 20)
    assert counted_of(level, errors, sessions, [30]) == []
