"""What is printed, in a real browser: folded parts, tables, and charts in colours for paper."""

import pytest

from tests.site.test_browser import chromium, show, site, tab  # noqa: F401 - fixtures
from tests.site.test_colours import SCHEMES

pytestmark = pytest.mark.slow
MUTED = SCHEMES["light"]["muted"]
# What the printer gets is drawn when the event has ended: no frame comes in between
PRINTED = """() => {
  const plot = Bokeh.documents[0].roots()[0];
  const drawn = () => {
    const found = [];
    const walk = (node) => {
      if (node.shadowRoot) walk(node.shadowRoot);
      for (const child of node.children) { if (child.tagName === "CANVAS") found.push(child.toDataURL()); walk(child); }
    };
    walk(document.querySelector(".chart"));
    return found.join();
  };
  const seen = [];
  for (const event of [null, "beforeprint", "afterprint"]) {
    if (event !== null) window.dispatchEvent(new Event(event));
    seen.push([plot.below[0].major_label_text_color, drawn()]);
  }
  return seen;
}"""


def test_what_is_folded_is_printed(tab, site):  # noqa: F811
    tree, out = site
    show(tab, out, f"commit-{tree.commits[2][:8]}.html")
    tab.locator("details").evaluate_all("(folds) => folds.forEach((fold) => { fold.open = false; })")
    row = tab.locator("details tbody td").first
    folded = "(cell) => cell.checkVisibility({ contentVisibilityAuto: true })"
    assert row.evaluate(folded) is False
    tab.emulate_media(media="print")
    assert row.evaluate(folded) is True
    assert tab.evaluate("[...document.querySelectorAll('details')].every((fold) => fold.offsetHeight > 60)")


def test_a_chart_is_printed_in_the_colours_of_paper(tab, site):  # noqa: F811
    _, out = site
    tab.emulate_media(color_scheme="dark")
    show(tab, out, "kernel-matmul-Cpu.html")
    tab.wait_for_timeout(300)  # the first frames are drawn
    dark, paper, after = tab.evaluate(PRINTED)
    assert (paper[0], after[0]) == (MUTED, dark[0]) and dark[0] != MUTED
    assert paper[1] != dark[1] and after[1] != paper[1]


def test_where_no_event_says_so_media_do(tab, site):  # noqa: F811
    _, out = site
    colour = "Bokeh.documents[0].roots()[0].below[0].major_label_text_color"
    tab.emulate_media(color_scheme="dark")
    show(tab, out, "kernel-matmul-Cpu.html")
    tab.emulate_media(color_scheme="dark", media="print")
    tab.wait_for_function(f"{colour} === '#444'")


@pytest.mark.parametrize("name", ["kernel-matmul-Cpu.html", "roofline.html"])
def test_a_chart_fits_its_paper_and_says_what_is_drawn(tab, site, name):  # noqa: F811
    _, out = site
    show(tab, out, name)
    tab.wait_for_selector("section[data-ready=yes]")
    wide = "document.querySelector('.chart > :not(.paper)').clientWidth"
    before = tab.evaluate(wide)
    tab.uncheck("input[value=eager]")
    tab.wait_for_timeout(300)  # it is drawn without
    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    tab.emulate_media(media="print")
    drawing = tab.locator(".chart > svg.paper")
    box = drawing.bounding_box()
    assert (drawing.get_attribute("width"), box["width"], box["height"] > 300) == ("680", 680, True)
    assert {"GFLOPS"} & {word for text in drawing.locator("text").all_text_contents() for word in text.split()}
    assert drawing.locator("path").count() > 10
    assert tab.locator(".chart > :not(.paper)").is_hidden()
    assert tab.locator("select[name=case]").is_visible()
    assert tab.locator("fieldset label:visible").all_inner_texts() == ["native", "triton"]
    tab.emulate_media(media="screen")
    tab.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert drawing.count() == 0
    assert tab.evaluate(wide) == before > 1000
    tab.evaluate("window.dispatchEvent(new Event('afterprint'))")  # without one before
    assert tab.evaluate(wide) == before
