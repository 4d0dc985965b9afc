"""PELT against the definition, and against ruptures."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernel_velocity.stats.changepoints import pelt
from kernel_velocity.stats.changepoints.pelt import FEWEST_A_SIDE
from tests.stepped_series import stepped

SERIES = st.lists(st.floats(-3, 3, width=16), min_size=FEWEST_A_SIDE, max_size=24)


def cuts_of(values, price):
    return pelt.cheapest(np.asarray(values), price)[0]


def cost(values, cuts, price):
    """Return the cost of a segmentation, from the definition."""
    parts = np.split(np.asarray(values), cuts)
    assert min(part.size for part in parts) >= FEWEST_A_SIDE
    return sum(float(((part - part.mean()) ** 2).sum()) for part in parts) + price * len(cuts)


def least_cost(values, price):
    """Return the least cost of all segmentations, by optimal partitioning without any pruning."""
    best = {0: -price}
    for end in range(FEWEST_A_SIDE, len(values) + 1):
        best[end] = min(
            best[start] + price + float(np.var(values[start:end])) * (end - start)
            for start in best
            if end - start >= FEWEST_A_SIDE
        )
    return best[len(values)]


def cuts_one_by_one(values, price):
    """Return the cheapest cuts, one point after the other, in the arithmetic of `cheapest`."""
    costs, last, sums, squares = np.full(len(values) + 1, math.inf), [0], [0.0], [0.0]
    costs[0] = -price
    for size, value in enumerate(values, 1):
        sums.append(sums[-1] + value)
        squares.append(squares[-1] + value * value)
        last.append(0)
        if size >= FEWEST_A_SIDE:
            cuts = np.arange(size + 1 - FEWEST_A_SIDE)
            rest = sums[size] - np.array(sums)[cuts]
            of = costs[cuts] + (squares[size] - np.array(squares)[cuts]) - rest * rest / (size - cuts)
            last[size] = int(of.argmin())
            costs[size] = of[last[size]] + price
    found = [last[-1]]
    while found[-1]:
        found.append(last[found[-1]])
    return found[-2::-1]


@settings(max_examples=80)
@given(values=SERIES, price=st.floats(0.01, 20))
def test_cuts_are_the_cheapest(values, price):
    assert cost(values, cuts_of(values, price), price) == pytest.approx(least_cost(values, price), abs=1e-7)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10_000),
    levels=st.lists(st.sampled_from([0.0, 0.01, 0.03, -0.2]), min_size=1, max_size=5),
    size=st.integers(1, 50),
    tick=st.sampled_from([0.0, 0.004, 1 / 64]),
    block=st.sampled_from([4, 7, 16, 96]),
)
def test_blocks_give_the_same_as_one_point_after_the_other(monkeypatch, *, seed, levels, size, tick, block):
    values = stepped(*levels, size=size, sigma=0.004, seed=seed)
    values = np.round(values / tick) * tick if tick else values
    monkeypatch.setattr(pelt, "BLOCK", block)
    for price in (2e-5, 2e-4, 5e-3):
        assert cuts_of(values, price) == cuts_one_by_one(values, price)


def test_most_older_cuts_are_compared_with_no_point(monkeypatch):
    compared = []
    original = pelt._may_be_last
    monkeypatch.setattr(pelt, "_may_be_last", lambda *a: compared.append(original(*a)) or compared[-1])
    assert cuts_of(stepped(0.0, 0.0, 0.1, 0.1, size=192, sigma=0.004), 2 * 0.004**2 * math.log(768)) == [384]
    assert sum(int(each.sum()) for each in compared) < 500  # of 3000: the step is where a block begins


@pytest.mark.parametrize("seed", range(4))
def test_ruptures_agrees(seed):
    ruptures = pytest.importorskip("ruptures", reason="the reference is not installed (extra `test`)")
    values = stepped(0.0, 0.03, 0.01, -0.02, size=30, seed=seed)
    price = 2 * 0.01**2 * math.log(values.size)
    theirs = ruptures.Pelt(model="l2", min_size=FEWEST_A_SIDE, jump=1).fit(values).predict(pen=price)[:-1]
    ours = cuts_of(values - values[0], price)
    assert cost(values, ours, price) <= cost(values, theirs, price) + 1e-12
    assert ours == theirs


@pytest.mark.parametrize("scale", [0.5, 2.0, 5.0])
def test_scale_makes_no_difference(scale):
    values = stepped(0.0, 0.04, 0.015, sigma=0.01, seed=2)
    points, scaled = pelt.detect(values), pelt.detect(values * scale)
    assert [point.index for point in scaled] == [point.index for point in points] and len(points) == 2
    assert [point.p for point in scaled] == pytest.approx([point.p for point in points])
