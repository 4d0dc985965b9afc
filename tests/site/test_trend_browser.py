"""What a kernel's chart draws, and does under keys and the pointer, where a reader could be misled."""

import itertools
import math

import pytest

from tests.site import large_site
from tests.site.test_browser import INKED, choose, chromium, show, tab  # noqa: F401 - fixtures
from tests.site.test_kernel_browser import PAGE, range_of, source

pytestmark = pytest.mark.slow
NAMES = ("eager", "compile", "native", "triton", *"abcdef")
FOCUSED = """() => {
  let item = document.activeElement;
  while (item.shadowRoot?.activeElement) item = item.shadowRoot.activeElement;
  const name = item.title || item.getAttribute("aria-label") || item.textContent.trim();
  return {inChart: document.activeElement.closest(".chart") !== null, name};
}"""
FRAME = """() => {
  const view = Bokeh.index.get_by_id(Bokeh.documents[0].roots()[0].id);
  const box = view.el.getBoundingClientRect(), {left, right, top, bottom} = view.frame.bbox;
  return {left: box.x + left, right: box.x + right, middle: box.y + (top + bottom) / 2};
}"""
# From where to where each label of a finding reaches, and where the heads are, px
LABELS = """() => {
  const plot = Bokeh.documents[0].roots()[0];
  const scale = Bokeh.index.get_by_id(plot.id).frame.x_scale;
  const {x, label, align, offset} = plot.renderers.find((item) => item.name === "heads").data_source.data;
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "12px helvetica";
  return Array.from(x, (at, index) => {
    const begin = scale.compute(at) + offset[index], length = pen.measureText(label[index]).width;
    return {at: scale.compute(at), text: label[index], from: begin - (align[index] === "right" ? length : 0),
            to: begin + (align[index] === "right" ? 0 : length)};
  });
}"""


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A site of 120 commits, ten implementations and three findings close together."""
    folder = tmp_path_factory.mktemp("many")
    found = large_site.make(folder, 120, NAMES, findings_at=(0.6, 0.625, 0.66))
    large_site.write(found, folder / "site")
    return folder / "site"


def test_a_key_on_the_toolbar_is_the_toolbars(tab, many):  # noqa: F811
    show(tab, many, PAGE)
    address = tab.url
    tab.locator(".chart").focus()
    tab.keyboard.press("ArrowLeft")
    stops = []
    for _ in range(4):
        tab.keyboard.press("Tab")
        stops.append(tab.evaluate(FOCUSED))
    inside = [stop for stop in stops if stop["inChart"]]
    assert len(inside) >= 3
    assert all(stop["name"] for stop in inside)
    tab.locator(".chart").focus()
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    tab.wait_for_timeout(300)
    assert tab.url == address


def test_a_zoom_to_the_right_edge_fits_dots_and_ticks_to_what_is_seen(tab, many):  # noqa: F811
    show(tab, many, PAGE)
    tab.wait_for_function(f"({INKED})() > 500")
    tool = "Bokeh.documents[0].roots()[0].toolbar.tools.find((item) => item.type === 'BoxZoomTool')"
    tab.evaluate(f"({tool}).active = true")
    frame = tab.evaluate(FRAME)
    wide = frame["right"] - frame["left"]
    tab.mouse.move(frame["right"] - 0.05 * wide, frame["middle"])
    tab.mouse.down()
    tab.mouse.move(frame["right"] - 4, frame["middle"] + 5, steps=3)
    tab.mouse.move(frame["right"] + 15, frame["middle"] + 5, steps=3)
    tab.mouse.up()
    tab.wait_for_function("Bokeh.documents[0].roots()[0].x_range.start > 100")
    tab.wait_for_timeout(200)
    start, end = range_of(tab, "x")
    assert end == pytest.approx(119.5)
    seen = list(range(math.ceil(start), 120))
    assert source(tab, "dots: native")["x"] == seen
    ticks = tab.evaluate("Array.from(Bokeh.documents[0].roots()[0].below[0].ticker.ticks)")
    assert ticks == seen


def test_values_without_neighbours_leave_ink(tab, tmp_path):  # noqa: F811
    found = large_site.make(tmp_path, 400, ("eager", "native"), takes_turns=True)
    large_site.write(found, tmp_path / "site")
    show(tab, tmp_path / "site", PAGE)
    assert source(tab, "dots: native")["x"] == []
    tab.wait_for_function(f"({INKED})() > 500")
    for part in ("line", "band"):
        drawn = source(tab, f"{part}: native")
        known = [x for x, y in zip(drawn["x"], drawn["y"], strict=True) if not math.isnan(y)]
        assert len(set(known)) == 2 * (200 - 2)  # two ends of each; two failed
    choose(tab, "range", "50")
    assert len(source(tab, "dots: native")["x"]) == 50
    drawn = source(tab, "line: native")["x"]
    assert drawn == [round(x) for x in drawn]  # a dot needs no dash


def test_ten_implementations_have_ten_looks_of_line_and_swatch(tab, many):  # noqa: F811
    show(tab, many, PAGE)
    lines = tab.evaluate("""() => Bokeh.documents[0].roots()[0].renderers.filter(({name}) => name.startsWith("line: "))
      .map(({glyph}) => JSON.stringify([glyph.line_color, glyph.line_dash]))""")
    swatches = tab.eval_on_selector_all(
        "fieldset .swatch",
        "(all) => all.map(getComputedStyle).map((style) => style.backgroundColor + style.maskImage)",
    )
    assert len(lines) == len(swatches) == len(NAMES)
    assert len(set(lines)) == len(set(swatches)) == len(NAMES)


@pytest.mark.parametrize(
    ("unit", "is_of_time"), [("GFLOPS", True), ("efficiency", True), ("speed-up", False), ("error", False)]
)
def test_the_tip_says_of_a_time_only_what_belongs_to_one(tab, many, unit, is_of_time):  # noqa: F811
    tab.goto((many / PAGE).as_uri() + f"#unit={unit}")
    tab.wait_for_selector("section.trend[data-ready=yes]")
    tab.locator(".chart").focus()
    tab.keyboard.press("End")
    text = tab.locator(".tip .figures", has_text="native").text_content()
    assert [word in text for word in ("8 rounds", " to ")] == [is_of_time] * 2
    assert "interval unknown" not in text
    assert any(word in text for word in ("faster", "slower")) == is_of_time
    assert bool(source(tab, "changes")["x"]) == is_of_time


def test_no_label_of_a_finding_is_crossed_by_another_finding(tab, many):  # noqa: F811
    show(tab, many, PAGE)
    labels = tab.evaluate(LABELS)
    assert [label["text"] for label in labels] == ["regression, confirmed", "", "regression, confirmed"]
    frame = tab.evaluate(FRAME)
    named = [label for label in labels if label["text"]]
    for label in named:
        assert [other["at"] for other in labels if label["from"] < other["at"] < label["to"]] == []
        assert label["from"] > 0
        assert label["to"] < frame["right"]
    for one, other in itertools.pairwise(named):
        assert one["to"] < other["from"]


def test_an_implementation_that_is_nowhere_is_no_choice(tab, tmp_path):  # noqa: F811
    found = large_site.make(tmp_path, 5, ("eager", "native", "triton"), nowhere=("triton",))
    large_site.write(found, tmp_path / "site")
    show(tab, tmp_path / "site", PAGE)
    assert tab.locator("fieldset label:visible").all_inner_texts() == ["eager", "native"]
    tab.locator(".chart").focus()
    tab.keyboard.press("End")
    assert "triton" not in tab.locator(".tip").text_content()
    assert tab.locator(".case thead th").all_inner_texts() == ["commit", "eager", "native", "triton"]


@pytest.mark.parametrize("width", [390, 1200])
def test_no_table_is_cut_through_a_row(tab, many, width):  # noqa: F811
    tab.set_viewport_size({"width": width, "height": 900})
    show(tab, many, PAGE)
    tab.wait_for_function("document.querySelector('.case .scroll').style.getPropertyValue('--end') !== ''")
    tab.wait_for_timeout(200)
    cut = tab.evaluate("""() => Array.from(document.querySelectorAll(".behind .scroll")).map((scroll) => {
      const end = scroll.getBoundingClientRect().top + scroll.clientHeight;
      const boxes = Array.from(scroll.querySelectorAll("tbody tr"), (row) => row.getBoundingClientRect());
      return boxes.filter(({top, bottom}) => top < end - 1.5 && bottom > end + 1.5).length;
    })""")
    assert cut
    assert set(cut) == {0}
    tab.emulate_media(media="print")
    assert tab.evaluate("[...document.querySelectorAll('.scroll')].every((e) => e.clientHeight === e.scrollHeight)")
