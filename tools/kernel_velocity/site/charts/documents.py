"""Store Bokeh's documents from one report to the next: importing Bokeh and making one takes a second each time.

A document follows from the code that draws it, Bokeh and a few parameters. It is made again when one of these changes.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from kernel_velocity.series import cache
from kernel_velocity.series.cache import Answers

MOST = 32  # documents that are stored, the newest; a site has a few
FIRST = 1001  # the number of a document's first model, as Bokeh counts them

Document = dict[str, Any]  # what Bokeh.embed.embed_item takes


class Documents:
    """The documents of a site, stored from one report to the next."""

    def __init__(self, folder: Path | None) -> None:
        """Take the cache's folder. Without one every document is made."""
        maker = hashlib.sha256(cache.code("harness", "site").encode() + script().read_bytes()).hexdigest()
        self._answers = Answers(folder, "charts", maker)
        self._got: dict[str, Markup] = {}

    def get(self, name: str, parameters: object, make: Callable[[], Document], *, first: int = FIRST) -> Markup:
        """Return a document as JSON for a script element of a page. `make` is called where it is not stored.

        Args:
            name: what it draws. parameters: everything else that it follows from: equal texts, equal documents.
            first: the number of its first model. Those of a page's documents have to differ.
        """
        key = repr((name, parameters, first))
        if key not in self._got:
            stored = self._answers.get([key]).get(key)
            if stored is None:
                # Not sorted: a document defines a model where it first names it
                stored = htmlsafe_json_dumps(numbered(make(), first), sort_keys=False).encode()
                self._answers.put({key: stored}, most=MOST)
            self._got[key] = Markup(stored.decode())
        return self._got[key]


def numbered(document: Document, first: int) -> Document:
    """Return a document with its models numbered in the order in which it names them, whatever was made before it."""
    numbers: dict[str, str] = {}

    def renumber(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: number(item) if name in ("id", "root_id") else renumber(item) for name, item in part.items()}
        return [renumber(item) for item in part] if isinstance(part, list | tuple) else part

    def number(name: str) -> str:
        return numbers.setdefault(name, f"p{first + len(numbers)}")

    renumbered: Document = renumber(document)
    return renumbered


@functools.cache
def script() -> Path:
    """Return Bokeh's own script, from the installed package.

    Raises:
        ModuleNotFoundError: Bokeh is not installed.
    """
    spec = importlib.util.find_spec("bokeh")  # does not import it
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'bokeh'", name="bokeh")
    return Path(spec.origin).parent / "server/static/js/bokeh.min.js"
