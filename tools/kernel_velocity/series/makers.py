"""The code that a report is made by: what is kept between reports is only as good as long as it is the same.

All of it, not a list: which modules a cached value follows from is more than anybody keeps in mind.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def sources(root: Path = _PACKAGE) -> tuple[Path, ...]:
    """Return the files of this package: the analysis, and the measuring engine, whose statistics it shares."""
    return tuple(sorted(root.rglob("*.py")))


@cache
def digest(root: Path = _PACKAGE) -> str:
    """Return what changes whenever any of `sources` does; read once, as a running program's code stays as it is."""
    found = hashlib.sha256()
    for path in sources(root):
        found.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return found.hexdigest()
