"""What a comparison is written as. Imports the comparison's values and, for the page, the site's charts and templates.

json.py              JSON for scripts, with the list of its keys
markdown.py          tables for the comment of a pull request
google_benchmark.py  Google Benchmark's JSON, for its compare.py
nvbench.py           nvbench's JSON, for its nvbench_compare.py
html.py              one page, readable offline
charts.py            the charts of that page
"""

from __future__ import annotations

from kernel_velocity.compare.formats.google_benchmark import as_gbench
from kernel_velocity.compare.formats.json import as_json
from kernel_velocity.compare.formats.markdown import as_markdown
from kernel_velocity.compare.formats.nvbench import as_nvbench
from kernel_velocity.compare.result import Comparison

__all__ = ["as_gbench", "as_html", "as_json", "as_markdown", "as_nvbench"]


def as_html(comparison: Comparison) -> str:
    """Return the comparison as one page."""
    from kernel_velocity.compare.formats import html  # noqa: PLC0415 - needs Jinja2, which a node lacks

    return html.as_html(comparison)
