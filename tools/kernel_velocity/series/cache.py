"""What reports keep of the results files that they have read, so that the next one reads only what changed.

One SQLite file, safe to delete: it holds nothing that the results directory does not say. One row a results file: what
the file looked like when it was read (`Signature`), its values as arrays (series/packing.py), and what could not be
read. A run changes it in transactions, so that one that is killed leaves what was there before.

A cache that is damaged, of another results directory or repository, or made by other code than this is made anew.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernel_velocity.series import makers
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
    return json.dumps([*where, ENTRY.descr, ROUND.descr, FREED.descr, makers.digest()])
