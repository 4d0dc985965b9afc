"""Bokeh's documents, kept from one report to the next: importing Bokeh and making one takes a second each time.

A document follows from the code that draws it, Bokeh and a few parameters, so that it is made again only where one of
these changed. One JSON file beside the cache, safe to delete.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from kernel_velocity.files import replace_text
from kernel_velocity.series import cache

NAME = "charts.json"
MOST = 32  # documents kept, those asked for last; a site has a few
FIRST = 1001  # the number of a document's first model, as Bokeh counts them

Document = dict[str, Any]  # what Bokeh.embed.embed_item takes


class Documents:
    """The documents of a site."""

    def __init__(self, folder: Path | None) -> None:
        """Take the cache's folder; without one they last as long as this object."""
        self._path = None if folder is None else folder / NAME
        self._made_by = _made_by()
        self._known = self._read()

    def get(self, name: str, parameters: object, make: Callable[[], Document], *, first: int = FIRST) -> Markup:
        """Return a document as JSON for a script element of a page, made by `make` unless it is known.

        Args:
            name: what it draws. parameters: everything else that it follows from: equal texts, equal documents.
            first: the number of its first model; those of a page's documents have to differ.
        """
        key = repr((name, parameters, first))
        document = self._known.pop(key, None)
        if document is not None:
            self._known[key] = document  # the last of those asked for
            return Markup(document)
        text = htmlsafe_json_dumps(
            numbered(make(), first), sort_keys=False
        )  # it defines a model where it first names it
        self._known[key] = str(text)
        # Also what another process drew meanwhile
        others = {other: drawn for other, drawn in self._read().items() if other not in self._known}
        self._known = dict([*others.items(), *self._known.items()][-MOST:])
        self._write()
        return text

    def _read(self) -> dict[str, str]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8")) if self._path is not None else None
        except (OSError, ValueError):
            return {}
        known = found.get("documents") if isinstance(found, dict) and found.get("made by") == self._made_by else None
        return known if isinstance(known, dict) else {}

    def _write(self) -> None:
        if self._path is not None:
            with contextlib.suppress(OSError):  # they are made again
                replace_text(self._path, json.dumps({"made by": self._made_by, "documents": self._known}))


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
        ModuleNotFoundError: it is not installed.
    """
    found = importlib.util.find_spec("bokeh")  # does not import it
    if found is None or found.origin is None:
        raise ModuleNotFoundError("No module named 'bokeh'", name="bokeh")
    return Path(found.origin).parent / "server/static/js/bokeh.min.js"


@functools.cache
def _made_by() -> str:
    """Return what changes with Bokeh and with our code."""
    return hashlib.sha256(cache.digest().encode() + script().read_bytes()).hexdigest()
