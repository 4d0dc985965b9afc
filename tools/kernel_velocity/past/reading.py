"""Bring the cache up to date with a results directory: read files that changed, remove files that are gone.

A first report reads thousands of files, of 10 ms and more each, so several processes read them. Each numbers series and
texts by itself. These numbers are translated to those of the cache.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from kernel_velocity import forking, progress
from kernel_velocity.past import packing
from kernel_velocity.past.cache import Cache, FileFacts
from kernel_velocity.past.packing import ENTRY, ROUND, TRACKED, Names, Packed
from kernel_velocity.results import reader, sessions
from kernel_velocity.results.lines import FAILURES
from kernel_velocity.results.records import Benchmark, Machine

_NUMBER = re.compile(r"\d+")
FILES_A_PROCESS = 100  # at least: fewer are read sooner than another process has started
_AT_ONCE = 16  # files that are sent back together, with the names of their numbers
_BESIDE = (".jsonl", FAILURES, sessions.SUFFIX)  # in the folder `telemetry`, of the same stem


@dataclass(frozen=True, kw_only=True)
class Directory:
    """A results directory, without its values. Paths are "<machine>/<file>"."""

    benchmarks: Mapping[str, Benchmark] | None  # None: benchmarks.json cannot be read
    machines: tuple[Machine, ...]
    files: Mapping[str, FileFacts]  # by path, of the results files that could be read, in the order of reading
    notes: tuple[str, ...]
    read: tuple[str, ...]  # paths of the results files that were read now; the cache had the others

    @property
    def commits(self) -> dict[str, str]:
        """Path -> full SHA."""
        return {path: facts.commit for path, facts in self.files.items()}

    def of_machine(self, machine: str) -> Iterator[FileFacts]:
        """Yield the facts of the results files of a machine."""
        yield from (facts for path, facts in self.files.items() if path.rpartition("/")[0] == machine)


def update(cache: Cache, results: Path, commits: Collection[str] | None = None) -> Directory:
    """Read the files that changed, and remove those that are gone. `cache.save` makes it last.

    Args:
        commits: full SHAs. With them, no results file of another commit is read, nor any machine without one.

    Raises:
        ResultsError: `results` is no directory.
    """
    cached = cache.files()
    files: dict[str, FileFacts | None] = {}  # in the order of reading; None: to be read
    notes: dict[str, list[str]] = {}  # by machine
    machines: list[Machine] = []
    signatures: dict[Path, str] = {}  # of the files to be read
    prefixes = None if commits is None else {sha[:8] for sha in commits}
    for folder, paths in reader.folders(results):
        wanted = [path for path in paths if prefixes is None or path.name[:8] in prefixes]
        if prefixes is not None and not wanted:
            continue
        machines.append(reader.read_machine(folder, notes.setdefault(folder.name, [])))
        looks, beside = _looks(folder), _looks(folder / "telemetry")
        for path in wanted:
            telemetry = (beside.get(f"{path.stem}{suffix}", "") for suffix in _BESIDE)
            signature, facts = "|".join([looks.get(path.name, ""), *telemetry]), cached.pop(_name(path), None)
            files[_name(path)] = facts if facts is not None and facts.signature == signature else None
            if files[_name(path)] is None:
                signatures[path] = signature
    for name in cached:
        cache.remove(name)
    for path, facts, packed in _read_all(signatures, cache.names):
        cache.put(_name(path), facts, packed)
        files[_name(path)] = facts
    present = {name: facts for name, facts in files.items() if facts is not None}
    for name, facts in present.items():
        notes[name.rpartition("/")[0]] += facts.notes
    readable = {
        name: facts for name, facts in present.items() if facts.commit and (commits is None or facts.commit in commits)
    }
    last: list[str] = []
    benchmarks = reader.read_benchmarks(results / "benchmarks.json", last) if readable else {}
    return Directory(
        benchmarks=benchmarks,
        machines=tuple(machines),
        files=readable,
        notes=tuple(by_cause([*(note for several in notes.values() for note in several), *last])),
        read=tuple(map(_name, signatures)),
    )


def by_cause(notes: Sequence[str]) -> Iterator[str]:
    """Yield the first note of each cause, and how many more there are. A note is "<where>: <cause>, got <what>"."""
    causes: dict[str, list[str]] = {}
    for note in notes:
        cause = _NUMBER.sub("#", note.partition(": ")[2].partition(", got ")[0])
        causes.setdefault(cause, []).append(note)
    for several in causes.values():
        yield several[0] + (f" (and {len(several) - 1:,} more of this kind)" if len(several) > 1 else "")


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _looks(folder: Path) -> dict[str, str]:
    """Return a text for each file that changes with it: ctime changes even where mtime and size are preserved."""
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as entries:
        looks = {}
        for entry in entries:
            with contextlib.suppress(OSError):  # a link to nothing, or to itself: the reader names it
                stat = entry.stat()
                looks[entry.name] = f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}"
    return looks


Read = tuple[Path, FileFacts, Packed]


def _read_all(signatures: Mapping[Path, str], names: Names) -> Iterator[Read]:
    """Yield the contents of results files, in any order. New series and texts get a number of `names`."""
    pairs = list(signatures.items())
    processes = max(1, min(len(os.sched_getaffinity(0)), len(pairs) // FILES_A_PROCESS)) if forking.is_possible() else 1
    shares = [pairs[first::processes] for first in range(processes)]
    with contextlib.ExitStack() as stack:
        helpers = [stack.enter_context(_helper(share)) for share in shares[1:]]
        yield from (_read(path, signature, names) for path, signature in progress.counted("reading results", shares[0]))
        for read in helpers:
            yield from read(names)


def _read(path: Path, signature: str, names: Names) -> Read:
    notes: list[str] = []
    file = reader.read_file(path, notes)
    if file is None:
        packed = Packed(entries=np.zeros(0, ENTRY), rounds=np.zeros(0, ROUND), tracked=np.zeros(0, TRACKED))
    else:
        packed = packing.pack(file, names)
    facts = FileFacts(
        signature=signature,
        commit="" if file is None else file.commit,
        notes=tuple(notes),
        hardware={} if file is None else file.hardware,
        sessions=() if file is None else tuple(map(sessions.encode, file.sessions)),
    )
    return path, facts, packed


@contextlib.contextmanager
def _helper(pairs: Sequence[tuple[Path, str]]) -> Iterator[Callable[[Names], Iterator[Read]]]:
    """Read files in another process, which writes to a file, because a full pipe would make it wait.

    Yields:
        a function that yields the contents of the files.
    """
    with tempfile.TemporaryFile() as stream, forking.forked(partial(_read_into, stream, pairs)) as end:

        def read(names: Names) -> Iterator[Read]:
            end()
            stream.seek(0)
            for _ in range(0, len(pairs), _AT_ONCE):
                several, theirs = pickle.load(stream)
                yield from map(_renumbering(theirs, names), several)

        yield read


def _read_into(stream: IO[bytes], pairs: Sequence[tuple[Path, str]]) -> None:
    """Read files, and pickle their contents with the names of its numbers."""
    for start in range(0, len(pairs), _AT_ONCE):
        names = Names()
        several = [_read(path, signature, names) for path, signature in pairs[start : start + _AT_ONCE]]
        pickle.dump((several, names), stream)
    stream.flush()


def _renumbering(theirs: Names, ours: Names) -> Callable[[Read], Read]:
    """Return a function that translates the numbers of another process to ours."""
    series, texts = ours.series.of_all(theirs.series), ours.texts.of_all(theirs.texts)
    remarks = ours.remarks.of_all(theirs.remarks)
    columns = {"series": series, "remark": remarks} | dict.fromkeys(("method", "interval_method", "code"), texts)

    def renumber(read: Read) -> Read:
        packed = read[2]
        for name, numbers in columns.items():
            packed.entries[name] = numbers[packed.entries[name]]
        packed.rounds["launch"] = texts[packed.rounds["launch"]]
        packed.tracked["series"] = series[packed.tracked["series"]]
        return read

    return renumber
