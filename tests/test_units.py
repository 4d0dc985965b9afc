"""Numbers as text: rounding cannot mislead, and printed values can be parsed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity import units

positive = st.floats(min_value=1e-9, max_value=1e6, allow_nan=False)
SCALES = dict(units.TIME_UNITS) | {f"{name}{of}": scale for of in ("FLOPS", "B/s") for name, scale in units._PREFIXES}


def parsed(text):
    number, unit = text.split(" ")
    return float(number.replace(",", "")) * SCALES[unit]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e-3, "1.00 ms"),
        (999.4e-6, "999 µs"),
        (999.6e-6, "1.00 ms"),  # carries into the next unit, and does not read "1,000 µs"
        (0.00375, "3.75 ms"),
        (2.5e-9, "2.50 ns"),
        (1e-12, "0.00100 ns"),  # below the smallest unit: still not zero
        (0.9996, "1.00 s"),
        (1234.5, "1,234 s"),
    ],
)
def test_seconds(value, text):
    assert units.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(9.994, "9.99"), (9.996, "10.0"), (99.96, "100"), (0.000123456, "0.000123"), (48213.4, "48,213"), (0, "0")],
)
def test_significant(value, text):
    assert units.significant(value) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0, "0.0%"),
        (1e-9, "<0.1%"),
        (0.0004, "<0.1%"),
        (0.0006, "0.1%"),
        (0.9994, "99.9%"),
        (0.9996, ">99.9%"),
        (1, "100.0%"),
        (1.0004, ">100.0%"),
        (1.5, "150.0%"),
    ],
)
def test_share_rounds_neither_to_nothing_nor_to_all(fraction, text):
    assert units.share(fraction) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1, "unchanged"),
        (1.0001, "<0.1% faster"),
        (0.9999, "<0.1% slower"),
        (1 / 0.968, "3.2% faster"),
        (1 / 1.05, "5.0% slower"),
        (2.51, "2.51× faster"),
        (0.4, "2.50× slower"),
    ],
)
def test_change_has_a_direction(ratio, text):
    assert units.change(ratio) == text


@given(positive)
def test_parsed_time_has_three_digits(value):
    assert parsed(units.seconds(value)) == pytest.approx(value, rel=0.005)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (732_630, "GFLOPS", "733 TFLOPS"),
        (1_402_726, "GOPS", "1,403 TOPS"),
        (999.4, "GFLOPS", "999 GFLOPS"),
        (999.6, "GFLOPS", "1.00 TFLOPS"),
        (4327, "GB/s", "4.33 TB/s"),
        (0.0123, "GFLOPS", "12.3 MFLOPS"),
    ],
)
def test_rate_has_the_prefix_of_its_size(value, unit, text):
    assert units.rate(value, unit) == text


def test_interval_of_rates_has_one_prefix():
    assert units.rates(718_394, 750_608, "GFLOPS") == "718 to 751 TFLOPS"
    assert units.rates(998.9, 1001, "GB/s") == "0.999 to 1.00 TB/s"


@given(positive)
def test_parsed_rate_has_three_digits(value):
    assert parsed(units.rate(value, "GFLOPS")) == pytest.approx(value, rel=0.005)
    assert parsed(units.bandwidth(value)) == pytest.approx(value, rel=0.005)


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_non_zero_is_never_printed_as_zero(value):
    assert parsed(f"{units.significant(value)} GFLOPS") > 0


@given(st.floats(min_value=1e-6, max_value=1e6))
def test_only_ratio_one_is_unchanged(ratio):
    text = units.change(ratio)
    assert (text == "unchanged") == (ratio == 1)
    assert text.endswith("faster") == (ratio > 1)
    assert "0.0%" not in text.replace("100.0%", "").replace("10.0%", "") or not math.isclose(ratio, 1)


def test_count():
    assert [units.count(number, "round") for number in (0, 1, 1200)] == ["0 rounds", "1 round", "1,200 rounds"]


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (1.234e-3, "seconds", "1.23 ms"),
        (0.0, "seconds", "0 seconds"),
        (999.4, "bytes", "999 bytes"),
        (999.6, "bytes", "1.00 kB"),
        (7e7, "bytes", "70.0 MB"),
        (2.5e13, "bytes", "25.0 TB"),
        (-2.5, "", "-2.50"),
        (0.97, "accuracy", "0.970 accuracy"),
        (1e-9, "x", "1.00e-9 x"),
        (-1e300, "x", "-1.00e+300 x"),
    ],
)
def test_value_in_any_unit(number, unit, text):
    assert units.value(number, unit) == text


@pytest.mark.parametrize(
    ("ratio", "unit", "text"),
    [
        (0.8, "bytes", "25.0% larger"),
        (1.25, "bytes", "20.0% smaller"),
        (0.25, "errors", "4.00× higher"),
        (1.25, "errors", "20.0% lower"),
    ],
)
def test_change_of_another_unit_is_of_the_value(ratio, unit, text):
    assert units.change(ratio, unit) == text
