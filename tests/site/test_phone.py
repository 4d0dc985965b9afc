"""Pages as narrow as a phone, in a real browser: one row of links, whole names, a sign where tables are cut off."""

import pytest

from kernel_velocity.findings.finding import finding_href
from kernel_velocity.site import report
from kernel_velocity.site.pages.finding_words import decisions, looks
from tests import synthetic
from tests.findings import evidenced
from tests.site.test_browser import chromium, show, site, tab  # noqa: F401 - fixtures

pytestmark = pytest.mark.slow
WIDTHS = (360, 390)
# Names that are broken where there is no hyphen to break at
BROKEN = """() => [...document.querySelectorAll("tbody th a, tbody th bdi, tbody td bdi")].filter((item) => {
  const name = item.textContent.trim();
  if (item.children.length > 0 || name.length >= 20 || /[\\s-]/.test(name)) return false;
  const text = document.createRange();
  text.selectNodeContents(item);
  return new Set([...text.getClientRects()].map((box) => box.top)).size > 1;
}).map((item) => item.textContent)"""
# Words of commands that stand on more than one line although one has room for them
BROKEN_COMMANDS = """() => [...document.querySelectorAll(".command-line code")].flatMap((code) => {
  const found = [];
  const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    for (const word of walker.currentNode.data.matchAll(/[^ ]+/g)) {
      const range = document.createRange();
      range.setStart(walker.currentNode, word.index);
      range.setEnd(walker.currentNode, word.index + word[0].length);
      const tops = new Set([...range.getClientRects()].map((box) => box.top));
      if (word[0].length < 30 && tops.size > 1) found.push(word[0]);
    }
  }
  return found;
})"""
# Each table that is cut off, with what says so: its own covers, which scroll along, in the colour that lies behind it
CUT = """() => [...document.querySelectorAll(".scroll")].flatMap((item) => {
  if (item.scrollWidth <= item.clientWidth + 1) return [];
  let behind = item.parentElement;
  while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
  const style = getComputedStyle(item);
  return [[style.backgroundAttachment, style.backgroundImage.includes(getComputedStyle(behind).backgroundColor)]];
})"""


@pytest.mark.parametrize("width", WIDTHS)
def test_a_phone_breaks_no_name_and_shows_where_there_is_more(tab, site, width):  # noqa: F811
    tree, out = site
    tab.set_viewport_size({"width": width, "height": 800})
    cut = []
    for name in ("index.html", "kernel-matmul-Cpu.html", f"commit-{tree.commits[2][:8]}.html", "roofline.html"):
        show(tab, out, name)
        assert len(set(tab.locator(".site a").evaluate_all("(links) => links.map((link) => link.offsetTop)"))) == 1
        assert tab.evaluate(BROKEN) == [], name
        cut += tab.evaluate(CUT)
    assert len(cut) > 3 and all("local" in attached and "scroll" in attached and same for attached, same in cut)


def test_findings_on_the_home_page_break_no_name(tab, whole_tree, tmp_path):  # noqa: F811
    report.write_site(results=whole_tree.results, repository=whole_tree.repository, out=tmp_path)
    tab.set_viewport_size({"width": WIDTHS[0], "height": 800})
    show(tab, tmp_path, "index.html")
    assert tab.locator("#findings ~ .scroll tbody th bdi").count() > 2
    assert tab.evaluate(BROKEN) == []


def test_commands_on_a_finding_break_at_blanks_only_and_are_copied_as_they_are(tab, tmp_path):  # noqa: F811
    tree = synthetic.build(tmp_path)
    (item, *_) = evidenced.write(tree)
    report.write_site(results=tree.results, repository=tree.repository, out=tmp_path / "site")
    for width in (320, *WIDTHS, 700, 900, 1100):
        tab.set_viewport_size({"width": width, "height": 800})
        show(tab, tmp_path / "site", finding_href(item.id))
        assert tab.evaluate(BROKEN_COMMANDS) == [], width
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    wanted = [one.text for one in (*looks(item), *decisions(item))]
    assert any("--case" in text for text in wanted)
    codes = tab.locator(".command-line code")
    assert sorted(codes.all_text_contents()) == sorted(wanted)
    assert sorted(codes.evaluate_all("(all) => all.map((one) => one.innerText)")) == sorted(wanted)
