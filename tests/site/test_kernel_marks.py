"""What is marked on a kernel's chart, and where."""

import dataclasses
from datetime import UTC, datetime

import numpy as np

from kernel_velocity.findings.finding import Kind, State
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.series import change_points
from kernel_velocity.site.pages import kernel_chart
from kernel_velocity.site.writer import series_name
from tests.findings import nights
from tests.series import test_change_points
from tests.stepped_series import stepped

LINE = nights.LINE
ORDER = nights.ORDER
KEY = SeriesKey(
    **{"machine": "bench-1", "environment": "host-py3.11-torch2.13.0", "benchmark": "matmul.Cpu.time_hot"},
    **{"implementation": "native", "case": "float32-256x256x256", "version": "1"},
)
EVERY_THIRD = kernel_chart.measured_line(LINE[::3], ORDER)


def session(began, **facts):
    return SessionFacts(began=began, facts=nights.FACTS | facts)


def test_mark_moves_to_a_measured_commit():
    assert EVERY_THIRD(0) == LINE[0]
    assert EVERY_THIRD(1) == LINE[3]
    assert EVERY_THIRD(3) == LINE[3]
    assert EVERY_THIRD(len(LINE) - 1) is None  # nothing behind it was measured
    assert kernel_chart.measured_line(["elsewhere"], ORDER)(0) is None


def test_change_point_in_words_of_speed():
    series = test_change_points.series(stepped(-7.0, -6.8))
    line = [f"{index:040x}" for index in range(80)]
    (mark,) = kernel_chart.change_marks(series, change_points.of(series), line)
    assert mark["commit"] == line[40]
    assert mark["text"].endswith("% slower")
    assert not mark["faster"]
    assert "95% interval" in mark["detail"] and "found by pelt" in mark["detail"]
    faster = test_change_points.series(stepped(-7.0, -7.8))
    (mark,) = kernel_chart.change_marks(faster, change_points.of(faster), line)
    assert mark["faster"]
    assert mark["text"].endswith("x faster")
    low, _, high = mark["detail"].partition(";")[0].removeprefix("95% interval ").partition(" to ")
    assert float(low.partition("x")[0]) <= float(mark["text"].partition("x")[0]) <= float(high.partition("x")[0])


def test_tag_marks():
    found = kernel_chart.tag_marks({LINE[7]: ("v2", "t" * 99), LINE[1]: ("v1",), "beside": ("v0",)}, ORDER, EVERY_THIRD)
    assert [(mark["commit"], mark["label"]) for mark in found[:1]] == [(LINE[3], "v1")]
    assert {mark["commit"] for mark in found[1:]} == {LINE[9]}
    long = next(mark for mark in found if mark["label"].endswith("…"))
    assert len(long["label"]) == kernel_chart.LABEL
    assert long["text"] == "tag " + "t" * 99


def test_environment_marks():
    sessions = [
        (LINE[4], session(4.0, driver="590", governor="powersave")),
        (LINE[0], session(1.0)),
        (LINE[2], session(2.0)),
        ("beside", session(9.0, driver="1")),
    ]
    (mark,) = kernel_chart.environment_marks(sessions, ORDER)
    assert (mark["commit"], mark["label"]) == (LINE[4], "driver 590 +1")
    assert mark["text"] == "driver: 550 → 590; governor: performance → powersave"
    newest = [(LINE[0], session(5.0, driver="590")), (LINE[0], session(1.0)), (LINE[1], session(6.0, driver="590"))]
    assert kernel_chart.environment_marks(newest, ORDER) == kernel_chart.environment_marks([], ORDER) == []


def marks_of(*known, keys=(KEY,), sessions=(), line=None):
    places = {(KEY.machine, KEY.environment): sessions}
    line = kernel_chart.measured_line(LINE, ORDER) if line is None else line
    return kernel_chart.finding_marks(known, keys, places, ORDER, line)


def test_finding_at_its_newest_candidate():
    known = nights.finding(commits=LINE[30:33])
    (mark,) = marks_of(known)
    assert mark["commit"] == LINE[32]
    assert mark["page"] == f"finding-{known.id}.html"
    assert (mark["kind"], mark["state"], mark["open"]) == ("regression", "confirmed", True)
    assert "one of 3 commits" in mark["text"]
    assert "time +10.0%" in mark["text"]
    assert mark["series"] == [series_name(KEY)]
    (moved,) = marks_of(known, line=EVERY_THIRD)
    assert moved["commit"] == LINE[33]
    (closed,) = marks_of(dataclasses.replace(known, state=State.RESOLVED))
    assert not closed["open"]


def test_finding_of_other_series_or_commits():
    for changed in ({"case": "float32-512x512x512"}, {"implementation": "eager"}):
        assert marks_of(nights.finding(), keys=(dataclasses.replace(KEY, **changed),)) == []
    assert marks_of(nights.finding(commits=("e" * 40,))) == []


def test_environment_finding_at_its_session():
    when = datetime.fromtimestamp(1000, UTC)
    known = nights.finding(kind=Kind.ENVIRONMENT, state=State.ENVIRONMENT, commits=(), found=when)
    sessions = [
        (LINE[1], session(100.0)),
        (LINE[6], session(990.5)),
        (LINE[5], session(990.5)),
        (LINE[9], session(1990.0)),
    ]
    (mark,) = marks_of(known, sessions=sessions)
    assert mark["commit"] == LINE[5]
    assert "by " not in mark["text"].partition(":")[0]
    assert marks_of(known, sessions=[(LINE[9], session(1990.0))]) == []
    assert marks_of(known, sessions=[]) == []


def test_change_marks_of_nothing_measured():
    nothing = test_change_points.series(np.full(3, -7.0), missing=range(3))
    assert kernel_chart.change_marks(nothing, change_points.of(nothing), LINE) == []
