"""The page of a comparison: its data, its charts, and the page in a browser, offline."""

import dataclasses
import json
from functools import cache

import numpy as np
import pytest

pytest.importorskip("bokeh", reason="pages are drawn with Bokeh (extra track)")

from kernel_velocity.compare import formats
from kernel_velocity.compare.formats import html
from kernel_velocity.compare.formats.charts import POINTS, POWER, TITLES, chart, charts, roofs_of
from kernel_velocity.compare.formats.html import within_script
from kernel_velocity.compare.result import Timed
from kernel_velocity.stats.sample_shape import batches, correlogram
from tests.compare.comparisons import (
    DRAM,
    HOSTILE,
    PEAK,
    ROOFS,
    case,
    comparison,
    hostile,
    timed,
    under_the_roofs,
    with_rows,
)
from tests.site.test_browser import chromium, tab  # noqa: F401 - fixtures


@cache
def page():
    """Return the page of every kind of row, of estimates alone: no chart has anything to draw."""
    found = [
        dataclasses.replace(one, timed=tuple(dataclasses.replace(row, rounds=()) for row in one.timed))
        for one in comparison().compared
    ]
    return html.build(comparison(*found), ROOFS)


@cache
def every_chart():
    """Return the charts of a row that has everything."""
    row = comparison().compared[0].timed[1]
    return charts(row, "#123456")


def page_of(*rows, roofs=ROOFS):
    return html.build(comparison(with_rows(case(), *rows)), roofs)


def drawn(row, title):
    return chart(row, title, "#123456")


# The page's data -----------------------------------------------------------------------------------------------------


def test_the_page_says_what_was_found():
    found = page()
    assert found.title == "add_mul_exp, matmul"
    assert found.failed is True
    assert found.verdict.startswith("FAIL: 2 results wrong or failed: native on float32-512x512x512, compile on")
    assert found.when == "2023-11-14 22:13 UTC, 12.5 s"
    assert found.notes == (*comparison().warnings, *ROOFS.warnings)
    assert [table.problem for table in found.tables] == ["add_mul_exp", "matmul"]
    assert len(found.details) == 7


def test_a_line_of_the_table():
    line = page().tables[0].lines[0]
    assert (line.case, line.span, line.implementation) == ("float32-5M", 3, "eager")
    assert line.where == "DRAM · 20.0 MB per tensor · 5,000,000 elements"
    texts = dict(zip(page().heads, line.cells, strict=True))
    assert texts["time ± 95%"].text.endswith(" ms")
    assert texts["time ± 95%"].detail.startswith("± ")
    assert texts["rate"].text.endswith(" GFLOPS")
    assert texts["rate"].detail.endswith(" GB/s")
    assert texts["efficiency"].text.endswith("% (room)")
    assert texts["efficiency"].detail == "memory, DRAM"
    assert texts["mean of samples"].detail.startswith("sd ")
    assert texts["p50"].detail.startswith("p99 ")
    assert texts["whole function"].detail.startswith("+1.")
    assert (texts["result"].text, texts["result"].detail) == ("right", "maximum error 1.2e-07")
    assert [line.span for line in page().tables[0].lines] == [3, 0, 0, 2, 0]


def test_lines_without_a_time_say_why():
    missing = page().tables[0].lines[2]
    last = missing.cells[0]
    assert (last.text, last.detail, last.tone) == ("n/a", "no CUDA device", "n/a")
    assert missing.anchor == ""
    wrong, failed = (page().tables[1].lines[index].cells for index in (1, 2))
    assert (wrong[0].text, wrong[0].tone, wrong[0].detail) == ("WRONG", "failed", "maximum error NaN in 1 element")
    assert (failed[0].text, failed[0].detail) == ("FAILED", "RuntimeError: no compiler")


def test_one_round_has_no_interval_and_says_so():
    assert page().tables[1].lines[3].cells[1].detail == "no interval"


def test_an_impossible_efficiency_is_loud():
    compared = case()
    row = timed("eager", 5e-3, compared)
    impossible = dataclasses.replace(row.roofline, impossible=True, roof_ratio=1.2, efficiency=1.0)
    found = page_of(dataclasses.replace(row, roofline=impossible, rounds=()))
    cell = found.tables[0].lines[0].cells[5]
    assert (cell.text, cell.tone) == ("100.0% (impossible: 1.20 of the roof)", "failed")


def test_without_ceilings_there_is_no_roofline():
    found = page_of(Timed(implementation="eager", estimates=(1e-3,)), roofs=None)
    assert found.roofline is None
    assert found.tables[0].lines[0].cells[5].text == "–"


def test_roofs_follow_from_the_rows_where_none_are_given():
    memory = under_the_roofs(case(), 10e-3)
    compute = under_the_roofs(case(flops=1000 * 5_000_000), 10e-3)
    assert (memory.bound, compute.bound) == ("memory", "compute")
    for one in (memory, compute):
        found = roofs_of({"float32": one})
        assert found.levels[-1].bandwidth == pytest.approx(DRAM)
        assert found.peaks["float32"] == pytest.approx(PEAK)
    unknown = roofs_of({"float32": dataclasses.replace(memory, ridge=None)})
    assert (unknown.levels[-1].bandwidth, unknown.peaks["float32"]) == (pytest.approx(DRAM), None)


def test_the_roofline_draws_every_roof_and_every_point():
    text = json.dumps(page().roofline.document)
    for wanted in ("L2 40.0 GB/s", "DRAM 10.0 GB/s", "float32 100 GFLOPS", "GFLOPS", "FLOP per byte"):
        assert wanted in text
    assert text.count('"name": "point"') == 7
    assert "Not measured: L1." in page().roofline.caption
    assert "circle add_mul_exp, square matmul" in page().roofline.caption


def lines_of(document):
    """Return the (xs, ys) of every line of a Bokeh document."""
    found = []

    def walk(node):
        if isinstance(node, dict):
            entries = dict(node["entries"]) if node.get("type") == "map" else {}
            if isinstance(entries.get("x"), list) and len(entries["x"]) == 2:
                found.append((entries["x"], entries["y"]))
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            walk(child)

    walk(document)
    return found


def test_slopes_meet_the_peak_at_their_ridges():
    document = page().roofline.document
    slopes = [(xs, ys) for xs, ys in lines_of(document) if ys[0] != ys[1]]
    ((peak_xs, peak_ys),) = [(xs, ys) for xs, ys in lines_of(document) if ys[0] == ys[1]]
    assert [ys[0] / xs[0] for xs, ys in slopes] == pytest.approx([40, 10])  # GB/s of L2 and DRAM
    assert [xs[1] for xs, _ in slopes] == pytest.approx([2.5, 10])  # FLOP/B
    assert [ys[1] for _, ys in slopes] == pytest.approx([100, 100])
    assert (peak_xs[0], peak_ys[0]) == (pytest.approx(2.5), pytest.approx(100))


def test_both_axes_are_logarithmic_and_tooltips_take_no_markup():
    text = json.dumps(page().roofline.document)
    assert text.count('"LogAxis"') == 2
    assert "@implementation" in text
    assert "{safe}" not in text


def test_the_roofline_draws_the_roofs_that_the_rows_know():
    compared = case()
    row = dataclasses.replace(timed("eager", 14e-3, compared), rounds=())
    derived = json.dumps(page_of(row, roofs=None).roofline.document)
    assert "DRAM 10.0 GB/s" in derived
    assert "float32 100 GFLOPS" in derived


# Charts --------------------------------------------------------------------------------------------------------------


def test_every_chart_of_a_row():
    assert tuple(each.title for each in every_chart()) == TITLES
    assert all(each.document is not None for each in every_chart())
    assert tuple(each.title for each in page().details[0].charts) == TITLES[:-1]  # no power, no chart of it
    with pytest.raises(ValueError, match="no power"):
        drawn(timed("eager", 1e-3), POWER)


def test_captions_have_the_figures():
    row = timed("a", 1.0, rounds=((1e-3,) * 4 + (3e-3,) * 4, (2e-3,) * 8))
    assert "median 2.00 ms (line), mean 2.00 ms (dashed)" in drawn(row, "Histogram").caption
    assert drawn(row, "Time series").caption.startswith("16 samples of 2 rounds")
    assert "Gini coefficient 0.1875" in drawn(row, "Lorenz curve").caption  # 48 * (3 - 1) of 16 * 32
    power = dataclasses.replace(row, power=((0.0, 10.0), (1.0, 30.0)))
    assert drawn(power, POWER).caption.startswith("mean 20.0 W, highest 30.0 W")


def test_an_outlier_does_not_squeeze_the_histogram_and_is_mentioned():
    values = (*np.linspace(1.0, 1.1, 400).tolist(), 50.0)
    found = drawn(timed("a", 1.0, rounds=(values,)), "Histogram")
    assert "samples up to 50.0 s not drawn" in found.caption


@pytest.mark.parametrize(
    ("title", "wanted"), [("Histogram", "needs 8 samples, have 3"), ("Autocorrelation", "at least 16")]
)
def test_too_few_samples_draw_nothing_and_say_so(title, wanted):
    found = drawn(timed("a", 1.0, rounds=((1.0, 2.0, 3.0),)), title)
    assert found.document is None
    assert wanted in found.caption


def test_equal_samples_have_no_density():
    row = timed("a", 1.0, rounds=((1.0,) * 50,))
    assert drawn(row, "Density").document is None
    assert "too coarse" in drawn(row, "Density").caption
    assert drawn(row, "Histogram").document is not None


def test_a_row_of_estimates_alone_draws_nothing():
    found = charts(Timed(implementation="a", estimates=(1.0, 1.1)), "#123456")
    assert {each.document is None for each in found} == {True}


def test_a_long_series_is_thinned():
    values = tuple(np.linspace(1, 2, 50_000).tolist())
    text = json.dumps(drawn(timed("a", 1.0, rounds=(values,)), "Time series").document)
    assert len(text) < 50_000 < 16 * 2 * POINTS * 2  # two columns of 8 bytes, as base64


def test_correlogram():
    alternating = np.tile([1.0, -1.0], 100)
    lags, values = correlogram([alternating])
    assert lags[:2] == [1, 2]
    assert values[:2] == pytest.approx([-0.995, 0.99])
    assert correlogram([np.ones(100)]) == ([], [])
    assert correlogram([np.arange(3.0)]) == ([], [])


def test_batches_use_every_sample_once():
    values = np.arange(1000, dtype=float)
    counts, totals = batches(values)
    used = sum(counts)
    assert used <= 1000
    assert used > 900  # the last batch may not fit
    assert sum(totals) == pytest.approx(values[:used].sum())
    assert counts == sorted(set(counts))
    assert batches(np.ones(6)) == ([1, 2, 3], [1.0, 2.0, 3.0])


def test_the_slope_is_the_time_per_call():
    found = drawn(timed("a", 1.0, rounds=((2e-3,) * 500,)), "Least-squares line")
    assert found.caption.startswith("slope 2.00 ms")
    assert "R² 1.00000" in found.caption


def test_documents_are_strict_json():
    def refuse(text):
        raise AssertionError(f"{text} is not JSON")

    for each in (*every_chart(), page().roofline):
        json.loads(json.dumps(each.document), parse_constant=refuse)


# The page itself -----------------------------------------------------------------------------------------------------


def test_it_needs_nothing_else(written):
    text = (written / "plain.html").read_text(encoding="utf-8")
    head = text.split("<script>")[0]
    assert 'src="' not in text.split("</head>")[1]
    assert "stylesheet" not in head
    assert "static/" not in head
    assert text.startswith("<!doctype html>")


def test_a_script_cannot_end_its_element():
    assert within_script("'</script>' + '<!--'") == "'<\\/script>' + '<\\!--'"


def test_half_of_a_surrogate_pair_is_no_error():
    found = comparison(with_rows(case(), Timed(implementation="a", missing="n/a")), warnings=("\ud800",))
    assert "\ud800" not in formats.as_html(found)


def few():
    """Return a comparison of few rows: the browser draws every chart of them."""
    compared = case()
    power = ((0.0, 20.0), (0.5, 41.5), (1.0, 44.0))
    return comparison(
        with_rows(
            compared,
            timed("eager", 14e-3, compared),
            timed("native", 6e-3, compared, power=power),
            timed("once", 4e-3, compared, rounds=((4e-3, 4.1e-3, 3.9e-3),)),
            Timed(implementation="triton", missing="no CUDA device"),
        )
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    for name, found in (("plain", few()), ("hostile", hostile())):
        (folder / f"{name}.html").write_text(formats.as_html(found, ROOFS), encoding="utf-8")
    return folder


def draw_first(tab, path):  # noqa: F811
    """Open a page and wait for its first chart."""
    tab.goto(path.as_uri())
    tab.locator("figure.plot:has(.canvas)").first.scroll_into_view_if_needed()
    tab.wait_for_selector("figure.plot[data-state=ready]")


def draw_all(tab, path):  # noqa: F811
    """Open a page and every row of it, and wait for the charts."""
    tab.goto(path.as_uri())
    tab.evaluate("document.querySelectorAll('details').forEach((row) => { row.open = true; })")
    for figure in tab.locator("figure.plot:has(.canvas)").all():
        figure.scroll_into_view_if_needed()
    tab.wait_for_function(
        "[...document.querySelectorAll('figure.plot')].every((each) => !each.querySelector('.canvas') ||"
        " each.dataset.state === 'ready')"
    )


def test_every_chart_is_drawn(tab, written):  # noqa: F811
    draw_all(tab, written / "plain.html")
    assert tab.locator("figure.plot[data-state=ready]").count() == 1 + 7 + 8 + 3  # once: most need more samples
    assert tab.evaluate("Bokeh.documents.length") == tab.locator("figure.plot[data-state=ready]").count()


@pytest.mark.parametrize("width", [360, 1200])
def test_it_is_not_wider_than_its_window(tab, written, width):  # noqa: F811
    tab.set_viewport_size({"width": width, "height": 800})
    for name in ("plain", "hostile"):
        draw_first(tab, written / f"{name}.html")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_it_follows_the_readers_colours(tab, written):  # noqa: F811
    colour = "Bokeh.documents[0].roots()[0].below[0].major_label_text_color"
    tab.emulate_media(color_scheme="light")
    draw_first(tab, written / "plain.html")
    light = tab.evaluate(colour)
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function(f"{colour} !== {light!r}")


def test_a_link_opens_its_row(tab, written):  # noqa: F811
    tab.goto((written / "plain.html").as_uri())
    second = tab.locator("details").nth(1)
    assert second.get_attribute("open") is None
    tab.locator(f"a[href='#{second.get_attribute('id')}']").click()
    assert second.get_attribute("open") is not None


def test_hostile_text_is_shown_and_not_executed(tab, written):  # noqa: F811
    draw_all(tab, written / "hostile.html")
    assert tab.evaluate("window.pwned") is None
    assert tab.locator("main img, main b, main code, main script:not([type])").count() == 0
    assert HOSTILE.splitlines()[0] in tab.locator("h1").inner_text()
    assert "49" not in tab.locator("h1").inner_text()
