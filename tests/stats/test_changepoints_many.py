"""Change points from what was kept of a series are those found from nothing, to the last bit."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.stats.changepoints import edivisive, incremental, many, pelt, vote, windows
from kernel_velocity.stats.growth import grown
from tests.stepped_series import stepped

SERIES = st.tuples(
    st.integers(0, 10_000),
    st.lists(st.sampled_from([0.0, 0.02, -0.03, 0.3]), min_size=1, max_size=4),
    st.integers(45, 110),  # points a level
    st.sampled_from([0.0005, 0.004, 0.02]),
    st.sampled_from([0.0, 0.004, 1 / 64]),  # tick of the timer
    st.booleans(),  # whether values are missing
)


def series_of(form):
    seed, levels, size, sigma, tick, has_holes = form
    values = stepped(-7.0, *(-7.0 + level for level in levels), size=size, sigma=sigma, seed=seed)
    values = np.round(values / tick) * tick if tick else np.asarray(values)
    if has_holes:
        values[np.random.default_rng(seed).random(values.size) < 0.1] = np.nan
    return np.ascontiguousarray(values)


def from_nothing(values):
    return vote.detect(values)


def continued(values, *, behind):
    """Return what is kept of a series, continued from what was kept when its last points were missing."""
    known = many.found([values[: values.size - behind]], [None])
    (now,) = many.found([values], known)
    return now


@settings(max_examples=40)
@given(forms=st.lists(SERIES, min_size=1, max_size=3), behind=st.lists(st.integers(0, 18), min_size=1, max_size=3))
def test_continued_series_are_as_found_from_nothing(forms, behind):
    several = [series_of(form) for form in forms]
    known = [None] * len(several)
    for end in [sum(behind[:count]) for count in range(len(behind), -1, -1)]:  # points that are still to come
        now = [np.ascontiguousarray(values[: values.size - end]) for values in several]
        known = [incremental.unpacked(incremental.packed(kept)) for kept in many.found(now, known)]
        assert [kept.found for kept in known] == [from_nothing(values) for values in now]


def test_one_point_at_a_time_through_steps_and_changes_of_the_noise_basis():
    values = stepped(-7.0, -6.9, -7.1, size=70, seed=3)
    (known,) = many.found([values[:110]], [None])
    for end in range(111, values.size + 1):
        (known,) = many.found([values[:end]], [known])
        assert known.found == from_nothing(values[:end]), end
        assert known.reached.by_pelt.basis == grown(end)
    assert [point.index for point in known.found] == [70, 140]


@pytest.mark.parametrize("what", ["changed", "lost", "inserted", "shorter", "missing now"])
def test_changed_old_values_are_searched_again(what):
    values = stepped(-7.0, -6.9, size=80)
    known = many.found([values[:-1]], [None])
    other = {
        "changed": values + (np.arange(160) < 80) * 1e-9,
        "lost": np.delete(values, 100),
        "inserted": np.insert(values, 30, -6.0),
        "shorter": values[:100],
        "missing now": np.where(np.arange(values.size) == 90, np.nan, values),
    }[what]
    (now,) = many.found([other], known)
    assert now.found == from_nothing(other) != known[0].found
    assert now.said == incremental.digest(other)


def test_series_without_a_new_point_is_returned_as_it_is(monkeypatch):
    values = stepped(-7.0, -6.9, size=80)
    (known,) = many.found([values], [None])
    monkeypatch.setattr(incremental, "found", None)  # nothing is searched
    assert many.found([values], [known])[0] is known
    (longer,) = many.found([np.append(values, np.nan)], [known])
    assert (longer.values, longer.size, longer.found) == (161, 160, known.found)


def test_point_that_changes_nothing_costs_no_search(monkeypatch):
    values = stepped(-7.0, -6.9, size=150)
    known = many.found([values[:-1]], [None])
    monkeypatch.setattr(pelt, "cheapest", None)
    monkeypatch.setattr(edivisive, "best_cut", None)
    monkeypatch.setattr(windows, "search", None)
    (now,) = many.found([values], known)
    assert [point.index for point in now.found] == [150]


def test_cut_that_costs_about_the_same_is_left_to_the_detector():
    """A rival of the last cut may be the better one, but for rounding."""
    values = stepped(-7.0, -6.9, size=80)
    (known,) = many.found([values[:-1]], [None])
    state = known.reached.by_pelt
    (whole,) = many.extended([values], [known], 1)
    assert whole.reached.by_pelt.cuts == state.cuts == (80,)
    centred = pelt.clipped(values, state.sigma) - values[0]

    def cost(last):
        return state.costs[last] + sum(float(((part - part.mean()) ** 2).sum()) for part in [centred[last:]])

    costs = state.costs.copy()
    costs[89] -= cost(89) - cost(80)
    rival = dataclasses.replace(known.reached, by_pelt=dataclasses.replace(state, costs=costs))
    (doubtful,) = many.extended([values], [dataclasses.replace(known, reached=rival)], 1)
    assert doubtful.reached.by_pelt is None


@pytest.mark.parametrize("level", [-6.999, -7.05])
def test_points_far_behind_a_step_still_count(level):
    """E-divisive compares whole levels."""
    values = np.append(stepped(-7.0, -6.988, size=140, sigma=0.003), np.full(16, level))
    assert continued(values, behind=16).found == from_nothing(values)


def test_number_that_json_lacks_is_not_kept():
    (known,) = many.found([stepped(-7.0, -6.9, size=80)], [None])

    def packed(restless):
        return incremental.packed(
            dataclasses.replace(known, reached=dataclasses.replace(known.reached, restless=restless))
        )

    assert packed({80: float("nan")}) is None
    restless = {80: None, 90: 0.1 + 0.2}
    assert dict(incremental.unpacked(packed(restless)).reached.restless) == restless
