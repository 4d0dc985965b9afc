"""What times can be shown as: every amount gives what the owner of the formula gives."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.results.measurement import Measurement, Outcome, SeriesKey
from kernel_velocity.roofline.model import Level, Roofs, cache_benefit, roofline
from kernel_velocity.roofline.roofs import Choice
from kernel_velocity.site.pages import kernel_chart
from kernel_velocity.site.pages.kernel_chart import (
    BENEFIT,
    COLD_HOT,
    EFFICIENCY,
    GFLOPS,
    GIGABYTES,
    SPEED_UP,
    TIME,
    Conversion,
)

positive = st.floats(1e-9, 1e12)
CACHE, DRAM = Level(name="L2", size=1 << 20, bandwidth=100e9), Level(name="DRAM", size=None, bandwidth=20e9)


def key(benchmark="matmul.Cpu.time_hot", implementation="native", case="float32-1M", machine="bench-1"):
    return SeriesKey(
        machine=machine, environment="e", benchmark=benchmark, implementation=implementation, case=case, version="1"
    )


def value(conversion, seconds):
    """Convert as the page's script does."""
    if conversion.times is not None:
        return conversion.times * seconds
    found = conversion.per / seconds
    bounds = (-math.inf if conversion.least is None else conversion.least, conversion.most or math.inf)
    return min(max(found, bounds[0]), bounds[1])


@given(flop=positive, moved=positive, seconds=st.floats(1e-9, 1e3), dram=positive, peak=positive)
def test_every_conversion_gives_what_its_formula_gives(flop, moved, seconds, dram, peak):
    roofs = Roofs(levels=(CACHE, Level(name="DRAM", size=None, bandwidth=dram)), peaks={"float32": peak})
    found = kernel_chart.of_work(flop, moved, Choice(roofs=roofs), "float32-1M")
    item = Measurement(key=key(), commit="c", outcome=Outcome.MEASURED, seconds=seconds, flop=flop, bytes_moved=moved)
    line = roofline(flops=flop, bytes=moved, seconds=seconds, roofs=roofs, dtype="float32")
    assert value(found[GFLOPS], seconds) == pytest.approx(item.gflops)
    assert value(found[TIME], seconds) == pytest.approx(seconds * 1e6)
    assert value(found[EFFICIENCY], seconds) == pytest.approx(100 * line.efficiency)
    assert value(found[BENEFIT], seconds) == pytest.approx(cache_benefit(moved, seconds, dram))
    assert (GIGABYTES in found) == (item.gigabytes is not None)
    if item.gigabytes is not None:
        assert value(found[GIGABYTES], seconds) == pytest.approx(item.gigabytes)


def test_what_is_not_known_is_not_offered():
    assert set(kernel_chart.of_work(None, None, Choice(roofs=None), "float32-1M")) == {TIME}
    without_dram = Roofs(levels=(), peaks={"float32": 1e11})
    assert set(kernel_chart.of_work(2e9, 1e6, Choice(roofs=without_dram), "float32-1M")) == {
        GFLOPS,
        EFFICIENCY,
        TIME,
    }
    no_peak = Roofs(levels=(DRAM,), peaks={})
    assert set(kernel_chart.of_work(None, 1e6, Choice(roofs=no_peak), "float32-1M")) == {EFFICIENCY, BENEFIT, TIME}
    assert kernel_chart.roof(2e9, None, no_peak, "float32-1M") is None


def test_what_roofs_tell_leaves_out_the_commits_that_they_are_not_of():
    choice = Choice(roofs=Roofs(levels=(DRAM,), peaks={"float32": 1e11}), apart=frozenset({"b", "a"}))
    found = kernel_chart.of_work(2e9, 1e9, choice, "float32-1M")
    assert {name for name, each in found.items() if each.apart == ("a", "b")} == {EFFICIENCY, BENEFIT}
    assert "apart" not in found[GFLOPS].as_data()


def test_the_roof_says_what_binds():
    roofs = Roofs(levels=(DRAM,), peaks={"float32": 100e9})
    assert kernel_chart.roof(30e6, 120e6, roofs, "float32-1M").text == "DRAM"
    assert kernel_chart.roof(30e9, 120e6, roofs, "float32-1M").text == "peak float32"
    assert kernel_chart.roof(30e6, 120e6, roofs, "float32-1M").seconds == pytest.approx(6e-3)


def test_ratios_are_to_the_same_place_and_test_case():
    hot, cold = "matmul.Cpu.time_hot", "matmul.Cpu.time_cold"
    keys = [
        key(hot, "eager"),
        key(hot, "native"),
        key(cold, "native"),
        key(hot, "eager", machine="other"),
        key(hot, "eager", "float32-5M"),
    ]
    names = {item: f"series-{index}" for index, item in enumerate(keys)}
    benchmarks = {"hot": hot, "cold": cold}
    found = kernel_chart.ratios(keys[1], names, benchmarks)
    assert found == {SPEED_UP: Conversion(over="series-0"), COLD_HOT: Conversion(over="series-2")}
    assert kernel_chart.ratios(keys[2], names, benchmarks) == {COLD_HOT: Conversion(under="series-1")}
    assert kernel_chart.ratios(keys[3], names, benchmarks) == {}  # alone, it is a speed-up over nothing
    assert kernel_chart.ratios(keys[1], {keys[1]: "series-1"}, {"hot": hot}) == {}


def test_data_leaves_out_what_is_not_set():
    assert Conversion(per=2.0, most=100).as_data() == {"per": 2.0, "most": 100}
