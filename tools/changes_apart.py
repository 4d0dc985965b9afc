"""Finds the change points of many series in two processes, as a first report has to.

Another process finds those of every second series while this one finds the others and makes the pages.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tools import series_changes
from tools.changepoints_values import ChangePoint
from tools.columns import Columns
from tools.measurements import SeriesKey
from tools.series_changes import Logs

FEWEST = 250_000  # values in all; the change points of fewer are found sooner than a process has started
_ROOT = Path(__file__).resolve().parent.parent

Found = tuple[ChangePoint, ...]


class Finder:
    """The change points of some series, found when they are asked for or before."""

    def __init__(self, keys: Sequence[SeriesKey], series: Callable[[SeriesKey], Columns]) -> None:
        """Begin; `series` returns the columns of one of `keys`."""
        self._series = series
        many = sum(len(series(key)) for key in keys) >= FEWEST and len(os.sched_getaffinity(0)) > 1
        self._theirs = list(keys[1::2]) if many else []  # still to come, in the order of coming
        self._come: dict[SeriesKey, Found] = {}
        self._said: Iterator[Found] = self._start() if many else iter(())

    def of(self, key: SeriesKey) -> Found:
        """Return the change points of a series; where the other process failed, they are found here."""
        while self._theirs and key not in self._come and key in self._theirs:
            try:
                self._come[self._theirs[0]] = next(self._said)
            except (StopIteration, EOFError, pickle.UnpicklingError):
                self._theirs = []
            else:
                del self._theirs[0]
        if key not in self._come:
            self._come[key] = series_changes.of(self._series(key))
        return self._come[key]

    def _start(self) -> Iterator[Found]:
        with tempfile.TemporaryFile() as asked:  # a pipe would make this process wait until the other has begun
            pickle.dump([series_changes.logs(self._series(key)) for key in self._theirs], asked)
            asked.seek(0)
            process = subprocess.Popen(
                [sys.executable, "-c", "from tools.changes_apart import main; main()"],
                stdin=asked,
                stdout=subprocess.PIPE,
                cwd=_ROOT,
            )
        weakref.finalize(self, _end, process)
        return _answers(process)


def _answers(process: subprocess.Popen[bytes]) -> Iterator[Found]:
    if process.stdout is not None:
        while True:
            yield pickle.load(process.stdout)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the other process, whatever it does."""
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def main() -> None:
    """Be the other process: find the change points of the series that come on stdin, pickled, one after the other."""
    asked: list[Logs] = pickle.load(sys.stdin.buffer)
    for each in asked:
        pickle.dump(series_changes.within(each), sys.stdout.buffer)
        sys.stdout.buffer.flush()
