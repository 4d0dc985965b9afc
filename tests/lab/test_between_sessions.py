"""Pairs of sessions: hand-made values in, rates, bounds and power out."""

import itertools
import math

import numpy as np
import pytest

from kernel_velocity.lab.false_alarms import Layout, by_asv, by_intervals, by_ours, power, rate
from kernel_velocity.results.measurement import round_interval

APART = 0.05


def values(*centres, spread=0.001, rounds=8, samples=1, seed=1):
    """Return (sessions, rounds, samples) log seconds about these centres."""
    noise = np.random.default_rng(seed).normal(0, spread, (len(centres), rounds, samples))
    return np.log(1e-3) + np.array(centres)[:, None, None] + noise


def matrix(number, *pairs):
    """Return what a test said of so many sessions when it called these pairs different."""
    found = np.zeros((number, number))
    for i, j in pairs:
        found[i, j] = found[j, i] = 1
    return found


JUDGES = pytest.mark.parametrize("judge", [by_asv, by_intervals, by_ours])


@JUDGES
def test_a_session_that_is_apart_differs_from_all_others_and_they_do_not(judge):
    found = judge(values(0.0, 0.0, APART, 0.0, 0.0, 0.0), 0.0)
    assert found.tolist() == matrix(6, *((2, other) for other in (0, 1, 3, 4, 5))).tolist()


@JUDGES
def test_a_test_of_identical_code_is_symmetric_and_spares_the_session_itself(judge):
    found = judge(values(*np.random.default_rng(2).normal(0, 0.01, 8)), 0.0)
    assert (found == found.T).all()
    assert not found.diagonal().any()
    assert set(np.unique(found)) <= {0, 1}


@JUDGES
@pytest.mark.parametrize("change", [0.05, -0.05])
def test_the_change_is_planted_into_the_second_of_a_pair(judge, change):
    """Session 0 has it already: slowed by it, the others are equal to it, and itself differs twice as much."""
    found = judge(values(math.log1p(change), 0.0, 0.0, 0.0, 0.0, 0.0), change)
    assert found[1:, 0].all()
    assert not found[0, 1:].any()
    assert not found.diagonal().any()


@JUDGES
def test_a_planted_change_is_found_and_identical_code_is_not(judge):
    same = values(*[0.0] * 10, spread=0.0005)
    assert power([judge(same, 0.05)]) == [1.0]
    assert rate([judge(same, 0.0)]).different == 0


def test_asvs_samples_of_a_session_are_one_set():
    """2 rounds of 5 samples: by the rounds alone nothing could be said."""
    found = by_asv(values(0.0, APART, rounds=2, samples=5), 0.0)
    assert found.tolist() == [[0, 1], [1, 0]]


def test_the_floor_of_a_pair_is_that_of_the_other_sessions():
    """With the wild session among them, six sessions have a floor of 7%, and it would hide itself."""
    found = by_ours(values(0.0, 0.0, 0.0, 0.0, 0.0, APART, spread=0.0005), 0.0)
    assert found[5, :5].all()
    assert found[:5, 5].all()


def test_what_sessions_differ_by_anyway_is_no_difference():
    """asv's test sees only the rounds."""
    scattered = values(*np.random.default_rng(3).normal(0, 0.03, 12))
    assert rate([by_asv(scattered, 0.0)]).share > 0.5
    assert rate([by_ours(scattered, 0.0)]).share < 0.05


def test_the_share_by_hand():
    found = rate([matrix(4, (0, 1), (0, 2))])
    assert (found.different, found.pairs) == (2, 6)
    assert found.share == pytest.approx(1 / 3)


def test_the_share_over_two_series_by_hand():
    found = rate([matrix(4, (0, 1), (0, 2)), matrix(4, (2, 3))])
    assert (found.different, found.pairs) == (3, 12)
    assert found.share == 0.25


@pytest.mark.parametrize("pairs", [[(0, 1)], [(0, 1), (0, 2)], [(0, 1), (2, 3)], [(0, 1), (1, 2), (0, 2)]])
def test_the_bound_by_all_resamples(pairs):
    """With 4 sessions there are 256."""
    said = matrix(4, *pairs)
    shares = []
    for drawn in itertools.product(range(4), repeat=4):
        compared = [(i, j) for i, j in itertools.permutations(drawn, 2) if i != j]
        if compared:
            shares.append(sum(said[pair] for pair in compared) / len(compared))
    bound = rate([said]).bound
    assert np.mean(np.array(shares) <= bound + 1e-9) >= 0.94
    assert np.mean(np.array(shares) < bound - 1e-9) <= 0.96


def test_the_bound_is_no_less_than_the_share():
    rng = np.random.default_rng(5)
    for _ in range(20):
        number = int(rng.integers(5, 26))
        every = list(itertools.combinations(range(number), 2))
        pairs = rng.choice(len(every), int(rng.integers(1, len(every))), replace=False)
        found = rate([matrix(number, *(every[pair] for pair in pairs))])
        assert found.bound >= found.share > 0


def test_where_nothing_differed_there_is_nothing_to_resample():
    found = rate([matrix(25)] * 6)
    assert (found.different, found.pairs, found.share, found.bound) == (0, 1800, 0, 0)


def test_where_all_differed_so_do_resamples():
    found = rate([matrix(5, *itertools.combinations(range(5), 2))])
    assert (found.share, found.bound) == (1, 1)


def test_one_odd_session_gives_a_wider_bound_than_as_many_scattered_pairs():
    odd = rate([matrix(10, *((0, other) for other in range(1, 10)))])
    every = [(i, (i + 1) % 10) for i in range(9)]
    scattered = rate([matrix(10, *every)])
    assert odd.share == scattered.share == 0.2
    assert odd.bound > scattered.bound + 0.08


def test_all_series_are_resampled_by_the_same_sessions():
    """A second series that says the same adds nothing to know."""
    once = matrix(10, *((0, other) for other in range(1, 10)))
    assert rate([once] * 6).bound == pytest.approx(rate([once]).bound)


def test_the_same_seed_gives_the_same_bound():
    said = [matrix(9, (0, 1), (0, 2), (5, 6))]
    assert rate(said) == rate(said)
    assert rate(said, seed=4).different == 3


def test_power_is_the_mean_over_ordered_pairs():
    """A change is another one seen from the other side."""
    first, second = np.zeros((3, 3)), np.ones((3, 3)) - np.eye(3)
    first[0, 1] = first[0, 2] = first[2, 0] = 1
    assert power([first, second]) == [0.5, 1.0]


def test_a_layout_says_how_many_rounds_and_samples():
    assert str(Layout(rounds=4, samples=16)) == "4 x 16"


@JUDGES
def test_a_change_found_for_the_other_side_is_none(judge):
    """Session 0 is so much faster that, slowed by 1%, it still reads as the faster one."""
    found = judge(values(-0.2, 0.0, 0.0, 0.0, 0.0, 0.0, spread=0.0005), 0.01)
    assert judge(values(-0.2, 0.0, 0.0, 0.0, 0.0, 0.0, spread=0.0005), 0.0)[1:, 0].all()
    assert not found[1:, 0].any()
    assert found[0, 1:].all()


def test_of_what_never_happened_disjoint_pairs_tell():
    found = rate([np.zeros((7, 7)), np.zeros((7, 7))])
    assert (found.different, found.bound) == (0, 0)
    assert (1 - found.unseen) ** 6 == pytest.approx(0.05)  # six pairs without an alarm happen in 5% of cases


def test_intervals_are_the_pages():
    """What lies apart by the intervals that a page shows differs, and nothing else."""
    sample = values(0.0, 0.002, 0.004, 0.0015, 0.0, spread=0.001, seed=3)
    shown = [round_interval(np.exp(row[:, 0]).tolist()) for row in sample]
    wanted = [[one.high < other.low or other.high < one.low for other in shown] for one in shown]
    assert by_intervals(sample, 0.0).astype(bool).tolist() == wanted
    assert 0 < sum(map(sum, wanted)) < 20
