"""The interactive charts' library, uPlot, which the package holds (tools/hatch_build.py)."""

from __future__ import annotations

from pathlib import Path

from kernel_velocity.errors import UsageError

FOLDER = Path(__file__).parent / "uplot"
FILES = ("uPlot.iife.min.js", "uPlot.min.css")


def files() -> tuple[Path, ...]:
    """Return uPlot's script and style sheet, in the order of FILES.

    Raises:
        UsageError: the package was not installed, so it lacks them.
    """
    paths = tuple(FOLDER / name for name in FILES)
    for path in paths:
        if not path.is_file():
            package = Path(__file__).parents[3]
            raise UsageError(f"{path}: the charts' library is missing: install the package, `pip install -e {package}`")
    return paths
