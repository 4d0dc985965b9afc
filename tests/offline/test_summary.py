"""The summary: a golden file, and what of a node's figures is not to be believed."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity import units
from kernel_velocity.harness.ceilings import FORMAT, Ceiling
from kernel_velocity.offline import summary
from kernel_velocity.offline.summary import Report
from kernel_velocity.results.measurement import Interval, Measurement, Outcome, SeriesKey
from kernel_velocity.roofline.model import IMPOSSIBLE
from tests.golden import check_golden
from tests.runner.test_facts import NODE

GOLDEN = Path(__file__).parent / "golden"
COMMIT = "c" * 40
KEY = SeriesKey(
    machine="node",
    environment="host-py3.12-torch2.11",
    benchmark="add_mul_exp.Cuda.time_hot",
    implementation="native",
    case="float32-1M",
    version="1",
)
CEILINGS = (
    Ceiling(what="copy", unit="B/s", value=8e12, bytes=1_000_000, spread=0.01),
    Ceiling(what="copy", unit="B/s", value=3e12, bytes=1_000_000_000, spread=0.07),
    Ceiling(what="matmul", unit="FLOP/s", value=60e12, dtype="float32"),
    Ceiling(what="matmul", unit="FLOP/s", value=700e12, dtype="bfloat16"),
    Ceiling(what="matmul", unit="FLOP/s", value=None, dtype="float64", why="not here"),
    Ceiling(what="launch", unit="s", value=2.3e-6),
)
DOCUMENT = {
    "format": FORMAT,
    "device": "cuda",
    "name": "NVIDIA H200",
    "reported": {"threads": 1, "caches": {"L2": 50 << 20}},
    "ceilings": [asdict(ceiling) for ceiling in CEILINGS],
    "warnings": ["the samples of 1 of 6 measurements spread by more than 5%: a busy machine"],
}
ROW = {"kernel": "matmul", "implementation": "native", "case": "float32-512x512x512", "harness": 5e-5, "why": ""}
UNTIMED = {**ROW, "harness": None, "others": {}, "worst": None, "agrees": None, "why": "n/a"}
TIMERS = {
    "rows": [
        {**ROW, "others": {"cuda_graph": 5.05e-5, "profiler": 4.9e-5}, "worst": 0.02, "agrees": True},
        {**ROW, "implementation": "eager", "others": {}, "worst": -0.2, "agrees": False, "why": "gaps"},
        {**ROW, "others": {}, "worst": 0.05, "agrees": None},
        {**ROW, "others": {}, "worst": None, "agrees": None},
        UNTIMED,
    ],
    "missing": {"do_bench": "triton is not installed"},
}
TESTS = {"passed": 41, "failed": 1, "skipped": 2, "failures": [["test_x[3]", "7 wrong"]], "reasons": ["one device"]}
SECONDS = {"isolated": [1e-3, 1.1e-3], "shared": [1.01e-3, 1.111e-3]}
SHARING = {
    "rows": [
        {"number": n, "series": "matmul", "seconds": SECONDS, "setup": {"isolated": 0.5, "shared": 0.1}}
        for n in range(3)
    ]
}
EMPTY = Report(
    facts=NODE,
    device="cuda",
    head="d" * 40,
    commits=(COMMIT, "b" * 40),
    slices=1,
    notes=(),
    tests=None,
    sharing=None,
    ceilings=None,
    timers=None,
    traces=0,
    measurements=(),
    left=("build", "tests"),
    failed=(),
)

UNASKED = Measurement(key=replace(KEY, case="float32-10M"), commit=COMMIT, outcome=Outcome.NOT_APPLICABLE)


def measured(seconds, *, flop=3e6, moved=12e6, rounds=8, spread=0.001, warnings=(), case="float32-1M"):
    interval = Interval(low=seconds * (1 - spread), high=seconds * (1 + spread), method="m")
    return Measurement(
        key=replace(KEY, case=case),
        commit=COMMIT,
        outcome=Outcome.MEASURED,
        seconds=seconds,
        interval=interval,
        rounds=rounds,
        flop=flop,
        bytes_moved=moved,
        warnings=warnings,
    )


def against(measurement, ceilings=CEILINGS):
    return list(summary.against(measurement, ceilings))


def doubts(**changes):
    """Return the lines of the section on what is not to be believed."""
    text = summary.render(replace(EMPTY, **changes))
    return text.partition("## Doubtful values\n\n")[2].partition("\n\n##")[0].splitlines()


def test_summary_of_a_whole_run(request):
    other = Measurement(key=replace(KEY, case="float32-5M"), commit="b" * 40, outcome=Outcome.FAILED)
    values = (measured(4.1e-6), measured(1e-7, case="float32-500k"), measured(5e-6, rounds=3))
    report = replace(
        EMPTY,
        slices=2,
        notes=("no nvcc (...)",),
        tests=TESTS,
        sharing=SHARING,
        ceilings=DOCUMENT,
        timers=TIMERS,
        traces=36,
        measurements=(*values, other, UNASKED),
        left=(),
        failed=("tests",),
    )
    accept = request.config.getoption("--accept-golden")
    check_golden(GOLDEN / "summary.md", summary.render(report), accept=accept)


def test_summary_before_anything_is_known():
    text = summary.render(EMPTY)
    for words in ("left to do: build, tests", "not run yet", "not measured yet", "nothing yet", "none yet"):
        assert words in text
    assert "n/a" in summary.render(replace(EMPTY, measurements=(UNASKED,)))
    assert doubts() == ["nothing speaks against what was measured"]


def test_possible_values_are_believed():
    assert against(measured(12e6 / 2.9e12)) == []
    assert against(measured(1e-9), ceilings=()) == []  # nothing is known of the machine
    assert against(Measurement(key=KEY, commit=COMMIT, outcome=Outcome.NOT_APPLICABLE)) == []


def test_faster_than_the_memory_is_impossible():
    """1.2 GB are far past every cache: the bandwidth of the largest copy holds."""
    ((why, figure),) = against(measured(1.2e9 / 3.3e12, moved=1.2e9))
    assert why.startswith("impossible: faster than the memory was measured to be")
    assert figure == "3.30 TB/s, at most 3.00 TB/s"
    assert against(measured(1.2e9 / 3.1e12, moved=1.2e9)) == []  # within the ceiling's own error
    assert against(measured(3e6 / 7.9e12, moved=3e6)) == []  # near a cache's size the cache's limit holds
    assert against(measured(3e6 / 8.5e12, moved=3e6))


@pytest.mark.parametrize(("case", "top", "unit"), [("float32-1M", 60, "TFLOPS"), ("int8-64x64x64", 700, "TOPS")])
def test_faster_than_the_arithmetic_is_impossible(case, top, unit):
    """The ceiling is that of the value's own dtype."""
    ceilings = (*CEILINGS, Ceiling(what="matmul", unit="FLOP/s", value=700e12, dtype="int8"))
    fast = measured(1e-3, flop=top * 1.2e9, moved=1e6, case=case)
    ((why, figure),) = against(fast, ceilings)
    assert why.startswith(f"impossible: faster than {case.partition('-')[0]} arithmetic was measured to be")
    assert figure == f"{units.significant(top * 1.2)} {unit}, at most {units.significant(top)} {unit}"
    assert bool(against(fast)) == (case == "float32-1M")  # no peak in int8 is known


@given(st.floats(0.1, 10))
def test_impossible_depends_on_the_ratio_alone(factor):
    assert bool(against(measured(1.2e9 / (3e12 * factor), moved=1.2e9))) == (factor > IMPOSSIBLE)


def test_few_rounds_scatter_and_flags_are_named():
    warnings = ("underfed in 2 of 3 rounds", "a sound verdict needs 8 rounds, have 3")
    assert against(measured(1, rounds=3, spread=0.2, warnings=warnings)) == [
        ("fewer than 8 rounds, no verdict can rest on it", "3 rounds"),
        ("its rounds scatter by more than 5.0%", "±20.0%"),
        ("flagged underfed", "2 of 3 rounds"),
    ]


@pytest.mark.parametrize(
    ("count", "end"),
    [(1, ": cccccccc add_mul_exp.Cuda native float32-1M (2 rounds)"), (9, ": 9 values, such as cccccccc add_mul_exp")],
)
def test_one_cause_is_one_line(count, end):
    line = doubts(measurements=[measured(1, rounds=2)] * count, tests={**TESTS, "failures": []})[0]
    assert end in line and line.startswith("- fewer than 8 rounds, no verdict can rest on it: ")


def test_more_doubts_than_a_reader_takes_are_counted():
    lines = doubts(tests={**TESTS, "failures": [["test", "off"]] * 50})
    assert len(lines) == summary.LISTED + 1 and lines[-1] == "- and 10 more"


@pytest.mark.parametrize(
    ("tests", "failed", "measurements", "lines"),
    [
        (None, ("tests",), (), ["nothing says that the kernels are right: the tests ended without a report"]),
        (None, (), [measured(1)], ["nothing says that the kernels are right: the tests have not run"]),
        (
            {**TESTS, "passed": 0, "failures": []},
            (),
            (),
            ["nothing says that the kernels are right: no test passed, 2 were skipped"],
        ),
        (TESTS, ("tests",), (), ["wrong: test_x[3]: 7 wrong"]),
    ],
)
def test_no_news_of_the_tests_is_no_good_news(tests, failed, measurements, lines):
    assert doubts(tests=tests, failed=failed, measurements=measurements) == [f"- {line}" for line in lines]
