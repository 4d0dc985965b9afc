"""What is marked on a kernel's chart, and where."""

import dataclasses

import numpy as np
import pytest

from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.site import model
from kernel_velocity.site.pages import kernel_chart
from kernel_velocity.site.pages.kernel_chart import MeasuredAgain
from kernel_velocity.stats.changepoints import search
from kernel_velocity.stats.sequential import Answer
from kernel_velocity.verdict.controls import MachineStep
from kernel_velocity.verdict.ranges import CommitRange
from kernel_velocity.verdict.verdicts import Levels
from tests import large_tree
from tests.findings import nights
from tests.site import pages
from tests.stepped_series import stepped
from tests.verdict.test_change_points import series

LINE = nights.LINE
ORDER = nights.ORDER
KEY = SeriesKey(
    **{"machine": "bench-1", "environment": "host-py3.11-torch2.13.0", "benchmark": "matmul.Cpu.time_hot"},
    **{"implementation": "native", "case": "float32-256x256x256", "version": "1"},
)


def session(began, **facts):
    return SessionFacts(began=began, facts=nights.FACTS | facts)


def test_finding_of_other_series_or_commits():
    at, sessions = kernel_chart.measured_line(LINE, ORDER), {(KEY.machine, KEY.environment): [(LINE[0], session(1.0))]}
    others = [(nights.finding(), dataclasses.replace(KEY, implementation="eager"))]
    others += [(nights.finding(), dataclasses.replace(KEY, case="float32-512x512x512"))]
    others += [(nights.finding(commits=("e" * 40,)), KEY)]
    for finding, key in others:
        assert kernel_chart.finding_marks([finding], [key], sessions, ORDER, at) == []


SLOWER = series(stepped(-7.0, -6.8))  # at the 40th of 80 commits


@pytest.mark.parametrize(
    ("reruns", "words"),
    [
        ([], "not re-measured"),
        ([MeasuredAgain(39, 40, Answer.DIFFERENT, 1.25)], "re-measured: 25.0% slower"),
        (
            [MeasuredAgain(10, 70, Answer.SAME, 1.0), MeasuredAgain(41, 42, Answer.DIFFERENT, 1.25)],
            "re-measured: 25.0% slower",
        ),
        ([MeasuredAgain(39, 40, Answer.SAME, 1.0)], "re-measured: unchanged"),
        ([MeasuredAgain(39, 40, Answer.DIFFERENT, 0.8)], "not re-measured"),  # the other way
        ([MeasuredAgain(60, 61, Answer.DIFFERENT, 1.25)], "not re-measured"),
    ],
)
def test_change_point_says_whether_it_was_remeasured(reruns, words):
    points, within = search.detect(np.log(SLOWER.seconds)), ((), ())
    line = [f"{position:040x}" for position in range(80)]
    alone = CommitRange(good=line[39], bad=line[40], commits=(line[40],))
    levels = Levels(points=points, values=SLOWER.seconds, within=within, doubt=None, ranges=(alone,))
    (mark,) = kernel_chart.change_marks(SLOWER, levels, line, reruns)
    assert mark["detail"].startswith(words + "; ") and not mark["cause"]
    several = CommitRange(good=line[38], bad=line[40], commits=(line[39], line[40]))
    levels = dataclasses.replace(levels, ranges=(several,))
    assert kernel_chart.change_marks(SLOWER, levels, line, reruns)[0]["cause"] == str(several)
    assert mark["remeasured"] == (words == "re-measured: 25.0% slower")


def test_reruns_are_those_of_the_evidence(evidence_site):
    tree, *_ = evidence_site
    site = model.read(tree.results, tree.repository)
    by_series = kernel_chart.reruns_of(site, site.keys)
    assert {key.implementation for key in by_series} == {"native"}
    reruns = [rerun for several in by_series.values() for rerun in several]
    assert any(rerun.answer is Answer.DIFFERENT and rerun.before < rerun.after for rerun in reruns)
    assert kernel_chart.reruns_of(site, [key for key in site.keys if key.implementation == "eager"]) == {}


def test_step_of_the_machine_is_marked_as_such(tmp_path):
    shape = large_tree.Shape(commits=90, series=40)
    changes = large_tree.moved(shape, 60, of_controls=1.03, of_others=1.03)
    commits = large_tree.build(tmp_path, shape, changes)
    site = model.read(tmp_path / "results", tmp_path / "repository")
    data = pages.kernel_files(site)["kernel-kernel_000-Cpu"].value()
    assert {mark["kind"] for mark in data["marks"]} == {"environment"}
    (event,) = [mark for mark in data["marks"] if mark["group"] == data["groups"][0]["anchor"]]
    assert event["commit"] == commits[60]
    assert event["label"].startswith("machine 3.") and event["label"].endswith("% slower")
    sections = pages.commit_facts.CommitFacts(site).recorded(commits[60])["sections"]
    assert [section["machine"] for section in sections] == [[f"Cpu: {event['text']}"]]
    assert kernel_chart.machine_marks([MachineStep(position=1, ratio=0.5)], LINE)[0]["label"] == "machine 2.00× faster"
