"""Hooks of mkdocs: write the page of commands from `--help`, and refuse a page that would ask a network."""

from __future__ import annotations

import io
import os
import re
from typing import Any

from mkdocs.exceptions import PluginError

from kernel_velocity.__main__ import main

PAGE, MARKER = "reference/commands.md", "<!-- commands -->"
WIDTH = 78  # letters of a line of help
SUBCOMMAND = re.compile(r"^    ([a-z-]+)(?: |$)", re.MULTILINE)  # a line of argparse's list of them
EXTERNAL = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
SCRIPTED = 'class="mermaid"'  # the theme fetches the script that draws it


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put every command's help into its page."""
    return markdown.replace(MARKER, commands()) if page.file.src_uri == PAGE else markdown


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Refuse a page that loads anything from a network.

    Raises:
        PluginError: it names the page and the element.
    """
    if external := EXTERNAL.search(output):
        raise PluginError(f"{page.file.src_uri}: {external[0][:200]}: pages load nothing from a network")
    if SCRIPTED in output:
        raise PluginError(f"{page.file.src_uri}: Mermaid is drawn by a script from a network: use a picture")
    return output


def commands(*words: str) -> str:
    """Return the help of a command and of its subcommands as sections in Markdown. Without words: of all commands."""
    text = help_of(*words)
    section = f"## {' '.join(('kv', *words))}\n\n```text\n{text}```\n\n"
    return section + "".join(commands(*words, name) for name in SUBCOMMAND.findall(text))


def help_of(*words: str) -> str:
    """Return what a command prints for `--help`."""
    os.environ["COLUMNS"] = str(WIDTH)
    out = io.StringIO()
    main([*words, "--help"], out, out)
    return out.getvalue()
