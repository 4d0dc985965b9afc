"""The site in a real browser, from file://, without a server and without a network."""

import os
import re
import shutil

import pytest

from kernel_velocity.site import report
from tests import synthetic
from tests.site.test_report import AUTHOR, HOSTILE

ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
POINTS = """(name) => {
  const plot = Bokeh.documents[0].roots()[0];
  const renderer = plot.renderers.find((item) => item.name === `line: ${name}`);
  return {visible: renderer.visible, y: Array.from(renderer.data_source.data.y), unit: plot.left[0].axis_label,
          top: plot.y_range.end, labels: Array.from(plot.below[0].major_label_overrides.values())};
}"""
# Canvases lie in the shadow DOM of Bokeh's views
INKED = """() => {
  const canvases = [];
  const walk = (node) => {
    if (node.shadowRoot) walk(node.shadowRoot);
    for (const child of node.children) { if (child.tagName === "CANVAS") canvases.push(child); walk(child); }
  };
  walk(document.querySelector(".chart"));
  return Math.max(...canvases.map((canvas) => {
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return data.reduce((count, value, index) => count + (index % 4 === 3 && value > 0), 0);
  }));
}"""
DOT = """(place) => {
  const plot = Bokeh.documents[0].roots()[0];
  const view = Bokeh.index.get_by_id(plot.id);
  const data = plot.renderers.find((item) => item.name === `line: ${place.name}`).data_source.data;
  const box = view.el.getBoundingClientRect();
  const frame = view.frame;
  return {x: box.x + frame.x_scale.compute(place.index), y: box.y + frame.y_scale.compute(data.y[place.index])};
}"""


@pytest.fixture(scope="module")
def chromium():
    """A running headless Chromium."""
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if executable is None:
        message = "no Chromium on PATH: the pages are not looked at in a browser"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The synthetic tree and its site."""
    return written(synthetic.build(tmp_path_factory.mktemp("plain")))


def written(tree):
    """Write the site of a tree with the data of its series; return both."""
    out = tree.repository.parent / "site"
    report.write_site(results=tree.results, repository=tree.repository, out=out)
    return tree, out


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A site made of commit messages that want to be code."""
    return written(synthetic.build(tmp_path_factory.mktemp("hostile"), messages=HOSTILE, author=AUTHOR))


def is_complaint(message):
    # INKED, and not the page, reads canvases back
    return message.type in ("error", "warning") and "willReadFrequently" not in message.text


@pytest.fixture
def tab(chromium):
    """A page without a network that fails the test for anything it complains about."""
    context = chromium.new_context(offline=True, viewport={"width": 1200, "height": 900})
    page = context.new_page()
    complaints, requests = [], []
    page.on("console", lambda message: complaints.append(message.text) if is_complaint(message) else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    yield page
    context.close()
    assert complaints == []
    assert all(url.startswith(("file://", "data:")) for url in requests), requests


def show(tab, out, name):
    tab.goto((out / name).as_uri())
    if name.startswith("kernel"):
        tab.wait_for_selector("section.trend[data-ready=yes]")


def hover(tab, name, index):
    """Move the mouse on to a dot of the chart and return its tooltip's text."""
    tab.wait_for_function(f"({INKED})() > 500")
    place = tab.evaluate(DOT, {"name": name, "index": index})
    tab.mouse.move(place["x"] - 3, place["y"])
    tab.mouse.move(place["x"], place["y"])
    tip = tab.locator(".tip")
    tip.wait_for(state="visible")
    return tip.text_content(), place


def change(tab, act):
    """Let the reader change a choice, and wait until the chart shows it."""
    drawn = "document.querySelector('section.trend').dataset.drawn"
    before = tab.evaluate(drawn)
    act()
    tab.wait_for_function(f"{drawn} !== {before!r}")


def choose(tab, name, value):
    change(tab, lambda: tab.select_option(f"select[name={name}]", value))


def test_the_trend_shows_the_planted_step(tab, site):
    tree, out = site
    show(tab, out, "kernel-add_mul_exp-Cpu.html")
    tab.wait_for_function(f"({INKED})() > 500")
    native = tab.evaluate(POINTS, "native")
    before, after = native["y"][:2], native["y"][2:]
    assert min(after) > 2.4 * max(before)
    assert native["top"] > max(after)
    assert native["labels"] == [sha[:8] for sha in tree.commits]
    assert native["unit"] == "GFLOPS"
    eager = tab.evaluate(POINTS, "eager")["y"]
    assert max(eager) < 1.02 * min(eager)


def test_the_reader_chooses_unit_test_case_and_implementations(tab, site):
    _, out = site
    show(tab, out, "kernel-add_mul_exp-Cpu.html")
    assert tab.locator(".case:visible").count() == 1
    first = tab.evaluate(POINTS, "native")
    choose(tab, "unit", "GB/s")
    traffic = tab.evaluate(POINTS, "native")
    assert traffic["unit"] == "GB/s"
    assert traffic["y"] == pytest.approx([4 * value for value in first["y"]])  # 12 bytes and 3 FLOP an element
    choose(tab, "case", "float32-500k")
    assert tab.evaluate(POINTS, "native")["y"] != traffic["y"]
    assert tab.locator(".case:visible h3").inner_text().startswith("float32-500k")
    change(tab, lambda: tab.uncheck("input[value=native]"))
    assert tab.evaluate(POINTS, "native")["visible"] is False
    assert tab.evaluate(POINTS, "eager")["visible"] is True


def test_hovering_tells_and_a_click_opens_the_commit(tab, site):
    tree, out = site
    show(tab, out, "kernel-matmul-Cpu.html")
    text, place = hover(tab, "native", 2)
    for wanted in (tree.commits[2][:8], "Vectorise the inner loops", "Ada Lovelace", "GFLOPS", "2.50x faster", "8"):
        assert wanted in text
    tab.mouse.click(place["x"], place["y"])
    tab.wait_for_url(f"**/commit-{tree.commits[2][:8]}.html")
    assert tab.locator("h1").inner_text() == "Vectorise the inner loops"


def test_links_lead_from_page_to_page(tab, site):
    tree, out = site
    show(tab, out, "index.html")
    tab.get_by_role("link", name="matmul").first.click()
    tab.wait_for_selector("section.trend[data-ready=yes]")
    tab.locator(".case:visible a.sha").first.click()
    assert tab.locator("dd.sha").first.inner_text() == tree.commits[-1]
    tab.locator("a[rel=prev]").click()
    assert tab.locator("dd.sha").first.inner_text() == tree.commits[-2]
    tab.locator("a.brand").click()
    assert tab.title().startswith("Kernels")


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("name", ["index.html", "kernel-matmul-Cpu.html"])
def test_no_page_is_wider_than_its_window(tab, site, name, width):
    tree, out = site
    tab.set_viewport_size({"width": width, "height": 800})
    for page in (name, f"commit-{tree.commits[0][:8]}.html"):
        show(tab, out, page)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


ROWS = ".grid tbody tr:visible"


def wait_for_rows(tab, count):
    """Wait until so many rows are shown: to reset a form, or to step through the history, takes a moment."""
    shown = "document.querySelectorAll('.grid:not([hidden]) tbody tr:not([hidden])').length"
    tab.wait_for_function(f"{shown} === {count}")


@pytest.mark.slow
def test_filters_work_by_keyboard_and_live_in_the_url(tab, site):
    _, out = site
    show(tab, out, "index.html")
    said = tab.locator("form.filters output")
    assert (tab.locator(ROWS).count(), said.inner_text()) == (6, "all 6 rows shown")
    tab.locator("select[name=kernel]").focus()
    tab.keyboard.press("m")  # a native control: the first letter chooses matmul
    wait_for_rows(tab, 3)
    assert said.inner_text() == "3 rows shown, 3 hidden"
    assert tab.url.endswith("index.html#kernel=matmul")
    tab.locator("select[name=implementation]").select_option("native")
    assert tab.url.endswith("#kernel=matmul&implementation=native")
    tab.reload()
    assert tab.locator(ROWS).count() == 1
    assert tab.locator("select[name=implementation]").input_value() == "native"
    tab.go_back()
    wait_for_rows(tab, 3)
    tab.get_by_role("button", name="show all").press("Enter")
    wait_for_rows(tab, 6)
    assert "#" not in tab.url


@pytest.mark.slow
def test_a_filter_that_nothing_matches_says_what_it_hides(tab, site):
    _, out = site
    show(tab, out, "index.html")
    tab.evaluate("window.location.hash = 'kernel=<b>gone</b>'")
    tab.wait_for_function("document.querySelectorAll('.grid[hidden]').length === 1")
    assert tab.locator("form.filters output").inner_text() == "0 rows shown, 6 hidden"
    assert (
        tab.locator("select[name=kernel]").evaluate("(select) => select.selectedOptions[0].text")
        == "<b>gone</b> (not here)"
    )
    tab.evaluate("window.location.hash = 'place-1'")  # what the filter hides ends it
    tab.wait_for_function("document.querySelectorAll('.grid[hidden]').length === 0")
    assert tab.locator(ROWS).count() == 6


@pytest.mark.slow
def test_without_a_script_home_and_commit_pages_show_everything(chromium, site):
    tree, out = site
    context = chromium.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto((out / "index.html").as_uri() + "#kernel=matmul")
    assert page.locator(ROWS).count() == 6
    assert page.locator("form.filters:visible").count() == 0
    page.goto((out / f"commit-{tree.commits[2][:8]}.html").as_uri())
    assert page.locator("tbody tr:visible").count() == 12
    context.close()


@pytest.mark.slow
def test_home_loads_no_chart_library_and_says_how_long_ago_things_were(tab, site):
    _, out = site
    requests = []
    tab.on("request", lambda request: requests.append(request.url))
    show(tab, out, "index.html")
    assert not [url for url in requests if "bokeh" in url]
    assert re.search(r"2026-01-01 01:06 UTC \(\d+ days ago\)", tab.locator(".verdicts").inner_text())


def test_the_chart_follows_the_readers_colours(tab, site):
    _, out = site
    colour = "Bokeh.documents[0].roots()[0].below[0].major_label_text_color"
    tab.emulate_media(color_scheme="light")
    show(tab, out, "kernel-matmul-Cpu.html")
    light = tab.evaluate(colour)
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function(f"{colour} !== {light!r}")


def test_without_a_script_the_tables_are_all_there(chromium, site):
    _, out = site
    context = chromium.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto((out / "kernel-matmul-Cpu.html").as_uri())
    assert page.locator(".case:visible").count() == 2
    context.close()


def test_hostile_messages_are_shown_and_not_executed(tab, hostile):
    tree, out = hostile
    for name in ("index.html", "kernel-matmul-Cpu.html", *(f"commit-{sha[:8]}.html" for sha in tree.commits)):
        show(tab, out, name)
        assert tab.evaluate("window.pwned") is None
        assert tab.locator("img, body script:not([type]), main b").count() == 0
    show(tab, out, "kernel-matmul-Cpu.html")
    for index, message in enumerate(HOSTILE):
        text, _ = hover(tab, "eager", index)
        assert message.partition("\n")[0] in text
        assert AUTHOR in text
        assert tab.evaluate("window.pwned") is None
