"""Change points from what was kept of a series are those found from nothing, to the last bit."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.stats.changepoints import edivisive, incremental, many, pelt, vote
from kernel_velocity.stats.changepoints import noise as changepoints_noise
from tests.stepped_series import stepped

TICKS = st.sampled_from([0.0, 0.004, 1 / 64])
SERIES = st.tuples(
    st.integers(0, 10_000),
    st.lists(st.sampled_from([0.0, 0.02, -0.03, 0.3]), min_size=1, max_size=4),
    st.integers(45, 110),  # points a level
    st.sampled_from([0.0005, 0.004, 0.02]),
    TICKS,
    st.booleans(),
)


def series_of(form):
    """Return a series of some levels, maybe with missing values and a coarse timer's readings."""
    seed, levels, size, sigma, tick, has_holes = form
    values = stepped(-7.0, *(-7.0 + level for level in levels), size=size, sigma=sigma, seed=seed)
    values = np.round(values / tick) * tick if tick else np.asarray(values)
    if has_holes:
        values[np.random.default_rng(seed).random(values.size) < 0.1] = np.nan
    return np.ascontiguousarray(values)


def from_nothing(values):
    return vote.detect(values).points


def kept_and_back(kept):
    return incremental.unpacked(incremental.packed(kept))


def found(several, known):
    return many.found(several, known)


@settings(max_examples=40, deadline=None)
@given(forms=st.lists(SERIES, min_size=1, max_size=3), behind=st.lists(st.integers(0, 18), min_size=1, max_size=3))
def test_a_series_that_went_on_is_as_found_from_nothing(forms, behind):
    several = [series_of(form) for form in forms]
    ends = [sum(behind[:count]) for count in range(len(behind) + 1)][::-1]  # points that are still to come
    known = [None] * len(several)
    for end in ends:
        now = [np.ascontiguousarray(values[: values.size - end]) for values in several]
        known = [kept_and_back(kept) for kept in found(now, known)]
        assert [kept.found for kept in known] == [from_nothing(values) for values in now]


def test_one_point_after_the_other_through_steps_and_changes_of_the_noise_basis():
    values = stepped(-7.0, -6.9, -7.1, size=70, seed=3)
    (known,) = found([values[:110]], [None])
    for end in range(111, values.size + 1):
        (known,) = found([values[:end]], [known])
        assert known.found == from_nothing(values[:end]), end
    assert [point.index for point in known.found] == [70, 140]


@pytest.mark.parametrize("what", ["changed", "lost", "inserted", "shorter", "missing now"])
def test_old_values_that_are_no_more_what_they_were_are_looked_at_anew(what):
    values = stepped(-7.0, -6.9, size=80)
    (known,) = found([values[:-1]], [None])
    other = {
        "changed": np.where(np.arange(values.size) == 40, np.nextafter(values, 0.0), values)
        + (np.arange(160) < 80) * 1e-9,
        "lost": np.delete(values, 100),
        "inserted": np.insert(values, 30, -6.0),
        "shorter": values[:100],
        "missing now": np.where(np.arange(values.size) == 90, np.nan, values),
    }[what]
    (now,) = found([other], [known])
    assert now.found == from_nothing(other) != known.found
    assert now.said == incremental.digest(other)


def test_what_got_no_point_is_as_it_was(monkeypatch):
    values = stepped(-7.0, -6.9, size=80)
    (known,) = found([values], [None])
    monkeypatch.setattr(incremental, "found", None)  # nothing is looked for
    assert found([values], [known])[0] is known
    (longer,) = found([np.append(values, np.nan)], [known])
    assert (longer.values, longer.size, longer.found) == (161, 160, known.found)


def test_a_point_that_says_nothing_new_costs_no_search(monkeypatch):
    values = stepped(-7.0, -6.9, size=150)
    (known,) = found([values[:-1]], [None])
    monkeypatch.setattr(pelt.Program, "extend", None)
    monkeypatch.setattr(edivisive, "best_cut", None)
    monkeypatch.setattr("kernel_velocity.stats.changepoints.windows.TwoWindow.extend", None)
    (now,) = found([values], [known])
    assert [point.index for point in now.found] == [150]


@pytest.mark.parametrize("size", [12, 60, 99])
def test_short_series_are_found_from_nothing(size):
    values = stepped(-7.0, -6.9, size=size // 2)
    (known,) = found([values[:-1]], [None])
    assert found([values], [known])[0].found == from_nothing(values)


def test_what_cannot_be_told_to_stay_is_left_to_the_detector():
    """A cut that costs as much as the last one, but for rounding, may be the better one."""
    values = stepped(-7.0, -6.9, size=80)
    (known,) = found([values[:-1]], [None])
    there = [values, values]
    rival = dataclasses.replace(known.pelt, costs=known.pelt.costs.copy())
    last = known.pelt.cuts[-1]
    whole, _ = many.extended(there, [known, known], 1)
    assert whole.pelt is not None
    rows = many.rows([values])
    sums, squares = many._sums(rows, np.array([rival.sigma]))
    costs = np.concatenate([rival.costs, whole.pelt.costs[-1:], [np.inf, np.inf]])[None]
    of_all = many._all(costs, sums, squares, values.size)[0]
    rival.costs[last + 9] -= of_all[last + 9] - of_all[last]
    _, doubtful = many.extended(there, [known, dataclasses.replace(known, pelt=rival)], 1)
    assert doubtful.pelt is None


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), sizes=st.lists(st.integers(8, 40), min_size=1, max_size=4), tick=TICKS)
def test_spikes_are_clipped_as_of_one_series(seed, sizes, tick):
    noise = np.random.default_rng(seed)
    several = [noise.standard_t(2, size) for size in sizes]
    several = [np.round(each / tick) * tick if tick else each for each in several]
    sigma = np.array([changepoints_noise.difference_sigma(each) for each in several])
    clipped = many._clipped(many.rows(several), sigma)
    for row, each, own in zip(clipped, several, sigma, strict=True):
        np.testing.assert_array_equal(row[-each.size :], changepoints_noise.clipped(each, own))


def test_what_json_has_no_number_for_is_not_kept():
    (known,) = found([stepped(-7.0, -6.9, size=80)], [None])
    assert incremental.packed(dataclasses.replace(known, restless={80: float("nan")})) is None
    back = kept_and_back(dataclasses.replace(known, restless={80: None, 90: 0.1 + 0.2}))
    assert dict(back.restless) == {80: None, 90: 0.1 + 0.2}


def test_of_a_series_that_settled_no_vote_is_held(monkeypatch):
    values = stepped(-7.0, -6.9, size=160)
    (known,) = found([values[:-1]], [None])
    assert known.is_settled and not found([values[:250]], [None])[0].is_settled
    expected = from_nothing(values)
    monkeypatch.setattr(vote.Vote, "detection", None)
    (now,) = found([values], [known])
    assert now.found == expected and now.is_settled
    (edge,) = [stretch for stretch in now.edivisive.tests if stretch[2] == values.size]
    assert edge == (0, 160, 320)


@pytest.mark.parametrize("level", [-6.999, -7.05])
def test_a_settled_series_whose_last_step_says_something_else_is_voted_on_again(level):
    """E-divisive compares whole levels: far behind a step, points still move what it says of it."""
    values = stepped(-7.0, -6.988, size=140, sigma=0.003)
    (known,) = found([values], [None])
    longer = np.append(values, np.full(16, level))
    (now,) = found([longer], [known])
    assert now.found == from_nothing(longer)
