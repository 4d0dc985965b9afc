"""The links at the head of every page."""

import types

from kernel_velocity.site import navigation, report
from kernel_velocity.site.outputs import Page
from kernel_velocity.site.pages import commit, home, kernel
from tests import synthetic

MADE = frozenset({"index.html", "findings.html", "machines.html"})


def test_only_pages_that_the_site_has_in_one_order():
    assert [link.href for link in navigation.links("index.html", MADE)] == [
        "index.html",
        "findings.html",
        "machines.html",
    ]


def test_the_page_that_is_shown_is_marked_and_the_one_above_it():
    def marks(here):
        return {link.title: link.current for link in navigation.links(here, MADE) if link.current}

    assert marks("findings.html") == {"Findings": "page"}
    assert marks("finding-matmul-regression-12345678.html") == {"Findings": "true"}
    assert marks("commit-12345678.html") == {}


def test_one_page_alone_has_nowhere_to_go():
    assert navigation.links("index.html", {"index.html"}) == ()


def a_module(stem):
    def build(_found):
        yield Page(name=f"{stem}.html", template="base.html", context={})

    return types.SimpleNamespace(__name__=f"kernel_velocity.site.{stem}_page", build=build)


def test_every_page_links_to_the_pages_of_the_modules(tmp_path, monkeypatch):
    modules = (home, kernel, commit, a_module("findings"), a_module("machines"))
    monkeypatch.setattr(report, "MODULES", modules)
    tree = synthetic.build(tmp_path)
    report.write_site(results=tree.results, repository=tree.repository, out=tmp_path / "site")
    for name in ("index.html", "findings.html", "kernel-matmul-Cpu.html", f"commit-{tree.commits[0][:8]}.html"):
        text = (tmp_path / "site" / name).read_text(encoding="utf-8")
        assert '<a href="findings.html"' in text
        assert '<a href="machines.html"' in text
        assert "compare.html" not in text
        assert text.count('aria-current="page"') == (name in ("index.html", "findings.html"))
