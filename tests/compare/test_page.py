"""The page of a comparison: its data, its charts, and the page in a browser, offline."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("jinja2", reason="pages are made with Jinja2, which a node has not")

from kernel_velocity.compare import formats
from kernel_velocity.compare.formats import html
from kernel_velocity.compare.result import Timed
from kernel_velocity.site.charts.samples import CHARTS, POINTS, charts
from kernel_velocity.stats.speedup import correlogram
from tests.compare.live_comparisons import HOSTILE, ROOFS, case, comparison, hostile, timed, whole


@pytest.fixture(scope="module")
def page():
    return html.build(whole())


def drawn(*rounds):
    """Return the charts of samples by title."""
    estimates = tuple(float(np.mean(samples)) for samples in rounds)
    return {chart.title: chart for chart in charts(rounds, estimates, "#123456")}


# The page's data -----------------------------------------------------------------------------------------------------


def test_page_says_what_was_found(page):
    assert (page["title"], page["failed"]) == ("add_mul_exp, quantize_int8", True)
    assert page["verdict"] == "FAIL: 2 results wrong or failed: native on float32-50M, mine on float32-50M"
    assert page["when"] == "2023-11-14 22:13 UTC, 12.3 s"
    assert page["notes"] == whole().warnings
    assert [table["problem"] for table in page["tables"]] == ["add_mul_exp", "quantize_int8"]
    assert len(page["details"]) == 8


def test_page_lines(page):
    lines = page["tables"][0]["lines"]
    assert [line["span"] for line in lines] == [4, 0, 0, 0, 4, 0, 0, 0]
    assert lines[2]["where"] == "L3 · 4.00 MB per tensor · 1,000,000 elements"
    assert [(cell.text, cell.detail) for cell in lines[2]["cells"]] == [
        ("right", "maximum error 3.05e-05"),
        ("361 µs", "± 2.5%"),
        ("368 µs", "sd 28.2 µs"),
        ("363 µs", "p99 541 µs"),
        ("8.31 GFLOPS", "33.2 GB/s"),
        ("97.0% of L3 (excellent)", "memory, L3"),
        ("2.40×", ""),
        ("364 µs", "+2.30 µs"),
    ]
    impossible = lines[5]["cells"][5]
    assert (impossible.text, impossible.tone) == ("130.0% of DRAM (impossible)", "failed")


def test_page_lines_without_a_time_say_why(page):
    lines = page["tables"][0]["lines"]
    results = [(cell.text, cell.detail[:12], cell.tone) for cell in (line["cells"][0] for line in lines)]
    assert results[3] == ("n/a", "Triton needs", "n/a") and lines[3]["anchor"] == ""
    assert results[6:] == [("WRONG", "out is wrong", "failed"), ("FAILED", "raised ZeroD", "failed")]
    assert page["tables"][1]["lines"][0]["cells"][1].detail == "no interval"


def test_page_facts_have_stops_flags_warnings_and_errors(page):
    facts = dict(page["details"][2]["facts"])
    assert (facts["rounds stopped"], facts["flags"]) == ("3 x converged", "contended")
    assert facts["output out"].startswith("right: max_absolute_error 3.05e-05, ")
    assert dict(page["details"][4]["facts"])["roofline"] == "above the roof"


def test_roofline_chart_has_every_roof_and_every_point(page):
    text = page["roofline"].figure
    for label in ("L2 40.0 GB/s", "DRAM 10.0 GB/s", "float32 100 GFLOPS", "FLOP per byte"):
        assert f">{label}<" in text or f"{label}</text>" in text
    assert text.count('class="mark"') == sum(row.roofline is not None for row in whole().rows()) == 5
    figures = "4.17 GFLOPS, 16.7 GB/s, 0.250 FLOP/B, 41.0% of DRAM (room), bound by memory, DRAM"
    assert text.count(f"<title>add_mul_exp float32-1M eager: {figures}</title>") == 1
    assert "Not measured: L1." in page["roofline"].caption
    two = comparison(*(case("c", 10**6, timed("a", 1e-3), problem=name) for name in "pq"))
    without = html.build(two)["roofline"]
    assert "Marks: circle p, square q. The peak rate was not measured" in without.caption
    alone = html.build(comparison(case("c", 10**6, timed("a", 1e-3, roofline=None)), roofs=ROOFS))
    assert alone["roofline"] is None


# Charts --------------------------------------------------------------------------------------------------------------


def test_charts_of_a_row_that_has_everything():
    by_title = drawn(*([1 + 0.1 * (k % 7) for k in range(40)] for _ in range(3)))
    assert [*by_title] == [*CHARTS]
    assert all(chart.figure is not None for chart in by_title.values())


def test_charts_captions_have_the_figures():
    by_title = drawn((1e-3,) * 4 + (3e-3,) * 4, (2e-3,) * 8)
    assert "median 2.00 ms (line), mean 2.00 ms (dashed)" in by_title["Histogram"].caption
    assert by_title["Time series"].caption.startswith("16 samples of 2 rounds")


@pytest.mark.parametrize(
    ("samples", "title", "caption"),
    [
        ((1.0, 2.0, 3.0), "Histogram", "needs 8 samples, have 3"),
        ((1.0, 2.0, 3.0), "Autocorrelation", "needs rounds of at least 16"),
        ((1.0,), "Lag plot", "needs 2 samples in a round"),
        ((), "Time series", "needs 2 samples, have 0"),
    ],
)
def test_charts_without_enough_samples_say_so(samples, title, caption):
    chart = (drawn(samples) if samples else drawn())[title]
    assert chart.figure is None and chart.caption.startswith(caption)


def test_charts_of_a_long_series_are_thinned():
    chart = drawn(tuple(np.linspace(1, 2, 50_000).tolist()))["Time series"].figure
    assert POINTS / 2 < chart.count("h0") <= POINTS and len(chart) < 20_000


def test_correlogram():
    lags, values = correlogram([np.tile([1.0, -1.0], 100)])
    assert lags[:2] == [1, 2]
    assert values[:2] == pytest.approx([-0.995, 0.99])
    assert correlogram([np.ones(100)]) == correlogram([np.arange(3.0)]) == ([], [])


# The page itself -----------------------------------------------------------------------------------------------------


def few():
    """Return a comparison of few rows: the browser draws every chart of them."""
    return comparison(
        case(
            "float32-5M",
            5_000_000,
            timed("eager", 14e-3),
            timed("native", 6e-3),
            dataclasses.replace(timed("once", 4e-3, rounds=1), rounds=((4e-3, 4.1e-3, 3.9e-3),)),
            Timed(implementation="triton", missing="no CUDA device"),
        ),
        roofs=ROOFS,
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    for name, compared in (("plain", few()), ("hostile", hostile())):
        (folder / f"{name}.html").write_text(formats.as_html(compared), encoding="utf-8")
    return folder


def test_page_needs_nothing_else(written):
    text = (written / "plain.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert not [word for word in ("stylesheet", "static/", 'src="') if word in text]
    assert "\ud800" not in formats.as_html(comparison(warnings=("\ud800",)))


def open_all(tab, path):
    """Open a page and every row of it."""
    tab.goto(path.as_uri())
    tab.evaluate("document.querySelectorAll('details').forEach((row) => { row.open = true; })")


def test_page_draws_every_chart_in_the_readers_colours(tab, written):
    def colour():
        return tab.evaluate("getComputedStyle(document.querySelector('.frame text')).fill")

    tab.emulate_media(color_scheme="light")
    open_all(tab, written / "plain.html")
    frames = tab.locator("figure svg.frame:visible")
    assert frames.count() == 1 + 4 + 4 + 2  # of the roofline, eager, native, and once: few samples
    boxes = frames.evaluate_all("(all) => all.map((item) => item.getBoundingClientRect().height)")
    assert boxes == [420] + [210] * 10
    light = colour()
    tab.emulate_media(color_scheme="dark")
    assert colour() != light


def test_page_shows_hostile_text_and_fits_a_phone(tab, written):
    tab.set_viewport_size({"width": 360, "height": 800})
    open_all(tab, written / "hostile.html")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    assert tab.evaluate("window.pwned") is None
    assert tab.locator("main img, main b, main code, main script:not([type])").count() == 0
    title = tab.locator("h1").inner_text()
    assert HOSTILE.splitlines()[0] in title and "49" not in title


def test_page_link_opens_its_row(tab, written):
    tab.goto((written / "plain.html").as_uri())
    second = tab.locator("details").nth(1)
    assert second.get_attribute("open") is None
    tab.locator(f"a[href='#{second.get_attribute('id')}']").click()
    assert second.get_attribute("open") is not None
