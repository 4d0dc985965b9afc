"""The interactive charts' library, uPlot, which the package holds (tools/hatch_build.py)."""

from __future__ import annotations

from pathlib import Path

from kernel_velocity.errors import UsageError

FOLDER = Path(__file__).parent / "uplot"
FILES = ("uPlot.iife.min.js", "uPlot.min.css")


def files() -> dict[str, bytes]:
    """Return uPlot's script and style sheet by name.

    Raises:
        UsageError: the package was not installed, so it lacks them.
    """
    for path in (FOLDER / name for name in FILES):
        if not path.is_file():
            package = Path(__file__).parents[3]
            raise UsageError(f"{path}: the charts' library is missing: install the package, `pip install -e {package}`")
    return {name: (FOLDER / name).read_bytes() for name in FILES}
