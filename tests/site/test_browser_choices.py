"""Choices in a real browser whose data are lost, late, or one value only; and the reader's way back."""

import shutil

import pytest

from tests.site.test_browser import chromium, tab  # noqa: F401 - fixtures
from tests.site.test_browser_measuring import NATIVE, READY, SOURCE, measurement, show, site  # noqa: F401 - fixture

pytestmark = pytest.mark.slow
HASH = "decodeURIComponent(location.hash)"


@pytest.fixture
def losing(chromium, site, tmp_path):  # noqa: F811
    """Return a function that opens a copy of the site without some data files, whose complaints are no failure."""
    context = chromium.new_context(offline=True, viewport={"width": 1200, "height": 900})

    def opened(name, *lost, **address):
        out = tmp_path / "site"
        shutil.copytree(site[1], out)
        for pattern in lost:
            for path in out.glob(f"data/{pattern}.js"):
                path.unlink()
        page = context.new_page()
        page.goto((out / name).as_uri() + "".join(f"#{key}={value}" for key, value in address.items()))
        return page

    yield opened
    context.close()


def test_no_number_stands_under_the_commit_of_lost_rounds(losing, site):  # noqa: F811
    tree, _ = site
    page = losing("measurement.html", f"rounds-{tree.commits[1][:8]}-0")
    page.wait_for_selector("body[data-ready]")
    page.select_option("select[name=commit]", tree.commits[1])
    page.wait_for_function("document.getElementById('status').textContent.includes('cannot be loaded')")
    assert page.locator("#measurement").is_hidden()
    assert page.locator("#commit").inner_text().startswith(tree.commits[1][:8])
    assert f"commit={tree.commits[1]}" in page.url
    page.reload()
    page.wait_for_function("document.getElementById('status').textContent.includes('cannot be loaded')")
    assert page.input_value("select[name=commit]") == tree.commits[1]


def test_late_samples_leave_the_address_of_what_is_shown(tab, site):  # noqa: F811
    tree, out = site
    _, name = measurement(tree, 4, NATIVE)
    show(tab, out, "measurement.html", commit=tree.commits[4])
    tab.evaluate("""() => {
      const load = KV.load;
      window.held = [];
      KV.load = async (name) => {
        if (name.startsWith("traces-")) await new Promise((resolve) => window.held.push(resolve));
        return load(name);
      };
    }""")
    tab.evaluate(f"location.hash = 'commit={tree.commits[4]}&series={name}'")
    tab.wait_for_function("window.held.length > 0")
    tab.select_option("select[name=commit]", tree.commits[0])
    tab.select_option("select[name=implementation]", "eager")  # which has no trace to wait for
    tab.wait_for_function(f"document.body.dataset.ready.startsWith('{tree.commits[0]}')")
    chosen = tab.evaluate(HASH)
    tab.evaluate("window.held.forEach((resolve) => resolve())")
    tab.evaluate("new Promise((resolve) => setTimeout(resolve, 50))")
    assert tab.evaluate(HASH) == chosen
    assert tab.evaluate("document.body.dataset.ready").startswith(tree.commits[0])


def test_every_choice_of_a_measurement_is_a_step_and_the_trace_is_in_the_address(tab, site):  # noqa: F811
    tree, out = site
    _, name = measurement(tree, 4, NATIVE)
    show(tab, out, "measurement.html", commit=tree.commits[4], series=name)
    tab.wait_for_selector("#trace select")
    tab.select_option("#trace select", "process-02")
    assert "trace=process-02" in tab.url
    second = tab.locator("#trace circle").nth(3).get_attribute("cy")
    tab.reload()
    tab.wait_for_selector("#trace select")
    assert tab.input_value("#trace select") == "process-02"
    assert tab.locator("#trace circle").nth(3).get_attribute("cy") == second
    tab.select_option("select[name=commit]", tree.commits[0])
    tab.wait_for_function(f"document.body.dataset.ready.startsWith('{tree.commits[0]}')")
    tab.go_back()
    tab.wait_for_function(f"document.body.dataset.ready.startsWith('{tree.commits[4]}')")
    assert tab.input_value("#trace select") == "process-02"


def test_lost_data_of_a_roofline_are_named(losing):
    page = losing("roofline.html", "roofline-*")
    page.wait_for_function("document.querySelector('.status').textContent !== ''")
    assert "data/roofline-0-Cpu.js" in page.locator(".status").inner_text()


def test_a_single_value_is_the_newest(tab, site):  # noqa: F811
    show(tab, site[1], "roofline.html")
    one = "{flop: 1, operation: 'FLOP', bytes: 1, seconds: 1, kernel: 'k', case: 'c', implementation: 'i', "
    one += "least: null, bound: ''}"
    drawn = f"(count) => points({one}, {{commit: Array(count).fill('a'.repeat(40)), seconds: Array(count).fill(1)}}"
    drawn += ", new Map()).map((row) => [Math.round(100 * row.alpha), row.size])"
    assert tab.evaluate(drawn, 1) == [[100, 11]]
    assert tab.evaluate(drawn, 3) == [[15, 6], [57, 6], [100, 11]]


def test_what_a_roofline_draws_is_a_table_too(tab, site):  # noqa: F811
    tree, out = site
    show(tab, out, "roofline.html", benchmark="matmul.Cpu.time_hot", case="float32-512x512x512")
    tab.click(".behind-chart summary")
    points = tab.evaluate(SOURCE, "points")
    told = tab.locator(".behind-chart tbody tr").evaluate_all("(rows) => rows.map((row) => row.innerText.split('\\t'))")
    drawn = zip(*(points[name] for name in ("commit", "implementation", "rate", "time")), strict=True)
    assert sorted((row[0], row[2], row[4], row[8]) for row in told) == sorted(drawn)
    assert told[0][0] == tree.commits[-1][:8]


def test_no_implementation_is_a_choice_and_every_choice_a_step(tab, site):  # noqa: F811
    _, out = site
    show(tab, out, "roofline.html")
    for number, name in enumerate(["eager", "native", "triton"]):
        tab.uncheck(f"input[value={name}]")
        tab.wait_for_function(
            f"document.querySelectorAll('tr[data-series]:not([hidden])').length === {2 * (2 - number)}"
        )
    tab.reload()
    tab.wait_for_selector(READY)
    assert tab.locator("input:checked").count() == 0 and tab.evaluate(SOURCE, "points")["x"] == []
    for number in (2, 4, 6):
        tab.go_back()
        tab.wait_for_function(f"document.querySelectorAll('tr[data-series]:not([hidden])').length === {number}")
    assert "#" not in tab.url and tab.locator("input:checked").count() == 3


def test_an_address_holds_the_choices_of_several_sections(tab, site):  # noqa: F811
    _, out = site
    show(tab, out, "roofline.html")
    tab.evaluate("location.hash = 'machine=a&case=x&implementation=&machine=bench-1&case=float32-5M'")
    tab.wait_for_function("document.querySelector('select[name=case]').value === 'float32-5M'")
    assert tab.evaluate("groups().map(String)") == [
        "machine=a&case=x&implementation=",
        "machine=bench-1&case=float32-5M",
    ]
    assert tab.locator("input:checked").count() == 3


def test_a_label_goes_where_no_roofs_label_and_no_other_is(tab, site):  # noqa: F811
    """The slope's own label, too: it moves up the slope, away from a point."""
    show(tab, site[1], "roofline.html")
    aligned, slope = tab.evaluate("""() => {
      const range = { start: 1, end: 100 };
      const align = (text, x, y, text_align) => ({ text, x, y, text_align, x_offset: 10, y_offset: -7 });
      const [slope, level] = [align("DRAM 30.5 GB/s", 10, 10, "left"), align("float32", 100, 50, "right")];
      slope.setv = (place) => Object.assign(slope, place);
      const plot = { inner_width: 600, inner_height: 400, x_range: range, y_range: range, center: [slope, level] };
      const points = [10, 10, 50].map((at) => ({ x: at, y: at }));
      const found = RooflineLabels.placed(plot, points, ["a", "b", "c"]);
      const moved = RooflineLabels.placed(plot, [{ x: 1.2, y: 1.1 }], ["a"]);
      return [found.align.map((align, index) => [align, found.down[index]]), [slope.x, slope.y, moved.down[0]]];
    }""")
    assert aligned[2][0] == "right" and aligned[0] != aligned[1]
    assert slope[0] > 1.2 and slope[0] == pytest.approx(slope[1]) and slope[2] == 0
