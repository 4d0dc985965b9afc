"""Our link in asv's own page."""

from pathlib import Path

import asv
import pytest

from kernel_velocity import asv_plugin


def test_link_fits_the_installed_asv():
    page = Path(asv.__file__).with_name("www").joinpath("index.html").read_text()
    linked = asv_plugin.link_from_index(page)
    assert linked.count('href="kernel-velocity/index.html"') == 1
    assert linked.index("kernel-velocity/index.html") > linked.index("<nav ")
    assert linked.replace("kernel-velocity/index.html", "").count("<li") == page.count("<li") + 1


def test_other_page_is_refused():
    with pytest.raises(Exception, match=r"wanted one .* got 0"):
        asv_plugin.link_from_index("<html></html>")
