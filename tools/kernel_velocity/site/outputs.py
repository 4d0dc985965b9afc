"""What the modules of the pages hand to the writer: pages to be rendered, and the data beside them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.site.model import Site


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page: a template of html_templates/ and what it is filled with.

    A page that costs something to make says in `inputs` what it is made from (digests such as `Site.digest`, and
    whatever else it shows: anything of which equal texts mean an equal page), and gives its context as a function,
    which is called only when the site has no page made from the same inputs by the same code and templates.
    """

    name: str  # of the file
    template: str
    context: Mapping[str, Any] | Callable[[], Mapping[str, Any]]
    inputs: str | None = None  # None: it is made each time, and written where it came out another


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """Data beside the pages: `data/<name>.json`, and `data/<name>.js`, which hands it to `KV.load(name)` of a page.

    `value` is what JSON can hold, and numpy's arrays; NaN becomes null, which is unknown. `inputs` is as a page's, and
    with it `value` may be a function that returns the value.
    """

    name: str
    value: Any
    inputs: str | None = None


Part = Callable[[Site], Iterator[Page | DataFile]]  # makes a part of the site


class Builder(Protocol):
    """A module of the site; `findings_page` makes the page that the navigation calls `findings.html`."""

    __name__: str

    def build(self, found: Site) -> Iterator[Page | DataFile]:
        """Yield everything that it adds to the site."""


@cache
def series_name(key: SeriesKey) -> str:
    """Return the name of a series' data file: the same at every run, whatever its parts are called."""
    # not `astuple`, which copies the parts: a site has thousands of these
    parts = (key.machine, key.environment, key.benchmark, key.implementation, key.case, key.version)
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return f"series-{digest[:16]}"
