"""Read asv.conf.json, by which the tools find a repository's suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import json5

from kernel_velocity.errors import UsageError
from kernel_velocity.harness.suite import Suite

NAME = "asv.conf.json"


def check(root: Path) -> None:
    """Raise a UsageError if a folder has no asv.conf.json."""
    if not (root / NAME).is_file():
        raise UsageError(f"{root.absolute()}: no {NAME} here; run this in the repository, or give --root")


def suite(root: Path) -> Suite:
    """Return the suite in the folder that `benchmark_dir` names.

    Raises:
        UsageError: asv.conf.json is missing or malformed, or the folder is missing.
    """
    check(root)
    try:
        settings: Any = json5.loads((root / NAME).read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{root / NAME}: {error}") from None
    name = settings.get("benchmark_dir", "benchmarks") if isinstance(settings, dict) else None  # asv's default
    if not isinstance(name, str) or not (root / name).is_dir():
        raise UsageError(f"{root / NAME}: benchmark_dir must name a folder of benchmarks (got {name!r})")
    return Suite((root / name).resolve())
