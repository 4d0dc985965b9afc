"""Pages in a real browser: filters, addresses, phones, paper, findings, names that want to be code."""

import pytest

from kernel_velocity.findings.finding import OPEN, finding_href
from kernel_velocity.site import report
from kernel_velocity.site.model import Unfinished
from kernel_velocity.site.pages.finding import decisions, looks
from tests import large_tree, synthetic
from tests.findings.synthetic_extras import OTHER
from tests.site.browser import INKED, POINTS, TREND, change, choose, hover, show
from tests.site.sites import site_of
from tests.synthetic import MACHINE


def test_trend_shows_the_planted_step(tab, site):
    tree, out = site
    show(tab, out, "kernel-add_mul_exp-Cpu.html")
    tab.wait_for_function(f"({INKED})() > 500")
    native = tab.evaluate(POINTS, "native")
    before, after = native["y"][:2], native["y"][2:]
    assert min(after) > 2.4 * max(before) and native["top"] > max(after)
    assert (native["labels"], native["title"]) == ([sha[:8] for sha in tree.commits], "rate, GFLOPS")
    eager = tab.evaluate(POINTS, "eager")["y"]
    assert max(eager) < 1.02 * min(eager)


UNTIL = 4e9  # Unix time, s


def test_provisional_page_renews_itself_for_a_while(tab, site, tmp_path):
    tree, _ = site
    unfinished, out = Unfinished(UNTIL, "Round 1 of 8"), tmp_path / "site"
    report.write_site(results=tree.results, repository=tree.repository, out=out, unfinished=unfinished)
    tab.clock.install()
    show(tab, out, "index.html")
    with tab.expect_navigation():
        tab.clock.fast_forward(20_000)
    assert "this page renews itself" in tab.locator("#unfinished").inner_text()
    tab.clock.set_system_time(UNTIL + 1)
    tab.clock.fast_forward(20_000)
    tab.wait_for_function("document.querySelector('#unfinished').innerText.includes('was ended')")
    tab.evaluate("window.isOld = true")
    tab.clock.fast_forward(100_000)
    assert tab.evaluate("window.isOld")


def test_chart_choices(tab, site):
    _, out = site
    show(tab, out, "kernel-add_mul_exp-Cpu.html")
    assert tab.locator(".case:visible").count() == 1
    first = tab.evaluate(POINTS, "native")
    choose(tab, "unit", "GB/s")
    traffic = tab.evaluate(POINTS, "native")
    assert traffic["title"] == "bandwidth, GB/s"
    assert traffic["y"] == pytest.approx([4 * value for value in first["y"]])  # 12 bytes and 3 FLOP an element
    choose(tab, "case", "float32-500k")
    assert tab.evaluate(POINTS, "native")["y"] != traffic["y"]
    assert tab.locator(".case:visible h3").inner_text().startswith("float32-500k")
    change(tab, lambda: tab.uncheck("input[value=native]"))
    assert tab.evaluate(POINTS, "native")["visible"] is False
    assert tab.evaluate(POINTS, "eager")["visible"] is True


def test_hover_and_click(tab, site):
    tree, out = site
    show(tab, out, "kernel-matmul-Cpu.html")
    text, spot = hover(tab, "native", 2)
    for wanted in (tree.commits[2][:8], "Vectorise the inner loops", "Ada Lovelace", "GFLOPS", "2.50× faster", "8"):
        assert wanted in text
    change(tab, lambda: tab.mouse.click(spot["x"], spot["y"]))  # chooses it
    assert f"commit={tree.commits[2][:8]}" in tab.url
    tab.mouse.click(spot["x"], spot["y"])
    tab.wait_for_url(f"**/commit-{tree.commits[2][:8]}.html")
    assert tab.locator("h1").inner_text() == "Vectorise the inner loops"


ROWS = "tr[data-order]:visible"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "selector", "count"),
    [
        ("index.html", ROWS, 8),
        ("index.html", "form.filters:visible", 0),
        ("commit-{commit}.html", "tbody tr:visible", 4),
        ("kernel-matmul-Cpu.html", ".case:visible", 2),
        ("roofline.html", "tr[data-series]:visible", 12),
        ("compare.html", "form:visible", 0),
    ],
)
def test_page_without_scripts(without_script, site, name, selector, count):
    tree, out = site
    without_script.goto((out / name.format(commit=tree.commits[2][:8])).as_uri() + "#kernel=matmul")
    assert without_script.locator(selector).count() == count


@pytest.mark.slow
@pytest.mark.parametrize("name", ["compare.html", "commit-{commit}.html"])
def test_comparison_without_scripts(without_script, site, name):
    tree, out = site
    without_script.goto((out / name.format(commit=tree.commits[2][:8])).as_uri())
    assert "needs JavaScript" in without_script.locator("main").inner_text()


TEXTS = "(rows) => rows.map((row) => row.innerText)"


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["bench-1", "bench-2"])
def test_table_of_a_commit_is_compares(tab, whole_site, machine):
    tree, out = whole_site
    chosen = f"am={machine}"
    show(tab, out, f"commit-{tree.commits[2][:8]}.html", chosen)
    of_commit = tab.locator("#rows tbody tr, #means tbody tr, #summary, #notes li").evaluate_all(TEXTS)
    changed = tab.locator("section:has(> #changed) tbody tr").filter(has_text=machine)
    listed = changed.evaluate_all("(rows) => rows.map((row) => row.cells[1].innerText)")
    show(tab, out, "compare.html", f"{chosen}&a={tree.commits[1][:8]}&b={tree.commits[2][:8]}")
    assert of_commit == tab.locator("#rows tbody tr, #means tbody tr, #summary, #notes li").evaluate_all(TEXTS)
    moved = tab.locator("#rows td:is(.slower, .faster)").all_inner_texts()
    assert len(of_commit) > 12 and sorted(moved) == sorted(f"{text}\nby {tree.commits[2][:8]}" for text in listed)


@pytest.mark.slow
def test_first_commit_lists_its_values(tab, site):
    tree, out = site
    show(tab, out, f"commit-{tree.commits[0][:8]}.html")
    assert "No earlier measurement" in tab.locator("main").inner_text()
    assert tab.locator("#rows tbody tr").count() == 8
    assert tab.locator("[data-side=a] .chosen").inner_text() == "no earlier commit was measured"


@pytest.mark.slow
def test_findings_without_scripts(without_script, evidence_site):
    _, out, findings = evidence_site
    without_script.goto((out / "findings.html").as_uri())
    assert without_script.locator("tr[data-state]:visible").count() == len(findings)
    without_script.goto((out / finding_href(findings[0].id)).as_uri())
    assert without_script.locator("button:visible").count() == 0
    assert without_script.locator("pre:visible").count() >= 3


DRAWN = "document.querySelector('.chart canvas').toDataURL()"


@pytest.mark.slow
def test_chart_in_the_dark(tab, whole_site):
    tab.emulate_media(color_scheme="light")
    show(tab, whole_site[1], "kernel-matmul-Cpu.html")
    light = tab.evaluate(DRAWN)
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function(f"{DRAWN} !== {light!r}")


@pytest.mark.slow
def test_overview_by_keyboard(tab, site):
    _, out = site
    show(tab, out, "index.html")
    cases = "(rows) => rows.map((row) => row.querySelector('th bdi').textContent)"
    worst_first = tab.locator(ROWS).evaluate_all(cases)
    assert len(worst_first) == 8
    tab.locator("input[name=q]").press_sequentially("native matmul")
    assert tab.locator(ROWS).count() == 2
    assert tab.locator("form.filters output").inner_text() == "2 of 8 match"
    now = tab.get_by_role("button", name="now")
    now.press("Enter")
    assert "q=native+matmul&sort=1" in tab.url and "down" not in tab.url
    assert tab.locator("th[aria-sort=ascending]").inner_text().startswith("now")
    times = tab.locator(ROWS).evaluate_all("(rows) => rows.map((row) => Number(row.dataset.order.split(' ')[0]))")
    assert times == sorted(times)
    tab.reload()
    assert (tab.locator(ROWS).count(), tab.locator("input[name=q]").input_value()) == (2, "native matmul")
    tab.get_by_role("button", name="now").press("Enter")
    assert tab.locator("th[aria-sort=descending]").count() == 1
    tab.get_by_role("button", name="now").press("Enter")
    tab.locator("input[name=q]").fill("<b>gone</b>")
    assert tab.locator("form.filters output").inner_text() == "0 of 8 match"
    tab.locator("input[name=q]").fill("")
    assert tab.locator(ROWS).evaluate_all(cases) == worst_first
    assert "=" not in tab.url


@pytest.mark.slow
@pytest.mark.parametrize("page", ["index.html", "machines.html", "compare.html"])
def test_search_by_keyboard(tab, site, page):
    """A page without data.js, one with it, and one that has a search of its own."""
    tree, out = site
    show(tab, out, page)
    results, output = tab.locator(".found a"), tab.locator(".found output")
    tab.keyboard.press("/")
    tab.keyboard.type("matmul cpu")
    tab.wait_for_function("document.querySelector('.found output').textContent === '3 found'")
    assert results.all_inner_texts()[0] == "matmul Cpu"
    tab.locator(".search input").fill(f"{tree.commits[2][:10]} ada")  # a hash, and the author
    tab.wait_for_function("document.querySelector('.found output').textContent === '1 found'")
    tab.keyboard.press("Tab")
    assert results.evaluate("(link) => link === document.activeElement")
    tab.keyboard.press("Shift+Tab")
    tab.locator(".search input").fill("nothing like it")
    tab.wait_for_function("document.querySelector('.found output').textContent === '0 found'")
    assert output.is_visible()
    tab.keyboard.press("Escape")
    assert not output.is_visible()
    tab.keyboard.press("/")
    tab.keyboard.type(tree.commits[2][:8])
    tab.wait_for_function("document.querySelector('.found output').textContent === '1 found'")
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"**/commit-{tree.commits[2][:8]}.html")


@pytest.mark.slow
def test_overview_of_many_rows_shows_all(tab, tmp_path):
    shape = large_tree.Shape(commits=3, series=220)
    commits = large_tree.build(tmp_path, shape, [])
    _, out = site_of(synthetic.Tree(tmp_path / "repository", tmp_path / "results", commits))
    show(tab, out, "index.html")
    assert tab.locator(ROWS).count() == 100
    tab.locator("input[name=q]").fill("kernel_004")  # of the rows that the page leaves out, too
    tab.locator("form.filters output", has_text="20 of 110 match").wait_for()
    assert tab.locator(ROWS).count() == 20
    tab.locator("input[name=q]").fill("")
    tab.get_by_role("button", name="show all 110").press("Enter")
    assert tab.locator(ROWS).count() == 110
    assert tab.get_by_role("button", name="show all").count() == 0
    (out / "data" / "home-rows.js").write_text("")
    show(tab, out, "index.html", "sort=1")
    tab.locator("form.filters output", has_text="data/home-rows.js is damaged").wait_for()
    assert tab.locator(ROWS).count() == 100


@pytest.mark.slow
def test_overview_says_when_it_was_measured_and_loads_no_charts(tab, site):
    _, out = site
    requests = []
    tab.on("request", lambda request: requests.append(request.url))
    show(tab, out, "index.html")
    assert not [url for url in requests if "uPlot" in url]
    assert "2026-01-01 01:06 UTC" in tab.locator(".answer").inner_text()


# ---- addresses --------------------------------------------------------------------------------------------------

FIELDS = """() => Array.from(document.querySelectorAll("main select, main input"), (field) =>
  [field.name, field.type === "checkbox" ? field.checked : field.value])"""
CHOICES = {
    "index.html": "q=matmul&sort=1",
    "findings.html": "state=&kind=regression",
    "kernel-matmul-Cpu.html": "unit=%C2%B5s&state=cold&hide=native",
    "compare.html": "kernel=matmul+Cpu&text=native",
    "roofline.html": "benchmark=matmul.Cpu.time_hot&implementation=native",
    "measurement.html": "commit={oldest}",
}


def settle(tab):
    """Wait until a page has taken up its address and shows nothing new."""
    tab.wait_for_load_state("networkidle")
    tab.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 300)))")


@pytest.mark.slow
def test_home_row_opens_its_machine_and_state(tab, whole_site):
    show(tab, whole_site[1], "index.html")
    row = tab.locator(ROWS, has_text="matmul").filter(has_text="Cpu · hot · native").filter(has_text=OTHER)
    row.locator("th a").first.click()
    tab.wait_for_selector(TREND)
    assert tab.input_value("select[name=state]") == "hot"
    assert tab.locator("select[name=machine] option:checked").get_attribute("data-machine") == OTHER
    assert tab.locator(".behind:visible h2").inner_text() == f"{OTHER} hot"
    show(tab, whole_site[1], "kernel-matmul-Cpu.html")  # of bench-1, which has cold calls, too
    assert tab.input_value("select[name=state]") == "hot"


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOICES)
def test_skip_link_leaves_the_choice(tab, whole_site, name):
    tree, out = whole_site
    tab.goto((out / name).as_uri() + "#" + CHOICES[name].format(oldest=tree.commits[0]))
    settle(tab)
    before = (tab.url, tab.evaluate(FIELDS))
    tab.locator("a.skip").focus()
    tab.keyboard.press("Enter")
    settle(tab)
    assert tab.evaluate("document.activeElement.id") == "main"
    assert (tab.url, tab.evaluate(FIELDS)) == before


def missed(*gone):
    """Return what a page says of what an address names and is not there."""
    named = (f"{what} “\u2068{name}\u2069”" for what, name in gone)
    return f"Not here, so something else is shown: {', '.join(named)}."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "gone"),
    [
        ("machine=gone&case=float16-8x8x8", [("machine", "gone"), ("case", "float16-8x8x8")]),
        (f"machine={OTHER}&environment=old&state=cold", [("environment", "old"), ("state", "cold")]),
        ("environment=old&unit=parsec", [("environment", "old"), ("unit", "parsec")]),
        ("range=7&scale=round", [("range", "7"), ("scale", "round")]),
        ("source=abcd", [("source", "abcd")]),
    ],
)
def test_address_of_a_kernel_in_vain(tab, whole_site, address, gone):
    show(tab, whole_site[1], "kernel-matmul-Cpu.html", address)
    assert tab.locator(".status").first.inner_text().startswith(missed(*gone))
    if OTHER in address:  # the same machine's other environment is nearer than another machine
        assert tab.locator("select[name=machine] option:checked").get_attribute("data-machine") == OTHER
    tab.select_option("select[name=range]", "50")
    tab.wait_for_function("!document.querySelector('.status').textContent.includes('Not here')")
    assert "source" not in tab.url


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "shown", "text"),
    [
        (f"machine={OTHER}&device=Cpu", 12, None),
        ("benchmark=matmul.Cpu.time_hot&implementation=native", 4, None),
        ("machine=gone", 0, "gone (not here)"),
        (f"machine={MACHINE}&device=Cuda", 0, None),  # which both are, but not together
        ("implementation=fortran", 0, "fortran (not here)"),
    ],
)
def test_address_of_a_roofline(tab, whole_site, address, shown, text):
    show(tab, whole_site[1], "roofline.html", address)
    assert tab.locator("tr[data-series]:visible").count() == shown
    assert tab.locator("svg.frame .mark:not(.older):visible").count() == shown
    sections = tab.locator("section.roofline:visible")
    assert (sections.count() > 0) == (shown > 0)
    assert tab.locator("form.filters output").inner_text().startswith(f"{shown} of ")
    assert tab.locator("option.gone").all_text_contents() == ([text] if text else [])


# ---- phones -----------------------------------------------------------------------------------------------------

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
  let behind = item;
  while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
  const style = getComputedStyle(item);
  return [[style.backgroundAttachment, style.backgroundImage.includes(getComputedStyle(behind).backgroundColor)]];
})"""


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_phone_breaks_no_name(tab, whole_site, width):
    tree, out = whole_site
    tab.set_viewport_size({"width": width, "height": 800})
    cut = []
    for name in ("index.html", "kernel-matmul-Cpu.html", f"commit-{tree.commits[2][:8]}.html", "roofline.html"):
        show(tab, out, name)
        assert (
            len(set(tab.locator(".site a:visible").evaluate_all("(links) => links.map((link) => link.offsetTop)"))) == 1
        )
        assert tab.evaluate(BROKEN) == [], name
        cut += tab.evaluate(CUT)
    assert len(cut) > 3 and all("local" in attached and "scroll" in attached and same for attached, same in cut)


@pytest.mark.slow
def test_phone_begins_with_the_last_change(tab, site):
    """The choices fold: the blamed commit and the chart are on the first screen."""
    tree, out = site
    tab.set_viewport_size({"width": 390, "height": 844})
    show(tab, out, "kernel-matmul-Cpu.html")
    commit, choices = tab.locator(".blamed a.sha"), tab.locator("#choice select[name=case]")
    assert commit.inner_text() == tree.commits[2][:8] and choices.is_hidden()
    box = tab.locator(".chart:visible").bounding_box()
    assert commit.bounding_box()["y"] < box["y"] and box["y"] + box["height"] < 844
    tab.get_by_text("choose test case").click()
    assert choices.is_visible()
    tab.set_viewport_size({"width": 1280, "height": 900})
    assert choices.is_visible() and tab.locator(".unfold").is_hidden()


@pytest.mark.slow
def test_commands_break_at_blanks_only(tab, evidence_site):
    _, out, (finding, *_) = evidence_site
    for width in (320, *WIDTHS, 700, 900, 1100):
        tab.set_viewport_size({"width": width, "height": 800})
        show(tab, out, finding_href(finding.id))
        assert tab.evaluate(BROKEN_COMMANDS) == [], width
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    wanted = [text for _, text in (*looks(finding), *decisions(finding))]
    assert any("--case" in text for text in wanted)
    codes = tab.locator(".command-line code")
    assert sorted(codes.all_text_contents()) == sorted(wanted)
    assert sorted(codes.evaluate_all("(all) => all.map((one) => one.innerText)")) == sorted(wanted)


# ---- paper ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_print_of_folds(tab, whole_site):
    tree, out = whole_site
    show(tab, out, f"commit-{tree.commits[2][:8]}.html")
    row = tab.locator("details").first.locator("dl, td, pre").first
    folded = "(cell) => cell.checkVisibility({ contentVisibilityAuto: true })"
    assert row.evaluate(folded) is False
    tab.emulate_media(media="print")
    assert row.evaluate(folded) is True
    assert tab.evaluate("[...document.querySelectorAll('details')].every((fold) => fold.offsetHeight > 60)")


@pytest.mark.slow
def test_print_of_a_chart(tab, site):
    """Paper gets the chart in light colours, in the width of the page."""
    _, out = site
    tab.emulate_media(color_scheme="dark")
    show(tab, out, "kernel-matmul-Cpu.html")
    change(tab, lambda: tab.uncheck("input[value=eager]"))
    dark = tab.evaluate(DRAWN)
    tab.emulate_media(media="print")
    tab.wait_for_function(f"{DRAWN} !== {dark!r}")
    tab.set_viewport_size({"width": 700, "height": 900})
    assert tab.locator(".chart canvas").bounding_box()["width"] < 700
    assert tab.locator("select[name=case]").is_visible()
    assert tab.locator("fieldset label:visible").all_inner_texts() == ["native", "triton"]


# ---- findings ---------------------------------------------------------------------------------------------------

# --- in a browser --------------------------------------------------------------------------------------------------


def rows_shown(tab):
    return tab.locator("tr[data-state]:visible").count()


@pytest.mark.slow
def test_findings_filters(tab, evidence_site):
    _, out, findings = evidence_site
    show(tab, out, "findings.html")
    assert rows_shown(tab) == sum(finding.state in OPEN for finding in findings)
    tab.select_option("[name=state]", "")
    tab.select_option("[name=kind]", "environment")
    assert rows_shown(tab) == 1 and tab.evaluate("location.hash") == "#state=&kind=environment"
    tab.go_back()
    tab.wait_for_function("document.querySelector('[name=kind]').value === ''")
    assert rows_shown(tab) == len(findings)
    show(tab, out, "findings.html", "state=&text=Vectorise+matmul")
    assert rows_shown(tab) >= 1 and tab.input_value("[name=text]") == "Vectorise matmul"
    tab.fill("[name=text]", "no such thing")
    assert rows_shown(tab) == 0


@pytest.mark.slow
def test_command_is_copied_by_keyboard(tab, evidence_site):
    _, out, findings = evidence_site
    show(tab, out, finding_href(findings[0].id))
    button = tab.locator("button[data-copy]").first
    button.focus()
    tab.keyboard.press("Enter")
    tab.wait_for_function("document.querySelector('button[data-copy]').textContent === 'copied'")
    tab.locator("summary").first.focus()
    tab.keyboard.press("Enter")
    assert tab.locator("details[open] tbody tr").count() == 1  # the look of a folded re-run
