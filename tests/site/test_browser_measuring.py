"""Rooflines, machines and measurements in a real browser, from file://, without a network."""

import json
import math
import random
from urllib.parse import urlencode

import pytest

from kernel_velocity import units
from kernel_velocity.site import model, report
from kernel_velocity.site.outputs import series_name
from tests import synthetic
from tests.site import machine_records
from tests.site.test_browser import chromium, tab  # noqa: F401 - fixtures
from tests.site.test_report import AUTHOR, HOSTILE

pytestmark = pytest.mark.slow
PAGES = ("roofline.html", "machines.html", "measurement.html")
SOURCE = """(name) => {
  const plot = Bokeh.documents[0].roots()[0];
  const source = plot.renderers.map((item) => item.data_source).find((item) => item.name === name);
  return Object.fromEntries(Object.entries(source.data).map(([key, values]) => [key, Array.from(values)]));
}"""
POINT = """(index) => {
  const plot = Bokeh.documents[0].roots()[0];
  const view = Bokeh.index.get_by_id(plot.id);
  const data = plot.renderers.map((item) => item.data_source).find((item) => item.name === "points").data;
  const box = view.el.getBoundingClientRect();
  return {x: box.x + view.frame.x_scale.compute(data.x[index]), y: box.y + view.frame.y_scale.compute(data.y[index])};
}"""
MOVED = """(data) => {
  const plot = Bokeh.documents[0].roots()[0];
  plot.renderers.map((item) => item.data_source).find((item) => item.name === "points").data = data;
}"""
READY = "section.roofline[data-ready=yes]"

DEEP_TEXT = """(host) => {
  const text = (node) => [...(node.shadowRoot ?? node).childNodes].map((child) =>
    child.nodeType === Node.TEXT_NODE ? child.data : child.tagName === "STYLE" ? "" : text(child)).join("\\n");
  return text(host);
}"""


def whole(folder, **names):
    """Build a tree with everything that the pages show, and its site."""
    tree = synthetic.build(folder, **names)
    machine = names.get("machine", synthetic.MACHINE)
    if machine == synthetic.MACHINE:
        for index in range(5):
            machine_records.add_gauges(tree, index)
        path = tree.results / machine / "telemetry" / f"{machine_records.results_file(tree, 4).stem}.jsonl"
        path.write_text(path.read_text().replace('"h": 0.01', '"h": 0.9'))
    for index in range(3):
        machine_records.add_ceilings(tree, index, machine=machine, peak_float32=(90 - 8 * index) * 1e9)
        machine_records.add_session(tree, index, machine=machine, governor=f"<b>{index}</b>")
    rng = random.Random(0)
    samples = [1e-3 * math.exp(rng.gauss(0, 0.02)) for _ in range(600)]
    for number in (1, 2):
        machine_records.add_trace(tree.repository, samples[:: -1 if number == 1 else 1], process=f"process-{number:02}")
    out = folder / "site"
    report.write_site(results=tree.results, repository=tree.repository, out=out)
    return tree, out


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return whole(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    tree, _ = whole(
        tmp_path_factory.mktemp("hostile"),
        messages=HOSTILE,
        author=AUTHOR,
        machine=f"<img src=x> \u202e{'long_name_' * 12}",
    )
    for path in [tree.results / "benchmarks.json", *tree.results.glob("*/*.json"), *tree.results.glob("*/*/*.jsonl")]:
        path.write_text(path.read_text().replace("float32-5M", "float32-<b>{{5M}}</b>" + 150 * "x"))
    out = tree.repository.parent / "site"
    report.write_site(results=tree.results, repository=tree.repository, out=out)
    return tree, out


def show(tab, out, name, **address):  # noqa: F811
    tab.goto("about:blank")
    tab.goto((out / name).as_uri() + (f"#{urlencode(address)}" if address else ""))
    if name == "roofline.html":
        tab.wait_for_selector(READY)
    if name == "measurement.html":
        tab.wait_for_selector("body[data-ready]")


def test_each_series_path_over_the_commits(tab, site):  # noqa: F811
    tree, out = site
    show(tab, out, "roofline.html", benchmark="matmul.Cpu.time_hot", case="float32-512x512x512")
    points = tab.evaluate(SOURCE, "points")
    native = [place for place, name in enumerate(points["implementation"]) if name == "native"]
    assert [points["commit"][place] for place in native] == [sha[:8] for sha in tree.commits]
    assert [points["alpha"][place] for place in native] == sorted(points["alpha"][place] for place in native)
    assert points["alpha"][native[-1]] == 1 and points["alpha"][native[0]] < 0.2
    rates = [points["y"][place] for place in native]
    assert min(rates[2:]) > 2.2 * max(rates[:2])  # the planted step
    assert {points["x"][place] for place in native} == {2 * 512**3 / synthetic.bytes_moved("matmul", 512.0**3)}
    assert sorted(tab.evaluate(SOURCE, "names")["text"]) == ["eager", "native", "triton"]


def test_the_choice_is_in_the_address_and_comes_back(tab, site):  # noqa: F811
    _, out = site
    show(tab, out, "roofline.html")
    assert tab.locator("tr[data-series]:visible").count() == 6
    tab.select_option("select[name=benchmark]", "matmul.Cpu.time_hot")
    tab.select_option("select[name=case]", "float32-256x256x256")
    tab.uncheck("input[value=eager]")
    tab.wait_for_function("document.querySelectorAll('tr[data-series]:not([hidden])').length === 2")
    for part in ("machine=bench-1", "device=Cpu", "benchmark=matmul.Cpu.time_hot", "case=float32-256", "native"):
        assert part in tab.url
    tab.reload()
    tab.wait_for_selector(READY)
    assert tab.locator("tr[data-series]:visible").count() == 2
    assert not tab.locator("input[value=eager]").is_checked()
    assert set(tab.evaluate(SOURCE, "points")["implementation"]) == {"native", "triton"}


def test_all_kernels_are_their_newest_values(tab, site):  # noqa: F811
    tree, out = site
    show(tab, out, "roofline.html")
    tab.select_option("select[name=benchmark]", "")
    tab.wait_for_function("document.querySelector('.status').textContent.startsWith('12 series')")
    assert set(tab.evaluate(SOURCE, "points")["commit"]) == {tree.commits[-1][:8]}


def test_a_point_tells_and_a_click_opens_its_commit(tab, site):  # noqa: F811
    tree, out = site
    show(tab, out, "roofline.html", benchmark="matmul.Cpu.time_hot", case="float32-512x512x512")
    points = tab.evaluate(SOURCE, "points")
    index = max(place for place, name in enumerate(points["implementation"]) if name == "native")
    place = tab.evaluate(POINT, index)
    tab.mouse.move(place["x"] - 3, place["y"])
    tab.mouse.move(place["x"], place["y"])
    tip = tab.locator(".bk-Tooltip").first
    tip.wait_for(state="visible")
    text = tip.evaluate(DEEP_TEXT)
    for wanted in (tree.commits[-1][:8], "Name the tile sizes", "GFLOPS", "FLOP/B", "compute", "%"):
        assert wanted in text
    tab.mouse.click(place["x"], place["y"])
    tab.wait_for_url(f"**/commit-{tree.commits[-1][:8]}.html")


def test_a_click_on_points_that_overlap_opens_the_nearest(tab, site):  # noqa: F811
    _, out = site
    show(tab, out, "roofline.html", benchmark="matmul.Cpu.time_hot", case="float32-512x512x512")
    points = tab.evaluate(SOURCE, "points")
    older, newest = [place for place, name in enumerate(points["implementation"]) if name == "native"][-2:]
    points["y"][newest] = points["y"][older] * 1.005
    tab.evaluate(MOVED, points)
    place = tab.evaluate(POINT, older)
    tab.mouse.click(place["x"], place["y"])
    tab.wait_for_url(f"**/{points['page'][older]}")


def measurement(tree, index, wanted):
    """Return a measurement and the name of its series."""
    found = model.read(tree.results, tree.repository)
    items = found.at(tree.commits[index])
    (item,) = [each for each in items if (each.key.benchmark, each.key.implementation, each.key.case) == wanted]
    return item, series_name(item.key)


NATIVE = ("add_mul_exp.Cpu.time_hot", "native", "float32-500k")


def test_a_measurement_says_how_it_came_to_be(tab, site):  # noqa: F811
    tree, out = site
    item, name = measurement(tree, 3, NATIVE)
    show(tab, out, "measurement.html", commit=tree.commits[3], series=name)
    text = tab.locator("#measurement").inner_text()
    assert tab.locator("#value").inner_text().startswith(units.seconds(item.seconds))
    assert f"Adjusted: {units.seconds(item.adjusted.seconds)}," in text
    assert f"{units.seconds(item.interval.low)} to {units.seconds(item.interval.high)}" in text
    assert "median of the estimates of 8 rounds" in text
    assert tab.locator("#rounds tbody tr").count() == 8
    for title in ("Over time", "Distribution", "Lag plot", "Autocorrelation", "Gauge of the core"):
        assert title in text
    assert "converged the estimate was as sure as was asked for" in " ".join(text.split())
    assert tab.locator("#commit a").get_attribute("href") == f"commit-{tree.commits[3][:8]}.html"


def test_choosing_another_series_changes_the_address(tab, site):  # noqa: F811
    tree, out = site
    show(tab, out, "measurement.html")
    assert tree.commits[-1] in tab.url
    tab.select_option("select[name=benchmark]", "matmul.Cpu.time_hot")
    tab.wait_for_function("document.getElementById('title').textContent.startsWith('matmul')")
    tab.select_option("select[name=commit]", tree.commits[0])
    tab.wait_for_function(f"location.hash.includes('{tree.commits[0]}')")
    assert "matmul" in tab.locator("#title").inner_text()


def test_an_address_of_nothing_says_so(tab, site):  # noqa: F811
    tree, out = site
    show(tab, out, "measurement.html", commit="f" * 40, series="series-0")
    assert "Nothing is recorded" in tab.locator("#status").inner_text()
    assert tab.locator("#rounds tbody tr").count() == 8
    tab.evaluate(f"location.hash = 'commit={tree.commits[1]}'")
    tab.wait_for_function(f"document.body.dataset.ready.startsWith('{tree.commits[1]}')")
    assert tab.locator("#status").inner_text() == ""


def test_raw_samples_are_shown_where_they_are_kept(tab, site):  # noqa: F811
    tree, out = site
    show(tab, out, "measurement.html", series=measurement(tree, 4, NATIVE)[1], commit=tree.commits[4])
    assert tab.locator("#trace svg").count() == 4
    assert tab.locator("#trace option").count() == 2
    before = tab.locator("#trace circle").nth(3).get_attribute("cy")
    tab.select_option("#trace select", index=1)
    assert tab.locator("#trace circle").nth(3).get_attribute("cy") != before
    tab.select_option("select[name=implementation]", "eager")
    tab.wait_for_selector("#trace code")


@pytest.mark.parametrize("width", [360, 1200])
def test_no_page_is_wider_than_its_window(tab, site, hostile, width):  # noqa: F811
    tab.set_viewport_size({"width": width, "height": 800})
    for _, out in (site, hostile):
        for name in PAGES:
            show(tab, out, name)
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, name


def test_hostile_names_are_shown_and_not_executed(tab, hostile):  # noqa: F811
    _, out = hostile
    for name in PAGES:
        show(tab, out, name)
        assert tab.evaluate("window.pwned") is None
        assert tab.locator("img, main b, main i").count() == 0
    options = tab.locator("select[name=commit] option").all_inner_texts()
    assert any("<script>" in text for text in options)


def test_the_chart_follows_the_readers_colours(tab, site):  # noqa: F811
    _, out = site
    colour = "Bokeh.documents[0].roots()[0].center.find((part) => 'text_color' in part).text_color"
    tab.emulate_media(color_scheme="light")
    show(tab, out, "roofline.html")
    light = tab.evaluate(colour)
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function(f"{colour} !== {light!r}")


def test_without_a_script_the_table_is_all_there(chromium, site):  # noqa: F811
    _, out = site
    context = chromium.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto((out / "roofline.html").as_uri())
    assert page.locator("tr[data-series]:visible").count() == 12
    page.goto((out / "machines.html").as_uri())
    assert page.locator("svg.history").count() > 10
    context.close()


def test_the_data_beside_the_pages_is_json(site):
    _, out = site
    for path in (out / "data").glob("*.json"):
        text = path.read_text()
        assert json.loads(text) and not {"NaN", "Infinity"} & set(text.replace(",", " ").replace(":", " ").split())


def test_nothing_is_drawn_beyond_a_chart(tab, site):  # noqa: F811
    """A round whose own samples leave open far more than the rounds differ by."""
    tree, out = site
    show(tab, out, "measurement.html", series=measurement(tree, 4, NATIVE)[1], commit=tree.commits[4])
    reach = "(item) => { const box = item.getBBox(); return [box.y, box.y + box.height]; }"
    drawn = [item.evaluate(reach) for item in tab.locator("svg.plot .whisker").all()]
    assert len(drawn) == 8
    assert all(0 <= top <= bottom <= 250 for top, bottom in drawn), drawn
