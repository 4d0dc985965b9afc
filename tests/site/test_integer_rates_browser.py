"""What the pages' scripts write of integer operations, in a real browser."""

import pytest

from kernel_velocity.site import model
from kernel_velocity.site.outputs import series_name
from tests.site.test_browser import chromium, tab  # noqa: F401 - fixtures
from tests.site.test_integer_rates import FLOATS, INTEGERS, units_of, written  # noqa: F401 - a fixture

pytestmark = pytest.mark.slow
BOTH = [(INTEGERS, "GOPS"), (FLOATS, "GFLOPS")]


def opened(tab, written, page, address):  # noqa: F811
    tab.goto(f"{(written[1] / page).as_uri()}#{address}")


@pytest.mark.parametrize(("case", "unit"), BOTH)
def test_a_kernels_chart_and_its_table(tab, written, case, unit):  # noqa: F811
    opened(tab, written, "kernel-matmul-Cpu.html", f"case={case}")
    tab.wait_for_selector("section.trend[data-ready]")
    assert tab.evaluate("Bokeh.documents[0].roots()[0].left[0].axis_label") == unit
    assert unit in tab.locator(".status").first.inner_text()  # the roof
    assert tab.locator(".behind-chart summary").inner_text() == f"The chart as a table: {unit}"
    assert units_of([tab.locator(".behind-chart table").text_content()]) == {unit}


@pytest.mark.parametrize(("case", "unit"), BOTH)
def test_two_commits_side_by_side(tab, written, case, unit):  # noqa: F811
    opened(tab, written, "compare.html", "kernel=matmul+Cpu")
    tab.wait_for_selector("#rows tbody tr")
    rows = [text for text in tab.locator("#rows tbody tr").all_inner_texts() if case in text]
    assert units_of(rows) == {unit}


@pytest.mark.parametrize(("case", "unit"), BOTH)
def test_one_measurement(tab, written, case, unit):  # noqa: F811
    found = model.read(written[0].results, written[0].repository)
    (name,) = [series_name(key) for key in found.keys if (key.implementation, key.case) == ("native", case)]
    opened(tab, written, "measurement.html", f"commit={written[0].commits[-1]}&series={name}")
    tab.wait_for_selector("body[data-ready]")
    assert units_of([tab.locator("#value").inner_text()]) == {unit}


@pytest.mark.parametrize(("case", "unit"), BOTH)
def test_the_points_below_the_roofs(tab, written, case, unit):  # noqa: F811
    opened(tab, written, "roofline.html", f"benchmark=matmul.Cpu.time_hot&case={case}")
    tab.wait_for_selector("section.roofline[data-ready]")
    told = tab.locator(".behind-chart table").text_content()
    assert units_of([told]) == {unit}
    assert ("FLOP/B" in told) == (unit == "GFLOPS")
