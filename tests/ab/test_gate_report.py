"""The report of a gate: exit status, words, every format. Figures of code that differ between two builds."""

import json
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kernel_velocity.ab import gate_report
from kernel_velocity.ab.gate_report import GateReport
from kernel_velocity.counts import compiled
from kernel_velocity.counts.changes import differing
from kernel_velocity.findings.report import as_json, as_junit, as_markdown
from kernel_velocity.results.records import Commit
from kernel_velocity.stats.sequential import Answer, Comparison, Obstacle, known_same, not_compared
from tests.golden import check_golden

GOLDEN = Path(__file__).parent / "golden"
WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def series(case):
    return ("matmul.Cpu.time_hot", ("native", f"float32-{case}"))


def compared(answer, ratio, bounds, p, **more):
    fields = {"rounds": 8, "reason": "p < 0.001, and no less than 1%", **more}
    return Comparison(answer=answer, ratio=ratio, low=bounds[0], high=bounds[1], p=p, **fields)


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
UNSEEN = Comparison(answer=Answer.UNKNOWN, rounds=7, reason="7 of the 8 rounds; the budget ended", next_look=8)
UNMEASURED = Comparison(answer=Answer.UNKNOWN, reason="0 of the 8 rounds; the budget ended", next_look=8)
BROKEN = not_compared(Obstacle.NOT_BUILT, "commit 7744c6af does not build: error")


def commit(sha, subject):
    return Commit(sha=sha * 5, parents=(), author="A. Author", date=WHEN, committed=WHEN, message=subject)


def report(*comparisons, **more):
    return GateReport(
        base=commit("6e4c8f6d", "Add matmul"),
        head=commit("7744c6af", "Unroll | the `inner`\x1b loop"),
        comparisons={series(number): comparison for number, comparison in enumerate(comparisons)},
        budget=600.0,
        measured=123.4,
        evidence=".asv/ab/environment/pair",
        **more,
    )


FULL = report(SAME, FASTER, CODE, UNKNOWN, SUSPECT, FAILED, ABSENT, SLOWER)


@pytest.mark.parametrize(
    ("comparisons", "status"),
    [
        ([SAME, FASTER, UNKNOWN, ABSENT, CODE], 0),
        ([SAME, SUSPECT], 11),
        ([SAME, SUSPECT, FAILED], 20),
        ([SAME, SUSPECT, FAILED, SLOWER], 10),
        ([MENDED, SAME], 0),
        ([MENDED], 22),
        ([ABSENT], 22),
        ([ABSENT, UNSEEN], 22),
        ([CODE, UNSEEN], 22),  # the one that changed had no look
        ([SAME, UNSEEN], 11),
        ([SAME, GONE], 11),
        ([GONE], 22),
        ([], 22),
        ([CODE, FAILED], 20),
        ([CODE, ABSENT], 0),
    ],
)
def test_exit_status_is_the_first_of_the_contract(comparisons, status):
    assert report(*comparisons).status == status


@pytest.mark.parametrize(
    ("comparisons", "expected", "status", "words"),
    [
        (
            [SAME, SUSPECT, UNSEEN, GONE],
            (),
            11,
            "suspect: neither confirmed nor ruled out; slower by the floor or more, but not settled; "
            "too few rounds for a look (7 of 8); gone: it had times before; the same command goes on from here",
        ),
        ([BROKEN, BROKEN], (), 22, "nothing was measured or compared; does not build"),
        (
            [CODE, UNSEEN],
            (),
            22,
            "nothing was compared yet; too few rounds for a look (7 of 8); the same command goes on from here",
        ),
        (
            [UNMEASURED],
            (),
            22,
            "nothing was measured or compared; too few rounds for a look (0 of 8); the same command goes on from here",
        ),
        ([SLOWER, UNSEEN], (), 10, "regression confirmed"),
        ([SLOWER, SAME], [0], 0, "clean; 1 slower as expected"),
        ([SLOWER, SLOWER, SUSPECT], [0, 2], 10, "regression confirmed; 2 slower as expected"),
        (
            [SLOWER, UNSEEN],
            [0],
            11,
            "suspect: neither confirmed nor ruled out; too few rounds for a look (7 of 8); "
            "the same command goes on from here; 1 slower as expected",
        ),
    ],
)
def test_words_have_the_reasons_of_the_status(comparisons, expected, status, words):
    result = report(*comparisons, expected=dict.fromkeys(map(series, expected), "for the bias"))
    assert (result.status, result.words) == (status, words)


def test_expected_series_are_reported_with_their_reason():
    reason = "Perf-Expected in 7744c6af: for the bias"
    result = report(SLOWER, SAME, expected={series(0): reason}, notes=("a line of no sense",))
    text, markdown = gate_report.as_text(result), as_markdown(gate_report.as_report(result))
    assert "different, expected" in text and f"no less than 1%; {reason}:" in text
    assert "note: a line of no sense" in text
    assert "different, expected" in markdown and reason in markdown and "a line of no sense" in markdown
    data = json.loads(as_json(gate_report.as_report(result)))
    assert [row["expected"] for row in data["series"]] == [reason, None]
    assert (data["exit_status"], data["notes"]) == (0, ["a line of no sense"])
    suite = ElementTree.fromstring(as_junit(gate_report.as_report(result)))
    assert suite.get("failures") == "0" and reason in suite[0].findtext("system-out")


def info(registers=168, spilled=0, avx2=900, architecture="sm_90"):
    functions = {"architecture": architecture, "registers": registers, "shared_bytes": 0, "spill_load_bytes": 0}
    ptxas = [{**functions, "spill_store_bytes": spilled}]
    return {"kernels": {"matmul": {"code_bytes": {"sse2": 1000, "avx2": avx2}, "ptxas": ptxas}}}


def test_code_changes_are_figures_that_both_builds_have():
    def changes(before, after, kernel="matmul"):
        return differing(compiled.figures(before, [kernel]), compiled.figures(after, [kernel]))

    result = changes(info(), info(registers=1128, spilled=16, avx2=950))
    assert list(map(str, result)) == [
        "matmul avx2: 900 -> 950 bytes",
        "matmul sm_90: 168 -> 1,128 registers of a thread",
        "matmul sm_90: 0 -> 16 bytes spilled",
    ]
    for other in ({}, info(), info(architecture="sm_80", registers=1)):
        assert changes(other, info()) == ()
    assert changes(info(), info(registers=1), "other") == ()


PAGES = [
    ("gate.txt", gate_report.as_text(FULL)),
    ("gate.md", as_markdown(gate_report.as_report(FULL))),
]


@pytest.mark.parametrize(("name", "text"), PAGES, ids=lambda value: value[:12])
def test_report_is_golden_and_has_the_worst_first(name, text, accept):
    check_golden(GOLDEN / name, text, accept=accept)
    assert "\x1b" not in text


def test_json_has_every_number():
    data = json.loads(as_json(gate_report.as_report(FULL)))
    assert (data["exit_status"], data["verdict"], data["measured"]) == (10, "regression confirmed", 123.4)
    wanted = {"benchmark": "matmul.Cpu.time_hot", "implementation": "native", "case": "float32-7"}
    wanted |= {"answer": "different", "ratio": 1.102, "low": 1.091, "high": 1.113, "p": 1.6e-4, "rounds": 8}
    assert data["series"][0].items() >= wanted.items()
    assert data["series"][1]["obstacle"] == "failed" and data["series"][1]["ratio"] is None
    assert [row["suspect"] for row in data["series"]].count(True) == 1


def test_regression_of_several_commits_names_their_range():
    between = ("a" * 40, commit("7744c6af", "").sha)
    command = (
        f"kv bisect matmul.Cpu.time_hot {'6e4c8f6d' * 5} {'7744c6af' * 5} --implementation native --case float32-0"
    )
    cause = f"slower by one of 2 commits, 6e4c8f6d..7744c6af: {command}"
    slower = report(SLOWER, commits=between)
    assert cause in gate_report.as_text(slower) and f"`{cause}`" in as_markdown(gate_report.as_report(slower))
    assert json.loads(as_json(gate_report.as_report(slower)))["candidates"] == [*between]
    for other in (report(SLOWER, commits=between[1:]), report(SLOWER), report(SAME, commits=between)):
        assert "one of" not in gate_report.as_text(other)


def test_junit_has_a_failure_an_error_and_what_is_skipped():
    suite = ElementTree.fromstring(as_junit(gate_report.as_report(FULL)))
    counts = {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "8", "failures": "1", "errors": "1", "skipped": "3"}
    failure = suite.find("testcase/failure")
    assert failure.get("message").startswith("+10.2% (+9.10% to +11.3%), p = 0.00016, 8 rounds a side: different, ")
    assert suite.find("testcase").get("name") == "native float32-7"


def test_report_of_nothing_is_whole_in_every_format():
    assert ElementTree.fromstring(as_junit(gate_report.as_report(report()))).get("tests") == "0"
    assert json.loads(as_json(gate_report.as_report(report())))["exit_status"] == 22
    assert "nothing was measured or compared (exit status 22)" in gate_report.as_text(report())
    assert "| series" not in as_markdown(gate_report.as_report(report()))
