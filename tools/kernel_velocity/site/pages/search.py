"""What the search of the navigation finds beside commits (data/commits.js): kernels and test cases with their pages."""

from __future__ import annotations

from collections.abc import Iterator

from kernel_velocity.results.records import name_parts
from kernel_velocity.site import text
from kernel_velocity.site.model import Site
from kernel_velocity.site.writer import DataFile

FORMAT = 1


def build(site: Site) -> Iterator[DataFile]:
    """Yield the data of the search: pairs of a text and an address, the kernels first."""
    several = len(site.platforms) > 1
    kernels: dict[str, str] = {}
    cases: dict[str, str] = {}  # by address: the implementations of a test case share a chart
    for key in site.keys:
        kernel, device, state = name_parts(key.benchmark)
        kernels.setdefault(text.kernel_href(kernel, device), " ".join(filter(None, (kernel, device))))
        platform = key.machine if several else ""
        cases.setdefault(text.trend_href(key), " ".join(filter(None, (kernel, key.case, device, state, platform))))
    entries = [[words, href] for href, words in (*kernels.items(), *cases.items())]
    yield DataFile(name="search", value={"format": FORMAT, "entries": entries})
