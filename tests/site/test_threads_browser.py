"""Commits measured with other threads than the roofs are of, in a real browser: no efficiency, and why."""

import pytest

from kernel_velocity.site import report
from tests.site import machine_records
from tests.site.test_browser import POINTS, chromium, hover, tab  # noqa: F401 - fixtures
from tests.site.test_browser_measuring import SOURCE

pytestmark = pytest.mark.slow


@pytest.fixture
def site(tree, tmp_path):
    """The site of a tree whose newest commit was measured with two threads, the others with one."""
    for index in range(5):
        machine_records.add_session(tree, index, threads="2" if index == 4 else "1")
    machine_records.add_ceilings(tree, 0, threads=1)
    machine_records.add_ceilings(tree, 4, threads=2)
    report.write_site(results=tree.results, repository=tree.repository, out=tmp_path / "site")
    return tree, tmp_path / "site"


def test_a_kernels_page_has_no_efficiency_of_them(tab, site):  # noqa: F811
    tab.goto((site[1] / "kernel-matmul-Cpu.html").as_uri() + "#unit=efficiency")
    tab.wait_for_selector("section.trend[data-ready=yes]")
    *others, newest = tab.evaluate(POINTS, "native")["y"]
    assert [str(value) for value in others] == ["nan"] * 4 and newest > 0
    tab.locator(".chart").focus()
    tab.keyboard.press("Home")
    tip = tab.locator(".tip")
    tip.wait_for(state="visible")
    assert "measured with other threads than the roofs" in tip.inner_text()
    tab.select_option("select[name=unit]", "GFLOPS")
    tab.wait_for_function("document.querySelector('section.trend').dataset.drawn === '2'")
    assert min(tab.evaluate(POINTS, "native")["y"]) > 0


def test_a_roofline_says_so_of_its_older_points(tab, site):  # noqa: F811
    tree, out = site
    address = "#benchmark=matmul.Cpu.time_hot&case=float32-512x512x512&implementation=native"
    tab.goto((out / "roofline.html").as_uri() + address)
    tab.wait_for_selector("section.roofline[data-ready=yes]")
    points = tab.evaluate(SOURCE, "points")
    assert points["commit"][-1] == tree.commits[4][:8]
    assert points["efficiency"][:4] == ["other threads"] * 4 and points["efficiency"][4].endswith("%")
