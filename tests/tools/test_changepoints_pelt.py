"""PELT against the definition, and against ruptures."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.planted import stepped
from tools import changepoints_pelt
from tools.changepoints_pelt import FEWEST_A_SIDE, Program, grown

SERIES = st.lists(st.floats(-3, 3, width=16), min_size=FEWEST_A_SIDE, max_size=24)


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
    for value in values:
        program.step(value)
    return program.cuts()


@settings(max_examples=80, deadline=None)
@given(values=SERIES, penalty=st.floats(0.01, 20))
def test_its_cuts_are_the_cheapest_ones(values, penalty):
    cuts = cuts_of(values, penalty)
    assert cost(values, cuts, penalty) == pytest.approx(cheapest(values, penalty), abs=1e-7)


@settings(max_examples=20, deadline=None)
@given(values=SERIES, more=SERIES, penalty=st.floats(0.01, 20))
def test_what_was_rewound_is_forgotten(values, more, penalty):
    program = Program(penalty=penalty)
    for value in values:
        program.step(value)
    before, mark = program.cuts(), program.mark()
    for value in more:
        program.step(value)
    program.rewind(mark)
    assert program.cuts() == before
    for value in more:
        program.step(value)
    assert program.cuts() == cuts_of([*values, *more], penalty)


def test_it_prunes():
    program = Program(penalty=0.002)
    for value in stepped(0.0, 0.5, 0.0, 0.5, size=50):
        program.step(value)
    assert program.mark().used < 120


@pytest.mark.parametrize("every", [4, 32, 10**6])
def test_how_often_it_prunes_changes_nothing(monkeypatch, every):
    values = stepped(0.0, 0.02, 0.0, -0.03, size=60, seed=3)
    expected = cuts_of(values, 0.0008)
    monkeypatch.setattr(changepoints_pelt, "PRUNED", every)
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


@pytest.mark.parametrize(("size", "expected"), [(6, 6), (16, 16), (17, 16), (18, 18), (19, 18), (63, 57), (900, 826)])
def test_the_noise_is_estimated_anew_when_there_is_an_eighth_more(size, expected):
    assert grown(size) == expected


def test_a_centre_far_away_changes_nothing():
    values = stepped(0.0, 0.05)
    assert cuts_of(values + 20, 0.001, centre=20.0) == cuts_of(values, 0.001) == [40]
