"""Every kind of page in Firefox, from file:// and over HTTP: it opens, complains of nothing, draws, and sorts."""

import functools
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.site.browser import executable, watched
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
    browser = request.getfixturevalue("playwright").firefox.launch(channel="moz-firefox", executable_path=program)
    yield browser
    browser.close()


@pytest.fixture(scope="module", params=["file", "http"])
def address(request, whole_site):
    """Where the site is read from."""
    _, out = whole_site
    if request.param == "file":
        yield out.as_uri()
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=out))
    threading.Thread(target=server.serve_forever).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def firefox_tab(firefox, address):
    with watched(firefox, (address, "data:"), offline=address.startswith("file")) as page:
        yield page


@pytest.mark.parametrize("kind", KINDS)
def test_page_in_firefox(firefox_tab, address, whole_site, kind):
    _, out = whole_site
    name = min(path.name for path in out.glob("*.html") if kind_of(path.name) == kind)
    firefox_tab.goto(f"{address}/{name}")
    assert firefox_tab.locator("h1:visible").count() == 1
    if kind == "kernel":
        firefox_tab.wait_for_function(DRAWN)
    if kind == "roofline":
        dot = firefox_tab.locator("svg.frame .mark").last.bounding_box()
        frame = firefox_tab.locator("svg.frame").last.bounding_box()
        assert frame["x"] < dot["x"] < frame["x"] + frame["width"]
        assert frame["y"] < dot["y"] < frame["y"] + frame["height"] and 8 < dot["width"] < 20


def test_every_kind_of_page_is_opened(whole_site):
    _, out = whole_site
    assert {kind_of(path.name) for path in out.glob("*.html")} == set(KINDS)
