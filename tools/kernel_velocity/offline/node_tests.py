"""The tests that a node runs before anything is timed: which files, and what their report says."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from kernel_velocity.files import replace_text

_CUDA = "mark.cuda"
# On a node without a GPU: the kernels as they are compiled for its processor; not the build, which takes minutes.
_NOT_ON_A_NODE = ("test_build.py", "test_large.py")


def files(root: Path, device: str) -> list[str]:
    """Return the test files to run: every one with CUDA tests, or those of the kernels on a CPU."""
    if device == "cuda":
        found = [path for path in sorted((root / "tests").rglob("test_*.py")) if _CUDA in path.read_text("utf-8")]
    else:
        found = [
            path for path in sorted((root / "tests" / "kernels").glob("test_*.py")) if path.name not in _NOT_ON_A_NODE
        ]
    return [str(path.relative_to(root)) for path in found]


def command(python: str, report: Path, names: Sequence[str], device: str) -> list[str]:
    """Return pytest's command line; it writes its report as JUnit XML."""
    chosen = "cuda" if device == "cuda" else "not cuda and not slow"
    options = ["-q", "-m", chosen, "-p", "no:cacheprovider", "-p", "pytest_timeout", f"--junitxml={report}"]
    return [python, "-m", "pytest", *options, *names]


def summarise(report: Path, to: Path) -> dict[str, object] | None:
    """Write pytest's report as JSON: counts, and the first line of every failure; return it.

    Where pytest wrote none, or was killed while it wrote, an earlier one is removed too, and None returned.
    """
    to.unlink(missing_ok=True)
    try:
        cases = list(ET.parse(report).getroot().iter("testcase"))
    except (OSError, ET.ParseError):
        return None
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    failures, skips = [], set()
    for case in cases:
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        skipped = case.find("skipped")
        if bad is not None:
            counts["failed"] += 1
            failures.append([name, (bad.get("message") or "no message").splitlines()[0][:300]])
        elif skipped is not None:
            counts["skipped"] += 1
            skips.add(skipped.get("message") or "no reason")
        else:
            counts["passed"] += 1
    found: dict[str, object] = {**counts, "failures": failures, "reasons": sorted(skips)}
    replace_text(to, json.dumps(found, indent=1) + "\n")
    return found
