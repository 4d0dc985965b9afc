"""A gate's verdict, its exit status, and its report in every format."""

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kernel_velocity.ab import gate_report
from kernel_velocity.ab.code_changes import CodeChange
from kernel_velocity.ab.gate_report import GateReport, Verdict, change, verdict
from kernel_velocity.results.records import Commit
from kernel_velocity.stats.sequential import Answer, Comparison, Obstacle, known_same, not_compared
from tests.golden import check_golden

GOLDEN = Path(__file__).parent / "golden"


def series(case, implementation="native"):
    return ("matmul.Cpu.time_hot", (implementation, f"float32-{case}"))


def compared(answer, ratio, bounds, p, **more):
    given = {"rounds": 8, "reason": "p < 0.001, and no less than 1%", **more}
    return Comparison(answer=answer, ratio=ratio, low=bounds[0], high=bounds[1], p=p, **given)


SLOWER = compared(Answer.DIFFERENT, 1.102, (1.091, 1.113), 1.6e-4, adjusted=True)
FASTER = compared(Answer.DIFFERENT, 0.4, (0.39, 0.41), 1.6e-4)
SUSPECT = compared(Answer.UNKNOWN, 1.02, (1.004, 1.04), 0.004, rounds=16, reason="1% or more, but p is not below 0.001")
UNKNOWN = compared(Answer.UNKNOWN, 1.002, (0.97, 1.03), 0.6, rounds=32, reason="less than 1%, but too wide")
SAME = compared(
    Answer.SAME, 1.0003, (0.9951, 1.0049), 0.9, adjusted=True, reason="the 95% interval lies within 1% either way"
)
CODE = known_same("the machine code is unchanged")
FAILED = not_compared(Obstacle.FAILED, "failed at 7744c6af: AssertionError: a|b is `wrong` <3>")
ABSENT = not_compared(Obstacle.NOT_APPLICABLE, "n/a at 6e4c8f6d: no such kernel")
MENDED = not_compared(Obstacle.MENDED, "failed at 6e4c8f6d: WrongResultError: nan")
GONE = not_compared(Obstacle.GONE, "n/a at 7744c6af, and not before: no such kernel")
UNSEEN = Comparison(answer=Answer.UNKNOWN, rounds=3, reason="3 of the 8 rounds; the budget ended")
BROKEN = not_compared(Obstacle.NOT_BUILT, "commit 7744c6af does not build: error")


WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def commit(sha, subject):
    return Commit(sha=sha * 5, parents=(), author="A. Author", date=WHEN, committed=WHEN, message=subject)


def report(*items):
    return GateReport(
        base=commit("6e4c8f6d", "Add matmul"),
        head=commit("7744c6af", "Unroll | the `inner`\x1b loop"),
        found={series(number): item for number, item in enumerate(items)},
        budget=600.0,
        measured=123.4,
        evidence=".asv/ab/environment/pair",
    )


FULL = report(SAME, FASTER, CODE, UNKNOWN, SUSPECT, FAILED, ABSENT, SLOWER)


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        ([SAME, FASTER, UNKNOWN, ABSENT, CODE], 0),
        ([SAME, SUSPECT], 11),
        ([SAME, SUSPECT, FAILED], 20),
        ([SAME, SUSPECT, FAILED, SLOWER], 10),
        ([SAME, BROKEN, FAILED], 21),
        ([BROKEN, BROKEN], 22),
        ([MENDED, SAME], 0),
        ([MENDED, FAILED, SAME], 20),
        ([MENDED], 22),
        ([ABSENT], 22),
        ([ABSENT, UNSEEN], 22),
        ([CODE, UNSEEN], 22),  # the one that changed had no look
        ([CODE, FAILED, UNSEEN], 22),
        ([SAME, UNSEEN], 11),
        ([SAME, GONE], 11),
        ([CODE, GONE], 11),
        ([GONE], 22),
        ([], 22),
        ([FAILED, FAILED], 22),
        ([CODE, FAILED], 20),
        ([CODE], 0),
        ([CODE, ABSENT], 0),
    ],
)
def test_the_exit_status_is_the_first_of_the_contracts_order(items, wanted):
    assert verdict(items).value == wanted


def test_verdicts_have_the_contracts_numbers():
    assert {item.name: item.value for item in Verdict} == {
        "CLEAN": 0,
        "REGRESSION": 10,
        "SUSPECT": 11,
        "FAILED": 20,
        "NOT_BUILT": 21,
        "NOTHING": 22,
    }


def test_what_there_is_a_doubt_for_and_what_left_nothing_to_compare_is_said():
    found = report(SAME, SUSPECT, UNSEEN, GONE)
    assert (
        found.words
        == "suspect; slower by the floor or more, but not settled; too few rounds for a look; gone: it had times before"
    )
    assert {item for _, item in found.rows[:3]} == {SUSPECT, UNSEEN, GONE}
    assert report(BROKEN, BROKEN).words == "nothing was compared; does not build"
    assert report(CODE, UNSEEN).words == "nothing was compared; too few rounds for a look"
    assert report(SLOWER, UNSEEN).words == "regression confirmed"


def test_what_is_expected_is_no_regression_and_says_who_wants_it():
    said = "Perf-Expected in 7744c6af: for the bias"
    found = dataclasses.replace(report(SLOWER, SAME), expected={series(0): said}, notes=("a line of no sense",))
    assert (found.verdict, found.words) == (Verdict.CLEAN, "no regression; 1 slower as expected")
    text, markdown = gate_report.as_text(found), gate_report.as_markdown(found)
    assert "different, expected" in text and f"no less than 1%; {said}:" in text
    assert "note: a line of no sense" in text
    assert "different, expected" in markdown and said in markdown and "a line of no sense" in markdown
    as_json = json.loads(gate_report.as_json(found))
    assert [item["expected"] for item in as_json["series"]] == [said, None]
    assert (as_json["exit_status"], as_json["notes"]) == (0, ["a line of no sense"])
    junit = ElementTree.fromstring(gate_report.as_junit(found))
    assert junit.get("failures") == "0" and said in (junit[0].findtext("system-out") or "")
    other = dataclasses.replace(report(SLOWER, SLOWER, SUSPECT), expected={series(0): said, series(2): said})
    assert (other.verdict, other.words) == (Verdict.REGRESSION, "regression confirmed; 2 slower as expected")
    alone = dataclasses.replace(report(SLOWER, UNSEEN), expected={series(0): said})
    assert alone.words == "suspect; too few rounds for a look; 1 slower as expected"


def test_what_became_of_the_code_is_said_and_only_spills_of_code_that_is_not_run_are_a_doubt():
    given = {"kernel": "matmul", "device": "cuda", "target": "sm_90"}
    registers = CodeChange(**given, figure="registers", before=168, after=1280)
    spills = CodeChange(**given, figure="spill_bytes", before=0, after=16)
    calm = dataclasses.replace(report(SAME), code=(registers,))
    assert (calm.verdict, calm.words) == (Verdict.CLEAN, "no regression")
    found = dataclasses.replace(report(SAME), code=(registers, spills))
    assert (found.verdict, found.words) == (
        Verdict.SUSPECT,
        "suspect; code that cannot be run here spills more registers",
    )
    assert dataclasses.replace(found, device="cuda").verdict is Verdict.CLEAN  # what it costs was measured
    assert dataclasses.replace(found, code=(dataclasses.replace(spills, after=0, before=16),)).verdict is Verdict.CLEAN
    for text in (gate_report.as_text(found), gate_report.as_markdown(found)):
        assert "matmul sm_90: 168 -> 1,280 registers of a thread" in text
        assert "matmul sm_90: 0 -> 16 bytes spilled" in text
    (one, other) = json.loads(gate_report.as_json(found))["code"]
    assert (one["before"], one["after"], one["spills_more"], other["spills_more"]) == (168, 1280, False, True)


def test_the_worst_comes_first():
    assert [item for _, item in FULL.rows] == [SLOWER, FAILED, SUSPECT, UNKNOWN, ABSENT, SAME, CODE, FASTER]
    worse = compared(Answer.DIFFERENT, 1.5, (1.4, 1.6), 1e-4)
    assert next(item for _, item in report(SLOWER, worse).rows) == worse


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.031, "+3.1%"),
        (0.9976, "-0.24%"),
        (1.00001, "+0.00%"),
        (2.51, "2.51x"),
        (0.5, "-50.0%"),
        (1.0096, "+1.0%"),
        (None, "-"),
    ],
)
def test_changes_in_words(ratio, text):
    assert change(ratio) == text


@pytest.mark.parametrize(("name", "text"), [("txt", gate_report.as_text(FULL)), ("md", gate_report.as_markdown(FULL))])
def test_report(name, text, request):
    check_golden(GOLDEN / f"gate.{name}", text, accept=request.config.getoption("--accept-golden"))
    assert "\x1b" not in text


def test_json_says_all_of_it_in_numbers():
    said = json.loads(gate_report.as_json(FULL))
    assert (said["exit_status"], said["verdict"], said["measured"]) == (10, "regression confirmed", 123.4)
    first = said["series"][0]
    assert (first["benchmark"], first["implementation"], first["case"]) == (
        "matmul.Cpu.time_hot",
        "native",
        "float32-7",
    )
    assert (first["answer"], first["ratio"], first["low"], first["high"], first["p"], first["rounds"]) == (
        "different",
        1.102,
        1.091,
        1.113,
        1.6e-4,
        8,
    )
    assert said["series"][1]["obstacle"] == "failed" and said["series"][1]["ratio"] is None
    assert [item["suspect"] for item in said["series"]].count(True) == 1


def test_junit_counts_what_it_holds():
    suite = ElementTree.fromstring(gate_report.as_junit(FULL))
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "8",
        "failures": "1",
        "errors": "1",
        "skipped": "3",
    }
    failure = suite.find("testcase/failure")
    assert failure.get("message").startswith("+10.2% (+9.1% to +11.3%), p = 0.00016, 8 rounds a side: different, ")
    assert suite.find("testcase").get("name") == "native float32-7"


def test_formats_of_an_empty_report_are_whole():
    assert ElementTree.fromstring(gate_report.as_junit(report())).get("tests") == "0"
    assert json.loads(gate_report.as_json(report()))["exit_status"] == 22
    assert "nothing was compared (exit status 22)" in gate_report.as_text(report())
    assert "| benchmark" not in gate_report.as_markdown(report())
