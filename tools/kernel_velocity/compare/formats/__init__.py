"""What a comparison is written as. Imports the comparison's values and, for the page, the site's charts and templates.

json.py    JSON for scripts, with the list of its keys
html.py    one page with its charts, readable offline
"""

from __future__ import annotations

from kernel_velocity.compare.formats.json import as_json
from kernel_velocity.compare.result import Comparison

__all__ = ["as_html", "as_json"]


def as_html(comparison: Comparison) -> str:
    """Return the comparison as one page."""
    from kernel_velocity.compare.formats import html  # noqa: PLC0415 - needs Jinja2, which a node lacks

    return html.as_html(comparison)
