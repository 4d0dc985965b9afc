"""Which ceiling moved, against what, and how a roof is made."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.roofline import ceilings, roofs
from kernel_velocity.roofline.roofs import CeilingSession

NAME = "peak_float32"


def sessions(*values, name=NAME):
    return [CeilingSession(began=float(n), figures={name: value}, reported={}) for n, value in enumerate(values)]


def test_a_session_is_held_against_the_median_of_those_before():
    assert ceilings.ratios(sessions(100.0, 90.0, 102.0, 47.5), NAME) == [None, 0.9, 102 / 95, 0.475]


def test_sessions_that_could_not_measure_it_count_neither_here_nor_there():
    assert ceilings.ratios(sessions(None, 100.0, None, 120.0), NAME) == [None, None, None, 1.2]
    assert ceilings.ratios(sessions(0.0, 1.0), NAME) == [None, None]
    assert ceilings.ratios([], NAME) == []


def test_only_the_last_sessions_say_what_is_usual():
    values = [1000.0] * 5 + [100.0] * roofs.SESSIONS + [100.0]
    assert ceilings.ratios(sessions(*values), NAME)[-1] == 1


@pytest.mark.parametrize(
    ("ratio", "moved"), [(None, False), (1.0, False), (1.05, False), (1.051, True), (1 / 1.05, False), (0.952, True)]
)
def test_over_five_percent_either_way_has_moved(ratio, moved):
    assert ceilings.has_moved(ratio) is moved


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(1e-9, 1e15), min_size=2, max_size=15), st.floats(1e-3, 1e3))
def test_a_unit_changes_no_ratio(values, scale):
    one = ceilings.ratios(sessions(*values), NAME)
    other = ceilings.ratios(sessions(*(value * scale for value in values)), NAME)
    assert other[1:] == pytest.approx(one[1:])


def test_how_a_roof_is_made_is_said():
    assert ceilings.why(NAME, 0) == ""
    assert ceilings.why(NAME, 1) == "the only session"
    assert ceilings.why(NAME, 3) == "upper quartile of 3 sessions"
    assert ceilings.why("timer_tick", 3) == "lower quartile of 3 sessions"
    assert ceilings.why("l2_size", roofs.SESSIONS) == f"median of the last {roofs.SESSIONS} sessions"


def test_what_is_shown_are_ceilings_and_not_what_they_were_measured_with():
    for device in ("cpu", "cuda"):
        assert not {"threads", "device_id"} & set(ceilings.names(device))
        assert NAME in ceilings.names(device)


def test_the_sessions_of_the_newest_device_and_number_of_threads():
    def session(**figures):
        return CeilingSession(began=0.0, figures=figures, reported={})

    mine, old, other = session(device_id=1.0, threads=1.0), session(threads=1.0), session(device_id=2.0, threads=1.0)
    more = session(device_id=1.0, threads=2.0)
    assert roofs.of_newest([old, other, more, mine]) == (old, mine)
    assert roofs.of_newest([mine, other]) == (other,)
    assert roofs.of_newest([mine, old]) == (mine, old)
    assert roofs.of_newest([]) == ()
