"""Simulated sessions: a link takes out what the sessions differ by, and raises no more false alarms than within one."""

from pathlib import Path

import pytest

from kernel_velocity.ab.false_alarms import read
from kernel_velocity.errors import ResultsError
from lab import links
from tests.ab.identical_sessions import sessions

RECORDED = Path(__file__).parents[2] / "results" / "sessions" / "2-shared-cores"


def test_too_few_rounds_are_refused():
    with pytest.raises(ResultsError, match="two with 10 rounds"):
        links.rows(sessions(2, count=9))


def test_detector_sees_fewer_false_steps_between_linked_sessions(monkeypatch):
    monkeypatch.setattr(links, "HISTORIES", 10)
    single, unlinked, linked, doubted = links.detections(read(RECORDED))
    assert single.false == 0 and doubted.false < linked.false / 4 and linked.false < unlinked.false / 2
    assert min(single.detected, doubted.detected) > 0.9 * single.planted
    assert "5% found" in links.detection_table([single])
