"""Foreign text in Markdown: in code spans, where nothing is markup and no name becomes a mention or a link."""

from __future__ import annotations

import re

_BREAKS_A_SPAN = re.compile(r"[`|\\]")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 ]")


def literal(text: str) -> str:
    """Return foreign text so that Markdown shows it as it is, on one line.

    What would end a span or a cell is written as character references inside <code> instead.
    """
    line = " ".join(text.split())
    line = "".join(character for character in line if character.isprintable())
    if not line:
        return "–"
    if _BREAKS_A_SPAN.search(line):
        return f"<code>{_NOT_PLAIN.sub(_reference, line)}</code>"
    return f"`{line}`"


def _reference(found: re.Match[str]) -> str:
    return f"&#{ord(found.group())};"
