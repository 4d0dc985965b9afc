"""A comparison as one page that needs nothing else: style, script and Bokeh's own script stand in it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import bokeh
from markupsafe import Markup

from tools import compare_formats_page
from tools.comparison import Comparison
from tools.report import TEMPLATES, page_templates
from tools.roofline import Roofs


def as_html(comparison: Comparison, roofs: Roofs | None = None) -> str:
    """Return the page.

    Args:
        comparison: what was found.
        roofs: of the device it ran on; without them the plot has what the rows' rooflines say of the roofs.
    """
    page = compare_formats_page.build(comparison, roofs)
    text = page_templates().get_template("compare.html").render(page=page, style=_style(), bokeh=_bokeh())
    # JSON can hold half of a surrogate pair, UTF-8 cannot: it becomes a question mark
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _style() -> Markup:
    return Markup((TEMPLATES / "static" / "style.css").read_text(encoding="utf-8"))


@cache
def _bokeh() -> Markup:
    """Return Bokeh's script (from the installed package: no CDN) so that it cannot end its own element.

    In a script's strings and regular expressions "\\/" is "/"; elsewhere neither sequence is JavaScript.
    """
    path = Path(bokeh.__file__).parent / "server/static/js/bokeh.min.js"
    text = path.read_text(encoding="utf-8")
    return Markup(text.replace("</script", "<\\/script").replace("<!--", "<\\!--"))
