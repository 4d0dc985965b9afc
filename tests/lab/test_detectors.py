"""Comparing detectors: histories and files of series, what is counted, and what is printed."""

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from lab import detectors, platforms, scoring, true_night
from lab.__main__ import main
from lab.contenders import CONTENDERS, OURS, SILENCE, Contender, DetectedChange
from lab.detectors import ScoringPlan
from lab.histories import UNSTEADY
from lab.scoring import BEFORE, SHORT, Delay, count_alarms, delay
from tests.commands import kv
from tests.stepped_series import stepped

GOLDEN = Path(__file__).with_name("golden")


def quiet(rng, size):
    return 0.01 * rng.standard_normal(size)


def scripted(script, stride=1):
    """Return a contender with planned reports, by the number of commits it has seen."""
    return Contender(lambda logs: [DetectedChange(index, rises) for index, rises in script.get(len(logs), [])], stride)


def always(*reports, since=1, until=1000):
    return {size: list(reports) for size in range(since, until)}


@pytest.mark.parametrize(
    ("script", "stride", "alarms"),
    [
        ({}, 1, 0),
        (always((20, True), since=25), 1, 1),
        ({30: [(20, True)], 31: [(24, True)], 32: [(28, True)]}, 1, 1),  # one report that moves
        ({30: [(20, True)], 40: [(26, True)]}, 1, 2),
        ({30: [(20, True), (40, False)]}, 1, 2),
        ({30: [(20, True)], 50: [(20, True)]}, 1, 1),  # forgotten in between, and known again
        ({30: [(20, True)]}, 4, 0),
        ({32: [(20, True)]}, 4, 1),
    ],
)
def test_alarm_is_counted_once(script, stride, alarms):
    assert count_alarms(scripted(script, stride), np.zeros(60)) == alarms


NEVER = math.inf


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ({}, Delay(NEVER, None)),
        (always((BEFORE, True), since=BEFORE + 3), Delay(2, 0)),
        (always((BEFORE + 5, True), since=BEFORE + 3), Delay(2, 5)),
        (always((BEFORE + 6, True), since=BEFORE + 3), Delay(NEVER, None)),  # another place
        (always((BEFORE, False), since=BEFORE + 3), Delay(NEVER, None)),  # another direction
        (always((BEFORE, True), since=BEFORE + 3, until=BEFORE + 8), Delay(2, None)),  # withdrawn
    ],
)
@pytest.mark.parametrize("stride", [1, 4])
def test_step_is_reported_after_a_delay_and_with_an_error(script, expected, stride):
    assert delay(scripted(script, stride), np.zeros(100)) == expected


def test_short_levels_are_as_their_names_say(monkeypatch):
    ends = [SHORT["+10% for 8 commits"](number) for number in range(scoring.POSITIONS)]
    indices = {tuple(np.flatnonzero(np.diff(levels)) + 1) for levels in ends}
    assert indices == {(BEFORE + number, BEFORE + number + 8) for number in range(scoring.POSITIONS)}
    assert SHORT["twofold, 8 + 8"](0).tolist() == [0.0] * 8 + [math.log(2)] * 8
    assert SHORT["tenfold, 11 + 300"](0).size == 311
    stairs = SHORT["faster every 6"](1)
    assert stairs.size == 36 and ((np.diff(stairs) != 0).nonzero()[0] + 1).tolist() == [6, 12, 18, 24, 30]
    assert ((stairs[6::6] - stairs[:-6:6] > -0.3) & (stairs[6::6] - stairs[:-6:6] < -0.05)).all()
    monkeypatch.setitem(CONTENDERS, "half", Contender(lambda logs: [DetectedChange(BEFORE, True)], 1))
    assert scoring.short_levels("half", "+10% for 8 commits", 0, 4) == [0.5, 0.5, 0.5, 0.0]


@pytest.mark.parametrize("name", CONTENDERS)
def test_every_contender_finds_a_plain_step_among_missing_values(name):
    logs = stepped(0.0, 0.1).tolist()
    logs[0] = logs[10] = logs[50] = None
    reports = CONTENDERS[name].detect(logs)
    assert any(abs(report.index - 40) <= 1 and report.rises for report in reports) is (name != SILENCE)
    down = CONTENDERS[name].detect([None if value is None else -value for value in logs])
    assert not any(report.rises for report in down if abs(report.index - 40) <= 1)
    assert CONTENDERS[name].detect([None, None]) == []


POINTS = st.sets(st.integers(0, 200), max_size=8)


@pytest.fixture
def data(tmp_path):
    """Write a file of annotated series and one of plain ones."""
    annotated = {
        f"id_{number}_split1": {"values": np.exp(stepped(0.0, 0.1, seed=number)).tolist(), "annotations": {"a": [40]}}
        for number in (3, 1, 2)
    }
    plain = {"x": np.exp(stepped(0.0, seed=9)).tolist()}
    people, machine = tmp_path / "people.json", tmp_path / "machine.json.gz"
    people.write_text(json.dumps(annotated))
    machine.write_bytes(gzip.compress(json.dumps(plain).encode()))
    return people, machine


def run(monkeypatch, *argv, processes=1):
    monkeypatch.setattr(
        detectors, "ScoringPlan", lambda: ScoringPlan(series=1, planted=1, short=25, worlds=1, platforms=1)
    )
    monkeypatch.setattr(detectors, "QUIET", 1)
    monkeypatch.setattr(platforms, "SHAPES", dict(list(platforms.SHAPES.items())[:2]))
    monkeypatch.setattr(detectors, "COMMITS", 30)
    monkeypatch.setattr(detectors, "ACTIVE", detectors.ACTIVE[:2])
    monkeypatch.setattr(detectors, "UNSTEADY", dict(list(detectors.UNSTEADY.items())[:1]))
    monkeypatch.setattr(platforms, "FAMILIES", dict(list(platforms.FAMILIES.items())[:1]))
    monkeypatch.setattr(platforms, "WANDERING", 20)
    monkeypatch.setattr(true_night, "SCENARIOS", true_night.SCENARIOS[:1])
    monkeypatch.setattr(true_night, "NOISES", true_night.NOISES[:1])
    monkeypatch.setattr(scoring.os, "cpu_count", lambda: processes)
    return kv("detectors", *argv, main=main)


def test_command_prints_its_page(monkeypatch, data):
    monkeypatch.setattr(detectors, "STEPS", (0.10,))
    monkeypatch.setattr(detectors, "SEARCHED", ())
    status, out, err = run(monkeypatch, *data, processes=2)
    assert (status, err) == (0, "")
    assert out.startswith("# Detectors of change points\n\n")
    assert "\nPrinted by `python -m lab detectors people.json machine.json.gz`\non 20" in out
    for title in (
        "False alarms, steady noise",
        "Power, real: machine",
        "Short levels",
        "Pages: planted changes",
        "Annotated: people",
    ):
        assert f"\n## {title}\n" in out
    assert "\n## Pages: false changes\n" in out and "\n## Pages: unsteady noise\n" in out
    assert "3 series, and the F1 of either half of their ids (2 and 1)" in out
    annotated = out[out.index("## Annotated: people") :].splitlines()
    assert [line.split()[-5:] for line in annotated if line.startswith(OURS)] == [["1.000"] * 5]
    silent = ["0.667", "1.000", "0.500", "0.667", "0.667"]
    assert [line.split()[-5:] for line in annotated if line.startswith(SILENCE)] == [silent]
    assert "Among people" not in out and "## Annotated: machine" not in out
    assert "2%, noise 0.3%, changed code" in out


def test_pages_name_an_old_change_alone_and_deny_none():
    score = platforms.named("+3% 10 commits after the machine's +3%", seed=0, platforms=1)
    assert (score.quiet, score.true) == (1.0, 1.0) and score.named >= 0.75
    assert platforms.false_pages("normal", seed=0, platforms=2, size=20) == 0.0


def test_pages_show_visits_of_a_machine_as_unsteady():
    score = platforms.wandering(UNSTEADY["visits"], seed=0, platforms=1)
    assert score.changes <= score.ever <= 2.0 and score.unsteady > 10
