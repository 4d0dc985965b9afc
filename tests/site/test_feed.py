"""feed.xml: valid Atom, with the changes of the overview's cards and the findings, whatever their names are."""

from datetime import datetime
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from kernel_velocity.findings.finding import Kind, State
from tests import synthetic
from tests.site.pages import PARTS, affected, home, keep
from tests.site.sites import site_of

ATOM = "{http://www.w3.org/2005/Atom}"


def entries_of(out):
    """Return the feed of a site and its entries. Fails where it is not what RFC 4287 wants."""
    feed = ElementTree.fromstring((out / "feed.xml").read_bytes())
    assert feed.tag == f"{ATOM}feed" and feed.find(f"{ATOM}author/{ATOM}name").text
    entries = feed.findall(f"{ATOM}entry")
    for part in (feed, *entries):
        for name in ("id", "title", "updated"):
            (element,) = part.findall(ATOM + name)
            assert element.text.strip()
        assert part.find(f"{ATOM}id").text.startswith("urn:uuid:")
        assert datetime.fromisoformat(part.find(f"{ATOM}updated").text).tzinfo
        href = part.find(f"{ATOM}link[@rel='alternate']").get("href")
        assert (out / unquote(href.partition("#")[0])).is_file()
    ids = [part.find(f"{ATOM}id").text for part in (feed, *entries)]
    assert len(set(ids)) == len(ids)
    return feed, entries


def titles(entries):
    return [entry.find(f"{ATOM}title").text for entry in entries]


def test_feed_has_the_cards(site):
    tree, out = site
    feed, entries = entries_of(out)
    cards = home(tree).cards
    assert sorted(titles(entries)) == sorted(f"{card.name} {card.case}: {card.change} {card.margin}" for card in cards)
    assert cards and {tree.commits[2][:8]} == {entry.find(f"{ATOM}summary").text[:8] for entry in entries}
    times = [datetime.fromisoformat(entry.find(f"{ATOM}updated").text) for entry in entries]
    assert times == sorted(times, reverse=True)
    assert datetime.fromisoformat(feed.find(f"{ATOM}updated").text) >= times[0]
    for page in ("index.html", "kernel-matmul-Cpu.html", f"commit-{tree.commits[2][:8]}.html"):
        assert (
            '<link rel="alternate" type="application/atom+xml" title="changes" href="feed.xml">'
            in (out / page).read_text()
        )


def test_feed_has_findings_once(tmp_path):
    """One that a card tells is part of that card's entry."""
    tree = synthetic.build(tmp_path)
    _, cards = entries_of(site_of(tree)[1])
    keep(tree, Kind.IMPROVEMENT, affected=affected(0.4, **PARTS))
    _, merged = entries_of(site_of(tree)[1])
    assert len(merged) == len(cards) and sum(title.endswith(", confirmed") for title in titles(merged)) == 1
    regression = keep(tree, Kind.REGRESSION, State.SUSPECT)
    _, both = entries_of(site_of(tree)[1])
    assert len(both) == len(cards) + 1 and titles(both)[0].startswith(f"{regression.subject}: ")


@pytest.mark.parametrize("name", ["hostile_site", "evidence_site", "whole_site", "empty_site"])
def test_feed_is_valid(request, name):
    entries_of(request.getfixturevalue(name)[1])
