"""The F-measure on cases worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.lab.detector_jobs import f_measure, matched

POINTS = st.sets(st.integers(0, 200), max_size=8)


@pytest.mark.parametrize(
    ("annotations", "found", "expected"),
    [
        ([{100}], [100], 1.0),
        ([set()], [], 1.0),  # nothing happened, nothing reported
        ([set()], [50], 2 / 3),  # precision 1/2, recall 1
        ([{100}], [], 2 / 3),  # precision 1, recall 1/2
        ([{100}], [105], 1.0),  # within the margin
        ([{100}], [106], 0.5),  # beyond it: precision 1/2, recall 1/2
        ([{100}, set()], [], 2 * 0.75 / 1.75),  # recall (1/2 + 1)/2
        ([{100}, set()], [100], 1.0),  # precise for the union; recall 1 for both
        ([{100, 103}], [101], 2 * 1 * (2 / 3) / (5 / 3)),  # one report serves one annotation
        ([{100}], [98, 103], 2 * (2 / 3) * 1 / (5 / 3)),  # and one annotation takes one report
        ([{3}], [], 2 / 3),  # the first point everybody finds is not within reach for a second
        ([{100, 200}, {100}], [100, 150], 2 * (2 / 3) * (5 / 6) / (2 / 3 + 5 / 6)),
    ],
)
def test_by_hand(annotations, found, expected):
    assert f_measure(annotations, found) == pytest.approx(expected)


def test_the_nearest_report_is_taken():
    assert matched({10, 14}, {9, 13}, margin=5) == 2
    assert matched({10, 12}, {11, 17}, margin=5) == 2


def test_another_margin():
    assert f_measure([{100}], [108], margin=8) == 1.0


@given(annotations=st.lists(POINTS, min_size=1, max_size=3), found=POINTS)
def test_it_is_a_share_and_perfect_for_who_agrees(annotations, found):
    assert 0 < f_measure(annotations, found) <= 1
    assert f_measure([found], found) == 1.0
