"""What an address says, in a real browser: links show what they speak of, and a way on the page leaves the choice."""

import pytest

from kernel_velocity.site import report
from tests.findings.synthetic_extras import OTHER
from tests.site.test_browser import chromium, show, tab, written  # noqa: F401 - fixtures
from tests.synthetic import ENVIRONMENT, MACHINE

pytestmark = pytest.mark.slow
READY = "section.trend[data-ready=yes]"
ROOFLINE = "section.roofline[data-ready=yes]"
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


def missed(*gone):
    """Return what a page says of what an address names and is not there."""
    named = (f"{what} “\u2068{name}\u2069”" for what, name in gone)
    return f"Not here, so something else is shown: {', '.join(named)}."


@pytest.mark.parametrize(
    ("address", "gone"),
    [
        ("machine=gone&case=float16-8x8x8", [("machine", "gone"), ("test case", "float16-8x8x8")]),
        (f"machine={OTHER}&environment=old&state=cold", [("environment", "old"), ("cache state", "cold")]),
        ("environment=old&unit=parsec", [("environment", "old"), ("quantity", "parsec")]),
        ("range=7&scale=round", [("number of commits", "7"), ("scale", "round")]),
        ("source=abcd", [("source as of", "abcd")]),
    ],
)
def test_what_the_address_of_a_kernel_names_in_vain_is_said(tab, site, address, gone):  # noqa: F811
    tab.goto((site[1] / "kernel-matmul-Cpu.html").as_uri() + f"#{address}")
    tab.wait_for_selector(READY)
    assert tab.locator(".status").first.inner_text().startswith(missed(*gone))
    if OTHER in address:  # the same machine's other environment is nearer than another machine
        assert tab.locator("select[name=machine] option:checked").get_attribute("data-machine") == OTHER
    tab.select_option("select[name=range]", "50")
    tab.wait_for_function("!document.querySelector('.status').textContent.includes('Not here')")
    assert "source" not in tab.url


@pytest.mark.parametrize(
    ("address", "gone"),
    [
        ("machine=gone&environment=old&device=Cpu", [("machine", "gone"), ("environment", "old")]),
        (f"machine={MACHINE}&environment={ENVIRONMENT}&device=Cuda", None),  # which all are, but not together
        ("environment=old", [("environment", "old")]),
        (f"machine=gone&machine={MACHINE}&machine=gone", [("machine", "gone")]),
    ],
)
def test_a_roofline_says_at_its_top_which_machine_is_gone(tab, site, address, gone):  # noqa: F811
    tab.goto((site[1] / "roofline.html").as_uri() + f"#{address}")
    tab.wait_for_selector(ROOFLINE)
    line = tab.locator("#missed")
    pairs = [tuple(part.split("=")) for part in address.split("&")] if gone is None else gone
    assert line.inner_text() == missed(*pairs)
    assert 0 < line.bounding_box()["y"] < 300
    assert tab.evaluate("window.scrollY") == 0 or MACHINE in address
    tab.locator("section.roofline input").first.uncheck()
    assert line.is_hidden()


def test_a_roofline_says_which_series_of_a_machine_are_gone(tab, site):  # noqa: F811
    def opened(address):
        tab.goto("about:blank")
        tab.goto((site[1] / "roofline.html").as_uri() + f"#{address}")
        sections = tab.locator("section.roofline")
        for index in range(sections.count()):  # one is filled when it comes into view
            sections.nth(index).scroll_into_view_if_needed()
            tab.wait_for_function(
                "(index) => document.querySelectorAll('section.roofline')[index].dataset.ready", arg=index
            )
        return [line for line in tab.locator(".missed").all_inner_texts() if line]

    address = f"machine={OTHER}&device=Cpu&benchmark=gone&case=float32-7&implementation=native&implementation=fortran"
    (said,) = opened(address)
    assert said == missed(("kernel", "gone"), ("test case", "float32-7"), ("implementation", "fortran"))
    own = tab.locator(f"section.roofline[data-machine='{OTHER}'][data-device=Cpu]")
    assert own.locator(".missed").inner_text() == said
    assert own.locator("input:checked").evaluate_all("(all) => all.map((one) => one.value)") == ["native"]
    own.locator("input:checked").uncheck()
    settle(tab)
    assert own.locator(".missed").is_hidden() and tab.locator("#missed").is_hidden()
    assert opened("benchmark=matmul.Cpu.time_hot") == []  # which the sections of a GPU do not have
    said = opened("implementation=fortran")
    assert said and set(said) == {missed(("implementation", "fortran"))}
    assert tab.locator("section.roofline").first.locator("input:not(:checked)").count() == 0


def test_a_test_case_that_another_kernel_does_not_have_is_not_said_in_the_address(tab, site):  # noqa: F811
    tab.goto((site[1] / "roofline.html").as_uri() + "#machine=bench-1&benchmark=matmul.Cpu.time_hot")
    tab.wait_for_selector(ROOFLINE)
    tab.locator("select[name=case]").first.select_option("float32-512x512x512")
    tab.locator("select[name=benchmark]").first.select_option("add_mul_exp.Cpu.time_hot")
    settle(tab)
    assert "512" not in tab.url
    assert tab.locator(".missed").first.is_hidden()


def test_the_list_of_findings_says_which_filters_are_not_here(tab, site):  # noqa: F811
    tab.goto((site[1] / "findings.html").as_uri() + "#state=lost&kind=regression&machine=gone")
    line = tab.locator("#missed")
    assert line.inner_text() == missed(("state", "lost"), ("machine", "gone"))
    assert tab.locator("tr[data-state]:visible").count() > 0
    tab.select_option("select[name=kind]", "")
    assert line.is_hidden()
    assert "lost" not in tab.url
