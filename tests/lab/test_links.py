"""Simulated sessions: a link takes out what the sessions differ by, and raises no more false alarms than within one."""

from pathlib import Path

import pytest

from kernel_velocity.ab.false_alarms import read
from kernel_velocity.errors import ResultsError
from lab import links
from tests.ab.identical_sessions import sessions

RECORDED = Path(__file__).parents[2] / "results" / "sessions" / "2-shared-cores"


def test_links_take_out_what_sessions_differ_by():
    within, unlinked, by_one, _, by_four = links.rows(sessions(8, common=0.05, count=20))
    assert unlinked.false_alarms > 0.5
    assert by_one.rms < unlinked.rms / 2 and by_four.rms < by_one.rms
    assert max(within.false_alarms, by_one.false_alarms, by_four.false_alarms) < 0.05
    assert "between two, 4 anchors" in links.table([within, by_four])


def test_too_few_rounds_are_refused():
    with pytest.raises(ResultsError, match="two with 10 rounds"):
        links.rows(sessions(2, count=9))


def test_detector_sees_fewer_false_steps_between_linked_sessions(monkeypatch):
    monkeypatch.setattr(links, "HISTORIES", 10)
    single, unlinked, linked, doubted = links.detections(read(RECORDED))
    assert single.false == 0 and doubted.false < linked.false / 4 and linked.false < unlinked.false / 2
    assert min(single.detected, doubted.detected) > 0.9 * single.planted
    assert "5% found" in links.detection_table([single])
