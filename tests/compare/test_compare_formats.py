"""What a comparison is written as: figures, JSON, Markdown."""

import dataclasses
import json
import math
import re
import statistics
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.compare import formats
from kernel_velocity.compare.formats.figures import figures, rows, speed_ups, status, worst
from kernel_velocity.compare.formats.json import SCHEMA, VERSION, plain, strict_json
from kernel_velocity.compare.result import Accuracy, Timed
from kernel_velocity.tables import literal
from tests.compare.comparisons import NAN, case, comparison, hostile, timed, with_rows
from tests.golden import check_golden

GOLDEN = Path(__file__).parent / "golden" / "compare_formats"


def strict(text):
    """Parse JSON; NaN and infinity, which Python's parser takes, are refused."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def results():
    return strict(formats.as_json(comparison()))["results"]


@pytest.mark.parametrize("name", ["as_json", "as_markdown", "as_gbench", "as_nvbench"])
def test_golden(name, accept):
    ending = {"as_markdown": "md"}.get(name, "json")
    text = getattr(formats, name)(comparison())
    check_golden(GOLDEN / f"{name}.{ending}", text, accept=accept)
    assert text.endswith("\n")


# Figures -------------------------------------------------------------------------------------------------------------


def test_figures_by_hand():
    compared = case(elements=1000, flops=3000, bytes=12000)
    row = timed("native", 1.0, rounds=((1.0, 2.0), (3.0, 4.0), (5.0, 6.0)), function=3.75)
    found = figures(compared, row)
    assert found.seconds == 3.5  # of the rounds' 1.5, 3.5 and 5.5
    assert (found.mean, found.samples, found.minimum, found.maximum) == (3.5, 6, 1.0, 6.0)
    assert found.std == pytest.approx(math.sqrt(17.5 / 5))
    assert (found.p50, found.p99) == (3.5, pytest.approx(5.95))
    assert found.rate == pytest.approx(3000 / 3.5)
    assert found.bandwidth == pytest.approx(12000 / 3.5)
    assert found.overhead == pytest.approx(0.25)
    assert found.interval.low < 3.5 < found.interval.high


def test_what_is_not_known_is_none():
    compared = case(flops=None, bytes=None)
    found = figures(compared, timed("native", 1.0, rounds=((1.0,),), function=None))
    assert (found.rate, found.bandwidth, found.overhead, found.std, found.interval) == (None,) * 5
    assert figures(compared, Timed(implementation="a", missing="none here")) is None
    assert figures(compared, timed("a", 1.0, failed="broke")) is None


@given(st.lists(st.floats(1e-6, 1e3), min_size=3, max_size=8), st.floats(1e-3, 1e3))
def test_figures_scale_with_the_unit(estimates, factor):
    compared = case()
    one = figures(compared, Timed(implementation="a", estimates=tuple(estimates)))
    other = figures(compared, Timed(implementation="a", estimates=tuple(factor * each for each in estimates)))
    for name in ("seconds", "mean", "minimum", "p50", "p99", "maximum"):
        assert getattr(other, name) == pytest.approx(factor * getattr(one, name))
    assert other.rate == pytest.approx(one.rate / factor)
    assert other.interval.high == pytest.approx(factor * one.interval.high)


def test_speed_ups_propagate_the_error():
    a, b = (2.0, 2.2, 1.8), (1.0, 1.01, 0.99)
    rows_of_it = [Timed(implementation=name, estimates=each) for name, each in (("a", a), ("b", b))]
    compared = with_rows(case(), rows_of_it[0], Timed(implementation="n", missing="x"), rows_of_it[1])
    (found,) = speed_ups(compared, None)
    assert (found.slower, found.faster) == ("a", "b")
    assert found.ratio == pytest.approx(2.0)
    errors = [statistics.stdev(each) / math.sqrt(3) / statistics.median(each) for each in (a, b)]
    assert found.error == pytest.approx(2.0 * math.sqrt(errors[0] ** 2 + errors[1] ** 2))


def test_one_round_has_no_error():
    compared = with_rows(case(), *(Timed(implementation=name, estimates=(1.0,)) for name in "ab"))
    assert speed_ups(compared, None)[0].error is None


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        (Timed(implementation="a", missing="no GPU", accuracy=(NAN,)), "n/a"),
        (Timed(implementation="a", estimates=(1.0,), accuracy=(NAN,)), "WRONG"),
        (Timed(implementation="a", failed="broke", accuracy=(NAN,)), "WRONG"),
        (Timed(implementation="a", failed="broke"), "FAILED"),
        (Timed(implementation="a", estimates=(1.0,)), "not verified"),
        (timed("a", 1.0), "right"),
    ],
)
def test_status(row, wanted):
    assert status(row) == wanted


def test_a_nan_is_the_worst_error():
    outputs = [Accuracy(output="a", right=True, details={"max_absolute_error": each}) for each in (1.0, math.nan, 2.0)]
    assert math.isnan(worst(outputs, ("max_absolute_error",)))
    assert worst(outputs[::2], ("max_absolute_error",)) == 2.0
    assert worst([], ("max_absolute_error",)) is None


# JSON ----------------------------------------------------------------------------------------------------------------


def test_json_says_what_it_is():
    found = strict(formats.as_json(comparison()))
    assert (found["schema"], found["version"]) == (SCHEMA, VERSION)
    assert found["right"] is False
    assert found["environment"]["torch"] == "2.13.0"
    assert found["warnings"] == ["load 1.2 on 2 cores: timings may be disturbed"]


def test_json_rows_have_the_published_keys():
    first = results()[0]
    assert (first["name"], first["test_id"]) == ("float32-5M", 1)
    assert first["runtime_ms"] == pytest.approx(14, rel=0.05)
    assert first["gflops"] == pytest.approx(15e6 / (first["runtime_ms"] * 1e-3) / 1e9)
    assert first["bytes_per_second"] == pytest.approx(60e6 / (first["runtime_ms"] * 1e-3))
    assert len(first["estimates_s"]) == 8
    assert first["seconds"]["low"] < first["seconds"]["value"] < first["seconds"]["high"]
    assert [row["test_id"] for row in results()] == [1, 1, 1, 2, 2, 1, 1, 1, 1]


def test_json_keeps_a_nan_as_text_and_unknown_as_null():
    by_name = {(row["name"], row["implementation"]): row for row in results()}
    wrong = by_name["float32-512x512x512", "native"]
    assert wrong["accuracy"][0]["details"]["max_absolute_error"] == "NaN"
    assert wrong["accuracy"][0]["details"]["max_relative_error"] == "Infinity"
    assert wrong["status"] == "WRONG"
    missing = by_name["float32-5M", "triton"]
    assert (missing["status"], missing["reason"]) == ("n/a", "no CUDA device")
    assert (missing["runtime_ms"], missing["gflops"], missing["seconds"], missing["roofline"]) == (None,) * 4


def test_json_has_samples_only_where_they_are_asked_for():
    assert "samples_s" not in results()[0]
    found = strict(formats.as_json(comparison(), samples=True))["results"][0]
    assert [len(each) for each in found["samples_s"]] == [200] * 8


def test_plain_values():
    given_values = {"a": np.float64("nan"), "b": np.int64(3), "c": (1, True, None), "d": {1, 2}.__class__, 5: -math.inf}
    assert plain(given_values) == {"a": "NaN", "b": 3, "c": [1, True, None], "d": "<class 'set'>", "5": "-Infinity"}


@settings(max_examples=50)
@given(st.recursive(st.none() | st.floats() | st.text() | st.booleans(), lambda inner: st.lists(inner, max_size=3)))
def test_any_value_becomes_strict_json(value):
    strict(strict_json({"value": value}).encode("utf-8").decode("utf-8"))


# Markdown ------------------------------------------------------------------------------------------------------------


def test_markdown_leads_with_the_verdict():
    found = formats.as_markdown(comparison())
    assert found.startswith("**FAIL: 2 results wrong or failed: `native` on `float32-512x512x512`, `compile` on")
    good = comparison(with_rows(case(), timed("a", 1e-3), Timed(implementation="b", missing="no GPU")))
    assert formats.as_markdown(good).startswith("**1 of 1 result verified and right.**")


def cells_of(line):
    """Split a table's line as GitHub does: at pipes without a backslash before them."""
    return [cell.strip() for cell in line.replace("\\|", "").strip().strip("|").split("|")]


def test_every_line_of_a_table_has_as_many_cells():
    for found in (comparison(), hostile()):
        lines = [line for line in formats.as_markdown(found).splitlines() if line.startswith("|")]
        assert lines
        assert {len(cells_of(line)) for line in lines} == {14}


def test_markdown_shows_hostile_text_as_text():
    found = formats.as_markdown(hostile())
    outside = re.sub(r"<code>.*?</code>", "", found)
    for wanted in ("<script", "@everyone", "](", "{{", "$$", "window"):
        assert wanted not in outside
    assert "<script" not in found


def test_a_plain_name_is_a_code_span():
    assert literal("add_mul_exp") == "`add_mul_exp`"
    assert literal("a\nb  c") == "`a b c`"
    assert literal("a|b") == "<code>a&#124;b</code>"
    assert literal("``") == "<code>&#96;&#96;</code>"
    assert literal(" \n") == "–"


@given(st.text())
def test_no_text_leaves_its_span(text):
    found = literal(text)
    assert "\n" not in found
    inside = found[1:-1] if found.startswith("`") else found.removeprefix("<code>").removesuffix("</code>")
    assert "`" not in inside
    if found.startswith("<code>"):
        assert not set(inside) & set("<>|`\\*_[]@$")
    else:
        assert "|" not in inside


# All -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["as_json", "as_markdown", "as_gbench", "as_nvbench"])
def test_nothing_measured_is_written_too(name):
    empty = dataclasses.replace(comparison(), compared=())
    assert getattr(formats, name)(empty).endswith("\n")
    alone = comparison(with_rows(case(), Timed(implementation="a", missing="no GPU")))
    assert "no GPU" in getattr(formats, name)(alone)


def test_rows_number_the_cases_of_a_problem():
    assert [row.number for row in rows(comparison())] == [1, 1, 1, 2, 2, 1, 1, 1, 1]


def test_a_wrong_implementation_is_in_no_pair():
    wrong = timed("b", 1e-3, accuracy=(NAN,))
    assert speed_ups(with_rows(case(), timed("a", 1e-3), wrong), None) == ()


def test_speed_ups_are_over_the_reference_in_every_file():
    three = with_rows(case(), *(timed(name, seconds) for name, seconds in (("a", 1e-3), ("b", 2e-3), ("c", 4e-3))))
    found = comparison(three, settings={"reference": "c"})
    pairs = [(each["faster"], each["slower"]) for each in strict(formats.as_json(found))["speed_ups"]]
    assert pairs == [("a", "c"), ("b", "c"), ("b", "a")]
    assert "`a` over `c`" in formats.as_markdown(found)
    assert "`c` over" not in formats.as_markdown(found)
