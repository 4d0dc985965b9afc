"""Reads many results files in several processes: a first report reads thousands, and each takes 10 ms and more.

Every process numbers what it finds by itself; here these numbers become the cache's.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from tools import asv_results, entries
from tools.entries import ENTRY, ROUND, Names, Numbers, Packed

FEWEST = 100  # files to a process; fewer are read sooner than another process has started
_AT_ONCE = 16  # files that are sent back together, with what their numbers stand for
_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, kw_only=True)
class Read:
    """A results file as it was read."""

    path: Path
    commit: str  # full SHA; empty where the file cannot be read
    notes: tuple[str, ...]
    packed: Packed
    hardware: Mapping[str, str]  # of `ResultsFile`


def read(paths: Sequence[Path], names: Names) -> Iterator[Read]:
    """Yield what results files say, in any order; what is new in them gets a number of `names`."""
    processes = max(1, min(len(os.sched_getaffinity(0)), len(paths) // FEWEST))
    shares = [paths[first::processes] for first in range(processes)]
    helpers = [_Helper(share) for share in shares[1:]]
    try:
        yield from (read_one(path, names) for path in shares[0])
        for helper in helpers:
            yield from helper.read(names)
    finally:
        for helper in helpers:
            helper.end()


class _Helper:
    """A process that reads some of the files. What it says goes through a file: a full pipe would make it wait."""

    # Note: multiprocessing's pools start their processes with the caller's main script, and a script without a guard
    # would run again in each of them
    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # `end` closes it
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tools.reading_apart import main; main()"],
            stdin=subprocess.PIPE,
            stdout=self._said,
            cwd=_ROOT,
        )
        # One that died at once no longer listens; `read` then finds its status
        with contextlib.suppress(BrokenPipeError), self._process.stdin or self._said as asked:
            pickle.dump([path.resolve() for path in paths], asked)

    def read(self, names: Names) -> Iterator[Read]:
        """Yield what it read; where it failed, what its files say all the same."""
        if self._process.wait():
            yield from (read_one(path, names) for path in self._paths)
            return
        self._said.seek(0)
        for start in range(0, len(self._paths), _AT_ONCE):
            found, theirs = pickle.load(self._said)
            renumber = _renumbering(theirs, names)
            for path, each in zip(self._paths[start : start + _AT_ONCE], found, strict=True):
                yield replace(renumber(each), path=path)

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._said.close()


def main() -> None:
    """Be a helper: read the files whose names come on stdin, pickled, and write what they say to stdout."""
    paths: list[Path] = pickle.load(sys.stdin.buffer)
    for start in range(0, len(paths), _AT_ONCE):
        names = Names()
        found = [read_one(path, names) for path in paths[start : start + _AT_ONCE]]
        pickle.dump((found, names), sys.stdout.buffer)


def read_one(path: Path, names: Names) -> Read:
    """Return what a results file says."""
    notes: list[str] = []
    file = asv_results.read_file(path, notes)
    nothing = Packed(entries=np.zeros(0, ENTRY), rounds=np.zeros(0, ROUND))
    packed = nothing if file is None else entries.pack(file, names)
    return Read(
        path=path,
        commit="" if file is None else file.commit,
        notes=tuple(notes),
        packed=packed,
        hardware={} if file is None else file.hardware,
    )


def _renumbering(theirs: Names, ours: Names) -> Callable[[Read], Read]:
    """Return what gives a file our numbers in place of another process'."""
    series, texts, remarks = (
        _numbers(getattr(theirs, kind), getattr(ours, kind)) for kind in ("series", "texts", "remarks")
    )
    columns = {"series": series, "remark": remarks} | dict.fromkeys(("method", "interval_method", "code"), texts)

    def renumber(read_: Read) -> Read:
        for name, numbers in columns.items():
            read_.packed.entries[name] = numbers[read_.packed.entries[name]]
        read_.packed.rounds["launch"] = texts[read_.packed.rounds["launch"]]
        return read_

    return renumber


def _numbers(theirs: Numbers[Any], ours: Numbers[Any]) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.array([entries.NOTHING, *(ours.of(thing) for thing in theirs.things)], np.int32)
