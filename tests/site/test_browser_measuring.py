"""Rooflines, machines and measurements in a real browser, from file://, without a network."""

import re
import shutil

import pytest

from kernel_velocity import units
from kernel_velocity.site import model
from kernel_velocity.site.writer import series_name
from tests import synthetic
from tests.site import machine_records
from tests.site.browser import show
from tests.site.sites import written
from tests.site.test_integer_rates import FLOATS, INTEGERS, units_of

pytestmark = pytest.mark.slow

SHOWN = "tr[data-series]:visible"
DOTS = "svg.frame .mark:visible"
MATMUL = {"benchmark": "matmul.Cpu.time_hot", "case": "float32-512x512x512"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site with all that these pages show: gauges, ceilings, sessions. One round is of open estimate."""
    tree = synthetic.build(tmp_path_factory.mktemp("measuring"))
    for index in range(5):
        machine_records.add_gauges(tree, index)
    path = machine_records.telemetry_of(tree, 4)
    path.write_text(path.read_text().replace('"h": 0.01', '"h": 0.9'))
    for index in range(3):
        machine_records.add_ceilings(tree, index, peak_float32=(90 - 8 * index) * 1e9)
    return tree, written(tree)[1]


def titles(tab, **names):
    """Return what the visible dots with some names say, in the order drawn."""
    selector = "svg.frame .mark" + "".join(f'[data-{name}="{value}"]' for name, value in names.items())
    return [dot.locator("title").text_content() for dot in tab.locator(selector).all() if dot.is_visible()]


def test_roofline_of_all_kernels(tab, site):
    """A dot for the newest value of every series, and one for the level before the planted step."""
    tree, out = site
    show(tab, out, "roofline.html")
    newest, older = tab.locator(".mark:not(.older)"), tab.locator(".mark.older")
    assert newest.count() == tab.locator(SHOWN).count() == 12
    step = tree.commits[2]
    left = titles(tab, implementation="native", **MATMUL)[0]
    assert left.startswith("matmul, hot · float32-512x512x512 · native: 4.99 GFLOPS")
    assert f" until {step[:8]} Vectorise the inner loops: 2.5" in left and left.endswith("× faster")
    assert {dot.get_attribute("href") for dot in older.all()} == {f"commit-{step[:8]}.html"}


TICKS = """(anchor) => Object.fromEntries([...document.querySelectorAll("svg.frame text")]
  .filter((item) => item.getAttribute("text-anchor") === anchor)
  .map((item) => [item.textContent, parseFloat(item.getAttribute(anchor === "end" ? "y" : "x"))]))"""


def test_roofline_dot_lies_where_its_numbers_say(tab, site):
    """Held against the plot's own ticks."""
    _, out = site
    show(tab, out, "roofline.html", **MATMUL, implementation="native")
    across, up = tab.evaluate(TICKS, "middle"), tab.evaluate(TICKS, "end")
    moved = tab.locator(".mark:visible:not(.older) > path").get_attribute("style")
    x, y = map(float, re.findall(r"([\d.]+)%", moved))
    intensity = 10 ** ((x - across["1"]) / (across["10"] - across["1"]))
    assert intensity == pytest.approx(2 * 512**3 / synthetic.bytes_moved("matmul", 512.0**3), rel=0.01)
    rate = 10 ** ((y - up["1 G"]) / (up["10 G"] - up["1 G"]))
    assert rate == pytest.approx(float(titles(tab)[-1].partition("native: ")[2].partition(" ")[0]), rel=0.01)


def test_roofline_hover_focus_and_click(tab, site):
    tree, out = site
    show(tab, out, "roofline.html", **MATMUL, implementation="native")
    dot, line = tab.locator(".mark:visible:not(.older)"), tab.locator(".shown")
    dot.hover()
    for wanted in (tree.commits[-1][:8], "Name the tile sizes", "GFLOPS", "FLOP/B", "% of float32 peak"):
        assert wanted in line.text_content()
    tab.locator(".mark.older:visible").focus()
    assert "until" in line.text_content()
    tab.keyboard.press("Tab")  # the next dot
    assert "Name the tile sizes" in line.text_content()
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"**/commit-{tree.commits[-1][:8]}.html")


def measurement(tree, index, wanted):
    """Return a measurement and the name of its series."""
    site = model.read(tree.results, tree.repository)
    values = site.past.at(tree.commits[index])
    (value,) = [value for value in values if (value.key.benchmark, value.key.implementation, value.key.case) == wanted]
    return value, series_name(value.key)


NATIVE = ("add_mul_exp.Cpu.time_hot", "native", "float32-500k")


def test_measurement_in_words(tab, site):
    tree, out = site
    value, name = measurement(tree, 3, NATIVE)
    show(tab, out, "measurement.html", commit=tree.commits[3], series=name)
    text = tab.locator("#measurement").inner_text()
    assert tab.locator("#value").inner_text().startswith(units.seconds(value.seconds))
    assert f"Adjusted: {units.seconds(value.adjusted.seconds)}," in text
    assert f"{units.seconds(value.interval.low)} to {units.seconds(value.interval.high)}" in text
    assert "median of the estimates of 8 rounds" in text
    assert tab.locator("#rounds tbody tr").count() == 8
    assert tab.locator("#charts strong").all_inner_texts()[:2] == ["Over time", "Gauge of the core"]
    assert "converged the estimate reached the wanted precision" in " ".join(text.split())
    assert tab.locator("#commit a").get_attribute("href") == f"commit-{tree.commits[3][:8]}.html"


def test_sentences_on_a_value(tab, site):
    _, out = site
    show(tab, out, "measurement.html")
    rounds = [
        {"counts": True, "estimate": 1e-3},
        {"counts": True, "estimate": 1.25e-3},
        {"counts": False, "estimate": 9.0},
    ]
    interval = {"interval": "95% interval", "low": 0.99e-3, "high": 1.02e-3}
    none = {"interval": None, "low": None, "high": None}
    for series, stored, wanted in (
        ({"value": None, **none}, rounds, ["There is no value: the remarks say why."]),
        (
            {"value": 1e-3, **interval},
            rounds,
            [
                "The value is the median of the estimates of 2 rounds, from 1.00 ms to 1.25 ms.",
                "95% interval: 990 µs to 1.02 ms, −1.00% to +2.00%.",
            ],
        ),
        (
            {"value": 1e-3, **none},
            rounds[2:],
            [
                "The value is the one that asv stored: the rounds below are not those that it was made from.",
                "There is no interval: the remarks say what is missing.",
            ],
        ),
    ):
        assert tab.evaluate("([series, rounds]) => formed(series, rounds)", [series, stored]) == wanted
    tab.evaluate(
        """(rounds) => showRounds({ columns: [], words: { converged: 'sure' } },
          rounds.map((round) => ({ stop: 'converged', ...round })))""",
        rounds,
    )
    assert tab.locator("#words dt").all_inner_texts() == ["converged", "grey dots"]


def test_measurement_of_nothing(tab, site):
    tree, out = site
    show(tab, out, "measurement.html", commit="f" * 40, series="series-0")
    assert "Nothing is recorded" in tab.locator("#status").inner_text()
    assert tab.locator("#rounds tbody tr").count() == 8
    tab.select_option("select[name=series]", measurement(tree, 4, ("matmul.Cpu.time_hot", "native", MATMUL["case"]))[1])
    tab.wait_for_function("document.getElementById('title').textContent.startsWith('matmul')")
    tab.evaluate(f"location.hash = 'commit={tree.commits[1]}'")
    tab.wait_for_function(f"document.body.dataset.ready.startsWith('{tree.commits[1]}')")
    assert tab.locator("#status").inner_text() == ""


def test_whiskers_stay_in_the_chart(tab, site):
    """A round whose own samples leave open far more than the rounds differ by."""
    tree, out = site
    show(tab, out, "measurement.html", series=measurement(tree, 4, NATIVE)[1], commit=tree.commits[4])
    reach = "(item) => { const box = item.getBBox(); return [box.y, box.y + box.height]; }"
    drawn = [whisker.evaluate(reach) for whisker in tab.locator("svg.plot .whisker").all()]
    assert len(drawn) == 8
    assert all(0 <= top <= bottom <= 250 for top, bottom in drawn), drawn


# ---- choices, lost and late data --------------------------------------------------------------------------------


@pytest.fixture
def losing(page, site, tmp_path):
    """Return a function that opens a copy of the site without some data files, whose complaints are no failure."""

    def opened(name, lost):
        out = shutil.copytree(site[1], tmp_path / "site")
        for path in out.glob(f"data/{lost}.js"):
            path.unlink()
        page.goto((out / name).as_uri())
        return page

    return opened


def test_lost_rounds(losing, site):
    tree, _ = site
    page = losing("measurement.html", f"rounds-{tree.commits[1][:8]}-0")
    page.wait_for_selector("body[data-ready]")
    page.select_option("select[name=commit]", f"{tree.commits[1]} 0")
    for _ in range(2):
        page.wait_for_function("document.getElementById('status').textContent.includes('cannot be loaded')")
        assert page.locator("#measurement").is_hidden()
        assert page.locator("#commit").inner_text().startswith(tree.commits[1][:8])
        assert f"commit={tree.commits[1]}" in page.url
        assert page.input_value("select[name=commit]") == f"{tree.commits[1]} 0"
        page.reload()


def test_measurement_choices_are_steps_back(tab, site):
    tree, out = site
    _, name = measurement(tree, 4, NATIVE)
    show(tab, out, "measurement.html", commit=tree.commits[4], series=name)
    tab.select_option("select[name=commit]", f"{tree.commits[0]} 0")
    tab.wait_for_function(f"document.body.dataset.ready.startsWith('{tree.commits[0]}')")
    tab.go_back()
    tab.wait_for_function(f"document.body.dataset.ready.startsWith('{tree.commits[4]}')")


def test_roofline_choices_are_steps_back(tab, site):
    _, out = site
    show(tab, out, "roofline.html")
    for number, (name, value) in enumerate([("implementation", "native"), *MATMUL.items()]):
        tab.select_option(f"select[name={name}]", value)
        assert tab.locator(SHOWN).count() == [4, 2, 1][number]
        assert tab.locator(".mark:not(.older):visible").count() == [4, 2, 1][number]
    tab.reload()
    assert tab.locator(SHOWN).count() == 1
    for number in (2, 4, 12):
        tab.go_back()
        tab.wait_for_function(f"document.querySelectorAll('tr[data-series]:not([hidden])').length === {number}")
    assert "#" not in tab.url
    assert tab.locator("svg.frame .name:visible").all_inner_texts() != []


def test_roofline_fits_a_phone_and_paper(tab, site):
    _, out = site
    tab.set_viewport_size({"width": 390, "height": 800})
    show(tab, out, "roofline.html")
    for media in ("screen", "print"):
        tab.emulate_media(media=media)
        assert tab.locator(DOTS).count() > 12
        ends = tab.locator("svg.frame text:visible").evaluate_all(
            "(all) => all.map((text) => text.getBoundingClientRect()).map(({left, right}) => [left, right])"
        )
        assert all(0 <= left < right <= 390 for left, right in ends), media


# ---- integers ---------------------------------------------------------------------------------------------------

BOTH = [(INTEGERS, "GOPS"), (FLOATS, "GFLOPS")]


@pytest.mark.parametrize(("case", "unit"), BOTH)
def test_integers_in_the_browser(tab, integer_site, case, unit):
    tree, out = integer_site
    show(tab, out, "kernel-matmul-Cpu.html", f"case={case}")
    assert tab.evaluate("document.querySelector('section.trend').panels[0].model.title") == f"rate, {unit}"
    assert re.search(rf" [GT]{unit[1:]}$", tab.locator(".status").first.inner_text())  # the roof
    tables = [text for text in tab.locator(".behind .case").all_text_contents() if case in text]
    assert units_of(tables) == {unit}
    show(tab, out, "compare.html", "kernel=matmul+Cpu")
    tab.wait_for_selector("#rows tbody tr")
    assert units_of(text for text in tab.locator("#rows tbody tr").all_inner_texts() if case in text) == {unit}
    _, name = measurement(tree, 4, ("matmul.Cpu.time_hot", "native", case))
    show(tab, out, "measurement.html", f"commit={tree.commits[4]}&series={name}")
    assert units_of([tab.locator("#value").inner_text()]) == {unit}
    show(tab, out, "roofline.html", f"benchmark=matmul.Cpu.time_hot&case={case}")
    texts = titles(tab)
    assert units_of(texts) == {unit} and texts
    assert ("FLOP/B" in texts[-1]) == (unit == "GFLOPS")
