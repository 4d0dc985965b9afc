"""A kernel's page in a real browser: large histories, marks, addresses, keys, fingers, lost data, hostile names."""

import itertools
import json
import math
import shutil

import pytest

from kernel_velocity import units
from kernel_velocity.roofline import model
from kernel_velocity.site.writer import read_data
from tests import synthetic
from tests.site import large_site
from tests.site.browser import INKED, PANEL, POINTS, TREND, change, choose, opened, point, range_of, show, source
from tests.site.large_site import FLOP
from tests.site.pages import HOSTILE
from tests.site.sites import site_of

pytestmark = pytest.mark.slow

PAGE = "kernel-matmul-Cuda.html"
IMPLEMENTATIONS = ("eager", "compile", "native", "triton")
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
    site = large_site.make(folder, 600, IMPLEMENTATIONS, states=("hot", "cold"))
    large_site.write(site, folder / "site")
    return site, folder / "site"


def test_ten_thousand_commits(tab, tmp_path):
    """The page holds little, loads what it shows, and the cursor still tells the value."""
    site = large_site.make(tmp_path, 10_000, (*IMPLEMENTATIONS, *"abcdef"))
    page = large_site.write(site, tmp_path / "site")
    assert page.stat().st_size < 1_000_000
    show(tab, page.parent, PAGE)
    assert len(tab.evaluate(LOADED)) == 13  # ten series, their newest entries, the commits, the marks
    assert tab.locator(".status").first.inner_text().startswith("10,000 commits")
    assert tab.locator(".case tbody tr").count() == 20  # 200 values
    native = site.series(next(key for key in site.keys if key.implementation == "native"))
    values = [value for value in source(tab, "line: native")["y"] if value is not None]
    assert max(values) == pytest.approx(FLOP / native.seconds[native.is_measured].min() / 1e9, rel=1e-5)
    assert min(values) == pytest.approx(FLOP / native.seconds[native.is_measured].max() / 1e9, rel=1e-5)
    assert source(tab, "dots: native")["x"] == []
    assert len(source(tab, "change")["x"]) >= 2
    x, y = point(tab, 5000, values[0])
    tab.mouse.move(x, y)
    tab.mouse.move(x + 0.2, y)
    tip = tab.locator(".tip")
    sha = tip.locator("a.sha").inner_text()
    position = next(index for index, other in enumerate(site.line) if other.startswith(sha))
    assert abs(position - 5000) <= 10
    assert units.rate(FLOP / native.seconds[position] / 1e9, "GFLOPS") in tip.text_content()
    tab.locator(".chart:visible").focus()
    tab.keyboard.press("End")
    assert tip.locator("a.sha").inner_text() == site.line[-1][:8]
    choose(tab, "range", "50")
    assert len(source(tab, "dots: native")["x"]) == native.is_measured[-50:].sum() >= 49


def test_marks_of_what_is_planted(tab, medium):
    _, out = medium
    show(tab, out, PAGE)
    changes = source(tab, "change")
    assert [abs(x - position) <= 2 for x, position in zip(changes["x"], (200, 400), strict=True)] == [True, True]
    assert changes["word"] == ["faster", "slower"]
    assert changes["label"][0].endswith("faster")
    assert source(tab, "tag")["x"] == [99, 199, 299, 399, 499, 599]
    assert source(tab, "environment")["x"] == [299.5]
    assert source(tab, "environment")["label"] == [""]  # it would lie on that of a tag
    assert source(tab, "finding")["x"] == [400]
    assert source(tab, "finding")["label"] == ["regression, confirmed"]
    tab.locator(".chart:visible").focus()
    tab.keyboard.press("Home")
    for _ in range(20):
        tab.keyboard.press("PageDown")
    text = tab.locator(".tip").text_content()
    for wanted in ("regression, confirmed: time +10.0%", "8 rounds", "Tile the outer loops", "Ada Lovelace"):
        assert wanted in text
    change(tab, lambda: tab.uncheck("input[value=native]"))
    assert source(tab, "change")["x"] == source(tab, "finding")["x"] == []
    assert source(tab, "tag")["x"] != []
    assert tab.locator(".behind:visible .marked tbody tr").count() >= 9


def test_click_opens_a_finding(tab, medium):
    site, out = medium
    show(tab, out, PAGE)
    tab.wait_for_timeout(300)  # the frame may still move
    head = heads(tab)[0]
    x, y = head["x"], head["y"]
    tab.mouse.click(x, y + 3)
    tab.wait_for_url(f"**/finding-{site.findings[0].id}.html")


def test_failed_commits_break_the_line(tab, medium):
    _, out = medium
    show(tab, out, PAGE)
    choose(tab, "range", "50")
    tab.locator(".chart:visible").focus()
    tab.keyboard.press("Home")
    while "wrong by 3e-2" not in tab.locator(".tip").text_content():
        tab.keyboard.press("ArrowRight")
    assert "failed" in tab.locator(".tip").text_content()
    assert tab.locator(".tip a.sha").inner_text() == medium[0].line[581][:8]  # 97 * 6 - 1
    assert source(tab, "line: native")["y"].count(None) == 6


def test_quantities_follow_their_formula(tab, medium):
    site, out = medium
    show(tab, out, PAGE)
    choose(tab, "range", "200")
    at = {(key.benchmark[-4:].strip("_"), key.implementation): site.series(key).seconds[500] for key in site.keys}
    hot, eager, cold = at["hot", "native"], at["hot", "eager"], at["cold", "native"]
    line = model.roofline(
        flops=FLOP, bytes=large_site.BYTES, seconds=hot, roofs=site.roof_choice(None, None).roofs, dtype="float32"
    )
    wanted = {
        "GFLOPS": FLOP / hot / 1e9,
        "µs": hot,
        "speed-up": eager / hot,
        "efficiency": 100 * line.of_limit,
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


def test_choices_survive_reload(tab, medium):
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
            range_of(tab),
            source(tab, "line: native"),
        )

    before = state()
    assert before[1] == [549.5, 599.5]
    tab.reload()
    tab.wait_for_selector(TREND)
    assert state() == before
    tab.goto("about:blank")
    tab.goto(address)
    tab.wait_for_selector(TREND)
    assert state() == before
    change(tab, lambda: tab.evaluate("window.location.hash = ''"))
    assert range_of(tab) == [-0.5, 599.5]


def test_ways_to_look(tab, whole_site):
    """Small multiples, an axis of time, a logarithmic one, and percent against the chosen commit."""
    tree, out = whole_site
    show(tab, out, KERNEL, "machine=bench-1")
    cases = tab.eval_on_selector_all("select[name=case] option:enabled", "(all) => all.map((each) => each.value)")
    choose(tab, "layout", "all")
    assert tab.locator(".panel:visible h3").all_inner_texts() == cases
    assert tab.locator(".case:visible").count() == len(cases) > 1
    tab.locator(".panel:visible h3 a").last.click()
    tab.wait_for_function("document.querySelectorAll('.panel:not([hidden])').length === 1")
    assert tab.input_value("select[name=case]") == cases[-1]
    values = tab.evaluate(POINTS, "native")["y"]
    choose(tab, "axis", "time")
    dates = tab.evaluate(f"{PANEL}.model.commits.map(({{date}}) => Date.parse(date) / 1000)")
    assert tab.evaluate(f"{PANEL}.model.x") == dates == sorted(dates)
    choose(tab, "scale", "log")
    assert tab.evaluate(f"{PANEL}.chart.scales.y.distr") == 3
    ticks = tab.evaluate(f"{PANEL}.chart.axes[1]._values")
    assert len(ticks) > 2 and all(len(tick.strip("0.").replace(".", "")) <= 2 for tick in ticks), ticks
    choose(tab, "scale", "percent")
    assert tab.evaluate(POINTS, "native")["y"] == pytest.approx([100 * (y / values[0] - 1) for y in values])
    x, y = point(tab, dates[3], 0)
    change(tab, lambda: tab.mouse.click(x, y))
    assert tab.evaluate(POINTS, "native")["y"] == pytest.approx([100 * (y / values[3] - 1) for y in values])
    assert tab.evaluate(f"{PANEL}.model.title") == f"rate, % against {tree.commits[3][:8]}"
    tab.mouse.move(x, 5)  # the tip stays at the chosen commit
    assert tab.locator(".tip a.sha").inner_text() == tree.commits[3][:8]
    tab.reload()
    tab.wait_for_selector(TREND)
    assert tab.locator(".tip a.sha").inner_text() == tree.commits[3][:8]
    assert tab.locator(".tip").bounding_box()["width"] <= 400  # as wide as beside the pointer


def test_mark_of_a_commit_not_shown(tab, site):
    tab.goto((site[1] / KERNEL).as_uri())
    commits, first = tab.evaluate("""() => {
      const columns = {commit: [0, 1, 3], outcome: ["measured", "n/a", "failed"]};
      const axis = axisOf([{columns}], 5);
      return [axis.commits, Array.from(axis.firstX)];
    }""")
    assert commits == [0, 3]
    assert first == [0, 1, 1, 1, 2]


def test_keyboard_alone_is_enough(tab, site):
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
    assert tab.locator(".tip a.sha").inner_text() == tree.commits[-2][:8]
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"**/commit-{tree.commits[-2][:8]}.html")


def test_touch_shows_first_and_opens_then(chromium, site):
    tree, out = site
    with opened(chromium, {"width": 390, "height": 800}, touch=True) as page:
        show(page, out, "kernel-matmul-Cpu.html")
        page.locator(".tools").scroll_into_view_if_needed()
        x, y = point(page, 2, 1)
        change(page, lambda: page.touchscreen.tap(x, y))
        assert page.locator(".tip a.sha").inner_text() == tree.commits[2][:8]
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        x, y = point(page, 2, 1)
        page.touchscreen.tap(x, y)
        page.wait_for_url(f"**/commit-{tree.commits[2][:8]}.html")


def test_source_of_any_version(tab, tmp_path):
    old, new = "// <b>one</b>\n", "// </pre><script>window.pwned=1</script>\n"
    section = 'sources = ["kernels/{kernel}"]\n'
    files = {
        0: {"kernel-velocity.toml": section, "kernels/matmul/matmul.cpp": old},
        3: {"kernels/matmul/matmul.cpp": new},
    }
    tree, out = site_of(synthetic.build(tmp_path, files=files))
    show(tab, out, "kernel-matmul-Cpu.html")
    source_part = tab.locator(".source")
    assert source_part.locator("pre").is_hidden()
    source_part.locator("summary").click()
    assert source_part.locator("pre").text_content() == new
    assert source_part.locator("option").count() == 2
    source_part.locator("select").select_option(tree.commits[0])
    tab.wait_for_function(f"document.querySelector('.source pre').textContent === {old!r}")
    assert source_part.locator(".files h3").all_inner_texts() == ["matmul.cpp"]
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


def test_machine_is_in_the_address(tab, tmp_path):
    tree = synthetic.build(tmp_path)
    other = "<b>\u05e9 & machine=x#"
    synthetic.write_json(tree.results / other / "machine.json", {"machine": other, "version": 1})
    synthetic.write_commit(tree.results, tree.commits[0], 0, machine=other)
    _, out = site_of(tree)
    show(tab, out, "kernel-matmul-Cpu.html")
    assert tab.locator(".status").first.inner_text().startswith("1 commit")  # "<" comes first
    choose(tab, "machine", "place-2")
    assert tab.locator(".status").first.inner_text().startswith("5 commits")
    choose(tab, "machine", "place-1")
    assert tab.locator(".behind:visible h2 bdi").inner_text() == other
    choose(tab, "machine", "place-2")
    tab.reload()
    tab.wait_for_selector(TREND)
    assert tab.locator(".behind:visible h2 bdi").inner_text() == synthetic.MACHINE
    assert "machine=bench-1" in tab.url


@pytest.mark.parametrize("length", [1, 3, 120])
def test_hostile_names_are_shown(tab, tmp_path, length):
    site = large_site.make(
        tmp_path,
        length,
        HOSTILE_NAMES,
        machine="\u05e9\u05dc\u05d5\u05dd <b>bench</b>",
        subjects=HOSTILE,
        tag_names=("$$\\frac{1}{2}$$ <b>", "v" * 300),
        details=(),
    )
    large_site.write(site, tmp_path / "site")
    tab.set_viewport_size({"width": 390, "height": 800})
    show(tab, tmp_path / "site", PAGE)
    assert tab.locator(".status").first.inner_text().startswith(f"{length} commit")
    tab.locator(".chart:visible").focus()
    for index in range(min(length, 3)):
        tab.keyboard.press("ArrowLeft")
        text = tab.locator(".tip").text_content()
        assert HOSTILE[(length - 1 - index) % len(HOSTILE)].partition("\n")[0].strip() in text
        assert all(name in text for name in HOSTILE_NAMES)
    assert tab.evaluate("window.pwned") is None
    assert tab.locator("img, main b").count() == 0
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


# ---- what the chart draws ----------------------------------------------------------------------------------------

NAMES = ("eager", "compile", "native", "triton", *"abcdef")
# The heads of findings and the labels of all marks, px of the window
HEADS = """() => {
  const {model, chart} = PANEL;
  const {left, top} = chart.ctx.canvas.getBoundingClientRect(), ratio = uPlot.pxRatio;
  return [...model.marks.finding, ...model.marks.change].map(({label, head, box}) => ({
    text: box ? label : "", x: head && left + head.x / ratio, y: head && top + head.y / ratio,
    from: left + box?.left / ratio, to: left + box?.right / ratio, above: top + box?.top / ratio}));
}""".replace("PANEL", PANEL)
FRAME = """() => {
  const {left, right, top, bottom} = PANEL.chart.over.getBoundingClientRect();
  return {left, right, middle: (top + bottom) / 2};
}""".replace("PANEL", PANEL)


def heads(tab):
    return tab.evaluate(HEADS)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A site of 120 commits, ten implementations and three findings close together."""
    folder = tmp_path_factory.mktemp("many")
    site = large_site.make(folder, 120, NAMES, findings_at=(0.6, 0.625, 0.66))
    large_site.write(site, folder / "site")
    return folder / "site"


def test_zoom_fits_dots_and_ticks(tab, many):
    show(tab, many, PAGE)
    tab.wait_for_function(f"({INKED})() > 500")
    frame = tab.evaluate(FRAME)
    wide = frame["right"] - frame["left"]

    def drag():
        tab.mouse.move(frame["right"] - 0.05 * wide, frame["middle"])
        tab.mouse.down()
        tab.mouse.move(frame["right"] + 45, frame["middle"] + 5, steps=3)
        tab.mouse.up()

    change(tab, drag)
    start, end = range_of(tab)
    assert start > 110 and end == pytest.approx(119.5)
    positions = list(range(math.ceil(start), 120))
    assert source(tab, "dots: native")["x"] == positions
    assert tab.evaluate(f"{PANEL}.chart.axes[0]._splits") == positions
    tab.reload()  # the zoom is in the address
    tab.wait_for_selector(TREND)
    assert range_of(tab) == [start, end]
    change(tab, lambda: tab.get_by_role("button", name="all commits").click())
    assert range_of(tab) == [-0.5, 119.5]
    tab.locator(".chart:visible").focus()
    change(tab, lambda: tab.keyboard.press("+"))
    assert range_of(tab) == [29.5, 90.5]
    change(tab, lambda: tab.keyboard.press("0"))
    assert range_of(tab) == [-0.5, 119.5]


def test_values_without_neighbours(tab, tmp_path):
    site = large_site.make(tmp_path, 400, ("eager", "native"), takes_turns=True)
    large_site.write(site, tmp_path / "site")
    show(tab, tmp_path / "site", PAGE)
    values = source(tab, "line: native")["y"]
    numbers = [position for position, value in enumerate(values) if value is not None]
    assert source(tab, "dots: native")["x"] == numbers  # of which no line is drawn
    assert len(numbers) == 200 - 2  # two failed


def test_ten_implementations_have_ten_looks(tab, many):
    show(tab, many, PAGE)
    lines = tab.evaluate(f"{PANEL}.model.lines.map(({{colour, dash}}) => `${{colour}} ${{dash}}`)")
    swatches = tab.eval_on_selector_all(
        "fieldset .swatch",
        "(all) => all.map(getComputedStyle).map((style) => style.backgroundColor + style.maskImage)",
    )
    assert len(lines) == len(swatches) == len(NAMES)
    assert len(set(lines)) == len(set(swatches)) == len(NAMES)


@pytest.mark.parametrize(
    ("unit", "is_of_time"), [("GFLOPS", True), ("efficiency", True), ("speed-up", False), ("error", False)]
)
def test_tip_of_times_and_of_others(tab, many, unit, is_of_time):
    tab.goto((many / PAGE).as_uri() + f"#unit={unit}")
    tab.wait_for_selector(TREND)
    tab.locator(".chart:visible").focus()
    tab.keyboard.press("End")
    text = tab.locator(".tip .figures", has_text="native").text_content()
    assert [word in text for word in ("8 rounds", " to ")] == [is_of_time] * 2
    assert "interval unknown" not in text
    assert bool(source(tab, "change")["x"]) == is_of_time


def test_labels_do_not_cross(tab, many):
    show(tab, many, PAGE)
    labels = heads(tab)
    assert [label["text"] for label in labels[:3]] == ["regression, confirmed", "", "regression, confirmed"]
    frame = tab.evaluate(FRAME)
    named = [label for label in labels if label["text"]]
    assert len(named) > 2 and any(label["text"].endswith("faster") for label in named)
    for label in named:
        assert frame["left"] <= label["from"] and label["to"] <= frame["right"]
    for left, right in itertools.combinations(named, 2):
        apart = left["to"] < right["from"] or right["to"] < left["from"]
        assert apart or abs(left["above"] - right["above"]) > 16
    for label, head in itertools.product(named, labels[:3]):
        assert label["above"] > head["y"] or not label["from"] < head["x"] < label["to"]


def test_implementation_never_measured(tab, tmp_path):
    site = large_site.make(tmp_path, 5, ("eager", "native", "triton"), nowhere=("triton",))
    large_site.write(site, tmp_path / "site")
    show(tab, tmp_path / "site", PAGE)
    assert tab.locator("fieldset label:visible").all_inner_texts() == ["eager", "native"]
    tab.locator(".chart:visible").focus()
    tab.keyboard.press("End")
    assert "triton" not in tab.locator(".tip").text_content()
    assert tab.locator(".case thead th").all_text_contents() == ["commit", "eager", "native", "triton"]


# ---- lost data --------------------------------------------------------------------------------------------------

KERNEL = "kernel-matmul-Cpu.html"
SERIES = "series-" + 16 * "[0-9a-f]"


@pytest.fixture
def damaged(site, tmp_path):
    """A site that a test may damage."""
    return shutil.copytree(site[1], tmp_path / "site")


def files(out, **fields):
    """Return the data files of the kernel's series of which all this is said."""
    series = read_data(out / "data" / "kernel-matmul-Cpu.js")["series"]
    entries = [entry for entry in series if all(entry[name] == value for name, value in fields.items())]
    assert entries
    return [out / "data" / f"{entry['name']}.js" for entry in entries]


def status(page):
    return page.locator(".status").first.inner_text()


@pytest.mark.parametrize(("length", "loss"), [(0, "is damaged"), (200, "is damaged"), (None, "cannot be loaded")])
def test_lost_data_is_loaded_again(page, damaged, length, loss):
    (path,) = files(damaged, implementation="eager", case="float32-512x512x512")
    whole = path.read_text()
    if length is None:
        path.unlink()
    else:
        path.write_text(whole[:length])
    page.goto((damaged / KERNEL).as_uri() + "#case=float32-512x512x512")
    page.wait_for_selector(TREND)
    assert status(page).startswith(f"data/{path.name} {loss}, so this is not shown: \u2068eager\u2069; write")
    assert status(page).endswith("5 commits")
    assert len(source(page, "line: native")["y"]) == 5
    assert source(page, "line: eager")["y"] == []
    path.write_text(whole)
    page.select_option("select[name=unit]", "µs")
    page.wait_for_function("document.querySelector('.status').textContent === '5 commits'")
    assert len(source(page, "line: eager")["y"]) == 5


@pytest.mark.parametrize(
    ("name", "pattern", "words"),
    [
        ("compare.html", SERIES, "series could not be loaded: their files in data/ are missing or damaged."),
        ("compare.html", "series-index", "data/series-index.js is damaged"),
        ("measurement.html", "rounds-????????-*", "The rounds of this commit cannot be loaded."),
    ],
)
def test_damaged_data_is_named(page, damaged, name, pattern, words):
    files = list((damaged / "data").glob(f"{pattern}.js"))
    assert files
    for path in files:
        path.write_bytes(path.read_bytes()[:60])
    page.goto((damaged / name).as_uri())
    page.wait_for_function(f"document.querySelector('main').textContent.includes({words!r})")


def rewrite(path, value):
    path.write_text(f"KV.put({json.dumps(path.stem)},{json.dumps(value)});\n")


def test_data_of_two_reports(page, damaged):
    """The site was written again while the page was open: half of a series would be missing, or be there twice."""
    newest = list((damaged / "data").glob("newest-*.js"))
    assert newest
    for path in newest:
        value = read_data(path)
        assert value["before"] == 0
        rewrite(path, value | {"before": 64})
    page.goto((damaged / KERNEL).as_uri() + "#case=float32-512x512x512")
    page.wait_for_selector(TREND)
    assert " is of another report than data/newest-" in status(page)
    assert source(page, "line: native")["y"] == source(page, "line: eager")["y"] == []


def test_commits_of_another_report(page, damaged):
    """A commit in between was measured since the page was opened: its numbers now mean other commits."""
    path = damaged / "data" / "commits.js"
    value, sha = read_data(path), "f" * 40
    rewrite(path, value | {"commits": [{"sha": sha, "tags": [], "places": []}, *value["commits"]]})
    page.goto((damaged / KERNEL).as_uri() + "#case=float32-512x512x512")
    page.wait_for_selector(TREND)
    assert status(page).startswith("the commits are of another report than the series, so this is not shown")


# ---- other threads ----------------------------------------------------------------------------------------------


def test_no_efficiency_of_other_threads(tab, measured_site):
    show(tab, measured_site[1], "kernel-matmul-Cpu.html", "unit=efficiency")
    *others, newest = tab.evaluate(POINTS, "native")["y"]
    assert others == [None] * 4 and newest > 0
    tab.locator(".chart:visible").focus()
    tab.keyboard.press("Home")
    tip = tab.locator(".tip")
    tip.wait_for(state="visible")
    assert "measured with other threads than the roofs" in tip.inner_text()
    choose(tab, "unit", "GFLOPS")
    assert min(tab.evaluate(POINTS, "native")["y"]) > 0
