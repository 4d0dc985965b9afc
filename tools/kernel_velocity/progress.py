"""A progress bar on one line of a terminal, with the remaining time at the rate so far."""

from __future__ import annotations

import shutil
import time
from typing import TextIO

WIDTH = 24  # characters of the bar itself
CLEAR = "\r\x1b[K"  # to the line's start, and erase it


class ProgressBar:
    """A bar on `err`. Without `shown` (no terminal, or --quiet) it writes nothing."""

    def __init__(self, err: TextIO, *, shown: bool) -> None:
        self._err, self._shown, self._began = err, shown, time.monotonic()

    def show(self, what: str, done: float) -> None:
        """Show a label, and the share of the whole that is done, 0 to 1."""
        if not self._shown:
            return
        self._err.write(CLEAR + line(what, done, time.monotonic() - self._began)[: shutil.get_terminal_size()[0] - 1])
        self._err.flush()

    def clear(self) -> None:
        """Erase the bar."""
        if self._shown:
            self._err.write(CLEAR)
            self._err.flush()


def line(what: str, done: float, spent: float) -> str:
    """Return the line: `[######......] what, 12 s left`.

    Args:
        what: the label. done: share of the whole, 0 to 1. spent: s so far.
    """
    left = f", {spent / done * (1 - done):.0f} s left" if done > 0 else ""
    filled = int(WIDTH * done)
    return f"[{'#' * filled}{'.' * (WIDTH - filled)}] {what}{left}"
