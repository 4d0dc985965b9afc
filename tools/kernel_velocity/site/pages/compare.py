"""The page that compares any two commits, machines or implementations: a form, whose script reads the data files.

What is chosen stands in the URL; `data/commits`, `data/series-index` and the files of the series that are asked for are
all it reads. Its arithmetic, static/versus_ratios.js, is held against this package's by the browser tests.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernel_velocity.site.model import Site
from kernel_velocity.site.outputs import Page

NAME = "compare.html"
TEMPLATE = "versus.html"  # compare.html is that of `kv compare`


def build(found: Site) -> Iterator[Page]:
    """Yield the page; where nothing was ever measured, it says how to."""
    yield Page(name=NAME, template=TEMPLATE, context={"has_series": bool(found.keys)})
