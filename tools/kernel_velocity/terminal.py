"""Where text leaves the program: foreign letters that control a terminal are written as escapes.

Names, errors and output of compilers come from others. An escape sequence in one would set a title, clear the screen or
hide a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TextIO, cast

# Letters of control but tab and line break, those that turn the direction of text, and halves of surrogate pairs
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Control(str):
    """Text of ours that controls a terminal, such as the erasing of a progress bar. It is written as it is."""

    __slots__ = ()


_COLOUR = re.compile(r"\x1b\[[\d;]*m")


def uncoloured(text: str) -> str:
    """Return a text of another program without its colours."""
    return _COLOUR.sub("", text)


def escaped(text: str) -> str:
    """Return text without letters that control a terminal. JSON has the same escapes, so a document stays the same."""
    return _CONTROLS.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


class Screen:
    """A stream whose text is `escaped`. All else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text, and return its length."""
        self._stream.write(text if isinstance(text, Control) else escaped(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def screen(stream: TextIO) -> TextIO:
    """Return a stream that writes to another one, `escaped`. Letters that its encoding lacks are escapes, too."""
    if isinstance(stream, Screen):
        return stream
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    return cast("TextIO", Screen(stream))
