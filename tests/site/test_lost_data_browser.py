"""Data files that are gone, cut off or empty: every page says so, shows the rest, and tries again."""

import json
import shutil

import pytest

from tests.site.test_browser import chromium, site  # noqa: F401 - fixtures
from tests.site.test_kernel_browser import source

pytestmark = pytest.mark.slow
KERNEL = "kernel-matmul-Cpu.html"
SERIES = "series-" + 16 * "[0-9a-f]"


@pytest.fixture
def copied(site, tmp_path):  # noqa: F811
    """A site that a test may damage."""
    return shutil.copytree(site[1], tmp_path / "site")


@pytest.fixture
def page(chromium):  # noqa: F811
    """A tab that may complain: a script that is cut off is a syntax error."""
    context = chromium.new_context(offline=True, viewport={"width": 1200, "height": 900})
    yield context.new_page()
    context.close()


def files(out, **said):
    """Return the data files of the kernel's series of which all this is said."""
    series = json.loads((out / "data" / "kernel-matmul-Cpu.json").read_text())["series"]
    found = [item for item in series if all(item[name] == value for name, value in said.items())]
    assert found
    return [out / "data" / f"{item['name']}.js" for item in found]


def status(page):
    return page.locator(".status").first.inner_text()


@pytest.mark.parametrize("kept", [0, 200])
def test_a_file_that_is_cut_off_is_named_the_rest_is_shown_and_it_is_loaded_again(page, copied, kept):
    (path,) = files(copied, implementation="eager", case="float32-512x512x512")
    whole = path.read_text()
    path.write_text(whole[:kept])
    page.goto((copied / KERNEL).as_uri() + "#case=float32-512x512x512")
    page.wait_for_selector("section.trend[data-ready=yes]", timeout=8000)
    assert status(page).startswith(f"data/{path.name} is damaged, so this is not shown: \u2068eager\u2069; write")
    assert status(page).endswith("5 commits")
    assert len(source(page, "line: native")["y"]) == 5
    assert source(page, "line: eager")["y"] == []
    path.write_text(whole)
    page.select_option("select[name=unit]", "µs")
    page.wait_for_function("document.querySelector('.status').textContent === '5 commits'")
    assert len(source(page, "line: eager")["y"]) == 5


@pytest.mark.parametrize(
    ("name", "pattern", "said"),
    [
        ("compare.html", SERIES, "series could not be loaded: their files in data/ are missing or damaged."),
        ("compare.html", "series-index", "data/series-index.js is damaged"),
        ("roofline.html", SERIES, "Older values cannot be loaded: the newest are drawn."),
        ("measurement.html", "rounds-????????-*", "The rounds of this commit cannot be loaded."),
    ],
)
def test_no_page_waits_for_ever_for_what_is_damaged(page, copied, name, pattern, said):
    damaged = list((copied / "data").glob(f"{pattern}.js"))
    assert damaged
    for path in damaged:
        path.write_text(path.read_text()[:60])
    page.goto((copied / name).as_uri())
    page.wait_for_function(f"document.querySelector('main').textContent.includes({said!r})", timeout=8000)


def test_a_lost_series_does_not_leave_the_chart_of_another_test_case(page, copied):
    page.goto((copied / KERNEL).as_uri() + "#case=float32-512x512x512")
    page.wait_for_selector("section.trend[data-ready=yes]")
    before = source(page, "line: native")["y"]
    lost = files(copied, case="float32-256x256x256")
    for path in lost:
        path.unlink()
    page.select_option("select[name=case]", "float32-256x256x256")
    page.wait_for_function("document.querySelector('.status').textContent.includes('cannot be loaded')")
    assert len(before) == 5
    assert source(page, "line: native")["y"] == []
    assert all(path.name in status(page) for path in lost)
    page.select_option("select[name=case]", "float32-512x512x512")
    page.wait_for_function("document.querySelector('.status').textContent === '5 commits'")
    assert source(page, "line: native")["y"] == before


def test_files_of_two_reports_are_not_joined(page, copied):
    """The site was written again while the page was open: half of a series would be missing, or be there twice."""
    newest = list((copied / "data").glob("newest-*.js"))
    assert newest
    for path in newest:
        text = path.read_text()
        assert '"before":0,' in text
        path.write_text(text.replace('"before":0,', '"before":64,'))
    page.goto((copied / KERNEL).as_uri() + "#case=float32-512x512x512")
    page.wait_for_selector("section.trend[data-ready=yes]", timeout=8000)
    assert " is of another report than data/newest-" in status(page)
    assert source(page, "line: native")["y"] == source(page, "line: eager")["y"] == []
