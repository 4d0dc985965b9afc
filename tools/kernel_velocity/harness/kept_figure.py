"""One figure of a machine, kept in a file of JSON between rounds."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping
from pathlib import Path


def read(path: Path, key: str) -> float | None:
    """Return the figure that a file keeps under a key; None where there is none, or no finite number."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))[key]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return float(found) if isinstance(found, int | float) and math.isfinite(found) else None


def keep(path: Path, document: Mapping[str, object]) -> None:
    """Write whole or not at all: rounds of two runs may keep a figure at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    draft.write_text(json.dumps(document), encoding="utf-8")
    draft.replace(path)
