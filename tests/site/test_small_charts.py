"""Small charts: where values lie in them."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.site.charts import small

NUMBERS = st.floats(-1e300, 1e300) | st.sampled_from([math.nan, math.inf, -math.inf])
VALUES = st.lists(st.none() | NUMBERS, max_size=12)


def line(values, level=None):
    return small.line(values, marked=[False] * len(values), level=level, label="a")


def test_the_highest_is_above_the_lowest_and_the_newest_at_the_right():
    found = line([1.0, 3.0, 2.0])
    heights = [float(y) for _, y, _ in found.dots]
    assert heights[1] < heights[2] < heights[0]  # of an SVG, y grows downwards
    assert [float(x) for x, _, _ in found.dots] == [5, 110, 215]


def test_a_missing_value_breaks_the_line():
    found = line([1.0, 2.0, None, 3.0, 4.0])
    assert [len(part.split()) for part in found.lines] == [2, 2]
    assert len(found.dots) == 4


def test_noise_is_no_mountain():
    heights = [float(y) for _, y, _ in line([100.0, 100.1]).dots]
    assert abs(heights[0] - heights[1]) < 0.05 * small.HEIGHT


def test_one_value_is_no_line():
    assert line([1.0]) is None
    assert line([math.nan, 1.0, math.inf]) is None
    assert line([]) is None


def test_equal_values_and_zeros_are_drawn():
    assert {y for _, y, _ in line([5.0, 5.0]).dots} == {"24.0"}
    assert {y for _, y, _ in line([0.0, 0.0]).dots} == {"24.0"}


@settings(max_examples=25, deadline=None)
@given(VALUES)
def test_everything_lies_within(values):
    found = line(values)
    known = [value for value in values if value is not None and math.isfinite(value)]
    if len(known) < 2:
        assert found is None
        return
    for x, y, _ in found.dots:
        assert 0 <= float(x) <= small.WIDTH
        assert 0 <= float(y) <= small.HEIGHT
