"""Digests of the commits' values, kept from one report to the next: what a new commit changes is its own page.

A digest follows from the values of the commit and of those before it on the first-parent line: as long as none of
their results files and adjusted times changed, nor which series are shown, it is what it was. One JSON file beside the
cache, safe to delete.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from kernel_velocity.files import replace_text
from kernel_velocity.series import makers
from kernel_velocity.site.model import Site
from kernel_velocity.site.pages.commit_changes import Line

NAME = "commits.json"


class Digests:
    """The digests of a site's commits."""

    def __init__(self, found: Site, line: Line) -> None:
        """Take a site and its line; without a cache they last as long as this object."""
        self._line = line
        self._path = None if found.cache is None else found.cache / NAME
        self._followed = _followed(found, line)
        self._known = _read(self._path)
        self._asked: dict[str, str] = {}

    def of(self, place: int) -> str:
        """Return the digest of the commit at a place that was measured (`Line.digest`)."""
        followed = self._followed[place]
        known = self._asked.get(followed) or self._known.get(followed)
        found = self._asked[followed] = self._line.digest(place) if known is None else known
        return found

    def keep(self) -> None:
        """Keep those that were asked for, for the next report."""
        if self._path is not None and self._asked != self._known:
            with contextlib.suppress(OSError):  # they are made again
                replace_text(self._path, json.dumps(self._asked))


def _read(path: Path | None) -> Mapping[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path is not None else None
    except (OSError, ValueError):
        return {}
    is_whole = isinstance(found, dict) and all(isinstance(value, str) for value in found.values())
    return found if is_whole and found is not None else {}


def _followed(found: Site, line: Line) -> dict[int, str]:
    """Return, for each place of the line that has results files, what tells whether its digest is still the same.

    A file's signature tells its contents to whom it was read by: the numbers of series are those of one cache.
    """
    store = found.store
    files: dict[int, list[str]] = {}
    for path, sha in sorted(store.found.commits.items()):
        if sha in found.order:
            files.setdefault(found.order[sha], []).append(
                f"{path} {store.found.signatures[path]} {store.adjusted.get(path)}"
            )
    made = hashlib.sha256(repr((makers.digest(), str(found.results.resolve()))).encode())
    made.update(store.layout.shown.encode() + line.identities.tobytes())
    told = {}
    for place in sorted(files):
        made.update(repr((place, found.line[place], files[place])).encode("utf-8", "surrogatepass"))
        told[place] = f"{made.hexdigest()} {int(line.tags[place])}"
    return told
