"""Data files that are gone, cut off or empty: every page says so, shows the rest, and tries again."""

import json
import shutil

import pytest

from tests.tools.test_browser import chromium, site  # noqa: F401 - fixtures
from tests.tools.test_kernel_browser import source

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
