"""PELT against the definition, and against ruptures."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernel_velocity.stats.changepoints import pelt
from kernel_velocity.stats.changepoints.pelt import FEWEST_A_SIDE, Program
from tests.stepped_series import stepped

SERIES = st.lists(st.floats(-3, 3, width=16), min_size=FEWEST_A_SIDE, max_size=24)
BLOCKS = st.sampled_from([4, 7, 16, 96])


@pytest.fixture
def blocks_of(monkeypatch):
    return lambda size: monkeypatch.setattr(pelt, "BLOCK", size)


def cost(values, cuts, penalty):
    """Return what a segmentation costs, from the definition."""
    parts = np.split(np.asarray(values), cuts)
    assert min(part.size for part in parts) >= FEWEST_A_SIDE
    return sum(float(((part - part.mean()) ** 2).sum()) for part in parts) + penalty * len(cuts)


def cheapest(values, penalty):
    """Return the least cost of all segmentations, by optimal partitioning without any pruning."""
    best = {0: -penalty}
    for end in range(FEWEST_A_SIDE, len(values) + 1):
        ways = [
            best[start] + penalty + float(np.var(values[start:end])) * (end - start)
            for start in best
            if end - start >= FEWEST_A_SIDE
        ]
        best[end] = min(ways)
    return best[len(values)]


def cuts_of(values, penalty, **named):
    program = Program(penalty=penalty, **named)
    program.extend(np.asarray(values))
    return program.cuts()


def cuts_one_by_one(values, penalty):
    """Return the cheapest cuts by optimal partitioning of one point after the other, with the program's arithmetic."""
    costs, last, sums, squares = np.full(len(values) + 1, math.inf), [0], [0.0], [0.0]
    costs[0] = -penalty
    for size, value in enumerate(values, 1):
        sums.append(sums[-1] + value)
        squares.append(squares[-1] + value * value)
        last.append(0)
        if size >= FEWEST_A_SIDE:
            cuts = np.arange(size + 1 - FEWEST_A_SIDE)
            rest = sums[size] - np.array(sums)[cuts]
            of = costs[cuts] + (squares[size] - np.array(squares)[cuts]) - rest * rest / (size - cuts)
            last[size] = int(of.argmin())
            costs[size] = of[last[size]] + penalty
    found = [last[-1]]
    while found[-1]:
        found.append(last[found[-1]])
    return found[-2::-1]


@settings(max_examples=80, deadline=None)
@given(values=SERIES, penalty=st.floats(0.01, 20))
def test_its_cuts_are_the_cheapest_ones(values, penalty):
    cuts = cuts_of(values, penalty)
    assert cost(values, cuts, penalty) == pytest.approx(cheapest(values, penalty), abs=1e-7)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10_000),
    levels=st.lists(st.sampled_from([0.0, 0.01, 0.03, -0.2]), min_size=1, max_size=5),
    size=st.integers(1, 50),
    tick=st.sampled_from([0.0, 0.004, 1 / 64]),
    block=BLOCKS,
)
def test_blocks_are_one_point_after_the_other(blocks_of, *, seed, levels, size, tick, block):
    values = stepped(*levels, size=size, sigma=0.004, seed=seed)
    values = np.round(values / tick) * tick if tick else values
    blocks_of(block)
    for penalty in (2e-5, 2e-4, 5e-3):
        assert cuts_of(values, penalty) == cuts_one_by_one(values, penalty)


def test_most_cuts_are_held_against_no_point(monkeypatch):
    held = []
    original = pelt._rivals
    monkeypatch.setattr(pelt, "_rivals", lambda *a: held.append(original(*a)) or held[-1])
    assert cuts_of(stepped(0.0, 0.0, 0.1, 0.1, size=192, sigma=0.004), 2 * 0.004**2 * math.log(768)) == [384]
    assert sum(each.size for each in held) < 500  # of 3000: the step is where a block begins, for which all are


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=SERIES, more=SERIES, forgotten=st.integers(0, 24), penalty=st.floats(0.01, 20), block=BLOCKS)
def test_what_was_rewound_is_forgotten(blocks_of, *, values, more, forgotten, penalty, block):
    blocks_of(block)
    program, forgotten = Program(penalty=penalty), min(forgotten, block, len(values))
    program.extend(np.asarray(values))
    program.rewind(forgotten)
    left = values[: len(values) - forgotten]
    assert (program.size, program.cuts()) == (len(left), cuts_of(left, penalty))
    program.extend(np.asarray(more))
    assert program.cuts() == cuts_of([*left, *more], penalty)


def test_it_prunes():
    program = Program(penalty=0.002)
    program.extend(stepped(0.0, 0.5, 0.0, 0.5, size=100))
    assert program._opened.used < 200


@pytest.mark.parametrize("size", [4, 32, 300])
def test_how_often_it_prunes_changes_nothing(blocks_of, size):
    values = stepped(0.0, 0.02, 0.0, -0.03, size=60, seed=3)
    expected = cuts_of(values, 0.0008)
    blocks_of(size)
    assert cuts_of(values, 0.0008) == expected
    assert len(expected) >= 3


@pytest.mark.parametrize("seed", range(4))
def test_ruptures_agrees(seed):
    ruptures = pytest.importorskip("ruptures", reason="the reference is not installed (extra `test`)")
    values = stepped(0.0, 0.03, 0.01, -0.02, size=30, seed=seed)
    penalty = 2 * 0.01**2 * math.log(values.size)
    theirs = ruptures.Pelt(model="l2", min_size=FEWEST_A_SIDE, jump=1).fit(values).predict(pen=penalty)[:-1]
    ours = cuts_of(values, penalty, centre=float(values[0]))
    assert cost(values, ours, penalty) <= cost(values, theirs, penalty) + 1e-12
    assert ours == theirs


def test_a_centre_far_away_changes_nothing():
    values = stepped(0.0, 0.05)
    assert cuts_of(values + 20, 0.001, centre=20.0) == cuts_of(values, 0.001) == [40]
