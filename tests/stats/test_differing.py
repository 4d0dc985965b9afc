"""Do two sets differ? Mann-Whitney and Welch against scipy's, floors by hand, and what it takes to say "different"."""

import math

import numpy as np
import pytest
from asv import _stats
from asv_runner.statistics import compute_stats
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kernel_velocity.stats import two_samples
from kernel_velocity.stats.two_samples import differs, floor_of, mann_whitney, welch

SIZES = st.integers(1, 12)


@st.composite
def untied(draw):
    """Draw two sets of values in any order of each other, none twice."""
    n, m = draw(SIZES), draw(SIZES)
    values = np.array(draw(st.permutations(range(n + m))), dtype=float)
    return values[:n], values[n:]


@given(untied())
def test_mann_whitney_is_scipys_exact_one(sets):
    a, b = sets
    wanted = stats.mannwhitneyu(a, b, method="exact").pvalue
    assert mann_whitney(a[None], b[None]) == pytest.approx([wanted], rel=1e-9)


@pytest.mark.parametrize(("n", "m"), [(8, 8), (7, 30), (40, 25), (64, 64)])
def test_mann_whitney_judges_every_row_by_itself(n, m):
    rng = np.random.default_rng(n)
    a, b = rng.normal(0, 1, (5, n)), rng.normal(0.5, 1, (5, m))
    wanted = [stats.mannwhitneyu(x, y, method="exact").pvalue for x, y in zip(a, b, strict=True)]
    assert mann_whitney(a, b) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(("rounds", "p"), [(6, 2 / 924), (7, 2 / 3432), (8, 2 / 12870)])
def test_what_is_wholly_apart_has_the_least_p(rounds, p):
    a = np.arange(rounds, dtype=float)[None]
    assert mann_whitney(a, a + 100) == pytest.approx([p])
    assert (p < two_samples.P) == (rounds >= two_samples.FEWEST)


SETS = st.lists(st.integers(0, 4), min_size=1, max_size=9)


@given(SETS, SETS)
def test_ties_are_conservative(a, b):
    """Were the ties between the sets broken in favour of the difference, p would not be larger."""
    a, b = np.array(a, dtype=float), np.array(b, dtype=float)
    above = float(((a[:, None] > b) + 0.5 * (a[:, None] == b)).sum())
    broken = a + (0.1 if above > a.size * b.size / 2 else -0.1)
    (tied,), (least,) = mann_whitney(a[None], b[None]), mann_whitney(broken[None], b[None])
    assert 0 < least <= tied <= 1
    assert tied == mann_whitney(b[None], a[None])[0]


def test_half_a_tie_is_rounded_to_no_difference():
    """7 against 7 of which one value is in both: U is half, and counts as 1, which 4 of 3432 arrangements reach."""
    a, b = np.arange(7.0)[None], np.arange(6.0, 13.0)[None]
    assert mann_whitney(a, b) == pytest.approx([4 / 3432])


def test_equal_sets_do_not_differ():
    a = np.ones((1, 7))
    assert mann_whitney(a, a) == [1.0]


VALUES = st.lists(st.floats(-10, 10).map(lambda value: round(value, 3)), min_size=2, max_size=12)


@pytest.mark.filterwarnings("ignore:Precision loss:RuntimeWarning")  # scipy's, about one constant set
@given(VALUES, VALUES)
def test_welch_is_scipys(a, b):
    a, b = np.array(a), np.array(b)
    if a.std() < 1e-6 and b.std() < 1e-6:
        return  # the next test
    wanted = stats.ttest_ind(a, b, equal_var=False).pvalue
    assert welch(a[None], b[None]) == pytest.approx([wanted], rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("other", [1.0, 1.5])
def test_two_constants_are_not_told_apart(other):
    assert welch(np.ones((1, 4)), np.full((1, 4), other)) == [1.0]


def rounds(*centres, spread=0.001, count=8):
    """Return rows of so many rounds about each centre; their medians are the centres."""
    return np.array([np.linspace(centre - spread, centre + spread, count) for centre in centres])


def said(a, b, *floors):
    return differs(a, b, np.array(floors)).tolist()


@pytest.mark.parametrize(
    ("moved", "floor", "wanted"),
    [
        (0.05, 0.02, True),
        (-0.05, 0.02, True),
        (0.05, 0.06, False),
        (-0.05, 0.06, False),
        (0.012, 0.0, True),  # as little is worth a word
        (0.008, 0.0, False),  # as little is not, whatever the floor
    ],
)
def test_a_difference_is_more_than_the_floor_and_more_than_the_least(moved, floor, wanted):
    a, b = rounds(0.0), rounds(moved)
    assert mann_whitney(a, b) < two_samples.P
    assert said(a, b, floor) == [wanted]


def test_what_is_as_large_as_the_floor_counts():
    assert said(np.zeros((1, 8)), np.full((1, 8), 0.03), 0.03) == [True]


def test_a_difference_is_more_than_chance():
    """The medians are 5% apart, and every set holds values beyond the other's median."""
    a, b = rounds(0.0, spread=0.1), rounds(0.05, spread=0.1)
    assert mann_whitney(a, b) > two_samples.P
    assert said(a, b, 0.0) == [False]


def test_each_pair_has_its_own_floor():
    a, b = rounds(0.0, 0.0, 0.0), rounds(0.05, 0.05, 0.0)
    assert said(a, b, 0.02, 0.06, 0.02) == [True, False, False]


@pytest.mark.parametrize(("count", "spread"), [(4, 0.01), (6, 0.018)])
def test_with_few_rounds_welch_decides(count, spread):
    """The exact test cannot reach its threshold there."""
    a, b = rounds(0.0, spread=spread, count=count), rounds(0.03, spread=spread, count=count)
    assert mann_whitney(a, b) > two_samples.P
    assert two_samples.P < welch(a, b)[0] < two_samples.P_WELCH
    assert said(a, b, 0.0) == [True]


def test_with_few_rounds_chance_is_not_enough_either():
    a, b = rounds(0.0, spread=0.02, count=4), rounds(0.03, spread=0.02, count=4)
    assert two_samples.P_WELCH < welch(a, b)[0] < 0.1
    assert said(a, b, 0.0) == [False]


@pytest.mark.parametrize(("n", "m", "wanted"), [(7, 7, False), (6, 7, True), (7, 6, True)])
def test_the_smaller_set_decides_which_test(n, m, wanted):
    """One value of each lies beyond one of the other: too near for the exact test, far enough for Welch's."""
    a, b = rounds(0.0, spread=0.0026, count=n), rounds(0.014, spread=0.0026, count=m)
    a[0, -1], b[0, 0] = 0.012, 0.0115
    assert welch(a, b) < two_samples.P_WELCH
    assert mann_whitney(a, b) > two_samples.P
    assert said(a, b, 0.0) == [wanted]


def test_the_floor_by_hand():
    """Deviation .01; robust .01 * 1.4826, which is larger; t(2 degrees, .995) = 9.92484; sqrt(2)."""
    assert floor_of([0.0, 0.01, 0.02]) == pytest.approx(9.92484 * 0.01 * 1.482602 * math.sqrt(2), rel=1e-5)


def test_the_floor_of_one_wild_session_by_hand():
    """Median deviation 0; the usual one .05 / sqrt(5); t(4, .995) = 4.60409."""
    assert floor_of([0.0, 0.0, 0.0, 0.0, 0.05]) == pytest.approx(4.60409 * 0.05 / math.sqrt(5) * math.sqrt(2), rel=1e-5)


def test_constant_sessions_have_no_floor():
    assert floor_of([-3.0] * 5) == 0


@pytest.mark.parametrize("few", [[], [1.0], [1.0, 2.0]])
def test_a_floor_takes_three_sessions(few):
    with pytest.raises(ValueError, match=f"a floor of {len(few)} sessions; wanted 3 or more"):
        floor_of(few)


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=12), st.floats(-5, 5), st.floats(0.1, 10), st.randoms())
def test_the_floor_is_one_of_differences(values, shift, scale, rng):
    moved = [value * scale + shift for value in values]
    rng.shuffle(moved)
    assert floor_of(moved) == pytest.approx(scale * floor_of(values), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("sessions", [5, 23])
def test_two_sessions_of_identical_code_are_rarely_further_apart_than_the_floor(sessions):
    """In at most 1% of cases; not in far fewer with many sessions, else changes would hide below it."""
    rng = np.random.default_rng(sessions)
    beyond = [abs(values[0] - values[1]) > floor_of(values[2:]) for values in rng.normal(0, 0.01, (4000, sessions + 2))]
    assert (0.002 if sessions > 20 else 0) < np.mean(beyond) < 0.013


@pytest.mark.parametrize(("moved", "wanted"), [(0.0, False), (0.0005, False), (0.05, True)])
@pytest.mark.parametrize("count", [4, 8, 10, 64])
def test_asvs_test_is_asvs(moved, wanted, count):
    """Here by hand: what asv itself does with samples and their statistics."""
    a = np.linspace(1.0, 1.004, count).tolist()
    b = [value * (1 + moved) for value in a]
    both = [compute_stats(values, 1)[1] for values in (a, b)]
    assert two_samples.asv_differs(a, b) == _stats.is_different(a, b, *both) == wanted
    assert two_samples.asv_differs(b, a) == wanted


@given(untied(), st.sampled_from([0.8, 0.95, 0.99]))
def test_the_interval_of_a_shift_holds_just_what_the_test_cannot_tell_from_it(sets, confidence):
    a, b = (values + 0.3 * np.sin(values) for values in sets)  # so that no two differences are equal
    estimate, low, high = two_samples.shift(a, b, confidence)
    assert low <= estimate <= high
    differences = np.sort((b[:, None] - a[None, :]).ravel())
    between = np.concatenate([[differences[0] - 1], (differences[1:] + differences[:-1]) / 2, [differences[-1] + 1]])
    for moved in between[np.r_[True, np.diff(between) > 1e-9]]:
        (p,) = mann_whitney(a[None] + moved, b[None])
        assert (p > 1 - confidence) == (low < moved < high)


def test_the_estimate_of_a_shift_is_the_median_difference():
    a, b = np.array([0.0, 1.0, 2.0]), np.array([10.0, 11.0, 50.0])
    assert two_samples.shift(a, b, 0.95)[0] == 10.0
    assert two_samples.shift(a, b, 0.95)[1:] == (-math.inf, math.inf)  # three against three tell nothing at 95%
