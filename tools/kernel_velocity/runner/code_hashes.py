"""What code a series runs at a commit, read from the unpacked wheel: equal texts, equal machine code.

A wheel tells the hash of each kernel in its build-info.json (contract: machine code of host object and cubin, the
kernel's Python files, flags). What all kernels share, the Python files of `kernels/` and `kernels/_native/`, is
hashed with it here: a slower call there slows them all.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

BUILD_INFO = Path("kernels", "_native", "build-info.json")


def code_hash(unpacked: Path, kernel: str) -> str | None:
    """Return the hash of a kernel in an unpacked wheel; None where the wheel does not tell.

    Args:
        unpacked: the folder that holds the package `kernels`. kernel: as it begins the name of a benchmark.
    """
    try:
        info = json.loads((unpacked / BUILD_INFO).read_text(encoding="utf-8"))
        own = info["kernels"][kernel]["code_hash"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    if not isinstance(own, str):
        return None
    digest = hashlib.sha256(own.encode())
    for path in sorted([*(unpacked / "kernels").glob("*.py"), *(unpacked / BUILD_INFO).parent.glob("*.py")]):
        digest.update(f"{path.relative_to(unpacked)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
