"""What a picture of trends shows: units, intervals, change points, findings, commits."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.planted import stepped
from tools import columns
from tools.finding import Affected, Finding, Kind, State
from tools.measurements import Interval, Measurement, Outcome, SeriesKey
from tools.series_identity import Identity
from tools.trend_panels import History, Unit, picture

LINE = tuple(f"{number:040x}" for number in range(1, 201))
ORDER = {sha: place for place, sha in enumerate(LINE)}
FLOP, BYTES = 3e6, 12e6


def series(times, implementation="native", first=0, half=0.01, flop=FLOP, *, methods=None):
    """Return a series of times, s, one a commit; None failed. `methods`: what timed them, one each."""
    key = SeriesKey(
        machine="m", environment="e-torch2.1", benchmark="matmul.Cpu.time_hot",
        implementation=implementation, case="float32-1M", version="1",
    )  # fmt: skip
    items = [
        Measurement(
            key=key,
            commit=LINE[first + place],
            outcome=Outcome.FAILED if time is None else Outcome.MEASURED,
            seconds=time,
            interval=None if time is None else Interval(low=time * (1 - half), high=time * (1 + half), method=""),
            flop=flop,
            bytes_moved=BYTES,
            method=None if methods is None else methods[place],
        )
        for place, time in enumerate(times)
    ]
    return columns.of(items, ORDER)


def drawn(*found, unit=Unit.GFLOPS, bases=(), most=None, **history):
    known = History(**({"line": LINE, "tags": {}} | history))
    return picture(found, bases, unit, known, most)


def only(found):
    ((line,),) = (panel.lines for panel in found.panels)
    return line


@pytest.mark.parametrize(
    ("unit", "value", "low", "high", "label"),
    [
        (Unit.GFLOPS, 3.0, 3 / 1.01, 3 / 0.99, "GFLOPS"),
        (Unit.GBS, 12.0, 12 / 1.01, 12 / 0.99, "GB/s"),
        (Unit.US, 1000.0, 990.0, 1010.0, "µs per call"),
    ],
)
def test_a_value_and_its_interval_in_every_unit(unit, value, low, high, label):
    found = drawn(series([1e-3]), unit=unit)
    line = only(found)
    assert (line.values[0], line.low[0], line.high[0]) == pytest.approx((value, low, high))
    assert found.unit == label


def test_rates_of_both_kinds_have_an_axis_that_is_true_of_both():
    floats = series([1e-3])
    integers = replace(floats, key=replace(floats.key, case="int8-1M"))
    assert drawn(floats, integers).unit == "GFLOPS (GOPS for int8)"
    assert drawn(integers).unit == "GOPS"


def test_a_speed_up_is_against_eager_at_the_same_commit():
    base = series([4e-3, 2e-3, 2e-3], "eager")
    line = only(drawn(series([1e-3, 1e-3], first=1), unit=Unit.SPEEDUP, bases=[base]))
    assert line.values == pytest.approx([2, 2])
    assert np.isnan(only(drawn(series([1e-3]), unit=Unit.SPEEDUP)).values).all()


@settings(max_examples=30)
@given(st.floats(1e-6, 1e3), st.floats(1e-6, 1e3), st.floats(0, 0.5))
def test_the_interval_of_a_speed_up_holds_it_and_is_wider_than_either(base, time, half):
    found = drawn(series([time], half=half), unit=Unit.SPEEDUP, bases=[series([base], "eager", half=half)])
    line = only(found)
    assert line.low[0] <= line.values[0] * (1 + 1e-12)
    assert line.values[0] <= line.high[0] * (1 + 1e-12)
    width = math.log(line.high[0] / line.low[0])
    assert width >= math.log((1 + half) / (1 - half)) * (1 - 1e-9)


def test_what_is_missing_breaks_the_line_and_what_failed_is_marked():
    line = only(drawn(series([1e-3, None, 1e-3])))
    assert np.isnan(line.values).tolist() == [False, True, False]
    assert line.failed == (1,)
    assert np.isnan(only(drawn(series([1e-3], flop=None))).values).all()


def test_only_the_newest_commits_of_all_series_and_their_tags():
    old, new = series([1e-3] * 3, "eager"), series([1e-3] * 3, first=2)
    found = drawn(old, new, most=3, tags={LINE[0]: ("v1",), LINE[3]: ("v2", "v3")})
    assert found.commits == tuple(LINE[place][:8] for place in (2, 3, 4))
    assert found.tags == {1: "v2, v3"}
    first, second = found.panels[0].lines
    assert np.isnan(first.values).tolist() == [False, True, True]
    assert not np.isnan(second.values).any()


def test_a_planted_step_is_marked_where_it_is_and_noise_is_not():
    times = np.exp(stepped(math.log(2e-3), math.log(1e-3)))
    (mark,) = only(drawn(series(times))).steps
    assert mark.place == 40
    assert mark.better
    assert mark.text.endswith("x faster") or mark.text.endswith("% faster")
    assert only(drawn(series(np.exp(stepped(-7.0, size=80))))).steps == ()
    assert only(drawn(series(times), most=30)).steps == ()  # it lies before them


def test_another_timing_method_is_no_step():
    times = np.exp(stepped(math.log(2e-3), math.log(1e-3)))
    line = only(drawn(series(times, methods=["old"] * 40 + ["new"] * 40)))
    assert line.steps == ()
    assert not np.isnan(line.values).any()


@pytest.mark.parametrize(("flop", "is_known"), [(4 * BYTES, True), (4.1 * BYTES, False), (None, False)])
def test_gigabytes_are_of_kernels_that_memory_bounds_as_on_the_pages(flop, is_known):
    found = series([1e-3], flop=flop)
    assert np.isnan(only(drawn(found, unit=Unit.GBS)).values).all() == (not is_known)
    assert (found.measurement(0, LINE).gigabytes is not None) == is_known


def found_at(commits, kind=Kind.REGRESSION, case="float32-1M", environment="e"):
    identity = Identity(
        machine="m", environment=environment, benchmark="matmul.Cpu.time_hot",
        implementation="native", case=case, version="1", method="",
    )  # fmt: skip
    return Finding(
        id="x", kind=kind, state=State.CONFIRMED, subject="matmul", found=datetime(2026, 1, 1, tzinfo=UTC),
        commits=commits, affected=(Affected(identity=identity, ratio=1.05),),
    )  # fmt: skip


def test_a_finding_of_a_shown_series_is_marked_at_its_commit():
    found = drawn(series([1e-3] * 3), findings=(found_at((LINE[1],)),))
    (mark,) = found.panels[0].findings
    assert (mark.place, mark.text, mark.better) == (1, "+5.00% time, confirmed", False)


@pytest.mark.parametrize(
    "other",
    [
        found_at((LINE[0], LINE[1])),  # one of two
        found_at((LINE[9],)),  # not shown
        found_at((LINE[1],), case="float32-5M"),
        found_at((LINE[1],), environment="other"),
        found_at((LINE[1],), kind=Kind.VANISHED),
    ],
)
def test_other_findings_are_not(other):
    assert drawn(series([1e-3] * 3), findings=(other,)).panels[0].findings == ()
