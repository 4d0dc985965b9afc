"""The tables of a kernel's page in a real browser: what the chart shows, thousands of rows, and paper."""

import pytest

from kernel_velocity import units
from tests.site import large_site
from tests.site.test_browser import change, choose, chromium, show, tab  # noqa: F401 - fixtures
from tests.site.test_kernel_browser import PAGE

pytestmark = pytest.mark.slow
CARD = ".behind:visible .case:visible"
TOLD = ".behind-chart tbody tr"
SEEN = "(row) => row.cells[1].checkVisibility({ contentVisibilityAuto: true })"
LAST = "[...document.querySelectorAll('.behind:not([hidden]) .case:not([hidden]) tbody tr')].at(-1)"
PLACES = """(row) => [...row.cells].map((cell) => {
  const { left, width } = cell.getBoundingClientRect();
  return [Math.round(left), Math.round(width)];
})"""


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """A site of 1300 commits of two series, and its folder."""
    folder = tmp_path_factory.mktemp("long")
    found = large_site.make(folder, 1300, ("eager", "native"))
    large_site.write(found, folder / "site")
    return found, folder / "site"


def test_what_the_chart_shows_is_a_table_in_its_unit(tab, long):  # noqa: F811
    found, out = long
    show(tab, out, PAGE)
    tab.click(".behind-chart summary")
    assert tab.locator(TOLD).count() == 50
    newest = tab.locator(TOLD).first
    assert newest.locator("a.sha").inner_text() == found.line[-1][:8]
    series = found.series(found.keys[1])
    assert newest.locator("td .text").nth(1).inner_text() == units.rate(series.gflops[-1], "GFLOPS")
    choose(tab, "unit", "µs")
    assert newest.locator("td .text").nth(1).inner_text() == f"{units.significant(1e6 * series.seconds[-1])} µs"
    assert "time" in tab.locator(".behind-chart summary").inner_text()
    change(tab, lambda: tab.uncheck("input[value=eager]"))
    assert tab.locator(".behind-chart thead th").all_inner_texts() == ["commit", "native"]


def test_rows_that_are_added_stand_under_their_heads_and_wait_to_be_seen(tab, long):  # noqa: F811
    """Laid out at once, a table of 10,000 rows of ten series keeps the page for seconds each time that it grows."""
    _, out = long
    show(tab, out, PAGE)
    button = tab.locator(f"{CARD} button")
    button.evaluate("""(button) => {
      window.said = [];
      new MutationObserver(() => window.said.push(button.textContent)).observe(button, { childList: true });
    }""")
    button.click()
    rows = tab.locator(f"{CARD} tbody tr")
    tab.wait_for_function(
        "document.querySelectorAll('.behind:not([hidden]) .case:not([hidden]) tbody tr').length === 1300"
    )
    assert tab.evaluate("window.said") == [
        "0 of 1,250 added",
        "400 of 1,250 added",
        "800 of 1,250 added",
        "1,200 of 1,250 added",
    ]
    assert rows.last.evaluate(SEEN) is False
    heads = tab.locator(f"{CARD} thead tr").evaluate(PLACES)
    rows.last.scroll_into_view_if_needed()
    tab.wait_for_function(f"({SEEN})({LAST})")
    assert rows.last.evaluate(PLACES) == heads == rows.first.evaluate(PLACES)


def test_every_choice_is_a_step_back(tab, long):  # noqa: F811
    _, out = long
    show(tab, out, PAGE)
    first = tab.input_value("select[name=unit]")
    choose(tab, "unit", "µs")
    change(tab, lambda: tab.uncheck("input[value=eager]"))
    change(tab, tab.go_back)
    assert tab.is_checked("input[value=eager]") and tab.input_value("select[name=unit]") == "µs"
    change(tab, tab.go_back)
    assert tab.input_value("select[name=unit]") == first and PAGE in tab.url
