"""What an address says, in a real browser: links show what they speak of, and a way on the page leaves the choice."""

import pytest

from tests.tools.synthetic_extras import OTHER
from tests.tools.test_browser import chromium, show, tab, written  # noqa: F401 - fixtures
from tools import report

pytestmark = pytest.mark.slow
READY = "section.trend[data-ready=yes]"
FIELDS = """() => Array.from(document.querySelectorAll("main select, main input"), (field) =>
  [field.name, field.type === "checkbox" ? field.checked : field.value])"""
CHOICES = {
    "index.html": "kernel=matmul",
    "findings.html": "state=&kind=regression",
    "kernel-matmul-Cpu.html": "unit=%C2%B5s&state=cold&hide=native",
    "compare.html": "kernel=matmul+Cpu&unit=%C2%B5s&sort=name",
    "roofline.html": "benchmark=matmul.Cpu.time_hot&implementation=native",
    "measurement.html": "commit={oldest}",
}


@pytest.fixture(scope="module")
def site(whole_tree, tmp_path_factory):
    """A site of two machines, two devices and both cache states."""
    out = tmp_path_factory.mktemp("whole") / "site"
    report.write_site(results=whole_tree.results, repository=whole_tree.repository, out=out)
    return whole_tree, out


def settle(tab):  # noqa: F811
    """Wait until a page has taken up its address and shows nothing new."""
    tab.wait_for_load_state("networkidle")
    tab.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 300)))")


def test_a_row_of_the_home_page_opens_its_own_machine_and_cache_state(tab, site):  # noqa: F811
    show(tab, site[1], "index.html")
    row = f".grid[data-machine='{OTHER}'] tr[data-kernel=matmul][data-device=Cpu][data-state=hot]"
    tab.locator(f"{row}[data-implementation=native] th a").click()
    tab.wait_for_selector(READY)
    assert tab.input_value("select[name=state]") == "hot"
    assert tab.locator("select[name=machine] option:checked").get_attribute("data-machine") == OTHER
    assert tab.locator(".behind:visible h2").inner_text() == f"{OTHER} hot"


def test_a_kernels_page_begins_with_hot_calls(tab, site):  # noqa: F811
    show(tab, site[1], "kernel-matmul-Cpu.html")
    assert tab.input_value("select[name=state]") == "hot"


@pytest.mark.parametrize("name", CHOICES)
def test_the_skip_link_leaves_what_is_chosen(tab, site, name):  # noqa: F811
    tree, out = site
    tab.goto((out / name).as_uri() + "#" + CHOICES[name].format(oldest=tree.commits[0]))
    settle(tab)
    before = (tab.url, tab.evaluate(FIELDS))
    tab.locator("a.skip").focus()
    tab.keyboard.press("Enter")
    settle(tab)
    assert tab.evaluate("document.activeElement.id") == "main"
    assert (tab.url, tab.evaluate(FIELDS)) == before


def test_the_way_to_a_machine_keeps_the_filters_unless_they_hide_it(tab, site):  # noqa: F811
    tab.goto((site[1] / "index.html").as_uri() + "#kernel=matmul")
    crumb = tab.locator(".crumbs a", has_text=OTHER)
    crumb.click()
    settle(tab)
    assert tab.url.endswith("#kernel=matmul")
    assert tab.input_value("select[name=kernel]") == "matmul"
    tab.select_option("select[name=machine]", "bench-1")
    assert tab.locator(f".grid[data-machine='{OTHER}']").is_hidden()
    crumb.click()
    settle(tab)
    assert tab.input_value("select[name=machine]") == ""
    assert "#" not in tab.url
    top = tab.locator(f".grid[data-machine='{OTHER}'] h2").bounding_box()["y"]
    assert 0 <= top < 900


def test_what_an_address_asks_for_in_vain_is_said(tab, site):  # noqa: F811
    status = tab.locator(".status").first
    for address, said in (
        ("#machine=gone&case=float16-8x8x8", "machine “\u2068gone\u2069”, test case “\u2068float16-8x8x8\u2069”."),
        (
            f"#machine={OTHER}&environment=old&state=cold",
            "environment “\u2068old\u2069”, cache state “\u2068cold\u2069”.",
        ),
    ):
        tab.goto("about:blank")
        tab.goto((site[1] / "kernel-matmul-Cpu.html").as_uri() + address)
        tab.wait_for_selector(READY)
        assert status.inner_text().startswith("Not here, so something else is shown: machine")
        assert said in status.inner_text()
    # the same machine's other environment is nearer than another machine
    assert tab.locator("select[name=machine] option:checked").get_attribute("data-machine") == OTHER
    tab.select_option("select[name=range]", "50")
    tab.wait_for_function("!document.querySelector('.status').textContent.includes('Not here')")
