"""The summary as a reader gets it: a golden file; and what it says where little is known."""

import json
from dataclasses import asdict
from pathlib import Path

from kernel_velocity.harness.ceilings import FORMAT, Ceiling
from kernel_velocity.offline import summary
from kernel_velocity.offline.summary import Report
from tests.golden import check_golden
from tests.offline.test_doubts import COMMIT, measured
from tests.offline.test_facts import NODE

GOLDEN = Path(__file__).parent / "golden"


def ceiling(what, unit, value, **more):
    known = {"bytes": None, "dtype": None, "why": "", "n": 9, "spread": 0.01, "flags": []}
    return {"what": what, "unit": unit, "value": value, **known, **more}


CEILINGS = {
    "format": FORMAT,
    "ceilings": [
        ceiling("copy", "B/s", 8.1e12, bytes=1 << 22),
        ceiling("copy", "B/s", 4.2e12, bytes=1 << 30),
        ceiling("matmul", "FLOP/s", 51.2e12, dtype="float32"),
        ceiling("matmul", "FLOP/s", 1.2e15, dtype="int8"),
        ceiling("matmul", "FLOP/s", None, dtype="float64", why="not asked for", spread=None),
        ceiling("launch", "s", 2.3e-6, spread=None),
    ],
    "warnings": ["matmul (float32): its samples spread by 7%"],
}
ROW = {"kernel": "matmul", "implementation": "native", "case": "float32-512x512x512", "bytes": 1, "harness": 5e-5}
TIMERS = {
    "rows": [
        {**ROW, "others": {"cuda_graph": 5.05e-5, "profiler": 4.9e-5}, "worst": 0.02, "agrees": True, "why": ""},
        {
            **ROW,
            "implementation": "eager",
            "others": {"cuda_graph": 4e-5},
            "worst": -0.2,
            "agrees": False,
            "why": "gaps",
        },
        {
            **ROW,
            "implementation": "compile",
            "harness": None,
            "others": {},
            "worst": None,
            "agrees": None,
            "why": "n/a",
        },
    ],
    "missing": {"do_bench": "triton is not installed"},
}
NOTHING = Report(
    facts=NODE,
    device="cuda",
    head="d" * 40,
    commits=(COMMIT, "b" * 40),
    slices=1,
    notes=(),
    tests=None,
    ceilings=None,
    timers=None,
    traces=0,
    measurements=(),
    left=("build", "tests"),
    failed=(),
)
ALL = Report(
    facts=NODE,
    device="cuda",
    head="d" * 40,
    commits=(COMMIT, "b" * 40),
    slices=2,
    notes=("no nvcc (...)",),
    tests={
        "passed": 41,
        "failed": 1,
        "skipped": 2,
        "failures": [["test_devices::test_x[3]", "AssertionError: 7 wrong"]],
        "reasons": ["one device"],
    },
    ceilings=CEILINGS,
    timers=TIMERS,
    traces=36,
    measurements=(measured(4.1e-6), measured(1e-7), measured(5e-6, rounds=3)),
    left=(),
    failed=("tests",),
)


def test_a_whole_run(request):
    accept = request.config.getoption("--accept-golden")
    check_golden(GOLDEN / "summary.md", summary.render(ALL), accept=accept)


def test_before_anything_is_known():
    text = summary.render(NOTHING)
    for words in ("left to do: build, tests", "not run yet", "not measured yet", "nothing yet", "none yet"):
        assert words in text


def test_tests_that_ended_without_a_report_are_no_good_news():
    text = summary.render(Report(**{**vars(NOTHING), "failed": ("tests",)}))
    assert "nothing says that the kernels are right: the tests ended without a report" in text


def test_what_it_reads_is_what_the_stages_write():
    """Documents of the live stages on this machine are rendered whole: keys are not renamed on one side only."""
    document = {**CEILINGS, "ceilings": [asdict(Ceiling(what="copy", unit="B/s", value=1e9, bytes=1000))]}
    assert "1.00 GB/s" in summary.render(Report(**{**vars(ALL), "ceilings": json.loads(json.dumps(document))}))
