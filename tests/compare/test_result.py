"""The figures of a comparison, and its JSON."""

import json
import math
import statistics
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.compare.result import Accuracy, ComparedRow, TimedImplementation, as_json, plain
from kernel_velocity.tables import literal
from tests.compare.live_comparisons import case, comparison, timed, whole
from tests.golden import check_golden

GOLDEN = Path(__file__).parent / "golden"


def strict(text):
    """Parse JSON, without the NaN and infinity that Python's parser accepts."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_golden(accept):
    check_golden(GOLDEN / "compare.json", as_json(whole()), accept=accept)


def test_nothing_measured_is_written_too():
    assert as_json(comparison()).endswith("\n")
    alone = comparison(case("c", 1, TimedImplementation(implementation="a", missing="no GPU")))
    assert "no GPU" in as_json(alone)


# Figures -------------------------------------------------------------------------------------------------------------


def test_row_figures_by_hand():
    rounds = ((1.0, 2.0), (3.0, 4.0), (5.0, 6.0))
    single = TimedImplementation(implementation="a", rounds=rounds, estimates=(1.5, 3.5, 5.5), function=3.75)
    row = ComparedRow(case("c", 1000, single), single)
    assert (row.timing.seconds, row.overhead) == (3.5, 0.25)
    assert (row.spread.mean, row.spread.n, row.spread.min, row.spread.max) == (3.5, 6, 1.0, 6.0)
    assert row.spread.deviation == pytest.approx(math.sqrt(17.5 / 5))
    assert (row.spread.p50, row.spread.p99) == (3.5, pytest.approx(5.95))
    assert (row.rate, row.bandwidth) == (pytest.approx(3000 / 3.5), pytest.approx(12000 / 3.5))
    for missing in ({"missing": "none here"}, {"failed": "broke"}):
        assert ComparedRow(row.compared, timed("a", 1.0, **missing)).timing is None


def test_speed_ups_have_errors_and_leave_out_wrong_results():
    estimates = {"a": (2.0, 2.2, 1.8), "b": (1.0, 1.01, 0.99)}
    rows = [TimedImplementation(implementation=name, estimates=seconds) for name, seconds in estimates.items()]
    wrong = timed("w", 1e-3, accuracy=(Accuracy(output="o", right=False, details={}),))
    (pair,) = case("c", 1, rows[0], TimedImplementation(implementation="n", missing="x"), wrong, rows[1]).speed_ups(
        None
    )
    assert (pair.slower, pair.faster, pair.ratio) == ("a", "b", pytest.approx(2.0))
    errors = [statistics.stdev(seconds) / math.sqrt(3) / statistics.median(seconds) for seconds in estimates.values()]
    assert pair.error == pytest.approx(2.0 * math.hypot(*errors))


def test_speed_ups_are_over_the_reference():
    three = case("c", 1, *(timed(name, seconds) for name, seconds in (("a", 1e-3), ("b", 2e-3), ("c", 4e-3))))
    compared = comparison(three, settings={"reference": "c"})
    pairs = [(pair["faster"], pair["slower"]) for pair in strict(as_json(compared))["speed_ups"]]
    assert pairs == [("a", "c"), ("b", "c"), ("b", "a")]


WRONG = (Accuracy(output="out", right=False, details={}),)


@pytest.mark.parametrize(
    ("row", "status"),
    [
        (TimedImplementation(implementation="a", missing="no GPU", accuracy=WRONG), "n/a"),
        (TimedImplementation(implementation="a", estimates=(1.0,), accuracy=WRONG), "WRONG"),
        (TimedImplementation(implementation="a", failed="broke", accuracy=WRONG), "WRONG"),
        (TimedImplementation(implementation="a", failed="broke"), "FAILED"),
        (TimedImplementation(implementation="a", estimates=(1.0,)), "not verified"),
        (timed("a", 1.0), "right"),
    ],
)
def test_status(row, status):
    assert row.status == status


# JSON ----------------------------------------------------------------------------------------------------------------


def test_json_has_a_nan_as_text_and_unknown_as_null():
    rows = {(row["name"], row["implementation"]): row for row in strict(as_json(whole()))["results"]}
    figures = rows["float32-50M", "native"]["accuracy"][0]["details"]
    assert (figures["max_absolute_error"], figures["max_relative_error"]) == ("NaN", "Infinity")
    missing = rows["float32-1M", "triton"]
    assert (missing["status"], missing["reason"]) == ("n/a", "Triton needs a CUDA device")
    assert [missing[name] for name in ("runtime_ms", "gflops", "seconds", "roofline")] == [None] * 4


def test_plain_values():
    odd = {"a": np.float64("nan"), "b": np.int64(3), "c": (1, True, None), "d": set, 5: -math.inf}
    assert plain(odd) == {"a": "NaN", "b": 3, "c": [1, True, None], "d": "<class 'set'>", "5": "-Infinity"}


@settings(max_examples=50)
@given(st.recursive(st.none() | st.floats() | st.text() | st.booleans(), lambda inner: st.lists(inner, max_size=3)))
def test_any_value_becomes_strict_json(value):
    strict(as_json(comparison(environment={"value": value})).encode("utf-8").decode("utf-8"))


@given(st.text())
def test_literal_text_stays_in_its_span(text):
    span = literal(text)
    inside = span[1:-1] if span.startswith("`") else span.removeprefix("<code>").removesuffix("</code>")
    assert not set(inside) & set("\n`|") and not (span.startswith("<code>") and set(inside) & set("<>\\*_[]@$"))
