"""What cannot be true is said, with its reason; what can be true is left alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.harness.ceilings import Ceiling
from kernel_velocity.offline import summary
from kernel_velocity.results.measurement import Interval, Measurement, Outcome, SeriesKey

KEY = SeriesKey(
    machine="node",
    environment="host-py3.12-torch2.11",
    benchmark="add_mul_exp.Cuda.time_hot",
    implementation="native",
    case="float32-1M",
    version="1",
)
COMMIT = "c" * 40
CEILINGS = (
    Ceiling(what="copy", unit="B/s", value=8e12, bytes=1_000_000),
    Ceiling(what="copy", unit="B/s", value=3e12, bytes=1_000_000_000),
    Ceiling(what="matmul", unit="FLOP/s", value=60e12, dtype="float32"),
    Ceiling(what="matmul", unit="FLOP/s", value=700e12, dtype="bfloat16"),
    Ceiling(what="matmul", unit="FLOP/s", value=None, dtype="float64", why="not here"),
)


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


def found(*items, ceilings=CEILINGS):
    return [(doubt.why, doubt.figure) for doubt in summary.doubts(items, ceilings)]


def reasons(*items, ceilings=CEILINGS):
    return [why for why, _ in found(*items, ceilings=ceilings)]


def test_what_can_be_true_is_left_alone():
    assert reasons(measured(12e6 / 2.9e12)) == []
    assert reasons(measured(12e6 / 2.9e12), ceilings=()) == []  # nothing known of the machine says nothing


def test_faster_than_the_memory():
    """1.2 GB are far past every cache: the bandwidth of the largest copy holds."""
    ((why, figure),) = found(measured(1.2e9 / 3.3e12, moved=1.2e9))
    assert why.startswith("impossible: faster than the memory was measured to be")
    assert figure == "3,300 GB/s, at most 3,000 GB/s"
    assert reasons(measured(1.2e9 / 3.1e12, moved=1.2e9)) == []  # within the ceiling's own error


def test_a_working_set_near_a_caches_size_has_the_caches_limit():
    assert reasons(measured(3e6 / 7.9e12, moved=3e6)) == []
    assert reasons(measured(3e6 / 8.5e12, moved=3e6))


def test_faster_than_the_arithmetic():
    ((why, figure),) = found(measured(1e-3, flop=70e9, moved=1e6))
    assert why.startswith("impossible: faster than float32 arithmetic was measured to be")
    assert figure == "70,000 GFLOPS, at most 60,000 GFLOPS"


def test_arithmetic_has_the_ceiling_of_its_own_dtype():
    fast = {"flop": 800e9, "moved": 1e6, "case": "int8-64x64x64"}
    assert reasons(measured(1e-3, **fast)) == []  # no peak in int8 is known
    peaks = [Ceiling(what="matmul", unit="FLOP/s", value=value, dtype="int8") for value in (900e12, 700e12)]
    assert reasons(measured(1e-3, **fast), ceilings=(*CEILINGS, peaks[0])) == []
    ((why, figure),) = found(measured(1e-3, **fast), ceilings=(*CEILINGS, peaks[1]))
    assert why.startswith("impossible: faster than int8 arithmetic was measured to be")
    assert figure == "800,000 GOPS, at most 700,000 GOPS"


@given(st.floats(0.1, 10))
def test_impossible_is_a_matter_of_the_ratio_alone(factor):
    assert bool(reasons(measured(1.2e9 / (3e12 * factor), moved=1.2e9))) == (factor > summary.IMPOSSIBLE)


def test_few_rounds_scatter_and_flags():
    warnings = ("underfed in 2 of 3 rounds", "need 8 rounds, have 3")
    assert found(measured(1, rounds=3, spread=0.2, warnings=warnings)) == [
        ("fewer than 8 rounds, no verdict can rest on it", "3 rounds"),
        ("its rounds scatter by more than 5.0%", "±20.0%"),
        ("flagged underfed", "2 of 3 rounds"),
    ]


def test_what_has_no_value_is_not_doubted():
    absent = Measurement(key=KEY, commit=COMMIT, outcome=Outcome.NOT_APPLICABLE)
    assert reasons(absent) == []


@pytest.mark.parametrize(
    ("count", "end"),
    [(1, ": cccccccc add_mul_exp.Cuda native float32-1M (2 rounds)"), (9, ": 9 values, such as cccccccc add_mul_exp")],
)
def test_one_cause_is_one_line(count, end):
    (line,) = summary.lines(summary.doubts([measured(1, rounds=2)] * count, CEILINGS))
    assert end in line and line.startswith("fewer than 8 rounds, no verdict can rest on it: ")


def test_timers_that_disagree():
    row = {
        "kernel": "matmul",
        "implementation": "native",
        "case": "c",
        "worst": 0.08,
        "agrees": False,
        "why": "clock rose",
    }
    document = {"rows": [row, {**row, "agrees": True}, {**row, "agrees": None, "worst": None}]}
    assert summary.of_timers(document) == ["matmul native c: timers differ by 8.0%: clock rose"]


def test_failed_tests():
    some = {"passed": 3, "failed": 1, "skipped": 0, "failures": [["t::a", "off by 3"]]}
    assert summary.of_tests(some, failed=True, measured=True) == ["wrong: t::a: off by 3"]
    assert summary.of_tests({**some, "failures": []}, failed=False, measured=True) == []


@pytest.mark.parametrize(
    ("tests", "failed", "measured", "reason"),
    [
        (None, True, False, "the tests ended without a report"),
        (None, False, True, "the tests have not run"),
        ({"passed": 0, "failed": 0, "skipped": 91, "failures": []}, False, True, "no test passed, 91 were skipped"),
    ],
)
def test_no_news_of_the_tests_is_no_good_news(tests, failed, measured, reason):
    (line,) = summary.of_tests(tests, failed=failed, measured=measured)
    assert line == f"nothing says that the kernels are right: {reason}"


def test_before_anything_is_measured_the_tests_may_be_missing():
    assert summary.of_tests(None, failed=False, measured=False) == []
