"""Reads many results files in several processes: a first report reads thousands, and each takes 10 ms and more.

Every process numbers what it finds by itself; here these numbers become the cache's.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from kernel_velocity import forking
from kernel_velocity.results import reader
from kernel_velocity.series import packing
from kernel_velocity.series.packing import ENTRY, ROUND, Names, Numbers, Packed

FEWEST = 100  # files to a process; fewer are read sooner than another process has started
_AT_ONCE = 16  # files that are sent back together, with what their numbers stand for


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
    processes = max(1, min(len(os.sched_getaffinity(0)), len(paths) // FEWEST)) if forking.is_possible() else 1
    shares = [paths[first::processes] for first in range(processes)]
    with contextlib.ExitStack() as stack:
        helpers = [stack.enter_context(_helper(share)) for share in shares[1:]]
        yield from (read_one(path, names) for path in shares[0])
        for said in helpers:
            yield from said(names)


@contextlib.contextmanager
def _helper(paths: Sequence[Path]) -> Iterator[Callable[[Names], Iterator[Read]]]:
    """Read files in another process. What it says goes through a file: a full pipe would make it wait.

    Yields:
        what yields what the files say.
    """
    with tempfile.TemporaryFile() as said, forking.begun(partial(_read_into, said, paths)) as end:

        def read_(names: Names) -> Iterator[Read]:
            end()
            said.seek(0)
            for _ in range(0, len(paths), _AT_ONCE):
                found, theirs = pickle.load(said)
                yield from map(_renumbering(theirs, names), found)

        yield read_


def _read_into(said: IO[bytes], paths: Sequence[Path]) -> None:
    """Read files, and write what they say, pickled, with what its numbers stand for."""
    for start in range(0, len(paths), _AT_ONCE):
        names = Names()
        found = [read_one(path, names) for path in paths[start : start + _AT_ONCE]]
        pickle.dump((found, names), said)
    said.flush()


def read_one(path: Path, names: Names) -> Read:
    """Return what a results file says."""
    notes: list[str] = []
    file = reader.read_file(path, notes)
    nothing = Packed(entries=np.zeros(0, ENTRY), rounds=np.zeros(0, ROUND))
    packed = nothing if file is None else packing.pack(file, names)
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
    return np.array([packing.NOTHING, *(ours.of(thing) for thing in theirs.things)], np.int32)
