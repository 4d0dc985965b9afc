"""Our links in asv's own pages."""

from pathlib import Path

import asv
import pytest

from kernel_velocity import asv_plugin

WWW = Path(asv.__file__).with_name("www")


@pytest.mark.parametrize(
    ("name", "follows"), [("index.html", "<nav "), ("error.html", "failed to load")], ids=["page", "offline"]
)
def test_link_fits_the_installed_asv(name, follows):
    """Without a network, asv's page gives way to error.html at once: a link in the page alone is never seen."""
    page = (WWW / name).read_text()
    linked = asv_plugin.linked(name, page)
    assert linked.count('href="kernel-velocity/index.html"') == 1
    assert linked.index("kernel-velocity/index.html") > linked.index(follows)
    assert linked.replace(asv_plugin.LINKS[name][1], "") == page
    assert 'window.location = "error.html"' in (WWW / "index.html").read_text()


def test_other_page_is_refused():
    with pytest.raises(Exception, match=r"wanted one .* got 0"):
        asv_plugin.linked("index.html", "<html></html>")
