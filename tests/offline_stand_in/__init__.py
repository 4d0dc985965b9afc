"""Puts the stand-in for PyTorch where an interpreter finds it as an installed package."""

from __future__ import annotations

import base64
import hashlib
import shutil
from pathlib import Path

SOURCE = Path(__file__).parent / "torch"
VERSION = "0.0.0+numpy"


def plant(site: Path) -> None:
    """Install the stand-in as `torch` into a folder of packages, with the metadata of an installed distribution.

    Args:
        site: a site-packages folder, existing or not.

    Raises:
        FileExistsError: there is a torch in it.
    """
    shutil.copytree(SOURCE, site / "torch", ignore=shutil.ignore_patterns("__pycache__"))
    folder = site / f"torch-{VERSION}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\n", encoding="utf-8")
    (folder / "INSTALLER").write_text("stand-in\n", encoding="utf-8")
    files = sorted(path for top in (site / "torch", folder) for path in top.rglob("*") if path.is_file())
    lines = [_record(site, path) for path in files]
    record = folder / "RECORD"
    record.write_text("\n".join([*lines, f"{record.relative_to(site)},,", ""]), encoding="utf-8")


def _record(site: Path, path: Path) -> str:
    """Return a file's line of RECORD: its path, its SHA-256 in URL-safe base64 without padding, its bytes."""
    content = path.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path.relative_to(site)},sha256={digest},{len(content)}"
