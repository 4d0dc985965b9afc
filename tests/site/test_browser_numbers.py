"""Numbers as the pages' scripts write them (static/numbers.js), held against Python's."""

import math
import random

import pytest

from kernel_velocity import units
from kernel_velocity.harness.cases import operation
from kernel_velocity.roofline import model
from kernel_velocity.site.report import TEMPLATES

pytestmark = pytest.mark.slow
DICE = random.Random(8)
# Edges at which rounding carries into a further digit; ties, which go to the even digit; the largest and smallest shown
EDGES = [
    *(0, 1e-9, 0.09996, 0.1, 0.5, 0.9999, 0.99951, 1, 9.995),
    *(9.996, 9.999, 12, 99.95, 99.96, 999.4, 999.5, 999.6, 1000),
]
TIES = [0.125, 1.125, 1.375, 2.0625, 10.25, 12.25, 12.75, 100.5, 101.5, 1234.4, 1234.5, 1235.5, 1e6, 123456789.5]
VALUES = [*EDGES, *TIES, *(10 ** DICE.uniform(-12, 7) for _ in range(1000))]
SHARES = [
    *(0, 1e-6, 0.00049, 0.0005, 0.0625, 0.1875, 0.57),
    *(0.5699, 0.89996, 0.8999999999999999, 0.9, 0.9994, 0.9995, 0.9996),
]
SHARES += [0.99999, 0.9999999999999999, 1, 1.0001, 1.0004, 1.0005, *(DICE.uniform(0, 1.2) for _ in range(500))]
RATIOS = [1, 1.0000001, 0.99999, 1.9999, 2, 0.5, 0.5001, 1.5, 1.0625, 100, 1e-3]
RATIOS += [math.exp(DICE.gauss(0, 0.4)) for _ in range(500)]


@pytest.fixture
def numbers(tab):
    """What a function of Numbers makes of each of a list of values, called with each value and what follows it."""
    tab.add_script_tag(path=TEMPLATES / "static" / "numbers.js")

    def call(name, values, *more):
        script = "([name, values, more]) => values.map((value) => Numbers[name](value, ...more))"
        return tab.evaluate(script, [name, values, list(more)])

    return call


@pytest.mark.parametrize("name", ["significant", "seconds"])
def test_values_are_pythons(numbers, name):
    assert numbers(name, VALUES) == [getattr(units, name)(value) for value in VALUES]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_rates_are_pythons(numbers, dtype):
    assert numbers("rate", VALUES, operation(dtype)) == [units.rate(value, units.rate_unit(dtype)) for value in VALUES]


def test_values_below_zero_are_pythons(numbers):
    below = [-value for value in VALUES if value]
    assert numbers("significant", below) == [units.significant(value) for value in below]


def test_shares_are_pythons(numbers):
    assert numbers("share", SHARES) == [units.share(share) for share in SHARES]
    assert numbers("efficiency", SHARES) == [model.percent(share) for share in SHARES]
    percent = [100 * share for share in SHARES]
    assert numbers("value", percent, "efficiency") == [model.percent(share) for share in SHARES]


def test_changes_are_pythons(numbers):
    assert numbers("change", RATIOS) == [units.change(ratio) for ratio in RATIOS]
    for unit in (units.SECONDS, units.BYTES, "errors"):
        assert numbers("change", RATIOS, unit) == [units.change(ratio, unit) for ratio in RATIOS]


def test_values_in_any_unit_are_pythons(numbers):
    values = [*VALUES, *(-value for value in VALUES), 1e-7, 9.99e14, 1e15, 1e300, 5e-324]
    for unit in (units.SECONDS, units.BYTES, "errors", ""):
        assert numbers("inUnit", values, unit) == [units.value(value, unit) for value in values]


def test_counts_are_pythons(numbers):
    counts = [0, 7, 999, 1000, 10_000, 123_456, 1_000_000]
    assert numbers("count", counts) == [f"{count:,}" for count in counts]


def test_difference_has_its_sign(numbers):
    assert numbers("difference", [0, 0.03, -0.0312, 1e-7]) == ["0%", "+3.00%", "−3.12%", "+0.0000100%"]


def test_time_has_the_unit_of_its_chart(numbers):
    for value, unit in zip(VALUES, numbers("unit", VALUES), strict=True):
        assert units.seconds(value) == f"{units.significant(value / unit['scale'])} {unit['name']}"


def test_span_of_time(numbers):
    spans = [0, 179, 181, 3 * 3600 + 1, 4 * 86400]
    assert [unit["name"] for unit in numbers("span", spans)] == ["seconds", "seconds", "minutes", "hours", "days"]


def test_interval_has_its_unit_once(tab, numbers):
    assert numbers("interval", [11.94], 12.42, "GFLOPS") == ["11.9 to 12.4 GFLOPS"]
    assert numbers("interval", [11.94], 12.42, "GFLOPS", "GOPS") == ["11.9 to 12.4 GOPS"]
    assert numbers("interval", [11.94], 99.99, "efficiency") == ["11.9% to 99.9%"]
    assert numbers("value", [None], "GFLOPS") == ["unknown"]
    assert tab.evaluate("Numbers.interval(NaN, 1, 'GFLOPS')") == "unknown"
