"""A comparison as one page that needs nothing else: style, script and Bokeh's own script stand in it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import bokeh
from markupsafe import Markup

from kernel_velocity.compare.formats import html as compare_formats_page
from kernel_velocity.compare.result import Comparison
from kernel_velocity.roofline.model import Roofs
from kernel_velocity.site.report import TEMPLATES, page_templates


def as_html(comparison: Comparison, roofs: Roofs | None = None) -> str:
    """Return the page.

    Args:
        comparison: what was found.
        roofs: of the device it ran on; without them the plot has what the rows' rooflines say of the roofs.
    """
    page = compare_formats_page.build(comparison, roofs)
    text = (
        page_templates()
        .get_template("compare.html")
        .render(page=page, style=_static("style.css"), paint=_static("chart_paint.js"), bokeh=_bokeh())
    )
    # JSON can hold half of a surrogate pair, UTF-8 cannot: it becomes a question mark
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _static(name: str) -> Markup:
    """Return a file of our own, to stand in the page."""
    return Markup((TEMPLATES / "static" / name).read_text(encoding="utf-8"))


@cache
def _bokeh() -> Markup:
    """Return Bokeh's script (from the installed package: no CDN)."""
    path = Path(bokeh.__file__).parent / "server/static/js/bokeh.min.js"
    return Markup(within_script(path.read_text(encoding="utf-8")))


def within_script(text: str) -> str:
    """Return JavaScript that cannot end, or swallow the end of, the element it stands in.

    Neither sequence is JavaScript but in strings and regular expressions, where a backslash in them changes nothing.
    """
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")
