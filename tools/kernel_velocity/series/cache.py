"""What reports keep of the results files that they have read, so that the next one reads only what changed.

One SQLite file, safe to delete: it holds nothing that the results directory does not say. One row a results file: what
the file looked like when it was read (`Signature`), its values as arrays (series/packing.py), and what could not be
read. A run changes it in transactions, so that one that is killed leaves what was there before.

A cache that is damaged, of another results directory or repository, or made by other code than this is made anew.

Brings a cache up to date with a results directory: only files that changed since they were read are read again.

The code that a report is made by: what is kept between reports is only as good as long as it is the same.

All of it, not a list: which modules a cached value follows from is more than anybody keeps in mind.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kernel_velocity.results import failures, reader, sessions
from kernel_velocity.results.records import Benchmark, Machine
from kernel_velocity.series import parallel
from kernel_velocity.series.packing import ENTRY, FREED, ROUND, Entries, Names, Numbers, Packed

NAME = "report.sqlite"
_PATIENCE = 60.0  # s to wait for another report that is writing
_PAGE = 32768  # bytes; blobs of 50 kB and more are chains of pages
_SCHEMA = (
    "CREATE TABLE made (identity TEXT NOT NULL)",
    "CREATE TABLE name (kind TEXT NOT NULL, number INTEGER NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, number))",
    "CREATE TABLE file (path TEXT PRIMARY KEY, signature TEXT NOT NULL, sha TEXT NOT NULL, notes TEXT NOT NULL,"
    " hardware TEXT NOT NULL, entries BLOB NOT NULL, rounds BLOB NOT NULL)",
    "CREATE TABLE freed (path TEXT PRIMARY KEY, entries BLOB NOT NULL)",
    "CREATE TABLE fit (series TEXT PRIMARY KEY, basis BLOB NOT NULL, value TEXT NOT NULL)",
)

_BESIDE = (".jsonl", failures.SUFFIX, sessions.SUFFIX)  # in the folder `telemetry`, of the same stem

_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What is known of a results file, but for its arrays."""

    signature: str  # size, times and inode of the file and of what lies beside it
    commit: str  # full SHA; empty where the file cannot be read
    notes: tuple[str, ...]
    hardware: Mapping[str, str]  # of `ResultsFile`


class Cache:
    """The cache of one results directory and repository; `names` says what the numbers in its arrays stand for.

    It is locked from its opening on until `close`; what was not followed by `save` is forgotten.
    """

    def __init__(self, folder: Path | None, results: Path, repository: Path) -> None:
        """Open the cache in a folder, or make it; without a folder it lasts as long as this object.

        Raises:
            OSError: it can be neither read nor written there, or another report is at it.
        """
        self.folder, self._identity = folder, _identity(results, repository)
        try:
            try:
                self._connection = self._opened()
            except sqlite3.DatabaseError as error:
                if folder is None or "locked" in str(error):
                    raise
                remove(folder)
                self._connection = self._opened()
        except sqlite3.Error as error:
            raise OSError(f"{folder}: {error}") from None
        self.names = self._read_names()
        self._saved = [len(numbers.things) for numbers in self._kinds().values()]

    def _opened(self) -> sqlite3.Connection:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
        where = ":memory:" if self.folder is None else self.folder / NAME
        connection = sqlite3.connect(where, timeout=_PATIENCE, isolation_level=None)
        try:
            connection.execute(f"PRAGMA page_size = {_PAGE}")
            connection.execute("BEGIN IMMEDIATE")
            if not connection.execute("SELECT name FROM sqlite_master").fetchall():
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute("INSERT INTO made VALUES (?)", [self._identity])
            elif connection.execute("SELECT identity FROM made").fetchall() != [(self._identity,)]:
                raise sqlite3.DatabaseError("of another results directory or repository, or made by other code")
            ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
            if self.folder is not None and 0 < (self.folder / NAME).stat().st_size != pages * _PAGE:
                raise sqlite3.DatabaseError("cut short")
        except BaseException:
            connection.close()
            raise
        return connection

    def _read_names(self) -> Names:
        listed = self._connection.execute("SELECT kind, value FROM name ORDER BY number").fetchall()
        values: dict[str, list[Any]] = {"series": [], "texts": [], "remarks": []}
        for kind, value in listed:
            values[kind].append(json.loads(value))
        return Names(
            series=Numbers([tuple(value) for value in values["series"]]),
            texts=Numbers(values["texts"]),
            remarks=Numbers([(reason, tuple(warnings)) for reason, warnings in values["remarks"]]),
        )

    def _kinds(self) -> dict[str, Numbers[Any]]:
        return {"series": self.names.series, "texts": self.names.texts, "remarks": self.names.remarks}

    def files(self) -> dict[str, Kept]:
        """Return what is kept of the results files, by path ("<machine>/<file>", in the results directory)."""
        rows = self._connection.execute("SELECT path, signature, sha, notes, hardware FROM file").fetchall()
        return {
            json.loads(path): Kept(
                signature=signature, commit=sha, notes=tuple(json.loads(notes)), hardware=json.loads(hardware)
            )
            for path, signature, sha, notes, hardware in rows
        }

    def put(self, path: str, kept: Kept, packed: Packed) -> None:
        """Keep a results file in place of what was kept of it."""
        row = [json.dumps(path), kept.signature, kept.commit, json.dumps(kept.notes), json.dumps(dict(kept.hardware))]
        blobs = [packed.entries.tobytes(), packed.rounds.tobytes()]
        self.remove(path)
        self._connection.execute("INSERT INTO file VALUES (?, ?, ?, ?, ?, ?, ?)", [*row, *blobs])

    def remove(self, path: str) -> None:
        """Forget a results file."""
        for statement in ("DELETE FROM file WHERE path = ?", "DELETE FROM freed WHERE path = ?"):
            self._connection.execute(statement, [json.dumps(path)])

    def entries(self, path: str) -> Entries:
        """Return the values of a results file."""
        return np.frombuffer(self._blob("SELECT entries FROM file WHERE path = ?", json.dumps(path)), dtype=ENTRY)

    def rounds(self, path: str) -> Entries:
        """Return the rounds of a results file."""
        return np.frombuffer(self._blob("SELECT rounds FROM file WHERE path = ?", json.dumps(path)), dtype=ROUND)

    def with_rounds(self) -> frozenset[str]:
        """Return the results files that have rounds."""
        found = self._connection.execute("SELECT path FROM file WHERE length(rounds) > 0").fetchall()
        return frozenset(json.loads(path) for (path,) in found)

    def _blob(self, query: str, key: str) -> bytes:
        ((blob,),) = self._connection.execute(query, [key]).fetchall()
        return bytes(blob)

    def freed(self, path: str) -> Entries | None:
        """Return what was computed of the entries of a results file, as it is now; None: nothing was."""
        found = self._connection.execute("SELECT entries FROM freed WHERE path = ?", [json.dumps(path)]).fetchone()
        return None if found is None else np.frombuffer(bytes(found[0]), dtype=FREED)

    def put_freed(self, path: str, entries: Entries) -> None:
        """Keep what was computed of the entries of a results file."""
        self._connection.execute("INSERT OR REPLACE INTO freed VALUES (?, ?)", [json.dumps(path), entries.tobytes()])

    def fits(self) -> dict[str, tuple[bytes, str]]:
        """Return (digest of what it was fitted on, what was fitted) of every series."""
        rows = self._connection.execute("SELECT series, basis, value FROM fit").fetchall()
        return {series: (bytes(basis), value) for series, basis, value in rows}

    def put_fit(self, series: str, basis: bytes, value: str) -> None:
        """Keep what was fitted of a series."""
        self._connection.execute("INSERT OR REPLACE INTO fit VALUES (?, ?, ?)", [series, basis, value])

    def save(self) -> None:
        """Make everything since the last `save` last."""
        for saved, (kind, numbers) in zip(self._saved, self._kinds().items(), strict=True):
            rows = [
                (kind, number, json.dumps(thing)) for number, thing in enumerate(numbers.things[saved:], start=saved)
            ]
            self._connection.executemany("INSERT INTO name VALUES (?, ?, ?)", rows)
        self._connection.execute("COMMIT")
        self._saved = [len(numbers.things) for numbers in self._kinds().values()]
        self._connection.execute("BEGIN IMMEDIATE")

    def close(self) -> None:
        """Let the cache go."""
        self._connection.close()


def remove(folder: Path) -> None:
    """Remove the cache of a folder."""
    for name in (NAME, f"{NAME}-journal"):
        (folder / name).unlink(missing_ok=True)


def _identity(results: Path, repository: Path) -> str:
    """Return what a cache has to be of: results directory, repository, format, and the code that made it."""
    where = [str(results.resolve()), str(repository.resolve())]
    return json.dumps([*where, ENTRY.descr, ROUND.descr, FREED.descr, digest()])


@dataclass(frozen=True, kw_only=True)
class Found:
    """A results directory, but for its values."""

    benchmarks: Mapping[str, Benchmark] | None  # None: benchmarks.json cannot be read
    machines: tuple[Machine, ...]
    commits: Mapping[str, str]  # path of a results file that could be read -> full SHA, in the order of reading
    notes: tuple[str, ...]
    hardware: Mapping[str, Mapping[str, str]]  # path -> what asv says that it ran on, of `commits`
    signatures: Mapping[str, str]  # path -> what changes with the file and with what lies beside it, of `commits`
    read: tuple[str, ...]  # paths of the results files that were read; the others were known

    def hardware_of(self, machine: str) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Yield (full SHA, hardware) of the results files of a machine."""
        for path, facts in self.hardware.items():
            if path.rpartition("/")[0] == machine:
                yield self.commits[path], facts


def update(cache: Cache, results: Path) -> Found:
    """Read what changed, forget what is gone; `cache.save` makes it last.

    Raises:
        ResultsError: `results` is no directory.
    """
    known = cache.files()
    notes: dict[str, tuple[str, ...]] = {}  # of machines, by folder, and of files, by path: in the order of reading
    commits: dict[str, str] = {}
    hardware: dict[str, Mapping[str, str]] = {}
    machines: list[Machine] = []
    signatures: dict[str, str] = {}
    changed: list[Path] = []
    for folder, paths in reader.folders(results):
        own: list[str] = []
        machines.append(reader.read_machine(folder, own))
        notes[folder.name] = tuple(own)
        looks, beside = _looks(folder), _looks(folder / "telemetry")
        for path in paths:
            signature, kept = _signature(path, looks, beside), known.pop(_name(path), None)
            notes[_name(path)] = () if kept is None else kept.notes
            commits[_name(path)] = "" if kept is None else kept.commit
            hardware[_name(path)] = {} if kept is None else kept.hardware
            signatures[_name(path)] = signature
            if kept is None or kept.signature != signature:
                changed.append(path)
    for name in known:
        cache.remove(name)
    for read in parallel.read(tuple(changed), cache.names):
        name = _name(read.path)
        kept = Kept(signature=signatures[name], commit=read.commit, notes=read.notes, hardware=dict(read.hardware))
        cache.put(name, kept, read.packed)
        notes[name], commits[name], hardware[name] = kept.notes, kept.commit, kept.hardware
    last: list[str] = []
    readable = {name: sha for name, sha in commits.items() if sha}
    benchmarks = reader.read_benchmarks(results / "benchmarks.json", last) if readable else {}
    return Found(
        benchmarks=benchmarks,
        machines=tuple(machines),
        commits=readable,
        notes=(*(note for several in notes.values() for note in several), *last),
        hardware={name: hardware[name] for name in readable},
        signatures={name: signatures[name] for name in readable},
        read=tuple(_name(path) for path in changed),
    )


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _looks(folder: Path) -> dict[str, str]:
    """Return what says that a file is still the one that was read, by name; ctime changes whatever else is kept."""
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as listed:
        found = {}
        for entry in listed:
            about = entry.stat()
            found[entry.name] = f"{about.st_size} {about.st_mtime_ns} {about.st_ctime_ns} {about.st_ino}"
    return found


def _signature(path: Path, looks: Mapping[str, str], beside: Mapping[str, str]) -> str:
    return "|".join([looks.get(path.name, ""), *(beside.get(f"{path.stem}{suffix}", "") for suffix in _BESIDE)])


def sources(root: Path = _PACKAGE) -> tuple[Path, ...]:
    """Return the files of this package: the analysis, and the measuring engine, whose statistics it shares."""
    return tuple(sorted(root.rglob("*.py")))


@cache
def digest(root: Path = _PACKAGE) -> str:
    """Return what changes whenever any of `sources` does; read once, as a running program's code stays as it is."""
    found = hashlib.sha256()
    for path in sources(root):
        found.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return found.hexdigest()
