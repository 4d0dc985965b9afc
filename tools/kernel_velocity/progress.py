"""Show how much of a long command is done: a bar on one line of a terminal, else a line of text now and then.

`counted` counts what a loop does. Only a command's main process shows it, and only where it takes long (`reported`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TextIO, TypeVar

from kernel_velocity.terminal import Control, escaped

QUIET = 2.0  # s from a command's start in which no bar is shown
REDRAWN = 0.1  # s between two bars
LINES = 30.0  # s between two lines where there is no terminal

Counted = TypeVar("Counted")


class _Report:
    """The progress of one command."""

    def __init__(self, err: TextIO, clock: Callable[[], float]) -> None:
        self._err, self._clock, self._process = err, clock, os.getpid()
        self._is_terminal = err.isatty()
        self._next = clock() + (QUIET if self._is_terminal else LINES)
        self._what, self._began, self._bar = "", 0.0, ProgressBar(err, shown=False)

    def show(self, what: str, done: int, total: int) -> None:
        now = self._clock()
        if what != self._what or not done:
            self._what, self._began, self._bar = what, now, ProgressBar(self._err, shown=self._is_terminal)
        if now < self._next or os.getpid() != self._process:  # a forked child's part is as large as its parent's
            return
        words, share = f"{what}: {done:,} of {total:,}", done / total
        if self._is_terminal:
            self._bar.show(words, share)
        else:
            print(f"{words}{left(share, now - self._began)}", file=self._err, flush=True)
        self._next = now + (REDRAWN if self._is_terminal else LINES)

    def end(self) -> None:
        self._bar.clear()


_reports: list[_Report] = []  # of the running command, if it shows its progress


@contextlib.contextmanager
def reported(err: TextIO, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Show on `err` what is counted while the body runs, if it takes long. `clock` returns s."""
    _reports.append(_Report(err, clock))
    try:
        yield
    finally:
        _reports.pop().end()


def counted(what: str, several: Collection[Counted]) -> Iterator[Counted]:
    """Yield several values. The progress says that so many of them are done.

    Args:
        what: a label, such as "reading results files".
    """
    return shown(what, enumerate(several), len(several))


def shown(what: str, numbered: Iterable[tuple[int, Counted]], total: int) -> Iterator[Counted]:
    """Yield values whose numbers, from 0 on, say how many of the total are done."""
    for number, value in numbered:
        if _reports:
            _reports[-1].show(what, number, total)
        yield value


# The bar, with the remaining time at the rate so far ------------------------------------------------------------------

WIDTH = 24  # characters of the bar itself
CLEAR = Control("\r\x1b[K")  # to the line's start, and erase it


class ProgressBar:
    """A bar on `err`. Without `shown` (no terminal, or --quiet) it writes nothing."""

    def __init__(self, err: TextIO, *, shown: bool) -> None:
        self._err, self._shown, self._began = err, shown, time.monotonic()

    def show(self, what: str, done: float) -> None:
        """Show a label, and the share of the whole that is done, 0 to 1."""
        if not self._shown:
            return
        text = escaped(line(what, done, time.monotonic() - self._began))
        self._err.write(Control(CLEAR + text[: shutil.get_terminal_size()[0] - 1]))
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
    filled = int(WIDTH * done)
    return f"[{'#' * filled}{'.' * (WIDTH - filled)}] {what}{left(done, spent)}"


def left(done: float, spent: float) -> str:
    """Return how long the rest will take, `, 12 s left`. "" where nothing is done yet."""
    return f", {spent / done * (1 - done):.0f} s left" if done > 0 else ""
