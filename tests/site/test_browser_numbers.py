"""Numbers as the pages' scripts write them (static/numbers.js), held against Python's."""

import math
import random

import pytest

from kernel_velocity import units
from kernel_velocity.roofline import model
from kernel_velocity.site.report import TEMPLATES

pytestmark = pytest.mark.slow
DICE = random.Random(8)
# Edges at which rounding carries into a further digit
EDGES = [
    *(0, 1e-9, 0.09996, 0.1, 0.5, 0.9999, 0.99951, 1, 9.995),
    *(9.996, 9.999, 12, 99.95, 99.96, 999.4, 999.5, 999.6, 1000),
]
VALUES = [*EDGES, *(10 ** DICE.uniform(-12, 7) for _ in range(1000))]
SHARES = [
    *(0, 1e-6, 0.00049, 0.0005, 0.57, 0.5699),
    *(0.89996, 0.9, 0.9994, 0.9995, 0.9996),
]
SHARES += [0.99999, 1, 1.0001, 1.0004, 1.0005, *(DICE.uniform(0, 1.2) for _ in range(500))]
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


def test_values_below_zero_are_pythons(numbers):
    below = [-value for value in VALUES if value]
    assert numbers("significant", below) == [units.significant(value) for value in below]


def test_shares_are_pythons(numbers):
    assert numbers("share", SHARES) == [units.share(share) for share in SHARES]
    percent = [100 * share for share in SHARES]
    assert numbers("value", percent, "%") == [model.percent(share) for share in SHARES]


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
    for value, (name, scale) in zip(VALUES, numbers("readable", VALUES, "s"), strict=True):
        assert units.seconds(value) == f"{units.significant(value / scale)} {name}"


@pytest.mark.parametrize("unit", units.RATES)
def test_rates_are_pythons(numbers, unit):
    assert numbers("value", VALUES, unit) == [units.rate(value, unit) for value in VALUES]


def test_interval_has_its_unit_once(numbers):
    assert numbers("interval", [11.94], 12.42, "GFLOPS") == ["11.9 to 12.4 GFLOPS"]
    assert numbers("interval", [718_394], 750_608, "GFLOPS") == ["718 to 751 TFLOPS"]
    assert numbers("interval", [11.94], 99.99, "%") == ["11.9% to 99.9%"]
    assert numbers("interval", [1.5], 2, "×") == ["1.50 to 2.00×"]
    assert numbers("value", [None, 0, 1.5e-7]) == ["unknown", "0", "1.50e-7"]
