"""The code that a report is made by: what is kept between reports is only as good as long as it is the same.

All of it, not a list: which modules a cached value follows from is more than anybody keeps in mind.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


def sources(root: Path = _ROOT) -> tuple[Path, ...]:
    """Return the files of the analysis, and those of the measuring engine, whose statistics it shares."""
    return tuple(sorted([*(root / "tools").rglob("*.py"), *(root / "benchmarks" / "harness").rglob("*.py")]))


@cache
def digest(root: Path = _ROOT) -> str:
    """Return what changes whenever any of `sources` does; read once, as a running program's code stays as it is."""
    found = hashlib.sha256()
    for path in sources(root):
        found.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return found.hexdigest()
