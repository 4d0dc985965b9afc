"""Every page of the site, found by its links, in Chromium from file:// without a network: light, dark, on a phone."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from kernel_velocity.site import report
from tests.findings.synthetic_extras import HOSTILE
from tests.site.site_inspection import DESK, FEW, PHONE, SETTLED, kind_of, reading

pytestmark = pytest.mark.slow

SERIOUS = ("serious", "critical")
ALSO = ("landmark-unique", "aria-allowed-role")  # less than serious, and a name for each region costs nothing
FOCUS = """() => {
  const item = document.activeElement;
  const style = getComputedStyle(item), box = item.getBoundingClientRect();
  return {tag: item.tagName, text: item.innerText.trim(), href: item.getAttribute("href"),
          ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1,
          seen: box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight};
}"""

# All that the keyboard might reach. A link of a chart has its name in a title
STOPS = """(() => {
  const labels = (item) => item.labels?.length || item.getAttribute("aria-labelledby");
  const text = (item) => item.ariaLabel || item.title || item.innerText || item.querySelector("title")?.textContent;
  const named = (item) => Boolean((text(item) ?? "").trim() || labels(item));
  return [...document.querySelectorAll("*")].filter((item) => item.tabIndex >= 0 && item.checkVisibility())
    .map((item) => ({tag: item.outerHTML.slice(0, 80), named: named(item)}));
})"""


@pytest.fixture(scope="module")
def crawled(chromium, whole_site):
    with reading(chromium) as reader:
        reader.crawl(whole_site[1])
        yield reader


@pytest.fixture(scope="module")
def crawled_hostile(chromium, hostile_site):
    with reading(chromium) as reader:
        reader.crawl(hostile_site[1], most=FEW)
        yield reader


@pytest.fixture
def reader(chromium):
    with reading(chromium) as reader:
        yield reader


def one_of_each_kind(pages):
    return {kind_of(name): name for name in sorted(pages, reverse=True)}


def test_pages_are_right(crawled):
    assert crawled.complaints == []


def test_links_lead_to_every_page(whole_site, crawled):
    _, out = whole_site
    assert set(crawled.pages) == {path.name for path in out.glob("*.html")}
    listed = [name for _, name, _ in report.NAVIGATION if (out / name).is_file()]
    if len(listed) > 1:
        for facts in crawled.pages.values():
            assert set(listed) <= set(facts["links"])


def test_hostile_pages_are_right(crawled_hostile):
    assert crawled_hostile.complaints == []


def test_hostile_names_are_shown(crawled_hostile):
    text = re.sub(r"\s+", " ", " ".join(facts["text"] for facts in crawled_hostile.pages.values()))
    wanted = [HOSTILE.author, HOSTILE.machine, HOSTILE.cpu, *(new for _, new in HOSTILE.spelled)]
    wanted += [re.sub(r"\s+", " ", message.partition("\n")[0]) for message in HOSTILE.messages]
    assert [name for name in wanted if name not in text] == []


@pytest.mark.parametrize(("scheme", "rules"), [("light", {}), ("dark", {"runOnly": ["color-contrast"]})])
def test_axe_finds_nothing_serious(whole_site, crawled, reader, scheme, rules):
    _, out = whole_site
    violations = []
    reader.tab.emulate_media(color_scheme=scheme)
    for kind, name in one_of_each_kind(crawled.pages).items():
        reader.tab.goto((out / name).as_uri())
        result = Axe().run(reader.tab, options={"resultTypes": ["violations"], "preload": False, **rules}).response
        serious = [
            violation for violation in result["violations"] if violation["impact"] in SERIOUS or violation["id"] in ALSO
        ]
        violations += [
            (kind, violation["id"], node["target"], node["html"])
            for violation in serious
            for node in violation["nodes"][:3]
        ]
    assert violations == []


def test_keyboard_reaches_the_navigation(whole_site, crawled, reader):
    _, out = whole_site
    for name in one_of_each_kind(crawled.pages).values():
        reader.tab.goto((out / name).as_uri())
        stops = []
        for _ in range(16):
            reader.tab.keyboard.press("Tab")
            stops.append(reader.tab.evaluate(FOCUS))
        reached = [stop for stop in stops if stop["tag"] != "BODY"]
        assert reached[0]["href"] == "#main", name
        assert [stop for stop in reached if not (stop["ring"] and stop["seen"])] == [], name
        linked = {stop["href"] for stop in reached}
        listed = {page for _, page, _ in report.NAVIGATION if (out / page).is_file()}
        assert listed <= linked, name


def test_keyboard_stops_have_names(whole_site, crawled, reader):
    _, out = whole_site
    dots = {}
    for name in one_of_each_kind(crawled.pages).values():
        reader.tab.goto((out / name).as_uri())
        reader.tab.evaluate(SETTLED)
        stops = reader.tab.evaluate(f"{STOPS}()")
        dots[name] = sum('class="mark' in stop["tag"] for stop in stops)
        assert stops and [stop for stop in stops if not stop["named"]] == [], name
    assert [name for name, count in dots.items() if count] == ["roofline.html"]


def test_print_without_navigation(whole_site, reader):
    _, out = whole_site
    reader.tab.emulate_media(media="print")
    reader.tab.set_viewport_size(DESK)
    reader.tab.goto((out / "kernel-matmul-Cpu.html").as_uri())
    assert not reader.tab.locator(".site, .skip, .controls :is(input, button)").locator("visible=true").count()
    assert reader.tab.evaluate(
        "[...document.querySelectorAll('.scroll')].every((e) => e.clientHeight === e.scrollHeight)"
    )


def test_reduced_motion(whole_site, reader):
    _, out = whole_site
    moves = "getComputedStyle(document.querySelector('a')).transitionDuration"
    reader.tab.emulate_media(reduced_motion="no-preference")
    reader.tab.goto((out / "index.html").as_uri())
    assert reader.tab.evaluate(moves) != "0s"
    reader.tab.emulate_media(reduced_motion="reduce")
    assert reader.tab.evaluate(moves) == "0s"


def test_badges_fit_their_text(whole_site, reader):
    _, out = whole_site
    for path in sorted(out.glob("badge-*.svg")):
        reader.tab.set_viewport_size(PHONE)
        reader.tab.goto(path.as_uri())
        boxes = reader.tab.evaluate(
            "[...document.querySelectorAll('text')].map((e) => e.getBBox().x + e.getBBox().width)"
        )
        width = int(re.search(r'width="(\d+)"', path.read_text())[1])
        assert 0 < max(boxes) <= width
    assert reader.complaints == []
