"""The site in a real browser, from file://, without a server and without a network: a tab, and steps in it."""

import os
import shutil
from contextlib import contextmanager
from urllib.parse import urlencode

import pytest

TREND, ROOFLINE = "section.trend[data-ready=yes]", "section.roofline[data-ready=yes]"
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


def executable(*names):
    """Return the program of a browser. Where CI lacks it the tests fail, elsewhere they are skipped."""
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        message = f"no {names[0]} on PATH: the pages are not looked at in it"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return path


@pytest.fixture(scope="session")
def chromium():
    """A running headless Chromium."""
    program = executable("chromium", "chromium-browser", "google-chrome")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


def is_complaint(message):
    # INKED, and not the page, reads canvases back
    return message.type in ("error", "warning") and "willReadFrequently" not in message.text


@contextmanager
def watched(browser, schemes=("file://", "data:"), *, offline=True):
    """A page that fails the test for anything it complains about, and for requests of other schemes."""
    context = browser.new_context(offline=offline, viewport={"width": 1200, "height": 900})
    page = context.new_page()
    complaints, requests = [], []
    page.on("console", lambda message: complaints.append(message.text) if is_complaint(message) else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    yield page
    context.close()
    assert complaints == []
    assert all(url.startswith(schemes) for url in requests), requests


@pytest.fixture
def tab(chromium):
    """A page without a network that fails the test for anything it complains about."""
    with watched(chromium) as page:
        yield page


@pytest.fixture
def without_script(chromium):
    """A page that runs no script."""
    context = chromium.new_context(java_script_enabled=False, offline=True)
    yield context.new_page()
    context.close()


def show(tab, out, name, address="", **choices):
    """Open a page, at an address of its own, and wait until its chart or its data are there."""
    tab.goto("about:blank")
    address = address or urlencode(choices)
    tab.goto((out / name).as_uri() + (f"#{address}" if address else ""))
    waits = {"kernel": TREND, "roofline.html": ROOFLINE}
    waits |= dict.fromkeys(("compare.html", "measurement.html"), "body[data-ready]")
    selector = waits.get(name.partition("-")[0])
    if selector:
        tab.wait_for_selector(selector)


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


SOURCE = """(name) => {
  const source = Bokeh.documents[0].roots()[0].renderers.find((item) => item.name === name).data_source;
  return Object.fromEntries(Object.entries(source.data).map(([key, column]) => [key, Array.from(column)]));
}"""
# Where something of the frame lies in the window, px
PLACE = """([x, y]) => {
  const view = Bokeh.index.get_by_id(Bokeh.documents[0].roots()[0].id);
  const box = view.el.getBoundingClientRect();
  return [box.x + view.frame.x_scale.compute(x), box.y + view.frame.y_scale.compute(y)];
}"""


def source(tab, name):
    return tab.evaluate(SOURCE, name)


def point(tab, x, y):
    return tab.evaluate(PLACE, [x, y])


def range_of(tab, axis):
    return tab.evaluate(f"(({{start, end}}) => [start, end])(Bokeh.documents[0].roots()[0].{axis}_range)")
