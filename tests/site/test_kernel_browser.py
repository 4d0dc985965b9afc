"""A kernel's page in a real browser: large histories, marks, addresses, keys, fingers, hostile names."""

import math

import pytest

from kernel_velocity import units
from kernel_velocity.roofline import model
from kernel_velocity.site.pages import kernel_tables
from tests import synthetic
from tests.site import large_site
from tests.site.large_site import CASE, FLOP
from tests.site.test_browser import change, choose, chromium, show, site, tab, written  # noqa: F401 - fixtures
from tests.site.test_report import HOSTILE

pytestmark = pytest.mark.slow
PAGE = "kernel-matmul-Cuda.html"
IMPLEMENTATIONS = ("eager", "compile", "native", "triton")
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
LOADED = "Array.from(document.scripts, (script) => script.src.split('/data/')[1]).filter(Boolean)"
HOSTILE_NAMES = (
    "native",
    "eager",
    "<img src=x onerror=window.pwned=1>",
    "x" * 300,
    "line: native",
    "\u202etfel ot thgir",
)


@pytest.fixture(scope="module")
def medium(tmp_path_factory):
    """A site of 600 commits with both cache states, and its folder."""
    folder = tmp_path_factory.mktemp("medium")
    found = large_site.make(folder, 600, IMPLEMENTATIONS, states=("hot", "cold"))
    large_site.write(found, folder / "site")
    return found, folder / "site"


def source(tab, name):  # noqa: F811
    return tab.evaluate(SOURCE, name)


def point(tab, x, y):  # noqa: F811
    return tab.evaluate(PLACE, [x, y])


def range_of(tab, axis):  # noqa: F811
    return tab.evaluate(f"(({{start, end}}) => [start, end])(Bokeh.documents[0].roots()[0].{axis}_range)")


def test_ten_thousand_commits_of_ten_series(tab, tmp_path):  # noqa: F811
    """The page holds little, loads what it shows, draws no more than pixels, and the cursor still tells the value."""
    found = large_site.make(tmp_path, 10_000, (*IMPLEMENTATIONS, *"abcdef"))
    page = large_site.write(found, tmp_path / "site")
    assert page.stat().st_size < 1_000_000
    show(tab, page.parent, PAGE)
    assert len(tab.evaluate(LOADED)) == 13  # ten series, their newest entries, the commits, the marks
    assert tab.locator(".status").first.inner_text().startswith("10,000 commits")
    assert tab.locator(".case tbody tr").count() == 50
    native = found.series(next(key for key in found.keys if key.implementation == "native"))
    drawn = source(tab, "line: native")
    known = [value for value in drawn["y"] if not math.isnan(value)]
    assert 500 < len(drawn["x"]) < 4000
    assert max(known) == pytest.approx(FLOP / native.seconds[native.is_measured].min() / 1e9, rel=1e-6)
    assert min(known) == pytest.approx(FLOP / native.seconds[native.is_measured].max() / 1e9, rel=1e-6)
    assert source(tab, "dots: native")["x"] == []
    assert len(source(tab, "changes")["x"]) >= 2
    x, y = point(tab, 5000, known[0])
    tab.mouse.move(x, y)
    tab.mouse.move(x + 0.2, y)
    tip = tab.locator(".tip")
    sha = tip.locator("a.sha").inner_text()
    place = next(index for index, other in enumerate(found.line) if other.startswith(sha))
    assert abs(place - 5000) <= 10
    assert units.rate(FLOP / native.seconds[place] / 1e9, "GFLOPS") in tip.text_content()
    tab.locator(".chart").focus()
    tab.keyboard.press("End")
    assert tip.locator("a.sha").inner_text() == found.line[-1][:8]
    choose(tab, "range", "50")
    assert len(source(tab, "dots: native")["x"]) == 50
    assert len(source(tab, "line: native")["x"]) == 50


def test_what_is_planted_is_marked(tab, medium):  # noqa: F811
    _, out = medium
    show(tab, out, PAGE)
    changes = source(tab, "changes")
    assert [abs(x - place) <= 2 for x, place in zip(changes["x"], (200, 400), strict=True)] == [True, True]
    assert changes["marker"] == ["triangle", "inverted_triangle"]
    assert changes["label"][0].endswith("faster")
    assert source(tab, "tag")["x"] == [99, 199, 299, 399, 499, 599]
    assert source(tab, "environment")["x"] == [299.5]
    assert source(tab, "environment")["label"] == [""]  # it would lie on that of a tag
    assert source(tab, "heads")["x"] == [400]
    assert source(tab, "heads")["label"] == ["regression, confirmed"]
    tab.locator(".chart").focus()
    tab.keyboard.press("Home")
    for _ in range(20):
        tab.keyboard.press("PageDown")
    text = tab.locator(".tip").text_content()
    for wanted in ("regression, confirmed: time +10.0%", "8 rounds", "Tile the outer loops", "Ada Lovelace"):
        assert wanted in text
    change(tab, lambda: tab.uncheck("input[value=native]"))
    assert source(tab, "changes")["x"] == source(tab, "heads")["x"] == []
    assert source(tab, "tag")["x"] != []
    assert tab.locator(".behind:visible .marked tbody tr").count() >= 9


def test_a_click_on_the_head_of_a_finding_opens_it_and_elsewhere_the_commit(tab, medium):  # noqa: F811
    found, out = medium
    show(tab, out, PAGE)
    tab.wait_for_timeout(300)  # the frame may still move
    heads = source(tab, "heads")
    x, y = point(tab, heads["x"][0], heads["y"][0])
    tab.mouse.click(x, y + 3)
    tab.wait_for_url(f"**/finding-{found.findings[0].id}.html")


def test_failed_commits_say_why_and_break_the_line(tab, medium):  # noqa: F811
    _, out = medium
    show(tab, out, PAGE)
    choose(tab, "range", "50")
    tab.locator(".chart").focus()
    tab.keyboard.press("Home")
    while "wrong by 3e-2" not in tab.locator(".tip").text_content():
        tab.keyboard.press("ArrowRight")
    assert "failed" in tab.locator(".tip").text_content()
    assert tab.locator(".tip a.sha").inner_text() == medium[0].line[581][:8]  # 97 * 6 - 1
    assert any(math.isnan(value) for value in source(tab, "line: native")["y"])


def test_every_quantity_is_what_its_formula_says(tab, medium):  # noqa: F811
    found, out = medium
    show(tab, out, PAGE)
    choose(tab, "range", "200")
    at = {(key.benchmark[-4:].strip("_"), key.implementation): found.series(key).seconds[500] for key in found.keys}
    hot, eager, cold = at["hot", "native"], at["hot", "eager"], at["cold", "native"]
    line = model.roofline(
        flops=FLOP, bytes=large_site.BYTES, seconds=hot, roofs=found.roof_choice(None, None).roofs, dtype="float32"
    )
    wanted = {
        "GFLOPS": FLOP / hot / 1e9,
        "µs": hot * 1e6,
        "speed-up": eager / hot,
        "efficiency": 100 * line.efficiency,
        "cache benefit": line.cache_benefit,
        "cold / hot": cold / hot,
        "error": 1.5e-7,
    }
    offered = tab.eval_on_selector_all("select[name=unit] option", "(all) => all.map((each) => each.value)")
    assert offered == list(wanted)
    for name, value in wanted.items():
        if name != "GFLOPS":
            choose(tab, "unit", name)
        drawn = source(tab, "line: native")
        assert drawn["y"][drawn["x"].index(500)] == pytest.approx(value, rel=1e-5), name
    choose(tab, "unit", "GFLOPS")
    choose(tab, "state", "cold")
    drawn = source(tab, "line: native")
    assert drawn["y"][drawn["x"].index(500)] == pytest.approx(FLOP / cold / 1e9, rel=1e-5)
    assert tab.locator(".behind:visible h2").inner_text().endswith("cold")


def test_a_choice_survives_reload_and_is_shared_by_its_address(tab, medium):  # noqa: F811
    _, out = medium
    show(tab, out, PAGE)
    assert "#" not in tab.url
    for name, value in (("unit", "efficiency"), ("state", "cold"), ("range", "50"), ("scale", "close")):
        choose(tab, name, value)
    change(tab, lambda: tab.uncheck("input[value=compile]"))
    address = tab.url

    def state():
        chosen = "(all) => all.map((each) => each.type === 'checkbox' ? each.checked : each.value)"
        return (
            tab.eval_on_selector_all("form select, form input", chosen),
            range_of(tab, "x"),
            repr(source(tab, "line: native")),  # NaN equals nothing, but its text
        )

    before = state()
    assert before[1] == [549.5, 599.5]
    tab.reload()
    tab.wait_for_selector("section.trend[data-ready=yes]")
    assert state() == before
    tab.goto("about:blank")
    tab.goto(address)
    tab.wait_for_selector("section.trend[data-ready=yes]")
    assert state() == before
    change(tab, lambda: tab.evaluate("window.location.hash = ''"))
    assert range_of(tab, "x") == [-0.5, 599.5]


@pytest.mark.parametrize(
    "address", ["#unit=%3Cb%3E&case=nothing&range=-1&hide=nobody&machine=x", "#place-1-hot", "#%", "#="]
)
def test_an_address_that_makes_no_sense_shows_the_page_as_it_begins(tab, medium, address):  # noqa: F811
    _, out = medium
    tab.goto((out / PAGE).as_uri() + address)
    tab.wait_for_selector("section.trend[data-ready=yes]")
    assert range_of(tab, "x") == [-0.5, 599.5]
    assert tab.input_value("select[name=case]") == CASE


def test_keys_alone_are_enough(tab, site):  # noqa: F811
    tree, out = site
    show(tab, out, "kernel-matmul-Cpu.html")
    for _ in range(30):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.className") == "chart":
            break
    tab.keyboard.press("ArrowLeft")
    assert tab.locator(".tip a.sha").inner_text() == tree.commits[-1][:8]
    tab.keyboard.press("Escape")
    assert tab.locator(".tip").is_hidden()
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"**/commit-{tree.commits[-2][:8]}.html")


def test_a_finger_shows_first_and_opens_then(chromium, site):  # noqa: F811
    tree, out = site
    context = chromium.new_context(offline=True, has_touch=True, viewport={"width": 390, "height": 800})
    page = context.new_page()
    show(page, out, "kernel-matmul-Cpu.html")
    page.wait_for_timeout(300)
    x, y = point(page, 2, 1)
    page.touchscreen.tap(x, y)
    assert page.locator(".tip a.sha").inner_text() == tree.commits[2][:8]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    x, y = point(page, 2, 1)
    page.touchscreen.tap(x, y)
    page.wait_for_url(f"**/commit-{tree.commits[2][:8]}.html")
    context.close()


def test_the_table_is_filled_from_the_data_on_demand(tab, medium):  # noqa: F811
    found, out = medium
    show(tab, out, PAGE)
    card = tab.locator(".behind:visible .case:visible")
    assert card.locator("tbody tr").count() == 50  # half of them from the data
    assert card.locator(".further .count").text_content() == "the newest 50 of 600 commits"
    shown = card.locator("tbody tr").first.locator("td .detail").first.text_content()
    card.get_by_role("button", name="show all").click()
    tab.wait_for_function("document.querySelectorAll('.behind:not([hidden]) .case tbody tr').length === 600")
    assert card.locator("tbody tr").last.locator("a.sha").text_content() == found.line[0][:8]
    assert card.get_by_role("button").count() == 0
    key = found.keys[0]
    cell = card.locator("tbody tr").last.locator("td").first
    assert cell.locator(".text").text_content() == units.rate(found.series(key).gflops[0], "GFLOPS")
    assert shown.count(" to ") == cell.locator(".detail").text_content().count(" to ") == 1


def test_changes_are_those_that_the_page_says_of_the_newest(tab, medium):  # noqa: F811
    """The script compares as series/changes.py does, over failed commits and ends of files, in the same words."""
    found, out = medium
    show(tab, out, PAGE)
    card = tab.locator(".behind:visible .case:visible")
    card.get_by_role("button", name="show all").click()
    tab.wait_for_function("document.querySelectorAll('.behind:not([hidden]) .case tbody tr').length === 600")
    heads = card.locator("thead th bdi").all_text_contents()
    keys = {key.implementation: key for key in found.keys if key.benchmark.endswith("hot")}
    for column, name in enumerate(heads):
        told = tab.evaluate(
            """(column) => [...document.querySelectorAll('.behind:not([hidden]) .case tbody tr')].map((row) => {
              const cell = row.querySelectorAll('td')[column];
              return [cell.querySelector('.change')?.textContent ?? "", cell.classList[1] ?? ""];
            })""",
            column,
        )
        series = found.series(keys[name])
        cells = kernel_tables.recent(series, 0).cells
        wanted = {
            found.line[place]: [text, tone] for place, (_, _, text, tone) in zip(series.place, cells, strict=True)
        }
        assert told == [wanted.get(sha, ["", "absent"]) for sha in reversed(found.line)]
        assert sum(text != "" for text, _ in told) > 500
    failed = card.locator("td.failed")
    assert (
        failed.locator("sup.marks").all_text_contents() == ["1"] * failed.count() != []
    )  # also where a script made it
    assert set(card.locator(".remarks").all_text_contents()) == {
        "contended in 1 of 8 rounds"
    }  # no footnote of the page


def test_the_source_of_any_version_is_shown_as_text(tab, tmp_path):  # noqa: F811
    old, new = "// <b>one</b>\n", "// </pre><script>window.pwned=1</script>\n"
    files = {0: {"kernels/matmul/matmul.cpp": old}, 3: {"kernels/matmul/matmul.cpp": new}}
    tree, out = written(synthetic.build(tmp_path, files=files))
    show(tab, out, "kernel-matmul-Cpu.html")
    source_part = tab.locator(".source")
    assert source_part.locator("pre").is_hidden()
    source_part.locator("summary").click()
    assert source_part.locator("pre").text_content() == new
    assert source_part.locator("option").count() == 2
    source_part.locator("select").select_option(tree.commits[0])
    tab.wait_for_function(f"document.querySelector('.source pre').textContent === {old!r}")
    assert source_part.locator("h3").all_inner_texts() == ["matmul.cpp"]
    assert tab.evaluate("window.pwned") is None
    change(tab, lambda: tab.select_option("select[name=unit]", "µs"))  # leaves the source in the address
    tab.reload()
    tab.wait_for_function(f"document.querySelector('.source pre').textContent === {old!r}")
    assert source_part.locator("pre").is_visible() and tab.input_value("select[name=unit]") == "µs"
    tab.go_back()
    tab.go_back()
    tab.wait_for_function(f"document.querySelector('.source pre').textContent === {new!r}")
    show(tab, out, "kernel-add_mul_exp-Cpu.html")
    assert tab.locator(".source").count() == 0


def test_machines_are_a_choice_that_the_address_names(tab, tmp_path):  # noqa: F811
    tree = synthetic.build(tmp_path)
    other = "<b>\u05e9 & machine=x#"
    synthetic.write_json(tree.results / other / "machine.json", {"machine": other, "version": 1})
    synthetic.write_commit(tree.results, tree.commits[0], 0, machine=other)
    _, out = written(tree)
    show(tab, out, "kernel-matmul-Cpu.html")
    assert tab.locator(".status").first.inner_text().startswith("1 commit")  # "<" comes first
    choose(tab, "machine", "place-2")
    assert tab.locator(".status").first.inner_text().startswith("5 commits")
    choose(tab, "machine", "place-1")
    assert tab.locator(".behind:visible h2 bdi").inner_text() == other
    choose(tab, "machine", "place-2")
    tab.reload()
    tab.wait_for_selector("section.trend[data-ready=yes]")
    assert tab.locator(".behind:visible h2 bdi").inner_text() == synthetic.MACHINE
    assert "machine=bench-1" in tab.url


def test_marks_follow_the_readers_colours(tab, medium):  # noqa: F811
    _, out = medium
    tab.emulate_media(color_scheme="light")
    show(tab, out, PAGE)
    light = source(tab, "heads")["colour"]
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function(f"({SOURCE})('heads').colour[0] !== {light[0]!r}")


@pytest.mark.parametrize("length", [1, 3, 120])
def test_names_that_want_to_be_code_are_shown(tab, tmp_path, length):  # noqa: F811
    found = large_site.make(
        tmp_path,
        length,
        HOSTILE_NAMES,
        machine="\u05e9\u05dc\u05d5\u05dd <b>bench</b>",
        subjects=HOSTILE,
        tag_names=("$$\\frac{1}{2}$$ <b>", "v" * 300),
        details=(),
    )
    large_site.write(found, tmp_path / "site")
    tab.set_viewport_size({"width": 390, "height": 800})
    show(tab, tmp_path / "site", PAGE)
    assert tab.locator(".status").first.inner_text().startswith(f"{length} commit")
    tab.locator(".chart").focus()
    for index in range(min(length, 3)):
        tab.keyboard.press("ArrowLeft")
        text = tab.locator(".tip").text_content()
        assert HOSTILE[(length - 1 - index) % len(HOSTILE)].partition("\n")[0].strip() in text
        assert all(name in text for name in HOSTILE_NAMES)
    assert tab.evaluate("window.pwned") is None
    assert tab.locator("img, main b").count() == 0
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_data_that_is_missing_is_named(chromium, tmp_path):  # noqa: F811
    found = large_site.make(tmp_path, 3, ("eager",))
    page = large_site.write(found, tmp_path / "site")
    (lost,) = (tmp_path / "site" / "data").glob(f"series-{16 * '[0-9a-f]'}.js")
    lost.unlink()
    context = chromium.new_context(offline=True)
    opened = context.new_page()
    opened.goto(page.as_uri())
    opened.wait_for_function("document.querySelector('.status').textContent !== ''")
    said = opened.locator(".status").first.inner_text()
    assert said.startswith(
        f"data/{lost.name} cannot be loaded, so this is not shown: \u2068eager\u2069; write the site again"
    )
    assert opened.locator(".case:visible").count() == 1
    context.close()
