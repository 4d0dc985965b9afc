"""What a live comparison is written as: JSON, Markdown, HTML, and the JSON of Google Benchmark and of nvbench.

    as_json(comparison, samples=False)   formats/json.py says which keys there are
    as_markdown(comparison)              tables for the comment of a pull request
    as_gbench(comparison)                for Google Benchmark's compare/command.py
    as_nvbench(comparison)               for nvbench's nvbench_compare.py
    as_html(comparison, roofs=None)      one page, readable offline

All return text that ends with a line break; writing it is the caller's (files.py).
"""

from __future__ import annotations

import importlib

from kernel_velocity.compare.formats.google_benchmark import as_gbench
from kernel_velocity.compare.formats.json import as_json
from kernel_velocity.compare.formats.markdown import as_markdown
from kernel_velocity.compare.formats.nvbench import as_nvbench
from kernel_velocity.compare.result import Comparison
from kernel_velocity.roofline.model import Roofs

__all__ = ["as_gbench", "as_html", "as_json", "as_markdown", "as_nvbench"]


def as_html(comparison: Comparison, roofs: Roofs | None = None) -> str:
    """Return the comparison as one page (`formats.html`, imported late: Bokeh takes half a second)."""
    page: str = importlib.import_module("kernel_velocity.compare.formats.html").as_html(comparison, roofs)
    return page
