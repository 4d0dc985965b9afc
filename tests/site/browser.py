"""The site in a real browser, from file://, without a server and without a network: a tab, and steps in it."""

import functools
import os
import shutil
from contextlib import contextmanager
from urllib.parse import urlencode

import pytest

from tests.waiting import PATIENCE

DESK = {"width": 1200, "height": 900}
TREND = "section.trend[data-ready=yes]"
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
PANEL = "document.querySelector('section.trend').panels[0]"
POINTS = """(name) => {
  const {model, chart} = PANEL;
  const line = model.lines.find((item) => item.name === name);
  const [first, last] = Trend.inView(chart, model);
  return {visible: line.visible, y: line.y, title: model.title, top: chart.scales.y.max,
          labels: model.commits.slice(first, last).map(({sha}) => sha.slice(0, 8))};
}""".replace("PANEL", PANEL)
INKED = """() => {
  const canvas = document.querySelector(".chart canvas");
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return data.reduce((count, value, index) => count + (index % 4 === 3 && value > 0), 0);
}"""
# Where something of the frame lies in the window, px
PIXEL = """([x, y]) => {
  const {chart} = PANEL;
  const box = chart.over.getBoundingClientRect();
  return [box.x + chart.valToPos(x, "x"), box.y + chart.valToPos(y, "y")];
}""".replace("PANEL", PANEL)


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
def playwright():
    """What drives the browsers: a process may have one of it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        yield driver


def launched(browser, program, **options):
    """Return a running browser of Playwright's."""
    return browser.launch(executable_path=program, timeout=1000 * PATIENCE, **options)


@functools.cache
def window(browser, *, offline=True, scripts=True, touch=False):
    """Return the window of a browser in which the tests open tabs. The pages store nothing that another tab could see.

    Only what hangs ends a step.
    """
    context = browser.new_context(offline=offline, java_script_enabled=scripts, has_touch=touch)
    context.set_default_timeout(1000 * PATIENCE)
    context.new_page()  # stays: beside it two pages in a tab take 1.0 s of processor, without it, or in windows, 1.9 s
    return context


@contextmanager
def opened(browser, size=DESK, **how):
    """A new tab of a window, without a network unless `how` is otherwise."""
    page = window(browser, **how).new_page()
    page.set_viewport_size(size)
    yield page
    page.close()


@pytest.fixture(scope="session")
def chromium(request):
    """A running headless Chromium."""
    program = executable("chromium", "chromium-browser", "google-chrome")
    browser = launched(request.getfixturevalue("playwright").chromium, program, args=ARGUMENTS)
    yield browser
    browser.close()


def is_complaint(message):
    # INKED, and not the page, reads canvases back
    return message.type in ("error", "warning") and "willReadFrequently" not in message.text


@contextmanager
def watched(browser, schemes=("file://", "data:"), **how):
    """A page that fails the test for anything it complains about, and for requests of other schemes."""
    complaints, requests = [], []
    with opened(browser, **how) as page:
        page.on("console", lambda message: complaints.append(message.text) if is_complaint(message) else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        yield page
    assert complaints == []
    assert all(url.startswith(schemes) for url in requests), requests


@pytest.fixture
def tab(chromium):
    """A page without a network that fails the test for anything it complains about."""
    with watched(chromium) as page:
        yield page


@pytest.fixture
def page(chromium):
    """A page without a network that may complain."""
    with opened(chromium) as page:
        yield page


@pytest.fixture
def without_script(chromium):
    """A page that runs no script."""
    with opened(chromium, scripts=False) as page:
        yield page


def show(tab, out, name, address="", **choices):
    """Open a page, at an address of its own, and wait until its chart or its data are there."""
    tab.goto("about:blank")
    address = address or urlencode(choices)
    tab.goto((out / name).as_uri() + (f"#{address}" if address else ""))
    waits = {
        "kernel": TREND,
        "compare.html": "body[data-ready=yes]",
        "commit": "body[data-ready=yes]",
        "measurement.html": "body[data-ready]",
    }
    selector = waits.get(name.partition("-")[0])
    if selector:
        tab.wait_for_selector(selector)


def hover(tab, name, index):
    """Move the mouse on to a dot of the chart and return its tooltip's text."""
    tab.wait_for_function(f"({INKED})() > 500")
    x, y = point(tab, index, tab.evaluate(POINTS, name)["y"][index])
    tab.mouse.move(x - 3, y)
    tab.mouse.move(x, y)
    tip = tab.locator(".tip")
    tip.wait_for(state="visible")
    return tip.text_content(), {"x": x, "y": y}


def change(tab, act):
    """Let the reader change a choice, and wait until the chart shows it."""
    drawn = "document.querySelector('section.trend').dataset.drawn"
    before = tab.evaluate(drawn)
    act()
    tab.wait_for_function(f"{drawn} !== {before!r}")


def choose(tab, name, value):
    change(tab, lambda: tab.select_option(f"select[name={name}]", value))


# What is drawn in view: "line: <name>", "dots: <name>", or the marks of a kind
SOURCE = """(name) => {
  const {model, chart} = PANEL;
  const {min, max} = chart.scales.x;
  const pick = (rows, key) => [key, rows.map((row) => row[key])];
  const columns = (rows) => Object.fromEntries(Object.keys(rows[0] ?? {x: 0}).map((key) => pick(rows, key)));
  const [, part, series] = /^(line|dots): (.*)$/s.exec(name) ?? [];
  const line = model.lines.find((item) => item.name === series);
  if (part === "line") return {x: line ? model.x : [], y: line?.y ?? []};
  if (part === "dots") return {x: line?.visible ? line.dots : []};
  const marks = {tag: model.marks.foot, environment: model.marks.foot}[name] ?? model.marks[name];
  return columns(marks.filter(({kind, x}) => (kind ?? name) === name && x >= min && x <= max).map(
    ({series: _, ...mark}) => ({...mark, label: name in {tag: 0, environment: 0} && !mark.box ? "" : mark.label})));
}""".replace("PANEL", PANEL)


def source(tab, name):
    return tab.evaluate(SOURCE, name)


def point(tab, x, y):
    return tab.evaluate(PIXEL, [x, y])


def range_of(tab):
    """Return the ends of the horizontal axis."""
    return tab.evaluate(f"(({{min, max}}) => [min, max])({PANEL}.chart.scales.x)")
