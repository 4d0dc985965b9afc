"""A change beyond layout: planted ones are found, layouts alone are not, whatever their shape."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.stats import layout
from kernel_velocity.stats.sequential import Answer

ROUNDS, NOISE = 8, 0.004
SHAPES = {
    "normal": lambda random, shape: random.normal(0, 0.03, shape),
    "two": lambda random, shape: 0.3 * random.integers(0, 2, shape),  # a loop crosses a line, or not
    "seldom": lambda random, shape: 0.3 * (random.random(shape) < 0.2),
    "heavy": lambda random, shape: 0.02 * random.standard_t(2, shape),
}


def sessions(random, count, change=0.0, shape="normal", scatter=None):
    """Draw log seconds of both sides under some link orders, each with a layout of its own."""
    shift = SHAPES[shape](random, (count, 2, 1)) if scatter is None else random.normal(0, scatter, (count, 2, 1))
    means = shift + np.array([[0.0], [change]])
    values = math.log(1e-3) + means + random.normal(0, NOISE, (count, 2, ROUNDS))
    return [(before, after) for before, after in values]


@pytest.mark.parametrize("count", [layout.LEAST, 8])
@pytest.mark.parametrize("shape", SHAPES)
def test_layout_alone_is_different_at_most_as_often_as_p_says(count, shape):
    random = np.random.default_rng(count)
    answers = [layout.beyond(sessions(random, count, shape=shape)).answer for _ in range(2000)]
    assert answers.count(Answer.DIFFERENT) <= layout.P * 2000 + 3 * math.sqrt(layout.P * 2000)


@pytest.mark.parametrize(("scatter", "count", "least"), [(0.005, 4, 0.98), (0.01, 4, 0.65), (0.01, 8, 0.98)])
def test_five_per_cent_beyond_layout_are_found(scatter, count, least):
    random = np.random.default_rng(1)
    drawn = [sessions(random, count, math.log(1.05), scatter=scatter) for _ in range(400)]
    comparisons = [layout.beyond(orders) for orders in drawn]
    assert sum(comparison.slower for comparison in comparisons) >= least * 400
    assert sum(comparison.low < 1.05 < comparison.high for comparison in comparisons) >= 0.92 * 400
    squares = [math.log1p(named_layout(comparison) / 100) ** 2 for comparison in comparisons]
    assert math.sqrt(np.mean(squares)) == pytest.approx(scatter * math.sqrt(2), rel=0.1)


def named_layout(comparison):
    """Return by how much layout alone moves a change, in %, as its reason says."""
    return float(re.search(r"alone move it by (.+)%", comparison.reason)[1])


def test_layout_that_moves_nothing_is_not_the_noise_of_rounds():
    random = np.random.default_rng(3)
    comparison = layout.beyond(sessions(random, 400, scatter=0.0))
    assert comparison.answer is Answer.SAME and named_layout(comparison) < 0.1 < 100 * NOISE / 2
    assert "over 400 link orders" in comparison.reason and comparison.rounds == 3200


def test_change_explained_by_layout():
    random = np.random.default_rng(4)
    quiet = random.normal(0, NOISE, (4, 2, ROUNDS))
    orders = [(before, after + change) for (before, after), change in zip(quiet, (0.05, -0.04, 0.06, 0.0), strict=True)]
    comparison = layout.beyond(orders)
    assert comparison.answer is Answer.UNKNOWN and not comparison.suspect
    assert comparison.reason.startswith(
        "no change beyond layout is shown: 1% or more, but p is not below 0.01; over 4 link orders"
    )


LOGS = st.lists(st.floats(-0.5, 0.5), min_size=16 * 4, max_size=16 * 4)


@given(LOGS, st.floats(-3, 3))
def test_swapped_sides_invert_the_change(values, shift):
    orders = [(row[:8], row[8:]) for row in np.round(values, 3).reshape(4, 16)]
    there, back = layout.beyond(orders), layout.beyond([(after, before) for before, after in orders])
    assert math.log(there.ratio) == pytest.approx(-math.log(back.ratio), abs=1e-9)
    assert (there.answer, there.p) == (back.answer, pytest.approx(back.p))
    moved = layout.beyond([(before + shift, after + shift) for before, after in orders])
    assert moved.ratio == pytest.approx(there.ratio) and moved.rounds == there.rounds == 32
