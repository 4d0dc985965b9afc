"""Every kind of page in Firefox, from file:// and over HTTP: it opens, complains of nothing, draws, and sorts."""

import functools
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.site.browser import executable, launched, watched
from tests.site.site_inspection import kind_of

KINDS = ("index", "kernel", "commit", "finding", "findings", "compare", "measurement", "roofline", "machines")
# A canvas that something was drawn on
DRAWN = """() => {
  const inked = (item) => item.getContext("2d").getImageData(0, 0, item.width, item.height).data
    .some((value, index) => index % 4 === 3 && value > 0);
  return [...document.querySelectorAll("canvas")].some((item) => item.width * item.height > 0 && inked(item));
}"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def firefox(request):
    """A running headless Firefox, of the system: Playwright speaks WebDriver BiDi with it."""
    program = executable("firefox-esr", "firefox")
    browser = launched(request.getfixturevalue("playwright").firefox, program, channel="moz-firefox")
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def server(whole_site):
    """The address of a server of the site."""
    _, out = whole_site
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=out))
    threading.Thread(target=server.serve_forever).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def opened(page, address, out, kind):
    """Open the first page of a kind, which has one heading."""
    page.goto(f"{address}/{min(path.name for path in out.glob('*.html') if kind_of(path.name) == kind)}")
    assert page.locator("h1:visible").count() == 1


def test_every_kind_of_page_from_files(firefox, whole_site):
    _, out = whole_site
    assert {kind_of(path.name) for path in out.glob("*.html")} == set(KINDS)
    with watched(firefox, (out.as_uri(), "data:")) as page:
        for kind in KINDS:
            opened(page, out.as_uri(), out, kind)
            if kind == "kernel":
                page.wait_for_function(DRAWN)
            if kind == "roofline":
                dot = page.locator("svg.frame .mark").last.bounding_box()
                frame = page.locator("svg.frame").last.bounding_box()
                assert frame["x"] < dot["x"] < frame["x"] + frame["width"]
                assert frame["y"] < dot["y"] < frame["y"] + frame["height"] and 8 < dot["width"] < 20


def test_pages_with_data_over_http(firefox, server, whole_site):
    with watched(firefox, (server, "data:"), offline=False) as page:
        for kind in ("kernel", "compare"):
            opened(page, server, whole_site[1], kind)
            if kind == "kernel":
                page.wait_for_function(DRAWN)
