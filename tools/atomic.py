"""Writing files that a reader never sees half written."""

from __future__ import annotations

import os
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Write a file through a temporary one, so that a reader sees the old text or the new, never a part.

    Raises:
        OSError: it cannot be written, or is a folder; the temporary file is gone then too.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)  # there only where one of the two failed
