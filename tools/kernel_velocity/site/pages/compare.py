"""compare.html compares any two commits, machines or implementations: a form, whose script reads the data files.

The choice is in the address. `data/commits`, `data/series-index` and the files of the chosen series are all that the
script reads. The browser tests hold its arithmetic against this package's.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernel_velocity.site.model import Site
from kernel_velocity.site.writer import Page


def build(site: Site) -> Iterator[Page]:
    """Yield the page. Where nothing was ever measured, it says how to."""
    yield Page(name="compare.html", template="versus.html", context={"has_series": bool(site.keys)})
