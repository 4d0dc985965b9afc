"""What a live comparison is written as: JSON, CSV, Markdown, HTML, and the JSON of Google Benchmark and of nvbench.

    as_json(comparison, samples=False)   compare_formats_json says which keys there are
    as_csv(comparison)                   a row per implementation and test case, units in the header
    as_markdown(comparison)              tables for the comment of a pull request
    as_gbench(comparison)                for Google Benchmark's compare/command.py
    as_nvbench(comparison)               for nvbench's nvbench_compare.py
    as_html(comparison, roofs=None)      one page, readable offline; needs Bokeh and SciPy (extra `track`)

All return text that ends with a line break; writing it is the caller's (files.py).
"""

from __future__ import annotations

import importlib
import importlib.util

from kernel_velocity.compare.formats.csv import as_csv
from kernel_velocity.compare.formats.google_benchmark import as_gbench
from kernel_velocity.compare.formats.json import as_json
from kernel_velocity.compare.formats.markdown import as_markdown
from kernel_velocity.compare.formats.nvbench import as_nvbench
from kernel_velocity.compare.result import Comparison
from kernel_velocity.errors import UsageError
from kernel_velocity.roofline.model import Roofs

__all__ = ["as_csv", "as_gbench", "as_html", "as_json", "as_markdown", "as_nvbench"]

_NEEDED = ("bokeh", "jinja2", "scipy", "git")  # of the extra `track`; git comes with GitPython, which pages use


def as_html(comparison: Comparison, roofs: Roofs | None = None) -> str:
    """Return the comparison as one page; see `compare_formats_html.as_html`.

    Raises:
        UsageError: what pages need is not installed.
    """
    absent = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        raise UsageError(f"--html: {', '.join(absent)} not installed; pages need the extra `track` (make venv)")
    page: str = importlib.import_module("kernel_velocity.compare.formats.html").as_html(comparison, roofs)
    return page
