"""The links at the head of every page, to those pages that the site has. Pure."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

# Title, file, and how the names of the pages begin that it leads to.
SITE = (
    ("Home", "index.html", ""),
    ("Findings", "findings.html", "finding-"),
    ("Compare", "compare.html", ""),
    ("Roofline", "roofline.html", ""),
    ("Measurement", "measurement.html", "measurement-"),
    ("Machines", "machines.html", "machine-"),
)


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link to a page of the site."""

    title: str
    href: str
    current: str  # as aria-current has it: "page" on the page itself, "true" on a page below it, "" elsewhere


def links(here: str, made: Container[str]) -> tuple[Link, ...]:
    """Return the links of a page; none where there is but one page to lead to.

    Args:
        here: the page's file name. made: the file names of the site's pages.
    """
    found = tuple(
        Link(title=title, href=name, current=_current(here, name, below)) for title, name, below in SITE if name in made
    )
    return found if len(found) > 1 else ()


def _current(here: str, name: str, below: str) -> str:
    if here == name:
        return "page"
    return "true" if below and here.startswith(below) else ""
